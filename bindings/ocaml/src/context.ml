open Errors

type configuration = Raw.configuration = { entries : int; stable_hash : int; child_order : int }

let tezos = { entries = 32; stable_hash = 256; child_order = 0 }
let tezos_binary = { entries = 2; stable_hash = 2; child_order = 1 }

type index = { store : Raw.handle; configuration : configuration }
type tree = Raw.handle
type t = { index : index; tree : tree; parents : Hash.t array }
type key = string list
type value = bytes

let hash_of text = Hash.of_string_exn text

(* The operations, of trees. Those of contexts are the same on their tree. *)
module On_trees = struct
  let mem tree key = Raw.tree_asks tree 0 key
  let mem_tree tree key = Raw.tree_asks tree 1 key
  let find = Raw.tree_find
  let find_tree = Raw.tree_find_tree
  let length tree key = Raw.tree_length tree 2 key

  let list tree ?(offset = 0) ?(length = max_int) key =
    if offset < 0 || length < 0 then
      raise (Error (Invalid, "list: offset and length are numbers of children, and not negative"));
    Raw.tree_list tree offset length key

  let add tree key value = Raw.tree_add tree 0 key value
  let add_tree tree key subtree = Raw.tree_add_tree tree 1 key subtree
  let remove tree key = Raw.tree_remove tree 2 key ()

  let fold ?depth tree key ~order ~init ~f =
    let kind, depth =
      match depth with
      | None -> (0, 0)
      | Some (`Eq depth) -> (1, depth)
      | Some (`Lt depth) -> (2, depth)
      | Some (`Le depth) -> (3, depth)
      | Some (`Gt depth) -> (4, depth)
      | Some (`Ge depth) -> (5, depth)
    in
    if depth < 0 then raise (Error (Invalid, "fold: a depth is not negative"));
    let answer = ref init in
    let order = match order with `Sorted -> 0 | `Undefined -> 1 in
    Raw.tree_fold tree key (kind, depth, order) (fun key tree -> answer := f key tree !answer);
    !answer
end

let mem context = On_trees.mem context.tree
let mem_tree context = On_trees.mem_tree context.tree
let find context key = Raw.tree_find context.tree key
let find_tree context = On_trees.find_tree context.tree
let list context = On_trees.list context.tree
let length context = On_trees.length context.tree
let add context key value = { context with tree = On_trees.add context.tree key value }
let add_tree context key tree = { context with tree = On_trees.add_tree context.tree key tree }
let remove context key = { context with tree = On_trees.remove context.tree key }
let fold ?depth context key ~order ~init ~f = On_trees.fold ?depth context.tree key ~order ~init ~f
let find_many context keys = Raw.tree_find_many context.tree keys

module Tree = struct
  include On_trees

  let empty context = Raw.store_empty_tree context.index.store
  let is_empty = Raw.tree_is_empty
  let kind tree = if Raw.tree_kind tree = 0 then `Value else `Tree
  let to_value tree = Raw.tree_find tree []
  let of_value context value = Raw.tree_of_value context.index.configuration value
  let hash tree = hash_of (Raw.tree_hash tree)
  let equal = Raw.tree_equal
  let clear ?(depth = 0) tree = Raw.tree_clear tree depth

  type raw = [ `Value of bytes | `Tree of (string * raw) list ]

  let rec to_raw tree : raw =
    match to_value tree with
    | Some value -> `Value value
    | None ->
      let children = List.sort (fun (a, _) (b, _) -> String.compare a b) (list tree []) in
      `Tree (Lists.map (fun (name, child) -> (name, to_raw child)) children)

  let rec of_raw context : raw -> tree = function
    | `Value value -> of_value context value
    | `Tree children ->
      List.fold_left
        (fun tree (name, child) -> add_tree tree [ name ] (of_raw context child))
        (empty context) children

  let rec pp out tree =
    match to_value tree with
    | Some value -> Format.fprintf out "%S" (Bytes.to_string value)
    | None ->
      let child out (name, tree) = Format.fprintf out "@[<hv 2>%S:@ %a@]" name pp tree in
      let comma out () = Format.fprintf out ",@ " in
      Format.fprintf out "@[<hv 1>{%a}@]" (Format.pp_print_list ~pp_sep:comma child) (list tree [])
end

(* ---- stores ---- *)

let indexed store = { store; configuration = Raw.store_configuration store }

let opened how ?indexing ?durability ?objects_bytes ?hashes_bytes ?pages_bytes ?index_bytes ?tree_bytes ?chunk_bytes
    ?max_open_files ?lower ?seed ?configuration ?cache (Disk.Disk disk) =
  let number = Options.number in
  let of_configuration part = number (Option.map part configuration) in
  indexed
    (Raw.store disk how
       [| number (Option.map (function `Minimal -> 0 | `Always -> 1) indexing);
          number (Option.map (function `Synced -> 0 | `Written -> 1) durability); number objects_bytes;
          number hashes_bytes; number pages_bytes; number index_bytes; number tree_bytes; number chunk_bytes; number seed;
          of_configuration (fun it -> it.entries); of_configuration (fun it -> it.stable_hash);
          of_configuration (fun it -> it.child_order); number max_open_files |]
       (Option.map (fun (Cache.Cache cache) -> cache) cache)
       (Option.map (fun (Disk.Disk disk) -> disk) lower))

let create = opened 0
let open_ = opened 1
let open_read_only = opened 2
let open_or_create = opened 3
let open_irmin (Disk.Disk disk) = indexed (Raw.irmin_open disk)

type exported = { commits : int; objects : int; bytes : int; branches : int }

let export_irmin index ~scratch:(Disk.Disk scratch) (Disk.Disk target) =
  match Raw.irmin_export index.store target scratch with
  | [| commits; objects; bytes; branches |] -> { commits; objects; bytes; branches }
  | _ -> assert false

let is_irmin (Disk.Disk disk) = Raw.irmin_is_store disk

let init ?(readonly = false) folder =
  let disk = Disk.folder ~create:(not readonly) folder in
  Fun.protect
    ~finally:(fun () -> Disk.close disk)
    (fun () ->
      if readonly then open_read_only disk else open_or_create disk)

let close index = Raw.close index.store
let configuration index = index.configuration
let sync index = ignore (Raw.store_do index.store 0)
let index context = context.index
let empty index = { index; tree = Raw.store_empty_tree index.store; parents = [||] }
let is_empty context = Raw.tree_is_empty context.tree
let exists index hash = Raw.store_exists index.store (Hash.to_string hash)

let checkout index hash =
  let context tree = { index; tree; parents = [| hash |] } in
  Option.map context (Raw.store_checkout index.store (Hash.to_string hash))

let checkout_exn index hash =
  match checkout index hash with
  | Some context -> context
  | None -> raise (Error (Missing, Printf.sprintf "no commit %s is here" (Hash.to_b58check hash)))

let committed ~dry index tree parents time author message =
  let parents = Array.map Hash.to_string parents in
  hash_of (Raw.store_commit index.store tree (parents, time, author, message) dry)

let hash ~time ?(message = "") context = committed ~dry:true context.index context.tree context.parents time "Tezos" message

let commit ~time ?(message = "") context =
  committed ~dry:false context.index context.tree context.parents time "Tezos" message

let commit_with index ~parents ~time ~author ~message tree =
  committed ~dry:false index tree (Array.of_list parents) time author message

type info = { tree_hash : Hash.t; parents : Hash.t list; time : int64; author : string; message : string }

let commit_info index hash =
  let info (tree, parents, time, author, message) =
    { tree_hash = hash_of tree; parents = Lists.map hash_of parents; time; author; message }
  in
  Option.map info (Raw.store_commit_info index.store (Hash.to_string hash))

let last_commit index = Option.map hash_of (Raw.store_last_commit index.store)
let hashes = Lists.of_array hash_of
let log index limit = hashes (Raw.store_log index.store limit)

let history index heads limit =
  hashes (Raw.store_history index.store (Array.of_list (Lists.map Hash.to_string heads)) limit)

let branch index name = Option.map hash_of (Raw.store_branch index.store name)

let branches index =
  let flat = Raw.store_branches index.store in
  List.init (Array.length flat / 2) (fun at -> (flat.(2 * at), hash_of flat.((2 * at) + 1)))

let set_branch index name hash = Raw.store_set_branch index.store name (Some (Hash.to_string hash))

let test_and_set_branch index name ~expected hash =
  Raw.store_test_and_set index.store name (Option.map Hash.to_string expected) (Hash.to_string hash)

let remove_branch index name = Raw.store_set_branch index.store name None

let check index =
  let commits, nodes, values, faults = Raw.store_check index.store in
  (commits, nodes, values, Array.to_list faults)

let checkpoint index = ignore (Raw.store_do index.store 1)
let split index = ignore (Raw.store_do index.store 2)
let clear_store index = ignore (Raw.store_do index.store 3)
let rebuild_index index = ignore (Raw.store_do index.store 4)
let maintain index = Raw.store_do index.store 5

(* ---- what a store keeps ---- *)

let collect index target = Raw.store_collect index.store (Hash.to_string target)

let collect_keeping index keep =
  match keep with
  | `Newest commits -> Raw.store_collect_keeping index.store false (Int64.of_int commits)
  | `Since moment -> Raw.store_collect_keeping index.store true moment

let collect_step index ~credits = Raw.store_collect_step index.store credits

type collect_status = {
  phase : [ `None | `Marking | `Cleaning ];
  is_paused : bool;
  target : Hash.t option;
  chunks_left : int;
  left_bytes : int;
  reclaimed_bytes : int;
  collections : int;
}

