(* What the other tests do not come by, of both faces, on folders. *)

open Varvite

let value = Bytes.of_string

let tables () =
  let folder = Folders.fresh () in
  let disk = Disk.folder folder in
  let operator = Table.Operator.make ~name:"joined" ( ^ ) in
  let session = Table.Session.create ~log:`Synced ~cache:(Cache.create 1_000_000) disk in
  let live = Table.Session.create_table ~operator session "live" in
  let other = Table.Session.create_table ~utxo:true ~blob_min_bytes:64 session "other" in
  Alcotest.(check bool) "live" true (Table.is_live live);
  Table.Session.apply session
    [| (live, [| Insert ("a", "1"); Upsert ("a", "2") |]); (other, [| Insert ("b", "3") |]) |];
  let writer = Table.Session.write_value session in
  for _ = 1 to 100 do
    Table.Writer.write writer (String.make 1000 'w')
  done;
  let long = Table.Writer.finish writer in
  Table.apply other [| Insert_value ("long", long) |];
  let found = Option.get (Table.find other [| "long" |]).(0) in
  Alcotest.(check int) "length" 100_000 (Table.Value.length found);
  let buffer = Bigarray.(Array1.create char c_layout 1500) in
  Alcotest.(check int) "its end" 1000 (Table.Value.read_at found ~offset:99_000 buffer);
  Alcotest.(check char) "its last" 'w' buffer.{999};
  Alcotest.(check (array string)) "whole" [| String.make 100_000 'w' |] (Table.Session.read_values session [| found |]);
  Table.close live;
  Table.close other;
  Table.Session.close session;
  (* What was synced is there, and the operator must be given again. *)
  let session = Table.Session.open_ ~log:`Synced disk in
  Alcotest.(check (list string)) "tables" [ "live"; "other" ] (Table.Session.live_tables session);
  let live = Table.Session.open_table ~operators:[ operator ] session "live" in
  Alcotest.(check (option string)) "operator" (Some "joined") (Table.operator_name live);
  Alcotest.(check (option string)) "an upsert" (Some "12") (Table.get live "a");
  let union = Table.Session.incremental_union session "union" [ live; Table.duplicate live ~name:"twin" ] in
  ignore (Table.supply_union_credits union 1_000_000);
  Alcotest.(check int) "no debt" 0 (Table.remaining_union_debt union);
  Alcotest.(check (option string)) "united" (Some "1212") (Table.get union "a");
  Table.Session.save_snapshot ~label:"here" ~payload:"slot 1" session "s" [ live ];
  let snapshot = Table.Session.open_snapshot ~verify:true ~label:"here" ~operators:[ operator ] session "s" in
  Alcotest.(check (list string)) "what it has" [ "here"; "slot 1"; "live" ]
    (Table.Snapshot.label snapshot :: Table.Snapshot.payload snapshot :: Table.Snapshot.tables snapshot);
  Table.Snapshot.close snapshot;
  let target = Disk.memory () in
  Table.Session.export_snapshot session "s" target;
  Table.Session.import_snapshot session target ~name:"s" ~new_name:"copy";
  Alcotest.(check (list string)) "snapshots" [ "copy"; "s" ] (Table.Session.snapshots session);
  Table.Session.delete_snapshot session "copy";
  let reader = Table.Session.open_read_only disk in
  Alcotest.(check (list string)) "read" [ "s" ] (Table.Session.snapshots reader);
  Table.Session.close reader;
  Table.Session.pause_merges session 1_000_000;
  Alcotest.(check bool) "paused" true (Table.Session.merges_are_paused session);
  Table.Session.resume_merges session;
  Alcotest.(check bool) "sound" false (Table.Session.is_poisoned session);
  Alcotest.(check bool) "counted" true ((Table.Session.stats session).keys_looked_up > 0);
  Alcotest.(check bool) "sizes" true ((Table.stats live).logical_entries_max >= 1);
  let cursor = Table.cursor ~lower:(Included "a") live in
  Alcotest.(check (option string)) "a key" (Some "a") (Table.Cursor.next_key cursor);
  Alcotest.(check (option string)) "its value" (Some "12") (Table.Cursor.value cursor);
  Table.Cursor.seek cursor "a";
  Alcotest.(check (array (pair string string))) "many" [| ("a", "12") |] (Table.Cursor.next_many cursor 5);
  Table.Cursor.close cursor;
  List.iter Table.close [ live; union ];
  Table.Session.close session;
  Alcotest.(check (list (pair string string))) "checked" [] (Table.Session.check disk)

