-- | Stores of contexts, their commits and branches.
module Database.Varvite.Internal.Store where

import Control.Exception (bracket)
import qualified Data.ByteString as B
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (mapMaybe)
import qualified Data.Vector as V
import Data.Word (Word64)
import Database.Varvite.Error
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Config (Disk (..))
import Database.Varvite.Internal.Hash
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawContext hiding (storeWarnings)
import qualified Database.Varvite.Internal.RawContext as Raw
import Database.Varvite.Internal.Tree
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes, allocaBytesAligned)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek)

-- | A context store, open. Any thread may use it; calls that change it wait for each other and for its readers.
newtype Store = Store (Handle CStore)

-- | What a store's index knows.
data Indexing
  = -- | Commits.
    Commits
  | -- | Commits and every object.
    Objects
  deriving (Eq, Show)

-- | How a store is made and used. 'Nothing' leaves a choice to the engine.
data StoreConfig = StoreConfig
  { storeConfiguration :: !Configuration
  -- ^ Only used when the store is made.
  , storeIndexing :: !Indexing
  -- ^ Only used when the store is made.
  , storeSynced :: !Bool
  -- ^ Whether a commit is durable when the call returns, or when the system writes it out.
  , storeSeed :: !(Maybe Word64)
  -- ^ Identity of a store that is made, for tests; by default it is drawn at random.
  , storeObjectsBytes :: !(Maybe Word64)
  -- ^ Memory for nodes.
  , storeHashesBytes :: !(Maybe Word64)
  -- ^ Memory for hashes of the children of nodes.
  , storePagesBytes :: !(Maybe Word64)
  -- ^ Memory for pages.
  , storeIndexBytes :: !(Maybe Word64)
  -- ^ Memory of the index.
  , storeTreeBytes :: !(Maybe Word64)
  -- ^ Bytes of changes that a tree holds before it spills them.
  , storeChunkBytes :: !(Maybe Word64)
  -- ^ A chunk of the pack longer than this is followed by another.
  , storeMaxOpenFiles :: !(Maybe Word64)
  , storeLower :: !(Maybe Disk)
  -- ^ Another disk for old chunks, to which 'Database.Varvite.Context.archive' moves them.
  }
  deriving (Eq, Show)

-- | That of Tezos, synced.
defaultStoreConfig :: StoreConfig
defaultStoreConfig = StoreConfig tezos Commits True Nothing Nothing Nothing Nothing Nothing Nothing Nothing Nothing Nothing

withStoreConfig :: StoreConfig -> (Ptr CStoreOptions -> IO a) -> IO a
withStoreConfig config action = allocaBytesAligned sizeOfStoreOptions 8 $ \options -> do
  call (storeOptionsDefault options)
  putConfiguration (storeConfiguration config) (storeConfigurationOf options)
  setIndex options (if storeIndexing config == Objects then 1 else 0)
  setDurability options (if storeSynced config then 0 else 1)
  for_ (storeSeed config) (setStoreSeed options)
  for_ (storeObjectsBytes config) (setObjectsBytes options)
  for_ (storeHashesBytes config) (setHashesBytes options)
  for_ (storePagesBytes config) (setPagesBytes options)
  for_ (storeIndexBytes config) (setIndexBytes options)
  for_ (storeTreeBytes config) (setTreeBytes options)
  for_ (storeChunkBytes config) (setChunkBytes options)
  for_ (storeMaxOpenFiles config) (setStoreOpenFiles options)
  case storeLower config of
    Nothing -> action options
    Just (Disk lower) -> with lower $ \it -> setLower options it >> action options

-- | Opens the store on a disk; makes one where there is none. 'Locked' when somebody writes to it already.
openStore :: StoreConfig -> Disk -> IO Store
openStore = storeBy storeOpenOrCreate

-- | Makes a store on an empty disk.
newStore :: StoreConfig -> Disk -> IO Store
newStore = storeBy storeCreate

-- | Opens a store that is there, else 'Missing'.
restoreStore :: StoreConfig -> Disk -> IO Store
restoreStore = storeBy storeOpen

-- | Opens a store to read while another process may write to it: as of now, until 'reload'.
openStoreReadOnly :: StoreConfig -> Disk -> IO Store
openStoreReadOnly = storeBy Raw.storeOpenReadOnly

storeBy :: (Ptr CDisk -> Ptr CStoreOptions -> Ptr (Ptr CStore) -> Failing) -> StoreConfig -> Disk -> IO Store
storeBy opening config (Disk disk) = with disk $ \it -> withStoreConfig config $ \options ->
  Store <$> handle (opening it options) storeClose (pure ())

