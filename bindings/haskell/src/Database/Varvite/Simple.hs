-- | Tables in the words of @Database.LSMTree.Simple@: a path for a session, no upserts, unions that prefer the left.
-- Meant to be imported qualified. What it lacks is in "Database.Varvite", whose functions take the same tables.
module Database.Varvite.Simple
  ( module Database.Varvite.Error

    -- * Sessions
  , Session
  , withOpenSession
  , openSession
  , closeSession

    -- * Tables
  , Table
  , TableConfig (..)
  , Workload (..)
  , defaultTableConfig
  , withTable
  , withTableWith
  , newTable
  , newTableWith
  , closeTable

    -- * Lookups
  , member
  , members
  , lookup
  , lookups
  , Range (..)
  , rangeLookup

    -- * Updates
  , insert
  , inserts
  , delete
  , deletes
  , update
  , updates

    -- * Duplicates and unions
  , withDuplicate
  , duplicate
  , withUnion
  , withUnions
  , union
  , unions
  , withIncrementalUnion
  , withIncrementalUnions
  , incrementalUnion
  , incrementalUnions
  , UnionDebt (..)
  , remainingUnionDebt
  , UnionCredits (..)
  , supplyUnionCredits

    -- * Cursors
  , Cursor
  , withCursor
  , withCursorAtOffset
  , newCursor
  , newCursorAtOffset
  , closeCursor
  , next
  , take
  , takeWhile

    -- * Snapshots
  , SnapshotName (..)
  , SnapshotLabel (..)
  , saveSnapshot
  , withTableFromSnapshot
  , openTableFromSnapshot
  , doesSnapshotExist
  , deleteSnapshot
  , listSnapshots

    -- * Bytes
  , SerialiseKey (..)
  , SerialiseValue (..)
  ) where

import Control.Exception (bracket)
import qualified Data.Vector as V
import Database.Varvite.Error
import Database.Varvite.Internal.Config
import Database.Varvite.Internal.Cursor hiding (next, take, takeWhile)
import qualified Database.Varvite.Internal.Cursor as Full
import Database.Varvite.Internal.Snapshot hiding (openTableFromSnapshot, withTableFromSnapshot)
import Database.Varvite.Internal.Table hiding
  ( newTable
  , newTableWith
  , openSession
  , rangeLookup
  , update
  , updates
  , withOpenSession
  , withTable
  , withTableWith
  )
import qualified Database.Varvite.Internal.Table as Full
import Database.Varvite.Serialise
import Foreign.Ptr (nullPtr)
import Prelude hiding (lookup, take, takeWhile)

-- | Opens the session in a folder; makes one where there is none. 'Locked' when another process has it.
openSession :: FilePath -> IO Session
openSession path = bracket (folder path) closeDisk (Full.openSession defaultSessionConfig)

withOpenSession :: FilePath -> (Session -> IO a) -> IO a
withOpenSession path = bracket (openSession path) closeSession

newTable :: Session -> IO (Table k v)
newTable = newTableWith defaultTableConfig

newTableWith :: TableConfig -> Session -> IO (Table k v)
newTableWith config session = newPlainTable config session nullPtr

withTable :: Session -> (Table k v -> IO a) -> IO a
withTable session = bracket (newTable session) closeTable

withTableWith :: TableConfig -> Session -> (Table k v -> IO a) -> IO a
withTableWith config session = bracket (newTableWith config session) closeTable

-- | All of a range, in order of the keys' bytes.
rangeLookup :: (SerialiseKey k, SerialiseValue v) => Table k v -> Range k -> IO (V.Vector (k, v))
rangeLookup table range = V.map pair <$> Full.rangeLookup table range

-- | Binds a key, or unbinds it by 'Nothing'.
update :: (SerialiseKey k, SerialiseValue v) => Table k v -> k -> Maybe v -> IO ()
update table key value = updates table (V.singleton (key, value))

-- | In order, as one batch.
updates :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector (k, Maybe v) -> IO ()
updates table = Full.updates table . V.map (fmap (maybe Delete Insert))
{-# INLINEABLE updates #-}

next :: (SerialiseKey k, SerialiseValue v) => Cursor k v -> IO (Maybe (k, v))
next cursor = fmap pair <$> Full.next cursor

take :: (SerialiseKey k, SerialiseValue v) => Int -> Cursor k v -> IO (V.Vector (k, v))
take limit cursor = V.map pair <$> Full.take limit cursor

takeWhile :: (SerialiseKey k, SerialiseValue v) => Int -> (k -> Bool) -> Cursor k v -> IO (V.Vector (k, v))
takeWhile limit isWanted cursor = V.map pair <$> Full.takeWhile limit isWanted cursor

pair :: Entry k v -> (k, v)
pair (Entry key value) = (key, value)

-- | The table of a snapshot that has one.
openTableFromSnapshot :: Session -> SnapshotName -> SnapshotLabel -> IO (Table k v)
openTableFromSnapshot session (SnapshotName name) (SnapshotLabel label) =
  withPlainSnapshot nullPtr session name (Just label) onlyTable

withTableFromSnapshot :: Session -> SnapshotName -> SnapshotLabel -> (Table k v -> IO a) -> IO a
withTableFromSnapshot session name label = bracket (openTableFromSnapshot session name label) closeTable
