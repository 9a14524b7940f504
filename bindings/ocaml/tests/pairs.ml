(* Duo: what differs is found at its call, and named. *)

open Varvite

let value = Bytes.of_string

(* A reference with faults, one at a time. *)
module Faulty = struct
  include Reference

  let fault = ref ""

  let remove context key = if !fault = "remove" && key = [ "data"; "b"; "7" ] then context else Reference.remove context key
  let length context key = Reference.length context key + if !fault = "length" then 1 else 0
  let find context key = if !fault = "find" then None else Reference.find context key

  let list context ?offset ?length key =
    let all = Reference.list context ?offset ?length key in
    if !fault = "list" then List.rev all else all

  let fold ?depth context key ~order ~init ~f =
    if !fault = "fold" then f [ "ghost" ] (Reference.Tree.empty context) init
    else Reference.fold ?depth context key ~order ~init ~f

  let commit ~time ?message context =
    if !fault = "commit" then Reference.commit ~time:(Int64.add time 1L) ?message context
    else Reference.commit ~time ?message context

  let mem context key = if !fault = "raise" then failwith "out of order" else Reference.mem context key
end

module Pair = Duo.Make (Context) (Faulty)

let story pair =
  let rec filled context at =
    if at = 40 then context
    else filled (Pair.add context [ "data"; (if at mod 2 = 0 then "a" else "b"); string_of_int at ] (value "v")) (at + 1)
  in
  let context = filled (Pair.empty pair) 0 in
  ignore (Pair.find context [ "data"; "a"; "2" ]);
  ignore (Pair.mem context [ "data"; "a"; "2" ]);
  ignore (Pair.length context [ "data"; "a" ]);
  ignore (Pair.list context [ "data"; "b" ]);
  ignore (Pair.fold context [ "data" ] ~order:`Sorted ~init:0 ~f:(fun _ _ n -> n + 1));
  let context = Pair.remove context [ "data"; "b"; "7" ] in
  let hash = Pair.commit ~time:5L ~message:"block" context in
  let context = Pair.checkout_exn pair hash in
  ignore (Pair.find context [ "data"; "b"; "7" ])

let couple () = Pair.couple (Context.create (Disk.memory ~seed:1 ())) (Faulty.init "")

let alike () =
  Faulty.fault := "";
  let pair = couple () in
  story pair;
  Alcotest.(check bool) "nothing differs" true (Pair.stopped pair = None);
  let timings = Pair.timings pair in
  let adds =
    List.find (fun (it : Duo.timing) -> it.operation = "add" && it.prefix = [ "data"; "a" ]) timings
  in
  Alcotest.(check int) "adds below data/a" 20 adds.calls;
  Alcotest.(check bool) "times" true (adds.a_total > 0. && adds.b_total >= adds.b_max);
  let shown = Format.asprintf "%a" Pair.pp_timings pair in
  Alcotest.(check bool) shown true (String.length shown > 200)

let injected () =
  List.iter
    (fun (fault, operation, key) ->
      Faulty.fault := fault;
      let pair = couple () in
      (match story pair with
      | () -> Alcotest.failf "%s was not found" fault
      | exception Duo.Difference it ->
        Alcotest.(check string) fault operation it.operation;
        Alcotest.(check (list string)) fault key it.key;
        Alcotest.(check bool) "two answers" true (it.a <> it.b);
        if fault = "length" then
          Alcotest.(check (list string)) "as the README shows it" [ "43"; "20"; "21"; "mem /data/a/2"; "find /data/a/2" ]
            (string_of_int it.call :: it.a :: it.b :: List.filteri (fun at _ -> at < 2) it.before);
        Alcotest.(check bool) "what was before" true (List.length it.before = 8);
        Alcotest.(check bool) "it stays stopped" true (Pair.stopped pair = Some it);
        (match Pair.empty pair with
        | _ -> Alcotest.fail "it goes on"
        | exception Duo.Difference again -> Alcotest.(check bool) "the same" true (again = it)));
      Pair.close pair)
    [ ("remove", "remove", [ "data"; "b"; "7" ]);
      ("length", "length", [ "data"; "a" ]);
      ("find", "find", [ "data"; "a"; "2" ]);
      ("list", "list", [ "data"; "b" ]);
      ("fold", "fold", [ "data" ]);
      ("commit", "commit", []);
      ("raise", "mem", [ "data"; "a"; "2" ]) ];
  Faulty.fault := ""

(* What comes from outside of the calls is no difference; errors of two kinds are one. *)
module Interrupted = struct
  include Context

  let raises : exn option ref = ref None

  let interrupted () =
    let it = !raises in
    raises := None;
    Option.iter raise it

  let find context key =
    interrupted ();
    Context.find context key

  let mem context key =
    ignore (Context.mem context key);
    raise (Error (Collected, "a collection took it"))
end

module Missed = struct
  include Context

  let mem context key =
    ignore (Context.mem context key);
    raise (Error (Missing, "it is not there"))
end

module First = Duo.Make (Interrupted) (Context)
module Second = Duo.Make (Context) (Interrupted)
module Errors_differ = Duo.Make (Interrupted) (Missed)

let interrupted () =
  let store seed = Context.create (Disk.memory ~seed ()) in
  let first = First.couple (store 1) (store 2) and second = Second.couple (store 3) (store 4) in
  let one = First.add (First.empty first) [ "a" ] (value "1") and other = Second.add (Second.empty second) [ "a" ] (value "1") in
  List.iter
    (fun it ->
      let goes_on find stopped =
        Interrupted.raises := Some it;
        (match find () with
        | _ -> Alcotest.fail "it was interrupted"
        | exception raised -> Alcotest.(check bool) "as it was raised" true (raised == it || raised = it));
        Alcotest.(check bool) "no difference" true (stopped () = None);
        Alcotest.(check bool) "it goes on" true (find () = Some (value "1"))
      in
      goes_on (fun () -> First.find one [ "a" ]) (fun () -> First.stopped first);
      goes_on (fun () -> Second.find other [ "a" ]) (fun () -> Second.stopped second))
    [ Sys.Break; Out_of_memory; Stack_overflow ];
  let pair = Errors_differ.couple (store 5) (store 6) in
  match Errors_differ.mem (Errors_differ.empty pair) [ "a" ] with
  | _ -> Alcotest.fail "both raise"
  | exception Duo.Difference it ->
    Alcotest.(check string) "the operation" "mem" it.operation;
    Alcotest.(check bool) "both are told" true (it.a <> it.b)

(* A fault between comparisons of hashes is found by the next. *)
let rarely () =
  Faulty.fault := "remove";
  let pair = Pair.couple ~hash_every:0 (Context.create (Disk.memory ~seed:1 ())) (Faulty.init "") in
  (match story pair with
  | () -> Alcotest.fail "it was not found"
  | exception Duo.Difference it -> Alcotest.(check string) "by the commit" "commit" it.operation);
  Faulty.fault := ""

(* Both stores on folders, opened again. *)
module Twins = Duo.Make (Context) (Context)

let twins () =
  let folder = Folders.fresh () in
  let pair = Twins.init folder in
  let hash = Twins.commit ~time:1L (Twins.add (Twins.empty pair) [ "a"; "b" ] (value "1")) in
  Twins.close pair;
  let pair = Twins.init ~readonly:true folder in
  Twins.sync pair;
  let context = Twins.checkout_exn pair hash in
  Alcotest.(check bool) "both" true (Twins.find context [ "a"; "b" ] = Some (value "1"));
  (match Twins.commit ~time:2L context with
  | _ -> Alcotest.fail "a reader does not commit"
  | exception Error _ -> ());
  Alcotest.(check bool) "errors alike" true (Twins.stopped pair = None);
  Twins.close pair

(* ---- proofs ---- *)

(* Contexts with faults in what they prove. *)
module Doubtful = struct
  include Context

  let fault = ref ""

  let produce_tree_proof index tree f =
    Context.produce_tree_proof index tree (fun tree ->
        if !fault = "shows more" then ignore (Context.Tree.find tree [ "data"; "b"; "3" ]);
        f tree)

  let verify_tree_proof ?root proof f =
    let root = if !fault = "believes" then None else root in
    if !fault = "refuses" then Result.Error (`Proof_mismatch "it is no proof") else Context.verify_tree_proof ?root proof f
