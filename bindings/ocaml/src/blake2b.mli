(** BLAKE2b without a key, in OCaml alone: for {!Reference}. *)

(** The digest of a text, of [size] bytes: 32 unless it says otherwise. *)
val digest : ?size:int -> string -> string
