(** Lists of any length: those of the standard library take a frame of the stack for each element, before OCaml 5.1. *)

val map : ('a -> 'b) -> 'a list -> 'b list
val map2 : ('a -> 'b -> 'c) -> 'a list -> 'b list -> 'c list
val of_array : ('a -> 'b) -> 'a array -> 'b list
