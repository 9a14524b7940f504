{-# LANGUAGE OverloadedStrings #-}

-- | What a node asks of the tables of a ledger state, as ouroboros-consensus' record @LedgerTablesHandle@ has it: one
-- table from inputs to outputs, a handle for each recent block, and the size, which is kept with the handle and saved in the
-- same snapshot as the table, so that no crash leaves one without the other.
module Main (main) where

import Control.Exception (bracket, try)
import Control.Monad (when)
import qualified Data.ByteString as B
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import qualified Data.Vector as Vector
import Data.Word (Word16, Word64)
import Database.Varvite (Operation, SerialiseKey (..), SerialiseValue (..))
import qualified Database.Varvite as Varvite
import qualified Database.Varvite.Simple as Simple

-- | A transaction's hash and the number of one of its outputs: in the order of both.
data TxIn = TxIn !B.ByteString !Word16
  deriving (Eq, Ord, Show)

instance SerialiseKey TxIn where
  serialiseKey (TxIn hash index) = hash <> serialiseKey index
  deserialiseKey bytes = let (hash, index) = B.splitAt (B.length bytes - 2) bytes in TxIn hash (deserialiseKey index)

newtype TxOut = TxOut B.ByteString
  deriving (Eq, Show)

instance SerialiseValue TxOut where
  serialiseValue (TxOut it) = it
  deserialiseValue = TxOut

-- | What a block does to the outputs: those that it spends, and those that it makes.
data Diff = Diff {spent :: !(Set.Set TxIn), made :: !(Map.Map TxIn TxOut)}

-- | The state after one block. All of it stays as it is: a further block gives a handle of its own.
data LedgerTablesHandle = LedgerTablesHandle
  { close :: IO ()
  , duplicate :: IO LedgerTablesHandle
  , duplicateWithDiffs :: Diff -> IO LedgerTablesHandle
  , readOutputs :: Set.Set TxIn -> IO (Map.Map TxIn TxOut)
  , readRange :: Maybe TxIn -> Int -> IO (Map.Map TxIn TxOut)
  -- ^ The first outputs after one, at most so many.
  , readAll :: IO (Map.Map TxIn TxOut)
  , takeHandleSnapshot :: Varvite.SnapshotName -> B.ByteString -> IO ()
  -- ^ With the rest of the ledger state, whole or not at all.
  , tablesSize :: Int
  }

handle :: Varvite.Session -> Int -> Varvite.Table TxIn TxOut -> LedgerTablesHandle
handle session size table =
  LedgerTablesHandle
    { close = Varvite.closeTable table
    , duplicate = handle session size <$> Varvite.duplicate table
    , duplicateWithDiffs = \diff -> do
        next <- Varvite.duplicate table
        Varvite.apply next (operations diff)
        pure (handle session (size - Set.size (spent diff) + Map.size (made diff)) next)
    , readOutputs = \keys -> do
        let wanted = Vector.fromList (Set.toAscList keys)
        found <- Varvite.lookups table wanted
        pure (Map.fromDistinctAscList [(key, it) | (key, Just it) <- zip (Vector.toList wanted) (Vector.toList found)])
    , readRange = \after limit -> Varvite.withCursorOn table (maybe Varvite.Everything Varvite.From after) $ \cursor -> do
        entries <- Varvite.take (limit + 1) cursor
        pure (Map.fromDistinctAscList (take limit (filter ((/= after) . Just . fst) (map pair (Vector.toList entries)))))
    , readAll = Map.fromDistinctAscList . map pair . Vector.toList <$> Varvite.rangeLookup table Varvite.Everything
    , takeHandleSnapshot = \name state ->
        Varvite.saveTables session name label (serialiseValue (fromIntegral size :: Word64) <> state) [Varvite.SomeTable table]
    , tablesSize = size
    }
 where
  pair (Varvite.Entry key value) = (key, value)

-- | Spent first: an output that a block makes and spends itself is in neither.
operations :: Diff -> Vector.Vector (Operation TxIn TxOut)
operations (Diff gone new) =
  Vector.fromList $
    [Varvite.Update key Varvite.Delete | key <- Set.toAscList gone]
      ++ [Varvite.Update key (Varvite.Insert it) | (key, it) <- Map.toAscList new]

label :: Varvite.SnapshotLabel
label = "utxo, version 1"

genesis :: Varvite.Session -> [(TxIn, TxOut)] -> IO LedgerTablesHandle
genesis session outputs = do
  table <- Simple.newTableWith Varvite.defaultTableConfig {Varvite.tableName = "utxo", Varvite.tableWorkload = Varvite.Utxo} session
  Varvite.inserts table (Vector.fromList outputs)
  pure (handle session (length outputs) table)

-- | The handle of a snapshot, and the rest of the state.
restore :: Varvite.Session -> Varvite.SnapshotName -> IO (LedgerTablesHandle, B.ByteString)
restore session name = Varvite.withAnySnapshot session name $ \snapshot -> do
  (size, state) <- B.splitAt 8 <$> Varvite.snapshotPayload snapshot
  table <- Varvite.takeTable snapshot "utxo"
  pure (handle session (fromIntegral (deserialiseValue size :: Word64)) table, state)

main :: IO ()
main = do
  Simple.withOpenSession "ledger" $ \session ->
    bracket (genesis session [(TxIn (hashOf 0) index, TxOut "100 ada") | index <- [0 .. 999]]) close $ \start -> do
      let block = Diff (Set.fromList [TxIn (hashOf 0) index | index <- [0 .. 9]]) (Map.fromList [(TxIn (hashOf 1) 0, TxOut "1000 ada")])
      bracket (duplicateWithDiffs start block) close $ \after -> do
        expect "size before" (tablesSize start) 1000
        expect "size after" (tablesSize after) 991
        -- The older state is as it was: a fork could go on from it.
        let both = Set.fromList [TxIn (hashOf 0) 3, TxIn (hashOf 1) 0]
        readOutputs start both >>= \it -> expect "before" (Map.keys it) [TxIn (hashOf 0) 3]
        readOutputs after both >>= \it -> expect "after" (Map.keys it) [TxIn (hashOf 1) 0]
        readRange after (Just (TxIn (hashOf 0) 10)) 2 >>= \it ->
          expect "a range" (Map.keys it) [TxIn (hashOf 0) 11, TxIn (hashOf 0) 12]
        readAll after >>= \it -> expect "the size, counted" (Map.size it) (tablesSize after)
        other <- duplicate after
        expect "size of a duplicate" (tablesSize other) 991
        close other
        gone <- try (readAll other)
        expect "closed" (either Varvite.errorKind (const Varvite.Panic) gone) Varvite.Closed
        takeHandleSnapshot after "slot-42" "the rest of the state"
  Simple.withOpenSession "ledger" $ \session -> do
    (found, state) <- restore session "slot-42"
    expect "size of the snapshot" (tablesSize found) 991
    expect "the rest" state "the rest of the state"
    close found
  putStrLn "a ledger of 991 outputs"
 where
  hashOf number = B.replicate 32 number

expect :: (Eq a, Show a) => String -> a -> a -> IO ()
expect what found wanted = when (found /= wanted) (fail (what ++ ": " ++ show found ++ ", not " ++ show wanted))
