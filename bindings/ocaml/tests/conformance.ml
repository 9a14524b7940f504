(* Replays the conformance files: the same answers, and the same bytes on disk. *)

open Varvite
open Json

let crc32 text =
  let crc = ref 0xffffffff in
  String.iter
    (fun letter ->
      crc := !crc lxor Char.code letter;
      for _ = 1 to 8 do
        crc := (!crc lsr 1) lxor (0xedb88320 land -(!crc land 1))
      done)
    text;
  !crc lxor 0xffffffff

let compare_files folder line =
  let expected =
    List.map
      (fun it ->
        match list it with
        | [ path; length; crc ] -> (text path, number length, number crc)
        | _ -> failwith "a file has three members")
      (list (member "files" line))
  in
  let found =
    List.filter_map
      (fun path ->
        if Filename.basename path = "lock" then None
        else
          let content = Folders.content (Filename.concat folder path) in
          Some (path, String.length content, crc32 content))
      (Folders.files folder)
  in
  Alcotest.(check (list (triple string int int))) "the files" (List.sort compare expected) (List.sort compare found)

let found line = List.map optional (list (member "found" line))
let values = Alcotest.(list (option string))

let operation it : Table.operation =
  match list it with
  | [ Text "insert"; key; value ] -> Insert (bytes key, bytes value)
  | [ Text "upsert"; key; value ] -> Upsert (bytes key, bytes value)
  | [ Text "delete"; key ] -> Delete (bytes key)
  | [ Text "delete_range"; lower; before ] -> Delete_range (bytes lower, bytes before)
  | [ Text "delete_prefix"; prefix ] -> Delete_prefix (bytes prefix)
  | _ -> failwith "an operation that nobody knows"

let operations it = Array.of_list (List.map operation (list it))

let transaction shared line =
  let block = Table.Shared.begin_ shared in
  let step it =
    match list it with
    | [ Text "update"; table; given ] -> Table.Transaction.apply block (text table) (operations given)
    | [ Text "lookup"; table; keys; found ] ->
      let keys = Array.of_list (List.map bytes (list keys)) in
      let answer = Array.to_list (Table.Transaction.lookups block (text table) keys) in
      Alcotest.check values "a lookup in a transaction" (List.map optional (list found)) answer
    | _ -> failwith "a step that nobody knows"
  in
  List.iter step (list (member "steps" line));
  if text (member "ends" line) = "commit" then Table.Transaction.commit block else Table.Transaction.rollback block

(* The answers of a cursor from a key on, step by step. *)
let steps table line =
  let cursor = Table.cursor table in
  Table.Cursor.seek cursor (bytes (member "key" line));
  let step letter =
    match if letter = 'n' then Table.Cursor.next cursor else Table.Cursor.previous cursor with
    | Some (key, value) -> [ Some key; Some value ]
    | None -> [ None; None ]
  in
  let answer = List.concat_map step (List.of_seq (String.to_seq (text (member "steps" line)))) in
  Table.Cursor.close cursor;
  Alcotest.check values "a cursor" (found line) answer

(* A call that raises the kind which the line says. *)
let refused do_line line =
  let call = member "call" line and kind = text (member "kind" line) in
  match do_line (text (member "do" call)) call with
  | () -> Alcotest.failf "%s was not refused" (text (member "do" call))
  | exception Error (raised, _) -> Alcotest.(check string) "the kind" kind (kind_name raised)

