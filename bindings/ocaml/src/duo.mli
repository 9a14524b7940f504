(** Two implementations of a context side by side: every call goes to both, every answer and hash is compared, and every
    call is timed. At the first difference it stops. *)

(** What the two did not do alike. *)
type difference = {
  call : int;  (** How many calls were made before it. *)
  operation : string;
  key : string list;  (** Of the call; [[]] where it has none. *)
  a : string;  (** What the first answered. *)
  b : string;  (** What the second answered. *)
  before : string list;  (** The last calls, the newest first. *)
}

(** By the call that saw the difference, and by every later one of the same pair. That both raise is no difference, unless
    both raise {!Errors.Error} with two kinds. [Sys.Break], [Out_of_memory] and [Stack_overflow] are nobody's answer: they
    leave the call, and the pair goes on. *)
exception Difference of difference

val pp_difference : Format.formatter -> difference -> unit

(** What one operation below one prefix took, in seconds of the clock. *)
type timing = {
  operation : string;
  prefix : string list;
  calls : int;
  a_total : float;
  a_max : float;
  b_total : float;
  b_max : float;
}

(** What a pair of implementations has beside what each has. *)
module type PAIR = sig
  include Context_sigs.S

  type index_a
  type index_b

  (** Makes a pair of two stores. After each [hash_every]th change (1 by default; 0 for never) the hashes of what the two
      have then are compared. Timings are told apart by the first [prefix_steps] steps of the key (2 by default). [clock]
      gives seconds. {!init} opens one below the folder for each, [a] and [b], and makes a pair of them. *)
  val couple : ?hash_every:int -> ?prefix_steps:int -> ?clock:(unit -> float) -> index_a -> index_b -> index

  (** What took most of the first one's time comes first. *)
  val timings : index -> timing list

  val pp_timings : Format.formatter -> index -> unit

  (** How many calls were made. *)
  val calls : index -> int

  (** The difference at which it stopped. *)
  val stopped : index -> difference option
end

module Make (A : Context_sigs.S) (B : Context_sigs.S) : PAIR with type index_a := A.index and type index_b := B.index

(** An implementation that makes and checks proofs too. *)
module type PROVER = sig
  include Context_sigs.S
  include Context_sigs.PROOF with type index := index and type tree := tree
end

(** The same with proofs: their bytes are compared, and what each makes of a proof. The function that is proven runs once,
    within both, so they are not timed. *)
module Make_with_proofs (A : PROVER) (B : PROVER) : sig
  include PAIR with type index_a := A.index and type index_b := B.index
  include Context_sigs.PROOF with type index := index and type tree := tree
end
