-- | Trees of a context.
module Database.Varvite.Internal.Tree where

import Control.Concurrent (myThreadId)
import Control.Exception (bracket, mask_)
import Control.Monad.Primitive (touch)
import qualified Data.ByteString as B
import Data.IORef (modifyIORef', newIORef, readIORef)
import qualified Data.List as List
import qualified Data.Vector as V
import Data.Word (Word32, Word64)
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Hash
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawContext
import Foreign.C.Types (CSize)
import Foreign.ForeignPtr (newForeignPtr_, touchForeignPtr)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Marshal.Array (peekArray)
import Foreign.Ptr (FunPtr, Ptr, freeHaskellFunPtr, minusPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, pokeElemOff)
import Prelude hiding (length)

-- | A state of a context, changed in place. Any thread may use it.
newtype Tree = Tree (Handle CTree)

-- | Names from the root down.
type Path = [B.ByteString]

-- | The shape of directories, on which hashes depend.
data Configuration = Configuration
  { entries :: !Word32
  -- ^ The branching factor of large directories.
  , stableHash :: !Word32
  -- ^ The most entries of a directory that is hashed flat.
  , hashBits :: !Bool
  -- ^ Whether a name chooses its bucket by bits of its digest, and not by a seeded hash.
  }
  deriving (Eq, Show)

-- | That of Tezos: 32, 256, seeded hash.
tezos :: Configuration
tezos = Configuration 32 256 False

-- | That of Tezos' binary context: 2, 2, bits.
tezosBinary :: Configuration
tezosBinary = Configuration 2 2 True

withConfiguration :: Configuration -> (Ptr CConfiguration -> IO a) -> IO a
withConfiguration config action = allocaBytesAligned sizeOfConfiguration 8 $ \it -> putConfiguration config it >> action it

putConfiguration :: Configuration -> Ptr CConfiguration -> IO ()
putConfiguration (Configuration width stable bits) it = pokeConfiguration it width stable (if bits then 1 else 0)

treeBy :: IO () -> (Ptr (Ptr CTree) -> Failing) -> IO Tree
treeBy keep make = Tree <$> handle make treeClose keep

-- | An empty tree without a store.
freeTree :: Configuration -> IO Tree
freeTree config = withConfiguration config (treeBy (pure ()) . treeEmpty)

-- | A tree that is one value.
valueTree :: Configuration -> B.ByteString -> IO Tree
valueTree config value = withConfiguration config $ \it -> withBytes value (treeBy (pure ()) . treeOfValue it)

-- | Another handle to the same state, independent from now on. O(1).
duplicateTree :: Tree -> IO Tree
duplicateTree (Tree it) = with it (treeBy (touchForeignPtr it) . treeDuplicate)

closeTree :: Tree -> IO ()
closeTree (Tree it) = close treeClose it

-- | A tree for an action.
withTree :: IO Tree -> (Tree -> IO a) -> IO a
withTree make = bracket make closeTree

withPath :: Path -> (Ptr Bytes -> CSize -> IO a) -> IO a
withPath path action = allocaBytesAligned (max 1 count * sizeOfBytes) 8 $ \array -> do
  put array path
  result <- action array (fromIntegral count)
  mapM_ keeping path
  pure result
 where
  count = List.length path
  put _ [] = pure ()
  put array (name : rest) = pokeElemOff array 0 (bytesOf name) >> put (array `plusPtr` sizeOfBytes) rest
{-# INLINE withPath #-}

-- | The value at a path; 'Nothing' for a directory, and for nothing.
find :: Tree -> Path -> IO (Maybe B.ByteString)
find (Tree it) path = with it $ \tree -> withPath path $ \steps count ->
  into (treeFindInto tree steps count) (treeFind tree steps count)

-- | The values at many paths, in one call.
findMany :: Tree -> V.Vector Path -> IO (V.Vector (Maybe B.ByteString))
findMany (Tree it) paths = with it $ \tree ->
  allocaBytesAligned (max 1 count * sizeOfPath) 8 $ \array ->
    allocaBytesAligned (max 1 total * sizeOfBytes) 8 $ \names -> do
      let each at place
            | at == count = pure ()
            | otherwise = do
                next <- put place (V.unsafeIndex paths at)
                pokePath (array `plusPtr` (at * sizeOfPath)) place (fromIntegral ((next `minusPtr` place) `div` sizeOfBytes))
                each (at + 1) next
      each 0 names
      found <- answers (treeFindMany tree array (fromIntegral count))
      -- The names were looked at, so they are kept where they lie for as long as the paths are.
      touch paths
      pure found
 where
  count = V.length paths
  total = V.foldl' (\sum_ path -> sum_ + List.length path) 0 paths
  put :: Ptr Bytes -> Path -> IO (Ptr Bytes)
  put place [] = pure place
  put place (name : rest) = pokeElemOff place 0 (bytesOf name) >> put (place `plusPtr` sizeOfBytes) rest

-- | Whether a value is at a path. Never reads the value.
mem :: Tree -> Path -> IO Bool
mem (Tree it) path = with it $ \tree -> withPath path $ \steps count -> (/= 0) <$> out (treeMem tree steps count)

-- | Whether anything is at a path, a value or a directory.
memTree :: Tree -> Path -> IO Bool
memTree (Tree it) path = with it $ \tree -> withPath path $ \steps count -> (/= 0) <$> out (treeMemTree tree steps count)

-- | What is at a path, as a tree of its own. All of it for the empty path.
findTree :: Tree -> Path -> IO (Maybe Tree)
findTree (Tree it) path = with it $ \tree -> withPath path $ \steps count -> mask_ $ do
  found <- out (treeFindTree tree steps count)
  if found == nullPtr then pure Nothing else Just . Tree <$> adopt treeClose (touchForeignPtr it) found

-- | How many children the directory at a path has; 0 for a value or nothing.
length :: Tree -> Path -> IO Word64
length (Tree it) path = with it $ \tree -> withPath path $ \steps count -> out (treeLength tree steps count)

-- | What a tree is.
data TreeKind = Value | Directory
  deriving (Eq, Show)

kindOfNumber :: Word32 -> TreeKind
kindOfNumber 0 = Value
kindOfNumber _ = Directory

-- | Up to so many children of the directory at a path, after the first so many, in stored order.
list :: Tree -> Path -> Word64 -> Word64 -> IO [(B.ByteString, TreeKind)]
list (Tree it) path offset limit = with it $ \tree -> withPath path $ \steps count ->
  pairs . V.toList <$> there (treeList tree steps count offset limit)
 where
  pairs (name : what : rest) = (name, kindOfNumber (fromIntegral (B.head what))) : pairs rest
  pairs _ = []

kind :: Tree -> IO TreeKind
kind (Tree it) = kindOfNumber <$> with it (out . treeKind)

-- | Whether it is a directory without entries.
isEmpty :: Tree -> IO Bool
isEmpty (Tree it) = (/= 0) <$> with it (out . treeIsEmpty)

-- | Binds a value at a path. A directory there is replaced, and so is a value on the way, by a directory.
add :: Tree -> Path -> B.ByteString -> IO ()
add (Tree it) path value = with it $ \tree -> withPath path $ \steps count -> withBytes value (call . treeAdd tree steps count)

-- | Binds a tree at a path, sharing it. An empty one removes what is there.
addTree :: Tree -> Path -> Tree -> IO ()
addTree (Tree it) path (Tree other) = with it $ \tree -> with other $ \subtree -> withPath path $ \steps count ->
  call (treeAddTree tree steps count subtree)

-- | Removes what is at a path, and the directories above that become empty with it.
remove :: Tree -> Path -> IO ()
remove (Tree it) path = with it $ \tree -> withPath path $ \steps count -> call (treeRemove tree steps count)

-- | The hash of the value, or of the directory as Tezos defines it.
hash :: Tree -> IO Hash
hash (Tree it) = with it (outHash . treeHash)

-- | By hash and kind.
equal :: Tree -> Tree -> IO Bool
equal (Tree one) (Tree other) = (/= 0) <$> with one (\it -> with other (out . treeEqual it))

-- | Gives back memory of what is deeper than so many names.
clear :: Tree -> Word -> IO ()
clear (Tree it) depth = with it $ \tree -> call (treeClear tree (fromIntegral depth))

-- | Which depths a fold visits; 0 is where it begins.
data Depth = AllDepths | Eq !Word | Lt !Word | Le !Word | Gt !Word | Ge !Word
  deriving (Eq, Show)

-- | In which order a fold visits the children of a directory.
data Order
  = -- | By name.
    Sorted
  | -- | As they are stored, in bounded memory.
    Stored
  deriving (Eq, Show)

-- | Gives the path from where it begins and what is there, a directory before its children. The subtree is closed
-- afterwards: 'duplicateTree' keeps it. What the function throws ends the fold, which throws the same.
fold :: Tree -> Path -> Depth -> Order -> a -> (Path -> Tree -> a -> IO a) -> IO a
fold (Tree it) path depth order start step = do
  state <- newIORef start
  caller <- myThreadId
  let visit names count subtree = guarded Thrown $ calledBy caller $ do
        at <- peekPath names count
        lent <- Tree <$> newForeignPtr_ subtree
        before <- readIORef state
        after <- step at lent before
        after `seq` modifyIORef' state (const after)
  withFunction (makeVisit visit) $ \function ->
    with it $ \tree -> withPath path $ \steps count ->
      call (treeFold tree steps count depthKind depthAt (if order == Sorted then 0 else 1) function)
  readIORef state
 where
  (depthKind, depthAt) = case depth of
    AllDepths -> (0, 0)
    Eq at -> (1, fromIntegral at)
    Lt at -> (2, fromIntegral at)
    Le at -> (3, fromIntegral at)
    Gt at -> (4, fromIntegral at)
    Ge at -> (5, fromIntegral at)

peekPath :: Ptr Bytes -> CSize -> IO Path
peekPath names count = peekArray (fromIntegral count) names >>= mapM packed

-- | Every value that two trees do not have alike, by path: 'Nothing' where the first, or the second, has nothing.
diff :: Tree -> Tree -> (Path -> Maybe B.ByteString -> Maybe B.ByteString -> IO ()) -> IO ()
diff (Tree one) (Tree other) each = do
  caller <- myThreadId
  let change names count before after = guarded Thrown $ calledBy caller $ do
        at <- peekPath names count
        old <- optional before
        new <- optional after
        each at old new
  withFunction (makeChange change) $ \function ->
    with one $ \tree -> with other $ \later -> call (treeDiff tree later function)
 where
  optional place = do
    bytes@(Bytes start _) <- peek place
    if start == nullPtr then pure Nothing else Just <$> packed bytes

-- | A function that is called back as long as an action runs.
withFunction :: IO (FunPtr a) -> (FunPtr a -> IO b) -> IO b
withFunction make = bracket make freeHaskellFunPtr