let log_of line =
  match Option.map text (member_opt "log" line) with
  | None -> `None
  | Some "written" -> `Written
  | Some "synced" -> `Synced
  | Some name -> failwith name

let table_line folder =
  let disk = Disk.folder folder in
  let session = ref None and tables = Hashtbl.create 8 and shared = ref None in
  let the_session () = Option.get !session in
  let table ?(of_ = "table") line = Hashtbl.find tables (text (member of_ line)) in
  let rec do_line what line =
    match what with
    | "create_session" ->
      session := Some (Table.Session.create ~log:(log_of line) ~seed:(number (member "seed" line)) disk)
    | "open_session" ->
      session := Some (Table.Session.open_ ~log:(log_of line) ~seed:(number (member "seed" line)) disk)
    | "open_table" ->
      let name = text (member "table" line) in
      Hashtbl.replace tables name (Table.Session.open_table (the_session ()) name)
    | "live_tables" ->
      Alcotest.check values "the live tables" (found line) (List.map Option.some (Table.Session.live_tables (the_session ())))
    | "cursor" -> steps (table line) line
    | "refused" -> refused do_line line
    | "create_table" ->
      let option name = number (member name line) in
      let operator =
        match text (member "operator" line) with
        | "append" -> Table.Operator.append ()
        | "max" -> Table.Operator.max ()
        | "add-u64" -> Table.Operator.add_u64 ()
        | name -> failwith name
      in
      let name = text (member "table" line) in
      Hashtbl.replace tables name
        (Table.Session.create_table ~write_buffer_bytes:(option "write_buffer_bytes") ~size_ratio:(option "size_ratio")
           ~blob_min_bytes:(option "blob_min_bytes") ~operator (the_session ()) name);
      Table.Operator.close operator
    | "update" ->
      Table.apply (table line) (operations (member "operations" line))
    | "share" ->
      let names = List.map text (list (member "tables" line)) in
      shared := Some (Table.Session.share (the_session ()) (List.map (Hashtbl.find tables) names));
      List.iter (Hashtbl.remove tables) names
    | "transaction" -> transaction (Option.get !shared) line
    | "shared_lookup" ->
      let keys = Array.of_list (List.map bytes (list (member "keys" line))) in
      let answer = Table.Shared.lookups (Option.get !shared) (text (member "table" line)) keys in
      Alcotest.check values "a lookup" (found line) (Array.to_list answer)
    | "save_shared" ->
      Table.Shared.save_snapshot ~label:(text (member "label" line)) ~payload:(bytes (member "payload" line))
        (Option.get !shared)
        (text (member "snapshot" line))
    | "lookup" ->
      let keys = Array.of_list (List.map bytes (list (member "keys" line))) in
      Alcotest.check values "a lookup" (found line) (Array.to_list (Table.lookups (table line) keys))
    | "range" ->
      let bound name wrap = match member name line with Null -> Table.Unbounded | it -> wrap (bytes it) in
      let lower = bound "from" (fun it -> Table.Included it) and upper = bound "before" (fun it -> Table.Excluded it) in
      let range = Array.to_list (Table.range ~lower ~upper (table line)) in
      Alcotest.check values "a range" (found line) (List.concat_map (fun (key, value) -> [ Some key; Some value ]) range)
    | "delete_range" ->
      Table.delete_range (table line) ~lower:(Included (bytes (member "from" line))) ~upper:(Excluded (bytes (member "before" line)))
    | "prefix" ->
      let range = List.of_seq (Table.Iterator.to_seq (Table.iterate ~prefix:(bytes (member "prefix" line)) (table line))) in
      Alcotest.check values "a prefix" (found line) (List.concat_map (fun (key, value) -> [ Some key; Some value ]) range)
    | "keys_back" ->
      let keys = Table.iterate_keys ~prefix:(bytes (member "prefix" line)) (table line) in
      Alcotest.check values "keys" (found line) (Array.to_list (Array.map Option.some (Table.Keys.next_many_back keys max_int)));
      Table.Keys.close keys
    | "union" ->
      let of_ = List.map (fun it -> Hashtbl.find tables (text it)) (list (member "of" line)) in
      let name = text (member "table" line) in
      Hashtbl.replace tables name (Table.Session.union (the_session ()) name of_)
    | "save_snapshot" ->
      Table.Session.save_snapshot ~label:(text (member "label" line)) ~payload:(bytes (member "payload" line))
        (the_session ())
        (text (member "snapshot" line))
        (List.map (fun it -> Hashtbl.find tables (text it)) (list (member "tables" line)))
    | "open_snapshot" ->
      let snapshot = Table.Session.open_snapshot (the_session ()) (text (member "snapshot" line)) in
      let name = text (member "take" line) in
      Hashtbl.replace tables name (Table.Snapshot.take snapshot name);
      Table.Snapshot.close snapshot
    | "close_session" ->
      Option.iter Table.Shared.close !shared;
      shared := None;
      Hashtbl.iter (fun _ table -> Table.close table) tables;
      Hashtbl.reset tables;
      Table.Session.close (the_session ());
      compare_files folder line
    | what -> failwith ("nobody knows how to do " ^ what)
  in
  do_line

let kind_of tree = match Context.Tree.kind tree with `Value -> "value" | `Tree -> "directory"

(* Lists of lists of bytes, each behind a word. *)
let rows = Alcotest.(list (pair string (list string)))

let fold tree path line =
  let each key tree all = (kind_of tree, key) :: all in
  let answer = List.rev (Context.Tree.fold tree path ~order:`Sorted ~init:[] ~f:each) in
  let row it = match list it with kind :: key -> (text kind, List.map bytes key) | [] -> failwith "no kind" in
  Alcotest.check rows "a fold" (List.map row (list (member "found" line))) answer

