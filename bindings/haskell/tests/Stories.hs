{-# LANGUAGE OverloadedStrings #-}

-- | What programs do with the face, on folders.
module Stories (tests) where

import Common
import Control.Monad (forM_, void)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import Data.IORef (modifyIORef', newIORef, readIORef)
import qualified Data.Map.Strict as M
import qualified Data.Vector as V
import Data.Word (Word64)
import Database.Varvite (Entry (..), Kind (..), Range (..))
import qualified Database.Varvite as T
import qualified Database.Varvite.Context as X
import qualified Database.Varvite.Simple as Simple
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=), assertBool)
import Test.Tasty.QuickCheck (Property, conjoin, ioProperty, testProperty, withMaxSuccess, (===))

simple :: IO ()
simple = inFolder $ \path -> do
  Simple.withOpenSession path $ \session -> do
    table <- Simple.newTable session :: IO (Simple.Table Word64 B.ByteString)
    Simple.inserts table (V.fromList [(number, C.pack (show number)) | number <- [0 .. 999]])
    Simple.saveSnapshot "first" "numbers" table
    Simple.deletes table (V.fromList [0 .. 499])
    Simple.saveSnapshot "second" "numbers" table
    throwsKind Exists (Simple.saveSnapshot "second" "numbers" table)
  Simple.withOpenSession path $ \session -> do
    Simple.listSnapshots session >>= (@?= ["first", "second"])
    throwsKind Invalid (Simple.openTableFromSnapshot session "first" "letters" :: IO (Simple.Table Word64 B.ByteString))
    throwsKind Missing (Simple.openTableFromSnapshot session "third" "numbers" :: IO (Simple.Table Word64 B.ByteString))
    Simple.withTableFromSnapshot session "first" "numbers" $ \table -> do
      Simple.lookup table (7 :: Word64) >>= (@?= Just ("7" :: B.ByteString))
      found <- Simple.rangeLookup table (FromToIncluding 10 12)
      V.toList found @?= [(10, "10"), (11, "11"), (12, "12")]
    Simple.withTableFromSnapshot session "second" "numbers" $ \table ->
      Simple.lookup table (7 :: Word64) >>= (@?= (Nothing :: Maybe B.ByteString))

-- | What a log promises: updates are there without a snapshot.
live :: IO ()
live = inFolder $ \path -> inFolder $ \copy -> do
  disk <- T.folder path
  let config = T.defaultSessionConfig {T.sessionLog = T.Synced}
  T.withOpenSession config disk $ \session -> do
    table <- T.newTableWith small session
    T.insert table (Key "a") (Joined "1")
    T.upsert table (Key "a") (Joined "2")
    throwsKind Locked (T.openLiveTable session "table" :: IO (T.Table Key Joined))
    target <- T.folder copy
    T.backup session T.Full target
    -- What nothing leads to may be closed, and another handle given: it is used until here.
    T.closeTable table
  T.withOpenSession config disk $ \session -> do
    T.liveTables session >>= (@?= ["table"])
    table <- T.openLiveTable session "table"
    T.lookup table (Key "a") >>= (@?= Just (Joined "12"))
    other <- T.duplicateAs "other" table
    T.publish other
    T.liveTables session >>= (@?= ["other", "table"])
    T.closeTable other
    T.deleteLiveTable session "other"
  T.checkSession disk >>= (@?= [])
  copied <- T.existingFolder copy
  T.withOpenSession config copied $ \session -> do
    table <- T.openLiveTable session "table"
    T.lookup table (Key "a") >>= (@?= Just (Joined "12"))

-- | Several tables and bytes of the program's in one snapshot, out of one session and into another.
snapshots :: IO ()
snapshots = inFolder $ \path -> inFolder $ \away -> do
  disk <- T.folder path
  target <- T.folder away
  T.withOpenSession T.defaultSessionConfig disk $ \session -> do
    one <- T.newTableWith small {T.tableName = "one"} session
    two <- Simple.newTableWith small {T.tableName = "two"} session
    T.upsert one (Key "a") (Joined "1")
    T.insert two (2 :: Word64) (3 :: Word64)
    T.saveTables session "both" "pair" "state" [T.SomeTable one, T.SomeTable two]
    throwsKind Invalid (T.openTableFromSnapshot session "both" "pair" :: IO (T.Table Key Joined))
    T.exportSnapshot session "both" T.Full target
    T.importSnapshot session target "both" T.Quick "again"
    T.withSnapshot (Just (Joined "")) session "again" "pair" $ \snapshot -> do
      T.snapshotTables snapshot >>= (@?= ["one", "two"])
      T.snapshotPayload snapshot >>= (@?= "state")
      again <- T.takeTable snapshot "one"
      T.upsert again (Key "a") (Joined "2")
      T.lookup again (Key "a") >>= (@?= Just (Joined "12"))
      other <- T.takeTable snapshot "two"
      T.lookup other (2 :: Word64) >>= (@?= Just (3 :: Word64))

