open Errors
module Names = Map.Make (String)

type key = string list
type value = bytes
type tree = { node : node; mutable known : Hash.t option }
and node = Value of bytes | Directory of tree Names.t

type index = { commits : (Hash.t, tree) Hashtbl.t; mutable is_closed : bool }
type t = { index : index; tree : tree; parents : Hash.t list }

let of_node node = { node; known = None }
let nothing = of_node (Directory Names.empty)
let is_nothing tree = match tree.node with Directory children -> Names.is_empty children | Value _ -> false

(* ---- hashes ---- *)

let flat_max = 256
let branches = 32
let digest buffer = Hash.of_string_exn (Blake2b.digest (Buffer.contents buffer))
let add_be8 buffer number = Buffer.add_int64_be buffer (Int64.of_int number)

let rec add_leb buffer number =
  if number < 128 then Buffer.add_uint8 buffer number
  else begin
    Buffer.add_uint8 buffer (number land 127 lor 128);
    add_leb buffer (number lsr 7)
  end

let add_name buffer name =
  add_leb buffer (String.length name);
  Buffer.add_string buffer name

(* The seeded hash of OCaml's standard library for a text, spelled out: its numbers are of 32 bits. *)
let seeded_hash seed text =
  let word it = it land 0xffffffff in
  let times a b = word (a * b) in
  let rotated it left = word (it lsl left) lor (it lsr (32 - left)) in
  let length = String.length text in
  let h = ref (word seed) in
  let byte at = if at < length then Char.code text.[at] else 0 in
  for group = 0 to ((length + 3) / 4) - 1 do
    let at = 4 * group in
    let w = byte at lor (byte (at + 1) lsl 8) lor (byte (at + 2) lsl 16) lor (byte (at + 3) lsl 24) in
    let w = times (rotated (times w 0xcc9e2d51) 15) 0x1b873593 in
    h := word ((rotated (!h lxor w) 13 * 5) + 0xe6546b64)
  done;
  let h = !h lxor word length in
  let h = times (h lxor (h lsr 16)) 0x85ebca6b in
  let h = times (h lxor (h lsr 13)) 0xc2b2ae35 in
  (h lxor (h lsr 16)) land 0x3fffffff

let bucket ~depth name = seeded_hash depth name mod branches

(* The entries of a piece in its buckets, of which none is empty. *)
let in_buckets depth entries =
  let buckets = Array.make branches [] in
  List.iter
    (fun ((name, _) as entry) ->
      let at = bucket ~depth name in
      buckets.(at) <- entry :: buckets.(at))
    entries;
  List.filter (fun (_, entries) -> entries <> []) (Array.to_list (Array.mapi (fun at it -> (at, List.rev it)) buckets))

let rec hash_of tree =
  match tree.known with
  | Some hash -> hash
  | None ->
    let hash = match tree.node with Value value -> value_hash value | Directory children -> directory_hash children in
    tree.known <- Some hash;
    hash

and value_hash value =
  let buffer = Buffer.create (8 + Bytes.length value) in
  add_be8 buffer (Bytes.length value);
  Buffer.add_bytes buffer value;
  digest buffer

and directory_hash children =
  let entries = Names.bindings children in
  let count = List.length entries in
  if count > flat_max then piece_hash 0 entries
  else begin
    let buffer = Buffer.create 4096 in
    add_be8 buffer count;
    List.iter
      (fun (name, child) ->
        let kind = match child.node with Value _ -> '\255' | Directory _ -> '\000' in
        Buffer.add_char buffer kind;
        Buffer.add_string buffer "\000\000\000\000\000\000\000";
        add_name buffer name;
        add_be8 buffer 32;
        Buffer.add_string buffer (Hash.to_string (hash_of child)))
      entries;
    digest buffer
  end

and piece_hash depth entries =
  let buffer = Buffer.create 4096 in
  let count = List.length entries in
  if count <= branches then begin
    Buffer.add_uint8 buffer 0;
    add_leb buffer count;
    List.iter
      (fun (name, child) ->
        add_name buffer name;
        Buffer.add_uint8 buffer (match child.node with Value _ -> 1 | Directory _ -> 0);
        Buffer.add_string buffer (Hash.to_string (hash_of child)))
      entries
  end
  else begin
    let buckets = in_buckets depth entries in
    Buffer.add_uint8 buffer 1;
    add_leb buffer depth;
    add_leb buffer count;
    add_leb buffer (List.length buckets);
    List.iter
      (fun (at, entries) ->
        add_leb buffer at;
        Buffer.add_string buffer (Hash.to_string (piece_hash (depth + 1) entries)))
      buckets
  end;
  digest buffer

let commit_hash tree parents time author message =
  let buffer = Buffer.create 256 in
  let add_text text =
    add_be8 buffer (String.length text);
    Buffer.add_string buffer text
  in
  add_text (Hash.to_string (hash_of tree));
  add_be8 buffer (List.length parents);
  List.iter (fun it -> add_text (Hash.to_string it)) (List.sort Hash.compare parents);
  Buffer.add_int64_be buffer time;
  add_text author;
  add_text message;
  digest buffer

(* ---- the operations, of trees ---- *)

let children tree = match tree.node with Directory children -> children | Value _ -> Names.empty

(* In stored order: by name in a flat directory, by bucket in a larger one. *)
let stored children =
  let rec pieces depth entries =
    if List.length entries <= branches then entries
    else List.concat_map (fun (_, entries) -> pieces (depth + 1) entries) (in_buckets depth entries)
  in
  let entries = Names.bindings children in
  if List.length entries <= flat_max then entries else pieces 0 entries

module On_trees = struct
  let rec find_tree tree = function
    | [] -> Some tree
    | step :: rest -> Option.bind (Names.find_opt step (children tree)) (fun child -> find_tree child rest)

  let find tree key =
    match find_tree tree key with Some { node = Value value; _ } -> Some (Bytes.copy value) | _ -> None

  let mem tree key = find tree key <> None
  let mem_tree tree key = find_tree tree key <> None
  let at tree key = match find_tree tree key with Some found -> children found | None -> Names.empty
  let length tree key = Names.cardinal (at tree key)

  let list tree ?(offset = 0) ?(length = max_int) key =
    if offset < 0 || length < 0 then raise (Error (Invalid, "list: offset and length are not negative"));
    List.filteri (fun at _ -> at >= offset && at - offset < length) (stored (at tree key))

  let rec put tree key subtree =
    match key with
    | [] -> subtree
    | step :: rest ->
      let below = Option.value (Names.find_opt step (children tree)) ~default:nothing in
      of_node (Directory (Names.add step (put below rest subtree) (children tree)))

  (* An empty directory does not stay, but for the root. *)
  let rec remove tree key =
    match key with
    | [] -> nothing
    | step :: rest -> (
      match Names.find_opt step (children tree) with
      | None -> tree
      | Some child ->
        let left = remove child rest in
        if left == child then tree
        else if is_nothing left then of_node (Directory (Names.remove step (children tree)))
        else of_node (Directory (Names.add step left (children tree))))

  let add tree key value = put tree key (of_node (Value (Bytes.copy value)))
  let add_tree tree key subtree = if is_nothing subtree then remove tree key else put tree key subtree

  let fold ?depth tree key ~order ~init ~f =
    let is_wanted at =
      match depth with
      | None -> true
      | Some (`Eq depth) -> at = depth
      | Some (`Lt depth) -> at < depth
      | Some (`Le depth) -> at <= depth
      | Some (`Gt depth) -> at > depth
      | Some (`Ge depth) -> at >= depth
    in
    let entries children = match order with `Sorted -> Names.bindings children | `Undefined -> stored children in
    let rec walk at path tree answer =
      let answer = if is_wanted at then f (List.rev path) tree answer else answer in
      List.fold_left
        (fun answer (step, child) -> walk (at + 1) (step :: path) child answer)
        answer
        (entries (children tree))
    in
    match find_tree tree key with
    | Some ({ node = Directory _; _ } as found) -> walk 0 [] found init
    | Some { node = Value _; _ } | None -> init
end

let mem context = On_trees.mem context.tree
let mem_tree context = On_trees.mem_tree context.tree
let find context = On_trees.find context.tree
let find_tree context = On_trees.find_tree context.tree
let list context = On_trees.list context.tree
let length context = On_trees.length context.tree
let add context key value = { context with tree = On_trees.add context.tree key value }
let add_tree context key tree = { context with tree = On_trees.add_tree context.tree key tree }
let remove context key = { context with tree = On_trees.remove context.tree key }
let fold ?depth context = On_trees.fold ?depth context.tree

module Tree = struct
  include On_trees

  let empty _ = nothing
  let is_empty = is_nothing
  let kind tree = match tree.node with Value _ -> `Value | Directory _ -> `Tree
  let to_value tree = find tree []
  let of_value _ value = of_node (Value (Bytes.copy value))
  let hash = hash_of
  let equal a b = kind a = kind b && Hash.equal (hash a) (hash b)
  let clear ?depth:_ _ = ()

  type raw = [ `Value of bytes | `Tree of (string * raw) list ]

  let rec to_raw tree : raw =
    match tree.node with
    | Value value -> `Value (Bytes.copy value)
    | Directory children -> `Tree (Lists.map (fun (name, child) -> (name, to_raw child)) (Names.bindings children))

  let rec of_raw context : raw -> tree = function
    | `Value value -> of_value context value
    | `Tree children ->
      List.fold_left (fun tree (name, child) -> add_tree tree [ name ] (of_raw context child)) nothing children

  let rec pp out tree =
    match tree.node with
    | Value value -> Format.fprintf out "%S" (Bytes.to_string value)
    | Directory children ->
      let child out (name, tree) = Format.fprintf out "@[<hv 2>%S:@ %a@]" name pp tree in
      let comma out () = Format.fprintf out ",@ " in
      Format.fprintf out "@[<hv 1>{%a}@]" (Format.pp_print_list ~pp_sep:comma child) (stored children)
end

(* ---- commits ---- *)

let init ?readonly:_ _folder = { commits = Hashtbl.create 16; is_closed = false }
let close index = index.is_closed <- true

let commits index =
  if index.is_closed then raise (Error (Closed, "the reference was closed: make another"));
  index.commits

let sync index = ignore (commits index)
let index context = context.index

let empty index =
  ignore (commits index);
  { index; tree = nothing; parents = [] }

let is_empty context = is_nothing context.tree
let exists index hash = Hashtbl.mem (commits index) hash

let checkout index hash =
  Option.map (fun tree -> { index; tree; parents = [ hash ] }) (Hashtbl.find_opt (commits index) hash)

let checkout_exn index hash =
  match checkout index hash with
  | Some context -> context
  | None -> raise (Error (Missing, Printf.sprintf "no commit %s is here" (Hash.to_b58check hash)))

let hash ~time ?(message = "") context = commit_hash context.tree context.parents time "Tezos" message

let commit ~time ?message context =
  (match context.tree.node with
  | Directory children when not (Names.is_empty children) -> ()
  | _ -> raise (Error (Invalid, "only a directory with something in it can be committed: add a value first")));
  let hash = hash ~time ?message context in
  Hashtbl.replace (commits context.index) hash context.tree;
  hash
