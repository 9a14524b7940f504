{-# LANGUAGE OverloadedStrings #-}

-- | What is done wrong is an exception, and the program goes on.
module Misuse (tests) where

import Common
import Control.Exception (AsyncException (..), ErrorCall (..), throw, throwIO, try)
import Control.Monad (forM_, replicateM_, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Unsafe as U
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.List (isInfixOf)
import qualified Data.Vector as V
import Data.Word (Word64)
import Database.Varvite (Kind (..), Range (..), ResolveValue (..), Resolver (..), SerialiseValue (..), VarviteError (..))
import qualified Database.Varvite as T
import qualified Database.Varvite.Context as X
import System.Exit (ExitCode (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Process (ProcessStatus (..), exitImmediately, forkProcess, getProcessStatus)
import Control.Concurrent (threadDelay)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

closed :: Assertion
closed = do
  disk <- T.memory 1
  session <- T.newSession T.defaultSessionConfig disk
  table <- T.newTableWith small session
  T.insert table (Key "a") (Joined (C.replicate 100 'x'))
  cursor <- T.newCursor table
  view <- T.newView table
  refs <- T.lookupRefs table (V.fromList [Key "a"])
  other <- T.duplicate table
  T.closeTable table
  T.closeTable table
  forM_ (calls table) (throwsKind Closed)
  T.lookup other (Key "a") >>= (@?= Just (Joined (C.replicate 100 'x')))
  T.closeCursor cursor
  throwsKind Closed (T.next cursor)
  T.closeView view
  throwsKind Closed (T.viewLookups view (V.fromList [Key "a"]))
  mapM_ (mapM_ (\ref -> T.retrieveBlob ref >>= (@?= Joined (C.replicate 100 'x')))) refs
  mapM_ (mapM_ T.closeBlobRef) refs
  mapM_ (mapM_ (throwsKind Closed . T.retrieveBlob)) refs
  T.closeSession session
  T.closeSession session
  forM_ (calls other) (throwsKind Closed)
  throwsKind Closed (T.newTable session :: IO (T.Table Key Joined))
  throwsKind Closed (T.listSnapshots session)
  T.closeDisk disk
  throwsKind Closed (T.newSession T.defaultSessionConfig disk)
 where
  calls table =
    [ void (T.lookup table (Key "a"))
    , void (T.lookups table (V.fromList [Key "a"]))
    , void (T.members table (V.fromList [Key "a"]))
    , void (T.rangeLookup table Everything)
    , T.insert table (Key "a") (Joined "b")
    , T.deleteRange table Everything
    , void (T.newCursor table)
    , void (T.duplicate table)
    , void (T.union table table)
    , void (T.size table)
    , T.saveSnapshot "s" "l" table
    ]

closedContexts :: Assertion
closedContexts = do
  disk <- T.memory 1
  store <- X.newStore X.defaultStoreConfig disk
  tree <- X.emptyTree store
  X.add tree ["a"] "1"
  at <- X.commit store tree (X.Info [] 0 "" "")
  X.closeTree tree
  X.closeTree tree
  forM_
    [ void (X.find tree ["a"])
    , void (X.findMany tree (V.fromList [["a"]]))
    , X.add tree ["a"] "1"
    , void (X.hash tree)
    , void (X.duplicateTree tree)
    , X.fold tree [] X.AllDepths X.Sorted () (\_ _ () -> pure ())
    , void (X.produceProof X.TreeProof tree (\it -> X.find it ["a"]))
    ]
    (throwsKind Closed)
  -- A checked out tree stays readable.
  open <- X.checkout store at
  X.closeStore store
  X.closeStore store
  X.find open ["a"] >>= (@?= Just "1")
  forM_ [void (X.checkout store at), void (X.emptyTree store), X.checkpoint store] (throwsKind Closed)

arguments :: Assertion
arguments = inMemory $ \session -> do
  table <- T.newTable session :: IO (T.Table Key Joined)
  throwsKind Invalid (T.duplicateAs "with\0nul" table)
  throwsKind Invalid (T.saveSnapshot "Upper Case" "" table)
  throwsKind Invalid (T.insert table (Key (B.replicate 5000 1)) (Joined ""))
  throwsKind Invalid (T.newTableWith T.defaultTableConfig {T.tableSizeRatio = Just 99} session :: IO (T.Table Key Joined))
  T.rangeLookup table (FromToExcluding (Key "z") (Key "a")) >>= (@?= V.empty)
  -- Empty batches, and keys and values without bytes.
  T.updates table V.empty
  T.lookups table V.empty >>= (@?= V.empty)
  T.insert table (Key "") (Joined "")
  T.lookup table (Key "") >>= (@?= Just (Joined ""))
  -- A value that does not fit where a short one goes, and one that just does.
  forM_ [255, 256, 257, 100000] $ \count -> do
    T.insert table (Key "long") (Joined (C.replicate count 'x'))
    T.lookup table (Key "long") >>= (@?= Just (Joined (C.replicate count 'x')))
  tree <- X.freeTree X.tezos
  forM_ [255, 256, 257, 100000] $ \count -> do
    X.add tree ["long"] (C.replicate count 'x')
    X.find tree ["long"] >>= (@?= Just (C.replicate count 'x'))
  throwsKind Invalid (X.parseHash "Co1234")

-- | A union of tables of two sessions.
foreigners :: Assertion
foreigners = inMemory $ \one -> inMemory $ \other -> do
  left <- T.newTable one :: IO (T.Table Key Joined)
  right <- T.newTable other
  throwsKind Invalid (T.union left right)
  throwsKind Invalid (T.applyAll one [T.TableUpdate right V.empty])

-- | A second writer, and a folder that is not there.
locks :: Assertion
locks = inFolder $ \path -> do
  disk <- T.folder path
  T.withOpenSession T.defaultSessionConfig disk $ \_ ->
    throwsKind Locked (T.openSession T.defaultSessionConfig disk)
  throwsKind Missing (T.existingFolder (path ++ "/nowhere"))
  throwsKind Missing (T.restoreSession T.defaultSessionConfig =<< T.folder (path ++ "/empty"))

-- | Raises when it joins a certain value.
newtype Picky = Picky B.ByteString
  deriving (Eq, Show)

instance SerialiseValue Picky where
  serialiseValue (Picky it) = it
  deserialiseValue = Picky

instance ResolveValue Picky where
  resolve (Picky newer) (Picky older)
    | newer == "bad" = error "cannot join that"
    | newer == "memory" = Picky (B.replicate (maxBound `div` 2) 0)
    | newer == "stack" = throw StackOverflow
    -- A value that lies nowhere in full: of its length there is no memory.
    | newer == "room" = Picky (unsafePerformIO (C.useAsCString "room" (\it -> U.unsafePackCStringLen (it, maxBound `div` 2))))
    | newer == "calls" = unsafePerformIO $ do
        disk <- T.memory 1
        T.closeDisk disk
        pure (Picky "called")
    | otherwise = Picky (older <> newer)
  resolver _ = Function "picky"

raising :: Assertion
raising = inMemory $ \session -> forM_ ["bad", "calls", "memory", "stack", "room"] $ \culprit -> do
  table <- T.newTableWith small {T.tableName = C.unpack culprit} session
  forM_ [0 .. 99] $ \number -> T.insert table (number :: Word64) (Picky "old")
  T.upsert table 7 (Picky culprit)
  failed <- throws (reading table) :: IO VarviteError
  errorKind failed @?= Callback
  when (culprit == "bad") $
    assertBool (errorSentence failed) ("cannot join that" `isInfixOf` errorSentence failed)
  -- Nothing was changed, and all else goes on.
  T.lookup table 8 >>= (@?= Just (Picky "old"))
  T.insert table 7 (Picky "new")
  T.lookup table 7 >>= (@?= Just (Picky "new"))
  T.upsert table 7 (Picky "er")
  T.lookup table 7 >>= (@?= Just (Picky "newer"))
 where
  reading table = T.lookup table (7 :: Word64)

-- | What was passed before a key that cannot be joined is given, and the next call tells of that key, until a seek.
passed :: Assertion
passed = inMemory $ \session -> do
  table <- T.newTableWith small session
  forM_ [0 .. 99] $ \key -> T.insert table (key :: Word64) (Picky "old")
  T.upsert table 3 (Picky "bad")
  forM_ [T.take 10, T.takeWhile 10 (const True)] $ \some -> T.withCursor table $ \cursor -> do
    some cursor >>= (@?= V.fromList [T.Entry key (Picky "old") | key <- [0 .. 2]])
    forM_ [void (some cursor), void (T.next cursor)] $ \again -> do
      failed <- throws again
      errorKind failed @?= Callback
    T.seek cursor 4
    some cursor >>= (@?= V.fromList [T.Entry key (Picky "old") | key <- [4 .. 13]])

-- | A merge operator that uses the cursor whose call runs it is refused, and waits for nothing.
within :: Assertion
within = inMemory $ \session -> do
  table <- T.newTableWith small session
  forM_ [0 .. 99] $ \key -> T.insert table (key :: Word64) (Nosy "old")
  T.upsert table 7 (Nosy "new")
  T.withCursorAtOffset table 7 $ \cursor -> do
    writeIORef nosy (void (T.previous cursor))
    found <- T.next cursor
    writeIORef nosy (pure ())
    found @?= Just (T.Entry 7 (Nosy "Invalid"))

-- | Tells how what it does while it joins ends.
newtype Nosy = Nosy B.ByteString
  deriving (Eq, Show)

nosy :: IORef (IO ())
nosy = unsafePerformIO (newIORef (pure ()))
{-# NOINLINE nosy #-}

instance SerialiseValue Nosy where
  serialiseValue (Nosy it) = it
  deserialiseValue = Nosy

instance ResolveValue Nosy where
  resolve newer _ = newer `seq` unsafePerformIO (told <$> (readIORef nosy >>= try))
   where
    told = Nosy . either (C.pack . show . errorKind) (const "done")
  resolver _ = Function "nosy"

-- | A branch has a name of bytes, which need be no text.
named :: Assertion
named = do
  disk <- T.memory 1
  X.withStore X.defaultStoreConfig disk $ \store -> do
    tree <- X.emptyTree store
    X.add tree ["a"] "1"
    at <- X.commit store tree (X.Info [] 0 "" "")
    X.setBranch store "\xff\x00 main" at
    X.setBranch store "main" at
    X.branch store "\xff\x00 main" >>= (@?= Just at)
    X.branches store >>= (@?= [("main", at), ("\xff\x00 main", at)])
    X.removeBranch store "\xff\x00 main"
    X.branches store >>= (@?= [("main", at)])
    throwsKind Invalid (X.setBranch store "" at)

-- | Another name for the merge operator is not accepted.
newtype Renamed = Renamed B.ByteString

instance SerialiseValue Renamed where
  serialiseValue (Renamed it) = it
  deserialiseValue = Renamed

instance ResolveValue Renamed where
  resolve = const
  resolver _ = Function "renamed"

operators :: Assertion
operators = inMemory $ \session -> do
  table <- T.newTableWith small session
  T.upsert table (Key "a") (Joined "1")
  T.saveSnapshot "s" "l" table
  throwsKind Invalid (T.openTableFromSnapshot session "s" "l" :: IO (T.Table Key Renamed))

walks :: Assertion
walks = do
  tree <- X.freeTree X.tezos
  forM_ ["a", "b", "c"] (\name -> X.add tree [name] name)
  other <- X.freeTree X.tezos
  lent <- newIORef tree
  -- What a function throws is thrown by the call that it was given to.
  forM_
    [ X.fold tree [] X.AllDepths X.Sorted () (\_ subtree () -> writeIORef lent subtree >> throwIO (ErrorCall "enough"))
    , X.diff tree other (\_ _ _ -> throwIO (ErrorCall "enough"))
    , void (X.produceProof X.TreeProof tree (\_ -> throwIO (ErrorCall "enough") :: IO ()))
    ]
    (\call -> throws call >>= (@?= ErrorCall "enough"))
  -- What it was given is closed afterwards.
  readIORef lent >>= throwsKind Closed . X.kind
  -- It may call the library, and throw what that throws.
  throwsKind Closed (X.fold tree [] X.AllDepths X.Sorted () (\_ _ () -> X.closeTree other >> void (X.kind other)))
  count <- X.fold tree [] (X.Ge 1) X.Stored (0 :: Int) $ \_ _ seen -> do
    inner <- X.fold tree [] X.AllDepths X.Sorted 0 (\_ _ more -> pure (more + 1))
    pure (seen + inner)
  count @?= 3 * 4
  X.find tree ["a"] >>= (@?= Just "a")

-- | What nothing leads to is closed by the collector: the lock of the folder is gone, and handles do not pile up.
collected :: Assertion
collected = inFolder $ \path -> do
  disk <- T.folder path
  abandon disk
  reopened disk (50 :: Int)
 where
  abandon disk = do
    session <- T.openSession T.defaultSessionConfig disk
    forM_ [1 .. 50 :: Int] $ \number -> do
      table <- T.newTableWith T.defaultTableConfig {T.tableName = show number} session
      T.insert table (Key "a") (Joined "b")
      refs <- T.lookupRefs table (V.fromList [Key "a"])
      cursor <- T.newCursor table
      T.next cursor >>= maybe (assertFailure "an entry") (const (pure ()))
      mapM_ (mapM_ T.blobLength) refs
  reopened disk left = do
    performMajorGC
    threadDelay 20000
    outcome <- try (T.openSession T.defaultSessionConfig disk)
    case outcome of
      Right session -> T.closeSession session
      Left raised
        | errorKind raised == Locked && left > 0 -> reopened disk (left - 1)
        | otherwise -> assertFailure (show raised)

-- | A table alone keeps its session, and a reference too.
kept :: Assertion
kept = do
  (table, ref) <- made
  replicateM_ 5 (performMajorGC >> threadDelay 2000)
  T.lookup table (Key "a") >>= (@?= Just (Joined "b"))
  T.retrieveBlob ref >>= (@?= Joined "b")
 where
  made = do
    disk <- T.memory 1
    session <- T.newSession T.defaultSessionConfig disk
    table <- T.newTable session
    T.insert table (Key "a") (Joined "b")
    refs <- T.lookupRefs table (V.fromList [Key "a"])
    case V.head refs of
      Just ref -> pure (table, ref)
      Nothing -> assertFailure "a reference"

-- | So does a cursor, which has no other way to its session than its finaliser.
keptByCursor :: Assertion
keptByCursor = do
  cursor <- made
  replicateM_ 5 (performMajorGC >> threadDelay 2000)
  T.next cursor >>= (@?= Just (T.Entry (Key "a") (Joined "b")))
 where
  made = do
    disk <- T.memory 1
    session <- T.newSession T.defaultSessionConfig disk
    table <- T.newTable session
    T.insert table (Key "a") (Joined "b")
    T.newCursor table

-- | After a fork the child's handles are closed, and it may open others; the parent goes on.
forks :: Assertion
forks = inMemory $ \session -> do
  table <- T.newTable session
  T.insert table (Key "a") (Joined "b")
  child <- forkProcess $ do
    inherited <- try (T.lookup table (Key "a"))
    own <- try $ inMemory $ \other -> T.withTable other $ \fresh -> do
      T.insert fresh (Key "a") (Joined "c")
      T.lookup fresh (Key "a")
    exitImmediately $ case (inherited, own) of
      (Left raised, Right found)
        | errorKind raised == Closed && found == Just (Joined "c") -> ExitSuccess
      (_, Left raised) -> ExitFailure (if errorKind raised == Closed then 2 else 3)
      _ -> ExitFailure 1
  status <- getProcessStatus True False child
  status @?= Just (Exited ExitSuccess)
  T.lookup table (Key "a") >>= (@?= Just (Joined "b"))

tests :: TestTree
tests =
  testGroup
    "misuse"
    [ testCase "tables after a close" closed
    , testCase "trees and stores after a close" closedContexts
    , testCase "arguments at the edge, and beyond" arguments
    , testCase "tables of two sessions" foreigners
    , testCase "locked and missing folders" locks
    , testCase "a merge operator that raises" raising
    , testCase "a merge operator by another name" operators
    , testCase "what a cursor passed before an error" passed
    , testCase "a merge operator that uses its cursor" within
    , testCase "branches whose names are no text" named
    , testCase "folds, differences and proofs that raise" walks
    , testCase "what nothing leads to" collected
    , testCase "what a table leads to" kept
    , testCase "what a cursor leads to" keptByCursor
    , testCase "a fork" forks
    ]
