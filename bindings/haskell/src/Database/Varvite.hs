-- | Tables in the words of @Database.LSMTree@. Meant to be imported qualified.
--
-- > import qualified Database.Varvite as Varvite
--
-- What differs: all is in 'IO', answers are 'Maybe', a value and its blob are one (a value of at least
-- 'tableBlobMinBytes' lies apart and can be found without being read), 'BlobRef's stay, tables have names and a merge
-- operator of their own, whatever fails throws 'VarviteError', and cursors go both ways.
--
-- Any thread may use any handle, and closing again does nothing. What nothing leads to is closed by the collector; close
-- sessions and tables yourself all the same, since only then are errors told and the folder's lock is gone at once.
module Database.Varvite
  ( -- * Errors
    module Database.Varvite.Error

    -- * Disks
  , Disk
  , folder
  , existingFolder
  , memory
  , closeDisk

    -- * Sessions
  , Session
  , SessionConfig (..)
  , Log (..)
  , defaultSessionConfig
  , withOpenSession
  , openSession
  , newSession
  , restoreSession
  , openSessionReadOnly
  , closeSession
  , warnings
  , checkSession
  , syncLog
  , scrub

    -- * Tables
  , Table
  , TableConfig (..)
  , Workload (..)
  , defaultTableConfig
  , withTable
  , withTableWith
  , newTable
  , newTableWith
  , openOrNewTable
  , closeTable
  , nameOf
  , TableStats (..)
  , tableStats
  , size

    -- * Lookups
  , member
  , members
  , lookup
  , lookups
  , Range (..)
  , Entry (..)
  , rangeLookup

    -- * Updates
  , insert
  , inserts
  , upsert
  , upserts
  , delete
  , deletes
  , Update (..)
  , update
  , updates
  , deleteRange
  , Operation (..)
  , apply
  , TableUpdate (..)
  , applyAll
  , workAhead

    -- * Tables that threads share, and transactions
  , Shared
  , TableName (..)
  , share
  , closeShared
  , setPatience
  , sharedTables
  , sharedLookups
  , sharedViews
  , NamedUpdate (..)
  , commitAll
  , saveShared
  , Transaction
  , transaction
  , transactionApply
  , transactionLookups

    -- * Duplicates
  , withDuplicate
  , duplicate
  , duplicateAs

    -- * Unions
  , withUnion
  , withUnions
  , union
  , unions
  , unionsAs
  , withIncrementalUnion
  , withIncrementalUnions
  , incrementalUnion
  , incrementalUnions
  , UnionDebt (..)
  , remainingUnionDebt
  , UnionCredits (..)
  , supplyUnionCredits

    -- * Values that lie apart
  , BlobRef
  , lookupRefs
  , retrieveBlob
  , retrieveBlobs
  , blobLength
  , closeBlobRef

    -- * Cursors
  , Cursor
  , withCursor
  , withCursorAtOffset
  , withCursorOn
  , newCursor
  , newCursorAtOffset
  , newCursorOn
  , closeCursor
  , next
  , take
  , takeWhile
  , previous
  , previousKey
  , seek
  , seekFirst
  , seekLast

    -- * Views
  , View
  , withView
  , newView
  , closeView
  , viewLookups
  , viewRangeLookup
  , newViewCursorOn

    -- * Snapshots
  , SnapshotName (..)
  , SnapshotLabel (..)
  , saveSnapshot
  , withTableFromSnapshot
  , openTableFromSnapshot
  , doesSnapshotExist
  , deleteSnapshot
  , listSnapshots
  , SomeTable (..)
  , saveTables
  , Snapshot
  , withSnapshot
  , withAnySnapshot
  , snapshotTables
  , snapshotPayload
  , takeTable
  , Verify (..)
  , exportSnapshot
  , importSnapshot

    -- * Live tables
  , openLiveTable
  , liveTables
  , publish
  , deleteLiveTable
  , backup

    -- * Loading
  , LoadOrder (..)
  , loadTable

    -- * Bytes
  , module Database.Varvite.Serialise
  ) where

import Database.Varvite.Error
import Database.Varvite.Internal.Config
import Database.Varvite.Internal.Cursor
import Database.Varvite.Internal.Shared
import Database.Varvite.Internal.Snapshot
import Database.Varvite.Internal.Table
import Database.Varvite.Serialise
import Prelude ()
