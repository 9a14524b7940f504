(* The stubs. A handle is a custom block; which kind it is of is told apart by the types that wrap it. *)

type handle
type configuration = { entries : int; stable_hash : int; child_order : int }

external close : handle -> unit = "varvite_ocaml_close"
external finished : handle -> unit = "varvite_ocaml_finished" [@@noalloc]
external disk_folder : string -> bool -> handle = "varvite_ocaml_disk_folder"
external disk_memory : int -> handle = "varvite_ocaml_disk_memory"
external cache_new : int -> handle = "varvite_ocaml_cache_new"
external cache_stats : handle -> int array = "varvite_ocaml_cache_stats"

(* sessions *)
external operator_new : string -> (string -> string -> string) -> handle = "varvite_ocaml_operator_new"
external operator_built_in : string -> handle = "varvite_ocaml_operator_built_in"
external session : handle -> int -> int array -> handle option -> handle = "varvite_ocaml_session"
external session_warnings : handle -> string option array = "varvite_ocaml_session_warnings"
external session_snapshots : handle -> string option array = "varvite_ocaml_session_snapshots"
external session_live_tables : handle -> string option array = "varvite_ocaml_session_live_tables"
external session_check : handle -> string option array = "varvite_ocaml_session_check"
external session_is_poisoned : handle -> bool = "varvite_ocaml_session_is_poisoned"
external session_merges_are_paused : handle -> bool = "varvite_ocaml_session_merges_are_paused"
external session_pause : handle -> int -> unit = "varvite_ocaml_session_pause"
external session_stats : handle -> int array = "varvite_ocaml_session_stats"

external session_create_table :
  handle -> string -> bool * int * int * int * int * int * int * int * int * bool -> handle option -> handle
  = "varvite_ocaml_session_create_table"

external session_sync_log : handle -> unit = "varvite_ocaml_session_sync_log"

external session_union : handle -> string -> handle array -> bool -> handle = "varvite_ocaml_session_union"
external table_by_name : int -> handle -> string -> handle array -> handle = "varvite_ocaml_table_by_name"
external session_publish : handle -> handle -> unit = "varvite_ocaml_session_publish"
external session_delete : handle -> bool -> string -> unit = "varvite_ocaml_session_delete"

external session_save_snapshot : handle -> string -> string * string -> handle array -> unit
  = "varvite_ocaml_session_save_snapshot"

external session_open_snapshot : handle -> string -> bool * string option * handle array -> handle
  = "varvite_ocaml_session_open_snapshot"

external session_transfer : handle -> handle -> string -> string option -> unit = "varvite_ocaml_session_transfer"
external session_backup : handle -> handle -> bool -> int array = "varvite_ocaml_session_backup"

external session_repair : handle -> handle -> bool -> int -> int array * string option array
  = "varvite_ocaml_session_repair"

external session_follow : handle -> bool -> handle array -> handle = "varvite_ocaml_session_follow"
external follower_reload : handle -> bool = "varvite_ocaml_follower_reload"
external follower_tables : handle -> string option array = "varvite_ocaml_follower_tables"
external follower_view : handle -> string -> handle = "varvite_ocaml_follower_view"
external snapshot_label : handle -> string option array = "varvite_ocaml_snapshot_label"
external snapshot_payload : handle -> string option array = "varvite_ocaml_snapshot_payload"
external snapshot_tables : handle -> string option array = "varvite_ocaml_snapshot_tables"

(* tables *)
type operation =
  | Insert of string * string
  | Delete of string
  | Upsert of string * string
  | Insert_value of string * handle
  | Delete_range of string * string
  | Delete_prefix of string

