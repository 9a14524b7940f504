module Properties (tests) where
import qualified Data.ByteString as B
import qualified Data.Map.Strict as M
import qualified Data.Vector as V
import Database.Varvite
import Test.Tasty
import Test.Tasty.QuickCheck
tests :: TestTree
tests = testGroup "properties" [ testProperty "inserted keys are found" $ \pairs -> ioProperty $ do
  disk <- memory 1
  session <- openSession disk
  table <- newTable session
  let bytes = [(B.pack k, B.pack v) | (k, v) <- pairs]
  inserts table (V.fromList bytes)
  found <- lookups table (V.fromList (map fst bytes))
  closeSession session
  pure (V.toList found === [M.lookup k (M.fromList bytes) | (k, _) <- bytes])]
