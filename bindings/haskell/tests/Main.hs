module Main (main) where

import qualified Concurrent
import qualified Conformance
import qualified Keeping
import qualified Misuse
import qualified Properties
import qualified Stories
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main =
  defaultMain $
    testGroup "varvite" [Properties.tests, Stories.tests, Keeping.tests, Misuse.tests, Concurrent.tests, Conformance.tests]
