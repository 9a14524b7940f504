-- | Cursors: a table's content at one moment, piece by piece, in both directions.
module Database.Varvite.Internal.Cursor where

import Control.Concurrent.MVar (MVar, newMVar, putMVar, takeMVar, tryTakeMVar)
import Control.Exception (bracket, finally, mask)
import Control.Monad (when)
import qualified Data.ByteString as B
import qualified Data.Vector as V
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawTable
import Database.Varvite.Internal.Table
import Database.Varvite.Serialise
import Foreign.Marshal.Alloc (alloca, allocaBytesAligned)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek)
import Prelude hiding (take, takeWhile)

-- | A place between the keys of a table as it was when the cursor was made. Threads that share one wait for each other.
data Cursor k v = Cursor !(Handle CCursor) !(MVar ())

cursorBy :: IO (Handle CCursor) -> IO (Cursor k v)
cursorBy make = Cursor <$> make <*> newMVar ()

-- | Does something with the cursor while no other thread does: what a step gives lies with the cursor until its next call.
held :: Cursor k v -> (Ptr CCursor -> IO a) -> IO a
held (Cursor it turn) action = mask $ \restore -> do
  free <- tryTakeMVar turn
  when (free == Nothing) $ do
    -- A merge operator that uses the cursor whose call runs it would wait for itself: the library refuses it here.
    allocaBytesAligned sizeOfSessionOptions 8 (call . sessionOptionsDefault)
    takeMVar turn
  restore (with it action) `finally` putMVar turn ()

-- | Before the first key.
newCursor :: SerialiseKey k => Table k v -> IO (Cursor k v)
newCursor table = newCursorOn table Everything

-- | Before the first key that is this one or greater.
newCursorAtOffset :: SerialiseKey k => Table k v -> k -> IO (Cursor k v)
newCursorAtOffset table key = newCursorOn table (From key)

-- | Before the first key of a range, which it does not leave.
newCursorOn :: SerialiseKey k => Table k v -> Range k -> IO (Cursor k v)
newCursorOn (Table it session) range = with it $ \table -> withRange range $ \lower upper ->
  cursorBy (handle (tableCursor table lower upper) cursorClose (keepSession session))

-- | The same on a view.
newViewCursorOn :: SerialiseKey k => View k v -> Range k -> IO (Cursor k v)
newViewCursorOn (View it session) range = with it $ \view -> withRange range $ \lower upper ->
  cursorBy (handle (viewCursor view lower upper) cursorClose (keepSession session))

closeCursor :: Cursor k v -> IO ()
closeCursor cursor@(Cursor it _) = held cursor (const (close cursorClose it))

withCursor :: SerialiseKey k => Table k v -> (Cursor k v -> IO a) -> IO a
withCursor table = bracket (newCursor table) closeCursor

withCursorAtOffset :: SerialiseKey k => Table k v -> k -> (Cursor k v -> IO a) -> IO a
withCursorAtOffset table key = bracket (newCursorAtOffset table key) closeCursor

withCursorOn :: SerialiseKey k => Table k v -> Range k -> (Cursor k v -> IO a) -> IO a
withCursorOn table range = bracket (newCursorOn table range) closeCursor

-- | The next entry, which is passed; 'Nothing' at the end.
next :: (SerialiseKey k, SerialiseValue v) => Cursor k v -> IO (Maybe (Entry k v))
next cursor = (V.!? 0) <$> take 1 cursor

-- | Up to so many entries, which are passed: fewer at the end, and before one that cannot be read, which the next call tells.
-- The cursor stands before that one then.
take :: (SerialiseKey k, SerialiseValue v) => Int -> Cursor k v -> IO (V.Vector (Entry k v))
take limit cursor
  | limit <= 0 = pure V.empty
  | otherwise = held cursor (\it -> there (cursorNextMany it (fromIntegral limit))) >>= entriesOf

-- | Up to so many entries whose keys pass; the first that does not is not passed.
takeWhile :: (SerialiseKey k, SerialiseValue v) => Int -> (k -> Bool) -> Cursor k v -> IO (V.Vector (Entry k v))
takeWhile limit isWanted cursor = do
  entries <- take limit cursor
  let wanted = V.takeWhile (\(Entry key _) -> isWanted key) entries
  when (V.length wanted < V.length entries) $ do
    let Entry key _ = entries V.! V.length wanted
    seek cursor key
  pure wanted

-- | Moves before the first key that is this one or greater.
seek :: SerialiseKey k => Cursor k v -> k -> IO ()
seek cursor key = withBytes (serialiseKey key) $ \bytes -> held cursor (\it -> call (cursorSeek it bytes))

seekFirst :: Cursor k v -> IO ()
seekFirst cursor = held cursor (call . cursorSeekFirst)

seekLast :: Cursor k v -> IO ()
seekLast cursor = held cursor (call . cursorSeekLast)

-- | The entry before, which is passed; 'Nothing' at the beginning.
previous :: (SerialiseKey k, SerialiseValue v) => Cursor k v -> IO (Maybe (Entry k v))
previous cursor = do
  found <- held cursor $ \it -> alloca $ \key -> alloca $ \value -> do
    call (cursorPrevious it key value)
    (,) <$> copy key <*> copy value
  pure $ case found of
    (Just one, Just other) -> let entry = Entry (deserialiseKey one) (deserialiseValue other) in entry `seq` Just entry
    _ -> Nothing

-- | Its key alone; reads no value that lies apart.
previousKey :: SerialiseKey k => Cursor k v -> IO (Maybe k)
previousKey cursor = do
  found <- held cursor $ \it -> alloca $ \key -> call (cursorPreviousKey it key) >> copy key
  pure (deserialiseKey <$> found)

copy :: Ptr Bytes -> IO (Maybe B.ByteString)
copy place = do
  bytes@(Bytes start _) <- peek place
  if start == nullPtr then pure Nothing else Just <$> packed bytes
