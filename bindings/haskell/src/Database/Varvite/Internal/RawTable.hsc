{-# LANGUAGE CApiFFI #-}
{-# OPTIONS_GHC -Wno-missing-export-lists #-}

-- | The header's functions and structs for tables.
module Database.Varvite.Internal.RawTable where

import Data.Word (Word32, Word64, Word8)
import Database.Varvite.Internal.Raw
import Foreign.C.Types (CChar (..), CInt (..), CSize (..))
import Foreign.Ptr (FunPtr, Ptr, plusPtr)
import Foreign.Storable (Storable (..))

#include "shims.h"

data {-# CTYPE "varvite_backed_up" #-} CBackedUp
data {-# CTYPE "varvite_bound" #-} CBound
data {-# CTYPE "varvite_cursor" #-} CCursor
data {-# CTYPE "varvite_loader" #-} CLoader
data {-# CTYPE "varvite_open_options" #-} COpenOptions
data {-# CTYPE "varvite_operation" #-} COperation
data {-# CTYPE "varvite_operator" #-} COperator
data {-# CTYPE "varvite_scrub" #-} CScrub
data {-# CTYPE "varvite_session" #-} CSession
data {-# CTYPE "varvite_session_options" #-} CSessionOptions
data {-# CTYPE "varvite_snapshot" #-} CSnapshot
data {-# CTYPE "varvite_snapshot_content" #-} CSnapshotContent
data {-# CTYPE "varvite_table" #-} CTable
data {-# CTYPE "varvite_table_options" #-} CTableOptions
data {-# CTYPE "varvite_table_stats" #-} CTableStats
data {-# CTYPE "varvite_table_update" #-} CTableUpdate
data {-# CTYPE "varvite_tables" #-} CTables
data {-# CTYPE "varvite_transaction" #-} CTransaction
data {-# CTYPE "varvite_transferred" #-} CTransferred
data {-# CTYPE "varvite_value" #-} CValue
data {-# CTYPE "varvite_view" #-} CView

sizeOfOperation :: Int
sizeOfOperation = #{size varvite_operation}

pokeOperation :: Ptr COperation -> Word32 -> Bytes -> Bytes -> Ptr CValue -> IO ()
pokeOperation it kind key value held = do
  #{poke varvite_operation, kind} it kind
  poke (it `plusPtr` #{offset varvite_operation, key}) key
  poke (it `plusPtr` #{offset varvite_operation, value}) value
  #{poke varvite_operation, held} it held
{-# INLINE pokeOperation #-}

kindInsert, kindDelete, kindUpsert, kindInsertValue, kindDeleteRange, kindDeletePrefix :: Word32
kindInsert = #{const VARVITE_INSERT}
kindDelete = #{const VARVITE_DELETE}
kindUpsert = #{const VARVITE_UPSERT}
kindInsertValue = #{const VARVITE_INSERT_VALUE}
kindDeleteRange = #{const VARVITE_DELETE_RANGE}
kindDeletePrefix = #{const VARVITE_DELETE_PREFIX}

sizeOfTableUpdate :: Int
sizeOfTableUpdate = #{size varvite_table_update}

pokeTableUpdate :: Ptr CTableUpdate -> Ptr CTable -> Ptr COperation -> CSize -> IO ()
pokeTableUpdate it table operations count = do
  #{poke varvite_table_update, table} it table
  #{poke varvite_table_update, operations} it operations
  #{poke varvite_table_update, count} it count

sizeOfNamedUpdate :: Int
sizeOfNamedUpdate = #{size varvite_named_update}

data {-# CTYPE "varvite_named_update" #-} CNamedUpdate

pokeNamedUpdate :: Ptr CNamedUpdate -> Ptr CChar -> Ptr COperation -> CSize -> IO ()
pokeNamedUpdate it name operations count = do
  #{poke varvite_named_update, name} it name
  #{poke varvite_named_update, operations} it operations
  #{poke varvite_named_update, count} it count

sizeOfBound :: Int
sizeOfBound = #{size varvite_bound}

-- | A bound that includes its key, or not.
pokeBound :: Ptr CBound -> Bool -> Bytes -> IO ()
pokeBound it isIncluded key = do
  #{poke varvite_bound, kind} it (if isIncluded then #{const VARVITE_INCLUDED} else #{const VARVITE_EXCLUDED} :: Word32)
  poke (it `plusPtr` #{offset varvite_bound, key}) key

sizeOfSessionOptions, sizeOfTableOptions, sizeOfOpenOptions, sizeOfSnapshotContent :: Int
sizeOfSessionOptions = #{size varvite_session_options}
sizeOfTableOptions = #{size varvite_table_options}
sizeOfOpenOptions = #{size varvite_open_options}
sizeOfSnapshotContent = #{size varvite_snapshot_content}

setLog, setDirect, setQueueDepth :: Ptr CSessionOptions -> Word32 -> IO ()
setLog = #{poke varvite_session_options, log}
setDirect = #{poke varvite_session_options, direct}
setQueueDepth = #{poke varvite_session_options, queue_depth}

setSeed, setMemoryBytes, setSegmentBytes, setMaxOpenFiles :: Ptr CSessionOptions -> Word64 -> IO ()
setSeed = #{poke varvite_session_options, seed}
setMemoryBytes = #{poke varvite_session_options, memory_bytes}
setSegmentBytes = #{poke varvite_session_options, segment_bytes}
setMaxOpenFiles = #{poke varvite_session_options, max_open_files}

setSizeRatio, setFilterBits, setBlobMinBytes, setCompression :: Ptr CTableOptions -> Word32 -> IO ()
setCompression = #{poke varvite_table_options, compression}
setSizeRatio = #{poke varvite_table_options, size_ratio}
setFilterBits = #{poke varvite_table_options, filter_bits}
setBlobMinBytes = #{poke varvite_table_options, blob_min_bytes}

setWriteBufferBytes, setFilterBytesMax :: Ptr CTableOptions -> Word64 -> IO ()
setWriteBufferBytes = #{poke varvite_table_options, write_buffer_bytes}
setFilterBytesMax = #{poke varvite_table_options, filter_bytes_max}

setOperator :: Ptr CTableOptions -> Ptr COperator -> IO ()
setOperator = #{poke varvite_table_options, merge_operator}

setVerify :: Ptr COpenOptions -> Word32 -> IO ()
setVerify = #{poke varvite_open_options, verify}

setLabel :: Ptr COpenOptions -> Ptr CChar -> IO ()
setLabel = #{poke varvite_open_options, label}

setOperators :: Ptr COpenOptions -> Ptr (Ptr COperator) -> CSize -> IO ()
setOperators it operators count = do
  #{poke varvite_open_options, operators} it operators
  #{poke varvite_open_options, operator_count} it count

pokeSnapshotContent :: Ptr CSnapshotContent -> Ptr CChar -> Bytes -> Ptr (Ptr CTable) -> CSize -> IO ()
pokeSnapshotContent it label payload tables count = do
  #{poke varvite_snapshot_content, label} it label
  poke (it `plusPtr` #{offset varvite_snapshot_content, payload}) payload
  #{poke varvite_snapshot_content, tables} it tables
  #{poke varvite_snapshot_content, table_count} it count

sizeOfTableStats :: Int
sizeOfTableStats = #{size varvite_table_stats}

-- | Of sizes and debts of a table, all that a number of this face says, in its order.
peekTableStats :: Ptr CTableStats -> IO [Word64]
peekTableStats it =
  sequence
    [ #{peek varvite_table_stats, logical_entries} it
    , #{peek varvite_table_stats, logical_entries_min} it
    , #{peek varvite_table_stats, logical_entries_max} it
    , #{peek varvite_table_stats, physical_entries} it
    , #{peek varvite_table_stats, disk_bytes} it
    , #{peek varvite_table_stats, blob_disk_bytes} it
    , #{peek varvite_table_stats, buffer_bytes} it
    , #{peek varvite_table_stats, filter_memory_bytes} it
    , #{peek varvite_table_stats, index_memory_bytes} it
    , #{peek varvite_table_stats, debt_bytes} it
    , #{peek varvite_table_stats, union_debt_bytes} it
    , #{peek varvite_table_stats, levels} it
    ]

-- | Joins older bytes and newer ones.
type Join = Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> Ptr COutput -> IO CInt

foreign import ccall "wrapper" makeJoin :: Join -> IO (FunPtr Join)
foreign import ccall safe "hs_varvite_operator_new" operatorNew :: Ptr CChar -> FunPtr Join -> Ptr (Ptr COperator) -> Failing

foreign import capi safe "shims.h varvite_session_options_default" sessionOptionsDefault :: Ptr CSessionOptions -> Failing
foreign import capi safe "shims.h varvite_table_options_default" tableOptionsDefault :: Ptr CTableOptions -> Failing
foreign import capi safe "shims.h varvite_table_options_utxo" tableOptionsUtxo :: Ptr CTableOptions -> Failing
foreign import capi safe "shims.h varvite_table_options_within_memory" tableOptionsWithinMemory :: Word64 -> Ptr CTableOptions -> Failing
foreign import capi safe "shims.h varvite_open_options_default" openOptionsDefault :: Ptr COpenOptions -> Failing
foreign import capi safe "shims.h varvite_operator_built_in" operatorBuiltIn :: Ptr CChar -> Ptr (Ptr COperator) -> Failing
foreign import capi safe "shims.h varvite_operator_close" operatorClose :: Ptr COperator -> Failing
foreign import capi safe "shims.h varvite_session_create" sessionCreate :: Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing
foreign import capi safe "shims.h varvite_session_open" sessionOpen :: Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing
foreign import capi safe "shims.h varvite_session_open_read_only" sessionOpenReadOnly :: Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing
foreign import capi safe "shims.h varvite_session_close" sessionClose :: Ptr CSession -> Failing
foreign import capi safe "shims.h varvite_session_warnings" sessionWarnings :: Ptr CSession -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_session_create_table" sessionCreateTable :: Ptr CSession -> Ptr CChar -> Ptr CTableOptions -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_session_union" sessionUnion :: Ptr CSession -> Ptr CChar -> Ptr (Ptr CTable) -> CSize -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_session_incremental_union" sessionIncrementalUnion :: Ptr CSession -> Ptr CChar -> Ptr (Ptr CTable) -> CSize -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_session_check" sessionCheck :: Ptr CDisk -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_table_apply" tableApply :: Ptr CTable -> Ptr COperation -> CSize -> Failing
foreign import capi safe "shims.h varvite_session_apply" sessionApply :: Ptr CSession -> Ptr CTableUpdate -> CSize -> Failing
foreign import capi safe "shims.h varvite_table_delete_range" tableDeleteRange :: Ptr CTable -> Ptr CBound -> Ptr CBound -> Failing
foreign import capi safe "shims.h varvite_table_view" tableView :: Ptr CTable -> Ptr (Ptr CView) -> Failing
foreign import capi safe "shims.h varvite_table_duplicate" tableDuplicate :: Ptr CTable -> Ptr CChar -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_table_name" tableName :: Ptr CTable -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_table_is_live" tableIsLive :: Ptr CTable -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_table_work" tableWork :: Ptr CTable -> Word64 -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_table_remaining_union_debt" tableRemainingUnionDebt :: Ptr CTable -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_table_supply_union_credits" tableSupplyUnionCredits :: Ptr CTable -> Word64 -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_table_get_stats" tableGetStats :: Ptr CTable -> Ptr CTableStats -> Failing
foreign import capi safe "shims.h varvite_table_close" tableClose :: Ptr CTable -> Failing
foreign import capi safe "shims.h varvite_table_lookup" tableLookup :: Ptr CTable -> Ptr Bytes -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_view_lookup" viewLookup :: Ptr CView -> Ptr Bytes -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_table_range" tableRange :: Ptr CTable -> Ptr CBound -> Ptr CBound -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_view_range" viewRange :: Ptr CView -> Ptr CBound -> Ptr CBound -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_table_find" tableFind :: Ptr CTable -> Ptr Bytes -> CSize -> Ptr (Ptr CValue) -> Failing
foreign import capi safe "shims.h varvite_view_find" viewFind :: Ptr CView -> Ptr Bytes -> CSize -> Ptr (Ptr CValue) -> Failing
foreign import capi safe "shims.h varvite_view_count" viewCount :: Ptr CView -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_view_close" viewClose :: Ptr CView -> Failing
foreign import capi safe "shims.h varvite_value_length" valueLength :: Ptr CValue -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_value_read_at" valueReadAt :: Ptr CValue -> Word64 -> Ptr Word8 -> CSize -> Ptr CSize -> Failing
foreign import capi safe "shims.h varvite_session_read_values" sessionReadValues :: Ptr CSession -> Ptr (Ptr CValue) -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_value_close" valueClose :: Ptr CValue -> Failing
foreign import capi safe "shims.h varvite_table_get" tableGet :: Ptr CTable -> Ptr Bytes -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_table_get_into" tableGetInto :: Ptr CTable -> Ptr Bytes -> Ptr Word8 -> CSize -> Ptr CSize -> Failing
foreign import capi safe "shims.h varvite_view_get_into" viewGetInto :: Ptr CView -> Ptr Bytes -> Ptr Word8 -> CSize -> Ptr CSize -> Failing
foreign import capi safe "shims.h varvite_table_cursor" tableCursor :: Ptr CTable -> Ptr CBound -> Ptr CBound -> Ptr (Ptr CCursor) -> Failing
foreign import capi safe "shims.h varvite_view_cursor" viewCursor :: Ptr CView -> Ptr CBound -> Ptr CBound -> Ptr (Ptr CCursor) -> Failing
foreign import capi safe "shims.h varvite_cursor_next_many" cursorNextMany :: Ptr CCursor -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_cursor_seek" cursorSeek :: Ptr CCursor -> Ptr Bytes -> Failing
foreign import capi safe "shims.h varvite_cursor_seek_first" cursorSeekFirst :: Ptr CCursor -> Failing
foreign import capi safe "shims.h varvite_cursor_seek_last" cursorSeekLast :: Ptr CCursor -> Failing
foreign import capi safe "shims.h varvite_cursor_close" cursorClose :: Ptr CCursor -> Failing
foreign import capi safe "shims.h varvite_cursor_previous" cursorPrevious :: Ptr CCursor -> Ptr Bytes -> Ptr Bytes -> Failing
foreign import capi safe "shims.h varvite_cursor_previous_key" cursorPreviousKey :: Ptr CCursor -> Ptr Bytes -> Failing
foreign import capi safe "shims.h varvite_session_save_snapshot" sessionSaveSnapshot :: Ptr CSession -> Ptr CChar -> Ptr CSnapshotContent -> Failing
foreign import capi safe "shims.h varvite_session_open_snapshot" sessionOpenSnapshot :: Ptr CSession -> Ptr CChar -> Ptr COpenOptions -> Ptr (Ptr CSnapshot) -> Failing
foreign import capi safe "shims.h varvite_session_snapshots" sessionSnapshots :: Ptr CSession -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_session_delete_snapshot" sessionDeleteSnapshot :: Ptr CSession -> Ptr CChar -> Failing
foreign import capi safe "shims.h varvite_session_export_snapshot" sessionExportSnapshot :: Ptr CSession -> Ptr CChar -> Ptr CDisk -> Word32 -> Ptr CTransferred -> Failing
foreign import capi safe "shims.h varvite_session_import_snapshot" sessionImportSnapshot :: Ptr CSession -> Ptr CDisk -> Ptr CChar -> Ptr CChar -> Word32 -> Ptr CTransferred -> Failing
foreign import capi safe "shims.h varvite_snapshot_take" snapshotTake :: Ptr CSnapshot -> Ptr CChar -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_snapshot_label" snapshotLabel :: Ptr CSnapshot -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_snapshot_payload" snapshotPayload :: Ptr CSnapshot -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_snapshot_tables" snapshotTables :: Ptr CSnapshot -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_snapshot_close" snapshotClose :: Ptr CSnapshot -> Failing
foreign import capi safe "shims.h varvite_session_live_tables" sessionLiveTables :: Ptr CSession -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_session_open_table" sessionOpenTable :: Ptr CSession -> Ptr CChar -> Ptr COpenOptions -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_session_publish" sessionPublish :: Ptr CSession -> Ptr CTable -> Failing
foreign import capi safe "shims.h varvite_session_delete_table" sessionDeleteTable :: Ptr CSession -> Ptr CChar -> Failing
foreign import capi safe "shims.h varvite_session_backup" sessionBackup :: Ptr CSession -> Ptr CDisk -> Word32 -> Ptr CBackedUp -> Failing
foreign import capi safe "shims.h varvite_session_load_table" sessionLoadTable :: Ptr CSession -> Ptr CChar -> Ptr CTableOptions -> Word64 -> Ptr (Ptr CLoader) -> Failing
foreign import capi safe "shims.h varvite_loader_push" loaderPush :: Ptr CLoader -> Ptr Bytes -> CSize -> Ptr CSize -> Failing
foreign import capi safe "shims.h varvite_loader_finish" loaderFinish :: Ptr CLoader -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_loader_close" loaderClose :: Ptr CLoader -> Failing

foreign import capi safe "shims.h varvite_session_open_or_create" sessionOpenOrCreate :: Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing
foreign import capi safe "shims.h varvite_session_open_or_create_table" sessionOpenOrCreateTable :: Ptr CSession -> Ptr CChar -> Ptr CTableOptions -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_session_sync_log" sessionSyncLog :: Ptr CSession -> Failing
foreign import capi safe "shims.h varvite_session_share" sessionShare :: Ptr CSession -> Ptr (Ptr CTable) -> CSize -> Ptr (Ptr CTables) -> Failing
foreign import capi safe "shims.h varvite_tables_names" tablesNames :: Ptr CTables -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_tables_views" tablesViews :: Ptr CTables -> Ptr (Ptr CChar) -> CSize -> Ptr (Ptr CView) -> Failing
foreign import capi safe "shims.h varvite_tables_lookup" tablesLookup :: Ptr CTables -> Ptr CChar -> Ptr Bytes -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_tables_commit" tablesCommit :: Ptr CTables -> Ptr CNamedUpdate -> CSize -> Failing
foreign import capi safe "shims.h varvite_tables_begin" tablesBegin :: Ptr CTables -> Ptr (Ptr CTransaction) -> Failing
foreign import capi safe "shims.h varvite_tables_save_snapshot" tablesSaveSnapshot :: Ptr CTables -> Ptr CChar -> Ptr CChar -> Ptr Bytes -> Failing
foreign import capi safe "shims.h varvite_tables_close" tablesClose :: Ptr CTables -> Failing
foreign import capi safe "shims.h varvite_transaction_apply" transactionApply :: Ptr CTransaction -> Ptr CChar -> Ptr COperation -> CSize -> Failing
foreign import capi safe "shims.h varvite_transaction_lookup" transactionLookup :: Ptr CTransaction -> Ptr CChar -> Ptr Bytes -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_transaction_commit" transactionCommit :: Ptr CTransaction -> Failing
foreign import capi safe "shims.h varvite_transaction_close" transactionClose :: Ptr CTransaction -> Failing
foreign import capi safe "shims.h varvite_session_scrub" sessionScrub :: Ptr CSession -> Word64 -> Ptr (Ptr CScrub) -> Failing
foreign import capi safe "shims.h varvite_scrub_work" scrubWork :: Ptr CScrub -> Word64 -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_scrub_findings" scrubFindings :: Ptr CScrub -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_scrub_close" scrubClose :: Ptr CScrub -> Failing
