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
  ?lower:Disk.t ->
  ?seed:int ->
  ?configuration:configuration ->
  ?cache:Cache.t ->
  'a

(** Makes a store in an empty folder and opens it. *)
val create : (Disk.t -> index) with_options

val open_ : (Disk.t -> index) with_options

(** Opens the store that is there, or makes one: for programs that do not care whether they are the first to run. *)
val open_or_create : (Disk.t -> index) with_options

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

(** {2 What a store keeps} *)

(** Begins a collection: commits that the store took before this one go, but for those that branches name and those that
    are pinned. {!collect_step} does the work. [Invalid] while one is under way. *)
val collect : index -> Hash.t -> unit

(** The same, keeping the newest, so many, or those since a moment in seconds since 1970. [false] while one is under way,
    and when nothing would go: a node calls it after each block. *)
val collect_keeping : index -> [ `Newest of int | `Since of int64 ] -> bool

(** Does work of about so many KiB read or written; whether some is left. *)
val collect_step : index -> credits:int -> bool

type collect_status = {
  phase : [ `None | `Marking | `Cleaning ];
  is_paused : bool;
  target : Hash.t option;
  chunks_left : int;
  left_bytes : int;
  reclaimed_bytes : int;
  collections : int;
}

val collect_status : index -> collect_status

(** Lets steps do nothing until {!collect_resume}, also of whoever opens the store later. *)
val collect_pause : index -> unit

val collect_resume : index -> unit

(** Whether one was under way. What is collected stays so. *)
val collect_cancel : index -> bool

(** Keeps a commit, and all of its tree, through every collection until it is unpinned. *)
val pin : index -> Hash.t -> unit

(** Whether it was pinned. *)
val unpin : index -> Hash.t -> bool

(** Pins every n-th commit that goes with no collection; says how many were not pinned before. *)
val pin_every : index -> int -> int

val pins : index -> Hash.t list

(** Moves whole chunks with commits before this one to the [lower] disk that the store was opened with, the oldest first;
    says how many. *)
val archive : ?most:int -> index -> Hash.t -> int

(** Moves them back. *)
val unarchive : ?most:int -> index -> int

(** Takes chunks that a collection took, and another copy of the store has on the lower disk; says how many. *)
val attach : index -> int

val archived_bytes : index -> int

(** A file of commits. Its [hash] is the same for the same commits, whoever wrote it, and however it is compressed. *)
type commit_file = { commit : Hash.t; hash : Hash.t; commits : int; stream_bytes : int; bytes : int }

(** Writes commits, all of which one descends from through others of them, as a file of a disk. *)
val export_commits : ?zstd_level:int -> index -> Hash.t list -> Disk.t -> string -> commit_file

(** Takes a file's commits over. Everything is verified before any of it is there. *)
val import_commit : index -> Disk.t -> string -> commit_file

(** Verifies every hash of a file, without a store. *)
val verify_commit : Disk.t -> string -> commit_file

(** A store of a file's commits, on an empty disk. [Invalid] when the file has another configuration than Tezos', for which
    nothing in it vouches: then create the store with it and [import_commit]. *)
val create_from_commit : Disk.t -> source:Disk.t -> string -> index

(** What a store has, for threads that read while it commits: they see each commit when its call has returned. *)
module Reader : sig
  type t

  val checkout : t -> Hash.t -> tree option
  val branch : t -> string -> Hash.t option
  val last_commit : t -> Hash.t option
  val close : t -> unit
end

val reader : index -> Reader.t

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

(** {2 Proofs} *)

(** As {!Proof.decode}, which is for trees of {!tezos}, for a proof of trees of another configuration: its bytes do not say
    which. A proof that {!produce_tree_proof} made knows that of its store. *)
val decode_proof : configuration -> Proof.encoding -> string -> Proof.t
