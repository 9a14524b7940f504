let texts array = List.filter_map Fun.id (Array.to_list array)
let text array = match array with [| Some text |] -> text | _ -> ""
let pairs flat = Array.init (Array.length flat / 2) (fun at -> (flat.(2 * at), flat.((2 * at) + 1)))

module Operator = struct
  type t = Raw.handle

  let make ~name join = Raw.operator_new name join
  let add_u64 () = Raw.operator_built_in "add-u64"
  let max () = Raw.operator_built_in "max"
  let append () = Raw.operator_built_in "append"
  let close = Raw.close
end

module Value = struct
  type t = Raw.handle
  type bigstring = Raw.bigstring

  let length = Raw.value_length
  let read_at value ~offset buffer = Raw.value_read_at value offset buffer
  let close = Raw.close
end

type operation = Raw.operation =
  | Insert of string * string
  | Delete of string
  | Upsert of string * string
  | Insert_value of string * Value.t
  | Delete_range of string * string
  | Delete_prefix of string

type bound = Raw.bound = Unbounded | Included of string | Excluded of string

module Cursor = struct
  type t = Raw.handle

  let binding = function [| key; value |] -> Some (key, value) | _ -> None
  let single = function [| text |] -> Some text | _ -> None
  let next cursor = binding (Raw.cursor_step cursor 0)
  let previous cursor = binding (Raw.cursor_step cursor 1)
  let next_key cursor = single (Raw.cursor_step cursor 2)
  let previous_key cursor = single (Raw.cursor_step cursor 3)
  let value cursor = single (Raw.cursor_step cursor 4)
  let next_many cursor limit = pairs (Raw.cursor_next_many cursor limit)
  let seek = Raw.cursor_seek
  let seek_first cursor = Raw.cursor_seek_end cursor 0
  let seek_last cursor = Raw.cursor_seek_end cursor 1
  let close = Raw.close
end

module type ENDS = sig
  type t
  type item

  val next : t -> item option
  val next_back : t -> item option
  val next_many : t -> int -> item array
  val next_many_back : t -> int -> item array
  val to_seq : t -> item Seq.t
  val close : t -> unit
end

(* Both are made of the texts that the stub gives. *)
module Ends (Item : sig
  type t

  val of_texts : string array -> t array
end) =
struct
  type t = Raw.handle
  type item = Item.t

  let many is_back it limit = Item.of_texts (Raw.iterator_next it limit is_back)
  let first = function [||] -> None | items -> Some items.(0)
  let next it = first (many false it 1)
  let next_back it = first (many true it 1)
  let next_many it limit = many false it limit
  let next_many_back it limit = many true it limit
  let close = Raw.close

  let to_seq it =
    let rec more () =
      match next_many it 64 with
      | [||] ->
        close it;
        Seq.Nil
      | items -> given items 0 ()
    and given items at () =
      if at = Array.length items then more () else Seq.Cons (items.(at), given items (at + 1))
    in
    more
end

module Iterator = Ends (struct
  type t = string * string

  let of_texts = pairs
end)

module Keys = Ends (struct
  type t = string

  let of_texts = Fun.id
end)

module type READS = sig
  type t

  val get : t -> string -> string option
  val lookups : t -> string array -> string option array
  val range : ?lower:bound -> ?upper:bound -> t -> (string * string) array
  val find : t -> string array -> Value.t option array
  val cursor : ?lower:bound -> ?upper:bound -> t -> Cursor.t
  val iterate : ?lower:bound -> ?upper:bound -> ?prefix:string -> t -> Iterator.t
  val iterate_keys : ?lower:bound -> ?upper:bound -> ?prefix:string -> t -> Keys.t
  val close : t -> unit
end

