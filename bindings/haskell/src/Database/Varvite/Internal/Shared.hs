{-# LANGUAGE ExistentialQuantification #-}

-- | Tables of a session behind one handle, and transactions over them.
module Database.Varvite.Internal.Shared
  ( Shared
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
  ) where

import Control.Concurrent (ThreadId)
import Control.Concurrent.MVar (MVar, isEmptyMVar, newEmptyMVar, putMVar, takeMVar, tryPutMVar)
import Control.Exception (bracket, bracket_, finally, mask, mask_, onException)
import Control.Monad (join, when)
import qualified Data.ByteString as B
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
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
import System.Timeout (timeout)

-- | Tables behind one handle: any number of threads read, one at a time writes, and readers never wait.
--
-- Writers of this face wait for each other here, where they can be interrupted, and the library is called by one of them at
-- a time.
data Shared = Shared !(Handle CTables) !Session !Turns

-- | How writers take turns.
data Turns = Turns
  { turnQueue :: !(IORef Queue)
  , turnOwner :: !(IORef (Maybe ThreadId))
  -- ^ Whose action or call has it. What is called back in a call is of the thread that made the call.
  , turnUsed :: !(IORef Used)
  , turnPatience :: !(IORef (Maybe Int))
  -- ^ Microseconds.
  , turnClosed :: !(MVar ())
  -- ^ Full once nobody gets a turn any more.
  }

-- | Who waits, the last to come first, each for something in a place of its own: a place in the order is kept however often
-- who waits looks up.
data Queue = Free | Taken ![MVar ()]

-- | The calls of whoever has the turn: those that run, and how many are over.
data Used = Used !Int !Int
  deriving (Eq)

newTurns :: IO Turns
newTurns = Turns <$> newIORef Free <*> newIORef Nothing <*> newIORef (Used 0 0) <*> newIORef (Just 10000000) <*> newEmptyMVar

-- | What a shared table is called, and of which keys and values it is.
newtype TableName k v = TableName String
  deriving (Eq, Show)

-- | Puts tables behind one handle; their own handles are closed then. 'Invalid', and they stay open, when two have one name.
share :: Session -> [SomeTable] -> IO Shared
share session@(Session it) tables = with it $ \owner -> go tables [] $ \array count ->
  Shared <$> handle (sessionShare owner array count) tablesClose (keepSession session) <*> pure session <*> newTurns
 where
  go [] pointers action = withArray (reverse pointers) $ \array -> action array (fromIntegral (length pointers))
  go (SomeTable (Table table _) : rest) pointers action = with table $ \pointer -> go rest (pointer : pointers) action

-- | Closes it, and its tables. Live ones can be opened again. Who waits for a turn gets 'Closed'; a transaction that is open
-- goes on.
closeShared :: Shared -> IO ()
closeShared (Shared it _ turns) = mask_ $ do
  -- Between the two nothing interrupts: who waits for ever would never be told.
  close tablesClose it
  _ <- tryPutMVar (turnClosed turns) ()
  pure ()

-- | How many milliseconds who waits for a transaction has patience while nothing is done through it, before that is 'Busy':
-- 10,000 unless it is said otherwise. 'Nothing' is for as long as it takes.
setPatience :: Shared -> Maybe Int -> IO ()
setPatience (Shared _ _ turns) = writeIORef (turnPatience turns) . fmap ((* 1000) . min (maxBound `div` 1000) . max 1)

-- | The names, in order.
sharedTables :: Shared -> IO [String]
sharedTables (Shared it _ _) = with it (texts . tablesNames)

-- | The values of keys after the last update that stands.
sharedLookups ::
  (SerialiseKey k, SerialiseValue v) => Shared -> TableName k v -> V.Vector k -> IO (V.Vector (Maybe v))
sharedLookups (Shared it _ _) (TableName name) keys =
  with it $ \tables -> withText name $ \named -> lookupsBy (tablesLookup tables named) keys
{-# INLINEABLE sharedLookups #-}

-- | Views of two tables at one moment, for an action.
sharedViews :: Shared -> TableName k v -> TableName l w -> (View k v -> View l w -> IO a) -> IO a
sharedViews (Shared it session _) (TableName one) (TableName other) action =
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
commitAll shared@(Shared it _ turns) changes = alone shared $ using turns $ with it $ \tables ->
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
saveShared shared@(Shared it _ turns) (SnapshotName name) (SnapshotLabel label) payload =
  alone shared $ using turns $ with it $ \tables -> withText name $ \named -> withText label $ \labelled ->
    withBytes payload (call . tablesSaveSnapshot tables named labelled)

-- | An update in the making, by the only one who writes. It reads what it wrote.
data Transaction = Transaction !(Handle CTransaction) !Session !Turns

-- | A transaction for an action: it stands whole when the action ends, and leaves the tables as they were when that throws.
-- Waits while others write, for other transactions too; 'Busy' when nothing is done through one for as long as 'setPatience'
-- says. 'Invalid' within another on the same tables, also in a function that a call there calls back, since it would wait for
-- itself. Any thread may use the transaction while the action runs.
transaction :: Shared -> (Transaction -> IO a) -> IO a
transaction shared@(Shared it session turns) action = alone shared $ mask $ \restore -> do
  begun <- using turns $ with it $ \tables -> handle (tablesBegin tables) transactionClose (keepSession session)
  result <- restore (action (Transaction begun session turns)) `onException` close transactionClose begun
  using turns $ with begun (call . transactionCommit)
  pure result

-- | Keeps others from writing.
alone :: Shared -> IO a -> IO a
alone (Shared _ _ turns) action = do
  me <- originalThread
  whose <- readIORef (turnOwner turns)
  when (whose == Just me) $
    throwKind Invalid "this thread is in a transaction on these tables, which would wait for itself: end it first"
  mask $ \restore -> do
    takeTurn turns
    writeIORef (turnOwner turns) (Just me)
    restore action `finally` (writeIORef (turnOwner turns) Nothing >> passTurn turns)

-- | Gives the turn to who has waited longest.
passTurn :: Turns -> IO ()
passTurn turns = join $ atomicModifyIORef' (turnQueue turns) $ \queue -> case queue of
  Taken waiters | not (null waiters) -> (Taken (init waiters), putMVar (last waiters) ())
  _ -> (Free, pure ())

-- | Waits for the turn, with patience, and not for that of a handle that was closed. With exceptions masked.
takeTurn :: Turns -> IO ()
takeTurn turns = do
  mine <- newEmptyMVar
  waits <- atomicModifyIORef' (turnQueue turns) $ \queue -> case queue of
    Free -> (Taken [], False)
    Taken waiters -> (Taken (mine : waiters), True)
  when waits $ (readIORef (turnUsed turns) >>= waiting mine 0) `onException` leave mine
 where
  -- Who was given the turn meanwhile passes it on.
  leave mine = join $ atomicModifyIORef' (turnQueue turns) $ \queue -> case queue of
    Taken waiters | mine `elem` waiters -> (Taken (filter (/= mine) waiters), pure ())
    _ -> (queue, passTurn turns)
  waiting mine waited before = do
    limit <- readIORef (turnPatience turns)
    let span_ = maybe asked (\it -> max 1 (min asked (it - waited))) limit
    taken <- timeout span_ (takeMVar mine)
    after <- readIORef (turnUsed turns)
    isOpen <- isEmptyMVar (turnClosed turns)
    case (taken, after) of
      (Just (), _) -> pure ()
      _ | not isOpen -> throwKind Closed "the shared tables were closed: open them again"
      (_, Used 0 _)
        | after /= before -> waiting mine 0 after
        | maybe False (<= waited + span_) limit -> throwKind Busy
            "a transaction is open on these tables, and nothing is done through it, so that waiting could be for ever: end it, then try again"
        | otherwise -> waiting mine (waited + span_) after
      _ -> waiting mine 0 after
  -- Microseconds after which who waits looks whether the handle is closed.
  asked = 100000

-- | A call of whoever has the turn: nobody loses patience meanwhile.
using :: Turns -> IO a -> IO a
using turns = bracket_ (change (\(Used now over) -> Used (now + 1) over)) (change (\(Used now over) -> Used (now - 1) (over + 1)))
 where
  change by = atomicModifyIORef' (turnUsed turns) (\it -> (by it, ()))

-- | Adds operations to those of a table.
transactionApply ::
  (SerialiseKey k, SerialiseValue v) => Transaction -> TableName k v -> V.Vector (Operation k v) -> IO ()
transactionApply (Transaction it _ turns) (TableName name) operations = using turns $ with it $ \pointer -> withText name $ \named ->
  withOperations bytesOfOperation operations $ \array count ->
    call (Raw.transactionApply pointer named array count)

-- | The values of keys, with what the transaction wrote.
transactionLookups ::
  (SerialiseKey k, SerialiseValue v) => Transaction -> TableName k v -> V.Vector k -> IO (V.Vector (Maybe v))
transactionLookups (Transaction it _ turns) (TableName name) keys =
  using turns $ with it $ \pointer -> withText name $ \named -> lookupsBy (transactionLookup pointer named) keys
{-# INLINEABLE transactionLookups #-}
