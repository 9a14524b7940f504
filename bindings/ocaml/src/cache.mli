(** Memory for pages that sessions and stores share. *)

type t = Cache of Raw.handle [@@unboxed]

type stats = { hits : int; misses : int; evictions : int; pages : int; bytes : int; charged_bytes : int }

(** Of at most so many bytes. *)
val create : int -> t

val stats : t -> stats
val close : t -> unit