let collect_status index =
  match Raw.store_collect_status index.store with
  | [| phase; is_paused; chunks_left; left_bytes; reclaimed_bytes; collections |], target ->
    let phase = match phase with 0 -> `None | 1 -> `Marking | _ -> `Cleaning in
    { phase; is_paused = is_paused <> 0; target = Option.map hash_of target; chunks_left; left_bytes; reclaimed_bytes;
      collections }
  | _ -> assert false

let collect_pause index = ignore (Raw.store_do index.store 6)
let collect_resume index = ignore (Raw.store_do index.store 7)
let collect_cancel index = Raw.store_do index.store 8
let pin index hash = ignore (Raw.store_pin index.store (Hash.to_string hash) true)
let unpin index hash = Raw.store_pin index.store (Hash.to_string hash) false
let pin_every index nth = Raw.store_pin_every index.store nth
let pins index = hashes (Raw.store_pins index.store)
let archive ?(most = max_int) index target = Raw.store_archive index.store (Some (Hash.to_string target)) most
let unarchive ?(most = max_int) index = Raw.store_archive index.store None most
let attach index = Raw.store_attach index.store
let archived_bytes index = Raw.store_archived_bytes index.store

type commit_file = { commit : Hash.t; hash : Hash.t; commits : int; stream_bytes : int; bytes : int }

let commit_file (commit, hash, commits, stream_bytes, bytes) =
  { commit = hash_of commit; hash = hash_of hash; commits; stream_bytes; bytes }

let export_commits ?zstd_level index commits (Disk.Disk disk) path =
  let commits = Array.of_list (Lists.map Hash.to_string commits) in
  commit_file (Raw.store_export index.store commits disk path (Option.value ~default:0 zstd_level))

let import_commit index (Disk.Disk disk) path = commit_file (Raw.store_import index.store disk path)
let verify_commit (Disk.Disk disk) path = commit_file (Raw.store_import disk disk path)

let create_from_commit (Disk.Disk disk) ~source:(Disk.Disk source) path =
  indexed (Raw.store_create_from_commit disk source path)

module Reader = struct
  type t = Raw.handle

  let checkout reader hash = Raw.reader_checkout reader (Hash.to_string hash)
  let branch reader name = Option.map hash_of (Raw.reader_head reader (Some name))
  let last_commit reader = Option.map hash_of (Raw.reader_head reader None)
  let close = Raw.close
end

let reader index = Raw.store_reader index.store

type stats = {
  commits : int;
  objects : int;
  pack_bytes : int;
  index_bytes : int;
  written_bytes : int;
  syncs : int;
  index_syncs : int;
  objects_bytes : int;
  chunks : int;
  epoch : int;
  generation : int;
}

let stats index =
  match Raw.store_stats index.store with
  | [| commits; objects; pack_bytes; index_bytes; written_bytes; syncs; index_syncs; objects_bytes; chunks; epoch;
       generation |] ->
    { commits; objects; pack_bytes; index_bytes; written_bytes; syncs; index_syncs; objects_bytes; chunks; epoch;
      generation }
  | _ -> assert false

let tree_of context = context.tree
let diff before after ~f = Raw.tree_diff before after f
let free_tree ?(configuration = tezos) () = Raw.tree_empty configuration
let close_tree = Raw.close

(* ---- proofs ---- *)

type kinded_hash = [ `Value of Hash.t | `Node of Hash.t ]

module Proof = struct
  (* Its trees are hashed by the configuration, which its bytes do not say. *)
  type t = { proof : Raw.handle; configuration : configuration }
  type encoding = [ `V1 | `V2 | `Irmin | `Json ]

  let number = function `V1 -> 0 | `V2 -> 1 | `Irmin -> 2 | `Json -> 3
  let kinded kind hash = if kind = 0 then `Value (hash_of hash) else `Node (hash_of hash)

  let before { proof; _ } =
    let kind, hash, _, _, _ = Raw.proof_roots proof in
    kinded kind hash

  let after { proof; _ } =
    let _, _, kind, hash, _ = Raw.proof_roots proof in
    kinded kind hash

  let is_stream { proof; _ } =
    let _, _, _, _, is_stream = Raw.proof_roots proof in
    is_stream

  let encode { proof; _ } encoding = Raw.proof_encode proof (number encoding)
  let decode_of configuration encoding text =
    { proof = Raw.proof_decode (number encoding) configuration text; configuration }

  let decode encoding text = decode_of tezos encoding text
  let close { proof; _ } = Raw.close proof
end

let decode_proof = Proof.decode_of

(* What the function answers beside the tree, taken past the library. *)
let running f =
  let kept = ref None in
  let run tree =
    let tree, answer = f tree in
    kept := Some (tree, answer);
    tree
  in
  (run, fun () -> Option.get !kept)

let produce is_stream index tree f =
  let run, kept = running f in
  let proof = Raw.proof_make tree is_stream run in
  ({ Proof.proof; configuration = index.configuration }, snd (kept ()))

let produce_tree_proof index tree f = produce false index tree f
let produce_stream_proof index tree f = produce true index tree f

let verify is_stream ?root proof f =
  if Proof.is_stream proof <> is_stream then
    raise (Error (Invalid, "a tree proof and a stream proof are verified by functions of their own"));
  let root =
    match Option.value root ~default:(Proof.before proof) with
    | `Value hash -> (0, Hash.to_string hash)
    | `Node hash -> (1, Hash.to_string hash)
  in
  let run, kept = running f in
  match Raw.proof_verify proof.Proof.proof proof.configuration root run with
  | () -> Ok (kept ())
  | exception Error (Corrupt, sentence) -> Result.Error (`Proof_mismatch sentence)

let verify_tree_proof ?root proof f = verify false ?root proof f
let verify_stream_proof ?root proof f = verify true ?root proof f
