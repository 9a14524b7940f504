(** Tables: one logical map from keys to values each, in a session, which is a folder.

    Keys and values are strings of any bytes. Every operation may raise {!Errors.Error}. Handles are closed by their
    [close], or by the collector some time after nothing leads to them; a handle that was closed gives [Closed]. Any
    thread may use any handle. A number that cannot be is [Invalid_argument]. *)

(** How upserts join older values. *)
module Operator : sig
  type t

  (** Called [name] in what is stored: give it again where a table that has it is opened. The function gets the older
      value, then the newer one. It must be associative and give the same answer for the same values; it may be called on
      any thread that uses the library, and every call of the library is refused in it. When it raises, the update or
      the lookup that needed it raises [Error (Callback, _)], and nothing is changed. *)
  val make : name:string -> (string -> string -> string) -> t

  val add_u64 : unit -> t
  val max : unit -> t
  val append : unit -> t
  val close : t -> unit
end

(** A value that was found and not read yet. *)
module Value : sig
  type t

  type bigstring = (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t

  val length : t -> int

  (** Fills the buffer with the bytes from [offset] on, without another copy, and says how many there were. *)
  val read_at : t -> offset:int -> bigstring -> int

  val close : t -> unit
end

(** One operation of a batch. *)
type operation =
  | Insert of string * string  (** Binds the key to the value, whatever was there. *)
  | Delete of string  (** Unbinds the key. *)
  | Upsert of string * string  (** Joins the value to what the key is bound to, by the table's merge operator. *)
  | Insert_value of string * Value.t  (** Binds the key to a value that is stored already. *)
  | Delete_range of string * string
      (** Unbinds every key from the first on and before the second; keys that later operations bind in it stay. *)
  | Delete_prefix of string  (** The same of every key that begins with this. *)

(** Where a range of keys begins or ends. *)
type bound = Unbounded | Included of string | Excluded of string

(** A place between the keys of a table. One thread at a time steps it; another gets [Invalid_argument]. *)
module Cursor : sig
  type t

  (** The next binding, which is passed; [None] at the upper bound. *)
  val next : t -> (string * string) option

  (** The binding before, which is passed; [None] at the lower bound. *)
  val previous : t -> (string * string) option

  (** Without reading values in blob files. *)
  val next_key : t -> string option

  val previous_key : t -> string option

  (** The value of the key that the last step gave. *)
  val value : t -> string option

  (** Up to [limit] bindings from here on, which are passed. None only at the upper bound. *)
  val next_many : t -> int -> (string * string) array

  (** Before the first key that is this one or greater. *)
  val seek : t -> string -> unit

  val seek_first : t -> unit
  val seek_last : t -> unit
  val close : t -> unit
end

(** What goes through a range from both ends, which meet. An error is the last that it gives: what comes before it is given
    first. *)
module type ENDS = sig
  type t
  type item

  (** The least that is left. *)
  val next : t -> item option

  (** The greatest that is left. *)
  val next_back : t -> item option

  (** Up to so many, the least first. None only where the two ends meet. *)
  val next_many : t -> int -> item array

  (** Up to so many, the greatest first. *)
  val next_many_back : t -> int -> item array

  (** What is left, the least first, to be gone through once; it is closed at the end. *)
  val to_seq : t -> item Seq.t

  val close : t -> unit
end

(** Bindings. *)
module Iterator : ENDS with type item = string * string

(** Keys alone: values are not read. *)
module Keys : ENDS with type item = string

(** What reads keys. *)
module type READS = sig
  type t

  (** The value of one key. Several are cheaper together. *)
  val get : t -> string -> string option

  (** The values of the keys, in their order. All page reads of the batch are in flight together. *)
  val lookups : t -> string array -> string option array

  (** Every binding between the bounds, in key order, all in memory at once. *)
  val range : ?lower:bound -> ?upper:bound -> t -> (string * string) array

  (** As {!lookups}, without reading values that are in blob files. *)
  val find : t -> string array -> Value.t option array

  val cursor : ?lower:bound -> ?upper:bound -> t -> Cursor.t

  (** What is between the bounds, or begins with the prefix, as it is now. Reads nothing yet. *)
  val iterate : ?lower:bound -> ?upper:bound -> ?prefix:string -> t -> Iterator.t

  val iterate_keys : ?lower:bound -> ?upper:bound -> ?prefix:string -> t -> Keys.t
  val close : t -> unit
end

(** A table's content at one moment, for readers that never wait for the writer. *)
module View : sig
  include READS

  (** How many keys are bound, exactly. Reads every page. *)
  val count : t -> int
end

type t

type stats = {
  logical_entries : int;
  logical_entries_min : int;
  logical_entries_max : int;
  physical_entries : int;
  disk_bytes : int;
  blob_files : int;
  blob_disk_bytes : int;
  buffer_bytes : int;
  filter_memory_bytes : int;
  index_memory_bytes : int;
  debt_bytes : int;
  union_debt_bytes : int;
  levels : int;
}

include READS with type t := t

(** Applies the operations in order, all or none of them. After an error the table is as it was. *)
val apply : t -> operation array -> unit

val insert : t -> string -> string -> unit
val delete : t -> string -> unit
val upsert : t -> string -> string -> unit

(** Unbinds every key between the bounds, all or none of them. *)
val delete_range : ?lower:bound -> ?upper:bound -> t -> unit

(** The content of this moment. O(1). *)
val view : t -> View.t

(** A table with the same content, independent from now on. O(1). *)
val duplicate : t -> name:string -> t

val name : t -> string
val operator_name : t -> string option

(** Whether the session's log has its updates. *)
val is_live : t -> bool

(** Works ahead on merges by up to [credits] bytes of entries; says how much is left. *)
val work : t -> credits:int -> int

val last_work : t -> int
val remaining_union_debt : t -> int

(** Merges at least so many bytes of the union that the table is; says how much is left to do. *)
val supply_union_credits : t -> int -> int

val stats : t -> stats

(** A table that is loaded whole from a stream. *)
module Loader : sig
  type table := t
  type t

  val push : t -> (string * string) array -> unit
  val count : t -> int
  val finish : t -> table
  val close : t -> unit
end

(** A value that comes in pieces. *)
module Writer : sig
  type t

  val write : t -> string -> unit
  val finish : t -> Value.t
  val close : t -> unit
end

(** A state of tables with a name of its own, durable. *)
module Snapshot : sig
  type table := t
  type t

  val label : t -> string
  val payload : t -> string

  (** The names of the tables that were not taken yet. *)
  val tables : t -> string list

  (** Takes a table out. It can be updated; the snapshot stays as it is. *)
  val take : t -> string -> table

  val close : t -> unit
end

(** The live tables of a session that another process writes: all as they were at one moment, until [reload]. *)
module Follower : sig
  type t

  (** Goes on to what the log has now; whether that is another moment than before. Views that were taken stay as they
      are. After an error the tables are as they were, and it may be tried again. *)
  val reload : t -> bool

  val tables : t -> string list
  val view : t -> string -> View.t
  val close : t -> unit
end

(** An update in the making of shared tables, by the only one who writes: it reads what it wrote, and stands with [commit],
    all of it or nothing. Rolled back, or forgotten, it leaves the tables as they were: the collector rolls back one that
    nothing leads to when it finds it. Any thread may use it, one at a time. *)
module Transaction : sig
  type t

  (** Adds operations to those of a table, by its name. *)
  val apply : t -> string -> operation array -> unit

  (** With what the transaction wrote. *)
  val get : t -> string -> string -> string option

  val lookups : t -> string -> string array -> string option array

  (** The table with what the transaction wrote so far; what it writes later is not in it. *)
  val view : t -> string -> View.t

  (** It is over then, also after an error. *)
  val commit : t -> unit

  val rollback : t -> unit
end

(** Tables of a session behind one handle: any number of threads read, one at a time writes, and readers never wait. *)
module Shared : sig
  type table := t
  type t

  val names : t -> string list

  (** What a table has after the last update that stands. *)
  val view : t -> string -> View.t

  (** The same of several, by name, all at one moment. *)
  val views : t -> string list -> View.t list

  val get : t -> string -> string -> string option
  val lookups : t -> string -> string array -> string option array

  (** Applies a batch to each of several tables, all of them or none, also through a crash. Waits while others write. *)
  val commit : t -> (string * operation array) array -> unit

  (** Begins a transaction. Waits while others write, as do the other calls here that write; see {!set_patience}. *)
  val begin_ : t -> Transaction.t

  (** [None] while others write. *)
  val try_begin : t -> Transaction.t option

  (** A transaction around the function: committed when it answers, rolled back when it raises. *)
  val transaction : t -> (Transaction.t -> 'a) -> 'a

  (** How many milliseconds who waits for a transaction has patience while nothing is done through it, before that is
      [Error (Busy, _)]: it may be the caller's own. 10,000 unless it is said otherwise, [Some 0] for none at all, [None] for
      as long as it takes. Before the error the collector looks for a transaction that nothing leads to, but where there is no
      patience at all. *)
  val set_patience : t -> int option -> unit

  val work : t -> credits:int -> int

  (** Adds a table, whose own handle is closed then; after an error it is open as before. *)
  val add : t -> table -> unit

  (** Takes a table out, by its name. *)
  val remove : t -> string -> table

  (** Saves all of the tables as they are between two updates. *)
  val save_snapshot : ?label:string -> ?payload:string -> t -> string -> unit

  val close : t -> unit
end

(** A reading of everything that a session keeps, a part at a time, beside whoever uses it. *)
module Scrub : sig
  type t

  (** Reads on, about so many pages of 4 KiB; says how many are left, 0 at the end. *)
  val work : t -> pages:int -> int

  (** Files, and what is wrong with them, of what was read so far. *)
  val findings : t -> (string * string) list

  (** From where another scrub goes on, also of another process. *)
  val place : t -> int

  val close : t -> unit
end

(** A folder of tables. *)
module Session : sig
  type table := t
  type t

  (** What is promised of updates: [`None], what is in no snapshot is gone when the session ends; [`Written], they outlive
      the process; [`Synced], they outlive a power cut. *)
  type log = [ `None | `Written | `Synced ]

  type stats = {
    keys_looked_up : int;
    pages_read : int;
    cache_hits : int;
    blobs_read : int;
    blob_read_bytes : int;
    blob_written_bytes : int;
    merge_read_bytes : int;
    written_bytes : int;
    write_out_bytes : int;
    merge_written_bytes : int;
    snapshot_written_bytes : int;
    load_written_bytes : int;
    log_records : int;
    log_written_bytes : int;
    log_syncs : int;
    checkpoints : int;
  }

  type 'a with_options :=
    ?log:log ->
    ?seed:int ->
    ?direct:bool ->
    ?queue_depth:int ->
    ?memory_bytes:int ->
    ?segment_bytes:int ->
    ?log_file_bytes:int ->
    ?max_open_files:int ->
    ?cache:Cache.t ->
    'a

  (** Makes a session in the root folder of the disk, which must be empty, and opens it. *)
  val create : (Disk.t -> t) with_options

  (** Opens one. [Missing] when there is none, [Locked] when another process has it. *)
  val open_ : (Disk.t -> t) with_options

  (** Opens one to read its snapshots, also while another process writes. *)
  val open_read_only : (Disk.t -> t) with_options

  (** Opens the one that is there, or makes one: for programs that do not care whether they are the first to run. *)
  val open_or_create : (Disk.t -> t) with_options

  (** Live tables are durable then; of the others, what is in no snapshot is gone. *)
  val close : t -> unit

  type 'a with_table_options :=
    ?utxo:bool ->
    ?within_memory:int ->
    ?size_ratio:int ->
    ?write_buffer_bytes:int ->
    ?filter_bytes_max:int ->
    ?filter_bits:int ->
    ?lookups:[ `Mixed | `Mostly_hit ] ->
    ?blob_min_bytes:int ->
    ?compression:[ `None | `Fast ] ->
    ?operator:Operator.t ->
    'a

  val create_table : (t -> string -> table) with_table_options

  (** Opens the live table of this name, or makes one. One that is there keeps the options that it was made with. *)
  val open_or_create_table : (t -> string -> table) with_table_options

  (** Puts tables behind one handle that threads share; their own handles are closed then. *)
  val share : t -> table list -> Shared.t

  (** The same of every live table. *)
  val open_shared : ?operators:Operator.t list -> t -> Shared.t

  (** Makes durable what a log that is [`Written] has. *)
  val sync_log : t -> unit

  (** Begins a scrub, [from] the {!Scrub.place} of an earlier one. *)
  val scrub : ?from:int -> t -> Scrub.t

  (** A live table as it was last updated. *)
  val open_table : ?operators:Operator.t list -> t -> string -> table

  val live_tables : t -> string list

  (** Makes a duplicate, or a table from a snapshot, live under its name. *)
  val publish : t -> table -> unit

  val delete_table : t -> string -> unit

  (** Applies a batch to each of several tables, all of them or none, also through a crash. *)
  val apply : t -> (table * operation array) array -> unit

  (** A table that binds every key that one of the tables binds; the leftmost has the newest values. *)
  val union : t -> string -> table list -> table

  (** The same, merged bit by bit: updates pay for it, or {!supply_union_credits}. *)
  val incremental_union : t -> string -> table list -> table

  (** Saves tables whole or not at all. *)
  val save_snapshot : ?label:string -> ?payload:string -> t -> string -> table list -> unit

  val open_snapshot : ?verify:bool -> ?label:string -> ?operators:Operator.t list -> t -> string -> Snapshot.t
  val snapshots : t -> string list
  val delete_snapshot : t -> string -> unit

  (** To the root folder of another disk, which must be empty. *)
  val export_snapshot : t -> string -> Disk.t -> unit

  val import_snapshot : t -> Disk.t -> name:string -> new_name:string -> unit

  (** With [sort_bytes] the keys come in any order, else in order. *)
  val load_table : ?sort_bytes:int -> t -> string -> Loader.t

  val write_value : t -> Writer.t

  (** The bytes of several values, read together. *)
  val read_values : t -> Value.t array -> string array

  val warnings : t -> string list
  val is_poisoned : t -> bool

  (** Has updates do no merging; one that would have a table hold more than so many bytes in memory is refused. *)
  val pause_merges : t -> int -> unit

  val resume_merges : t -> unit
  val merges_are_paused : t -> bool
  val stats : t -> stats

  (** What a backup has: what came, and what an earlier one had brought. *)
  type backed_up = {
    tables : int;
    segments : int;
    bytes : int;
    copied_bytes : int;
    kept_segments : int;
    kept_bytes : int;
    log_records : int;
    log_bytes : int;
  }

  (** Backs up all live tables, as they are at one moment, to a disk that is empty, or has an earlier backup of this
      session, which becomes the new one. Updates go on meanwhile. {!open_} opens the backup. *)
  val backup : ?verify:bool -> t -> Disk.t -> backed_up

  (** Follows the live tables of a session that was opened to read, beside the process that updates them. *)
  val follow : ?verify:bool -> ?operators:Operator.t list -> t -> Follower.t

  (** A file that is damaged or lost, and between which keys entries are missing or older, both included. *)
  type loss = { file : string; detail : string; keys : (string * string) option }

  type repaired = {
    session_was_lost : bool;
    snapshots : int;
    live_tables : int;
    whole_live_tables : int;
    losses : loss list;
    segments : int;
    bytes : int;
    copied_bytes : int;
    log_records : int;
    log_records_behind : int;
  }

  (** Makes a new session on an empty disk of what is whole in the one on [source], which nobody writes to. With
      [skip_damaged] a table or snapshot with damaged segments is kept without their entries; else it is left out. *)
  val repair : ?skip_damaged:bool -> ?seed:int -> source:Disk.t -> Disk.t -> repaired

  (** Checks every byte that snapshots and live tables need, also beside the writer: files and what is wrong with them. *)
  val check : Disk.t -> (string * string) list
end