stats :: IO ()
stats = inMemory $ \session -> do
  table <- T.newTableWith small session
  forM_ [0 .. 99 :: Word64] $ \number -> T.insert table number (Joined (C.replicate 80 'x'))
  T.size table >>= (@?= 100)
  numbers <- T.tableStats table
  assertBool "its entries" (T.statsEntriesMin numbers <= 100 && T.statsEntriesMax numbers >= 100)
  assertBool "its values that lie apart" (T.statsBlobBytes numbers > 0)
  T.nameOf table >>= (@?= "table")

-- | A context of maps: paths of two names.
contexts :: [(Bool, Bool, B.ByteString)] -> [(Bool, Bool, Maybe B.ByteString)] -> Property
contexts before after = ioProperty $ do
  disk <- T.memory 1
  X.withStore X.defaultStoreConfig disk $ \store -> do
    tree <- X.emptyTree store
    -- A commit has something in it.
    X.add tree ["base"] "1"
    forM_ before $ \(one, two, value) -> X.add tree (path one two) value
    first <- X.commit store tree (X.Info [] 7 "me" "first")
    forM_ after $ \(one, two, value) -> maybe (X.remove tree (path one two)) (X.add tree (path one two)) value
    second <- X.commit store tree (X.Info [first] 8 "me" "second")
    let model = M.fromList [(path one two, value) | (one, two, value) <- before]
        later = foldl (\it (one, two, value) -> M.alter (const value) (path one two) it) model after
        all_ = [path one two | one <- [False, True], two <- [False, True]]
    old <- X.checkout store first
    new <- X.checkout store second
    olds <- X.findMany old (V.fromList all_)
    news <- mapM (X.find new) all_
    mems <- mapM (X.mem new) all_
    changes <- newIORef []
    X.diff old new (\at one two -> modifyIORef' changes ((at, one, two) :))
    found <- reverse <$> readIORef changes
    folded <- X.fold new [] (X.Eq 2) X.Sorted [] $ \at subtree seen -> do
      value <- X.find subtree []
      pure ((at, value) : seen)
    hashes <- (,) <$> X.hash tree <*> X.hash new
    pure $
      conjoin
        [ V.toList olds === map (`M.lookup` model) all_
        , news === map (`M.lookup` later) all_
        , mems === map (`M.member` later) all_
        , found === [(at, M.lookup at model, M.lookup at later) | at <- all_, M.lookup at model /= M.lookup at later]
        , reverse folded === [(at, Just value) | (at, value) <- M.toList later]
        , fst hashes === snd hashes
        ]
 where
  path one two = [if one then "b" else "a", if two then "d" else "c"]

stores :: IO ()
stores = inFolder $ \path -> do
  disk <- T.folder path
  let config = X.defaultStoreConfig {X.storeIndexing = X.Objects}
  (first, second) <- X.withStore config disk $ \store -> do
    tree <- X.emptyTree store
    X.add tree ["a", "b"] "1"
    X.add tree ["a", "c"] "22"
    let info = X.Info [] 1 "me" "one"
    expected <- X.commitHash store tree info
    first <- X.commit store tree info
    first @?= expected
    X.parseHash (X.hashText first) >>= (@?= first)
    X.hashFromBytes (X.hashBytes first) @?= Just first
    subtree <- X.findTree tree ["a"]
    X.findTree tree ["nothing"] >>= maybe (pure ()) (const (fail "nothing is there"))
    other <- X.duplicateTree tree
    mapM_ (X.addTree other ["copy"]) subtree
    X.remove other ["a"]
    X.memTree other ["a"] >>= (@?= False)
    X.memTree tree ["a"] >>= (@?= True)
    X.find other ["copy", "c"] >>= (@?= Just "22")
    X.length other ["copy"] >>= (@?= 2)
    X.list other ["copy"] 0 10 >>= (@?= [("b", X.Value), ("c", X.Value)])
    X.list other [] 0 10 >>= (@?= [("copy", X.Directory)])
    X.list other ["copy"] 1 1 >>= (@?= [("c", X.Value)])
    X.equal tree other >>= (@?= False)
    mapM_ (\it -> X.kind it >>= (@?= X.Directory)) subtree
    second <- X.commit store other (X.Info [first] 2 "you" "two")
    X.setBranch store "main" first
    X.testAndSetBranch store "main" (Just second) second >>= (@?= False)
    X.testAndSetBranch store "main" (Just first) second >>= (@?= True)
    X.testAndSetBranch store "side" Nothing first >>= (@?= True)
    X.branches store >>= (@?= [("main", second), ("side", first)])
    X.removeBranch store "side"
    X.branch store "side" >>= (@?= Nothing)
    X.checkpoint store
    void (X.maintain store)
    pure (first, second)
  X.withStore config disk $ \store -> do
    X.exists store first >>= (@?= True)
    X.lastCommit store >>= (@?= Just second)
    X.commits store 10 >>= (@?= [second, first])
    X.history store [second] 10 >>= (@?= [second, first])
    X.commonAncestors store first second >>= (@?= [first])
    says <- X.commitInfo store second
    X.commitSays says @?= X.Info [first] 2 "you" "two"
    X.withCheckout store second (\tree -> X.hash tree >>= (@?= X.commitTreeHash says))
    checked <- X.checkStore store
    X.checkedCommits checked @?= 2
    X.checkedFaults checked @?= []
    X.storeWarnings store >>= (@?= [])
    numbers <- X.storeStats store
    X.statsCommits numbers @?= 2
    reader <- X.openStoreReadOnly config disk
    X.withCheckout store first $ \tree -> do
      X.add tree ["new"] "3"
      third <- X.commit store tree (X.Info [first] 3 "me" "three")
      X.exists reader third >>= (@?= False)
      X.reload reader
      X.exists reader third >>= (@?= True)
    X.closeStore reader
    throwsKind Missing (X.checkout store (absent first))
    throwsKind Missing (X.commitInfo store (absent first))
  X.isIrmin disk >>= (@?= False)
  throwsKind Missing (X.openIrmin disk)
 where
  absent it = maybe it id (X.hashFromBytes (B.map (+ 1) (X.hashBytes it)))

-- | A proof that is made, sent as bytes, and checked without a store.
proofs :: X.ProofShape -> X.Encoding -> IO ()
proofs shape encoding = do
  tree <- X.freeTree X.tezos
  forM_ [0 .. 99 :: Int] $ \number -> X.add tree ["contracts", C.pack (show number)] (C.pack (show (number * number)))
  root <- X.DirectoryRoot <$> X.hash tree
  let look it = do
        found <- X.find it ["contracts", "7"]
        X.add it ["contracts", "7"] "other"
        (,) found <$> X.mem it ["contracts", "nobody"]
  (proof, seen) <- X.produceProof shape tree look
  seen @?= (Just "49", False)
  bytes <- X.encodeProof encoding proof
  again <- X.decodeProof X.tezos encoding bytes
  X.isStream again >>= (@?= (shape == X.StreamProof))
  (before, after) <- X.proofRoots again
  before @?= root
  assertBool "something was changed" (after /= root)
  X.verifyProof X.tezos root again look >>= (@?= seen)
  -- Another root, another function, and what is hidden.
  throwsKind Corrupt (X.verifyProof X.tezos after again look)
  throwsKind Corrupt (X.verifyProof X.tezos root again (\it -> X.find it ["contracts", "7"]))
  throwsKind Hidden (X.verifyProof X.tezos root again (\it -> X.find it ["contracts", "8"]))
  X.closeProof again
  throwsKind Closed (X.encodeProof encoding again)

opened :: IO ()
opened = do
  tree <- X.freeTree X.tezos
  forM_ [0 .. 99 :: Int] $ \number -> X.add tree [C.pack (show number)] "x"
  root <- X.DirectoryRoot <$> X.hash tree
  (proof, _) <- X.produceProof X.TreeProof tree (\it -> X.find it ["7"])
  shown <- X.openProof X.tezos root proof
  X.find shown ["7"] >>= (@?= Just "x")
  value <- X.valueTree X.tezos "x"
  X.kind value >>= (@?= X.Value)
  X.isEmpty value >>= (@?= False)

entries :: IO ()
entries = inMemory $ \session -> T.withTable session $ \table -> do
  T.insert table (Key "k") (Joined "v")
  T.withCursorAtOffset table (Key "k") $ \cursor -> do
    T.next cursor >>= (@?= Just (Entry (Key "k") (Joined "v")))
    T.next cursor >>= (@?= Nothing)

tests :: TestTree
tests =
  testGroup
    "stories"
    [ testCase "simple tables on a folder" simple
    , testCase "live tables" live
    , testCase "snapshots of several tables" snapshots
    , testCase "sizes" stats
    , testCase "entries of a cursor" entries
    , testProperty "contexts against maps" (withMaxSuccess 50 contexts')
    , testCase "stores on a folder" stores
    , testGroup
        "proofs"
        [ testCase (show shape ++ ", " ++ show encoding) (proofs shape encoding)
        | shape <- [X.TreeProof, X.StreamProof]
        , encoding <- [X.V1, X.V2, X.Json]
        ]
    , testCase "what a proof shows, as a tree" opened
    ]
 where
  contexts' before after =
    contexts
      [(one, two, B.pack value) | (one, two, value) <- before]
      [(one, two, B.pack <$> value) | (one, two, value) <- after]
