-- | Bytes in and out. Keys and values go in as they lie, since byte strings are pinned; answers are copied once, all of a
-- call into one block.
module Database.Varvite.Internal.Arena
  ( answers
  , answersBy
  , there
  , answer
  , texts
  , into
  , packed
  , bytesOf
  , keeping
  , withBytes
  , withBytesArray
  , withBytesOf
  , withText
  ) where

import Control.Exception (finally, mask)
import Control.Monad (unless, when)
import Control.Monad.Primitive (touch)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as I
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
import qualified Data.Vector.Mutable as M
import Data.Word (Word8)
import Database.Varvite.Error
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Foreign.C.Types (CChar, CSize)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytesAligned)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekElemOff, poke, pokeElemOff)
import qualified GHC.Foreign as Encoded
import GHC.IO.Encoding (utf8)

-- | A call with any number of answers, 'Nothing' where nothing is there.
answers :: (Ptr CArena -> Failing) -> IO (V.Vector (Maybe B.ByteString))
answers = answersBy pure

-- | The same, each turned into a value at once.
answersBy :: (B.ByteString -> IO a) -> (Ptr CArena -> Failing) -> IO (V.Vector (Maybe a))
answersBy decode function = allocaBytesAligned sizeOfArena 8 $ \arena -> do
  fillBytes arena 0 sizeOfArena
  mask $ \unmasked -> (call (function arena) >> unmasked (copied decode arena)) `finally` arenaFree arena nullPtr
{-# INLINE answersBy #-}

copied :: (B.ByteString -> IO a) -> Ptr CArena -> IO (V.Vector (Maybe a))
copied decode arena = do
  items <- arenaItems arena
  count <- fromIntegral <$> arenaCount arena
  total <- fromIntegral <$> arenaBytes arena
  block <- I.mallocByteString total
  arenaCopy arena (unsafeForeignPtrToPtr block)
  touchForeignPtr block
  made <- M.replicate count Nothing
  let go at offset
        | at == count = V.unsafeFreeze made
        | otherwise = do
            Bytes start length_ <- peekElemOff items at
            let size = fromIntegral length_
            unless (start == nullPtr) $ do
              it <- decode (I.fromForeignPtr block offset size)
              M.unsafeWrite made at (Just it)
            go (at + 1) (offset + size)
  go (0 :: Int) (0 :: Int)
{-# INLINE copied #-}

-- | Answers that are all there.
there :: (Ptr CArena -> Failing) -> IO (V.Vector B.ByteString)
there function = V.map (fromMaybe B.empty) <$> answers function

-- | The only answer.
answer :: (Ptr CArena -> Failing) -> IO (Maybe B.ByteString)
answer function = V.head <$> answers function

-- | Answers that are texts.
texts :: (Ptr CArena -> Failing) -> IO [String]
texts function = map fromUtf8 . V.toList <$> there function

-- | One answer that is mostly short: by the first function into memory of the call, and by the second one where it does not
-- fit, or something is wrong.
into :: (Ptr Word8 -> CSize -> Ptr CSize -> Failing) -> (Ptr CArena -> Failing) -> IO (Maybe B.ByteString)
into short long = do
  found <- allocaBytesAligned (capacity + 8) 8 $ \size -> do
    let buffer = size `plusPtr` 8
    -- Without room for an error, which is a kilobyte: the second function says what is wrong.
    status <- short buffer (fromIntegral capacity) size nullPtr
    length_ <- peek size
    if status /= 0
      then pure Nothing
      else
        if length_ == maxBound
          then pure (Just Nothing)
          else
            if length_ > fromIntegral capacity
              then pure Nothing
              else Just . Just <$> I.create (fromIntegral length_) (\it -> copyBytes it buffer (fromIntegral length_))
  maybe (answer long) pure found
 where
  capacity = 256 :: Int
{-# INLINE into #-}

-- | A copy of bytes that the library lends.
packed :: Bytes -> IO B.ByteString
packed (Bytes start length_) = B.packCStringLen (castPtr start, fromIntegral length_)

-- | Where a byte string lies; whoever uses it keeps the byte string.
bytesOf :: B.ByteString -> Bytes
bytesOf (I.PS start offset length_) = Bytes (unsafeForeignPtrToPtr start `plusPtr` offset) (fromIntegral length_)
{-# INLINE bytesOf #-}

-- | Keeps a byte string where it is until here.
keeping :: B.ByteString -> IO ()
keeping (I.PS start _ _) = touchForeignPtr start
{-# INLINE keeping #-}

withBytes :: B.ByteString -> (Ptr Bytes -> IO a) -> IO a
withBytes bytes action = alloca $ \it -> do
  poke it (bytesOf bytes)
  result <- action it
  keeping bytes
  pure result

withBytesArray :: V.Vector B.ByteString -> (Ptr Bytes -> CSize -> IO a) -> IO a
withBytesArray = withBytesOf id
{-# INLINE withBytesArray #-}

-- | What is made of each item, in an array.
withBytesOf :: (a -> B.ByteString) -> V.Vector a -> (Ptr Bytes -> CSize -> IO b) -> IO b
withBytesOf bytes items action = allocaBytesAligned (max 1 count * sizeOfBytes) 8 $ \array -> do
  held <- M.replicate count B.empty
  let go at = when (at < count) $ do
        let it = bytes (V.unsafeIndex items at)
        pokeElemOff array at (bytesOf it)
        M.unsafeWrite held at it
        go (at + 1)
  go 0
  result <- action array (fromIntegral count)
  touch held
  pure result
 where
  count = V.length items
{-# INLINE withBytesOf #-}

-- | A text for the library, which has no NUL inside.
withText :: String -> (Ptr CChar -> IO a) -> IO a
withText it action = do
  when ('\0' `elem` it) (throwKind Invalid ("the name " ++ show it ++ " has a NUL inside: choose another"))
  Encoded.withCString utf8 it action
