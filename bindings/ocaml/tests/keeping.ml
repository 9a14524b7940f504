(* Shared tables and transactions, one-call openings, scrubs; what a store keeps: collections, pins, lower disks, files of
   commits, readers. *)

open Varvite

let value = Bytes.of_string
let fails = Misuse.fails
let strings = Alcotest.(list string)
let optional = Alcotest.(option string)

let shared () =
  let session = Table.Session.create ~log:`Written (Disk.memory ~seed:1 ()) in
  let table name = Table.Session.create_table ~operator:(Table.Operator.append ()) session name in
  let a = table "a" and twin = Table.duplicate (table "b") ~name:"a" in
  Table.insert a "kept" "1";
  fails Invalid (fun () -> ignore (Table.Session.share session [ a; twin ]));
  Alcotest.check optional "it was not taken" (Some "1") (Table.get a "kept");
  let shared = Table.Session.share session [ a; table "c" ] in
  fails Closed (fun () -> ignore (Table.get a "kept"));
  Table.close a;
  Alcotest.check strings "names" [ "a"; "c" ] (Table.Shared.names shared);
  let answer =
    Table.Shared.transaction shared (fun block ->
        Table.Transaction.apply block "a" [| Insert ("x", "1"); Upsert ("x", "2") |];
        Alcotest.check optional "it reads what it wrote" (Some "12") (Table.Transaction.get block "a" "x");
        Alcotest.check optional "nobody else does" None (Table.Shared.get shared "a" "x");
        let view = Table.Transaction.view block "a" in
        Table.Transaction.apply block "a" [| Delete "x" |];
        Alcotest.check optional "a view stays" (Some "12") (Table.View.get view "x");
        Alcotest.(check (list (option string)))
          "a lookup" [ None; Some "1" ]
          (Array.to_list (Table.Transaction.lookups block "a" [| "x"; "kept" |]));
        Alcotest.(check bool) "others wait" true (Table.Shared.try_begin shared = None);
        Table.Transaction.apply block "c" [| Insert ("y", "3") |];
        5)
  in
  Alcotest.(check int) "its answer" 5 answer;
  (match Table.Shared.transaction shared (fun block -> Table.Transaction.apply block "a" [| Insert ("z", "9") |]; raise Exit) with
  | () -> Alcotest.fail "it raised"
  | exception Exit -> ());
  Table.Shared.commit shared [| ("a", [| Insert ("w", "4") |]); ("c", [| Delete "y" |]) |];
  (match Table.Shared.views shared [ "c"; "a" ] with
  | [ c; a ] ->
    Alcotest.check optional "rolled back" None (Table.View.get a "z");
    Alcotest.check optional "both" None (Table.View.get c "y");
    Alcotest.check optional "of one batch" (Some "4") (Table.View.get a "w")
  | _ -> Alcotest.fail "two views");
  Table.Shared.save_snapshot ~label:"here" ~payload:"p" shared "s";
  let c = Table.Shared.remove shared "c" in
  fails Missing (fun () -> ignore (Table.Shared.view shared "c"));
  Table.Shared.add shared c;
  fails Closed (fun () -> ignore (Table.get c "y"));
  Alcotest.(check int) "no merging left" 0 (Table.Shared.work shared ~credits:1_000_000);
  (* Who would wait for a transaction that nobody uses is told. *)
  let block = Table.Shared.begin_ shared in
  Table.Shared.set_patience shared (Some 10);
  fails Busy (fun () -> ignore (Table.Shared.begin_ shared));
  fails Busy (fun () -> Table.Shared.commit shared [||]);
  fails Busy (fun () -> Table.Shared.save_snapshot shared "t");
  fails Busy (fun () -> ignore (Table.Shared.remove shared "c"));
  Table.Shared.set_patience shared (Some 0);
  fails Busy (fun () -> ignore (Table.Shared.begin_ shared));
  fails Invalid (fun () -> Table.Shared.set_patience shared (Some (-1)));
  Table.Shared.set_patience shared None;
  (* It is of no thread. *)
  Thread.join (Thread.create (fun () -> Table.Transaction.apply block "a" [| Insert ("elsewhere", "1") |]) ());
  Alcotest.check optional "of another thread" (Some "1") (Table.Transaction.get block "a" "elsewhere");
  let waited = Atomic.make false in
  let other =
    Thread.create
      (fun () ->
        Table.Shared.transaction shared (fun _ -> ());
        Atomic.set waited true)
      ()
  in
  Thread.delay 0.02;
  Alcotest.(check bool) "another thread waits" false (Atomic.get waited);
  Table.Transaction.rollback block;
  Table.Transaction.rollback block;
  Thread.join other;
  fails Closed (fun () -> Table.Transaction.commit block);
  (* One that nothing leads to is over when the collector finds it. *)
  ignore (Sys.opaque_identity (Table.Shared.begin_ shared));
  Gc.full_major ();
  ignore (Table.Shared.names shared);
  Table.Shared.transaction shared (fun _ -> ());
  Table.Session.sync_log session;
  Table.Shared.close shared;
  fails Closed (fun () -> ignore (Table.Shared.begin_ shared));
  let again = Table.Session.open_shared session in
  Alcotest.check optional "live" (Some "4") (Table.Shared.get again "a" "w");
  Table.Session.close session;
  fails Closed (fun () -> Table.Shared.commit again [| ("a", [| Delete "w" |]) |])

let[@inline never] forget shared =
  let block = Table.Shared.begin_ shared in
  Table.Transaction.apply block "t" [| Insert ("k", "forgotten") |];
  ignore (Sys.opaque_identity block)

(* A transaction that nothing leads to is rolled back when the collector finds it, whatever else the program does. *)
let forgotten () =
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let shared = Table.Session.share session [ Table.Session.create_table session "t" ] in
  let commit () = Table.Shared.commit shared [| ("t", [| Insert ("other", "1") |]) |] in
  Table.Shared.set_patience shared None;
  forget shared;
  let is_done = Atomic.make false in
  let other = Thread.create (fun () -> commit (); Atomic.set is_done true) () in
  Thread.delay 0.02;
  Alcotest.(check bool) "it waits" false (Atomic.get is_done);
  (* No call of the library here, which would close what the collector found. *)
  Gc.full_major ();
  let rec wait left =
    if left > 0 && not (Atomic.get is_done) then begin
      ignore (Sys.opaque_identity (ref left));
      Thread.delay 0.02;
      wait (left - 1)
    end
  in
  wait 500;
  Alcotest.(check bool) "it does not wait for ever" true (Atomic.get is_done);
  Thread.join other;
  (* Nor where the collector has nothing to do. *)
  Table.Shared.set_patience shared (Some 50);
  forget shared;
  commit ();
  forget shared;
  Table.Shared.transaction shared (fun block ->
      Alcotest.check optional "rolled back" None (Table.Transaction.get block "t" "k"));
  Table.Session.close session

(* A merge operator must not begin what would wait for its own caller. *)
let from_an_operator () =
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let shared = ref None in
  let join _ newer =
    Table.Transaction.rollback (Table.Shared.begin_ (Option.get !shared));
    newer
  in
  let operator = Table.Operator.make ~name:"begins" join in
  shared := Some (Table.Session.share session [ Table.Session.create_table ~operator session "t" ]);
  fails Callback (fun () ->
      Table.Shared.transaction (Option.get !shared) (fun block ->
          Table.Transaction.apply block "t" [| Insert ("k", "1"); Upsert ("k", "2") |];
          ignore (Table.Transaction.get block "t" "k")))

let opened_or_made () =
  let tables = Disk.folder (Folders.fresh ()) and contexts = Disk.folder (Folders.fresh ()) in
  for run = 1 to 3 do
    let session = Table.Session.open_or_create ~log:`Synced tables in
    let table = Table.Session.open_or_create_table ~compression:`Fast ~operator:(Table.Operator.append ()) session "t" in
    Table.upsert table "runs" "1";
    Alcotest.check optional "runs" (Some (String.make run '1')) (Table.get table "runs");
    Table.Session.close session;
    let index = Context.open_or_create contexts in
    ignore (Context.commit ~time:(Int64.of_int run) (Context.add (Context.empty index) [ "run" ] (value (string_of_int run))));
    Alcotest.(check int) "commits" run (List.length (Context.log index 10));
    Context.close index
  done

let scrubbed () =
  let folder = Folders.fresh () in
  let session = Table.Session.create (Disk.folder folder) in
  let table = Table.Session.create_table session "t" in
  Table.apply table (Array.init 20_000 (fun at -> Table.Insert (Printf.sprintf "%06d" at, String.make 40 'v')));
  Table.Session.save_snapshot session "s" [ table ];
  let all scrub =
    let parts = ref 0 in
    while Table.Scrub.work scrub ~pages:16 > 0 do
      incr parts;
      Alcotest.(check bool) "a place" true (Table.Scrub.place scrub >= 0)
    done;
    !parts
  in
  let scrub = Table.Session.scrub session in
  Alcotest.(check bool) "several parts" true (all scrub > 2);
  Alcotest.(check (list (pair string string))) "sound" [] (Table.Scrub.findings scrub);
  Table.Scrub.close scrub;
  fails Closed (fun () -> ignore (Table.Scrub.work scrub ~pages:1));
  let size path = (Unix.stat (Filename.concat folder path)).st_size in
  let largest = List.fold_left (fun a b -> if size b > size a then b else a) "lock" (Folders.files folder) in
  let file = Unix.openfile (Filename.concat folder largest) [ O_RDWR ] 0 in
  ignore (Unix.lseek file 8192 SEEK_SET);
  ignore (Unix.write_substring file "rotten" 0 6);
  Unix.close file;
  let scrub = Table.Session.scrub session in
  ignore (all scrub);
  Alcotest.check strings "the damaged file" [ largest ] (List.map fst (Table.Scrub.findings scrub));
  Table.Session.close session

let commits index count =
  let rec go context commits at =
    if at = count then List.rev commits
    else
      let context = Context.add context [ "level" ] (value (string_of_int at)) in
      let context = Context.add context [ "many"; string_of_int (at mod 4) ] (Bytes.init 5000 (fun place -> Char.chr (((place * place) + at) land 255))) in
      let hash = Context.commit ~time:(Int64.of_int at) context in
      go (Context.checkout_exn index hash) (hash :: commits) (at + 1)
  in
  Array.of_list (go (Context.empty index) [] 0)

let level index hash = Option.map Bytes.to_string (Context.find (Context.checkout_exn index hash) [ "level" ])

let finish index =
  while Context.collect_step index ~credits:64 do
    ()
  done

let collected () =
  let disk = Disk.memory ~seed:1 () in
  let index = Context.create ~chunk_bytes:10_000 disk in
  let commits = commits index 20 in
  Context.pin index commits.(3);
  Context.set_branch index "old" commits.(5);
  let before = (Context.stats index).pack_bytes in
  Context.collect index commits.(15);
  let status = Context.collect_status index in
  Alcotest.(check bool) "marking" true (status.phase = `Marking && not status.is_paused);
  Alcotest.(check (option string)) "the target" (Some (Hash.to_hex commits.(15))) (Option.map Hash.to_hex status.target);
  fails Invalid (fun () -> Context.collect index commits.(16));
  Alcotest.(check bool) "one at a time" false (Context.collect_keeping index (`Newest 1));
  Context.collect_pause index;
  Alcotest.(check bool) "paused" true (Context.collect_status index).is_paused;
  Alcotest.(check bool) "nothing is done" false (Context.collect_step index ~credits:100_000);
  Context.collect_resume index;
  finish index;
  let status = Context.collect_status index in
  Alcotest.(check bool) "over" true (status.phase = `None && status.collections = 1 && status.reclaimed_bytes > 0);
  Alcotest.(check bool) "smaller" true ((Context.stats index).pack_bytes < before);
  Array.iteri
    (fun at hash ->
      if at = 3 || at = 5 || at >= 15 then Alcotest.check optional "kept" (Some (string_of_int at)) (level index hash)
      else fails Collected (fun () -> ignore (Context.checkout index hash)))
    commits;
  fails Collected (fun () -> Context.pin index commits.(4));
  fails Missing (fun () -> Context.pin index (Hash.of_string_exn (String.make 32 'x')));
  fails Invalid (fun () -> ignore (Context.pin_every index 0));
  Alcotest.check strings "pins" [ Hash.to_hex commits.(3) ] (List.map Hash.to_hex (Context.pins index));
  Context.close index;
  let index = Context.open_ disk in
  Alcotest.(check bool) "unpinned" true (Context.unpin index commits.(3));
  Alcotest.(check bool) "once" false (Context.unpin index commits.(3));
  Alcotest.(check bool) "begun" true (Context.collect_keeping index (`Newest 2));
  Alcotest.(check bool) "ended" true (Context.collect_cancel index);
  Alcotest.(check bool) "none" false (Context.collect_cancel index);
  Alcotest.(check bool) "pinned" true (Context.pin_every index 2 > 0);
  Alcotest.(check bool) "since" true (Context.collect_keeping index (`Since 18L));
  finish index;
  List.iter (fun pin -> Alcotest.(check bool) "a pin stays" true (Context.exists index pin)) (Context.pins index);
  Context.close index

let archived () =
  let disk = Disk.folder (Folders.fresh ()) and lower = Disk.folder (Folders.fresh ()) in
  let index = Context.create ~durability:`Written ~chunk_bytes:10_000 ~lower disk in
  let commits = commits index 12 in
  Alcotest.(check bool) "moved" true (Context.archive index commits.(8) > 1);
  Alcotest.(check bool) "below" true (Context.archived_bytes index > 0);
  Alcotest.check optional "read there" (Some "0") (level index commits.(0));
  fails Invalid (fun () -> Context.collect index commits.(8));
  Context.close index;
  let index = Context.open_ ~lower disk in
  Alcotest.(check int) "one" 1 (Context.unarchive ~most:1 index);
  Alcotest.(check bool) "the rest" true (Context.unarchive index > 0 && Context.archived_bytes index = 0);
  Alcotest.(check int) "nothing is missing" 0 (Context.attach index);
  Context.close index

let travelled () =
  let files = Disk.folder (Folders.fresh ()) in
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let commits = commits index 3 in
  let both = [ commits.(1); commits.(2) ] in
  let file = Context.export_commits index both files "two" in
  let small = Context.export_commits ~zstd_level:9 index both files "small" in
  Alcotest.(check bool) "the same" true (Hash.to_hex small.hash = Hash.to_hex file.hash && small.bytes < file.bytes);
  Alcotest.(check int) "two" 2 (Context.verify_commit files "two").commits;
  fails Invalid (fun () -> ignore (Context.export_commits ~zstd_level:99 index both files "odd"));
  let other = Context.create (Disk.memory ~seed:2 ()) in
  ignore (Context.import_commit other files "small");
  Alcotest.check optional "taken over" (Some "2") (level other commits.(2));
  fails Missing (fun () -> ignore (Context.import_commit other files "nobody"));
  let made = Context.create_from_commit (Disk.memory ~seed:3 ()) ~source:files "two" in
  Alcotest.check optional "made" (Some "1") (level made commits.(1));
  List.iter Context.close [ index; other; made ]

let[@inline never] reader_alone () =
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let commits = commits index 2 in
  (Context.reader index, commits.(1))

let reader_keeps_its_store () =
  let reader, commit = reader_alone () in
  for _ = 1 to 3 do
    Gc.full_major ();
    ignore (Hash.to_hex commit);
    (* A call closes what the collector found. *)
    ignore (Context.create (Disk.memory ~seed:2 ()))
  done;
  Alcotest.(check bool) "the newest" true (Context.Reader.last_commit reader = Some commit);
  let tree = Option.get (Context.Reader.checkout reader commit) in
  Context.Reader.close reader;
  Gc.full_major ();
  ignore (Context.create (Disk.memory ~seed:3 ()));
  Alcotest.check optional "a tree" (Some "1")
    (Option.map Bytes.to_string (Context.Tree.find tree [ "level" ]))

let read_meanwhile () =
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let first = (commits index 1).(0) in
  Context.set_branch index "main" first;
  let reader = Context.reader index in
  let is_over = Atomic.make false and wrong = Atomic.make 0 and last = Atomic.make (-1) in
  let reads () =
    let rec go () =
      let is_last = Atomic.get is_over in
      let hash = Option.get (Context.Reader.branch reader "main") in
      let found = Context.Tree.find (Option.get (Context.Reader.checkout reader hash)) [ "level" ] in
      Atomic.set last (int_of_string (Bytes.to_string (Option.get found)));
      if not is_last then go ()
    in
    try go () with _ -> Atomic.incr wrong
  in
  let threads = List.init 3 (fun _ -> Thread.create reads ()) in
  let context = ref (Context.checkout_exn index first) in
  for at = 1 to 50 do
    context := Context.add !context [ "level" ] (value (string_of_int at));
    Context.set_branch index "main" (Context.commit ~time:0L !context)
  done;
  Atomic.set is_over true;
  List.iter Thread.join threads;
  Alcotest.(check int) "errors" 0 (Atomic.get wrong);
  Alcotest.(check int) "the last" 50 (Atomic.get last);
  Alcotest.(check bool) "no such commit" true
    (Context.Reader.checkout reader (Hash.of_string_exn (String.make 32 'x')) = None);
  Alcotest.(check bool) "the newest" true (Context.Reader.last_commit reader = Context.Reader.branch reader "main");
  Context.Reader.close reader;
  fails Closed (fun () -> ignore (Context.Reader.last_commit reader));
  Context.close index

let tests =
  [ Alcotest.test_case "shared tables and transactions" `Quick shared;
    Alcotest.test_case "a transaction from an operator" `Quick from_an_operator;
    Alcotest.test_case "forgotten transactions" `Quick forgotten;
    Alcotest.test_case "a reader alone" `Quick reader_keeps_its_store;
    Alcotest.test_case "opened or made" `Quick opened_or_made;
    Alcotest.test_case "scrubs" `Quick scrubbed;
    Alcotest.test_case "collections and pins" `Quick collected;
    Alcotest.test_case "lower disks" `Quick archived;
    Alcotest.test_case "files of commits" `Quick travelled;
    Alcotest.test_case "readers" `Quick read_meanwhile ]
