-- | Sessions and tables.
module Database.Varvite.Internal.Table where

import Control.Exception (bracket)
import qualified Data.ByteString as B
import qualified Data.Vector as V
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Database.Varvite.Serialise
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (nullPtr, plusPtr)

newtype Disk = Disk (Handle CDisk)

memory :: Integer -> IO Disk
memory seed = Disk <$> handle (diskMemory (fromIntegral seed)) diskClose (pure ())

newtype Session = Session (Handle CSession)

openSession :: Disk -> IO Session
openSession (Disk disk) = with disk $ \it -> Session <$> handle (sessionCreate it nullPtr) sessionClose (pure ())

closeSession :: Session -> IO ()
closeSession (Session it) = close sessionClose it

withOpenSession :: Disk -> (Session -> IO a) -> IO a
withOpenSession disk = bracket (openSession disk) closeSession

data Table k v = Table !(Handle CTable) !Session

newTable :: Session -> IO (Table k v)
newTable session@(Session it) = with it $ \owner -> withText "table" $ \name ->
  (`Table` session) <$> handle (sessionCreateTable owner name nullPtr) tableClose (with it (const (pure ())))

closeTable :: Table k v -> IO ()
closeTable (Table it _) = close tableClose it

lookups :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector k -> IO (V.Vector (Maybe v))
lookups (Table it _) keys = with it $ \table -> withBytesArray (V.map serialiseKey keys) $ \array count ->
  V.map (fmap deserialiseValue) <$> answers (tableLookup table array (fromIntegral count))

inserts :: (SerialiseKey k, SerialiseValue v) => Table k v -> V.Vector (k, v) -> IO ()
inserts (Table it _) pairs = with it $ \table -> do
  let bytes = V.map (\(key, value) -> (serialiseKey key, serialiseValue value)) pairs
      count = V.length bytes
  allocaBytesAligned (max 1 count * sizeOfOperation) 8 $ \array -> do
    V.imapM_ (\at (key, value) -> pokeOperation (array `plusPtr` (at * sizeOfOperation)) kindInsert (bytesOf key) (bytesOf value) nullPtr) bytes
    call (tableApply table array (fromIntegral count))
    V.mapM_ (\(key, value) -> keeping key >> keeping value) bytes

_unused :: B.ByteString
_unused = B.empty
