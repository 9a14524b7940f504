-- | Proofs of what a context holds.
module Database.Varvite.Internal.Proof where

import Control.Concurrent (myThreadId)
import qualified Data.ByteString as B
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Maybe (fromMaybe)
import Data.Word (Word32)
import Database.Varvite.Error
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Hash
import Database.Varvite.Internal.RawContext hiding (proofRoots)
import qualified Database.Varvite.Internal.RawContext as Raw
import Database.Varvite.Internal.Tree
import Foreign.ForeignPtr (newForeignPtr_)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (FunPtr, Ptr)

-- | A proof. What it says is checked when it is verified.
newtype Proof = Proof (Handle CProof)

-- | Which proofs are made.
data ProofShape
  = -- | The shape of the tree, with hashes for what is not shown.
    TreeProof
  | -- | What was looked at, in its order.
    StreamProof
  deriving (Eq, Show)

-- | Runs a function on a copy of a tree, and makes a proof of what it looked at.
produceProof :: ProofShape -> Tree -> (Tree -> IO a) -> IO (Proof, a)
produceProof shape (Tree it) function = running function $ \work result -> do
  made <- with it $ \tree -> handle (proofMake tree (if shape == StreamProof then 1 else 0) work) proofClose (pure ())
  (,) (Proof made) <$> result

-- | What a hash is of, which is all that is trusted.
data Root = ValueRoot !Hash | DirectoryRoot !Hash
  deriving (Eq, Show)

-- | Runs the same function on what the proof shows of the tree with that hash. A read in it gives what the whole tree would
-- give, or throws 'Hidden'. 'Corrupt' when the proof is not of this hash, or shows too much. Needs no store.
verifyProof :: Configuration -> Root -> Proof -> (Tree -> IO a) -> IO a
verifyProof config root (Proof it) function = running function $ \work result -> do
  with it $ \proof -> withConfiguration config $ \shape -> withRoot root $ \known ->
    call (proofVerify proof shape known work)
  result

-- | The function as the library calls it, and what it gave.
running :: (Tree -> IO a) -> (FunPtr Work -> IO a -> IO b) -> IO b
running function action = do
  given <- newIORef Nothing
  caller <- myThreadId
  let work tree = guarded Thrown $ calledBy caller $ do
        lent <- newForeignPtr_ tree
        function (Tree lent) >>= writeIORef given . Just
      result = readIORef given >>= maybe (throwKind Panic "the function of a proof was not called") pure
  withFunction (makeWork work) $ \it -> action it result

-- | The tree before, as far as the proof shows it: what is read of it is proven, what is hidden throws 'Hidden'.
openProof :: Configuration -> Root -> Proof -> IO Tree
openProof config root (Proof it) = with it $ \proof -> withConfiguration config $ \shape -> withRoot root $ \known ->
  treeBy (pure ()) (proofOpen proof shape known)

withRoot :: Root -> (Ptr CKinded -> IO a) -> IO a
withRoot root action = allocaBytesAligned sizeOfKinded 8 $ \it -> do
  let (number, at) = case root of
        ValueRoot one -> (0, one)
        DirectoryRoot one -> (1, one)
  pokeKind it number
  withHash at $ \raw -> copyBytes (kindedHash it) raw sizeOfHash
  action it

-- | How a proof becomes bytes.
data Encoding
  = -- | Octez' first.
    V1
  | -- | Octez' second.
    V2
  | -- | Irmin's own.
    Irmin
  | Json
  deriving (Eq, Show)

numberOfEncoding :: Encoding -> Word32
numberOfEncoding encoding = case encoding of
  V1 -> 0
  V2 -> 1
  Irmin -> 2
  Json -> 3

encodeProof :: Encoding -> Proof -> IO B.ByteString
encodeProof encoding (Proof it) =
  fromMaybe B.empty <$> with it (\proof -> answer (proofEncode proof (numberOfEncoding encoding)))

-- | Nothing is hashed yet: verifying does that.
decodeProof :: Configuration -> Encoding -> B.ByteString -> IO Proof
decodeProof config encoding bytes = withConfiguration config $ \shape -> withBytes bytes $ \raw ->
  Proof <$> handle (proofDecode raw (numberOfEncoding encoding) shape) proofClose (pure ())

-- | The hashes of the trees before and after, as the proof says; trust a hash that you know instead.
proofRoots :: Proof -> IO (Root, Root)
proofRoots (Proof it) = with it $ \proof ->
  allocaBytesAligned sizeOfKinded 8 $ \before -> allocaBytesAligned sizeOfKinded 8 $ \after -> do
    call (Raw.proofRoots proof before after)
    (,) <$> root before <*> root after
 where
  root place = do
    number <- peekKind place
    (if kindOfNumber number == Value then ValueRoot else DirectoryRoot) <$> peekHash (kindedHash place)

isStream :: Proof -> IO Bool
isStream (Proof it) = (/= 0) <$> with it (out . proofIsStream)

closeProof :: Proof -> IO ()
closeProof (Proof it) = close proofClose it
