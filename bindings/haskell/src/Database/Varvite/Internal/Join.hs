{-# LANGUAGE ScopedTypeVariables #-}

-- | Merge operators.
module Database.Varvite.Internal.Join (withOperator) where

import Control.Exception (bracket, displayException, evaluate)
import Control.Monad (unless)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as U
import Database.Varvite.Error
import Database.Varvite.Internal.Arena
import Database.Varvite.Internal.Call
import Database.Varvite.Internal.Raw
import Database.Varvite.Internal.RawTable
import Database.Varvite.Serialise
import Foreign.Ptr (Ptr, castPtr, nullPtr)

-- | The operator of values, for one call: tables that it is given to keep it. Null for values that have none.
withOperator :: ResolveValue v => proxy v -> (Ptr COperator -> IO a) -> IO a
withOperator values action = case resolver values of
  None -> action nullPtr
  BuiltIn name -> bracket (withText name $ \it -> handle (operatorBuiltIn it) operatorClose (pure ())) ended using
  Function name -> bracket (byFunction name) ended using
 where
  ended = close operatorClose
  using it = with it action
  -- The library frees the function when nothing needs it any more, also after a call that fails.
  byFunction name = withText name $ \it -> do
    function <- makeJoin joining
    handle (operatorNew it function) operatorClose (pure ())
  joining older olderLength newer newerLength output = guarded (Told . displayException) $ do
    -- The program's values may outlive this call, the engine's bytes do not.
    one <- packed (Bytes older olderLength)
    other <- packed (Bytes newer newerLength)
    joined <- evaluate (resolveSerialised values other one)
    written <- U.unsafeUseAsCStringLen (joined :: B.ByteString) $ \(start, size) ->
      outputWrite output (castPtr start) (fromIntegral size)
    unless (written == 0) $
      throwKind Invalid ("there is no memory for a joined value of " ++ show (B.length joined) ++ " bytes: join to less")