end

module Proving = Duo.Make_with_proofs (Context) (Doubtful)

module Backwards = Duo.Make_with_proofs (Doubtful) (Context)

let look tree = (tree, Option.map Bytes.to_string (Proving.Tree.find tree [ "data"; "a"; "2" ]))

let proofs () =
  let store seed = Context.create (Disk.memory ~seed ()) in
  let make () =
    Doubtful.fault := "";
    let pair = Proving.couple (store 1) (store 2) in
    let rec filled context at =
      if at = 20 then context
      else filled (Proving.add context [ "data"; (if at mod 2 = 0 then "a" else "b"); string_of_int at ] (value "v")) (at + 1)
    in
    let hash = Proving.commit ~time:1L (filled (Proving.empty pair) 0) in
    (pair, Option.get (Proving.find_tree (Proving.checkout_exn pair hash) []))
  in
  let pair, tree = make () in
  let root = `Node (Proving.Tree.hash tree) in
  let proof, seen = Proving.produce_tree_proof pair tree look in
  Alcotest.(check (option string)) "seen" (Some "v") seen;
  let encoded = Proving.Proof.encode proof `V2 in
  let decoded = Proving.Proof.decode `V2 encoded in
  Alcotest.(check bool) "not a stream" false (Proving.Proof.is_stream decoded);
  Alcotest.(check bool) "its root" true (Proving.Proof.before decoded = root && Proving.Proof.after decoded = root);
  let verdict root = Proving.verify_tree_proof ~root decoded look in
  (match verdict root with Ok (_, seen) -> Alcotest.(check (option string)) "verified" (Some "v") seen | Error _ -> Alcotest.fail "refused");
  let other = `Node (Hash.of_string_exn (String.make 32 'x')) in
  (match verdict other with Ok _ -> Alcotest.fail "another root" | Error (`Proof_mismatch _) -> ());
  let stream, _ = Proving.produce_stream_proof pair tree look in
  (match Proving.verify_stream_proof ~root stream look with Ok _ -> () | Error _ -> Alcotest.fail "refused");
  (* A function that changes the tree, and one that raises. *)
  let changed, () = Proving.produce_tree_proof pair tree (fun tree -> (Proving.Tree.add tree [ "data"; "c" ] (value "w"), ())) in
  Alcotest.(check bool) "another tree after" true (Proving.Proof.after changed <> Proving.Proof.before changed);
  Alcotest.check_raises "its own" Exit (fun () -> ignore (Proving.produce_tree_proof pair tree (fun _ -> raise Exit)));
  Proving.Proof.close changed;
  let differs fault f =
    let pair, tree = make () in
    let proof, _ = Proving.produce_tree_proof pair tree look in
    Doubtful.fault := fault;
    match f pair tree proof with
    | () -> Alcotest.failf "%s was not found" fault
    | exception Duo.Difference _ -> Alcotest.(check bool) fault true (Proving.stopped pair <> None)
  in
  differs "shows more" (fun pair tree _ -> ignore (Proving.produce_tree_proof pair tree look));
  differs "refuses" (fun _ _ proof -> ignore (Proving.verify_tree_proof ~root proof look));
  differs "believes" (fun _ _ proof -> ignore (Proving.verify_tree_proof ~root:other proof look));
  (* And where the first of the two is the one at fault. *)
  List.iter
    (fun (fault, root) ->
      Doubtful.fault := "";
      let pair = Backwards.couple (store 3) (store 4) in
      let tree = Backwards.Tree.add (Backwards.Tree.empty (Backwards.empty pair)) [ "data"; "a"; "2" ] (value "v") in
      let look tree = (tree, Backwards.Tree.mem tree [ "data"; "a"; "2" ]) in
      let proof, _ = Backwards.produce_tree_proof pair tree look in
      let root = if root then `Node (Backwards.Tree.hash tree) else other in
      Doubtful.fault := fault;
      match Backwards.verify_tree_proof ~root proof look with
      | _ -> Alcotest.failf "%s was not found" fault
      | exception Duo.Difference _ -> ())
    [ ("refuses", true); ("believes", false) ];
  Doubtful.fault := ""

let tests =
  [ Alcotest.test_case "alike" `Quick alike;
    Alcotest.test_case "injected differences" `Quick injected;
    Alcotest.test_case "interruptions and kinds of errors" `Quick interrupted;
    Alcotest.test_case "hashes compared rarely" `Quick rarely;
    Alcotest.test_case "on folders" `Quick twins;
    Alcotest.test_case "proofs" `Quick proofs ]
