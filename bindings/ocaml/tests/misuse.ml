(* What a program must not do, done: an error, never a crash. *)

open Varvite

let kind = Alcotest.testable (fun out it -> Format.pp_print_string out (kind_name it)) ( = )

let fails expected f =
  match f () with
  | _ -> Alcotest.failf "%s was expected" (kind_name expected)
  | exception Error (found, sentence) ->
    Alcotest.check kind sentence expected found;
    Alcotest.(check bool) "a sentence" true (String.length sentence > 10)

let value = Bytes.of_string
let session () = Table.Session.create (Disk.memory ~seed:1 ())
let index () = Context.create (Disk.memory ~seed:1 ())

let closed () =
  let disk = Disk.memory () in
  let session = Table.Session.create disk in
  let table = Table.Session.create_table session "t" in
  Table.insert table "a" "1";
  let view = Table.view table and cursor = Table.cursor table in
  let value = Option.get (Table.find table [| "a" |]).(0) in
  Table.Session.save_snapshot session "s" [ table ];
  let snapshot = Table.Session.open_snapshot session "s" in
  Table.close table;
  Table.close table;
  fails Closed (fun () -> Table.get table "a");
  fails Closed (fun () -> Table.insert table "a" "2");
  fails Closed (fun () -> ignore (Table.view table));
  Table.View.close view;
  fails Closed (fun () -> ignore (Table.View.get view "a"));
  fails Closed (fun () -> ignore (Table.View.count view));
  Table.Cursor.close cursor;
  fails Closed (fun () -> ignore (Table.Cursor.next cursor));
  fails Closed (fun () -> ignore (Table.Cursor.next_many cursor 3));
  Table.Value.close value;
  fails Closed (fun () -> ignore (Table.Value.length value));
  Table.Snapshot.close snapshot;
  fails Closed (fun () -> ignore (Table.Snapshot.take snapshot "t"));
  let writer = Table.Session.write_value session in
  Table.Writer.write writer "piece";
  ignore (Table.Writer.finish writer);
  fails Closed (fun () -> Table.Writer.write writer "piece");
  let loader = Table.Session.load_table session "l" in
  Table.Loader.push loader [| ("a", "1"); ("b", "2") |];
  let loaded = Table.Loader.finish loader in
  Alcotest.(check (option string)) "loaded" (Some "2") (Table.get loaded "b");
  fails Closed (fun () -> Table.Loader.push loader [| ("c", "3") |]);
  Table.Session.close session;
  Table.Session.close session;
  fails Closed (fun () -> ignore (Table.Session.create_table session "u"));
  fails Closed (fun () -> Table.insert loaded "a" "2");
  Disk.close disk;
  fails Closed (fun () -> ignore (Table.Session.open_ disk))

let closed_contexts () =
  let index = index () in
  let context = Context.add (Context.empty index) [ "a" ] (value "1") in
  let hash = Context.commit ~time:0L context in
  let tree = Context.Tree.empty context in
  Context.close_tree tree;
  fails Closed (fun () -> ignore (Context.Tree.find tree [ "a" ]));
  fails Closed (fun () -> ignore (Context.Tree.add tree [ "a" ] (value "2")));
  fails Closed (fun () -> ignore (Context.add_tree context [ "b" ] tree));
  fails Closed (fun () -> Context.Tree.fold tree [] ~order:`Sorted ~init:() ~f:(fun _ _ () -> ()));
  Context.close index;
  Context.close index;
  fails Closed (fun () -> ignore (Context.checkout index hash));
  fails Closed (fun () -> ignore (Context.commit ~time:1L context));
  Alcotest.(check bool) "what was read stays readable" true (Context.find context [ "a" ] = Some (value "1"))

let wrong () =
  let session = session () in
  let table = Table.Session.create_table session "t" in
  fails Exists (fun () -> ignore (Table.Session.create_table session "t"));
  Table.Session.save_snapshot session "s" [ table ];
  fails Exists (fun () -> Table.Session.save_snapshot session "s" [ table ]);
  fails Missing (fun () -> ignore (Table.Session.open_snapshot session "nobody"));
  fails Invalid (fun () -> Table.upsert table "a" "1");
  fails Invalid (fun () -> ignore (Table.Session.create_table ~size_ratio:99 session "u"));
  Alcotest.check_raises "a NUL" (Invalid_argument "Varvite: a name has a NUL in it") (fun () ->
      ignore (Table.Session.create_table session "a\000b"));
  fails Missing (fun () -> ignore (Context.open_ (Disk.folder (Folders.fresh ()))));
  let index = index () in
  let context = Context.empty index in
  fails Invalid (fun () -> ignore (Context.list context ~offset:(-1) []));
  fails Invalid (fun () -> ignore (Context.add context [ String.make 100_000 'x' ] (value "")));
  fails Missing (fun () -> ignore (Context.checkout_exn index (Hash.of_string_exn (String.make 32 'x'))));
  fails Invalid (fun () -> ignore (Hash.of_string_exn "short"));
  (match Context.Proof.decode `V1 "no proof" with
  | _ -> Alcotest.fail "it is no proof"
  | exception Error _ -> ());
  let folder = Folders.fresh () in
  let first = Context.init folder in
  fails Locked (fun () -> ignore (Context.init folder));
  Context.close first

