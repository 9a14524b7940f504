-- | Snapshots, live tables and backups.
module Database.Varvite.Internal.Snapshot where

import Control.Exception (bracket)
import Control.Monad (unless)
import qualified Data.ByteString as B
import Data.Maybe (fromMaybe)
import Data.String (IsString (..))
import Database.Varvite.Error
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Config
import Database.Varvite.Internal.Join
import Database.Varvite.Internal.RawTable hiding (snapshotPayload, snapshotTables)
import qualified Database.Varvite.Internal.RawTable as Raw
import Database.Varvite.Internal.Table
import Database.Varvite.Serialise
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Marshal.Array (withArray)
import Foreign.Ptr (Ptr, nullPtr)

-- | Of 1 to 64 letters @a@ to @z@, digits, @-@ and @_@; another is 'Invalid' where it is used.
newtype SnapshotName = SnapshotName String
  deriving (Eq, Ord, Show)

instance IsString SnapshotName where
  fromString = SnapshotName

-- | What a snapshot holds, in the program's words: opening asks for it, so that bytes are not read as another type.
newtype SnapshotLabel = SnapshotLabel String
  deriving (Eq, Ord, Show)

instance IsString SnapshotLabel where
  fromString = SnapshotLabel

-- | Saves a table, durably, whole or not at all. 'Exists' when the name is taken.
saveSnapshot :: SnapshotName -> SnapshotLabel -> Table k v -> IO ()
saveSnapshot name label table@(Table _ session) = saveTables session name label B.empty [SomeTable table]

-- | Saves several tables of a session, each with a name of its own, and bytes of the program's that are in step with them.
saveTables :: Session -> SnapshotName -> SnapshotLabel -> B.ByteString -> [SomeTable] -> IO ()
saveTables (Session it) (SnapshotName name) (SnapshotLabel label) payload tables =
  with it $ \session -> withText name $ \named -> withText label $ \labelled -> do
    go tables [] $ \array count -> allocaBytesAligned sizeOfSnapshotContent 8 $ \content -> do
      pokeSnapshotContent content labelled (bytesOf payload) array (fromIntegral count)
      call (sessionSaveSnapshot session named content)
    keeping payload
 where
  go [] pointers action = withArray (reverse pointers) $ \array -> action array (length pointers)
  go (SomeTable (Table table _) : rest) pointers action = with table $ \pointer -> go rest (pointer : pointers) action

-- | The table of a snapshot that has one. It can be updated; the snapshot stays as it is. 'Missing' when there is no such
-- snapshot, 'Invalid' when it has another label or several tables.
openTableFromSnapshot :: ResolveValue v => Session -> SnapshotName -> SnapshotLabel -> IO (Table k v)
openTableFromSnapshot session name label = opened
 where
  opened = withSnapshot (valuesOf opened) session name label onlyTable

-- | The table of a snapshot for an action.
withTableFromSnapshot :: ResolveValue v => Session -> SnapshotName -> SnapshotLabel -> (Table k v -> IO a) -> IO a
withTableFromSnapshot session name label = bracket (openTableFromSnapshot session name label) closeTable

onlyTable :: Snapshot -> IO (Table k v)
onlyTable snapshot = do
  names <- snapshotTables snapshot
  case names of
    [one] -> takeTable snapshot one
    _ -> throwKind Invalid ("the snapshot has the tables " ++ show names ++ ": open it by withSnapshot, and take one by its name")

-- | An open snapshot.
data Snapshot = Snapshot !(Handle CSnapshot) !Session

-- | An open snapshot, whose tables of these values, and those without a merge operator of Haskell's, can be taken.
withSnapshot :: ResolveValue v => proxy v -> Session -> SnapshotName -> SnapshotLabel -> (Snapshot -> IO a) -> IO a
withSnapshot values session (SnapshotName name) (SnapshotLabel label) action =
  withOperator values $ \operator -> withPlainSnapshot operator session name (Just label) action

-- | A snapshot of any label, whose tables that need no merge operator of Haskell's can be taken.
withAnySnapshot :: Session -> SnapshotName -> (Snapshot -> IO a) -> IO a
withAnySnapshot session (SnapshotName name) = withPlainSnapshot nullPtr session name Nothing

