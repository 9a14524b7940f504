{-# LANGUAGE OverloadedStrings #-}

-- | Many threads on the same handles.
module Concurrent (tests) where

import Common
import Control.Concurrent (MVar, forkIO, forkOS, newEmptyMVar, putMVar, takeMVar, threadDelay, throwTo, tryReadMVar)
import Control.Exception (AsyncException (..), SomeException, fromException, throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM_, unless, when)
import qualified Data.ByteString.Char8 as C
import qualified Data.Vector as V
import Data.Word (Word64)
import Database.Varvite (Kind (..), VarviteError (..))
import qualified Database.Varvite as T
import qualified Database.Varvite.Context as X
import System.Mem (performMajorGC)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

-- | A thread, and what came of it.
spawn :: Bool -> IO a -> IO (MVar (Either SomeException a))
spawn isBound action = do
  end <- newEmptyMVar
  _ <- (if isBound then forkOS else forkIO) (try action >>= putMVar end)
  pure end

await :: MVar (Either SomeException a) -> IO a
await end = takeMVar end >>= either throwIO pure

-- | A batch writes one number to every key; who reads sees one number only.
readers :: Bool -> Assertion
readers isBound = inMemory $ \session -> do
  table <- T.newTableWith small session
  let keys = V.fromList [0 .. 49 :: Word64]
      write number = T.updates table (V.map (\key -> (key, T.Insert (Joined (C.pack (show (number :: Int)))))) keys)
  write 0
  stop <- newEmptyMVar
  ends <- forM [1 .. 4 :: Int] $ \_ -> spawn isBound $ do
    let go seen = do
          found <- T.lookups table keys
          unless (V.all (== V.head found) found) (assertFailure "half of a batch was seen")
          isOver <- tryReadMVar stop
          if isOver == Just () then pure (seen + 1 :: Int) else go (seen + 1)
    go 0
  forM_ [1 .. 200] write
  putMVar stop ()
  counts <- mapM await ends
  assertBool "each has read" (all (> 0) counts)

-- | Writers of one table wait for each other; joins by a function of Haskell's run on all of their threads.
writers :: Bool -> Assertion
writers isBound = inMemory $ \session -> do
  table <- T.newTableWith small session
  ends <- forM [1 .. 4 :: Int] $ \_ -> spawn isBound $ replicateM_ 100 $
    T.upserts table (V.fromList [(key, Joined "x") | key <- [0 .. 9 :: Word64]])
  mapM_ await ends
  found <- T.lookups table (V.fromList [0 .. 9])
  forM_ found (@?= Just (Joined (C.replicate 400 'x')))

-- | A close beneath readers makes their calls 'Closed'; nothing else comes of it.
closes :: Assertion
closes = forM_ [1 .. 20 :: Int] $ \round_ -> inMemory $ \session -> do
  table <- T.newTableWith small session
  T.insert table (Key "a") (Joined "b")
  ends <- forM [1 .. 4 :: Int] $ \_ -> spawn False $ forever $ do
    found <- T.lookup table (Key "a")
    unless (found == Just (Joined "b")) (assertFailure "another value")
  threadDelay 500
  if even round_ then T.closeTable table else T.closeSession session
  forM_ ends $ \end -> do
    outcome <- takeMVar end
    case outcome of
      Left raised | Just it <- fromException raised, errorKind it == Closed -> pure ()
      Left raised -> throwIO raised
      Right () -> assertFailure "it ended"

-- | Threads that share a cursor wait for each other: each entry is whole, and a close beneath them is 'Closed'.
sharers :: Assertion
sharers = forM_ [1, 2 :: Int] $ \_ -> inMemory $ \session -> do
  table <- T.newTableWith small session
  -- So long that a copy of one takes longer than to wake who waits for the cursor.
  forM_ ("abcd" :: String) $ \letter -> T.insert table (Key (C.singleton letter)) (Joined (C.replicate 4000000 letter))
  cursor <- T.newCursor table
  let whole (Just (T.Entry (Key key) (Joined value))) =
        unless (C.length value == 4000000 && C.all (== C.head key) value) (assertFailure ("not whole: " ++ show key))
      whole Nothing = T.seekLast cursor
      wholeKey (Just (Key key)) = unless (C.length key == 1 && key <= "d" && key >= "a") (assertFailure ("no key: " ++ show key))
      wholeKey Nothing = T.seekFirst cursor
  ends <- forM [T.previous cursor >>= whole, T.previous cursor >>= whole, T.next cursor >>= whole, T.previousKey cursor >>= wholeKey] $ \step ->
    spawn False (forever step)
  threadDelay 1000000
  T.closeCursor cursor
  forM_ ends $ \end -> do
    outcome <- takeMVar end
    case outcome of
      Left raised | Just it <- fromException raised, errorKind it == Closed -> pure ()
      Left raised -> throwIO raised
      Right () -> assertFailure "it ended"

-- | Readers of trees, with folds that call back at the same time, while handles are dropped and collected.
trees :: Assertion
trees = do
  disk <- T.memory 1
  X.withStore X.defaultStoreConfig disk $ \store -> do
    tree <- X.emptyTree store
    forM_ [0 .. 99 :: Int] $ \number -> X.add tree ["a", C.pack (show number)] "v"
    at <- X.commit store tree (X.Info [] 0 "" "")
    ends <- forM [False, True, False, True] $ \isBound -> spawn isBound $ replicateM_ 20 $ do
      mine <- X.checkout store at
      count <- X.fold mine ["a"] (X.Eq 1) X.Sorted (0 :: Int) (\_ _ seen -> pure (seen + 1))
      count @?= 100
      (_, found) <- X.produceProof X.TreeProof mine (\it -> X.find it ["a", "7"])
      found @?= Just "v"
    replicateM_ 10 (performMajorGC >> threadDelay 1000)
    mapM_ await ends

-- | Exceptions from other threads come between calls, and leave nothing locked.
interrupted :: Assertion
interrupted = inMemory $ \session -> do
  table <- T.newTableWith small session
  forM_ [1 .. 20 :: Int] $ \_ -> do
    end <- newEmptyMVar
    thread <- forkIO (try (forever (T.upsert table (Key "a") (Joined "x"))) >>= putMVar end)
    threadDelay 300
    throwTo thread ThreadKilled
    outcome <- takeMVar end :: IO (Either AsyncException ())
    outcome @?= Left ThreadKilled
  T.insert table (Key "a") (Joined "y")
  T.lookup table (Key "a") >>= (@?= Just (Joined "y"))
  none <- timeout 20000 (forever (T.lookup table (Key "a") >>= \it -> when (it == Nothing) (assertFailure "gone")))
  none @?= (Nothing :: Maybe ())

tests :: TestTree
tests =
  testGroup
    "threads"
    [ testCase "readers beside a writer" (readers False)
    , testCase "readers of the system's threads" (readers True)
    , testCase "writers" (writers False)
    , testCase "writers of the system's threads" (writers True)
    , testCase "closes beneath readers" closes
    , testCase "a cursor that threads share" sharers
    , testCase "trees" trees
    , testCase "exceptions of other threads" interrupted
    ]
