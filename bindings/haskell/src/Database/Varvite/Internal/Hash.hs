-- | Hashes of a context.
module Database.Varvite.Internal.Hash where

import qualified Data.ByteString as B
import qualified Data.ByteString.Short as S
import Data.Maybe (mapMaybe)
import qualified Data.Vector as V
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawContext hiding (hashText)
import qualified Database.Varvite.Internal.RawContext as Raw
import qualified Data.ByteString.Unsafe as U
import Foreign.C.Types (CSize)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import System.IO.Unsafe (unsafePerformIO)

-- | BLAKE2b-256, 32 bytes. 'show' gives its text.
newtype Hash = Hash S.ShortByteString
  deriving (Eq, Ord)

instance Show Hash where
  show = hashText

hashBytes :: Hash -> B.ByteString
hashBytes (Hash bytes) = S.fromShort bytes

-- | Of 32 bytes.
hashFromBytes :: B.ByteString -> Maybe Hash
hashFromBytes bytes
  | B.length bytes == sizeOfHash = Just (Hash (S.toShort bytes))
  | otherwise = Nothing

-- | As people see it: @Co…@, 52 letters.
hashText :: Hash -> String
hashText it = unsafePerformIO $ withHash it $ \raw -> allocaBytes 64 $ \text -> do
  call (Raw.hashText raw text)
  fromUtf8 <$> B.packCString text

-- | From such a text, or from 64 hexadecimal digits; else 'Database.Varvite.Error.Invalid'.
parseHash :: String -> IO Hash
parseHash text = withText text (outHash . hashParse)

withHash :: Hash -> (Ptr CHash -> IO a) -> IO a
withHash it action = U.unsafeUseAsCString (hashBytes it) (action . castPtr)

withHashes :: [Hash] -> (Ptr CHash -> CSize -> IO a) -> IO a
withHashes them action =
  U.unsafeUseAsCString (B.concat (map hashBytes them)) $ \start -> action (castPtr start) (fromIntegral (length them))

peekHash :: Ptr CHash -> IO Hash
peekHash it = Hash . S.toShort <$> B.packCStringLen (castPtr it, sizeOfHash)

outHash :: (Ptr CHash -> Failing) -> IO Hash
outHash function = allocaBytes sizeOfHash $ \it -> call (function it) >> peekHash it

-- | Answers of 32 bytes each.
hashes :: (Ptr CArena -> Failing) -> IO [Hash]
hashes function = mapMaybe hashFromBytes . V.toList <$> there function
