{-# LANGUAGE OverloadedStrings #-}

-- | Shared tables and transactions, one-call openings, scrubs; what a store keeps: collections, pins, lower disks, files of
-- commits, readers.
module Keeping (tests) where

import Common
import Control.Concurrent (forkIO, forkIOWithUnmask, killThread, threadDelay)
import Control.Concurrent.MVar (modifyMVar_, newEmptyMVar, newMVar, putMVar, readMVar, takeMVar, tryTakeMVar)
import Control.Exception (ErrorCall (..), SomeException, finally, mask_, throwIO, try)
import Control.Monad (forM, forM_, replicateM, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import Data.IORef (modifyIORef', newIORef, readIORef)
import qualified Data.Vector as V
import Data.Word (Word64)
import Database.Varvite (Kind (..), Operation (..), Update (..))
import qualified Database.Varvite as T
import qualified Database.Varvite.Context as X
import System.Mem (performMajorGC)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

utxo :: T.TableName Key Joined
utxo = T.TableName "utxo"

counts :: T.TableName Key T.Sum64
counts = T.TableName "counts"

newShared :: T.Session -> IO T.Shared
newShared session = do
  one <- T.newTableWith small {T.tableName = "utxo"} session :: IO (T.Table Key Joined)
  other <- T.newTableWith small {T.tableName = "counts"} session :: IO (T.Table Key T.Sum64)
  T.share session [T.SomeTable one, T.SomeTable other]

insertOf :: C.ByteString -> C.ByteString -> Operation Key Joined
insertOf key value = Update (Key key) (Insert (Joined value))

lookedUp :: T.Shared -> C.ByteString -> IO (Maybe Joined)
lookedUp shared key = V.head <$> T.sharedLookups shared utxo (V.singleton (Key key))

transactions :: IO ()
transactions = inMemory $ \session -> do
  one <- T.newTable session :: IO (T.Table Key Joined)
  twin <- T.duplicate one
  throwsKind Invalid (T.share session [T.SomeTable one, T.SomeTable twin])
  T.insert one (Key "it was not taken") (Joined "1")
  shared <- newShared session
  T.sharedTables shared >>= (@?= ["counts", "utxo"])
  answer <- T.transaction shared $ \block -> do
    T.transactionApply block utxo (V.fromList [insertOf "a" "1", Update (Key "a") (Upsert (Joined "2"))])
    T.transactionLookups block utxo (V.fromList [Key "a", Key "b"]) >>= (@?= V.fromList [Just (Joined "12"), Nothing])
    lookedUp shared "a" >>= (@?= Nothing)
    T.transactionApply block utxo (V.singleton (Update (Key "a") Delete))
    T.transactionApply block utxo (V.singleton (insertOf "b" "3"))
    T.transactionApply block counts (V.singleton (Update (Key "n") (Insert (T.Sum64 5))))
    throwsKind Invalid (T.transaction shared (const (pure ())))
    throwsKind Invalid (T.commitAll shared [])
    pure (7 :: Int)
  answer @?= 7
  T.sharedViews shared utxo counts $ \outputs numbers -> do
    T.viewLookups outputs (V.fromList [Key "a", Key "b"]) >>= (@?= V.fromList [Nothing, Just (Joined "3")])
    T.viewLookups numbers (V.singleton (Key "n")) >>= (@?= V.singleton (Just (T.Sum64 5)))
  void $ (throws (T.transaction shared $ \block -> do
    T.transactionApply block utxo (V.singleton (insertOf "c" "4"))
    void (T.transactionLookups block utxo (V.singleton (Key "c")))
    throwIO (ErrorCall "mine") :: IO ()) :: IO ErrorCall)
  lookedUp shared "c" >>= (@?= Nothing)
  T.commitAll shared [T.NamedUpdate utxo (V.singleton (insertOf "d" "5")), T.NamedUpdate counts (V.singleton (Update (Key "n") (Insert (T.Sum64 6))))]
  lookedUp shared "d" >>= (@?= Just (Joined "5"))
  throwsKind Missing (T.sharedLookups shared (T.TableName "other" :: T.TableName Key Joined) (V.singleton (Key "a")))
  T.saveShared shared (T.SnapshotName "both") (T.SnapshotLabel "here") "payload"
  T.withSnapshot (Nothing :: Maybe Joined) session (T.SnapshotName "both") (T.SnapshotLabel "here") T.snapshotTables
    >>= (@?= ["counts", "utxo"])
  -- Who waits can be killed, and who was killed in a transaction has rolled it back.
  begun <- newEmptyMVar
  over <- newEmptyMVar
  inside <- forkIO $ T.transaction shared (\block -> do
    T.transactionApply block utxo (V.singleton (insertOf "e" "6"))
    putMVar begun ()
    threadDelay 60000000) `finally` putMVar over ()
  takeMVar begun
  ended <- newEmptyMVar
  waiting <- forkIO (T.transaction shared (const (pure ())) `finally` putMVar ended ())
  threadDelay 20000
  tryTakeMVar ended >>= (@?= Nothing)
  killThread waiting
  takeMVar ended
  killThread inside
  takeMVar over
  T.transaction shared (\block -> T.transactionLookups block utxo (V.singleton (Key "e"))) >>= (@?= V.singleton Nothing)
  -- Threads of Haskell's share those of the system: each may write all the same, and counts are exact.
  dones <- replicateM 8 newEmptyMVar
  forM_ dones $ \done -> forkIO $ (forM_ [1 .. 20 :: Int] $ \_ -> T.transaction shared $ \block -> do
    found <- T.transactionLookups block counts (V.singleton (Key "sum"))
    T.transactionApply block counts (V.singleton (Update (Key "sum") (Insert (maybe (T.Sum64 1) (\(T.Sum64 it) -> T.Sum64 (it + 1)) (V.head found)))))) `finally` putMVar done ()
  mapM_ takeMVar dones
  T.sharedLookups shared counts (V.singleton (Key "sum")) >>= (@?= V.singleton (Just (T.Sum64 160)))
  T.closeShared shared
  T.closeShared shared
  throwsKind Closed (T.transaction shared (const (pure ())))
  throwsKind Closed (lookedUp shared "a")

-- | Who waits when the handle is closed is told, also where there is patience without an end; the transaction goes on.
closedWhileWaiting :: IO ()
closedWhileWaiting = inMemory $ \session -> do
  shared <- newShared session
  T.setPatience shared Nothing
  begun <- newEmptyMVar
  mayEnd <- newEmptyMVar
  over <- newEmptyMVar
  _ <- forkIO $ try (T.transaction shared $ \block -> do
    T.transactionApply block utxo (V.singleton (insertOf "a" "1"))
    putMVar begun ()
    takeMVar mayEnd
    T.transactionLookups block utxo (V.singleton (Key "a"))) >>= putMVar over
  takeMVar begun
  told <- forM [void (T.transaction shared (const (pure ()))), T.commitAll shared [], T.saveShared shared (T.SnapshotName "s") (T.SnapshotLabel "") ""] $ \action -> do
    end <- newEmptyMVar
    _ <- forkIO (try action >>= putMVar end)
    pure end
  threadDelay 20000
  T.closeShared shared
  forM_ told $ \end -> do
    outcome <- timeout 60000000 (takeMVar end)
    case outcome of
      Just (Left raised) -> T.errorKind raised @?= Closed
      Just (Right ()) -> assertBool "it wrote past a transaction" False
      Nothing -> assertBool "it waits for ever" False
  putMVar mayEnd ()
  outcome <- takeMVar over :: IO (Either T.VarviteError (V.Vector (Maybe Joined)))
  either throwIO (@?= V.singleton (Just (Joined "1"))) outcome

-- | Who came first is served first, however often those who wait have looked up since.
servedInOrder :: IO ()
servedInOrder = inMemory $ \session -> do
  shared <- newShared session
  served <- newMVar []
  -- They look up each tenth of a second, each at moments of its own.
  forM_ [130000, 230000, 270000] $ \held -> do
    modifyMVar_ served (const (pure []))
    begun <- newEmptyMVar
    over <- newEmptyMVar
    _ <- forkIO (T.transaction shared (const (putMVar begun () >> threadDelay (held + 60000))) `finally` putMVar over ())
    takeMVar begun
    ends <- forM [1 .. 4 :: Int] $ \number -> do
      end <- newEmptyMVar
      _ <- forkIO (T.transaction shared (const (modifyMVar_ served (pure . (number :)))) `finally` putMVar end ())
      threadDelay 20000
      pure end
    -- One in the middle gives up.
    gone <- newEmptyMVar
    impatient <- forkIO (T.transaction shared (const (pure ())) `finally` putMVar gone ())
    threadDelay 5000
    killThread impatient
    takeMVar gone
    mapM_ takeMVar (over : ends)
    readMVar served >>= (@?= [4, 3, 2, 1])
  T.closeShared shared

-- | Who waits without an end is told also when whoever closes the handle is killed in the middle of it.
closedByOneKilled :: IO ()
closedByOneKilled = forM_ [0 .. 60 :: Int] $ \run -> inMemory $ \session -> do
  shared <- newShared session
  T.setPatience shared Nothing
  begun <- newEmptyMVar
  mayEnd <- newEmptyMVar
  over <- newEmptyMVar
  _ <- forkIO (T.transaction shared (const (putMVar begun () >> takeMVar mayEnd)) `finally` putMVar over ())
  takeMVar begun
  end <- newEmptyMVar
  _ <- forkIO (try (T.transaction shared (const (pure ()))) >>= putMVar end)
  closer <- newEmptyMVar
  -- Its end is asked for while it has not begun, so that it comes where it may come first.
  closing <- mask_ (forkIOWithUnmask (\unmask -> unmask (T.closeShared shared) `finally` putMVar closer ()))
  when (run > 0) (threadDelay run)
  killThread closing
  takeMVar closer
  isClosed <- either (\it -> T.errorKind it == Closed) (const False) <$> try (T.sharedTables shared)
  when isClosed $ do
    outcome <- timeout 60000000 (takeMVar end)
    case outcome of
      Just (Left raised) -> T.errorKind raised @?= Closed
      Just (Right ()) -> assertBool "it wrote past a transaction" False
      Nothing -> assertBool ("it waits for ever, in run " ++ show run) False
  putMVar mayEnd ()
  takeMVar over

openedOrMade :: IO ()
openedOrMade = inFolder $ \path -> inFolder $ \other -> do
  tables <- T.folder path
  contexts <- T.folder other
  forM_ [1 .. 3] $ \run -> do
    T.withOpenSession T.defaultSessionConfig {T.sessionLog = T.Written} tables $ \session -> do
      table <- T.openOrNewTable small {T.tableCompressed = True} session
      T.upsert table (Key "runs") (Joined "1")
      T.syncLog session
      T.lookup table (Key "runs") >>= (@?= Just (Joined (C.replicate run '1')))
    X.withStore X.defaultStoreConfig contexts $ \store -> do
      void (commitLevel store [] run)
      X.commits store 10 >>= (@?= run) . length

scrubbed :: IO ()
scrubbed = inFolder $ \path -> do
  disk <- T.folder path
  T.withOpenSession T.defaultSessionConfig disk $ \session -> do
    table <- T.newTable session :: IO (T.Table Word64 T.Appended)
    T.inserts table (V.fromList [(number, T.Appended (C.replicate 40 'v')) | number <- [0 .. 20000]])
    T.saveSnapshot (T.SnapshotName "s") (T.SnapshotLabel "l") table
    left <- newIORef []
    T.scrub session 16 (\it -> modifyIORef' left (it :)) >>= (@?= [])
    told <- readIORef left
    assertBool "several parts, fewer left each time" (length told > 2 && and (zipWith (<=) told (drop 1 told)))

commitLevel :: X.Store -> [X.Hash] -> Int -> IO X.Hash
commitLevel store before level = X.withTree (maybe (X.emptyTree store) (X.checkout store) (headOf before)) $ \tree -> do
  X.add tree ["level"] (C.pack (show level))
  X.add tree ["many", C.pack (show (level `mod` 4))] (B.pack [fromIntegral (at * at + level) | at <- [0 .. 4999]])
  X.commit store tree (X.Info before (fromIntegral level) "me" "")
 where
  headOf = foldr (const . Just) Nothing

chain :: X.Store -> Int -> IO (V.Vector X.Hash)
chain store count = go [] 0 []
 where
  go before level made
    | level == count = pure (V.fromList (reverse made))
    | otherwise = commitLevel store before level >>= \it -> go [it] (level + 1) (it : made)

levelOf :: X.Store -> X.Hash -> IO (Maybe B.ByteString)
levelOf store at = X.withCheckout store at (`X.find` ["level"])

finish :: X.Store -> IO ()
finish store = X.collectStep store 64 >>= \isLeft -> when isLeft (finish store)

collected :: IO ()
collected = do
  disk <- T.memory 1
  commits <- X.withStore X.defaultStoreConfig {X.storeChunkBytes = Just 10000} disk $ \store -> do
    commits <- chain store 20
    X.pin store (commits V.! 3)
    X.setBranch store "old" (commits V.! 5)
    X.collect store (commits V.! 15)
    status <- X.collectStatus store
    (X.collectPhase status, X.collectTarget status) @?= (X.Marking, Just (commits V.! 15))
    throwsKind Invalid (X.collect store (commits V.! 16))
    X.collectKeeping store (X.Newest 1) >>= (@?= False)
    X.pauseCollecting store
    X.collectIsPaused <$> X.collectStatus store >>= (@?= True)
    X.collectStep store 100000 >>= (@?= False)
    X.resumeCollecting store
    finish store
    after <- X.collectStatus store
    (X.collectPhase after, X.collections after) @?= (X.NoCollection, 1)
    assertBool "bytes went" (X.collectReclaimedBytes after > 0)
    forM_ [0 .. 19] $ \level ->
      if level `elem` [3, 5] || level >= 15
        then levelOf store (commits V.! level) >>= (@?= Just (C.pack (show level)))
        else throwsKind Collected (X.checkout store (commits V.! level))
    throwsKind Collected (X.pin store (commits V.! 4))
    throwsKind Invalid (X.pinEvery store 0)
    X.pins store >>= (@?= [commits V.! 3])
    pure commits
  X.withStore X.defaultStoreConfig disk $ \store -> do
    X.unpin store (commits V.! 3) >>= (@?= True)
    X.unpin store (commits V.! 3) >>= (@?= False)
    X.collectKeeping store (X.Newest 2) >>= (@?= True)
    X.cancelCollecting store >>= (@?= True)
    X.cancelCollecting store >>= (@?= False)
    added <- X.pinEvery store 2
    assertBool "some were pinned" (added > 0)
    X.collectKeeping store (X.Since 18) >>= (@?= True)
    finish store
    X.pins store >>= mapM (X.exists store) >>= (@?= True) . and

archived :: IO ()
archived = inFolder $ \path -> inFolder $ \other -> do
  disk <- T.folder path
  lower <- T.folder other
  let config = X.defaultStoreConfig {X.storeChunkBytes = Just 10000, X.storeSynced = False, X.storeLower = Just lower}
  commits <- X.withStore config disk $ \store -> do
    commits <- chain store 12
    moved <- X.archive store (commits V.! 8) maxBound
    assertBool "chunks went down" (moved > 1)
    levelOf store (commits V.! 0) >>= (@?= Just "0")
    throwsKind Invalid (X.collect store (commits V.! 8))
    pure commits
  X.withStore config disk $ \store -> do
    X.unarchive store 1 >>= (@?= 1)
    void (X.unarchive store maxBound)
    X.archivedBytes store >>= (@?= 0)
    X.attach store >>= (@?= 0)
  X.withStore X.defaultStoreConfig disk $ \store -> levelOf store (commits V.! 0) >>= (@?= Just "0")

travelled :: IO ()
travelled = inFolder $ \path -> do
  files <- T.folder path
  disks <- mapM T.memory [1, 2, 3]
  case disks of
    [one, two, three] -> do
      (commits, file) <- X.withStore X.defaultStoreConfig one $ \store -> do
        commits <- chain store 3
        let both = [commits V.! 1, commits V.! 2]
        file <- X.exportCommits store both files "two" Nothing
        packed <- X.exportCommits store both files "packed" (Just 9)
        X.fileContent packed @?= X.fileContent file
        assertBool "it is smaller" (X.fileBytes packed < X.fileBytes file)
        throwsKind Invalid (X.exportCommits store both files "odd" (Just 99))
        pure (commits, file)
      X.verifyCommit files "packed" >>= (@?= X.fileContent file) . X.fileContent
      (X.fileCommits file, X.fileNewest file) @?= (2, commits V.! 2)
      X.withStore X.defaultStoreConfig two $ \store -> do
        void (X.importCommit store files "packed")
        levelOf store (commits V.! 2) >>= (@?= Just "2")
        throwsKind Missing (X.importCommit store files "nobody")
      made <- X.newStoreFromCommit X.defaultStoreConfig three files "two"
      levelOf made (commits V.! 1) >>= (@?= Just "1")
      X.closeStore made
    _ -> fail "three disks"

readMeanwhile :: IO ()
readMeanwhile = do
  disk <- T.memory 1
  X.withStore X.defaultStoreConfig disk $ \store -> do
    first <- V.head <$> chain store 1
    X.setBranch store "main" first
    reader <- X.newReader store
    dones <- forM [1 .. 3 :: Int] $ \_ -> do
      done <- newEmptyMVar
      _ <- forkIO $ do
        let go = do
              Just at <- X.readerHead reader "main"
              Just level <- X.withTree (X.readerTree reader at) (`X.find` ["level"])
              if level == "40" then putMVar done True else go
        go `finally` putMVar done False
      pure done
    let go before level = when (level <= 40) $ do
          at <- commitLevel store [before] level
          X.setBranch store "main" at
          go at (level + 1)
    go first 1
    mapM takeMVar dones >>= (@?= True) . and
    newest <- X.lastCommit store
    X.readerNewest reader >>= (@?= newest)
    X.closeReader reader
    throwsKind Closed (X.readerNewest reader)

-- | What a call calls back is in the transaction around the call.
inCallbacks :: IO ()
inCallbacks = inMemory $ \session -> do
  shared <- newShared session
  tree <- X.freeTree X.tezos
  other <- X.duplicateTree tree
  X.add tree ["a"] "1"
  let within block = do
        T.transactionApply block utxo (V.singleton (insertOf "a" "1"))
        T.transactionLookups block utxo (V.singleton (Key "a")) >>= (@?= V.singleton (Just (Joined "1")))
        throwsKind Invalid (T.commitAll shared [])
        throwsKind Invalid (T.transaction shared (const (pure ())))
        throwsKind Invalid (T.saveShared shared "s" "" "")
  T.transaction shared $ \block -> do
    X.fold tree [] X.AllDepths X.Sorted () (\_ _ () -> within block)
    X.diff tree other (\_ _ _ -> within block)
    void (X.produceProof X.TreeProof tree (const (within block)))
    X.fold tree [] (X.Eq 0) X.Sorted () (\_ _ () -> X.diff tree other (\_ _ _ -> within block))
  lookedUp shared "a" >>= (@?= Just (Joined "1"))
  -- Where no transaction is around the call, one may be in it.
  X.fold tree [] (X.Eq 0) X.Sorted () $ \_ _ () -> T.transaction shared $ \block ->
    T.transactionApply block utxo (V.singleton (insertOf "b" "2"))
  lookedUp shared "b" >>= (@?= Just (Joined "2"))

-- | A transaction is used by any thread, and who would wait for one that nobody uses is told.
patience :: IO ()
patience = inMemory $ \session -> do
  shared <- newShared session
  T.setPatience shared (Just 20)
  let insert key = T.commitAll shared [T.NamedUpdate utxo (V.singleton (insertOf key "1"))]
      elsewhere action = do
        end <- newEmptyMVar
        void (forkIO (try action >>= putMVar end))
        takeMVar end >>= either (\raised -> throwIO (raised :: SomeException)) pure
  T.transaction shared $ \block -> do
    elsewhere (T.transactionApply block utxo (V.singleton (insertOf "a" "1")))
    elsewhere (throwsKind Busy (insert "b"))
    throwsKind Invalid (insert "b")
  -- One that is used is waited for. On a busy machine much time passes between two uses.
  T.setPatience shared (Just 2000)
  done <- newEmptyMVar
  T.transaction shared $ \block -> do
    void (forkIO (insert "b" `finally` putMVar done ()))
    forM_ [1 .. 600 :: Int] $ \_ -> threadDelay 4000 >> T.transactionLookups block utxo (V.singleton (Key "a"))
    tryTakeMVar done >>= (@?= Nothing)
  takeMVar done
  lookedUp shared "b" >>= (@?= Just (Joined "1"))
  T.setPatience shared Nothing
  T.transaction shared $ \_ -> forkIO (insert "c" `finally` putMVar done ()) >> threadDelay 60000
  takeMVar done
  lookedUp shared "c" >>= (@?= Just (Joined "1"))

-- | A reader keeps its store.
keptByReader :: IO ()
keptByReader = do
  (reader, at) <- made
  forM_ [1 .. 5 :: Int] $ \_ -> performMajorGC >> threadDelay 2000
  X.readerNewest reader >>= (@?= Just at)
  tree <- X.readerTree reader at
  X.find tree ["a"] >>= (@?= Just "1")
 where
  made = do
    disk <- T.memory 1
    store <- X.newStore X.defaultStoreConfig disk
    tree <- X.emptyTree store
    X.add tree ["a"] "1"
    at <- X.commit store tree (X.Info [] 0 "" "")
    reader <- X.newReader store
    pure (reader, at)

tests :: TestTree
tests =
  testGroup
    "keeping"
    [ testCase "transactions over shared tables" transactions
    , testCase "callbacks in transactions" inCallbacks
    , testCase "patience with transactions" patience
    , testCase "a handle that is closed while others wait" closedWhileWaiting
    , testCase "who waits is served in order" servedInOrder
    , testCase "who waits is told, though who closes the handle is killed" closedByOneKilled
    , testCase "what a reader leads to" keptByReader
    , testCase "opened or made" openedOrMade
    , testCase "scrubs" scrubbed
    , testCase "collections and pins" collected
    , testCase "lower disks" archived
    , testCase "files of commits" travelled
    , testCase "readers" readMeanwhile
    ]