withPlainSnapshot :: Ptr COperator -> Session -> String -> Maybe String -> (Snapshot -> IO a) -> IO a
withPlainSnapshot operator session@(Session it) name label = bracket opening closing
 where
  opening = with it $ \owner -> withText name $ \named -> maybe ($ nullPtr) withText label $ \labelled ->
    withOpening operator $ \options -> do
      setLabel options labelled
      (`Snapshot` session) <$> handle (sessionOpenSnapshot owner named options) snapshotClose (keepSession session)
  closing (Snapshot snapshot _) = close snapshotClose snapshot

withOpening :: Ptr COperator -> (Ptr COpenOptions -> IO a) -> IO a
withOpening operator action = allocaBytesAligned sizeOfOpenOptions 8 $ \options -> withArray [operator] $ \array -> do
  call (openOptionsDefault options)
  unless (operator == nullPtr) (setOperators options array 1)
  action options

-- | The names of the tables that were not taken yet, in the order in which they were saved.
snapshotTables :: Snapshot -> IO [String]
snapshotTables (Snapshot it _) = with it (texts . Raw.snapshotTables)

-- | The program's bytes.
snapshotPayload :: Snapshot -> IO B.ByteString
snapshotPayload (Snapshot it _) =
  fromMaybe B.empty <$> with it (answer . Raw.snapshotPayload)

-- | Takes a table out. It can be updated; the snapshot stays as it is.
takeTable :: Snapshot -> String -> IO (Table k v)
takeTable (Snapshot it session) name = with it $ \snapshot -> withText name $ \named ->
  tableBy session (snapshotTake snapshot named)

doesSnapshotExist :: Session -> SnapshotName -> IO Bool
doesSnapshotExist session name = elem name <$> listSnapshots session

-- | The names, in order.
listSnapshots :: Session -> IO [SnapshotName]
listSnapshots (Session it) = map SnapshotName <$> with it (texts . sessionSnapshots)

-- | Tables opened from it stay usable.
deleteSnapshot :: Session -> SnapshotName -> IO ()
deleteSnapshot (Session it) (SnapshotName name) = with it $ \session -> withText name (call . sessionDeleteSnapshot session)

-- | Exports a snapshot to an empty disk, which becomes a session with that one.
exportSnapshot :: Session -> SnapshotName -> Verify -> Disk -> IO ()
exportSnapshot (Session it) (SnapshotName name) verify (Disk target) =
  with it $ \session -> with target $ \disk -> withText name $ \named ->
    call (sessionExportSnapshot session named disk (numberOfVerify verify) nullPtr)

-- | Imports a snapshot of the session on another disk, under a name of its own.
importSnapshot :: Session -> Disk -> SnapshotName -> Verify -> SnapshotName -> IO ()
importSnapshot (Session it) (Disk source) (SnapshotName name) verify (SnapshotName new) =
  with it $ \session -> with source $ \disk -> withText name $ \named -> withText new $ \renamed ->
    call (sessionImportSnapshot session disk named renamed (numberOfVerify verify) nullPtr)

-- Live tables

-- | Opens the live table of a session with a log, as it was last updated. 'Locked' while another handle to it is open.
openLiveTable :: ResolveValue v => Session -> String -> IO (Table k v)
openLiveTable session@(Session it) name = opened
 where
  opened = withOperator (valuesOf opened) $ \operator ->
    with it $ \owner -> withText name $ \named -> withOpening operator $ \options ->
      tableBy session (sessionOpenTable owner named options)

-- | The names of the live tables, in order.
liveTables :: Session -> IO [String]
liveTables (Session it) = with it (texts . sessionLiveTables)

-- | Makes a table live under its name: a duplicate, or one from a snapshot.
publish :: Table k v -> IO ()
publish (Table table (Session it)) = with it $ \session -> with table (call . sessionPublish session)

-- | Deletes a live table. 'Locked' while a handle to it is open.
deleteLiveTable :: Session -> String -> IO ()
deleteLiveTable (Session it) name = with it $ \session -> withText name (call . sessionDeleteTable session)

-- | Backs up all live tables, as they are at one moment, to a disk that is empty or has an earlier backup. Updates go on.
backup :: Session -> Verify -> Disk -> IO ()
backup (Session it) verify (Disk target) = with it $ \session -> with target $ \disk ->
  call (sessionBackup session disk (numberOfVerify verify) nullPtr)