exception Mine of int

(* An operator that raises fails what needed it, and changes nothing. *)
let operators () =
  let is_bad = ref false in
  let operator =
    Table.Operator.make ~name:"careful" (fun older newer -> if !is_bad then raise (Mine 7) else older ^ newer)
  in
  let session = session () in
  let table = Table.Session.create_table ~operator session "t" in
  Table.insert table "a" "1";
  Table.upsert table "a" "2";
  is_bad := true;
  (match Table.upsert table "a" "3"; Table.get table "a" with
  | _ -> Alcotest.fail "it was to raise"
  | exception Error (Callback, sentence) ->
    let has part =
      let length = String.length part in
      let rec at it = it + length <= String.length sentence && (String.sub sentence it length = part || at (it + 1)) in
      at 0
    in
    Alcotest.(check bool) sentence true (has "Mine(7)"));
  (* Memory and stack that are not there. *)
  List.iter
    (fun (name, fault) ->
      let bad = Table.Operator.make ~name (fun _ _ -> fault ()) in
      let table = Table.Session.create_table ~operator:bad session name in
      Table.insert table "a" "1";
      fails Callback (fun () ->
          Table.upsert table "a" "2";
          ignore (Table.get table "a")))
    [ ("memory", fun () -> Bytes.to_string (Bytes.create (Sys.max_string_length / 2)));
      ("stack", fun () ->
        let rec deep at = if at < 0 then "" else deep (at + 1) ^ "x" in
        deep 0) ];
  is_bad := false;
  let found = Table.get table "a" in
  Alcotest.(check bool) "whole" true (found = Some "12" || found = Some "123");
  (* The library is refused in an operator. *)
  let within = ref None in
  let asks =
    Table.Operator.make ~name:"asks" (fun older newer ->
        (match Table.get table "a" with
        | _ -> within := Some "answered"
        | exception Error (kind, _) -> within := Some (kind_name kind));
        older ^ newer)
  in
  let other = Table.Session.create_table ~operator:asks session "u" in
  Table.insert other "a" "1";
  Table.upsert other "a" "2";
  Alcotest.(check (option string)) "joined" (Some "12") (Table.get other "a");
  Alcotest.(check bool) "refused" true (!within <> None && !within <> Some "answered");
  (* What the collector moves while an operator runs. *)
  let allocates =
    Table.Operator.make ~name:"allocates" (fun older newer ->
        ignore (List.init 1000 string_of_int);
        Gc.minor ();
        older ^ newer)
  in
  let third = Table.Session.create_table ~operator:allocates ~write_buffer_bytes:1024 session "v" in
  for number = 0 to 499 do
    Table.upsert third (string_of_int (number mod 10)) "x"
  done;
  Alcotest.(check (option string)) "all" (Some (String.make 50 'x')) (Table.get third "3")