-- | The store of a Tezos node, to read.
openIrmin :: Disk -> IO Store
openIrmin (Disk disk) = with disk $ \it -> Store <$> handle (irminOpen it nullPtr) storeClose (pure ())

-- | Whether a disk holds such a store, of any version.
isIrmin :: Disk -> IO Bool
isIrmin (Disk disk) = (/= 0) <$> with disk (out . irminIsStore)

-- | Takes a checkpoint and closes the store. Its trees stay readable.
closeStore :: Store -> IO ()
closeStore (Store it) = close storeClose it

-- | A store for an action, closed however that ends.
withStore :: StoreConfig -> Disk -> (Store -> IO a) -> IO a
withStore config disk = bracket (openStore config disk) closeStore

does :: (Ptr CStore -> Failing) -> Store -> IO ()
does function (Store it) = with it (call . function)

-- | Sees what another process committed.
reload :: Store -> IO ()
reload = does storeReload

-- | Records how far pack and index are known, so that opening scans less.
checkpoint :: Store -> IO ()
checkpoint = does storeCheckpoint

-- | Takes a checkpoint if one is due, for the time between two commits; tells whether.
maintain :: Store -> IO Bool
maintain (Store it) = (/= 0) <$> with it (out . storeMaintain)

-- | Ends the last chunk of the pack and begins another.
beginChunk :: Store -> IO ()
beginChunk = does storeBeginChunk

-- | Makes the index from the pack again.
rebuildIndex :: Store -> IO ()
rebuildIndex = does storeRebuildIndex

-- | Removes everything. Trees that were checked out stay readable.
clearStore :: Store -> IO ()
clearStore = does storeClear

-- | What was checked, and found right.
data Checked = Checked
  { checkedCommits :: !Word64
  , checkedNodes :: !Word64
  , checkedValues :: !Word64
  , checkedFaults :: ![String]
  -- ^ On the index, which can be made again, and on what collected stores no longer have.
  }
  deriving (Eq, Show)

-- | Recomputes the hash of all that the commits reach. 'Corrupt' at the first that is wrong.
checkStore :: Store -> IO Checked
checkStore (Store it) = with it $ \store -> allocaBytesAligned sizeOfChecked 8 $ \checked -> do
  faults <- texts (storeCheck store checked)
  (number, nodes, values) <- peekChecked checked
  pure (Checked number nodes values faults)

-- | What was found wrong with the index, which was then made again.
storeWarnings :: Store -> IO [String]
storeWarnings (Store it) = with it (texts . Raw.storeWarnings)

-- | What a store did and holds.
data StoreStats = StoreStats
  { statsCommits :: !Word64
  , statsPackBytes :: !Word64
  , statsIndexBytes :: !Word64
  , statsWrittenBytes :: !Word64
  , statsSyncs :: !Word64
  , statsObjectsBytes :: !Word64
  , statsChunks :: !Word64
  }
  deriving (Eq, Show)

storeStats :: Store -> IO StoreStats
storeStats (Store it) = with it $ \store -> allocaBytesAligned sizeOfStoreStats 8 $ \stats -> do
  call (storeGetStats store stats)
  numbers <- peekStoreStats stats
  case numbers of
    [a, b, c, d, e, f, g] -> pure (StoreStats a b c d e f g)
    _ -> throwKind Panic "the numbers of a store are not seven"

-- Commits

-- | What a commit says beside its tree.
data Info = Info
  { parents :: ![Hash]
  , date :: !Int64
  -- ^ Seconds since 1970.
  , author :: !B.ByteString
  , message :: !B.ByteString
  }
  deriving (Eq, Show)

withInfo :: Info -> (Ptr CCommitInfo -> IO a) -> IO a
withInfo info action = allocaBytesAligned sizeOfCommitInfo 8 $ \it -> withHashes (parents info) $ \array count -> do
  pokeCommitInfo it array count (date info) (bytesOf (author info)) (bytesOf (message info))
  result <- action it
  keeping (author info)
  keeping (message info)
  pure result

-- | An empty tree of a store, which spills to the store's pack what is too much for memory.
emptyTree :: Store -> IO Tree
emptyTree (Store it) = with it (treeBy (touchForeignPtr it) . storeEmptyTree)

-- | Commits a tree, which is then the committed one. Durable when it returns. After an error nothing is changed.
commit :: Store -> Tree -> Info -> IO Hash
commit = committing storeCommit

-- | The hash that 'commit' would give.
commitHash :: Store -> Tree -> Info -> IO Hash
commitHash = committing storeHash

