module Main (main) where
import qualified Properties
import Test.Tasty (defaultMain, testGroup)
main :: IO ()
main = defaultMain (testGroup "varvite" [Properties.tests])