let contexts () =
  let folder = Folders.fresh () in
  let index = Context.init folder in
  Alcotest.(check int) "Tezos" 32 (Context.configuration index).entries;
  let first = Context.commit ~time:1L ~message:"one" (Context.add (Context.empty index) [ "a"; "b" ] (value "1")) in
  let context = Context.checkout_exn index first in
  let second = Context.commit ~time:2L (Context.add context [ "a"; "c" ] (value "2")) in
  let info = Option.get (Context.commit_info index second) in
  Alcotest.(check bool) "a child" true (info.parents = [ first ] && info.author = "Tezos" && info.time = 2L);
  Alcotest.(check bool) "none" true (Context.commit_info index info.tree_hash = None);
  Alcotest.(check bool) "log" true (Context.log index 10 = [ second; first ]);
  Alcotest.(check bool) "history" true (Context.history index [ second ] 10 = [ second; first ]);
  Alcotest.(check bool) "last" true (Context.last_commit index = Some second);
  Context.set_branch index "main" first;
  Alcotest.(check bool) "moved" true (Context.test_and_set_branch index "main" ~expected:(Some first) second);
  Alcotest.(check bool) "not moved" false (Context.test_and_set_branch index "main" ~expected:(Some first) second);
  Alcotest.(check bool) "branches" true (Context.branches index = [ ("main", second) ]);
  Context.remove_branch index "main";
  Alcotest.(check bool) "gone" true (Context.branch index "main" = None);
  let after = Context.checkout_exn index second in
  let changes = ref [] in
  Context.diff (Context.tree_of context) (Context.tree_of after) ~f:(fun key before after ->
      changes := (key, before, after) :: !changes);
  Alcotest.(check bool) "diff" true (!changes = [ ([ "a"; "c" ], None, Some (value "2")) ]);
  Alcotest.(check bool) "many" true
    (Context.find_many after [| [ "a"; "b" ]; [ "a" ]; [ "a"; "c" ] |] = [| Some (value "1"); None; Some (value "2") |]);
  (* Old versions of a tree stay as they were. *)
  let one = Context.Tree.add (Context.free_tree ()) [ "x" ] (value "1") in
  let two = Context.Tree.add one [ "x" ] (value "2") in
  Alcotest.(check bool) "persistent" true
    (Context.Tree.find one [ "x" ] = Some (value "1") && Context.Tree.find two [ "x" ] = Some (value "2"));
  Context.checkpoint index;
  ignore (Context.maintain index);
  Context.split index;
  let commits, _, _, faults = Context.check index in
  Alcotest.(check bool) "sound" true (commits = 2 && faults = []);
  let reader = Context.init ~readonly:true folder in
  let third = Context.commit ~time:3L after in
  Alcotest.(check bool) "not yet" false (Context.exists reader third);
  Context.sync reader;
  Alcotest.(check bool) "now" true (Context.exists reader third);
  Context.close reader;
  Alcotest.(check int) "commits" 3 (Context.stats index).commits;
  Context.close index;
  Alcotest.(check bool) "no node's" false (Context.is_irmin (Disk.folder folder))

(* Proofs of reads and of changes, of both kinds, in each encoding; and what is not so. *)
let proofs () =
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let rec filled context at =
    if at = 600 then context else filled (Context.add context [ "big"; string_of_int at ] (value (string_of_int at))) (at + 1)
  in
  let context = filled (Context.add (Context.empty index) [ "a"; "b" ] (value "1")) 0 in
  let hash = Context.commit ~time:0L context in
  let tree = Context.tree_of (Context.checkout_exn index hash) in
  let root = `Node (Context.Tree.hash tree) in
  let work tree =
    let found = Context.Tree.find tree [ "big"; "77" ] in
    let tree = Context.Tree.add tree [ "a"; "c" ] (value "2") in
    let tree = Context.Tree.remove tree [ "big"; "78" ] in
    (tree, (found, Context.Tree.mem tree [ "a"; "b" ]))
  in
  let expected = (Some (value "77"), true) in
  let after = Context.Tree.hash (fst (work tree)) in
  List.iter
    (fun is_stream ->
      let produce f = if is_stream then Context.produce_stream_proof index tree f else Context.produce_tree_proof index tree f in
      let verify root proof f =
        if is_stream then Context.verify_stream_proof ?root proof f else Context.verify_tree_proof ?root proof f
      in
      let proof, answer = produce work in
      Alcotest.(check bool) "made" true (answer = expected);
      Alcotest.(check bool) "before and after" true
        (Context.Proof.before proof = root && Context.Proof.after proof = `Node after);
      Alcotest.(check bool) "its kind" is_stream (Context.Proof.is_stream proof);
      List.iter
        (fun encoding ->
          let decoded = Context.Proof.decode encoding (Context.Proof.encode proof encoding) in
          let is_refused root f =
            match verify root decoded f with
            | Ok _ -> Alcotest.fail "it does not hold"
            | Error (`Proof_mismatch _) -> ()
            | exception Varvite.Error (Hidden, _) -> ()
          in
          (match verify (Some root) decoded work with
          | Ok (_, answer) -> Alcotest.(check bool) "verified" true (answer = expected)
          | Error (`Proof_mismatch sentence) -> Alcotest.fail sentence);
          is_refused (Some (`Node hash)) work;
          is_refused None (fun tree -> (Context.Tree.add (fst (work tree)) [ "a"; "c" ] (value "3"), expected)))
        (if is_stream then [ `V1; `V2; `Json ] else [ `V1; `V2; `Irmin; `Json ]);
      Context.Proof.close proof;
      (* Nothing read: the tree that was given is given back. *)
      let proof, () = produce (fun tree -> (tree, ())) in
      Alcotest.(check bool) "the same" true (Context.Proof.after proof = root))
    [ false; true ]