(* The stubs tell a table from a view by the handle. *)
module Reads = struct
  let get = Raw.get
  let lookups = Raw.lookup
  let range ?(lower = Unbounded) ?(upper = Unbounded) from = pairs (Raw.range from lower upper)
  let find = Raw.find_values
  let cursor ?(lower = Unbounded) ?(upper = Unbounded) from = Raw.cursor from lower upper

  let iterated keys_only ?(lower = Unbounded) ?(upper = Unbounded) ?prefix from =
    if prefix <> None && (lower <> Unbounded || upper <> Unbounded) then
      invalid_arg "Varvite: a prefix is a range by itself";
    Raw.iterate from (lower, upper, prefix) keys_only

  let iterate ?lower ?upper ?prefix from = iterated false ?lower ?upper ?prefix from
  let iterate_keys ?lower ?upper ?prefix from = iterated true ?lower ?upper ?prefix from
  let close = Raw.close
end

module View = struct
  type t = Raw.handle

  include Reads

  let count = Raw.view_count
end

type t = Raw.handle

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

include Reads

let apply = Raw.table_apply
let insert table key value = apply table [| Insert (key, value) |]
let delete table key = apply table [| Delete key |]
let upsert table key value = apply table [| Upsert (key, value) |]
let delete_range ?(lower = Unbounded) ?(upper = Unbounded) table = Raw.table_delete_range table lower upper
let view = Raw.table_view
let duplicate table ~name = Raw.table_by_name 2 table name [||]
let name table = text (Raw.table_name table)
let operator_name table = match Raw.table_operator_name table with [| name |] -> name | _ -> None
let is_live = Raw.table_is_live
let work table ~credits = Raw.table_work table credits
let last_work = Raw.table_last_work
let remaining_union_debt = Raw.table_union_debt
let supply_union_credits = Raw.table_supply_credits

let stats table =
  match Raw.table_stats table with
  | [| logical_entries; logical_entries_min; logical_entries_max; physical_entries; disk_bytes; blob_files;
       blob_disk_bytes; buffer_bytes; filter_memory_bytes; index_memory_bytes; debt_bytes; union_debt_bytes; levels |] ->
    { logical_entries; logical_entries_min; logical_entries_max; physical_entries; disk_bytes; blob_files;
      blob_disk_bytes; buffer_bytes; filter_memory_bytes; index_memory_bytes; debt_bytes; union_debt_bytes; levels }
  | _ -> assert false

(* What makes something of itself is closed by that; a call that was refused has closed nothing. *)
let finish how handle =
  let made = how handle in
  Raw.finished handle;
  made

module Loader = struct
  type t = Raw.handle

  let push loader entries =
    let flat = Array.make (2 * Array.length entries) "" in
    Array.iteri
      (fun at (key, value) ->
        flat.(2 * at) <- key;
        flat.((2 * at) + 1) <- value)
      entries;
    Raw.loader_push loader flat

  let count = Raw.loader_count
  let finish loader = finish Raw.loader_finish loader
  let close = Raw.close
end

module Writer = struct
  type t = Raw.handle

  let write = Raw.writer_write
  let finish writer = finish Raw.writer_finish writer
  let close = Raw.close
end

module Snapshot = struct
  type t = Raw.handle

  let label snapshot = text (Raw.snapshot_label snapshot)
  let payload snapshot = text (Raw.snapshot_payload snapshot)
  let tables snapshot = texts (Raw.snapshot_tables snapshot)
  let take snapshot name = Raw.table_by_name 1 snapshot name [||]
  let close = Raw.close
end

module Follower = struct
  type t = Raw.handle

  let reload = Raw.follower_reload
  let tables follower = texts (Raw.follower_tables follower)
  let view = Raw.follower_view
  let close = Raw.close
end

module Transaction = struct
  type t = Raw.handle

  let apply = Raw.transaction_apply
  let lookups = Raw.shared_lookup
  let get transaction name key = (lookups transaction name [| key |]).(0)
  let view = Raw.transaction_view
  let commit = Raw.transaction_commit
  let rollback = Raw.close
end

