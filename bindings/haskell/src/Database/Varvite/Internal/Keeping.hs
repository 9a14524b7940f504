-- | What a store keeps: collections, pins, lower disks, files of commits; and readers.
module Database.Varvite.Internal.Keeping where

import qualified Data.ByteString as B
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word32, Word64)
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Config (Disk (..))
import Database.Varvite.Internal.Hash
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawContext
import Database.Varvite.Internal.Store
import Database.Varvite.Internal.Tree
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (Ptr)

-- | Begins a collection: commits that the store took before this one go, but for those that branches name and those that are
-- pinned. 'collectStep' does the work. 'Database.Varvite.Error.Invalid' while one is under way.
collect :: Store -> Hash -> IO ()
collect (Store it) at = with it $ \store -> withHash at (call . storeCollect store)

-- | What a collection keeps, beside what branches and pins name.
data Keep
  = -- | So many, the newest.
    Newest !Word64
  | -- | All from the oldest commit on that is not older, in seconds since 1970.
    Since !Int64
  deriving (Eq, Show)

-- | Begins a collection that keeps these. False while one is under way, and when nothing would go: a node calls it after
-- each block.
collectKeeping :: Store -> Keep -> IO Bool
collectKeeping (Store it) keep = (/= 0) <$> with it (out . begin)
 where
  begin store = case keep of
    Newest number -> storeCollectKeepingNewest store number
    Since moment -> storeCollectKeepingSince store moment

-- | Does work of about so many KiB read or written; tells whether some is left.
collectStep :: Store -> Word64 -> IO Bool
collectStep (Store it) credits = (/= 0) <$> with it (\store -> out (storeCollectStep store credits))

-- | What a collection does.
data CollectPhase = NoCollection | Marking | Cleaning
  deriving (Eq, Show)

-- | How far a collection is.
data CollectStatus = CollectStatus
  { collectPhase :: !CollectPhase
  , collectIsPaused :: !Bool
  , collectTarget :: !(Maybe Hash)
  , collectReclaimedBytes :: !Word64
  -- ^ Since the store was opened.
  , collections :: !Word64
  -- ^ How many have ended.
  }
  deriving (Eq, Show)

collectStatus :: Store -> IO CollectStatus
collectStatus (Store it) = with it $ \store -> allocaBytesAligned sizeOfCollectStatus 8 $ \status -> do
  call (storeCollectStatus store status)
  number <- peekPhase status
  hasTarget <- peekHasTarget status
  target <- if hasTarget == 0 then pure Nothing else Just <$> peekHash (statusTarget status)
  let phase = case number of
        0 -> NoCollection
        1 -> Marking
        _ -> Cleaning
  isPaused <- (/= 0) <$> peekIsPaused status
  CollectStatus phase isPaused target <$> peekReclaimed status <*> peekCollections status

-- | Lets steps do nothing until 'resumeCollecting', also of whoever opens the store later.
pauseCollecting :: Store -> IO ()
pauseCollecting = does storeCollectPause

resumeCollecting :: Store -> IO ()
resumeCollecting = does storeCollectResume

-- | Ends the collection that is under way; tells whether one was. What is collected stays so.
cancelCollecting :: Store -> IO Bool
cancelCollecting (Store it) = (/= 0) <$> with it (out . storeCollectCancel)

-- | Keeps a commit, and all of its tree, through every collection until it is unpinned.
pin :: Store -> Hash -> IO ()
pin (Store it) at = with it $ \store -> withHash at (call . storePin store)

-- | Tells whether it was pinned.
unpin :: Store -> Hash -> IO Bool
unpin (Store it) at = with it $ \store -> withHash at $ \raw -> (/= 0) <$> out (storeUnpin store raw)

-- | Pins every n-th commit that goes with no collection; how many were not pinned before.
pinEvery :: Store -> Word64 -> IO Word64
pinEvery (Store it) nth = with it $ \store -> out (storePinEvery store nth)

