(** A context of maps and lists in memory, written from the specification of Tezos' context and of its hashes, with nothing
    of varvite's engine in it: what other implementations are compared with. It is short and slow.

    A folder that {!init} is given is not looked at. *)

include Context_sigs.S

(** The bucket of a name in a large directory, of 32, at a depth of its pieces. *)
val bucket : depth:int -> string -> int
