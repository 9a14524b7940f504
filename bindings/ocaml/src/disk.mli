(** Where files are. *)

type t = Disk of Raw.handle [@@unboxed]

(** A folder, which is made with those above it unless [create] is [false]. *)
val folder : ?create:bool -> string -> t

(** Memory, gone with its last user. What is drawn at random follows from [seed]. *)
val memory : ?seed:int -> unit -> t

(** Sessions and stores on it stay open. *)
val close : t -> unit
