-- | What Haskell's functions cost over Rust's: processor time of the same work on two equal stores in memory, here and in
-- the program @rounds@ of bindings/c/examples, which does a round when it is told to, by turns in one run. The lower
-- quartile of the rounds. @bench/run@ builds both.
module Main (main) where

import Control.Exception (evaluate)
import Control.Monad (foldM, forM, forM_, unless, when)
import Data.Bits (shiftR, xor)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.List (sort)
import Data.Maybe (isJust)
import qualified Data.Vector as V
import Data.Word (Word64)
import qualified Database.Varvite as T
import qualified Database.Varvite.Context as X
import qualified Database.Varvite.Simple as Simple
import Numeric (showHex)
import System.CPUTime (getCPUTime)
import System.Environment (getArgs)
import System.IO (BufferMode (..), hFlush, hGetLine, hPutStrLn, hSetBuffering, stdout)
import System.Process (CreateProcess (..), StdStream (..), createProcess, proc)
import Text.Printf (printf)

batch, batches, rounds :: Int
batch = 256
batches = 100
rounds = 31

-- | Numbers that look unrelated, as in the other program. Source: Steele et al. 2014 (SplitMix64).
mix :: Word64 -> Word64
mix number = c `xor` (c `shiftR` 31)
 where
  a = number * 0x9e3779b97f4a7c15
  b = (a `xor` (a `shiftR` 30)) * 0xbf58476d1ce4e5b9
  c = (b `xor` (b `shiftR` 27)) * 0x94d049bb133111eb

built :: Builder.Builder -> B.ByteString
built = L.toStrict . Builder.toLazyByteString

key :: Int -> B.ByteString
key number = B.copy (B.take 34 (built (foldMap (\part -> Builder.word64LE (mix (fromIntegral (number * 8 + part)))) [0 .. 4])))

account :: Int -> X.Path
account number = [C.pack "data     ", C.pack "contracts", C.pack (replicate (9 - length digits) '0' ++ digits), C.pack "balance  "]
 where
  digits = showHex (mix (fromIntegral number) `shiftR` 28) ""

picked :: Int -> Int -> V.Vector Int
picked number of_ = V.generate batch (\it -> fromIntegral (mix (fromIntegral (number * 1000 + it)) `mod` fromIntegral of_))

bigEndian :: Int -> B.ByteString
bigEndian = built . Builder.word64BE . fromIntegral

table :: Int -> IO (T.Session, T.Table B.ByteString B.ByteString)
table entries = do
  disk <- T.memory 1
  session <- T.newSession T.defaultSessionConfig disk
  made <- Simple.newTableWith T.defaultTableConfig {T.tableName = "t", T.tableWorkload = T.Utxo} session
  forM_ [0, batch .. entries - 1] $ \first ->
    T.inserts made (V.generate batch (\it -> (key (first + it), B.replicate 60 7)))
  pure (session, made)

context :: Int -> IO (X.Store, X.Tree)
context accounts = do
  disk <- T.memory 1
  store <- X.newStore X.defaultStoreConfig disk
  tree <- X.emptyTree store
  forM_ [0 .. accounts - 1] (\number -> X.add tree (account number) (bigEndian number))
  at <- X.commit store tree (X.Info [] 0 B.empty B.empty)
  (,) store <$> X.checkout store at

-- | Picoseconds of the processor.
spent :: IO () -> IO Integer
spent action = do
  start <- getCPUTime
  action
  subtract start <$> getCPUTime

main :: IO ()
main = do
  arguments <- getArgs
  (program, entries, accounts) <- case arguments of
    [program] -> pure (program, 1000000, 100000)
    [program, entries, accounts] -> pure (program, read entries, read accounts)
    _ -> fail "overhead PROGRAM_OF_RUST [ENTRIES ACCOUNTS]"
  hSetBuffering stdout LineBuffering
  started <- createProcess (proc program [show entries, show accounts]) {std_in = CreatePipe, std_out = CreatePipe}
  (orders, answers) <- case started of
    (Just orders, Just answers, _, _) -> pure (orders, answers)
    _ -> fail "the program of Rust's has no pipes"
  ready <- hGetLine answers
  unless (ready == "ready") (fail "the program of Rust's is not ready")
  let rust what number = do
        hPutStrLn orders (what ++ " " ++ show number)
        hFlush orders
        read <$> hGetLine answers :: IO Double
  (_, utxo) <- table entries
  (store, state) <- context accounts
  place <- newIORef state
  let each items number action = do
        total <- foldM (\so_far at -> (so_far +) <$> action (number * batches + at)) 0 [0 .. batches - 1]
        pure (fromIntegral total / 1000 / fromIntegral (items * batches)) :: IO Double
      forced paths = evaluate (V.foldl' (\so_far path -> so_far + sum (map B.length path)) 0 paths) >> pure paths
      looked number = each batch number $ \at -> do
        keys <- V.mapM (evaluate . key) (picked at entries)
        spent (T.lookups utxo keys >>= \found -> unless (V.all isJust found) (fail "a key is missing"))
      updated number = each batch number $ \at -> do
        keys <- V.mapM (evaluate . key) (picked at entries)
        value <- evaluate (B.replicate 60 7)
        spent (T.inserts utxo (V.map (\it -> (it, value)) keys))
      foundMany number = each batch number $ \at -> do
        paths <- forced (V.map account (picked at accounts))
        tree <- readIORef place
        spent (X.findMany tree paths >>= \found -> unless (V.all isJust found) (fail "a path is missing"))
      foundOne number = each batch number $ \at -> do
        paths <- forced (V.map account (picked at accounts))
        tree <- readIORef place
        spent (V.forM_ paths (\path -> X.find tree path >>= \found -> unless (isJust found) (fail "a path is missing")))
      committed number = do
        value <- evaluate (bigEndian (number * batches))
        tree <- readIORef place
        adding <- forM [0 .. 9] $ \at -> do
          paths <- forced (V.map account (picked (number * batches + at) accounts))
          spent (V.forM_ paths (\path -> X.add tree path value))
        committing <- spent (X.commit store tree (X.Info [] 0 B.empty B.empty) >> writeIORef place tree)
        pure (fromIntegral (sum adding + committing) / 1000 / fromIntegral (batch * 10))
  printf "%-34s %12s %12s %10s %12s\n" "processor time of" "Rust" "Haskell" "overhead" "more"
  forM_
    [ ("a key of a lookup of 256", "lookup", looked)
    , ("an operation of an update of 256", "update", updated)
    , ("a find of 256 in one call", "find", foundMany)
    , ("a find in a call of its own", "find", foundOne)
    , ("a change of a commit of 2,560", "commit", committed)
    ]
    $ \(title, what, ours) -> do
      pairs <- forM [0 .. rounds - 1] $ \number ->
        if even number
          then (,) <$> rust what number <*> ours number
          else ours number >>= \mine -> flip (,) mine <$> rust what number
      let quartile times = sort times !! (rounds `div` 4)
          theirs = quartile (map fst pairs)
          here = quartile (map snd pairs)
      when (theirs <= 0) (fail "the program of Rust's took no time")
      printf "%-34s %9.1f ns %9.1f ns %+9.1f%% %+9.1f ns\n" (title :: String) theirs here ((here / theirs - 1) * 100) (here - theirs)
