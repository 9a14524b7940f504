(** Hashes of a context: BLAKE2b-256, 32 bytes. *)

type t

val of_string : string -> t option
val of_string_exn : string -> t
val to_string : t -> string

(** As people see it, [Co…], 52 characters. *)
val to_b58check : t -> string

(** From that text, or from 64 hexadecimal digits. *)
val of_b58check : string -> t option

val of_b58check_exn : string -> t
val to_hex : t -> string
val equal : t -> t -> bool
val compare : t -> t -> int
val hash : t -> int
val pp : Format.formatter -> t -> unit
