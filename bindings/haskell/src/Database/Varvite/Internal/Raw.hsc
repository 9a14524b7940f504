{-# LANGUAGE CApiFFI #-}
{-# OPTIONS_GHC -Wno-missing-export-lists #-}

-- | What both faces need of the header. The C compiler checks each import against it. What may touch the disk, wait for a
-- lock or call back is @safe@.
module Database.Varvite.Internal.Raw where

import Data.Word (Word64, Word8)
import Foreign.C.Types (CChar (..), CInt (..), CSize (..))
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (Storable (..))

#include "shims.h"

data {-# CTYPE "varvite_disk" #-} CDisk
data {-# CTYPE "varvite_error" #-} CError
data {-# CTYPE "varvite_arena" #-} CArena
data {-# CTYPE "varvite_output" #-} COutput

-- | The rest of every function's type.
type Failing = Ptr CError -> IO CInt

sizeOfError :: Int
sizeOfError = #{size varvite_error}

sentenceOf :: Ptr CError -> Ptr CChar
sentenceOf = (`plusPtr` #{offset varvite_error, sentence})

-- | What a callback returned that failed.
codeOf :: Ptr CError -> IO CInt
codeOf = #{peek varvite_error, callback}

-- | Bytes that somebody else owns.
data {-# CTYPE "varvite_bytes" #-} Bytes = Bytes !(Ptr Word8) !CSize

instance Storable Bytes where
  sizeOf _ = #{size varvite_bytes}
  alignment _ = 8
  peek it = Bytes <$> #{peek varvite_bytes, data} it <*> #{peek varvite_bytes, length} it
  poke it (Bytes start count) = #{poke varvite_bytes, data} it start >> #{poke varvite_bytes, length} it count
  {-# INLINE peek #-}
  {-# INLINE poke #-}

sizeOfBytes :: Int
sizeOfBytes = #{size varvite_bytes}

sizeOfArena :: Int
sizeOfArena = #{size varvite_arena}

arenaItems :: Ptr CArena -> IO (Ptr Bytes)
arenaItems = #{peek varvite_arena, items}

arenaCount :: Ptr CArena -> IO CSize
arenaCount = #{peek varvite_arena, count}

foreign import capi unsafe "shims.h hs_varvite_arena_bytes" arenaBytes :: Ptr CArena -> IO CSize
foreign import capi unsafe "shims.h hs_varvite_arena_copy" arenaCopy :: Ptr CArena -> Ptr Word8 -> IO ()
foreign import capi unsafe "shims.h varvite_arena_free" arenaFree :: Ptr CArena -> Failing
foreign import capi unsafe "shims.h varvite_output_write" outputWrite :: Ptr COutput -> Ptr Word8 -> CSize -> IO CInt

foreign import capi safe "shims.h varvite_disk_folder" diskFolder :: Ptr CChar -> CInt -> Ptr (Ptr CDisk) -> Failing
foreign import capi safe "shims.h varvite_disk_memory" diskMemory :: Word64 -> Ptr (Ptr CDisk) -> Failing
foreign import capi safe "shims.h varvite_disk_close" diskClose :: Ptr CDisk -> Failing
