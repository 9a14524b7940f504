(* Tables against maps, contexts against the reference, by operations that are drawn. *)

open Varvite
module Texts = Map.Make (String)
module Gen = QCheck.Gen

let key = Gen.map (Printf.sprintf "key %02d") (Gen.int_bound 30)
let text = Gen.string_size (Gen.int_bound 80)

type step =
  | Apply of Table.operation list
  | Delete_range of string * string
  | Duplicate
  | Save
  | Look of string list

let operation : Table.operation Gen.t =
  Gen.frequency
    [ (4, Gen.map2 (fun key value -> Table.Insert (key, value)) key text);
      (2, Gen.map (fun key -> Table.Delete key) key);
      (2, Gen.map2 (fun key value -> Table.Upsert (key, value)) key text);
      (1, Gen.map2 (fun a b -> Table.Delete_range (a, b)) key key);
      (1, Gen.map (fun key -> Table.Delete_prefix (String.sub key 0 5)) key) ]

let step =
  Gen.frequency
    [ (6, Gen.map (fun all -> Apply all) (Gen.list_size (Gen.int_bound 8) operation));
      (1, Gen.map2 (fun a b -> Delete_range (min a b, max a b)) key key);
      (1, Gen.return Duplicate);
      (1, Gen.return Save);
      (3, Gen.map (fun keys -> Look keys) (Gen.list_size (Gen.int_bound 8) key)) ]

let joined older newer = older ^ newer

let applied map : Table.operation -> string Texts.t = function
  | Insert (key, value) -> Texts.add key value map
  | Delete key -> Texts.remove key map
  | Upsert (key, value) ->
    Texts.update key (function None -> Some value | Some older -> Some (joined older value)) map
  | Insert_value _ -> map
  | Delete_range (lower, before) -> Texts.filter (fun key _ -> key < lower || key >= before) map
  | Delete_prefix prefix -> Texts.filter (fun key _ -> not (String.starts_with ~prefix key)) map

(* From both ends in turn. *)
let rec zigzag it is_back =
  match if is_back then Table.Iterator.next_back it else Table.Iterator.next it with
  | None -> ([], [])
  | Some found ->
    let front, back = zigzag it (not is_back) in
    if is_back then (front, found :: back) else (found :: front, back)

let same_content table map =
  let expected = Array.of_list (Texts.bindings map) in
  let cursor = Table.cursor table in
  let backwards = Table.cursor table in
  Table.Cursor.seek_last backwards;
  let rec all step cursor = match step cursor with None -> [] | Some it -> it :: all step cursor in
  let view = Table.view table in
  let is_same =
    Table.range table = expected
    && Array.of_list (all Table.Cursor.next cursor) = expected
    && Array.of_list (List.rev (all Table.Cursor.previous backwards)) = expected
    && Table.View.range view = expected
    && (let front, back = zigzag (Table.iterate table) false in
        Array.of_list (front @ List.rev back) = expected)
    && (let keys = Table.View.iterate_keys ~prefix:"key 1" view in
        let found = Table.Keys.next_many_back keys max_int in
        Table.Keys.close keys;
        let wanted = List.filter (fun (key, _) -> String.starts_with ~prefix:"key 1" key) (Array.to_list expected) in
        Array.to_list found = List.rev_map fst wanted)
    && List.of_seq (Table.Iterator.to_seq (Table.iterate ~lower:(Excluded "key 03") table))
       = List.filter (fun (key, _) -> key > "key 03") (Array.to_list expected)
    && Table.View.count view = Array.length expected
  in
  Table.Cursor.close cursor;
  Table.Cursor.close backwards;
  Table.View.close view;
  is_same

let tables =
  QCheck.Test.make ~name:"a table is a map" ~count:60
    (QCheck.make (Gen.list_size (Gen.int_range 5 60) step))
    (fun steps ->
      let session = Table.Session.create (Disk.memory ~seed:7 ()) in
      let operator = Table.Operator.make ~name:"joined" joined in
      let table =
        ref (Table.Session.create_table ~write_buffer_bytes:1024 ~size_ratio:2 ~blob_min_bytes:60 ~operator session "t")
      in
      let count = ref 0 in
      let run map step =
        incr count;
        match step with
        | Apply all ->
          Table.apply !table (Array.of_list all);
          List.fold_left applied map all
        | Delete_range (lower, upper) ->
          Table.delete_range ~lower:(Included lower) ~upper:(Excluded upper) !table;
          Texts.filter (fun key _ -> key < lower || key >= upper) map
        | Duplicate ->
          let duplicate = Table.duplicate !table ~name:(Printf.sprintf "t%d" !count) in
          Table.insert !table "only here" "x";
          Table.close !table;
          table := duplicate;
          map
        | Save ->
          let name = Printf.sprintf "s%d" !count in
          Table.Session.save_snapshot session name [ !table ];
          let snapshot = Table.Session.open_snapshot ~operators:[ operator ] session name in
          let taken = Table.Snapshot.take snapshot (Table.name !table) in
          Table.Snapshot.close snapshot;
          Table.close !table;
          table := taken;
          map
        | Look keys ->
          let expected = List.map (fun key -> Texts.find_opt key map) keys in
          let found = Array.to_list (Table.lookups !table (Array.of_list keys)) in
          if found <> expected then QCheck.Test.fail_report "a lookup differs";
          List.iter (fun key -> if Table.get !table key <> Texts.find_opt key map then failwith "a get differs") keys;
          map
      in
      let map = List.fold_left run Texts.empty steps in
      let is_same = same_content !table map in
      Table.close !table;
      Table.Session.close session;
      is_same)