(* Proofs of trees of another configuration, which are hashed and read otherwise. *)
let proofs_of_shapes () =
  List.iter
    (fun configuration ->
      let index = Context.create ~configuration (Disk.memory ~seed:1 ()) in
      let rec filled context at =
        if at = 40 then context else filled (Context.add context [ "d"; string_of_int at ] (value (string_of_int at))) (at + 1)
      in
      let hash = Context.commit ~time:0L (filled (Context.empty index) 0) in
      let tree = Context.tree_of (Context.checkout_exn index hash) in
      let root = `Node (Context.Tree.hash tree) in
      let work tree =
        (tree, (Context.Tree.find tree [ "d"; "7" ], List.map fst (Context.Tree.list tree [ "d" ]), Context.Tree.length tree [ "d" ]))
      in
      let _, expected = work tree in
      List.iter
        (fun is_stream ->
          let produce = if is_stream then Context.produce_stream_proof else Context.produce_tree_proof in
          let proof, answer = produce index tree work in
          Alcotest.(check bool) "made" true (answer = expected && Context.Proof.before proof = root);
          let holds proof =
            match if is_stream then Context.verify_stream_proof ~root proof work else Context.verify_tree_proof ~root proof work with
            | Ok (_, answer) -> answer = expected
            | Error (`Proof_mismatch sentence) -> Alcotest.fail sentence
          in
          Alcotest.(check bool) "verified as it was made" true (holds proof);
          List.iter
            (fun encoding ->
              let sent = Context.Proof.encode proof encoding in
              Alcotest.(check bool) "verified as it was sent" true (holds (Context.decode_proof configuration encoding sent)))
            [ `V2; `Json ])
        [ false; true ])
    [ Context.tezos; Context.tezos_binary; { Context.entries = 4; stable_hash = 16; child_order = 0 } ]

