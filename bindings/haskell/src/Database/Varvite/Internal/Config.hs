-- | What a program chooses of sessions and tables.
module Database.Varvite.Internal.Config
  ( Disk (..)
  , folder
  , existingFolder
  , memory
  , closeDisk
  , SessionConfig (..)
  , Log (..)
  , defaultSessionConfig
  , withSessionConfig
  , TableConfig (..)
  , Workload (..)
  , defaultTableConfig
  , withTableConfig
  , Verify (..)
  , numberOfVerify
  ) where

import Data.Foldable (for_)
import Data.Word (Word32, Word64)
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawTable
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (Ptr)

-- | Where files are: a folder, or memory.
newtype Disk = Disk (Handle CDisk)
  deriving (Eq, Show)

-- | A folder, which is made when it is missing, with those above it.
folder :: FilePath -> IO Disk
folder = inFolder 1

-- | A folder that must be there, else 'Database.Varvite.Error.Missing'.
existingFolder :: FilePath -> IO Disk
existingFolder = inFolder 0

inFolder :: CInt -> FilePath -> IO Disk
inFolder create path = withText path $ \name -> Disk <$> handle (diskFolder name create) diskClose (pure ())

-- | Memory, gone with its last user. What is drawn at random on it follows from the number, so the same operations give the
-- same bytes.
memory :: Word64 -> IO Disk
memory seed = Disk <$> handle (diskMemory seed) diskClose (pure ())

-- | Sessions and stores on it stay open. Closing again does nothing, here and everywhere.
closeDisk :: Disk -> IO ()
closeDisk (Disk it) = close diskClose it

-- | What is promised of updates.
data Log
  = -- | Nothing: what is in no snapshot is gone when the session ends, as with lsm-tree.
    NoLog
  | -- | An update outlives the process.
    Written
  | -- | An update outlives a power cut.
    Synced
  deriving (Eq, Show)

-- | How a session is opened. 'Nothing' leaves a choice to the engine.
data SessionConfig = SessionConfig
  { sessionLog :: !Log
  , sessionSeed :: !(Maybe Word64)
  -- ^ From what the identity of a new session follows, for tests; by default it is drawn at random.
  , sessionMemoryBytes :: !(Maybe Word64)
  -- ^ Memory for pages; by default pages are left to the system.
  , sessionDirect :: !Bool
  -- ^ Reads past the system's page cache.
  , sessionQueueDepth :: !(Maybe Word32)
  -- ^ Page reads that a lookup keeps in flight.
  , sessionSegmentBytes :: !(Maybe Word64)
  -- ^ Bytes at which a segment file ends.
  , sessionMaxOpenFiles :: !(Maybe Word64)
  }
  deriving (Eq, Show)

defaultSessionConfig :: SessionConfig
defaultSessionConfig = SessionConfig NoLog Nothing Nothing False Nothing Nothing Nothing

withSessionConfig :: SessionConfig -> (Ptr CSessionOptions -> IO a) -> IO a
withSessionConfig config action = allocaBytesAligned sizeOfSessionOptions 8 $ \options -> do
  call (sessionOptionsDefault options)
  setLog options $ case sessionLog config of
    NoLog -> 0
    Written -> 1
    Synced -> 2
  setDirect options (if sessionDirect config then 1 else 0)
  for_ (sessionSeed config) (setSeed options)
  for_ (sessionMemoryBytes config) (setMemoryBytes options)
  for_ (sessionQueueDepth config) (setQueueDepth options)
  for_ (sessionSegmentBytes config) (setSegmentBytes options)
  for_ (sessionMaxOpenFiles config) (setMaxOpenFiles options)
  action options

-- | What lookups find, as a rule.
data Workload
  = -- | Often nothing.
    Mixed
  | -- | Nearly always a value: the engine's configuration for a UTxO set, whose last level has no filter.
    Utxo
  deriving (Eq, Show)

-- | How a table is made. 'Nothing' leaves a choice to the engine.
data TableConfig = TableConfig
  { tableName :: !String
  -- ^ What a snapshot with several tables, and a session with a log, know it by.
  , tableWorkload :: !Workload
  , tableSizeRatio :: !(Maybe Word32)
  -- ^ Runs of a level that are merged into one of the next: 2 to 16.
  , tableWriteBufferBytes :: !(Maybe Word64)
  -- ^ Bytes of entries gathered in memory before a run is written.
  , tableFilterBits :: !(Maybe Word32)
  -- ^ Filter bits an entry: 0, or 4 to 24.
  , tableFilterBytesMax :: !(Maybe Word64)
  -- ^ Most memory of filters.
  , tableBlobMinBytes :: !(Maybe Word32)
  -- ^ Values of at least so many bytes, 32 to 65,537, are stored once, beside the runs; by default those above 64 KiB.
  , tableMemoryBytes :: !(Maybe Word64)
  -- ^ Has the table keep within so much memory, by the choices above that were left.
  , tableCompressed :: !Bool
  -- ^ Whether pages are compressed by LZ4, where that saves an eighth of them or more.
  }
  deriving (Eq, Show)

-- | A table called @table@.
defaultTableConfig :: TableConfig
defaultTableConfig = TableConfig "table" Mixed Nothing Nothing Nothing Nothing Nothing Nothing False

withTableConfig :: TableConfig -> Ptr COperator -> (Ptr CTableOptions -> IO a) -> IO a
withTableConfig config operator action = allocaBytesAligned sizeOfTableOptions 8 $ \options -> do
  call $ case tableWorkload config of
    Mixed -> tableOptionsDefault options
    Utxo -> tableOptionsUtxo options
  for_ (tableMemoryBytes config) $ \bytes -> call (tableOptionsWithinMemory bytes options)
  for_ (tableSizeRatio config) (setSizeRatio options)
  for_ (tableWriteBufferBytes config) (setWriteBufferBytes options)
  for_ (tableFilterBits config) (setFilterBits options)
  for_ (tableFilterBytesMax config) (setFilterBytesMax options)
  for_ (tableBlobMinBytes config) (setBlobMinBytes options)
  setCompression options (if tableCompressed config then 1 else 0)
  setOperator options operator
  action options

-- | How much is checked at opening.
data Verify
  = -- | The manifest and every segment's footer; pages are checked when they are read.
    Quick
  | -- | Every byte of every file.
    Full
  deriving (Eq, Show)

numberOfVerify :: Verify -> Word32
numberOfVerify Quick = 0
numberOfVerify Full = 1
