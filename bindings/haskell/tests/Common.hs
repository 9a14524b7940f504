-- | What the tests share.
module Common
  ( Key (..)
  , Joined (..)
  , small
  , inMemory
  , inFolder
  , throws
  , throwsKind
  ) where

import Control.Exception (Exception, try)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import Database.Varvite
import System.Directory (createDirectory, getTemporaryDirectory, removePathForcibly)
import System.IO.Unsafe (unsafePerformIO)
import Control.Exception (bracket)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import System.Posix.Process (getProcessID)
import Test.Tasty.HUnit (Assertion, assertFailure, (@?=))
import Test.Tasty.QuickCheck (Arbitrary (..), choose, elements, vectorOf)

-- | Few enough that they meet.
newtype Key = Key B.ByteString
  deriving (Eq, Ord, Show)

instance SerialiseKey Key where
  serialiseKey (Key it) = it
  deserialiseKey = Key

instance Arbitrary Key where
  arbitrary = do
    count <- choose (0, 3)
    Key . B.pack <$> vectorOf count (elements [0, 97, 98, 99, 255])

-- | Joined by a function of Haskell's, the older one first.
newtype Joined = Joined B.ByteString
  deriving (Eq, Ord, Show)

instance SerialiseValue Joined where
  serialiseValue (Joined it) = it
  deserialiseValue = Joined

instance ResolveValue Joined where
  resolve (Joined newer) (Joined older) = Joined (older <> newer)
  resolver _ = Function "joined"

instance Arbitrary Joined where
  arbitrary = do
    count <- elements [0, 1, 5, 40, 90]
    Joined . C.replicate count <$> elements "xyz"

-- | So that a few operations make runs, merges and values that lie apart.
small :: TableConfig
small =
  defaultTableConfig {tableWriteBufferBytes = Just 1024, tableSizeRatio = Just 2, tableBlobMinBytes = Just 64}

inMemory :: (Session -> IO a) -> IO a
inMemory action = do
  disk <- memory 1
  withOpenSession defaultSessionConfig disk action

folders :: IORef Int
folders = unsafePerformIO (newIORef 0)
{-# NOINLINE folders #-}

inFolder :: (FilePath -> IO a) -> IO a
inFolder = bracket make removePathForcibly
 where
  make = do
    place <- getTemporaryDirectory
    process <- getProcessID
    number <- atomicModifyIORef' folders (\it -> (it + 1, it))
    let path = place ++ "/varvite-haskell-" ++ show process ++ "-" ++ show number
    createDirectory path
    pure path

throwsKind :: Kind -> IO a -> Assertion
throwsKind kind action = throws action >>= \it -> errorKind it @?= kind

throws :: Exception e => IO a -> IO e
throws action = try action >>= either pure (const (assertFailure "nothing was thrown"))
