{-# LANGUAGE OverloadedStrings #-}

-- | Operations against 'M.Map'.
module Properties (tests) where

import Common
import Control.Monad (foldM, forM_, unless, void, zipWithM)
import qualified Data.ByteString as B
import Data.List (sortOn)
import Data.List.NonEmpty (NonEmpty (..))
import qualified Data.Map.Strict as M
import Data.Maybe (isJust)
import qualified Data.Vector as V
import Data.Word (Word16, Word32, Word64)
import qualified Database.Varvite as T
import Database.Varvite
  ( Appended (..)
  , Entry (..)
  , Operation (..)
  , Range (..)
  , ResolveValue (..)
  , SerialiseValue (..)
  , Update (..)
  )
import qualified Database.Varvite.Simple as Simple
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.QuickCheck

type Model = M.Map Key Joined

-- | What is done to a table, whose answers are compared with a map's.
data Command
  = Inserts [(Key, Joined)]
  | Deletes [Key]
  | Upserts [(Key, Joined)]
  | Updates [(Key, Change)]
  | Apply [Batched]
  | Delete' Spanned
  | Lookups [Key]
  | Lookup Key
  | Members [Key]
  | RangeLookup Spanned
  | Walk Spanned [Step]
  | Refs [Key]
  | View' [Key] [(Key, Joined)]
  | Reopen
  | Fork [(Key, Joined)]
  | Size
  deriving (Show)

data Change = In Joined | Out | Up Joined
  deriving (Show)

data Batched = Each Key Change | OutRange Key Key | OutPrefix B.ByteString
  deriving (Show)

data Spanned = Span Int Key Key
  deriving (Show)

data Step = Take Int | TakeWhile Int Key | Back | BackKey | Seek Key | First | Last
  deriving (Show)

instance Arbitrary Change where
  arbitrary = oneof [In <$> arbitrary, pure Out, Up <$> arbitrary]

instance Arbitrary Batched where
  arbitrary =
    frequency
      [ (6, Each <$> arbitrary <*> arbitrary)
      , (1, OutRange <$> arbitrary <*> arbitrary)
      , (1, (\(Key it) -> OutPrefix it) <$> arbitrary)
      ]

instance Arbitrary Spanned where
  arbitrary = Span <$> choose (0, 5) <*> arbitrary <*> arbitrary

instance Arbitrary Step where
  arbitrary =
    oneof
      [ Take <$> choose (-1, 6)
      , TakeWhile <$> choose (0, 6) <*> arbitrary
      , pure Back
      , pure BackKey
      , Seek <$> arbitrary
      , pure First
      , pure Last
      ]

instance Arbitrary Command where
  arbitrary =
    oneof
      [ Inserts <$> some'
      , Deletes <$> some'
      , Upserts <$> some'
      , Updates <$> some'
      , Apply <$> some'
      , Delete' <$> arbitrary
      , Lookups <$> some'
      , Lookup <$> arbitrary
      , Members <$> some'
      , RangeLookup <$> arbitrary
      , Walk <$> arbitrary <*> resize 8 arbitrary
      , Refs <$> some'
      , View' <$> some' <*> some'
      , pure Reopen
      , Fork <$> some'
      , pure Size
      ]
   where
    some' :: Arbitrary a => Gen [a]
    some' = choose (0, 20) >>= vector
  shrink command = case command of
    Inserts it -> Inserts <$> shrinkList (const []) it
    Upserts it -> Upserts <$> shrinkList (const []) it
    Apply it -> Apply <$> shrinkList (const []) it
    Walk span_ it -> Walk span_ <$> shrinkList (const []) it
    _ -> []

-- | The same in the words of the interface, and in those of maps.
ranged :: Spanned -> (Range Key, Key -> Bool)
ranged (Span which one other) = case which of
  0 -> (FromToExcluding one other, \key -> key >= one && key < other)
  1 -> (FromToIncluding one other, \key -> key >= one && key <= other)
  2 -> (From one, (>= one))
  3 -> (Before one, (< one))
  4 -> let Key prefix = one in (Prefix prefix, \(Key key) -> prefix `B.isPrefixOf` key)
  _ -> (Everything, const True)

changed :: Key -> Change -> Model -> Model
changed key change = case change of
  In value -> M.insert key value
  Out -> M.delete key
  Up value -> M.insertWith resolve key value

update :: Change -> Update Joined
update (In value) = Insert value
update Out = Delete
update (Up value) = Upsert value

batched :: Batched -> (Operation Key Joined, Model -> Model)
batched it = case it of
  Each key change -> (Update key (update change), changed key change)
  OutRange from to -> (DeleteRange from to, M.filterWithKey (\key _ -> not (key >= from && key < to)))
  OutPrefix prefix -> (DeletePrefix prefix, M.filterWithKey (\(Key key) _ -> not (prefix `B.isPrefixOf` key)))

same :: (Eq a, Show a) => String -> a -> a -> IO ()
same what expected found =
  unless (expected == found) (fail (what ++ ": expected " ++ show expected ++ ", found " ++ show found))

entry :: (Key, Joined) -> Entry Key Joined
entry (key, value) = Entry key value

-- | One step; gives the table to go on with.
step :: T.Session -> (T.Table Key Joined, Model, Int) -> Command -> IO (T.Table Key Joined, Model, Int)
step session (table, model, number) command = case command of
  Inserts pairs -> T.inserts table (V.fromList pairs) >> going (each pairs In)
  Deletes keys -> T.deletes table (V.fromList keys) >> going (foldl (flip M.delete) model keys)
  Upserts pairs -> T.upserts table (V.fromList pairs) >> going (each pairs Up)
  Updates pairs -> do
    T.updates table (V.fromList (map (fmap update) pairs))
    going (foldl (\it (key, change) -> changed key change it) model pairs)
  Apply operations -> do
    T.apply table (V.fromList (map (fst . batched) operations))
    going (foldl (\it operation -> snd (batched operation) it) model operations)
  Delete' span_ -> do
    let (range, isIn) = ranged span_
    T.deleteRange table range
    going (M.filterWithKey (\key _ -> not (isIn key)) model)
  Lookups keys -> do
    T.lookups table (V.fromList keys) >>= same "lookups" (map (`M.lookup` model) keys) . V.toList
    going model
  Lookup key -> T.lookup table key >>= same "lookup" (M.lookup key model) >> going model
  Members keys -> do
    T.members table (V.fromList keys) >>= same "members" (map (`M.member` model) keys) . V.toList
    forM_ (take 1 keys) (\key -> T.member table key >>= same "member" (M.member key model))
    going model
  RangeLookup span_ -> do
    let (range, isIn) = ranged span_
        expected = map entry (filter (isIn . fst) (M.toList model))
    T.rangeLookup table range >>= same "a range" expected . V.toList
    going model
  Walk span_ steps -> do
    let (range, isIn) = ranged span_
        here = filter (isIn . fst) (M.toList model)
    T.withCursorOn table range (\cursor -> void (foldM (walk here cursor) 0 steps))
    going model
  Refs keys -> do
    found <- T.lookupRefs table (V.fromList keys)
    same "references" (map (`M.member` model) keys) (map isJust (V.toList found))
    -- They stay, whatever becomes of the table.
    T.deletes table (V.fromList keys)
    values <- traverse (traverse T.retrieveBlob) found
    same "what they refer to" (map (`M.lookup` model) keys) (V.toList values)
    lengths <- traverse (traverse T.blobLength) found
    same "lengths" (map (fmap bytes . (`M.lookup` model)) keys) (V.toList lengths)
    T.inserts table (V.fromList [(key, value) | (key, Just value) <- zip keys (V.toList values)])
    mapM_ (mapM_ T.closeBlobRef) found
    going model
  View' keys pairs -> do
    T.withView table $ \view -> do
      T.inserts table (V.fromList pairs)
      T.viewLookups view (V.fromList keys) >>= same "a view" (map (`M.lookup` model) keys) . V.toList
      T.viewRangeLookup view Everything >>= same "all of a view" (map entry (M.toList model)) . V.toList
    going (each pairs In)
  Reopen -> do
    let name = T.SnapshotName ("at-" ++ show number)
    T.saveSnapshot name "model" table
    T.closeTable table
    T.doesSnapshotExist session name >>= same "a snapshot" True
    opened <- T.openTableFromSnapshot session name "model"
    T.deleteSnapshot session name
    T.doesSnapshotExist session name >>= same "a snapshot" False
    pure (opened, model, number + 1)
  Fork pairs -> do
    T.withDuplicate table $ \other -> do
      T.inserts other (V.fromList pairs)
      T.rangeLookup other Everything >>= same "a duplicate" (map entry (M.toList (each pairs In))) . V.toList
    T.rangeLookup table Everything >>= same "what was duplicated" (map entry (M.toList model)) . V.toList
    going model
  Size -> T.size table >>= same "a size" (fromIntegral (M.size model)) >> going model
 where
  going it = pure (table, it, number)
  each pairs how = foldl (\it (key, value) -> changed key (how value) it) model pairs
  bytes (Joined value) = fromIntegral (B.length value) :: Word64

-- | One step of a cursor; gives where it is.
walk :: [(Key, Joined)] -> T.Cursor Key Joined -> Int -> Step -> IO Int
walk here cursor at it = case it of
  Take limit -> do
    let expected = take limit (drop at here)
    T.take limit cursor >>= same "take" (map entry expected) . V.toList
    pure (at + length expected)
  TakeWhile limit key -> do
    let expected = takeWhile ((< key) . fst) (take limit (drop at here))
    T.takeWhile limit (< key) cursor >>= same "takeWhile" (map entry expected) . V.toList
    pure (at + length expected)
  Back
    | at == 0 -> T.previous cursor >>= same "previous" Nothing >> pure 0
    | otherwise -> T.previous cursor >>= same "previous" (Just (entry (here !! (at - 1)))) >> pure (at - 1)
  BackKey
    | at == 0 -> T.previousKey cursor >>= same "previousKey" Nothing >> pure 0
    | otherwise -> T.previousKey cursor >>= same "previousKey" (Just (fst (here !! (at - 1)))) >> pure (at - 1)
  Seek key -> T.seek cursor key >> pure (length (takeWhile ((< key) . fst) here))
  First -> T.seekFirst cursor >> pure 0
  Last -> T.seekLast cursor >> pure (length here)

commandsAgree :: [Command] -> Property
commandsAgree commands = ioProperty $ inMemory $ \session -> do
  table <- T.newTableWith small session
  (last_, model, _) <- foldM (step session) (table, M.empty, 0) commands
  found <- T.rangeLookup last_ Everything
  pure (V.toList found === map entry (M.toList model))

-- | Keys of several tables are joined, the leftmost as the newest.
unionsAgree :: Bool -> [(Key, Joined)] -> [[(Key, Joined)]] -> [Positive Word64] -> Property
unionsAgree isIncremental one more payments = ioProperty $ inMemory $ \session -> do
  first <- made session 0 one
  rest <- zipWithM (made session) [1 ..] more
  let models = map (foldl (\it (key, value) -> M.insertWith resolve key value it) M.empty) (one : more)
      expected = M.unionsWith resolve models
  united <- (if isIncremental then T.incrementalUnions else T.unions) (first :| rest)
  before <- T.rangeLookup united Everything
  debts <- mapM (paid united) payments
  left <- T.supplyUnionCredits united (T.UnionCredits maxBound)
  debt <- T.remainingUnionDebt united
  after <- T.rangeLookup united Everything
  inputs <- mapM (`T.rangeLookup` Everything) (first : rest)
  pure $
    conjoin
      [ V.toList before === map entry (M.toList expected)
      , V.toList after === V.toList before
      , counterexample "debts grow" (and (zipWith (>=) debts (drop 1 debts)))
      , debt === T.UnionDebt 0
      , counterexample "credits remain when all is paid" (left > T.UnionCredits 0)
      , map V.toList inputs === map (map entry . M.toList) models
      ]
 where
  made session number pairs = do
    table <- T.newTableWith small {T.tableName = show (number :: Int)} session
    T.upserts table (V.fromList pairs)
    pure table
  paid table (Positive credits) = do
    void (T.supplyUnionCredits table (T.UnionCredits (credits * 64)))
    T.remainingUnionDebt table

-- | Without a merge operator the leftmost value stays.
simpleAgrees :: [(Key, Maybe Word16)] -> [(Key, Maybe Word16)] -> Property
simpleAgrees one other = ioProperty $ inMemory $ \session -> do
  left <- Simple.newTableWith small {T.tableName = "left"} session
  right <- Simple.newTableWith small {T.tableName = "right"} session
  Simple.updates left (V.fromList one)
  Simple.updates right (V.fromList other)
  let model = foldl (\it (key, value) -> M.alter (const value) key it) M.empty
      expected = M.union (model one) (model other)
  Simple.withUnion left right $ \united -> do
    found <- Simple.rangeLookup united Everything
    taken <- Simple.withCursor united (Simple.take 1000)
    pure (conjoin [V.toList found === M.toList expected, V.toList taken === M.toList expected])

-- | Values that lie apart go into a table without a merge operator as they lie.
refsAgree :: [(Key, Joined)] -> Property
refsAgree pairs = ioProperty $ inMemory $ \session -> do
  table <- Simple.newTableWith small session
  other <- Simple.newTableWith small {T.tableName = "other"} session
  Simple.inserts table (V.fromList pairs)
  let model = M.fromList pairs
      keys = V.fromList (M.keys model)
  found <- T.lookupRefs table keys
  T.apply other (V.fromList [InsertRef key it | (key, Just it) <- zip (V.toList keys) (V.toList found)])
  Simple.closeTable table
  copied <- Simple.rangeLookup other Everything
  pure (V.toList copied === M.toList model)

-- | The engine's own operators say what 'resolve' says.
builtInsAgree :: (Ord v, Show v, ResolveValue v) => [(Key, v)] -> Property
builtInsAgree pairs = ioProperty $ inMemory $ \session -> do
  table <- T.newTableWith small session
  mapM_ (uncurry (T.upsert table)) pairs
  found <- T.rangeLookup table Everything
  let model = foldl (\it (key, value) -> M.insertWith resolve key value it) M.empty pairs
  pure (V.toList found === map (uncurry Entry) (M.toList model))

-- | All of several tables or nothing.
allAgree :: [(Key, Joined)] -> [(Key, Change)] -> Property
allAgree one other = ioProperty $ inMemory $ \session -> do
  left <- T.newTableWith small {T.tableName = "left"} session
  right <- T.newTableWith small {T.tableName = "right"} session
  T.applyAll
    session
    [ T.TableUpdate left (V.fromList [Update key (Insert value) | (key, value) <- one])
    , T.TableUpdate right (V.fromList [Update key (update change) | (key, change) <- other])
    ]
  found <- mapM (`T.rangeLookup` Everything) [left, right]
  let models = [M.fromList one, foldl (\it (key, change) -> changed key change it) M.empty other]
  pure (map V.toList found === map (map entry . M.toList) models)

loadsAgree :: Bool -> [(Key, Joined)] -> Property
loadsAgree isSorted pairs = ioProperty $ inMemory $ \session -> do
  let distinct = M.toList (M.fromList pairs)
      order = if isSorted then T.Ascending else T.AnyOrder 65536
      given = if isSorted then distinct else sortOn (serialiseValue . snd) distinct
  table <- T.loadTable small order session $ \push -> do
    push (V.fromList (take 3 given))
    push (V.fromList (drop 3 given))
  found <- T.rangeLookup table Everything
  pure (V.toList found === map entry distinct)

laws :: TestTree
laws =
  testGroup
    "laws of serialising"
    [ testProperty "Word64" (\one other -> T.keyRoundTrips (one :: Word64) && T.keyPreservesOrder one other)
    , testProperty "Word32" (\one other -> T.keyRoundTrips (one :: Word32) && T.keyPreservesOrder one other)
    , testProperty "Word16" (\one other -> T.keyRoundTrips (one :: Word16) && T.keyPreservesOrder one other)
    , testProperty "values" (\it -> T.valueRoundTrips (it :: Word64) && T.valueRoundTrips (T.Sum64 it))
    , testProperty "joining" (\one two three -> T.resolveIsAssociative (one :: Joined) two three && T.resolveAgrees one two)
    , testProperty "sums" (((\one two three -> T.resolveIsAssociative one two three && T.resolveAgrees one two) `on'`) T.Sum64)
    ]
 where
  on' law wrap one two three = law (wrap one) (wrap two) (wrap three)

tests :: TestTree
tests =
  testGroup
    "properties"
    [ testProperty "any operations" (withMaxSuccess 300 commandsAgree)
    , testProperty "unions" (withMaxSuccess 100 (unionsAgree False))
    , testProperty "incremental unions" (withMaxSuccess 100 (unionsAgree True))
    , testProperty "simple tables" (withMaxSuccess 100 simpleAgrees)
    , testProperty "sums of the engine's" (\pairs -> builtInsAgree (map (fmap T.Sum64) pairs))
    , testProperty "appending by the engine" (\pairs -> builtInsAgree (map (fmap (\(Joined it) -> Appended it)) pairs))
    , testProperty "the greatest of the engine's" (\pairs -> builtInsAgree (map (fmap (\(Joined it) -> T.Greatest it)) pairs))
    , testProperty "values that lie apart" refsAgree
    , testProperty "several tables at once" allAgree
    , testProperty "loading in order" (loadsAgree True)
    , testProperty "loading in any order" (loadsAgree False)
    , laws
    ]