let diff before after line =
  let answer = ref [] in
  let side = Option.map Bytes.to_string in
  Context.diff before after ~f:(fun key old later -> answer := (side old, (side later, key)) :: !answer);
  let row it =
    match list it with
    | old :: later :: key -> (optional old, (optional later, List.map bytes key))
    | _ -> failwith "a difference has two sides"
  in
  let rows = Alcotest.(list (pair (option string) (pair (option string) (list string)))) in
  Alcotest.check rows "a difference" (List.map row (list (member "found" line))) (List.rev !answer)

let compare_list line answer =
  let rec expected = function
    | [] -> []
    | name :: kind :: rest -> (bytes name, text kind) :: expected rest
    | _ -> failwith "a list has names and kinds"
  in
  let answer = List.map (fun (name, tree) -> (name, kind_of tree)) answer in
  Alcotest.(check (list (pair string string))) "a list" (expected (list (member "found" line))) answer

let context_line folder =
  let disk = Disk.folder folder in
  let store = ref None and trees = Hashtbl.create 8 in
  let the_store () = Option.get !store in
  let tree line = Hashtbl.find trees (text (member "tree" line)) in
  let keep line tree = Hashtbl.replace trees (text (member "tree" line)) tree in
  let path line = List.map bytes (list (member "path" line)) in
  let hash it = Hash.of_string_exn (bytes it) in
  let same_hash line found =
    Alcotest.(check string) "a hash" (text (member "hash" line)) (Hash.to_hex found)
  in
  let rec do_line what line =
    match what with
    | "open_store" -> store := Some (Context.open_ ~seed:(number (member "seed" line)) disk)
    | "branch" ->
      let answer = Option.map Hash.to_string (Context.branch (the_store ()) (bytes (member "branch" line))) in
      Alcotest.(check (option string)) "a branch" (optional (member "found" line)) answer
    | "fold" -> fold (tree line) (path line) line
    | "diff" -> diff (tree line) (Hashtbl.find trees (text (member "after" line))) line
    | "page" ->
      let offset = number (member "offset" line) and length = number (member "length" line) in
      compare_list line (Context.Tree.list (tree line) ~offset ~length []);
      Alcotest.(check int) "how many" (number (member "count" line)) (Context.Tree.length (tree line) [])
    | "refused" -> refused do_line line
    | "create_store" ->
      let chunk_bytes = Option.map number (member_opt "chunk_bytes" line) in
      let of_name = function "tezos-binary" -> Context.tezos_binary | name -> failwith name in
      let configuration = Option.map (fun it -> of_name (text it)) (member_opt "configuration" line) in
      store := Some (Context.create ?configuration ?chunk_bytes ~seed:(number (member "seed" line)) disk)
    | "pin" -> Context.pin (the_store ()) (hash (member "commit" line))
    | "unpin" ->
      let was = Context.unpin (the_store ()) (hash (member "commit" line)) in
      Alcotest.(check bool) "whether it was pinned" (number (member "was" line) = 1) was
    | "pin_every" ->
      let added = Context.pin_every (the_store ()) (number (member "nth" line)) in
      Alcotest.(check int) "how many were pinned" (number (member "added" line)) added
    | "pins" ->
      let pins = List.map (fun pin -> Some (Hash.to_string pin)) (Context.pins (the_store ())) in
      Alcotest.check values "the pins" (found line) pins
    | "collect" -> Context.collect (the_store ()) (hash (member "commit" line))
    | "collect_keep" ->
      let began = Context.collect_keeping (the_store ()) (`Newest (number (member "newest" line))) in
      Alcotest.(check bool) "whether it began" (number (member "began" line) = 1) began
    | "collect_to_the_end" ->
      while Context.collect_step (the_store ()) ~credits:(number (member "credits" line)) do
        ()
      done
    | "is_collected" -> (
      match Context.checkout (the_store ()) (hash (member "commit" line)) with
      | _ -> Alcotest.fail "a commit that was collected is there"
      | exception Error (Collected, _) -> ())
    | "empty_tree" -> keep line (Context.tree_of (Context.empty (the_store ())))
    | "checkout" -> keep line (Context.tree_of (Context.checkout_exn (the_store ()) (hash (member "commit" line))))
    | "add" -> keep line (Context.Tree.add (tree line) (path line) (Bytes.of_string (bytes (member "value" line))))
    | "remove" -> keep line (Context.Tree.remove (tree line) (path line))
    | "find" ->
      let answer = Option.map Bytes.to_string (Context.Tree.find (tree line) (path line)) in
      Alcotest.(check (option string)) "a find" (optional (member "found" line)) answer
    | "list" ->
      compare_list line (Context.Tree.list (tree line) (path line))
    | "hash" -> same_hash line (Context.Tree.hash (tree line))
    | "commit" ->
      same_hash line
        (Context.commit_with (the_store ())
           ~parents:(List.map hash (list (member "parents" line)))
           ~time:(Int64.of_int (number (member "date" line)))
           ~author:(bytes (member "author" line))
           ~message:(bytes (member "message" line))
           (tree line))
    | "set_branch" ->
      Context.set_branch (the_store ()) (bytes (member "branch" line)) (hash (member "commit" line))
    | "prove_finds" ->
      let finds tree =
        List.iter
          (fun path -> ignore (Context.Tree.find tree (List.map bytes (list path))))
          (list (member "paths" line));
        (tree, ())
      in
      let encoding =
        match text (member "encoding" line) with
        | "v1" -> `V1
        | "v2" -> `V2
        | "irmin" -> `Irmin
        | "json" -> `Json
        | name -> failwith name
      in
      let is_stream = number (member "stream" line) = 1 in
      let produce = if is_stream then Context.produce_stream_proof else Context.produce_tree_proof in
      let verify = if is_stream then Context.verify_stream_proof else Context.verify_tree_proof in
      let proof, () = produce (the_store ()) (tree line) finds in
      let encoded = Context.Proof.encode proof encoding in
      Alcotest.(check string) "a proof" (bytes (member "proof" line)) encoded;
      let root = `Node (Context.Tree.hash (tree line)) in
      let configuration = Context.configuration (the_store ()) in
      let decoded =
        if configuration = Context.tezos then Context.Proof.decode encoding encoded
        else Context.decode_proof configuration encoding encoded
      in
      (match verify ~root decoded finds with
      | Ok _ -> ()
      | Error (`Proof_mismatch sentence) -> Alcotest.fail sentence)
    | "close_store" ->
      Hashtbl.iter (fun _ tree -> Context.close_tree tree) trees;
      Hashtbl.reset trees;
      Context.close (the_store ());
      compare_files folder line
    | what -> failwith ("nobody knows how to do " ^ what)
  in
  do_line

let replay name do_line () =
  let file = open_in (Filename.concat (Sys.getenv "VARVITE_CONFORMANCE") (name ^ ".jsonl")) in
  let do_line = do_line (Folders.fresh ()) in
  let rec go count =
    match input_line file with
    | exception End_of_file -> count
    | text ->
      let line = read text in
      (try do_line (Json.text (member "do" line)) line
       with raised -> Alcotest.failf "line %d of %s.jsonl: %s" (count + 1) name (Printexc.to_string raised));
      go (count + 1)
  in
  Alcotest.(check bool) "the file has lines" true (go 0 > 20)

let tests =
  [ Alcotest.test_case "of tables" `Quick (replay "table" table_line);
    Alcotest.test_case "of contexts" `Quick (replay "context" context_line);
    Alcotest.test_case "of collections" `Quick (replay "collect" context_line);
    Alcotest.test_case "of the binary shape" `Quick (replay "binary" context_line);
    Alcotest.test_case "of what is logged" `Quick (replay "logged" table_line);
    Alcotest.test_case "of walks" `Quick (replay "walked" context_line) ]
