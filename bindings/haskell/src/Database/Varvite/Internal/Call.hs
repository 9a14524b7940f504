-- | One way in: every call of the library goes through these functions.
module Database.Varvite.Internal.Call
  ( call
  , out
  , out2
  , Handle
  , handle
  , adopt
  , close
  , with
  , withMany
  , throwKind
  , fromUtf8
  , Failure (..)
  , guarded
  , calledBy
  , originalThread
  ) where

import Control.Concurrent (ThreadId, myThreadId)
import Control.Exception (SomeException, bracket_, mask_, throwIO, try)
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

-- | Throws what the library says went wrong, or what a callback of the program's threw.
call :: Failing -> IO ()
call function = allocaBytesAligned sizeOfError 8 $ \failure -> do
  status <- function failure
  unless (status == 0) (raise status failure)
{-# INLINE call #-}

raise :: CInt -> Ptr CError -> IO a
raise status failure = do
  sentence <- Encoded.peekCString utf8 (sentenceOf failure)
  let kind = kindOf (fromIntegral status)
  code <- codeOf failure
  known <- if kind == Callback then failureOf code else pure Nothing
  case known of
    Just (Thrown exception) -> throwIO exception
    Just (Told text) -> throwKind kind (sentence ++ ": " ++ text)
    Nothing -> throwKind kind sentence
{-# NOINLINE raise #-}

throwKind :: Kind -> String -> IO a
throwKind kind sentence = throwIO (VarviteError kind sentence)

-- | A call with one answer.
out :: Storable a => (Ptr a -> Failing) -> IO a
out function = alloca $ \answer -> call (function answer) >> peek answer
{-# INLINE out #-}

-- | A call with two answers.
out2 :: (Storable a, Storable b) => (Ptr a -> Ptr b -> Failing) -> IO (a, b)
out2 function = alloca $ \one -> alloca $ \two -> do
  call (function one two)
  (,) <$> peek one <*> peek two

-- | How a callback failed: to be thrown again by the call that it was given to, or, where another call may have needed it,
-- only told.
data Failure = Thrown SomeException | Told String

-- | The failures that no call has taken yet, each under the code that its callback returned. A few only: those of calls
-- on other threads, and of operators whose failure the engine kept to itself.
failures :: IORef (CInt, [(CInt, Failure)])
failures = unsafePerformIO (newIORef (0, []))
{-# NOINLINE failures #-}

failureOf :: CInt -> IO (Maybe Failure)
failureOf code = atomicModifyIORef' failures $ \(latest, kept) ->
  ((latest, filter ((/= code) . fst) kept), lookup code kept)

-- | The body of a callback: 0, or the code of what it threw. Nothing leaves it.
guarded :: (SomeException -> Failure) -> IO () -> IO CInt
guarded failed body = try body >>= either keep (const (pure 0))
 where
  keep exception = atomicModifyIORef' failures $ \(latest, kept) ->
    let code = if latest == maxBound then 1 else latest + 1
     in ((code, (code, failed exception) : take 63 kept), code)

-- | The threads that run callbacks now, which are threads of their own, each with the one that made the call.
callers :: IORef [(ThreadId, ThreadId)]
callers = unsafePerformIO (newIORef [])
{-# NOINLINE callers #-}

-- | The body of a callback of a call that this thread made.
calledBy :: ThreadId -> IO a -> IO a
calledBy caller body = do
  me <- myThreadId
  let change by = atomicModifyIORef' callers (\them -> (by them, ()))
  bracket_ (change ((me, caller) :)) (change (filter ((/= me) . fst))) body

-- | This thread, or, in a callback, the one that made the call, from which all calls around it began.
originalThread :: IO ThreadId
originalThread = do
  me <- myThreadId
  known <- readIORef callers
  let chase it = maybe it chase (lookup it known)
  pure (chase me)

-- | A handle of the library: a number in the shape of a pointer, which nobody follows. The library itself knows which are
-- closed, so a handle may be closed by hand and again by the collector.
type Handle = ForeignPtr

-- | Closes that the library refused to a finaliser, because it ran on the thread of a callback, as it may without
-- @-threaded@.
refused :: IORef [IO Bool]
refused = unsafePerformIO (newIORef [])
{-# NOINLINE refused #-}

-- | Makes a handle that is closed when nothing leads to it, by the function that closes its kind. It keeps alive what the
-- last argument touches, as a table does its session.
handle :: (Ptr (Ptr a) -> Failing) -> (Ptr a -> Failing) -> IO () -> IO (Handle a)
handle make closes keep = mask_ $ do
  left <- readIORef refused
  unless (null left) (atomicModifyIORef' refused (\them -> ([], them)) >>= mapM_ attempt)
  out make >>= adopt closes keep

-- | The same of a handle that is there. To be called with exceptions masked since it was made.
adopt :: (Ptr a -> Failing) -> IO () -> Ptr a -> IO (Handle a)
adopt closes keep pointer = Concurrent.newForeignPtr pointer $ do
  attempt ((`notElem` [Invalid, Busy]) . kindOf . fromIntegral <$> closes pointer nullPtr)
  keep

attempt :: IO Bool -> IO ()
attempt closing = do
  isDone <- closing
  unless isDone (atomicModifyIORef' refused (\them -> (closing : them, ())))

-- | Closes a handle. Closing again does nothing.
close :: (Ptr a -> Failing) -> Handle a -> IO ()
close closes it = with it $ \pointer -> allocaBytesAligned sizeOfError 8 $ \failure -> do
  status <- closes pointer failure
  when (status /= 0 && kindOf (fromIntegral status) /= Closed) (raise status failure)

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
fromUtf8 :: B.ByteString -> String
fromUtf8 bytes = unsafePerformIO (B.useAsCStringLen bytes (Encoded.peekCStringLen utf8))
