-- | One way in: every call of the library goes through these functions.
module Database.Varvite.Internal.Call
  ( call
  , out
  , out2
  , Handle
  , handle
  , close
  , with
  , withMany
  , throwKind
  , decoded
  ) where

import Control.Exception (mask_, throwIO)
import Control.Monad (unless, when)
import qualified Data.ByteString as B
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Database.Varvite.Error
import Database.Varvite.Internal.Raw
import Foreign.C.Types (CInt)
import qualified Foreign.Concurrent as Concurrent
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytesAligned)
import Foreign.Marshal.Array (withArrayLen)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (Storable, peek)
import qualified GHC.Foreign as Encoded
import GHC.IO.Encoding (utf8)
import System.IO.Unsafe (unsafePerformIO)

-- | Throws what the library says went wrong.
call :: (Ptr CError -> IO CInt) -> IO ()
call function = allocaBytesAligned sizeOfError 8 $ \failure -> do
  status <- function failure
  unless (status == 0) $ do
    sentence <- Encoded.peekCString utf8 (sentenceOf failure)
    throwKind (kindOf (fromIntegral status)) sentence
{-# INLINE call #-}

throwKind :: Kind -> String -> IO a
throwKind kind sentence = throwIO (VarviteError kind sentence)

-- | A call with one answer.
out :: Storable a => (Ptr a -> Ptr CError -> IO CInt) -> IO a
out function = alloca $ \answer -> call (function answer) >> peek answer
{-# INLINE out #-}

-- | A call with two answers.
out2 :: (Storable a, Storable b) => (Ptr a -> Ptr b -> Ptr CError -> IO CInt) -> IO (a, b)
out2 function = alloca $ \one -> alloca $ \two -> do
  call (function one two)
  (,) <$> peek one <*> peek two

-- | A handle of the library: a number in the shape of a pointer, which nobody follows. The library itself knows which are
-- closed, so a handle may be closed by hand and by the collector.
type Handle = ForeignPtr

-- | Closes that the library refused to a finaliser, since without @-threaded@ it runs on the thread of a callback.
refused :: IORef [IO Bool]
refused = unsafePerformIO (newIORef [])
{-# NOINLINE refused #-}

-- | Makes a handle that is closed when nothing leads to it, by the function that closes its kind. It keeps alive what the
-- last argument touches: a table its session.
handle :: (Ptr (Ptr a) -> Ptr CError -> IO CInt) -> (Ptr a -> Ptr CError -> IO CInt) -> IO () -> IO (Handle a)
handle make closes keep = mask_ $ do
  left <- readIORef refused
  unless (null left) $ do
    these <- atomicModifyIORef' refused (\them -> ([], them))
    mapM_ finally these
  pointer <- out make
  adopt closes keep pointer
 where
  finally action = action >>= \isDone -> unless isDone (again action)

again :: IO Bool -> IO ()
again action = atomicModifyIORef' refused (\them -> (action : them, ()))

adopt :: (Ptr a -> Ptr CError -> IO CInt) -> IO () -> Ptr a -> IO (Handle a)
adopt closes keep pointer = Concurrent.newForeignPtr pointer $ do
  isDone <- attempt
  unless isDone (again attempt)
  keep
 where
  attempt = do
    status <- closes pointer nullPtr
    pure (kindOf (fromIntegral status) `notElem` [Invalid, Busy])

-- | Closes a handle. Closing again does nothing.
close :: (Ptr a -> Ptr CError -> IO CInt) -> Handle a -> IO ()
close closes it = with it $ \pointer -> allocaBytesAligned sizeOfError 8 $ \failure -> do
  status <- closes pointer failure
  let kind = kindOf (fromIntegral status)
  when (status /= 0 && kind /= Closed) $ do
    sentence <- Encoded.peekCString utf8 (sentenceOf failure)
    throwKind kind sentence

with :: Handle a -> (Ptr a -> IO b) -> IO b
with = withForeignPtr
{-# INLINE with #-}

-- | An array of handles.
withMany :: [Handle a] -> (Ptr (Ptr a) -> Int -> IO b) -> IO b
withMany handles action = go handles []
 where
  go [] pointers = withArrayLen (reverse pointers) (flip action)
  go (one : rest) pointers = withForeignPtr one $ \pointer -> go rest (pointer : pointers)

-- | A text of the library's.
decoded :: B.ByteString -> String
decoded bytes = unsafePerformIO (B.useAsCStringLen bytes (Encoded.peekCStringLen utf8))