(* ---- contexts ---- *)

module Pair = Duo.Make (Context) (Reference)

let name = Gen.map string_of_int (Gen.int_bound 4)
let path = Gen.list_size (Gen.int_range 1 4) name

type change =
  | Add of string list * string
  | Remove of string list
  | Graft of string list * string list
  | Add_many of string list * int
  | Drop_many of string list * int
  | Read of string list
  | Commit

let change =
  Gen.frequency
    [ (6, Gen.map2 (fun path value -> Add (path, value)) path text);
      (3, Gen.map (fun path -> Remove path) path);
      (2, Gen.map2 (fun source target -> Graft (source, target)) path path);
      (1, Gen.map2 (fun path count -> Add_many (path, count)) path (Gen.oneofl [ 30; 33; 257; 300 ]));
      (1, Gen.map2 (fun path count -> Drop_many (path, count)) path (Gen.oneofl [ 10; 100; 280 ]));
      (4, Gen.map (fun path -> Read path) path);
      (1, Gen.return Commit) ]

let many count path act context =
  let rec go context at = if at = count then context else go (act context (path @ [ Printf.sprintf "n%d" at ])) (at + 1) in
  go context 0

let read context path =
  ignore (Pair.mem context path);
  ignore (Pair.mem_tree context path);
  ignore (Pair.find context path);
  ignore (Pair.length context path);
  ignore (Pair.list context path);
  ignore (Pair.list context ~offset:2 ~length:40 path);
  List.iter
    (fun order ->
      List.iter
        (fun depth -> ignore (Pair.fold ?depth context path ~order ~init:0 ~f:(fun _ _ count -> count + 1)))
        [ None; Some (`Eq 1); Some (`Lt 2); Some (`Le 1); Some (`Gt 1); Some (`Ge 2); Some (`Eq 0) ])
    [ `Sorted; `Undefined ];
  match Pair.find_tree context path with
  | None -> ()
  | Some tree ->
    ignore (Pair.Tree.to_value tree);
    ignore (Pair.Tree.is_empty tree);
    ignore (Pair.Tree.hash tree);
    ignore (Pair.Tree.mem_tree tree [ "1" ]);
    ignore (Pair.Tree.to_raw tree);
    ignore (Pair.Tree.equal (Pair.Tree.of_raw context (Pair.Tree.to_raw tree)) tree)

let contexts =
  QCheck.Test.make ~name:"a context is the reference" ~count:40
    (QCheck.make (Gen.list_size (Gen.int_range 5 60) change))
    (fun changes ->
      let pair = Pair.couple ~hash_every:1 (Context.create (Disk.memory ~seed:7 ())) (Reference.init "") in
      let run context = function
        | Add (path, value) -> Pair.add context path (Bytes.of_string value)
        | Remove path -> Pair.remove context path
        | Graft (source, target) -> (
          match Pair.find_tree context source with
          | Some tree -> Pair.add_tree context target tree
          | None -> Pair.add_tree context target (Pair.Tree.empty context))
        | Add_many (path, count) -> many count path (fun context path -> Pair.add context path (Bytes.of_string "n")) context
        | Drop_many (path, count) -> many count path Pair.remove context
        | Read path ->
          read context path;
          context
        | Commit ->
          let dry = Pair.hash ~time:3L ~message:"m" context in
          match Pair.commit ~time:3L ~message:"m" context with
          | exception Error (Invalid, _) when Pair.is_empty context -> context
          | hash ->
            if not (Hash.equal dry hash && Pair.exists pair hash) then failwith "the hash of a commit";
            Pair.checkout_exn pair hash
      in
      let context = List.fold_left run (Pair.empty pair) changes in
      read context [];
      Pair.close pair;
      Pair.stopped pair = None)

let tests =
  List.map
    (fun (name, test) ->
      Alcotest.test_case name `Quick (fun () -> QCheck.Test.check_exn ~rand:(Random.State.make [| 17 |]) test))
    [ ("a table is a map", tables); ("a context is the reference", contexts) ]
