(* The operations of a context as the shells and protocols of Tezos know them, in the same words and the same order of
   arguments. What differs: answers come directly and not as promises, hashes are {!Hash.t}, and what fails raises
   {!Errors.Error}. *)

(** Depths of a fold, 0 being where it begins. *)
type depth = [ `Eq of int | `Le of int | `Lt of int | `Ge of int | `Gt of int ]

module type VIEW = sig
  type t
  type key = string list
  type value = bytes
  type tree

  (** Whether a value is at the key: [false] for a directory, and for nothing. *)
  val mem : t -> key -> bool

  (** Whether anything is at the key, a value or a directory. *)
  val mem_tree : t -> key -> bool

  (** The value at the key; [None] for a directory, and for nothing. *)
  val find : t -> key -> value option

  (** What is at the key as a tree, which may be a value. All of it for [[]]. *)
  val find_tree : t -> key -> tree option

  (** The children of the directory at the key, after the first [offset] and at most [length], by name in directories of
      up to 256 entries and by bucket in larger ones. None for a value or nothing. *)
  val list : t -> ?offset:int -> ?length:int -> key -> (string * tree) list

  (** How many children the directory at the key has; 0 for a value or nothing. Reads no child. *)
  val length : t -> key -> int

  (** Binds the value at the key. A directory there is replaced, and so is a value on the way, by a directory. *)
  val add : t -> key -> value -> t

  (** Binds a tree at the key, sharing it. An empty one removes what is there. *)
  val add_tree : t -> key -> tree -> t

  (** Removes what is at the key, and the directories above that become empty with it. *)
  val remove : t -> key -> t

  (** Calls [f] with the key from the given one on and what is there, a directory before its children. Nothing happens for
      a value or nothing. *)
  val fold :
    ?depth:depth -> t -> key -> order:[ `Sorted | `Undefined ] -> init:'a -> f:(key -> tree -> 'a -> 'a) -> 'a
end

module Kind = struct
  type t = [ `Value | `Tree ]
end

module type TREE = sig
  (** A context that trees are of. *)
  type t

  (** Trees never change: what changes one gives another. *)
  type tree

  include VIEW with type t := tree and type tree := tree

  val empty : t -> tree

  (** A value is never empty. *)
  val is_empty : tree -> bool

  val kind : tree -> Kind.t
  val to_value : tree -> value option
  val of_value : t -> value -> tree
  val hash : tree -> Hash.t

  (** By hash and kind. *)
  val equal : tree -> tree -> bool

  (** Gives back memory of what is deeper than [depth]. *)
  val clear : ?depth:int -> tree -> unit

  val pp : Format.formatter -> tree -> unit

  type raw = [ `Value of bytes | `Tree of (string * raw) list ]

  (** All of it, children by name. *)
  val to_raw : tree -> raw

  val of_raw : t -> raw -> tree
end

module type S = sig
  (** A store. *)
  type index

  (** A state of a context, on top of the commit that it was checked out from. *)
  type t

  type tree

  include VIEW with type t := t and type tree := tree

  module Tree : sig
    include TREE with type t := t and type tree := tree and type key := key and type value := value
  end

  (** Opens the store in a folder, or makes one in a folder that is empty or missing. *)
  val init : ?readonly:bool -> string -> index

  (** Closing again does nothing. *)
  val close : index -> unit

  (** Sees what another process committed. *)
  val sync : index -> unit

  val index : t -> index
  val empty : index -> t
  val is_empty : t -> bool
  val exists : index -> Hash.t -> bool
  val checkout : index -> Hash.t -> t option
  val checkout_exn : index -> Hash.t -> t

  (** The hash that {!commit} would give. *)
  val hash : time:int64 -> ?message:string -> t -> Hash.t

  (** The author is ["Tezos"], the parent the commit that the context was checked out from. *)
  val commit : time:int64 -> ?message:string -> t -> Hash.t
end

module type PROOF = sig
  type index
  type tree

  (** What a proof begins or ends with. *)
  type kinded_hash = [ `Value of Hash.t | `Node of Hash.t ]

  module Proof : sig
    type t
    type encoding = [ `V1 | `V2 | `Irmin | `Json ]

    val before : t -> kinded_hash
    val after : t -> kinded_hash
    val is_stream : t -> bool

    (** [`V1] and [`V2] are the encodings of Octez. *)
    val encode : t -> encoding -> string

    (** Nothing is hashed yet: verifying does that. *)
    val decode : encoding -> string -> t

    val close : t -> unit
  end

  (** Runs the function on the tree and proves what it looked at. Trees that it was given are of no use afterwards. *)
  val produce_tree_proof : index -> tree -> (tree -> tree * 'a) -> Proof.t * 'a

  val produce_stream_proof : index -> tree -> (tree -> tree * 'a) -> Proof.t * 'a

  (** Runs the function on what the proof shows. [root] is what is trusted, by default what the proof says it begins
      with: compare that with a hash that you know. A read in the function gives what the whole tree would give, or
      raises [Error (Hidden, _)]. *)
  val verify_tree_proof :
    ?root:kinded_hash -> Proof.t -> (tree -> tree * 'a) -> (tree * 'a, [ `Proof_mismatch of string ]) result

  val verify_stream_proof :
    ?root:kinded_hash -> Proof.t -> (tree -> tree * 'a) -> (tree * 'a, [ `Proof_mismatch of string ]) result
end
