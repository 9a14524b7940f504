{-# LANGUAGE CApiFFI #-}
{-# OPTIONS_GHC -Wno-missing-export-lists #-}

-- | The functions and structs of the header, as far as this face uses them. The C compiler checks each import against the
-- header. What may touch the disk, wait for a lock or call back is @safe@.
module Database.Varvite.Internal.Raw where

import Data.Word (Word32, Word64, Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (Storable (..))

#include "shims.h"

data {-# CTYPE "varvite_disk" #-} CDisk
data {-# CTYPE "varvite_session" #-} CSession
data {-# CTYPE "varvite_table" #-} CTable
data {-# CTYPE "varvite_operator" #-} COperator
data {-# CTYPE "varvite_output" #-} COutput
data {-# CTYPE "varvite_error" #-} CError
data {-# CTYPE "varvite_arena" #-} CArena
data {-# CTYPE "varvite_session_options" #-} CSessionOptions
data {-# CTYPE "varvite_table_options" #-} CTableOptions

type Failing = Ptr CError -> IO CInt

sizeOfError :: Int
sizeOfError = #{size varvite_error}

sentenceOf :: Ptr CError -> CString
sentenceOf = (`plusPtr` #{offset varvite_error, sentence})

-- | Bytes that somebody else owns.
data {-# CTYPE "varvite_bytes" #-} Bytes = Bytes !(Ptr Word8) !CSize

instance Storable Bytes where
  sizeOf _ = #{size varvite_bytes}
  alignment _ = 8
  peek it = Bytes <$> #{peek varvite_bytes, data} it <*> #{peek varvite_bytes, length} it
  poke it (Bytes start length_) = #{poke varvite_bytes, data} it start >> #{poke varvite_bytes, length} it length_

sizeOfArena :: Int
sizeOfArena = #{size varvite_arena}

arenaItems :: Ptr CArena -> IO (Ptr Bytes)
arenaItems = #{peek varvite_arena, items}

arenaCount :: Ptr CArena -> IO CSize
arenaCount = #{peek varvite_arena, count}

foreign import capi unsafe "shims.h hs_varvite_arena_bytes" arenaBytes :: Ptr CArena -> IO CSize
foreign import capi unsafe "shims.h hs_varvite_arena_copy" arenaCopy :: Ptr CArena -> Ptr Word8 -> IO ()
foreign import capi unsafe "shims.h varvite_arena_free" arenaFree :: Ptr CArena -> Failing

foreign import capi safe "shims.h varvite_disk_folder" diskFolder :: CString -> CInt -> Ptr (Ptr CDisk) -> Failing
foreign import capi safe "shims.h varvite_disk_memory" diskMemory :: Word64 -> Ptr (Ptr CDisk) -> Failing
foreign import capi safe "shims.h varvite_disk_close" diskClose :: Ptr CDisk -> Failing

-- Tables

data {-# CTYPE "varvite_operation" #-} COperation

sizeOfOperation :: Int
sizeOfOperation = #{size varvite_operation}

pokeOperation :: Ptr COperation -> Word32 -> Bytes -> Bytes -> Ptr () -> IO ()
pokeOperation it kind key value held = do
  #{poke varvite_operation, kind} it kind
  poke (it `plusPtr` #{offset varvite_operation, key}) key
  poke (it `plusPtr` #{offset varvite_operation, value}) value
  #{poke varvite_operation, held} it held

kindInsert, kindDelete, kindUpsert, kindInsertValue, kindDeleteRange, kindDeletePrefix :: Word32
kindInsert = #{const VARVITE_INSERT}
kindDelete = #{const VARVITE_DELETE}
kindUpsert = #{const VARVITE_UPSERT}
kindInsertValue = #{const VARVITE_INSERT_VALUE}
kindDeleteRange = #{const VARVITE_DELETE_RANGE}
kindDeletePrefix = #{const VARVITE_DELETE_PREFIX}

foreign import capi safe "shims.h varvite_session_create" sessionCreate :: Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing
foreign import capi safe "shims.h varvite_session_open" sessionOpen :: Ptr CDisk -> Ptr CSessionOptions -> Ptr (Ptr CSession) -> Failing
foreign import capi safe "shims.h varvite_session_close" sessionClose :: Ptr CSession -> Failing
foreign import capi safe "shims.h varvite_session_create_table" sessionCreateTable :: Ptr CSession -> CString -> Ptr CTableOptions -> Ptr (Ptr CTable) -> Failing
foreign import capi safe "shims.h varvite_table_close" tableClose :: Ptr CTable -> Failing
foreign import capi safe "shims.h varvite_table_apply" tableApply :: Ptr CTable -> Ptr COperation -> CSize -> Failing
foreign import capi safe "shims.h varvite_table_lookup" tableLookup :: Ptr CTable -> Ptr Bytes -> CSize -> Ptr CArena -> Failing
