{-# LANGUAGE ExistentialQuantification #-}

-- | Sessions and tables.
module Database.Varvite.Internal.Table where

import Control.Exception (bracket, evaluate, mask_)
import Control.Monad (when)
import Control.Monad.Primitive (touch)
import qualified Data.ByteString as B
import Data.List.NonEmpty (NonEmpty (..), toList)
import qualified Data.Vector as V
import qualified Data.Vector.Mutable as M
import Data.Word (Word32, Word64)
import Database.Varvite.Error
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Config
import Database.Varvite.Internal.Join
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawTable hiding (tableName)
import qualified Database.Varvite.Internal.RawTable as Raw
import Database.Varvite.Serialise
import Foreign.C.Types (CChar, CSize)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Prelude hiding (lookup)

-- | A folder of tables, open. One process has it at a time; any thread may use it.
newtype Session = Session (Handle CSession)

-- | Opens the session on a disk; makes one where there is none. 'Locked' when another process, or another handle, has it.
openSession :: SessionConfig -> Disk -> IO Session
openSession = sessionBy sessionOpenOrCreate

-- | Makes a session on an empty disk.
newSession :: SessionConfig -> Disk -> IO Session
newSession = sessionBy sessionCreate

-- | Opens a session that is there, else 'Missing'.
restoreSession :: SessionConfig -> Disk -> IO Session
restoreSession = sessionBy sessionOpen

-- | Opens a session to read its snapshots, also while another process writes.
openSessionReadOnly :: SessionConfig -> Disk -> IO Session
openSessionReadOnly = sessionBy sessionOpenReadOnly

sessionBy :: (Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing) -> SessionConfig -> Disk -> IO Session
sessionBy opening config (Disk disk) = with disk $ \it -> withSessionConfig config $ \options ->
  Session <$> handle (opening it options) sessionClose (pure ())

-- | Ends a session. Its tables and cursors give 'Closed' from now on. What is in no snapshot, and not live, is gone.
closeSession :: Session -> IO ()
closeSession (Session it) = close sessionClose it

-- | A session for an action, closed however that ends.
withOpenSession :: SessionConfig -> Disk -> (Session -> IO a) -> IO a
withOpenSession config disk = bracket (openSession config disk) closeSession

-- | What was found wrong at opening, and which live tables the last checkpoint could not write.
warnings :: Session -> IO [String]
warnings (Session it) = with it (texts . sessionWarnings)

-- | Checks every byte that snapshots and live tables of the session on a disk need, also beside its writer: file and
-- sentence of each thing that is wrong.
checkSession :: Disk -> IO [(String, String)]
checkSession (Disk disk) = pairs <$> with disk (texts . sessionCheck)
 where
  pairs (file : sentence : rest) = (file, sentence) : pairs rest
  pairs _ = []

-- | A table of a session. Any thread may use it; calls that change it wait for each other and for its readers.
data Table k v = Table !(Handle CTable) !Session

-- | A table of any keys and values.
data SomeTable = forall k v. SomeTable !(Table k v)

-- | What keeps a session for as long as something of it is there.
keepSession :: Session -> IO ()
keepSession (Session it) = touchForeignPtr it

tableBy :: Session -> (Ptr (Ptr CTable) -> Failing) -> IO (Table k v)
tableBy session make = (`Table` session) <$> handle make tableClose (keepSession session)

-- | A new, empty table with 'defaultTableConfig'.
newTable :: ResolveValue v => Session -> IO (Table k v)
newTable = newTableWith defaultTableConfig

-- | A new, empty table.
newTableWith :: ResolveValue v => TableConfig -> Session -> IO (Table k v)
newTableWith config session = made
 where
  made = withOperator (valuesOf made) (newPlainTable config session)

-- | The type of a table's values.
valuesOf :: IO (Table k v) -> Maybe v
valuesOf _ = Nothing

newPlainTable :: TableConfig -> Session -> Ptr COperator -> IO (Table k v)
newPlainTable config session@(Session it) operator =
  with it $ \owner -> withText (tableName config) $ \name -> withTableConfig config operator $ \options ->
    tableBy session (sessionCreateTable owner name options)

-- | The live table of a session with a log that has the name of the configuration, or a new one. One that is there keeps
-- the configuration that it was made with. 'Locked' while another handle to it is open.
openOrNewTable :: ResolveValue v => TableConfig -> Session -> IO (Table k v)
openOrNewTable config session@(Session it) = opened
 where
  opened = withOperator (valuesOf opened) $ \operator ->
    with it $ \owner -> withText (tableName config) $ \name -> withTableConfig config operator $ \options ->
      tableBy session (sessionOpenOrCreateTable owner name options)

-- | Makes durable what a log that is 'Written' has.
syncLog :: Session -> IO ()
syncLog (Session it) = with it (call . sessionSyncLog)

-- | Reads everything that a session keeps, so many pages of 4 KiB at a time, and tells before each time how many are left:
-- files, and what is wrong with them. Whoever uses the session goes on meanwhile.
scrub :: Session -> Word64 -> (Word64 -> IO ()) -> IO [(String, String)]
scrub (Session it) pages tell = with it $ \owner ->
  bracket (handle (sessionScrub owner 0) scrubClose (touchForeignPtr it)) (close scrubClose) $ \reading ->
    with reading $ \pointer -> do
      let go = do
            left <- out (scrubWork pointer pages)
            when (left > 0) (tell left >> go)
      go
      pairs <$> texts (scrubFindings pointer)
 where
  pairs (file : sentence : rest) = (file, sentence) : pairs rest
  pairs _ = []

-- | Closes a table. What no snapshot and no duplicate has is gone, unless the table is live.
closeTable :: Table k v -> IO ()
closeTable (Table it _) = close tableClose it

-- | A table for an action.
withTable :: ResolveValue v => Session -> (Table k v -> IO a) -> IO a
withTable session = bracket (newTable session) closeTable

-- | A table for an action.
withTableWith :: ResolveValue v => TableConfig -> Session -> (Table k v -> IO a) -> IO a
withTableWith config session = bracket (newTableWith config session) closeTable

-- Reading

-- | The values of keys, in their order. All page reads of the batch are in flight together.
lookups :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector k -> IO (V.Vector (Maybe v))
lookups (Table it _) keys = with it $ \table -> lookupsBy (tableLookup table) keys
{-# INLINEABLE lookups #-}

lookupsBy ::
  (SerialiseKey k, SerialiseValue v) =>
  (Ptr Bytes -> CSize -> Ptr CArena -> Failing) ->
  V.Vector k ->
  IO (V.Vector (Maybe v))
lookupsBy looking keys = withBytesOf serialiseKey keys $ \array count ->
  answersBy (evaluate . deserialiseValue) (looking array count)
{-# INLINE lookupsBy #-}

-- | Now, so that neither the thunk nor its exception comes later.
decoded :: SerialiseValue v => Maybe B.ByteString -> IO (Maybe v)
decoded Nothing = pure Nothing
decoded (Just bytes) = Just <$> evaluate (deserialiseValue bytes)
{-# INLINE decoded #-}

-- | The value of one key. Several keys are cheaper together.
lookup :: (SerialiseKey k, SerialiseValue v) => Table k v -> k -> IO (Maybe v)
lookup (Table it _) key = with it $ \table -> withBytes (serialiseKey key) $ \bytes ->
  into (tableGetInto table bytes) (tableGet table bytes) >>= decoded
{-# INLINEABLE lookup #-}

-- | Whether keys are bound, in their order. Reads no value that lies apart.
members :: SerialiseKey k => Table k v -> V.Vector k -> IO (V.Vector Bool)
members (Table it _) keys = with it $ \table -> withFound table keys $ \pointers ->
  V.forM pointers $ \pointer -> (pointer /= nullPtr) <$ when (pointer /= nullPtr) (call (valueClose pointer))

-- | Whether a key is bound.
member :: SerialiseKey k => Table k v -> k -> IO Bool
member table key = V.head <$> members table (V.singleton key)

-- | A range of keys, in the order of their bytes.
data Range k
  = -- | Without the last.
    FromToExcluding !k !k
  | -- | With the last.
    FromToIncluding !k !k
  | From !k
  | Before !k
  | -- | What begins with these bytes.
    Prefix !B.ByteString
  | Everything
  deriving (Eq, Show)

-- | Both bounds, null where there is none.
withRange :: SerialiseKey k => Range k -> (Ptr CBound -> Ptr CBound -> IO a) -> IO a
withRange range action = case range of
  FromToExcluding from to -> bounds (Just (key from)) (Just (False, key to))
  FromToIncluding from to -> bounds (Just (key from)) (Just (True, key to))
  From from -> bounds (Just (key from)) Nothing
  Before to -> bounds Nothing (Just (False, key to))
  Prefix prefix -> bounds (Just prefix) ((,) False <$> behind prefix)
  Everything -> action nullPtr nullPtr
 where
  key = serialiseKey
  bounds from to = bound ((,) True <$> from) $ \lower -> bound to $ \upper -> action lower upper
  bound Nothing inner = inner nullPtr
  bound (Just (isIncluded, bytes)) inner = allocaBytesAligned sizeOfBound 8 $ \it -> do
    pokeBound it isIncluded (bytesOf bytes)
    result <- inner it
    keeping bytes
    pure result

-- | The least bytes behind all that begin with these; none when these are all 255.
behind :: B.ByteString -> Maybe B.ByteString
behind prefix = case B.unsnoc (B.dropWhileEnd (== 255) prefix) of
  Nothing -> Nothing
  Just (start, end) -> Just (B.snoc start (end + 1))

-- | A key and what it is bound to.
data Entry k v = Entry !k !v
  deriving (Eq, Show)

-- | All of a range, in order of the keys' bytes, in memory at once: a cursor takes it piece by piece.
rangeLookup :: (SerialiseKey k, SerialiseValue v) => Table k v -> Range k -> IO (V.Vector (Entry k v))
rangeLookup (Table it _) range = with it $ \table -> withRange range $ \lower upper ->
  there (tableRange table lower upper) >>= entriesOf

entriesOf :: (SerialiseKey k, SerialiseValue v) => V.Vector B.ByteString -> IO (V.Vector (Entry k v))
entriesOf items = V.generateM (V.length items `div` 2) $ \at ->
  evaluate (Entry (deserialiseKey (items V.! (2 * at))) (deserialiseValue (items V.! (2 * at + 1))))

-- Values that lie apart

-- | A value that was found and not read: its bytes stay for as long as this is held, whatever becomes of the table.
data BlobRef v = BlobRef !(Handle CValue) !Session

-- | As 'lookups', without reading values that lie apart from their keys ('tableBlobMinBytes').
lookupRefs :: SerialiseKey k => Table k v -> V.Vector k -> IO (V.Vector (Maybe (BlobRef v)))
lookupRefs (Table it session) keys = with it $ \table -> withFound table keys (V.mapM adopted)
 where
  adopted pointer
    | pointer == nullPtr = pure Nothing
    | otherwise = Just . (`BlobRef` session) <$> adopt valueClose (keepSession session) pointer

-- | What finding keys gives, null for those that are not bound, with exceptions masked.
withFound :: SerialiseKey k => Ptr CTable -> V.Vector k -> (V.Vector (Ptr CValue) -> IO a) -> IO a
withFound table keys action = withBytesOf serialiseKey keys $ \array count ->
  allocaArray (max 1 (fromIntegral count)) $ \values -> mask_ $ do
    call (tableFind table array count values)
    peekArray (fromIntegral count) values >>= action . V.fromList

-- | The value, read.
retrieveBlob :: SerialiseValue v => BlobRef v -> IO v
retrieveBlob it@(BlobRef _ session) = V.head <$> retrieveBlobs session (V.singleton it)

-- | Several values of one session.
retrieveBlobs :: SerialiseValue v => Session -> V.Vector (BlobRef v) -> IO (V.Vector v)
retrieveBlobs (Session it) refs = with it $ \session ->
  withMany [value | BlobRef value _ <- V.toList refs] $ \array count ->
    there (sessionReadValues session array (fromIntegral count)) >>= V.mapM (evaluate . deserialiseValue)

-- | How many bytes it has.
blobLength :: BlobRef v -> IO Word64
blobLength (BlobRef it _) = with it (out . valueLength)

-- | Lets it go before the collector does.
closeBlobRef :: BlobRef v -> IO ()
closeBlobRef (BlobRef it _) = close valueClose it

-- Changing

-- | What is done to a key.
data Update v
  = Insert !v
  | Delete
  | -- | Joins the value to what is there, by 'resolve'.
    Upsert !v
  deriving (Eq, Show)

-- | One operation of a batch.
data Operation k v
  = Update !k !(Update v)
  | -- | Binds the key to a value that lies apart, without a copy.
    InsertRef !k !(BlobRef v)
  | -- | Unbinds every key from the first to before the second; keys that later operations bind stay.
    DeleteRange !k !k
  | -- | Unbinds every key that begins with these bytes.
    DeletePrefix !B.ByteString

-- | Operations in order, all of them or none. After an error the table is as it was, and the same may be tried again.
apply :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector (Operation k v) -> IO ()
apply (Table it _) operations = with it $ \table -> withOperations bytesOfOperation operations $ \array count ->
  call (tableApply table array count)
{-# INLINEABLE apply #-}

-- | An operation as the library has it, and what it holds.
data Batched = Batched !Word32 !B.ByteString !B.ByteString !(Maybe (Handle CValue))

bytesOfOperation :: (SerialiseKey k, SerialiseValue v) => Operation k v -> Batched
bytesOfOperation operation = case operation of
  Update key change -> bytesOfUpdate (key, change)
  InsertRef key (BlobRef value _) -> Batched kindInsertValue (serialiseKey key) B.empty (Just value)
  DeleteRange from to -> Batched kindDeleteRange (serialiseKey from) (serialiseKey to) Nothing
  DeletePrefix prefix -> Batched kindDeletePrefix prefix B.empty Nothing
{-# INLINE bytesOfOperation #-}

bytesOfUpdate :: (SerialiseKey k, SerialiseValue v) => (k, Update v) -> Batched
bytesOfUpdate (key, change) = case change of
  Insert value -> Batched kindInsert (serialiseKey key) (serialiseValue value) Nothing
  Delete -> Batched kindDelete (serialiseKey key) B.empty Nothing
  Upsert value -> Batched kindUpsert (serialiseKey key) (serialiseValue value) Nothing
{-# INLINE bytesOfUpdate #-}

withOperations :: (a -> Batched) -> V.Vector a -> (Ptr COperation -> CSize -> IO b) -> IO b
withOperations batched items action = allocaBytesAligned (max 1 count * sizeOfOperation) 8 $ \array -> do
  kept <- M.replicate count (Batched kindDelete B.empty B.empty Nothing)
  let go at = when (at < count) $ do
        let it@(Batched kind key value held) = batched (V.unsafeIndex items at)
            place = array `plusPtr` (at * sizeOfOperation)
        case held of
          Nothing -> pokeOperation place kind (bytesOf key) (bytesOf value) nullPtr
          Just one -> with one (pokeOperation place kind (bytesOf key) (bytesOf value))
        M.unsafeWrite kept at it
        go (at + 1)
  go 0
  result <- action array (fromIntegral count)
  touch kept
  pure result
 where
  count = V.length items
{-# INLINE withOperations #-}

-- | A batch for one of several tables.
data TableUpdate = forall k v. (SerialiseKey k, SerialiseValue v) => TableUpdate !(Table k v) !(V.Vector (Operation k v))

-- | A batch for each of several tables, all of them or none, also through a crash.
applyAll :: Session -> [TableUpdate] -> IO ()
applyAll (Session it) all_ = with it $ \session -> allocaBytesAligned (max 1 count * sizeOfTableUpdate) 8 $ \array ->
  let go _ [] = call (sessionApply session array (fromIntegral count))
      go place (TableUpdate (Table table _) operations : rest) =
        with table $ \pointer -> withOperations bytesOfOperation operations $ \batch number -> do
          pokeTableUpdate place pointer batch number
          go (place `plusPtr` sizeOfTableUpdate) rest
   in go array all_
 where
  count = length all_

-- | What is done to each key, in order, as one batch.
updates :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector (k, Update v) -> IO ()
updates (Table it _) changes = with it $ \table -> withOperations bytesOfUpdate changes $ \array count ->
  call (tableApply table array count)
{-# INLINEABLE updates #-}

update :: (SerialiseKey k, SerialiseValue v) => Table k v -> k -> Update v -> IO ()
update table key change = updates table (V.singleton (key, change))

inserts :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector (k, v) -> IO ()
inserts (Table it _) pairs = with it $ \table -> withOperations bound pairs $ \array count ->
  call (tableApply table array count)
 where
  bound (key, value) = Batched kindInsert (serialiseKey key) (serialiseValue value) Nothing
{-# INLINEABLE inserts #-}

insert :: (SerialiseKey k, SerialiseValue v) => Table k v -> k -> v -> IO ()
insert table key = update table key . Insert

-- | Keys that are not bound are no error.
deletes :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector k -> IO ()
deletes table = updates table . V.map (\key -> (key, Delete))
{-# INLINEABLE deletes #-}

delete :: (SerialiseKey k, SerialiseValue v) => Table k v -> k -> IO ()
delete table key = update table key Delete

-- | Joins values to what is there, by 'resolve'; 'Invalid' where 'resolver' is 'None'.
upserts :: (SerialiseKey k, ResolveValue v) => Table k v -> V.Vector (k, v) -> IO ()
upserts table = updates table . V.map (fmap Upsert)
{-# INLINEABLE upserts #-}

upsert :: (SerialiseKey k, ResolveValue v) => Table k v -> k -> v -> IO ()
upsert table key = update table key . Upsert

-- | Unbinds a range of keys.
deleteRange :: SerialiseKey k => Table k v -> Range k -> IO ()
deleteRange (Table it _) range = with it $ \table -> withRange range $ \lower upper ->
  call (tableDeleteRange table lower upper)

-- Tables from tables

-- | A table with the same content, independent from now on. O(1).
duplicate :: Table k v -> IO (Table k v)
duplicate table = nameOf table >>= \name -> duplicateAs name table

-- | The same under another name.
duplicateAs :: String -> Table k v -> IO (Table k v)
duplicateAs name (Table it session) = with it $ \table -> withText name $ \text ->
  tableBy session (tableDuplicate table text)

withDuplicate :: Table k v -> (Table k v -> IO a) -> IO a
withDuplicate table = bracket (duplicate table) closeTable

-- | The name that it was made by.
nameOf :: Table k v -> IO String
nameOf (Table it _) = with it (fmap concat . texts . Raw.tableName)

-- | A table that binds every key that one of the tables binds, merged before this returns. A key of several gets their
-- values joined by 'resolve', the leftmost as the newest; without a merge operator, the leftmost's.
unions :: NonEmpty (Table k v) -> IO (Table k v)
unions tables@(first :| _) = nameOf first >>= (`unionsAs` tables)

-- | The same under another name than the first table's.
unionsAs :: String -> NonEmpty (Table k v) -> IO (Table k v)
unionsAs = unionBy sessionUnion

union :: Table k v -> Table k v -> IO (Table k v)
union one other = unions (one :| [other])

withUnions :: NonEmpty (Table k v) -> (Table k v -> IO a) -> IO a
withUnions tables = bracket (unions tables) closeTable

withUnion :: Table k v -> Table k v -> (Table k v -> IO a) -> IO a
withUnion one other = bracket (union one other) closeTable

-- | The same, merged bit by bit: updates of the result pay for it, or 'supplyUnionCredits'.
incrementalUnions :: NonEmpty (Table k v) -> IO (Table k v)
incrementalUnions tables@(first :| _) = nameOf first >>= \name -> unionBy sessionIncrementalUnion name tables

incrementalUnion :: Table k v -> Table k v -> IO (Table k v)
incrementalUnion one other = incrementalUnions (one :| [other])

withIncrementalUnions :: NonEmpty (Table k v) -> (Table k v -> IO a) -> IO a
withIncrementalUnions tables = bracket (incrementalUnions tables) closeTable

withIncrementalUnion :: Table k v -> Table k v -> (Table k v -> IO a) -> IO a
withIncrementalUnion one other = bracket (incrementalUnion one other) closeTable

unionBy ::
  (Ptr CSession -> Ptr CChar -> Ptr (Ptr CTable) -> CSize -> Ptr (Ptr CTable) -> Failing) ->
  String ->
  NonEmpty (Table k v) ->
  IO (Table k v)
unionBy uniting name tables@(Table _ session@(Session it) :| _) =
  with it $ \owner -> withText name $ \text -> withMany [table | Table table _ <- toList tables] $ \array count ->
    tableBy session (uniting owner text array (fromIntegral count))

-- | At most how many bytes of entries are left to merge; 0 for a table that is no union, or merged.
newtype UnionDebt = UnionDebt Word64
  deriving (Eq, Ord, Show)

-- | Bytes of entries to merge.
newtype UnionCredits = UnionCredits Word64
  deriving (Eq, Ord, Show)

remainingUnionDebt :: Table k v -> IO UnionDebt
remainingUnionDebt (Table it _) = UnionDebt <$> with it (out . tableRemainingUnionDebt)

-- | Merges at least so much, and gives back what remains of the credits: more than 0 only when the union is complete.
supplyUnionCredits :: Table k v -> UnionCredits -> IO UnionCredits
supplyUnionCredits (Table it _) (UnionCredits credits) = with it $ \table -> do
  -- The engine says what is left to do, lsm-tree what is left of the credits.
  before <- out (tableRemainingUnionDebt table)
  debt <- out (tableSupplyUnionCredits table credits)
  pure (UnionCredits (if debt == 0 && credits > before then credits - before else 0))

-- | Works ahead on merges by up to so many bytes of entries; gives how much is left to do.
workAhead :: Table k v -> Word64 -> IO Word64
workAhead (Table it _) credits = with it $ \table -> out (tableWork table credits)

-- Sizes

-- | Sizes and debts of a table at one moment.
data TableStats = TableStats
  { statsEntries :: !Word64
  -- ^ Bound keys: an estimate.
  , statsEntriesMin :: !Word64
  , statsEntriesMax :: !Word64
  , statsPhysicalEntries :: !Word64
  -- ^ Entries of every kind in buffers and runs.
  , statsDiskBytes :: !Word64
  , statsBlobBytes :: !Word64
  , statsBufferBytes :: !Word64
  , statsFilterBytes :: !Word64
  -- ^ Memory of filters.
  , statsIndexBytes :: !Word64
  -- ^ Memory of indexes.
  , statsDebtBytes :: !Word64
  -- ^ Bytes of entries that merges have left to read.
  , statsUnionDebtBytes :: !Word64
  , statsLevels :: !Word64
  }
  deriving (Eq, Show)

tableStats :: Table k v -> IO TableStats
tableStats (Table it _) = with it $ \table -> allocaBytesAligned sizeOfTableStats 8 $ \stats -> do
  call (tableGetStats table stats)
  numbers <- peekTableStats stats
  case numbers of
    [a, b, c, d, e, f, g, h, i, j, k, l] -> pure (TableStats a b c d e f g h i j k l)
    _ -> throwKind Panic "the numbers of a table are not twelve"

-- | How many keys are bound, exactly. Reads every page.
size :: Table k v -> IO Word64
size table = bracket (newView table) closeView $ \(View it _) -> with it (out . viewCount)

-- Views

-- | A table's content at one moment, for readers that never wait for its writer.
data View k v = View !(Handle CView) !Session

newView :: Table k v -> IO (View k v)
newView (Table it session) = with it $ \table ->
  (`View` session) <$> handle (tableView table) viewClose (keepSession session)

closeView :: View k v -> IO ()
closeView (View it _) = close viewClose it

withView :: Table k v -> (View k v -> IO a) -> IO a
withView table = bracket (newView table) closeView

viewLookups :: (SerialiseKey k, SerialiseValue v) => View k v -> V.Vector k -> IO (V.Vector (Maybe v))
viewLookups (View it _) keys = with it $ \view -> lookupsBy (viewLookup view) keys
{-# INLINEABLE viewLookups #-}

viewRangeLookup :: (SerialiseKey k, SerialiseValue v) => View k v -> Range k -> IO (V.Vector (Entry k v))
viewRangeLookup (View it _) range = with it $ \view -> withRange range $ \lower upper ->
  there (viewRange view lower upper) >>= entriesOf

-- Loading

-- | In which order keys come that a table is loaded from.
data LoadOrder
  = Ascending
  | -- | Any, sorted with about so many bytes of memory.
    AnyOrder !Word64
  deriving (Eq, Show)

-- | A table that is loaded whole from a stream, which costs a fraction of inserts: the action is given what pushes a batch.
loadTable ::
  (SerialiseKey k, ResolveValue v) =>
  TableConfig ->
  LoadOrder ->
  Session ->
  ((V.Vector (k, v) -> IO ()) -> IO ()) ->
  IO (Table k v)
loadTable config order session@(Session it) fill = made
 where
  made = withOperator (valuesOf made) $ \operator -> bracket (begin operator) (close loaderClose) $ \loader -> do
    fill (push loader)
    with loader (tableBy session . loaderFinish)
  begin operator = with it $ \owner -> withText (tableName config) $ \name ->
    withTableConfig config operator $ \options ->
      handle (sessionLoadTable owner name options sortBytes) loaderClose (keepSession session)
  sortBytes = case order of
    Ascending -> 0
    AnyOrder bytes -> max 1 bytes
  push loader pairs = with loader $ \pointer ->
    withBytesArray (V.concatMap (\(key, value) -> V.fromList [serialiseKey key, serialiseValue value]) pairs) $ \array count ->
      when (count > 0) (call (loaderPush pointer array (count `div` 2) nullPtr))
