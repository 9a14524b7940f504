(* What OCaml's functions cost over Rust's: processor time of the same work on two equal stores in memory, here and in
   the program `rounds` of bindings/c/examples, which does a round when it is told to, by turns in one run. The lower
   quartile of the rounds. `bench/run` builds both. *)

open Varvite

let batch = 256
let batches = 100
let rounds = 31

(* Numbers that look unrelated, as in the other program. Source: Steele et al. 2014 (SplitMix64). *)
let mix number =
  let open Int64 in
  let z = mul number 0x9e3779b97f4a7c15L in
  let z = mul (logxor z (shift_right_logical z 30)) 0xbf58476d1ce4e5b9L in
  let z = mul (logxor z (shift_right_logical z 27)) 0x94d049bb133111ebL in
  logxor z (shift_right_logical z 31)

let key number =
  let key = Bytes.create 40 in
  for part = 0 to 4 do
    Bytes.set_int64_le key (8 * part) (mix (Int64.of_int ((number * 8) + part)))
  done;
  Bytes.sub_string key 0 34

let account number =
  let name = Printf.sprintf "%09Lx" (Int64.shift_right_logical (mix (Int64.of_int number)) 28) in
  [ "data     "; "contracts"; name; "balance  " ]

let picked number of_ =
  Array.init batch (fun it ->
      Int64.(to_int (unsigned_rem (mix (of_int ((number * 1000) + it))) (of_int of_))))

let big_endian number =
  let value = Bytes.create 8 in
  Bytes.set_int64_be value 0 (Int64.of_int number);
  value

let table entries =
  let session = Table.Session.create (Disk.memory ~seed:1 ()) in
  let table = Table.Session.create_table ~utxo:true session "t" in
  let value = String.make 60 '\007' in
  let rec fill first =
    if first < entries then begin
      Table.apply table (Array.init batch (fun it -> Table.Insert (key (first + it), value)));
      fill (first + batch)
    end
  in
  fill 0;
  table

let context accounts =
  let index = Context.create (Disk.memory ~seed:1 ()) in
  let rec fill tree number =
    if number = accounts then tree else fill (Context.Tree.add tree (account number) (big_endian number)) (number + 1)
  in
  let tree = fill (Context.tree_of (Context.empty index)) 0 in
  let hash = Context.commit_with index ~parents:[] ~time:0L ~author:"" ~message:"" tree in
  (index, Context.checkout_exn index hash)

let spent f =
  let start = Sys.time () in
  f ();
  Sys.time () -. start

let () =
  let entries, accounts =
    match Sys.argv with
    | [| _; _ |] -> (1_000_000, 100_000)
    | [| _; _; entries; accounts |] -> (int_of_string entries, int_of_string accounts)
    | _ -> failwith "overhead PROGRAM_OF_RUST [ENTRIES ACCOUNTS]"
  in
  let arguments = Printf.sprintf "%s %d %d" (Filename.quote Sys.argv.(1)) entries accounts in
  let answers, orders = Unix.open_process arguments in
  if input_line answers <> "ready" then failwith "the program of Rust's is not ready";
  let rust what round =
    Printf.fprintf orders "%s %d\n%!" what round;
    float_of_string (input_line answers)
  in
  let table = table entries in
  let index, state = context accounts in
  let state = ref state in
  let each number f =
    let rec go at total = if at = batches then total else go (at + 1) (total +. f ((number * batches) + at)) in
    go 0 0. *. 1e9 /. float_of_int (batch * batches)
  in
  let lookup round =
    each round (fun number ->
        let keys = Array.map key (picked number entries) in
        spent (fun () -> assert (Array.for_all Option.is_some (Table.lookups table keys))))
  in
  let value = String.make 60 '\007' in
  let update round =
    each round (fun number ->
        let keys = Array.map key (picked number entries) in
        spent (fun () -> Table.apply table (Array.map (fun key -> Table.Insert (key, value)) keys)))
  in
  let find_many round =
    each round (fun number ->
        let keys = Array.map account (picked number accounts) in
        spent (fun () -> assert (Array.for_all Option.is_some (Context.find_many !state keys))))
  in
  let find round =
    each round (fun number ->
        let keys = Array.map account (picked number accounts) in
        spent (fun () -> Array.iter (fun key -> assert (Option.is_some (Context.find !state key))) keys))
  in
  let commit round =
    let value = big_endian (round * batches) in
    let adding =
      List.init 10 (fun at ->
          let keys = Array.map account (picked ((round * batches) + at) accounts) in
          spent (fun () -> Array.iter (fun key -> state := Context.add !state key value) keys))
    in
    let committing =
      spent (fun () ->
          ignore
            (Context.commit_with index ~parents:[] ~time:0L ~author:"" ~message:"" (Context.tree_of !state)))
    in
    List.fold_left ( +. ) committing adding *. 1e9 /. float_of_int (batch * 10)
  in
  Printf.printf "%-34s %12s %12s %10s %12s\n" "processor time of" "Rust" "OCaml" "overhead" "more";
  List.iter
    (fun (title, what, ocaml) ->
      let times = Array.make_matrix 2 rounds 0. in
      for round = 0 to rounds - 1 do
        let first = round land 1 in
        let take which = times.(which).(round) <- (if which = 0 then rust what round else ocaml round) in
        take first;
        take (1 - first)
      done;
      Array.iter (Array.sort compare) times;
      let rust = times.(0).(rounds / 4) and ocaml = times.(1).(rounds / 4) in
      Printf.printf "%-34s %9.1f ns %9.1f ns %+9.1f%% %+9.1f ns\n%!" title rust ocaml (((ocaml /. rust) -. 1.) *. 100.)
        (ocaml -. rust))
    [ ("a key of a lookup of 256", "lookup", lookup);
      ("an operation of an update of 256", "update", update);
      ("a find of 256 in one call", "find", find_many);
      ("a find in a call of its own", "find", find);
      ("a change of a commit of 2,560", "commit", commit) ];
  ignore (Unix.close_process (answers, orders))
