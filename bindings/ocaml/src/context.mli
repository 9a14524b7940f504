(** A versioned Merkle tree with the hashes of Tezos: the operations of {!Context_sigs.S}, and what varvite has beside
    them. *)

type configuration = {
  entries : int;  (** The branching factor of large directories. *)
  stable_hash : int;  (** The most entries of a directory that is hashed flat. *)
  child_order : int;  (** 0: a seeded hash of the name; 1: bits of its digest. *)
}

(** That of Tezos: 32, 256, 0. *)
val tezos : configuration

(** That of Tezos' binary context: 2, 2, 1. *)
val tezos_binary : configuration

include Context_sigs.S
include Context_sigs.PROOF with type index := index and type tree := tree

(** {2 Stores} *)

type 'a with_options :=
  ?indexing:[ `Minimal | `Always ] ->
  ?durability:[ `Synced | `Written ] ->
  ?objects_bytes:int ->
  ?hashes_bytes:int ->
  ?pages_bytes:int ->
  ?index_bytes:int ->
  ?tree_bytes:int ->
  ?chunk_bytes:int ->
  ?max_open_files:int ->
  ?seed:int ->
  ?configuration:configuration ->
  ?cache:Cache.t ->
  'a

(** Makes a store in an empty folder and opens it. *)
val create : (Disk.t -> index) with_options

val open_ : (Disk.t -> index) with_options

(** Opens a store to read while another process may write to it: as of now, until {!sync}. *)
val open_read_only : (Disk.t -> index) with_options

(** The store of a Tezos node, to read. *)
val open_irmin : Disk.t -> index

val is_irmin : Disk.t -> bool

type exported = { commits : int; objects : int; bytes : int; branches : int }

(** Writes every commit, with the branches, as a store of Irmin to an empty disk. [scratch] is another, whose content is of
    no use afterwards. *)
val export_irmin : index -> scratch:Disk.t -> Disk.t -> exported

val configuration : index -> configuration

type info = { tree_hash : Hash.t; parents : Hash.t list; time : int64; author : string; message : string }

(** [None] for a commit that is not there. *)
val commit_info : index -> Hash.t -> info option

(** A commit with any author and any parents. *)
val commit_with : index -> parents:Hash.t list -> time:int64 -> author:string -> message:string -> tree -> Hash.t

val last_commit : index -> Hash.t option

(** The commits, newest first. *)
val log : index -> int -> Hash.t list

(** The commits that the heads descend from, children before their parents. *)
val history : index -> Hash.t list -> int -> Hash.t list

val branch : index -> string -> Hash.t option
val branches : index -> (string * Hash.t) list
val set_branch : index -> string -> Hash.t -> unit
val test_and_set_branch : index -> string -> expected:Hash.t option -> Hash.t -> bool
val remove_branch : index -> string -> unit

(** Recomputes every hash: commits, pieces of directories, values, and sentences on what can be made again. *)
val check : index -> int * int * int * string list

val checkpoint : index -> unit

(** Takes a checkpoint if one is due, for the time between two commits. *)
val maintain : index -> bool

(** Ends the last chunk of the pack. *)
val split : index -> unit

(** Removes everything. *)
val clear_store : index -> unit

val rebuild_index : index -> unit

type stats = {
  commits : int;
  objects : int;
  pack_bytes : int;
  index_bytes : int;
  written_bytes : int;
  syncs : int;
  index_syncs : int;
  objects_bytes : int;
  chunks : int;
  epoch : int;
  generation : int;
}

val stats : index -> stats

(** {2 Trees} *)

(** All of a context. *)
val tree_of : t -> tree

(** The values at several keys: one call for all. *)
val find_many : t -> key array -> value option array

(** Every value that two trees do not have alike: [None] where one has nothing. *)
val diff : tree -> tree -> f:(key -> value option -> value option -> unit) -> unit

(** An empty tree without a store, for what checks proofs. *)
val free_tree : ?configuration:configuration -> unit -> tree

(** Ends a tree early, which else the collector does. *)
val close_tree : tree -> unit