(* Copies of a session, and what follows it beside its writer. *)
let copies () =
  let folder = Folders.fresh () in
  let disk = Disk.folder folder in
  let operator = Table.Operator.make ~name:"joined" ( ^ ) in
  let session = Table.Session.create ~log:`Written ~log_file_bytes:4096 ~max_open_files:16 disk in
  let table = Table.Session.create_table ~operator ~write_buffer_bytes:4096 session "t" in
  for at = 0 to 299 do
    Table.insert table (Printf.sprintf "k%03d" at) (String.make 40 'v')
  done;
  (match Table.Session.follow session with
  | _ -> Alcotest.fail "it writes"
  | exception Error (Invalid, _) -> ());
  let reader = Table.Session.open_read_only disk in
  let follower = Table.Session.follow ~operators:[ operator ] reader in
  let before = Table.Follower.view follower "t" in
  Alcotest.(check bool) "nothing new" false (Table.Follower.reload follower);
  Table.apply table [| Delete_prefix "k1"; Delete_range ("k2", "k25"); Insert ("k100", "again"); Upsert ("k000", "!") |];
  Alcotest.(check bool) "new" true (Table.Follower.reload follower);
  Alcotest.(check (list string)) "tables" [ "t" ] (Table.Follower.tables follower);
  let after = Table.Follower.view follower "t" in
  Alcotest.(check (pair int int)) "counts" (300, 151) (Table.View.count before, Table.View.count after);
  Alcotest.(check (option string)) "joined" (Some (String.make 40 'v' ^ "!")) (Table.View.get after "k000");
  (match Table.Follower.view follower "u" with
  | _ -> Alcotest.fail "nobody is called so"
  | exception Error (Missing, _) -> ());
  Table.Follower.close follower;
  (match Table.Follower.reload follower with
  | _ -> Alcotest.fail "it was closed"
  | exception Error (Closed, _) -> ());
  Table.View.close before;
  Table.View.close after;
  Table.Session.close reader;
  let backup = Disk.memory () in
  let first = Table.Session.backup session backup in
  let again = Table.Session.backup ~verify:true session backup in
  Alcotest.(check bool) "kept" true (first.segments > 0 && again.kept_segments = first.segments && again.tables = 1);
  Table.close table;
  Table.Session.close session;
  let session = Table.Session.open_ ~log:`Written backup in
  let table = Table.Session.open_table ~operators:[ operator ] session "t" in
  Alcotest.(check (option string)) "in the backup" (Some "again") (Table.get table "k100");
  Table.close table;
  Table.Session.close session;
  (* One byte of a segment is wrong. *)
  let segment =
    List.find
      (fun path -> Filename.check_suffix path ".segment" || Filename.basename (Filename.dirname path) = "segments")
      (Folders.files folder)
  in
  let path = Filename.concat folder segment in
  let content = Bytes.of_string (Folders.content path) in
  Bytes.set content 100 (Char.chr (Char.code (Bytes.get content 100) lxor 255));
  let out = open_out_bin path in
  output_bytes out content;
  close_out out;
  let left_out = Table.Session.repair ~source:disk (Disk.memory ()) in
  Alcotest.(check bool) "left out" true (left_out.live_tables = 0 && left_out.losses <> [] && not left_out.session_was_lost);
  let target = Disk.memory () in
  let kept = Table.Session.repair ~skip_damaged:true ~seed:9 ~source:disk target in
  Alcotest.(check (pair int int)) "kept" (1, 0) (kept.live_tables, kept.whole_live_tables);
  let loss = List.find (fun (it : Table.Session.loss) -> it.keys <> None) kept.losses in
  Alcotest.(check bool) "told" true (String.length loss.detail > 10 && fst (Option.get loss.keys) <= snd (Option.get loss.keys));
  let session = Table.Session.open_ ~log:`Written target in
  Alcotest.(check (list string)) "in the new one" [ "t" ] (Table.Session.live_tables session);
  Table.Session.close session

(* A store of Irmin: written, known as one, and read. *)
let irmin () =
  let index = Context.create ~max_open_files:16 (Disk.memory ~seed:1 ()) in
  let rec filled context at =
    if at = 0 then context
    else filled (Context.add context [ "contracts"; string_of_int at; "balance" ] (value (string_of_int at))) (at - 1)
  in
  let first = Context.commit ~time:1L ~message:"one" (filled (Context.empty index) 400) in
  let second = Context.commit ~time:2L (Context.remove (Context.checkout_exn index first) [ "contracts"; "7" ]) in
  Context.set_branch index "main" second;
  let target = Disk.memory () in
  Alcotest.(check bool) "not yet" false (Context.is_irmin target);
  let exported = Context.export_irmin index ~scratch:(Disk.memory ()) target in
  Alcotest.(check (pair int int)) "exported" (2, 1) (exported.commits, exported.branches);
  Alcotest.(check bool) "it is one" true (Context.is_irmin target);
  let irmin = Context.open_irmin target in
  Alcotest.(check bool) "ours" true (Context.configuration irmin = Context.tezos);
  let same hash =
    let ours = Context.checkout_exn index hash and theirs = Context.checkout_exn irmin hash in
    Alcotest.(check bool) "the same" true
      (Context.Tree.equal (Context.tree_of ours) (Context.tree_of theirs)
      && Context.find theirs [ "contracts"; "8"; "balance" ] = Some (value "8")
      && Context.list theirs [ "contracts" ] |> List.map fst = (Context.list ours [ "contracts" ] |> List.map fst)
      && Context.commit_info irmin hash = Context.commit_info index hash)
  in
  List.iter same [ first; second ];
  Alcotest.(check bool) "removed" true (Context.find (Context.checkout_exn irmin second) [ "contracts"; "7"; "balance" ] = None);
  (match Context.commit ~time:3L (Context.checkout_exn irmin second) with
  | _ -> Alcotest.fail "it is to be read"
  | exception Error (Invalid, _) -> ());
  let proof, found =
    Context.produce_tree_proof irmin (Context.tree_of (Context.checkout_exn irmin first)) (fun tree ->
        (tree, Context.Tree.find tree [ "contracts"; "7"; "balance" ]))
  in
  Alcotest.(check bool) "proven" true (found = Some (value "7"));
  Context.Proof.close proof;
  Context.close irmin;
  (match Context.open_irmin (Disk.memory ()) with
  | _ -> Alcotest.fail "there is nothing"
  | exception Error ((Missing | Corrupt | Invalid), _) -> ());
  Context.close index

let tests =
  [ Alcotest.test_case "tables" `Quick tables;
    Alcotest.test_case "contexts" `Quick contexts;
    Alcotest.test_case "copies" `Quick copies;
    Alcotest.test_case "stores of Irmin" `Quick irmin;
    Alcotest.test_case "proofs" `Quick proofs;
    Alcotest.test_case "proofs of other configurations" `Quick proofs_of_shapes ]