(* What is refused in an operator, which runs in the library's middle, can be done when it has returned. *)
let refused () =
  let session = session () in
  let within = ref (fun () -> ()) in
  let operator =
    Table.Operator.make ~name:"asks" (fun older newer ->
        !within ();
        older ^ newer)
  in
  let table = Table.Session.create_table ~operator session "t" in
  let other = Table.Session.create_table session "u" in
  Table.apply other [| Insert ("a", "1"); Insert ("b", "2") |];
  let view = Table.view other and cursor = Table.cursor other and iterator = Table.iterate other in
  let loader = Table.Session.load_table session "l" and writer = Table.Session.write_value session in
  Table.Loader.push loader [| ("a", "1") |];
  let refusals = ref 0 in
  let is_refused f =
    match f () with
    | () -> Alcotest.fail "an operator may call nothing"
    | exception Error (Invalid, _) -> incr refusals
  in
  (within :=
     fun () ->
       within := ignore;
       List.iter is_refused
         [ (fun () -> Table.close other);
           (fun () -> Table.View.close view);
           (fun () -> Table.Cursor.close cursor);
           (fun () -> Table.Iterator.close iterator);
           (fun () -> Table.Session.close session);
           (fun () -> ignore (Table.Loader.finish loader));
           (fun () -> ignore (Table.Writer.finish writer)) ]);
  Table.insert table "a" "1";
  Table.upsert table "a" "2";
  Alcotest.(check (option string)) "joined" (Some "12") (Table.get table "a");
  Alcotest.(check int) "refused" 7 !refusals;
  (* They are as open as before, *)
  Alcotest.(check (option string)) "a table" (Some "1") (Table.get other "a");
  Alcotest.(check (option string)) "a view" (Some "2") (Table.View.get view "b");
  Alcotest.(check bool) "a cursor" true (Table.Cursor.next_key cursor = Some "a");
  Alcotest.(check bool) "an iterator" true (Table.Iterator.next_back iterator = Some ("b", "2"));
  Table.Loader.push loader [| ("b", "2") |];
  Table.Writer.write writer "piece";
  (* and a close closes them. *)
  Table.View.close view;
  fails Closed (fun () -> ignore (Table.View.get view "b"));
  Table.Cursor.close cursor;
  fails Closed (fun () -> ignore (Table.Cursor.next cursor));
  Table.Iterator.close iterator;
  Table.Iterator.close iterator;
  fails Closed (fun () -> ignore (Table.Iterator.next iterator));
  Table.close other;
  fails Closed (fun () -> ignore (Table.get other "a"));
  Table.Writer.close writer;
  fails Closed (fun () -> Table.Writer.write writer "piece");
  let loaded = Table.Loader.finish loader in
  Table.Loader.close loader;
  Alcotest.(check (option string)) "loaded" (Some "2") (Table.get loaded "b");
  (* A finish that fails closes; to close once more does nothing. *)
  let loader = Table.Session.load_table session "l" and writer = Table.Session.write_value session in
  Table.Session.close session;
  fails Closed (fun () -> ignore (Table.Loader.finish loader));
  fails Closed (fun () -> ignore (Table.Writer.finish writer));
  Table.Loader.close loader;
  Table.Writer.close writer

(* Numbers that the other side has no room for. *)
let numbers () =
  let invalid name f =
    match f () with
    | _ -> Alcotest.failf "%s was taken" name
    | exception Invalid_argument sentence ->
      Alcotest.(check bool) sentence true (String.length sentence > 20)
  in
  let big = 1 lsl 32 in
  let create ?queue_depth ?memory_bytes ?segment_bytes ?log_file_bytes ?max_open_files ?seed () =
    ignore
      (Table.Session.create ?queue_depth ?memory_bytes ?segment_bytes ?log_file_bytes ?max_open_files ?seed (Disk.memory ()))
  in
  let below = -1 in
  invalid "queue_depth" (fun () -> create ~queue_depth:(big + 8) ());
  invalid "queue_depth" (fun () -> create ~queue_depth:below ());
  invalid "memory_bytes" (fun () -> create ~memory_bytes:below ());
  invalid "segment_bytes" (fun () -> create ~segment_bytes:below ());
  invalid "log_file_bytes" (fun () -> create ~log_file_bytes:below ());
  invalid "max_open_files" (fun () -> create ~max_open_files:below ());
  invalid "seed" (fun () -> create ~seed:below ());
  invalid "a seed" (fun () -> ignore (Disk.memory ~seed:below ()));
  invalid "a cache" (fun () -> ignore (Cache.create below));
  fails Invalid (fun () -> ignore (Cache.create max_int));
  let session = session () in
  let table ?size_ratio ?write_buffer_bytes ?filter_bytes_max ?filter_bits ?blob_min_bytes ?within_memory () =
    Table.Session.create_table ?size_ratio ?write_buffer_bytes ?filter_bytes_max ?filter_bits ?blob_min_bytes
      ?within_memory session "t"
  in
  (* These would be 4, 8 and 64 if they were cut. *)
  invalid "size_ratio" (fun () -> table ~size_ratio:(big + 4) ());
  invalid "filter_bits" (fun () -> table ~filter_bits:(big + 8) ());
  invalid "blob_min_bytes" (fun () -> table ~blob_min_bytes:(big + 64) ());
  invalid "size_ratio" (fun () -> table ~size_ratio:below ());
  invalid "write_buffer_bytes" (fun () -> table ~write_buffer_bytes:below ());
  invalid "filter_bytes_max" (fun () -> table ~filter_bytes_max:below ());
  invalid "within_memory" (fun () -> table ~within_memory:below ());
  let table = table () in
  Table.insert table "a" "1";
  invalid "credits" (fun () -> Table.work table ~credits:below);
  invalid "credits" (fun () -> Table.supply_union_credits table min_int);
  Alcotest.(check int) "nothing is left" 0 (Table.work table ~credits:max_int);
  invalid "bytes" (fun () -> Table.Session.pause_merges session below);
  invalid "sort_bytes" (fun () -> Table.Session.load_table ~sort_bytes:below session "l");
  fails Invalid (fun () -> ignore (Table.Session.load_table ~sort_bytes:max_int session "l"));
  let cursor = Table.cursor table and iterator = Table.iterate table in
  invalid "a limit" (fun () -> Table.Cursor.next_many cursor below);
  invalid "a limit" (fun () -> Table.Iterator.next_many iterator below);
  Alcotest.(check int) "all" 1 (Array.length (Table.Iterator.next_many iterator max_int));
  let found = Option.get (Table.find table [| "a" |]).(0) in
  invalid "an offset" (fun () -> Table.Value.read_at found ~offset:below Bigarray.(Array1.create char c_layout 1));
  invalid "a prefix and a bound" (fun () -> Table.iterate ~prefix:"a" ~lower:(Included "a") table);
  let index = index () in
  let tree = Context.tree_of (Context.empty index) in
  invalid "a limit" (fun () -> Context.log index below);
  invalid "a limit" (fun () -> Context.history index [] below);
  invalid "a depth" (fun () -> Context.Tree.clear ~depth:below tree);
  List.iter
    (fun (name, f) -> invalid name (fun () -> f (Disk.memory ())))
    [ ("tree_bytes", fun disk -> Context.create ~tree_bytes:below disk);
      ("chunk_bytes", fun disk -> Context.create ~chunk_bytes:below disk);
      ("max_open_files", fun disk -> Context.create ~max_open_files:below disk);
      ("entries", fun disk -> Context.create ~configuration:{ Context.tezos with entries = big + 32 } disk);
      ("stable_hash", fun disk -> Context.create ~configuration:{ Context.tezos with stable_hash = below } disk) ];
  invalid "child_order" (fun () -> Context.free_tree ~configuration:{ Context.tezos with child_order = big } ())

let filled count =
  let index = index () in
  let rec go context at =
    if at = count then context else go (Context.add context [ "d"; string_of_int at ] (value (string_of_int at))) (at + 1)
  in
  (index, go (Context.empty index) 0)

let callbacks () =
  let index, context = filled 20 in
  let raises f = Alcotest.check_raises "its own" (Mine 3) (fun () -> ignore (f ())) in
  raises (fun () -> Context.fold context [] ~order:`Sorted ~init:0 ~f:(fun _ _ _ -> raise (Mine 3)));
  raises (fun () ->
      Context.diff (Context.tree_of context) (Context.Tree.empty context) ~f:(fun _ _ _ -> raise (Mine 3)));
  raises (fun () -> Context.produce_tree_proof index (Context.tree_of context) (fun _ -> raise (Mine 3)));
  let read tree = (tree, Context.Tree.find tree [ "d"; "1" ]) in
  let proof, _ = Context.produce_stream_proof index (Context.tree_of context) read in
  raises (fun () -> Context.verify_stream_proof proof (fun _ -> raise (Mine 3)));
  fails Hidden (fun () ->
      let proof, _ = Context.produce_tree_proof index (Context.tree_of (Context.add context [ "e"; "f" ] (value "1"))) read in
      ignore (Context.verify_tree_proof proof (fun tree -> (tree, Context.Tree.find tree [ "e"; "f" ]))));
  (* Calls of the library within a fold, nested, and trees that outlive it. *)
  let kept =
    Context.fold context [ "d" ] ~depth:(`Eq 1) ~order:`Sorted ~init:[] ~f:(fun _ tree kept ->
        let inner = Context.fold context [] ~order:`Undefined ~init:0 ~f:(fun key _ n -> ignore (Context.find context key); n + 1) in
        Alcotest.(check int) "nested" 22 inner;
        Gc.minor ();
        tree :: kept)
  in
  Gc.full_major ();
  Alcotest.(check bool) "kept" true (List.for_all (fun tree -> Context.Tree.to_value tree <> None) kept);
  let rec deep depth () =
    Context.fold context [ "d" ] ~depth:(`Eq 0) ~order:`Sorted ~init:() ~f:(fun _ _ () ->
        ignore (Context.find context [ "d"; "1" ]);
        deep (depth + 1) ())
  in
  (match deep 0 () with
  | () -> Alcotest.fail "it is nested for ever"
  | exception Invalid_argument _ -> ());
  Context.fold context [] ~order:`Sorted ~init:() ~f:(fun key _ () -> if key = [ "d"; "3" ] then Context.close index);
  fails Closed (fun () -> ignore (Context.empty index))

(* A handler that raises does so after the call, not through the library. *)
let signals () =
  let _, context = filled 200 in
  let old = Sys.signal Sys.sigalrm (Sys.Signal_handle (fun _ -> raise (Mine 9))) in
  let stop = { Unix.it_interval = 0.; it_value = 0. } in
  for round = 1 to 30 do
    match
      ignore (Unix.setitimer Unix.ITIMER_REAL { it_interval = 0.; it_value = 0.0005 *. float_of_int round });
      while true do
        ignore (Context.fold context [] ~order:`Sorted ~init:0 ~f:(fun key _ n -> n + List.length key));
        ignore (Context.find context [ "d"; "7" ])
      done
    with
    | () -> ()
    | exception Mine 9 -> ignore (Unix.setitimer Unix.ITIMER_REAL stop)
  done;
  Sys.set_signal Sys.sigalrm old;
  Alcotest.(check bool) "as before" true (Context.find context [ "d"; "7" ] = Some (value "7"))

