-- | Bytes in and out. Keys and values go in as they lie, since byte strings are pinned; answers are copied once, all of a
-- call into one block.
module Database.Varvite.Internal.Arena
  ( answers
  , there
  , answer
  , texts
  , withBytes
  , withBytesArray
  , bytesOf
  , keeping
  , withText
  ) where

import Control.Exception (finally, mask_)
import Control.Monad (when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as I
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
import Database.Varvite.Error
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Foreign.C.String (CString)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytesAligned)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Foreign.Storable (peekElemOff, poke, pokeElemOff, sizeOf)
import qualified GHC.Foreign as Encoded
import GHC.IO.Encoding (utf8)

-- | A call with any number of answers, 'Nothing' where nothing is there. They share one block of memory.
answers :: (Ptr CArena -> Failing) -> IO (V.Vector (Maybe B.ByteString))
answers function = allocaBytesAligned sizeOfArena 8 $ \arena -> do
  fillBytes arena 0 sizeOfArena
  mask_ $ (call (function arena) >> copied arena) `finally` arenaFree arena nullPtr

copied :: Ptr CArena -> IO (V.Vector (Maybe B.ByteString))
copied arena = do
  items <- arenaItems arena
  count <- fromIntegral <$> arenaCount arena
  total <- fromIntegral <$> arenaBytes arena
  block <- I.mallocByteString total
  arenaCopy arena (unsafeForeignPtrToPtr block)
  touchForeignPtr block
  let step (at, offset)
        | at == count = pure Nothing
        | otherwise = do
            Bytes start length_ <- peekElemOff items at
            let size = fromIntegral length_
                item = if start == nullPtr then Nothing else Just $! I.fromForeignPtr block offset size
            item `seq` pure (Just (item, (at + 1, offset + size)))
  V.unfoldrNM count step (0, 0)

-- | Answers that are all there.
there :: (Ptr CArena -> Failing) -> IO (V.Vector B.ByteString)
there function = V.map (fromMaybe B.empty) <$> answers function

-- | The only answer.
answer :: (Ptr CArena -> Failing) -> IO (Maybe B.ByteString)
answer function = V.head <$> answers function

-- | Answers that are texts.
texts :: (Ptr CArena -> Failing) -> IO [String]
texts function = map decoded . V.toList <$> there function

-- | Where a byte string lies; whoever uses it keeps the byte string.
bytesOf :: B.ByteString -> Bytes
bytesOf (I.PS start offset length_) =
  Bytes (unsafeForeignPtrToPtr start `plusPtr` offset) (fromIntegral length_)
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

withBytesArray :: V.Vector B.ByteString -> (Ptr Bytes -> Int -> IO a) -> IO a
withBytesArray items action = allocaBytesAligned (max 1 count * sizeOf (Bytes nullPtr 0)) 8 $ \array -> do
  V.imapM_ (\at item -> pokeElemOff array at (bytesOf item)) items
  result <- action array count
  V.mapM_ keeping items
  pure result
 where
  count = V.length items

-- | A text for the library, which has no NUL inside.
withText :: String -> (CString -> IO a) -> IO a
withText it action = do
  when ('\0' `elem` it) $ throwKind Invalid ("the name " ++ show it ++ " has a NUL inside: choose another")
  Encoded.withCString utf8 it action
