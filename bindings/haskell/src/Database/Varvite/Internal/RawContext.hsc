{-# LANGUAGE CApiFFI #-}
{-# OPTIONS_GHC -Wno-missing-export-lists #-}

-- | The header's functions and structs for contexts.
module Database.Varvite.Internal.RawContext where

import Data.Int (Int64)
import Data.Word (Word32, Word64, Word8)
import Database.Varvite.Internal.Raw
import Foreign.C.Types (CChar (..), CInt (..), CSize (..))
import Foreign.Ptr (FunPtr, Ptr, plusPtr)
import Foreign.Storable (Storable (..))

#include "shims.h"

data {-# CTYPE "varvite_checked" #-} CChecked
data {-# CTYPE "varvite_collect_status" #-} CCollectStatus
data {-# CTYPE "varvite_commit" #-} CCommit
data {-# CTYPE "varvite_commit_file" #-} CCommitFile
data {-# CTYPE "varvite_commit_info" #-} CCommitInfo
data {-# CTYPE "varvite_configuration" #-} CConfiguration
data {-# CTYPE "varvite_hash" #-} CHash
data {-# CTYPE "varvite_irmin_options" #-} CIrminOptions
data {-# CTYPE "varvite_kinded" #-} CKinded
data {-# CTYPE "varvite_limits" #-} CLimits
data {-# CTYPE "varvite_path" #-} CPath
data {-# CTYPE "varvite_proof" #-} CProof
data {-# CTYPE "varvite_reader" #-} CReader
data {-# CTYPE "varvite_store" #-} CStore
data {-# CTYPE "varvite_store_options" #-} CStoreOptions
data {-# CTYPE "varvite_store_stats" #-} CStoreStats
data {-# CTYPE "varvite_tree" #-} CTree

sizeOfHash, sizeOfKinded, sizeOfPath, sizeOfCommitInfo, sizeOfCommit, sizeOfStoreOptions, sizeOfConfiguration :: Int
sizeOfHash = #{size varvite_hash}
sizeOfKinded = #{size varvite_kinded}
sizeOfPath = #{size varvite_path}
sizeOfCommitInfo = #{size varvite_commit_info}
sizeOfCommit = #{size varvite_commit}
sizeOfStoreOptions = #{size varvite_store_options}
sizeOfConfiguration = #{size varvite_configuration}

pokePath :: Ptr CPath -> Ptr Bytes -> CSize -> IO ()
pokePath it steps count = #{poke varvite_path, steps} it steps >> #{poke varvite_path, count} it count

kindedHash :: Ptr CKinded -> Ptr CHash
kindedHash = (`plusPtr` #{offset varvite_kinded, hash})

peekKind :: Ptr CKinded -> IO Word32
peekKind = #{peek varvite_kinded, kind}

pokeKind :: Ptr CKinded -> Word32 -> IO ()
pokeKind = #{poke varvite_kinded, kind}

pokeConfiguration :: Ptr CConfiguration -> Word32 -> Word32 -> Word32 -> IO ()
pokeConfiguration it entries stable order = do
  #{poke varvite_configuration, entries} it entries
  #{poke varvite_configuration, stable_hash} it stable
  #{poke varvite_configuration, child_order} it order

storeConfigurationOf :: Ptr CStoreOptions -> Ptr CConfiguration
storeConfigurationOf = (`plusPtr` #{offset varvite_store_options, configuration})

setIndex, setDurability :: Ptr CStoreOptions -> Word32 -> IO ()
setIndex = #{poke varvite_store_options, index}
setDurability = #{poke varvite_store_options, durability}

setObjectsBytes, setHashesBytes, setPagesBytes, setIndexBytes, setTreeBytes, setChunkBytes, setStoreSeed, setStoreOpenFiles :: Ptr CStoreOptions -> Word64 -> IO ()
setObjectsBytes = #{poke varvite_store_options, objects_bytes}
setHashesBytes = #{poke varvite_store_options, hashes_bytes}
setPagesBytes = #{poke varvite_store_options, pages_bytes}
setIndexBytes = #{poke varvite_store_options, index_bytes}
setTreeBytes = #{poke varvite_store_options, tree_bytes}
setChunkBytes = #{poke varvite_store_options, chunk_bytes}
setStoreSeed = #{poke varvite_store_options, seed}
setStoreOpenFiles = #{poke varvite_store_options, max_open_files}

pokeCommitInfo :: Ptr CCommitInfo -> Ptr CHash -> CSize -> Int64 -> Bytes -> Bytes -> IO ()
pokeCommitInfo it parents count date author message = do
  #{poke varvite_commit_info, parents} it parents
  #{poke varvite_commit_info, parent_count} it count
  #{poke varvite_commit_info, date} it date
  poke (it `plusPtr` #{offset varvite_commit_info, author}) author
  poke (it `plusPtr` #{offset varvite_commit_info, message}) message

commitTree :: Ptr CCommit -> Ptr CHash
commitTree = (`plusPtr` #{offset varvite_commit, tree})

commitDate :: Ptr CCommit -> IO Int64
commitDate = #{peek varvite_commit, date}

sizeOfChecked, sizeOfStoreStats :: Int
sizeOfChecked = #{size varvite_checked}
sizeOfStoreStats = #{size varvite_store_stats}

peekChecked :: Ptr CChecked -> IO (Word64, Word64, Word64)
peekChecked it =
  (,,) <$> #{peek varvite_checked, commits} it <*> #{peek varvite_checked, nodes} it <*> #{peek varvite_checked, values} it

sizeOfCollectStatus, sizeOfCommitFile :: Int
sizeOfCollectStatus = #{size varvite_collect_status}
sizeOfCommitFile = #{size varvite_commit_file}

peekPhase :: Ptr CCollectStatus -> IO Word32
peekPhase = #{peek varvite_collect_status, phase}

peekIsPaused, peekHasTarget :: Ptr CCollectStatus -> IO CInt
peekIsPaused = #{peek varvite_collect_status, is_paused}
peekHasTarget = #{peek varvite_collect_status, has_target}

statusTarget :: Ptr CCollectStatus -> Ptr CHash
statusTarget = (`plusPtr` #{offset varvite_collect_status, target})

peekReclaimed, peekCollections :: Ptr CCollectStatus -> IO Word64
peekReclaimed = #{peek varvite_collect_status, reclaimed_bytes}
peekCollections = #{peek varvite_collect_status, collections}

fileCommit, fileHash :: Ptr CCommitFile -> Ptr CHash
fileCommit = (`plusPtr` #{offset varvite_commit_file, commit})
fileHash = (`plusPtr` #{offset varvite_commit_file, hash})

peekFileCommits, peekFileBytes :: Ptr CCommitFile -> IO Word64
peekFileCommits = #{peek varvite_commit_file, commits}
peekFileBytes = #{peek varvite_commit_file, bytes}

setLower :: Ptr CStoreOptions -> Ptr CDisk -> IO ()
setLower = #{poke varvite_store_options, lower}

peekStoreStats :: Ptr CStoreStats -> IO [Word64]
peekStoreStats it =
  sequence
    [ #{peek varvite_store_stats, commits} it
    , #{peek varvite_store_stats, pack_bytes} it
    , #{peek varvite_store_stats, index_bytes} it
    , #{peek varvite_store_stats, written_bytes} it
    , #{peek varvite_store_stats, syncs} it
    , #{peek varvite_store_stats, objects_bytes} it
    , #{peek varvite_store_stats, chunks} it
    ]

-- | Gets a path and what is there.
type Visit = Ptr Bytes -> CSize -> Ptr CTree -> IO CInt

-- | Gets a path and its value in both trees.
type Change = Ptr Bytes -> CSize -> Ptr Bytes -> Ptr Bytes -> IO CInt

-- | Works on a tree.
type Work = Ptr CTree -> IO CInt

foreign import ccall "wrapper" makeVisit :: Visit -> IO (FunPtr Visit)
foreign import ccall "wrapper" makeChange :: Change -> IO (FunPtr Change)
foreign import ccall "wrapper" makeWork :: Work -> IO (FunPtr Work)
foreign import ccall safe "hs_varvite_tree_fold" treeFold :: Ptr CTree -> Ptr Bytes -> CSize -> Word32 -> CSize -> Word32 -> FunPtr Visit -> Failing
foreign import ccall safe "hs_varvite_tree_diff" treeDiff :: Ptr CTree -> Ptr CTree -> FunPtr Change -> Failing
foreign import ccall safe "hs_varvite_proof_make" proofMake :: Ptr CTree -> CInt -> FunPtr Work -> Ptr (Ptr CProof) -> Failing
foreign import ccall safe "hs_varvite_proof_verify" proofVerify :: Ptr CProof -> Ptr CConfiguration -> Ptr CKinded -> FunPtr Work -> Failing

foreign import capi safe "shims.h varvite_hash_text" hashText :: Ptr CHash -> Ptr CChar -> Failing
foreign import capi safe "shims.h varvite_hash_parse" hashParse :: Ptr CChar -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_store_options_default" storeOptionsDefault :: Ptr CStoreOptions -> Failing
foreign import capi safe "shims.h varvite_store_create" storeCreate :: Ptr CDisk -> Ptr CStoreOptions -> Ptr (Ptr CStore) -> Failing
foreign import capi safe "shims.h varvite_store_open" storeOpen :: Ptr CDisk -> Ptr CStoreOptions -> Ptr (Ptr CStore) -> Failing
foreign import capi safe "shims.h varvite_store_open_read_only" storeOpenReadOnly :: Ptr CDisk -> Ptr CStoreOptions -> Ptr (Ptr CStore) -> Failing
foreign import capi safe "shims.h varvite_store_close" storeClose :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_reload" storeReload :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_warnings" storeWarnings :: Ptr CStore -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_empty_tree" storeEmptyTree :: Ptr CStore -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_store_checkout" storeCheckout :: Ptr CStore -> Ptr CHash -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_store_commit" storeCommit :: Ptr CStore -> Ptr CTree -> Ptr CCommitInfo -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_store_hash" storeHash :: Ptr CStore -> Ptr CTree -> Ptr CCommitInfo -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_store_exists" storeExists :: Ptr CStore -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_commit_info" storeCommitInfo :: Ptr CStore -> Ptr CHash -> Ptr CCommit -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_last_commit" storeLastCommit :: Ptr CStore -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_log" storeLog :: Ptr CStore -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_history" storeHistory :: Ptr CStore -> Ptr CHash -> CSize -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_lowest_common_ancestors" storeLowestCommonAncestors :: Ptr CStore -> Ptr CHash -> Ptr CHash -> Ptr CLimits -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_checkpoint" storeCheckpoint :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_maintain" storeMaintain :: Ptr CStore -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_begin_chunk" storeBeginChunk :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_rebuild_index" storeRebuildIndex :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_clear" storeClear :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_check" storeCheck :: Ptr CStore -> Ptr CChecked -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_get_stats" storeGetStats :: Ptr CStore -> Ptr CStoreStats -> Failing
foreign import capi safe "shims.h varvite_tree_empty" treeEmpty :: Ptr CConfiguration -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_store_branch" storeBranch :: Ptr CStore -> Ptr Bytes -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_branches" storeBranches :: Ptr CStore -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_set_branch" storeSetBranch :: Ptr CStore -> Ptr Bytes -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_store_test_and_set_branch" storeTestAndSetBranch :: Ptr CStore -> Ptr Bytes -> Ptr CHash -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_remove_branch" storeRemoveBranch :: Ptr CStore -> Ptr Bytes -> Failing
foreign import capi safe "shims.h varvite_tree_of_value" treeOfValue :: Ptr CConfiguration -> Ptr Bytes -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_tree_duplicate" treeDuplicate :: Ptr CTree -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_tree_find" treeFind :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_tree_find_into" treeFindInto :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr Word8 -> CSize -> Ptr CSize -> Failing
foreign import capi safe "shims.h varvite_tree_find_many" treeFindMany :: Ptr CTree -> Ptr CPath -> CSize -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_tree_mem" treeMem :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_tree_mem_tree" treeMemTree :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_tree_find_tree" treeFindTree :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_tree_kind" treeKind :: Ptr CTree -> Ptr Word32 -> Failing
foreign import capi safe "shims.h varvite_tree_is_empty" treeIsEmpty :: Ptr CTree -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_tree_length" treeLength :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_tree_list" treeList :: Ptr CTree -> Ptr Bytes -> CSize -> Word64 -> Word64 -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_tree_add" treeAdd :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr Bytes -> Failing
foreign import capi safe "shims.h varvite_tree_add_tree" treeAddTree :: Ptr CTree -> Ptr Bytes -> CSize -> Ptr CTree -> Failing
foreign import capi safe "shims.h varvite_tree_remove" treeRemove :: Ptr CTree -> Ptr Bytes -> CSize -> Failing
foreign import capi safe "shims.h varvite_tree_hash" treeHash :: Ptr CTree -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_tree_equal" treeEqual :: Ptr CTree -> Ptr CTree -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_tree_clear" treeClear :: Ptr CTree -> CSize -> Failing
foreign import capi safe "shims.h varvite_tree_close" treeClose :: Ptr CTree -> Failing
foreign import capi safe "shims.h varvite_proof_encode" proofEncode :: Ptr CProof -> Word32 -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_proof_decode" proofDecode :: Ptr Bytes -> Word32 -> Ptr CConfiguration -> Ptr (Ptr CProof) -> Failing
foreign import capi safe "shims.h varvite_proof_open" proofOpen :: Ptr CProof -> Ptr CConfiguration -> Ptr CKinded -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_proof_roots" proofRoots :: Ptr CProof -> Ptr CKinded -> Ptr CKinded -> Failing
foreign import capi safe "shims.h varvite_proof_is_stream" proofIsStream :: Ptr CProof -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_proof_close" proofClose :: Ptr CProof -> Failing
foreign import capi safe "shims.h varvite_irmin_is_store" irminIsStore :: Ptr CDisk -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_irmin_open" irminOpen :: Ptr CDisk -> Ptr CIrminOptions -> Ptr (Ptr CStore) -> Failing

foreign import capi safe "shims.h varvite_store_open_or_create" storeOpenOrCreate :: Ptr CDisk -> Ptr CStoreOptions -> Ptr (Ptr CStore) -> Failing
foreign import capi safe "shims.h varvite_store_collect" storeCollect :: Ptr CStore -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_store_collect_keeping_newest" storeCollectKeepingNewest :: Ptr CStore -> Word64 -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_collect_keeping_since" storeCollectKeepingSince :: Ptr CStore -> Int64 -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_collect_step" storeCollectStep :: Ptr CStore -> Word64 -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_collect_status" storeCollectStatus :: Ptr CStore -> Ptr CCollectStatus -> Failing
foreign import capi safe "shims.h varvite_store_collect_pause" storeCollectPause :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_collect_resume" storeCollectResume :: Ptr CStore -> Failing
foreign import capi safe "shims.h varvite_store_collect_cancel" storeCollectCancel :: Ptr CStore -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_pin" storePin :: Ptr CStore -> Ptr CHash -> Failing
foreign import capi safe "shims.h varvite_store_pin_every" storePinEvery :: Ptr CStore -> Word64 -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_store_unpin" storeUnpin :: Ptr CStore -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_store_pins" storePins :: Ptr CStore -> Ptr CArena -> Failing
foreign import capi safe "shims.h varvite_store_archive" storeArchive :: Ptr CStore -> Ptr CHash -> Word64 -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_store_unarchive" storeUnarchive :: Ptr CStore -> Word64 -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_store_attach" storeAttach :: Ptr CStore -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_store_archived_bytes" storeArchivedBytes :: Ptr CStore -> Ptr Word64 -> Failing
foreign import capi safe "shims.h varvite_store_create_from_commit" storeCreateFromCommit :: Ptr CDisk -> Ptr CStoreOptions -> Ptr CDisk -> Ptr CChar -> Ptr (Ptr CStore) -> Failing
foreign import ccall safe "hs_varvite_store_export_commits" storeExportCommits :: Ptr CStore -> Ptr CHash -> CSize -> Ptr CDisk -> Ptr CChar -> Word32 -> Ptr CCommitFile -> Failing
foreign import ccall safe "hs_varvite_store_import_commit" storeImportCommit :: Ptr CStore -> Ptr CDisk -> Ptr CChar -> Ptr CCommitFile -> Failing
foreign import ccall safe "hs_varvite_commit_file_verify" commitFileVerify :: Ptr CDisk -> Ptr CChar -> Ptr CCommitFile -> Failing
foreign import capi safe "shims.h varvite_store_reader" storeReader :: Ptr CStore -> Ptr (Ptr CReader) -> Failing
foreign import capi safe "shims.h varvite_reader_checkout" readerCheckout :: Ptr CReader -> Ptr CHash -> Ptr (Ptr CTree) -> Failing
foreign import capi safe "shims.h varvite_reader_last_commit" readerLastCommit :: Ptr CReader -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_reader_branch" readerBranch :: Ptr CReader -> Ptr Bytes -> Ptr CHash -> Ptr CInt -> Failing
foreign import capi safe "shims.h varvite_reader_close" readerClose :: Ptr CReader -> Failing
