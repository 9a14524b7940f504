(* Without memory, and with little stack: what cannot be done is an exception, and all else goes on. Each in a process of its
   own, which has the limit. *)

open Varvite

external limit : int -> int -> bool = "varvite_tests_limit" [@@noalloc]

let in_child f () =
  if Sys.file_exists "/proc/self/statm" then
    match Unix.fork () with
    | 0 ->
      Unix._exit
        (match f () with
        | () -> 0
        | exception raised ->
          prerr_endline (Printexc.to_string raised);
          1)
    | child ->
      let _, status = Unix.waitpid [] child in
      Alcotest.(check bool) "the child" true (status = Unix.WEXITED 0)

let expect what is_so = if not is_so then failwith what

(* So many bytes more than the process has now. *)
let with_room bytes f =
  let pages = int_of_string (List.hd (String.split_on_char ' ' (Folders.first_line "/proc/self/statm"))) in
  expect "a limit" (limit 0 ((pages * 4096) + bytes));
  Fun.protect ~finally:(fun () -> ignore (limit 0 (-1))) f

exception Starved

(* Calls [f], which is to raise [Starved] where it had no memory, with less and less of it until it does, and then more often
   than callbacks may be nested. *)
let starve large f =
  ignore (limit 0 (-1));
  let attempt room =
    Gc.compact ();
    match with_room room f with () -> false | exception Starved -> true
  in
  let rec least room =
    if room < 0 then failwith "it always had memory";
    if attempt room then room else least (room - (large / 4))
  in
  let room = least (8 * large) in
  for _ = 1 to 6 do
    expect "memory is there" (attempt room)
  done

(* Also of another thread, which would wait for a lock that was left behind. *)
let anywhere f =
  f ();
  let outcome = ref (Result.Error (Failure "it hangs")) in
  let other = Thread.create (fun () -> outcome := match f () with () -> Ok () | exception raised -> Result.Error raised) () in
  Thread.join other;
  match !outcome with Ok () -> () | Result.Error raised -> raise raised

let operators () =
  let operator = Table.Operator.make ~name:"newest" (fun _ newer -> newer) in
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table ~operator ~write_buffer_bytes:1024 session "t" in
  let large = 15 lsl 20 in
  for number = 0 to 99 do
    Table.insert table (Printf.sprintf "%02d" number) (if number = 7 then String.make large 'x' else "older")
  done;
  Table.upsert table "07" "newer";
  starve large (fun () ->
      match Table.get table "07" with
      | Some "newer" -> ()
      | _ -> failwith "another value"
      | exception Error (Callback, _) -> raise Starved
      | exception Out_of_memory -> failwith "it left by a jump");
  anywhere (fun () -> expect "another key" (Table.get table "08" = Some "older"));
  anywhere (fun () -> expect "the same" (Table.get table "07" = Some "newer"));
  Table.insert table "07" "short";
  anywhere (fun () -> expect "as before" (Table.get table "07" = Some "short"))

(* In a function that is given to a difference. *)
let functions () =
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let tree = Context.Tree.empty (Context.empty index) in
  let large = 64 lsl 20 in
  let full = Context.Tree.add tree [ "a" ] (Bytes.make large 'x') in
  starve large (fun () ->
      let called = ref false in
      match Context.diff tree full ~f:(fun _ _ _ -> called := true) with
      | () -> ()
      | exception Out_of_memory ->
        expect "the function was not called" (not !called);
        raise Starved);
  anywhere (fun () ->
      (* These say so when callbacks are nested too deep. *)
      expect "a find" (Context.Tree.find full [ "b" ] = None);
      expect "as before" (Context.Tree.length full [] = 1);
      expect "a fold" (Context.Tree.fold full [] ~order:`Sorted ~init:0 ~f:(fun _ _ n -> n + 1) = 2));
  Context.close index

(* Lists of many, on a stack that has no place for a frame for each. *)
let stack () =
  let many = 30_000 in
  let index = Context.create ~durability:`Written (Disk.memory ~seed:1 ()) in
  let name = Printf.sprintf "%06d" in
  let tree = ref (Context.Tree.empty (Context.empty index)) in
  for number = 0 to many - 1 do
    tree := Context.Tree.add !tree [ "d"; name number ] (Bytes.of_string "v")
  done;
  for time = 1 to many do
    ignore (Context.commit_with index ~parents:[] ~time:(Int64.of_int time) ~author:"" ~message:"" !tree)
  done;
  expect "a limit" (limit 1 (512 lsl 10));
  expect "a log" (List.length (Context.log index max_int) = many);
  (match Context.Tree.to_raw !tree with
  | `Tree [ ("d", `Tree children) ] -> expect "all" (List.length children = many)
  | _ -> failwith "another tree");
  let module Twins = Duo.Make (Context) (Context) in
  let pair = Twins.couple ~hash_every:0 index index in
  let last = Option.get (Context.last_commit index) in
  let context = Twins.checkout_exn pair last in
  expect "children of both" (List.length (Twins.list context [ "d" ]) = many);
  expect "a fold of both" (Twins.fold context [ "d" ] ~depth:(`Eq 1) ~order:`Sorted ~init:0 ~f:(fun _ _ n -> n + 1) = many)

let tests =
  [ Alcotest.test_case "an operator's values" `Quick (in_child operators);
    Alcotest.test_case "what functions are given" `Quick (in_child functions);
    Alcotest.test_case "lists of many" `Quick (in_child stack) ]