type bound = Unbounded | Included of string | Excluded of string
type bigstring = (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t

external table_name : handle -> string option array = "varvite_ocaml_table_name"
external table_operator_name : handle -> string option array = "varvite_ocaml_table_operator_name"
external table_is_live : handle -> bool = "varvite_ocaml_table_is_live"
external table_work : handle -> int -> int = "varvite_ocaml_table_work"
external table_last_work : handle -> int = "varvite_ocaml_table_last_work"
external table_union_debt : handle -> int = "varvite_ocaml_table_union_debt"
external table_supply_credits : handle -> int -> int = "varvite_ocaml_table_supply_credits"
external table_stats : handle -> int array = "varvite_ocaml_table_stats"
external table_apply : handle -> operation array -> unit = "varvite_ocaml_table_apply"
external session_apply : handle -> (handle * operation array) array -> unit = "varvite_ocaml_session_apply"
external table_delete_range : handle -> bound -> bound -> unit = "varvite_ocaml_table_delete_range"
external table_view : handle -> handle = "varvite_ocaml_table_view"
external view_count : handle -> int = "varvite_ocaml_view_count"
external lookup : handle -> string array -> string option array = "varvite_ocaml_lookup"
external get : handle -> string -> string option = "varvite_ocaml_get"
external range : handle -> bound -> bound -> string array = "varvite_ocaml_range"
external find_values : handle -> string array -> handle option array = "varvite_ocaml_find_values"
external value_length : handle -> int = "varvite_ocaml_value_length"
external value_read_at : handle -> int -> bigstring -> int = "varvite_ocaml_value_read_at"
external read_values : handle -> handle array -> string array = "varvite_ocaml_read_values"
external write_value : handle -> handle = "varvite_ocaml_write_value"
external writer_write : handle -> string -> unit = "varvite_ocaml_writer_write"
external writer_finish : handle -> handle = "varvite_ocaml_writer_finish"
external load_table : handle -> string -> int -> handle = "varvite_ocaml_load_table"
external loader_push : handle -> string array -> unit = "varvite_ocaml_loader_push"
external loader_count : handle -> int = "varvite_ocaml_loader_count"
external loader_finish : handle -> handle = "varvite_ocaml_loader_finish"
external cursor : handle -> bound -> bound -> handle = "varvite_ocaml_cursor"
external cursor_step : handle -> int -> string array = "varvite_ocaml_cursor_step"
external cursor_next_many : handle -> int -> string array = "varvite_ocaml_cursor_next_many"
external cursor_seek_end : handle -> int -> unit = "varvite_ocaml_cursor_seek_end"
external cursor_seek : handle -> string -> unit = "varvite_ocaml_cursor_seek"

external iterate : handle -> bound * bound * string option -> bool -> handle = "varvite_ocaml_iterate"
external iterator_next : handle -> int -> bool -> string array = "varvite_ocaml_iterator_next"

(* shared handles, transactions, scrubs *)
external session_share : handle -> handle array -> handle = "varvite_ocaml_session_share"
external session_open_shared : handle -> handle array -> handle = "varvite_ocaml_session_open_shared"
external shared_texts : handle -> string array = "varvite_ocaml_shared_texts"
external tables_views : handle -> string array -> handle array = "varvite_ocaml_tables_views"
external shared_lookup : handle -> string -> string array -> string option array = "varvite_ocaml_shared_lookup"
external tables_commit : handle -> (string * operation array) array -> unit = "varvite_ocaml_tables_commit"
external tables_add : handle -> handle -> unit = "varvite_ocaml_tables_add"
external tables_remove : handle -> string -> handle = "varvite_ocaml_tables_remove"
external tables_save_snapshot : handle -> string -> string -> string -> unit = "varvite_ocaml_tables_save_snapshot"
external shared_work : handle -> int -> int = "varvite_ocaml_shared_work"
external tables_set_patience : handle -> int -> unit = "varvite_ocaml_tables_set_patience"
external tables_begin : handle -> bool -> handle option = "varvite_ocaml_tables_begin"
external transaction_apply : handle -> string -> operation array -> unit = "varvite_ocaml_transaction_apply"
external transaction_view : handle -> string -> handle = "varvite_ocaml_transaction_view"
external transaction_commit : handle -> unit = "varvite_ocaml_transaction_commit"
external session_scrub : handle -> int -> handle = "varvite_ocaml_session_scrub"
external scrub_place : handle -> int = "varvite_ocaml_scrub_place"

(* contexts *)
type hash = string
type info = hash array * int64 * string * string

external hash_text : hash -> string = "varvite_ocaml_hash_text"
external hash_parse : string -> hash = "varvite_ocaml_hash_parse"
external store : handle -> int -> int array -> handle option -> handle option -> handle = "varvite_ocaml_store"
external irmin_is_store : handle -> bool = "varvite_ocaml_irmin_is_store"
external irmin_open : handle -> handle = "varvite_ocaml_irmin_open"
external irmin_export : handle -> handle -> handle -> int array = "varvite_ocaml_irmin_export"
external store_do : handle -> int -> bool = "varvite_ocaml_store_do"
external store_configuration : handle -> configuration = "varvite_ocaml_store_configuration"
external store_empty_tree : handle -> handle = "varvite_ocaml_store_empty_tree"
external store_checkout : handle -> hash -> handle option = "varvite_ocaml_store_checkout"
external store_exists : handle -> hash -> bool = "varvite_ocaml_store_exists"
external store_commit : handle -> handle -> info -> bool -> hash = "varvite_ocaml_store_commit"

external store_commit_info : handle -> hash -> (hash * hash list * int64 * string * string) option
  = "varvite_ocaml_store_commit_info"

external store_last_commit : handle -> hash option = "varvite_ocaml_store_last_commit"
external store_log : handle -> int -> hash array = "varvite_ocaml_store_log"
external store_history : handle -> hash array -> int -> hash array = "varvite_ocaml_store_history"
external store_check : handle -> int * int * int * string array = "varvite_ocaml_store_check"
external store_stats : handle -> int array = "varvite_ocaml_store_stats"
external store_branch : handle -> string -> hash option = "varvite_ocaml_store_branch"
external store_branches : handle -> string array = "varvite_ocaml_store_branches"
external store_set_branch : handle -> string -> hash option -> unit = "varvite_ocaml_store_set_branch"

external store_test_and_set : handle -> string -> hash option -> hash -> bool = "varvite_ocaml_store_test_and_set"

(* what a store keeps *)
external store_collect : handle -> hash -> unit = "varvite_ocaml_store_collect"
external store_collect_keeping : handle -> bool -> int64 -> bool = "varvite_ocaml_store_collect_keeping"
external store_collect_step : handle -> int -> bool = "varvite_ocaml_store_collect_step"
external store_collect_status : handle -> int array * hash option = "varvite_ocaml_store_collect_status"
external store_pin : handle -> hash -> bool -> bool = "varvite_ocaml_store_pin"
external store_pin_every : handle -> int -> int = "varvite_ocaml_store_pin_every"
external store_pins : handle -> hash array = "varvite_ocaml_store_pins"
external store_archive : handle -> hash option -> int -> int = "varvite_ocaml_store_archive"
external store_attach : handle -> int = "varvite_ocaml_store_attach"
external store_archived_bytes : handle -> int = "varvite_ocaml_store_archived_bytes"

external store_export : handle -> hash array -> handle -> string -> int -> hash * hash * int * int * int
  = "varvite_ocaml_store_export"

external store_import : handle -> handle -> string -> hash * hash * int * int * int = "varvite_ocaml_store_import"
external store_create_from_commit : handle -> handle -> string -> handle = "varvite_ocaml_store_create_from_commit"
external store_reader : handle -> handle = "varvite_ocaml_store_reader"
external reader_checkout : handle -> hash -> handle option = "varvite_ocaml_reader_checkout"
external reader_head : handle -> string option -> hash option = "varvite_ocaml_reader_head"

(* trees *)
type path = string list

external tree_empty : configuration -> handle = "varvite_ocaml_tree_empty"
external tree_of_value : configuration -> bytes -> handle = "varvite_ocaml_tree_of_value"
external tree_find : handle -> path -> bytes option = "varvite_ocaml_tree_find"
external tree_find_many : handle -> path array -> bytes option array = "varvite_ocaml_tree_find_many"
external tree_find_tree : handle -> path -> handle option = "varvite_ocaml_tree_find_tree"
external tree_asks : handle -> int -> path -> bool = "varvite_ocaml_tree_ask"
external tree_length : handle -> int -> path -> int = "varvite_ocaml_tree_ask"
external tree_kind : handle -> int = "varvite_ocaml_tree_kind"
external tree_is_empty : handle -> bool = "varvite_ocaml_tree_is_empty"
external tree_hash : handle -> hash = "varvite_ocaml_tree_hash"
external tree_equal : handle -> handle -> bool = "varvite_ocaml_tree_equal"
external tree_clear : handle -> int -> unit = "varvite_ocaml_tree_clear"
external tree_list : handle -> int -> int -> path -> (string * handle) list = "varvite_ocaml_tree_list"
external tree_add : handle -> int -> path -> bytes -> handle = "varvite_ocaml_tree_change"
external tree_add_tree : handle -> int -> path -> handle -> handle = "varvite_ocaml_tree_change"
external tree_remove : handle -> int -> path -> unit -> handle = "varvite_ocaml_tree_change"

external tree_fold : handle -> path -> int * int * int -> (path -> handle -> unit) -> unit = "varvite_ocaml_tree_fold"

external tree_diff : handle -> handle -> (path -> bytes option -> bytes option -> unit) -> unit
  = "varvite_ocaml_tree_diff"

(* proofs *)
external proof_make : handle -> bool -> (handle -> handle) -> handle = "varvite_ocaml_proof_make"

external proof_verify : handle -> configuration -> int * hash -> (handle -> handle) -> unit
  = "varvite_ocaml_proof_verify"

external proof_encode : handle -> int -> string = "varvite_ocaml_proof_encode"
external proof_decode : int -> configuration -> string -> handle = "varvite_ocaml_proof_decode"
external proof_roots : handle -> int * hash * int * hash * bool = "varvite_ocaml_proof_roots"
