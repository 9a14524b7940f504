-- | What goes wrong: one exception with a kind, which says what to do about it, and a sentence for people.
module Database.Varvite.Error
  ( VarviteError (..)
  , Kind (..)
  , kindOf
  , isKind
  ) where

import Control.Exception (Exception (..))

-- | What the caller can do about an error.
data Kind
  = -- | Free space, fix permissions or the device, then try again.
    Io
  | -- | Restore from a snapshot or another copy.
    Corrupt
  | -- | Use the newer release that wrote the file.
    Version
  | -- | Close the other process, or the other handle.
    Locked
  | -- | It does not exist: name another.
    Missing
  | -- | It exists already: name another.
    Exists
  | -- | Fix the arguments.
    Invalid
  | -- | Open the handle again.
    Closed
  | -- | A sync failed: reopen the store.
    Poisoned
  | -- | Ask for a proof that shows more.
    Hidden
  | -- | A collection took it: ask a store that keeps older commits.
    Collected
  | -- | A merge operator raised; the sentence says what, and nothing was changed.
    Callback
  | -- | Report it; the fault is the library's.
    Panic
  | -- | Return from the callback, then try again.
    Busy
  | -- | A kind that a later release added.
    Unknown !Int
  deriving (Eq, Ord, Show)

-- | Whatever fails throws this. The sentence names file and place, what was expected, and the next step.
data VarviteError = VarviteError
  { errorKind :: !Kind
  , errorSentence :: !String
  }
  deriving (Eq, Show)

instance Exception VarviteError where
  displayException (VarviteError kind sentence) = show kind ++ ": " ++ sentence

-- | Of the numbers of the header.
kindOf :: Int -> Kind
kindOf status = case status of
  1 -> Io
  2 -> Corrupt
  3 -> Version
  4 -> Locked
  5 -> Missing
  6 -> Exists
  7 -> Invalid
  8 -> Closed
  9 -> Poisoned
  10 -> Hidden
  11 -> Collected
  100 -> Callback
  101 -> Panic
  102 -> Busy
  other -> Unknown other

-- | For 'Control.Exception.catchJust' and 'Control.Exception.tryJust': the sentence of an error of this kind.
isKind :: Kind -> VarviteError -> Maybe String
isKind kind (VarviteError found sentence)
  | kind == found = Just sentence
  | otherwise = Nothing