-- | The commits that are pinned, in the order in which the store took them.
pins :: Store -> IO [Hash]
pins (Store it) = with it (hashes . storePins)

-- | Moves whole chunks with commits before this one to the disk 'storeLower', the oldest first, at most so many; how many.
archive :: Store -> Hash -> Word64 -> IO Word64
archive (Store it) at most = with it $ \store -> withHash at $ \raw -> out (storeArchive store raw most)

-- | Moves them back, the newest first.
unarchive :: Store -> Word64 -> IO Word64
unarchive (Store it) most = with it $ \store -> out (storeUnarchive store most)

-- | Takes chunks that a collection took, and another copy of the store has on the lower disk; how many.
attach :: Store -> IO Word64
attach (Store it) = with it (out . storeAttach)

-- | Bytes of the chunks that are on the lower disk.
archivedBytes :: Store -> IO Word64
archivedBytes (Store it) = with it (out . storeArchivedBytes)

-- | A file of commits.
data CommitFile = CommitFile
  { fileNewest :: !Hash
  , fileContent :: !Hash
  -- ^ The same for the same commits, whoever wrote the file, and however it is compressed.
  , fileCommits :: !Word64
  , fileBytes :: !Word64
  }
  deriving (Eq, Show)

toldFile :: (Ptr CCommitFile -> Failing) -> IO CommitFile
toldFile function = allocaBytesAligned sizeOfCommitFile 8 $ \file -> do
  call (function file)
  CommitFile <$> peekHash (fileCommit file) <*> peekHash (fileHash file) <*> peekFileCommits file <*> peekFileBytes file

-- | Writes commits, all of which one descends from through others of them, as a file of a disk; compressed at a level from
-- 1 to 19, or not.
exportCommits :: Store -> [Hash] -> Disk -> FilePath -> Maybe Word32 -> IO CommitFile
exportCommits (Store it) chosen (Disk disk) path level = with it $ \store -> with disk $ \target ->
  withHashes chosen $ \array count -> withText path $ \name ->
    toldFile (storeExportCommits store array count target name (fromMaybe 0 level))

-- | Takes a file's commits over. Everything is verified before any of it is there.
importCommit :: Store -> Disk -> FilePath -> IO CommitFile
importCommit (Store it) (Disk disk) path = with it $ \store -> with disk $ \source -> withText path $ \name ->
  toldFile (storeImportCommit store source name)

-- | Verifies every hash of a file, without a store.
verifyCommit :: Disk -> FilePath -> IO CommitFile
verifyCommit (Disk disk) path = with disk $ \source -> withText path (toldFile . commitFileVerify source)

-- | A store of a file's commits, on an empty disk. 'Invalid' when the file has another hash configuration than the one
-- that is asked for: nothing in it vouches for it.
newStoreFromCommit :: StoreConfig -> Disk -> Disk -> FilePath -> IO Store
newStoreFromCommit config (Disk disk) (Disk source) path = with disk $ \target -> with source $ \from ->
  withText path $ \name -> withStoreConfig config $ \options ->
    Store <$> handle (storeCreateFromCommit target options from name) storeClose (pure ())

-- | What a store has, for threads that read while it commits: they see each commit when its call has returned.
newtype Reader = Reader (Handle CReader)

newReader :: Store -> IO Reader
newReader (Store it) = with it $ \store -> Reader <$> handle (storeReader store) readerClose (touchForeignPtr it)

readerTree :: Reader -> Hash -> IO Tree
readerTree (Reader it) at = with it $ \reader -> withHash at (treeBy (touchForeignPtr it) . readerCheckout reader)

readerNewest :: Reader -> IO (Maybe Hash)
readerNewest (Reader it) = with it (maybeHash . readerLastCommit)

readerHead :: Reader -> B.ByteString -> IO (Maybe Hash)
readerHead (Reader it) name = with it $ \reader -> withBytes name (maybeHash . readerBranch reader)

closeReader :: Reader -> IO ()
closeReader (Reader it) = close readerClose it