module Shared = struct
  type t = { tables : Raw.handle; mutable waits : bool  (** for transactions *) }

  let of_handle tables = { tables; waits = true }
  let names shared = Array.to_list (Raw.shared_texts shared.tables)
  let views shared names = Array.to_list (Raw.tables_views shared.tables (Array.of_list names))
  let view shared name = (Raw.tables_views shared.tables [| name |]).(0)
  let lookups shared = Raw.shared_lookup shared.tables
  let get shared name key = (lookups shared name [| key |]).(0)

  let set_patience shared milliseconds =
    (match milliseconds with
    | Some number when number < 0 -> raise (Errors.Error (Errors.Invalid, "set_patience: milliseconds are not negative"))
    | _ -> ());
    Raw.tables_set_patience shared.tables (Option.value milliseconds ~default:(-1));
    shared.waits <- milliseconds <> Some 0

  (* The transaction in the way may be one that nothing leads to any more, and the collector not come by yet. *)
  let patiently shared call =
    try call shared.tables
    with Errors.Error (Errors.Busy, _) when shared.waits ->
      Gc.full_major ();
      call shared.tables

  (* The block of a transaction that nothing leads to is closed by the next call of the library: too late, when all calls
     wait for it. This runs as soon as the collector has found it. In a merge operator it is refused, and the block
     closed as any other. *)
  let rolled_back_when_forgotten transaction =
    Gc.finalise (fun forgotten -> try Raw.close forgotten with _ -> ()) transaction;
    transaction

  let commit shared changes = patiently shared (fun tables -> Raw.tables_commit tables changes)

  let begin_ shared =
    rolled_back_when_forgotten (patiently shared (fun tables -> Option.get (Raw.tables_begin tables true)))

  let try_begin shared = Option.map rolled_back_when_forgotten (Raw.tables_begin shared.tables false)

  let transaction shared f =
    let transaction = begin_ shared in
    match f transaction with
    | answer ->
      Transaction.commit transaction;
      answer
    | exception raised ->
      let trace = Printexc.get_raw_backtrace () in
      Transaction.rollback transaction;
      Printexc.raise_with_backtrace raised trace

  let work shared ~credits = patiently shared (fun tables -> Raw.shared_work tables credits)
  let add shared table = patiently shared (fun tables -> Raw.tables_add tables table)
  let remove shared name = patiently shared (fun tables -> Raw.tables_remove tables name)

  let save_snapshot ?(label = "") ?(payload = "") shared name =
    patiently shared (fun tables -> Raw.tables_save_snapshot tables name label payload)

  let close shared = Raw.close shared.tables
end

module Scrub = struct
  type t = Raw.handle

  let work scrub ~pages = Raw.shared_work scrub pages
  let findings scrub = Array.to_list (pairs (Raw.shared_texts scrub))
  let place = Raw.scrub_place
  let close = Raw.close
end

