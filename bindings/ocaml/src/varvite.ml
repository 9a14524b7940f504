(** An embeddable storage engine for blockchain ledger state: {!Table} and {!Context}. See the README. *)

include Errors
module Hash = Hash
module Disk = Disk
module Cache = Cache
module Table = Table
module Context_sigs = Context_sigs
module Context = Context
module Duo = Duo
module Reference = Reference
module Blake2b = Blake2b
