-- | A versioned Merkle tree with the hashes of Tezos. Meant to be imported qualified.
--
-- > import qualified Database.Varvite.Context as Context
--
-- A 'Tree' is a state that is changed in place; 'duplicateTree' makes another, independent one in O(1). Trees of commits are
-- loaded as they are looked at.
module Database.Varvite.Context
  ( module Database.Varvite.Error

    -- * Stores
  , Store
  , StoreConfig (..)
  , Indexing (..)
  , Configuration (..)
  , tezos
  , tezosBinary
  , defaultStoreConfig
  , withStore
  , openStore
  , newStore
  , restoreStore
  , openStoreReadOnly
  , openIrmin
  , isIrmin
  , closeStore
  , reload
  , checkpoint
  , maintain
  , beginChunk
  , rebuildIndex
  , clearStore
  , checkStore
  , Checked (..)
  , StoreStats (..)
  , storeStats
  , storeWarnings

    -- * Hashes
  , Hash
  , hashBytes
  , hashFromBytes
  , hashText
  , parseHash

    -- * Commits
  , Info (..)
  , commit
  , commitHash
  , checkout
  , withCheckout
  , exists
  , Commit (..)
  , commitInfo
  , lastCommit
  , commits
  , history
  , commonAncestors

    -- * Branches
  , branch
  , branches
  , setBranch
  , testAndSetBranch
  , removeBranch

    -- * What a store keeps
  , collect
  , Keep (..)
  , collectKeeping
  , collectStep
  , CollectPhase (..)
  , CollectStatus (..)
  , collectStatus
  , pauseCollecting
  , resumeCollecting
  , cancelCollecting
  , pin
  , unpin
  , pinEvery
  , pins
  , archive
  , unarchive
  , attach
  , archivedBytes

    -- * Files of commits
  , CommitFile (..)
  , exportCommits
  , importCommit
  , verifyCommit
  , newStoreFromCommit

    -- * Readers
  , Reader
  , newReader
  , readerTree
  , readerHead
  , readerNewest
  , closeReader

    -- * Trees
  , Tree
  , Path
  , emptyTree
  , freeTree
  , valueTree
  , duplicateTree
  , closeTree
  , withTree
  , find
  , findMany
  , mem
  , memTree
  , findTree
  , length
  , list
  , TreeKind (..)
  , kind
  , isEmpty
  , add
  , addTree
  , remove
  , hash
  , equal
  , clear
  , Depth (..)
  , Order (..)
  , fold
  , diff

    -- * Proofs
  , Proof
  , ProofShape (..)
  , Encoding (..)
  , Root (..)
  , produceProof
  , verifyProof
  , openProof
  , encodeProof
  , decodeProof
  , proofRoots
  , isStream
  , closeProof
  ) where

import Database.Varvite.Error
import Database.Varvite.Internal.Hash
import Database.Varvite.Internal.Keeping hiding (toldFile)
import Database.Varvite.Internal.Proof
import Database.Varvite.Internal.Store
import Database.Varvite.Internal.Tree
import Prelude ()