committing :: (Ptr CStore -> Ptr CTree -> Ptr CCommitInfo -> Ptr CHash -> Failing) -> Store -> Tree -> Info -> IO Hash
committing function (Store it) (Tree tree) info =
  with it $ \store -> with tree $ \pointer -> withInfo info (outHash . function store pointer)

-- | The tree of a commit. 'Missing' for a commit that is not there.
checkout :: Store -> Hash -> IO Tree
checkout (Store it) at = with it $ \store -> withHash at (treeBy (touchForeignPtr it) . storeCheckout store)

-- | The tree of a commit for an action.
withCheckout :: Store -> Hash -> (Tree -> IO a) -> IO a
withCheckout store at = withTree (checkout store at)

exists :: Store -> Hash -> IO Bool
exists (Store it) at = with it $ \store -> withHash at $ \raw -> (/= 0) <$> out (storeExists store raw)

-- | A commit that is in a store.
data Commit = Commit
  { commitTreeHash :: !Hash
  , commitSays :: !Info
  }
  deriving (Eq, Show)

-- | 'Missing' for a commit that is not there.
commitInfo :: Store -> Hash -> IO Commit
commitInfo (Store it) at = with it $ \store -> withHash at $ \raw -> allocaBytesAligned sizeOfCommit 8 $ \found -> do
  items <- V.toList <$> there (storeCommitInfo store raw found)
  tree <- peekHash (commitTree found)
  seconds <- commitDate found
  let (who, rest) = next items
      (why, ancestors) = next rest
  pure (Commit tree (Info (mapMaybe hashFromBytes ancestors) seconds who why))
 where
  next [] = (B.empty, [])
  next (first : rest) = (first, rest)

maybeHash :: (Ptr CHash -> Ptr CInt -> Failing) -> IO (Maybe Hash)
maybeHash function = allocaBytes sizeOfHash $ \found -> alloca $ \isThere -> do
  call (function found isThere)
  known <- peek isThere
  if known == 0 then pure Nothing else Just <$> peekHash found

-- | The commit that the store took last.
lastCommit :: Store -> IO (Maybe Hash)
lastCommit (Store it) = with it (maybeHash . storeLastCommit)

-- | The commits, newest first, at most so many.
commits :: Store -> Word -> IO [Hash]
commits (Store it) limit = with it $ \store -> hashes (storeLog store (fromIntegral limit))

-- | The commits that the heads descend from, they included, children before their parents, at most so many.
history :: Store -> [Hash] -> Word -> IO [Hash]
history (Store it) heads limit = with it $ \store -> withHashes heads $ \array count ->
  hashes (storeHistory store array count (fromIntegral limit))

-- | The common ancestors of two commits that no other common ancestor descends from.
commonAncestors :: Store -> Hash -> Hash -> IO [Hash]
commonAncestors (Store it) one other = with it $ \store -> withHash one $ \ours -> withHash other $ \theirs ->
  hashes (storeLowestCommonAncestors store ours theirs nullPtr)

-- Branches

-- A branch's name is 1 to 4,096 bytes of any kind.

-- | The commit that a branch names.
branch :: Store -> B.ByteString -> IO (Maybe Hash)
branch (Store it) name = with it $ \store -> withBytes (name) (maybeHash . storeBranch store)

-- | All branches, by name.
branches :: Store -> IO [(B.ByteString, Hash)]
branches (Store it) = pairs . V.toList <$> with it (there . storeBranches)
 where
  pairs (name : bytes : rest) = [(name, at) | Just at <- [hashFromBytes bytes]] ++ pairs rest
  pairs _ = []

-- | Makes a name that of a commit, which must be in the store.
setBranch :: Store -> B.ByteString -> Hash -> IO ()
setBranch (Store it) name at = with it $ \store -> withBytes (name) $ \bytes -> withHash at (call . storeSetBranch store bytes)

-- | Makes a name that of a commit if it is now that of the expected one, or of none; tells whether.
testAndSetBranch :: Store -> B.ByteString -> Maybe Hash -> Hash -> IO Bool
testAndSetBranch (Store it) name expected at =
  with it $ \store -> withBytes (name) $ \bytes -> maybe ($ nullPtr) withHash expected $ \before ->
    withHash at $ \after -> (/= 0) <$> out (storeTestAndSetBranch store bytes before after)

-- | Nothing happens when there is no such branch.
removeBranch :: Store -> B.ByteString -> IO ()
removeBranch (Store it) name = with it $ \store -> withBytes (name) (call . storeRemoveBranch store)
