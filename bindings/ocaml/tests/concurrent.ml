(* Threads that share handles, and processes that fork. *)

open Varvite

let value = Bytes.of_string

(* Readers and a writer of one table, and one that closes it beneath them: right answers or Closed. *)
let tables () =
  let operator = Table.Operator.make ~name:"longer" (fun older newer -> if String.length older > String.length newer then older else newer) in
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table ~operator ~write_buffer_bytes:4096 session "t" in
  let keys = Array.init 64 (fun at -> Printf.sprintf "key %02d" at) in
  Table.apply table (Array.map (fun key -> Table.Insert (key, key)) keys);
  let wrong = Atomic.make 0 and answers = Atomic.make 0 in
  let until_closed f =
    Thread.create
      (fun () ->
        try
          while true do
            f ();
            Atomic.incr answers
          done
        with
        | Error (Closed, _) -> ()
        | _ -> Atomic.incr wrong)
      ()
  in
  let reads () =
    Array.iteri
      (fun at found -> match found with Some found when String.sub found 0 6 = keys.(at) -> () | _ -> Atomic.incr wrong)
      (Table.lookups table keys)
  in
  let number = ref 0 in
  let writes () =
    incr number;
    Table.apply table (Array.map (fun key -> Table.Upsert (key, Printf.sprintf "%s %d" key !number)) keys)
  in
  let ranges () =
    let cursor = Table.cursor table in
    ignore (Table.Cursor.next_many cursor 10);
    Table.Cursor.close cursor;
    if Array.length (Table.range table) <> 64 then Atomic.incr wrong
  in
  let collects () =
    Gc.minor ();
    ignore (Table.is_live table)
  in
  let threads = List.map until_closed [ reads; reads; writes; ranges; collects ] in
  Thread.delay 0.4;
  Table.close table;
  List.iter Thread.join threads;
  Alcotest.(check int) "wrong answers" 0 (Atomic.get wrong);
  Alcotest.(check bool) "answers" true (Atomic.get answers > 20)

(* While a thread is in one long call of the library, another runs OCaml: the lock is given away. *)
let runtime_lock () =
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table session "t" in
  let batch = Array.init 150_000 (fun at -> Table.Insert (Printf.sprintf "%09d" (at * 7919 mod 1_000_003), "value")) in
  let inside = Atomic.make false and seen = Atomic.make 0 and is_over = Atomic.make false in
  let other =
    Thread.create
      (fun () ->
        while not (Atomic.get is_over) do
          if Atomic.get inside then Atomic.incr seen;
          Thread.yield ()
        done)
      ()
  in
  Atomic.set inside true;
  Table.apply table batch;
  Atomic.set inside false;
  Atomic.set is_over true;
  Thread.join other;
  Alcotest.(check bool) (Printf.sprintf "the other ran %d times" (Atomic.get seen)) true (Atomic.get seen > 100)

(* Threads that close the same, while a call has it: the close waits, and nobody is told that it is a cursor. *)
let closed_by_several () =
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table session "t" in
  let batch = Array.init 150_000 (fun at -> Table.Insert (Printf.sprintf "%09d" (at * 7919 mod 1_000_003), "value")) in
  let wrong = Atomic.make 0 and closed = Atomic.make 0 in
  let writer = Thread.create (fun () -> try Table.apply table batch with Error (Closed, _) -> () | _ -> Atomic.incr wrong) () in
  Thread.yield ();
  let closes =
    List.init 4 (fun _ ->
        Thread.create
          (fun () ->
            match Table.close table with
            | () -> Atomic.incr closed
            | exception Error (Closed, _) -> Atomic.incr closed
            | exception _ -> Atomic.incr wrong)
          ())
  in
  List.iter Thread.join (writer :: closes);
  Alcotest.(check (pair int int)) "closed, wrong" (4, 0) (Atomic.get closed, Atomic.get wrong);
  match Table.get table "a" with
  | _ -> Alcotest.fail "it was closed"
  | exception Error (Closed, _) -> ()

