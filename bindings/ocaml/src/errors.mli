(** What went wrong, by what the program can do about it. *)
type kind =
  | Io  (** The disk refused or failed: free space, fix permissions or the device, then try again. *)
  | Corrupt  (** Bytes on disk are not what was written: restore from a snapshot or another copy. *)
  | Version  (** A newer release wrote the file: use that release. *)
  | Locked  (** Another process, or another handle, has it: close that first. *)
  | Missing  (** What was named does not exist. *)
  | Exists  (** What was to be created exists already. *)
  | Invalid  (** The call itself is wrong: fix its arguments. *)
  | Closed  (** The handle was closed, or belongs to the process that forked: open it again. *)
  | Poisoned  (** A sync or a rollback failed earlier, so writing has stopped: reopen the store. *)
  | Hidden  (** A proof does not show what was looked at: ask for one that does. *)
  | Collected  (** A collection took it, as it was told to: ask a store that keeps older commits. *)
  | Callback  (** A merge operator raised; the sentence says what. Nothing was changed. *)
  | Panic  (** A fault of the library's own: report it, and close the handle. *)
  | Busy  (** Somebody else has what the call needs, and to wait could be for ever: return from the callback, or end the
              transaction that is open, then try again. *)
  | Unknown  (** A kind that a later release added. *)

(** Every operation raises this and nothing else, but for [Invalid_argument] where a name has a NUL or two threads step
    one cursor, and for what a function of the program's raised. The sentence names file and place, what was expected,
    and the next step. *)
exception Error of kind * string

(** The kind as the C face and the program [varvite] name it. *)
val kind_name : kind -> string
