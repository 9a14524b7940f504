{-# LANGUAGE ExistentialQuantification #-}

-- | Tables of a session behind one handle, and transactions over them.
module Database.Varvite.Internal.Shared
  ( Shared
  , TableName (..)
  , share
  , closeShared
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
  ) where

import Control.Concurrent (ThreadId, myThreadId)
import Control.Concurrent.MVar (MVar, newMVar, putMVar, takeMVar)
import Control.Exception (bracket, finally, mask, onException)
import Control.Monad (when)
import qualified Data.ByteString as B
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import qualified Data.Vector as V
import Database.Varvite.Error
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.RawTable hiding (transactionApply)
import qualified Database.Varvite.Internal.RawTable as Raw
import Database.Varvite.Internal.Snapshot (SnapshotLabel (..), SnapshotName (..))
import Database.Varvite.Internal.Table
import Database.Varvite.Serialise
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Marshal.Array (allocaArray, peekArray, withArray)
import Foreign.Ptr (plusPtr)

-- | Tables behind one handle: any number of threads read, one at a time writes, and readers never wait.
--
-- The library knows who writes by the system's threads, which are not Haskell's. So writers of this face wait for each
-- other here, where they can be interrupted, and the library is called by one of them at a time.
data Shared = Shared !(Handle CTables) !Session !(MVar ()) !(IORef (Maybe ThreadId))

-- | What a shared table is called, and of which keys and values it is.
newtype TableName k v = TableName String
  deriving (Eq, Show)

-- | Puts tables behind one handle; their own handles are closed then. 'Invalid', and they stay open, when two have one name.
share :: Session -> [SomeTable] -> IO Shared
share session@(Session it) tables = with it $ \owner -> go tables [] $ \array count ->
  Shared <$> handle (sessionShare owner array count) tablesClose (keepSession session) <*> pure session <*> newMVar () <*> newIORef Nothing
 where
  go [] pointers action = withArray (reverse pointers) $ \array -> action array (fromIntegral (length pointers))
  go (SomeTable (Table table _) : rest) pointers action = with table $ \pointer -> go rest (pointer : pointers) action

-- | Closes it, and its tables. Live ones can be opened again.
closeShared :: Shared -> IO ()
closeShared (Shared it _ _ _) = close tablesClose it

-- | The names, in order.
sharedTables :: Shared -> IO [String]
sharedTables (Shared it _ _ _) = with it (texts . tablesNames)

-- | The values of keys after the last update that stands.
sharedLookups ::
  (SerialiseKey k, SerialiseValue v) => Shared -> TableName k v -> V.Vector k -> IO (V.Vector (Maybe v))
sharedLookups (Shared it _ _ _) (TableName name) keys =
  with it $ \tables -> withText name $ \named -> lookupsBy (tablesLookup tables named) keys
{-# INLINEABLE sharedLookups #-}

-- | Views of two tables at one moment, for an action.
sharedViews :: Shared -> TableName k v -> TableName l w -> (View k v -> View l w -> IO a) -> IO a
sharedViews (Shared it session _ _) (TableName one) (TableName other) action =
  bracket taken (\(first, second) -> closeView first >> closeView second) (uncurry action)
 where
  taken = with it $ \tables -> withText one $ \a -> withText other $ \b -> withArray [a, b] $ \names ->
    allocaArray 2 $ \places -> do
      call (tablesViews tables names 2 places)
      found <- peekArray 2 places >>= mapM (adopt viewClose (keepSession session))
      case found of
        [first, second] -> pure (View first session, View second session)
        _ -> throwKind Panic "two views were asked for"

-- | A batch for one of several shared tables.
data NamedUpdate
  = forall k v. (SerialiseKey k, SerialiseValue v) => NamedUpdate !(TableName k v) !(V.Vector (Operation k v))

-- | Applies a batch to each of several tables, all of them or none, also through a crash. Waits while others write.
commitAll :: Shared -> [NamedUpdate] -> IO ()
commitAll shared@(Shared it _ _ _) changes = alone shared $ with it $ \tables ->
  allocaBytesAligned (max 1 count * sizeOfNamedUpdate) 8 $ \array ->
    let go _ [] = call (tablesCommit tables array (fromIntegral count))
        go place (NamedUpdate (TableName name) operations : rest) =
          withText name $ \named -> withOperations bytesOfOperation operations $ \batch number -> do
            pokeNamedUpdate place named batch number
            go (place `plusPtr` sizeOfNamedUpdate) rest
     in go array changes
 where
  count = length changes

-- | Saves all of the tables as they are between two updates. Waits while others write.
saveShared :: Shared -> SnapshotName -> SnapshotLabel -> B.ByteString -> IO ()
saveShared shared@(Shared it _ _ _) (SnapshotName name) (SnapshotLabel label) payload =
  alone shared $ with it $ \tables -> withText name $ \named -> withText label $ \labelled ->
    withBytes payload (call . tablesSaveSnapshot tables named labelled)

-- | An update in the making, by the only one who writes. It reads what it wrote.
data Transaction = Transaction !(Handle CTransaction) !Session

-- | A transaction for an action: it stands whole when the action ends, and leaves the tables as they were when that throws.
-- Waits while others write; 'Invalid' within another of the same thread on the same tables, which would wait for itself.
transaction :: Shared -> (Transaction -> IO a) -> IO a
transaction shared@(Shared it session _ _) action = alone shared $ mask $ \restore -> do
  begun <- with it $ \tables -> handle (tablesBegin tables) transactionClose (keepSession session)
  result <- restore (action (Transaction begun session)) `onException` close transactionClose begun
  with begun (call . transactionCommit)
  pure result

-- | Keeps others from writing.
alone :: Shared -> IO a -> IO a
alone (Shared _ _ turn owner) action = do
  me <- myThreadId
  whose <- readIORef owner
  when (whose == Just me) $
    throwKind Invalid "this thread is in a transaction on these tables, which would wait for itself: end it first"
  mask $ \restore -> do
    takeMVar turn
    writeIORef owner (Just me)
    restore action `finally` (writeIORef owner Nothing >> putMVar turn ())

-- | Adds operations to those of a table.
transactionApply ::
  (SerialiseKey k, SerialiseValue v) => Transaction -> TableName k v -> V.Vector (Operation k v) -> IO ()
transactionApply (Transaction it _) (TableName name) operations = with it $ \pointer -> withText name $ \named ->
  withOperations bytesOfOperation operations $ \array count ->
    call (Raw.transactionApply pointer named array count)

-- | The values of keys, with what the transaction wrote.
transactionLookups ::
  (SerialiseKey k, SerialiseValue v) => Transaction -> TableName k v -> V.Vector k -> IO (V.Vector (Maybe v))
transactionLookups (Transaction it _) (TableName name) keys =
  with it $ \pointer -> withText name $ \named -> lookupsBy (transactionLookup pointer named) keys
{-# INLINEABLE transactionLookups #-}
