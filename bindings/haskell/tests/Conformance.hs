-- | Replays the conformance files: the same answers, and the same bytes on disk.
module Conformance (tests) where

import Common
import Control.Exception (Exception, SomeException, throwIO, try)
import Control.Monad (forM, forM_, unless)
import Data.Bits (shiftR, testBit, xor)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import Data.IORef (IORef, modifyIORef', newIORef, readIORef, writeIORef)
import Data.List (sort)
import Data.List.NonEmpty (NonEmpty (..))
import qualified Data.Map.Strict as M
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
import Data.Word (Word32)
import Database.Varvite (Appended (..), Entry (..), Operation (..), Range (..), Update (..))
import qualified Database.Varvite as T
import qualified Database.Varvite.Context as X
import Json
import System.Directory (doesDirectoryExist, listDirectory)
import System.Environment (getEnv)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

-- | That of zip.
crc32 :: B.ByteString -> Word32
crc32 = xor maxBound . B.foldl' step maxBound
 where
  step crc byte = iterate bit (crc `xor` fromIntegral byte) !! 8
  bit crc = (crc `shiftR` 1) `xor` (if testBit crc 0 then 0xedb88320 else 0)

compareFiles :: FilePath -> Json -> Assertion
compareFiles folder line = do
  found <- go ""
  sort found @?= sort (map expected (items (member "files" line)))
 where
  expected it = case items it of
    [path, size, crc] -> (text path, number size, number crc)
    _ -> error "a file has three members"
  go :: FilePath -> IO [(FilePath, Int, Word32)]
  go under = do
    names <- listDirectory (folder ++ under)
    concat <$> forM (filter (/= "lock") names) (\name -> do
      let path = under ++ "/" ++ name
      isFolder <- doesDirectoryExist (folder ++ path)
      if isFolder
        then go path
        else do
          content <- B.readFile (folder ++ path)
          pure [(drop 1 path, B.length content, crc32 content)])

data Tables = Tables
  { session :: IORef (Maybe T.Session)
  , shared :: IORef (Maybe T.Shared)
  , open :: IORef (M.Map String (T.Table B.ByteString Appended))
  }

the :: IORef (Maybe a) -> IO a
the place = readIORef place >>= maybe (fail "nothing is open") pure

tableLine :: FilePath -> IO (String -> Json -> Assertion)
tableLine path = do
  state <- Tables <$> newIORef Nothing <*> newIORef Nothing <*> newIORef M.empty
  disk <- T.folder path
  let table line = named (text (member "table" line))
      named name = readIORef (open state) >>= maybe (fail ("no table " ++ name)) pure . M.lookup name
      keep line it = modifyIORef' (open state) (M.insert (text (member "table" line)) it)
      config line =
        T.defaultSessionConfig {T.sessionSeed = Just (number (member "seed" line)), T.sessionLog = logOf (text <$> memberOf "log" line)}
      found line = map optional (items (member "found" line))
      key name line = bytes (member name line)
      spanned line = case (member "from" line, member "before" line) of
        (Null, Null) -> Everything
        (Null, before) -> Before (bytes before)
        (from, Null) -> From (bytes from)
        (from, before) -> FromToExcluding (bytes from) (bytes before)
      entries line range = do
        it <- table line
        got <- T.rangeLookup it range
        concat [[Just one, Just other] | Entry one (Appended other) <- V.toList got] @?= found line
      doLine what line = case what of
        "refused" -> refused doLine line
        "open_table" -> do
          owner <- the (session state)
          T.openLiveTable owner (text (member "table" line)) >>= keep line
        "live_tables" -> the (session state) >>= T.liveTables >>= (@?= found line) . map (Just . C.pack)
        "cursor" -> table line >>= \it -> cursorSteps it line
        _ -> tableCall what line
      tableCall what line = case what of
        "create_session" -> T.newSession (config line) disk >>= writeIORef (session state) . Just
        "open_session" -> T.restoreSession (config line) disk >>= writeIORef (session state) . Just
        "create_table" -> do
          -- The file has this one only, and values of this face have their operators with their type.
          text (member "operator" line) @?= "append"
          owner <- the (session state)
          made <- T.newTableWith
            T.defaultTableConfig
              { T.tableName = text (member "table" line)
              , T.tableWriteBufferBytes = Just (number (member "write_buffer_bytes" line))
              , T.tableSizeRatio = Just (number (member "size_ratio" line))
              , T.tableBlobMinBytes = Just (number (member "blob_min_bytes" line))
              }
            owner
          keep line made
        "update" -> do
          it <- table line
          T.apply it (V.fromList (map operation (items (member "operations" line))))
        "lookup" -> do
          it <- table line
          got <- T.lookups it (V.fromList (map bytes (items (member "keys" line))))
          map (fmap (\(Appended value_) -> value_)) (V.toList got) @?= found line
        "range" -> entries line (spanned line)
        "prefix" -> entries line (Prefix (key "prefix" line))
        "keys_back" -> do
          it <- table line
          T.withCursorOn it (Prefix (key "prefix" line)) $ \cursor -> do
            T.seekLast cursor
            let back = T.previousKey cursor >>= maybe (pure []) (\one -> (Just one :) <$> back)
            back >>= (@?= found line)
        "delete_range" -> table line >>= (`T.deleteRange` spanned line)
        "union" -> do
          of_ <- mapM (named . text) (items (member "of" line))
          case of_ of
            -- The union has its name from the first of the tables.
            first : rest -> do
              renamed <- T.unionsAs (text (member "table" line)) (first :| rest)
              keep line renamed
            [] -> assertFailure "a union of no tables"
        "save_snapshot" -> do
          owner <- the (session state)
          tables <- mapM (named . text) (items (member "tables" line))
          T.saveTables
            owner
            (T.SnapshotName (text (member "snapshot" line)))
            (T.SnapshotLabel (text (member "label" line)))
            (bytes (member "payload" line))
            (map T.SomeTable tables)
        "open_snapshot" -> do
          owner <- the (session state)
          let name = text (member "take" line)
          taken <- T.withAnySnapshot owner (T.SnapshotName (text (member "snapshot" line))) (`T.takeTable` name)
          modifyIORef' (open state) (M.insert name taken)
        "share" -> do
          owner <- the (session state)
          let names = map text (items (member "tables" line))
          tables <- mapM named names
          T.share owner (map T.SomeTable tables) >>= writeIORef (shared state) . Just
          modifyIORef' (open state) (\all_ -> foldr M.delete all_ names)
        "transaction" -> the (shared state) >>= transaction line
        "shared_lookup" -> do
          it <- the (shared state)
          got <- T.sharedLookups it (nameIn (member "table" line)) (V.fromList (map bytes (items (member "keys" line))))
          map (fmap (\(Appended value_) -> value_)) (V.toList got) @?= found line
        "save_shared" -> do
          it <- the (shared state)
          T.saveShared
            it
            (T.SnapshotName (text (member "snapshot" line)))
            (T.SnapshotLabel (text (member "label" line)))
            (bytes (member "payload" line))
        "close_session" -> do
          readIORef (shared state) >>= mapM_ T.closeShared
          writeIORef (shared state) Nothing
          readIORef (open state) >>= mapM_ T.closeTable
          writeIORef (open state) M.empty
          the (session state) >>= T.closeSession
          compareFiles path line
        _ -> assertFailure ("nobody knows how to do " ++ what)
  pure doLine

logOf :: Maybe String -> T.Log
logOf name = case name of
  Nothing -> T.NoLog
  Just "written" -> T.Written
  Just "synced" -> T.Synced
  Just other -> error other

-- | A call that throws the kind which the line says.
refused :: (String -> Json -> Assertion) -> Json -> Assertion
refused doLine line = throwsKind kind (doLine (text (member "do" call)) call)
 where
  call = member "call" line
  kind = case text (member "kind" line) of
    "missing" -> T.Missing
    "exists" -> T.Exists
    "locked" -> T.Locked
    "invalid" -> T.Invalid
    other -> error other

-- | Steps of a cursor from where a key is or would be.
cursorSteps :: T.Table B.ByteString Appended -> Json -> Assertion
cursorSteps it line = T.withCursorOn it Everything $ \cursor -> do
  T.seek cursor (bytes (member "key" line))
  got <- forM (text (member "steps" line)) $ \step -> if step == 'n' then T.next cursor else T.previous cursor
  let said one = case one of
        Just (Entry key (Appended to)) -> [Just key, Just to]
        Nothing -> [Nothing, Nothing]
  concatMap said got @?= map optional (items (member "found" line))

operation :: Json -> Operation B.ByteString Appended
operation it = case items it of
  [Text "insert", key, to] -> Update (bytes key) (Insert (Appended (bytes to)))
  [Text "upsert", key, to] -> Update (bytes key) (Upsert (Appended (bytes to)))
  [Text "delete", key] -> Update (bytes key) Delete
  [Text "delete_range", from, before] -> DeleteRange (bytes from) (bytes before)
  [Text "delete_prefix", prefix] -> DeletePrefix (bytes prefix)
  _ -> error ("an operation that nobody knows: " ++ show it)

nameIn :: Json -> T.TableName B.ByteString Appended
nameIn = T.TableName . text

-- | What ends a transaction that is to be rolled back.
data RollBack = RollBack
  deriving (Show)

instance Exception RollBack

transaction :: Json -> T.Shared -> Assertion
transaction line it = do
  ended <- try $ T.transaction it $ \block -> do
    forM_ (items (member "steps" line)) $ \step -> case items step of
      [Text "update", table, given] -> T.transactionApply block (nameIn table) (V.fromList (map operation (items given)))
      [Text "lookup", table, keys, found] -> do
        got <- T.transactionLookups block (nameIn table) (V.fromList (map bytes (items keys)))
        map (fmap (\(Appended value_) -> value_)) (V.toList got) @?= map optional (items found)
      _ -> assertFailure ("a step that nobody knows: " ++ show step)
    unless (text (member "ends" line) == "commit") (throwIO RollBack)
  case ended of
    Left RollBack -> text (member "ends" line) @?= "rollback"
    Right () -> pure ()

contextLine :: FilePath -> IO (String -> Json -> Assertion)
contextLine path = do
  place <- newIORef Nothing
  trees <- newIORef M.empty
  shapes <- newIORef X.tezos
  disk <- T.folder path
  let tree line = readIORef trees >>= maybe (fail "no such tree") pure . M.lookup (text (member "tree" line))
      keep line it = modifyIORef' trees (M.insert (text (member "tree" line)) it)
      names line = map bytes (items (member "path" line))
      hash it = fromMaybe (error "not a hash") (X.hashFromBytes (bytes it))
      isHash line it = X.hashBytes it @?= bytes (member "hash" line)
      doLine what line = case what of
        "open_store" -> X.restoreStore X.defaultStoreConfig {X.storeSeed = Just (number (member "seed" line))} disk >>= writeIORef place . Just
        "branch" -> do
          store <- the place
          got <- X.branch store (bytes (member "branch" line))
          fmap X.hashBytes got @?= optional (member "found" line)
        "fold" -> do
          it <- tree line
          let visit at below before = (\kind -> (treeKind kind, at) : before) <$> X.kind below
              row found = case items found of
                kind : at -> (text kind, map bytes at)
                [] -> error "no kind"
          got <- X.fold it (names line) X.AllDepths X.Sorted [] visit
          reverse got @?= map row (items (member "found" line))
        "diff" -> do
          it <- tree line
          later <- readIORef trees >>= maybe (fail "no such tree") pure . M.lookup (text (member "after" line))
          changes <- newIORef []
          X.diff it later (\at old new -> modifyIORef' changes ((old, new, at) :))
          let row found = case items found of
                old : new : at -> (optional old, optional new, map bytes at)
                _ -> error "a difference has two sides"
          got <- readIORef changes
          reverse got @?= map row (items (member "found" line))
        "page" -> do
          it <- tree line
          got <- X.list it [] (number (member "offset" line)) (number (member "length" line))
          isListed line got
          X.length it [] >>= (@?= number (member "count" line))
        "refused" -> refused doLine line
        _ -> contextCall what line
      contextCall what line = case what of
        "create_store" -> do
          let chunks = number <$> memberOf "chunk_bytes" line
              configuration = maybe X.tezos (shape . text) (memberOf "configuration" line)
              config =
                X.defaultStoreConfig
                  {X.storeConfiguration = configuration, X.storeSeed = Just (number (member "seed" line)), X.storeChunkBytes = chunks}
          made <- X.newStore config disk
          writeIORef place (Just made)
          writeIORef shapes configuration
        "pin" -> the place >>= (`X.pin` hash (member "commit" line))
        "unpin" -> the place >>= (`X.unpin` hash (member "commit" line)) >>= (@?= isTrue (member "was" line))
        "pin_every" -> the place >>= (`X.pinEvery` number (member "nth" line)) >>= (@?= number (member "added" line))
        "pins" -> the place >>= X.pins >>= (@?= map bytes (items (member "found" line))) . map X.hashBytes
        "collect" -> the place >>= (`X.collect` hash (member "commit" line))
        "collect_keep" -> do
          store <- the place
          X.collectKeeping store (X.Newest (number (member "newest" line))) >>= (@?= isTrue (member "began" line))
        "collect_to_the_end" -> do
          store <- the place
          let go = X.collectStep store (number (member "credits" line)) >>= \isLeft -> if isLeft then go else pure ()
          go
        "is_collected" -> the place >>= \store -> throwsKind T.Collected (X.checkout store (hash (member "commit" line)))
        "empty_tree" -> the place >>= X.emptyTree >>= keep line
        "checkout" -> the place >>= (`X.checkout` hash (member "commit" line)) >>= keep line
        "add" -> tree line >>= \it -> X.add it (names line) (bytes (member "value" line))
        "remove" -> tree line >>= (`X.remove` names line)
        "find" -> tree line >>= (`X.find` names line) >>= (@?= optional (member "found" line))
        "list" -> do
          it <- tree line
          got <- X.list it (names line) 0 maxBound
          isListed line got
        "hash" -> tree line >>= X.hash >>= isHash line
        "commit" -> do
          store <- the place
          it <- tree line
          X.commit
            store
            it
            (X.Info
              (map hash (items (member "parents" line)))
              (number (member "date" line))
              (bytes (member "author" line))
              (bytes (member "message" line)))
            >>= isHash line
        "set_branch" -> do
          store <- the place
          X.setBranch store (bytes (member "branch" line)) (hash (member "commit" line))
        "prove_finds" -> do
          it <- tree line
          root <- X.DirectoryRoot <$> X.hash it
          let finds on = forM_ (items (member "paths" line)) (X.find on . map bytes . items)
              form = if number (member "stream" line) == (1 :: Int) then X.StreamProof else X.TreeProof
              encoding = case text (member "encoding" line) of
                "v1" -> X.V1
                "v2" -> X.V2
                "irmin" -> X.Irmin
                "json" -> X.Json
                other -> error other
          (proof, ()) <- X.produceProof form it finds
          encoded <- X.encodeProof encoding proof
          encoded @?= bytes (member "proof" line)
          configuration <- readIORef shapes
          again <- X.decodeProof configuration encoding encoded
          X.verifyProof configuration root again finds
        "close_store" -> do
          readIORef trees >>= mapM_ X.closeTree
          writeIORef trees M.empty
          the place >>= X.closeStore
          compareFiles path line
        _ -> assertFailure ("nobody knows how to do " ++ what)
  pure doLine
 where
  isListed line got = concatMap said got @?= items (member "found" line)
  said (name, kind) = [Text (concatMap hex (B.unpack name)), Text (treeKind kind)]
  treeKind kind = if kind == X.Value then "value" else "directory"
  shape "tezos-binary" = X.tezosBinary
  shape other = error other
  isTrue it = number it == (1 :: Int)
  hex byte = [digits !! fromIntegral (byte `div` 16), digits !! fromIntegral (byte `mod` 16)]
  digits = "0123456789abcdef"

replay :: String -> (FilePath -> IO (String -> Json -> Assertion)) -> Assertion
replay name begin = inFolder $ \path -> do
  folder <- getEnv "VARVITE_CONFORMANCE"
  content <- C.readFile (folder ++ "/" ++ name ++ ".jsonl")
  doLine <- begin path
  let lines_ = C.lines content
  forM_ (zip [1 :: Int ..] lines_) $ \(at, letters) -> do
    let line = parse (C.unpack letters)
    outcome <- try (doLine (text (member "do" line)) line)
    case outcome of
      Left raised -> do
        putStrLn ("line " ++ show at ++ " of " ++ name ++ ".jsonl")
        throwIO (raised :: SomeException)
      Right () -> pure ()
  assertBool "the file has lines" (length lines_ > 20)
  unless (any (C.isInfixOf (C.pack "\"files\"")) lines_) (assertFailure "the file compares no files")

tests :: TestTree
tests = testGroup "conformance" [testCase "of tables" (replay "table" tableLine), testCase "of contexts" (replay "context" contextLine), testCase "of collections" (replay "collect" contextLine), testCase "of the binary shape" (replay "binary" contextLine), testCase "of what is logged" (replay "logged" tableLine), testCase "of walks" (replay "walked" contextLine)]
