{-# LANGUAGE ScopedTypeVariables #-}

-- | How keys and values become bytes and back.
module Database.Varvite.Serialise
  ( SerialiseKey (..)
  , SerialiseValue (..)
  , ResolveValue (..)
  , Resolver (..)
  , ResolveViaSemigroup (..)
  , ResolveAsFirst (..)
  , Sum64 (..)
  , Greatest (..)
  , Appended (..)

    -- * Laws
  , keyRoundTrips
  , valueRoundTrips
  , keyPreservesOrder
  , resolveIsAssociative
  , resolveAgrees
  ) where

import Data.Bits (shiftL, unsafeShiftR, (.|.))
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as I
import qualified Data.ByteString.Lazy as L
import qualified Data.ByteString.Short as S
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Storable (pokeByteOff)

-- | Keys. A table has the order of their bytes, whatever 'Ord' says: range lookups and cursors of a type that does not
-- preserve it follow the bytes. At most 4,000 bytes.
class SerialiseKey k where
  serialiseKey :: k -> B.ByteString
  deserialiseKey :: B.ByteString -> k

-- | Values, of up to 16 MiB.
--
-- A 'B.ByteString' that a lookup gives is a part of the memory of all answers of that call: 'B.copy' what is kept for
-- long, or use 'S.ShortByteString', which copies.
class SerialiseValue v where
  serialiseValue :: v -> B.ByteString
  deserialiseValue :: B.ByteString -> v

-- | How an upsert joins an older value. Associative; the first argument is the newer one. Pure, and quick: it is called
-- when levels are merged. What it throws makes the call that needed it throw a 'Database.Varvite.Error.Callback', and
-- changes nothing.
class SerialiseValue v => ResolveValue v where
  resolve :: v -> v -> v

  -- | The same on bytes, the newer ones first.
  resolveSerialised :: proxy v -> B.ByteString -> B.ByteString -> B.ByteString
  resolveSerialised _ newer older =
    serialiseValue (resolve (deserialiseValue newer :: v) (deserialiseValue older))

  -- | What a table stores of it, so that it is not opened with another. The default calls a function of Haskell's by
  -- the name @resolve@.
  resolver :: proxy v -> Resolver
  resolver _ = Function "resolve"

  {-# MINIMAL resolve #-}

-- | Where the merge operator of a table comes from.
data Resolver
  = -- | 'resolveSerialised', under this name.
    Function String
  | -- | One of the engine's own, which never enters Haskell: @add-u64@, @max@ or @append@.
    BuiltIn String
  | -- | None: upserts are refused, and unions take the leftmost value.
    None
  deriving (Eq, Show)

-- | Resolves by '<>', the newer value on the left.
newtype ResolveViaSemigroup v = ResolveViaSemigroup v
  deriving (Eq, Ord, Show)

instance SerialiseValue v => SerialiseValue (ResolveViaSemigroup v) where
  serialiseValue (ResolveViaSemigroup it) = serialiseValue it
  deserialiseValue = ResolveViaSemigroup . deserialiseValue

instance (SerialiseValue v, Semigroup v) => ResolveValue (ResolveViaSemigroup v) where
  resolve (ResolveViaSemigroup newer) (ResolveViaSemigroup older) = ResolveViaSemigroup (newer <> older)

-- | The newer value stays. It needs no merge operator: use inserts.
newtype ResolveAsFirst v = ResolveAsFirst v
  deriving (Eq, Ord, Show)

instance SerialiseValue v => SerialiseValue (ResolveAsFirst v) where
  serialiseValue (ResolveAsFirst it) = serialiseValue it
  deserialiseValue = ResolveAsFirst . deserialiseValue

instance SerialiseValue v => ResolveValue (ResolveAsFirst v) where
  resolve newer _ = newer
  resolveSerialised _ newer _ = newer

-- | A number of 8 bytes, little-endian; upserts add to it, by the engine's own operator.
newtype Sum64 = Sum64 Word64
  deriving (Eq, Ord, Show)

instance SerialiseValue Sum64 where
  serialiseValue (Sum64 it) = B.reverse (serialiseValue it)
  deserialiseValue = Sum64 . deserialiseValue . B.reverse

instance ResolveValue Sum64 where
  resolve (Sum64 newer) (Sum64 older) = Sum64 (newer + older)
  resolver _ = BuiltIn "add-u64"

-- | Bytes, of which upserts keep the greatest, by the engine's own operator.
newtype Greatest = Greatest B.ByteString
  deriving (Eq, Ord, Show)

instance SerialiseValue Greatest where
  serialiseValue (Greatest it) = it
  deserialiseValue = Greatest

instance ResolveValue Greatest where
  resolve = max
  resolver _ = BuiltIn "max"

-- | Bytes, to which upserts append, by the engine's own operator.
newtype Appended = Appended B.ByteString
  deriving (Eq, Ord, Show)

instance SerialiseValue Appended where
  serialiseValue (Appended it) = it
  deserialiseValue = Appended

instance ResolveValue Appended where
  resolve (Appended newer) (Appended older) = Appended (older <> newer)
  resolver _ = BuiltIn "append"

instance SerialiseKey B.ByteString where
  serialiseKey = id
  deserialiseKey = id

instance SerialiseValue B.ByteString where
  serialiseValue = id
  deserialiseValue = id

instance SerialiseKey S.ShortByteString where
  serialiseKey = S.fromShort
  deserialiseKey = S.toShort

instance SerialiseValue S.ShortByteString where
  serialiseValue = S.fromShort
  deserialiseValue = S.toShort

instance SerialiseKey L.ByteString where
  serialiseKey = L.toStrict
  deserialiseKey = L.fromStrict

instance SerialiseValue L.ByteString where
  serialiseValue = L.toStrict
  deserialiseValue = L.fromStrict

-- | No bytes: a table of such values is a set.
instance SerialiseValue () where
  serialiseValue () = B.empty
  deserialiseValue _ = ()

-- | Big-endian, so that the order of numbers is that of their bytes.
instance SerialiseKey Word64 where
  serialiseKey = bigEndian 8
  deserialiseKey = number

instance SerialiseValue Word64 where
  serialiseValue = bigEndian 8
  deserialiseValue = number

instance SerialiseKey Word32 where
  serialiseKey = bigEndian 4 . fromIntegral
  deserialiseKey = fromIntegral . number

instance SerialiseValue Word32 where
  serialiseValue = bigEndian 4 . fromIntegral
  deserialiseValue = fromIntegral . number

instance SerialiseKey Word16 where
  serialiseKey = bigEndian 2 . fromIntegral
  deserialiseKey = fromIntegral . number

instance SerialiseValue Word16 where
  serialiseValue = bigEndian 2 . fromIntegral
  deserialiseValue = fromIntegral . number

bigEndian :: Int -> Word64 -> B.ByteString
bigEndian size it = I.unsafeCreate size $ \start ->
  mapM_ (\at -> pokeByteOff start at (fromIntegral (it `unsafeShiftR` (8 * (size - 1 - at))) :: Word8)) [0 .. size - 1]

number :: B.ByteString -> Word64
number = B.foldl' (\total byte -> (total `shiftL` 8) .|. fromIntegral byte) 0

-- | A key comes back.
keyRoundTrips :: (Eq k, SerialiseKey k) => k -> Bool
keyRoundTrips key = deserialiseKey (serialiseKey key) == key

-- | A value comes back.
valueRoundTrips :: (Eq v, SerialiseValue v) => v -> Bool
valueRoundTrips value = deserialiseValue (serialiseValue value) == value

-- | Bytes have the order of 'Ord': what range lookups give is then in it.
keyPreservesOrder :: (Ord k, SerialiseKey k) => k -> k -> Bool
keyPreservesOrder one other = compare one other == compare (serialiseKey one) (serialiseKey other)

-- | What a merge operator must be.
resolveIsAssociative :: (Eq v, ResolveValue v) => v -> v -> v -> Bool
resolveIsAssociative one two three = resolve one (resolve two three) == resolve (resolve one two) three

-- | Both forms of resolving say the same.
resolveAgrees :: ResolveValue v => v -> v -> Bool
resolveAgrees newer older =
  resolveSerialised (Just newer) (serialiseValue newer) (serialiseValue older) == serialiseValue (resolve newer older)