module Session = struct
  type t = Raw.handle
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

  let opened how ?log ?seed ?direct ?queue_depth ?memory_bytes ?segment_bytes ?log_file_bytes ?max_open_files ?cache
      (Disk.Disk disk) =
    let log = Option.map (function `None -> 0 | `Written -> 1 | `Synced -> 2) log in
    let number = Options.number in
    Raw.session disk how
      [| number log; number seed; Options.flag direct; number queue_depth; number memory_bytes; number segment_bytes;
         number log_file_bytes; number max_open_files |]
      (Option.map (fun (Cache.Cache cache) -> cache) cache)

  let create = opened 0
  let open_ = opened 1
  let open_read_only = opened 2
  let open_or_create = opened 3
  let close = Raw.close

  let made opens ?(utxo = false) ?within_memory ?size_ratio ?write_buffer_bytes ?filter_bytes_max ?filter_bits ?lookups
      ?blob_min_bytes ?compression ?operator session name =
    let number = Options.number in
    let lookups = Option.map (function `Mixed -> 0 | `Mostly_hit -> 1) lookups in
    let compression = Option.map (function `None -> 0 | `Fast -> 1) compression in
    Raw.session_create_table session name
      ( utxo, number within_memory, number size_ratio, number write_buffer_bytes, number filter_bytes_max,
        number filter_bits, number lookups, number blob_min_bytes, number compression, opens )
      operator

  let create_table = made false
  let open_or_create_table = made true
  let share session tables = Shared.of_handle (Raw.session_share session (Array.of_list tables))
  let open_shared ?(operators = []) session =
    Shared.of_handle (Raw.session_open_shared session (Array.of_list operators))
  let sync_log = Raw.session_sync_log
  let scrub ?(from = 0) session = Raw.session_scrub session from

  let open_table ?(operators = []) session name = Raw.table_by_name 0 session name (Array.of_list operators)
  let live_tables session = texts (Raw.session_live_tables session)
  let publish = Raw.session_publish
  let delete_table session name = Raw.session_delete session false name
  let apply = Raw.session_apply
  let union session name tables = Raw.session_union session name (Array.of_list tables) false
  let incremental_union session name tables = Raw.session_union session name (Array.of_list tables) true

  let save_snapshot ?(label = "") ?(payload = "") session name tables =
    Raw.session_save_snapshot session name (label, payload) (Array.of_list tables)

  let open_snapshot ?(verify = false) ?label ?(operators = []) session name =
    Raw.session_open_snapshot session name (verify, label, Array.of_list operators)

  let snapshots session = texts (Raw.session_snapshots session)
  let delete_snapshot session name = Raw.session_delete session true name
  let export_snapshot session name (Disk.Disk target) = Raw.session_transfer session target name None
  let import_snapshot session (Disk.Disk source) ~name ~new_name = Raw.session_transfer session source name (Some new_name)
  let load_table ?(sort_bytes = 0) session name = Raw.load_table session name sort_bytes
  let write_value = Raw.write_value
  let read_values = Raw.read_values
  let warnings session = texts (Raw.session_warnings session)
  let is_poisoned = Raw.session_is_poisoned

  let pause_merges session bytes =
    if bytes < 0 then invalid_arg "Varvite: a number of bytes is negative";
    Raw.session_pause session bytes

  let resume_merges session = Raw.session_pause session (-1)
  let merges_are_paused = Raw.session_merges_are_paused

  let stats session =
    match Raw.session_stats session with
    | [| keys_looked_up; pages_read; cache_hits; blobs_read; blob_read_bytes; blob_written_bytes; merge_read_bytes;
         written_bytes; write_out_bytes; merge_written_bytes; snapshot_written_bytes; load_written_bytes; log_records;
         log_written_bytes; log_syncs; checkpoints |] ->
      { keys_looked_up; pages_read; cache_hits; blobs_read; blob_read_bytes; blob_written_bytes; merge_read_bytes;
        written_bytes; write_out_bytes; merge_written_bytes; snapshot_written_bytes; load_written_bytes; log_records;
        log_written_bytes; log_syncs; checkpoints }
    | _ -> assert false

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

  let backup ?(verify = false) session (Disk.Disk target) =
    match Raw.session_backup session target verify with
    | [| tables; segments; bytes; copied_bytes; kept_segments; kept_bytes; log_records; log_bytes |] ->
      { tables; segments; bytes; copied_bytes; kept_segments; kept_bytes; log_records; log_bytes }
    | _ -> assert false

  let follow ?(verify = false) ?(operators = []) session = Raw.session_follow session verify (Array.of_list operators)

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

  let repair ?(skip_damaged = false) ?(seed = 0) ~source:(Disk.Disk source) (Disk.Disk target) =
    let counts, texts = Raw.session_repair source target skip_damaged seed in
    let loss at =
      let item part = texts.((4 * at) + part) in
      let told part = Option.value ~default:"" (item part) in
      let keys = match (item 2, item 3) with Some first, Some last -> Some (first, last) | _ -> None in
      { file = told 0; detail = told 1; keys }
    in
    match counts with
    | [| was_lost; snapshots; live_tables; whole_live_tables; segments; bytes; copied_bytes; log_records;
         log_records_behind |] ->
      { session_was_lost = was_lost <> 0; snapshots; live_tables; whole_live_tables;
        losses = List.init (Array.length texts / 4) loss; segments; bytes; copied_bytes; log_records; log_records_behind }
    | _ -> assert false

  let check (Disk.Disk disk) =
    Array.to_list (pairs (Array.map (Option.value ~default:"") (Raw.session_check disk)))
end