let one_cursor () =
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table session "t" in
  Table.apply table (Array.init 2000 (fun at -> Table.Insert (Printf.sprintf "%05d" at, String.make 50 'v')));
  let cursor = Table.cursor table in
  let seen = Atomic.make 0 in
  let step () =
    let rec go () =
      match Table.Cursor.next cursor with
      | Some (key, value) ->
        if String.length key <> 5 || value <> String.make 50 'v' then failwith "torn";
        Atomic.incr seen;
        go ()
      | None -> ()
      | exception Invalid_argument _ ->
        Thread.yield ();
        go ()
    in
    go ()
  in
  let threads = List.init 4 (fun _ -> Thread.create step ()) in
  List.iter Thread.join threads;
  Alcotest.(check int) "each binding once" 2000 (Atomic.get seen)

let contexts () =
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let rec filled context at = if at = 300 then context else filled (Context.add context [ "d"; string_of_int at ] (value "v")) (at + 1) in
  let context = filled (Context.empty index) 0 in
  let hash = Context.commit ~time:0L context in
  let failures = Atomic.make 0 in
  let work own () =
    try
      let context = ref (Context.checkout_exn index hash) in
      for round = 1 to 40 do
        context := Context.add !context [ "t"; string_of_int own; string_of_int round ] (value "x");
        if Context.find !context [ "d"; "7" ] <> Some (value "v") then Atomic.incr failures;
        if Context.length !context [ "d" ] <> 300 then Atomic.incr failures;
        let count = Context.fold !context [ "d" ] ~depth:(`Eq 1) ~order:`Sorted ~init:0 ~f:(fun _ _ n -> n + 1) in
        if count <> 300 then Atomic.incr failures;
        let commit = Context.commit ~time:(Int64.of_int round) !context in
        context := Context.checkout_exn index commit
      done;
      if Context.length !context [ "t"; string_of_int own ] <> 40 then Atomic.incr failures
    with raised ->
      prerr_endline (Printexc.to_string raised);
      Atomic.incr failures
  in
  let threads = List.init 4 (fun own -> Thread.create (work own) ()) in
  List.iter Thread.join threads;
  Alcotest.(check int) "failures" 0 (Atomic.get failures);
  Context.close index

(* A child's inherited handles are closed, and it may open its own; the parent's go on. *)
let forks () =
  let folder = Folders.fresh () in
  let index = Context.init folder in
  let context = Context.add (Context.empty index) [ "a" ] (value "1") in
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table session "t" in
  Table.insert table "a" "1";
  (match Unix.fork () with
  | 0 ->
    let is_closed f = match f () with _ -> false | exception Error (Closed, _) -> true | exception _ -> false in
    let ok =
      is_closed (fun () -> ignore (Context.find context [ "a" ]))
      && is_closed (fun () -> ignore (Context.commit ~time:0L context))
      && is_closed (fun () -> ignore (Table.get table "a"))
      && is_closed (fun () -> Table.Session.close session)
      && begin
           Gc.full_major ();
           let session = Table.Session.create (Disk.memory ~seed:2 ()) in
           let table = Table.Session.create_table session "t" in
           Table.insert table "b" "2";
           Table.get table "b" = Some "2"
         end
    in
    Unix._exit (if ok then 0 else 1)
  | child ->
    let _, status = Unix.waitpid [] child in
    Alcotest.(check bool) "the child" true (status = Unix.WEXITED 0));
  let hash = Context.commit ~time:0L context in
  Alcotest.(check bool) "the parent" true (Context.exists index hash && Table.get table "a" = Some "1");
  Context.close index

let tests =
  [ Alcotest.test_case "fork" `Quick forks;
    Alcotest.test_case "tables closed beneath readers" `Quick tables;
    Alcotest.test_case "the runtime lock" `Quick runtime_lock;
    Alcotest.test_case "a table that several close" `Quick closed_by_several;
    Alcotest.test_case "one cursor" `Quick one_cursor;
    Alcotest.test_case "contexts" `Quick contexts ]