(* What nothing leads to is closed: the folder can be opened again, and memory does not grow. *)
let collected () =
  let folder = Folders.fresh () in
  let drop () =
    let index = Context.init folder in
    ignore (Context.commit ~time:0L (Context.add (Context.empty index) [ "a" ] (value "1")))
  in
  drop ();
  Gc.full_major ();
  Gc.full_major ();
  let other = Context.empty (index ()) in
  ignore (Context.is_empty other);
  let again = Context.init folder in
  Alcotest.(check bool) "it is there" true (Context.last_commit again <> None);
  Context.close again;
  let resident () =
    let line = Folders.first_line "/proc/self/statm" in
    int_of_string (List.nth (String.split_on_char ' ' line) 1) * 4
  in
  if Sys.file_exists "/proc/self/statm" then begin
    let run context count =
      let rec go context at = if at = 0 then context else go (Context.add context [ "d"; string_of_int (at mod 500) ] (value (string_of_int at))) (at - 1) in
      go context count
    in
    let context = run other 50_000 in
    let before = resident () in
    let context = run context 200_000 in
    let grown = resident () - before in
    Alcotest.(check bool) (Printf.sprintf "%d KiB more" grown) true (grown < 60_000);
    Alcotest.(check int) "children" 500 (Context.length context [ "d" ])
  end

let tests =
  [ Alcotest.test_case "closed handles of tables" `Quick closed;
    Alcotest.test_case "closed handles of contexts" `Quick closed_contexts;
    Alcotest.test_case "wrong calls" `Quick wrong;
    Alcotest.test_case "operators that raise" `Quick operators;
    Alcotest.test_case "what an operator is refused" `Quick refused;
    Alcotest.test_case "numbers that cannot be" `Quick numbers;
    Alcotest.test_case "callbacks that raise" `Quick callbacks;
    Alcotest.test_case "signal handlers that raise" `Quick signals;
    Alcotest.test_case "what is dropped is closed" `Quick collected ]
