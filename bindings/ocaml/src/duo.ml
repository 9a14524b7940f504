type difference = {
  call : int;
  operation : string;
  key : string list;
  a : string;
  b : string;
  before : string list;
}

exception Difference of difference

let shown_key key = "/" ^ String.concat "/" (List.map String.escaped key)

let pp_difference out { call; operation; key; a; b; before } =
  Format.fprintf out "@[<v>call %d, %s of %s, differs:@,  the first:  %s@,  the second: %s@,before it, the newest first:" call
    operation (shown_key key) a b;
  List.iter (fun it -> Format.fprintf out "@,  %s" it) before;
  Format.fprintf out "@]"

let () =
  Printexc.register_printer (function
    | Difference it -> Some (Format.asprintf "Varvite.Duo.Difference: %a" pp_difference it)
    | _ -> None)

type timing = {
  operation : string;
  prefix : string list;
  calls : int;
  a_total : float;
  a_max : float;
  b_total : float;
  b_max : float;
}

let remembered = 8

type state = {
  hash_every : int;
  prefix_steps : int;
  clock : unit -> float;
  times : (string * string list, timing) Hashtbl.t;
  mutable calls : int;
  mutable changes : int;
  mutable last : string list;
  mutable difference : difference option;
}

let rec first count = function step :: rest when count > 0 -> step :: first (count - 1) rest | _ -> []

(* What comes from outside of a call is no answer of it, and goes through as if there were no pair. *)
let is_answer = function Sys.Break | Out_of_memory | Stack_overflow -> false | _ -> true

let timed clock f =
  let start = clock () in
  let answer = match f () with answer -> Ok answer | exception raised when is_answer raised -> Error raised in
  (answer, clock () -. start)

let stop state operation key a b =
  let it = { call = state.calls; operation; key; a; b; before = state.last } in
  state.difference <- Some it;
  raise (Difference it)

let record state operation key a b =
  let id = (operation, first state.prefix_steps key) in
  let old =
    match Hashtbl.find_opt state.times id with
    | Some old -> old
    | None -> { operation; prefix = snd id; calls = 0; a_total = 0.; a_max = 0.; b_total = 0.; b_max = 0. }
  in
  Hashtbl.replace state.times id
    { old with
      calls = old.calls + 1;
      a_total = old.a_total +. a;
      a_max = max old.a_max a;
      b_total = old.b_total +. b;
      b_max = max old.b_max b }

(* Two exceptions are the same answer, but for errors of two kinds. Other implementations have exceptions of their own. *)
let alike_raised a b = match (a, b) with Errors.Error (a, _), Errors.Error (b, _) -> a = b | _ -> true

(* Both do it. `compared` says how two answers differ, if they do. *)
let both state operation key ~compared a b =
  Option.iter (fun it -> raise (Difference it)) state.difference;
  let answer_a, time_a = timed state.clock a in
  let answer_b, time_b = timed state.clock b in
  record state operation key time_a time_b;
  let raised it = "raised " ^ Printexc.to_string it in
  let answers =
    match (answer_a, answer_b) with
    | Ok a, Ok b -> (
      match compared a b with None -> Ok (a, b) | Some (a, b) -> stop state operation key a b)
    | Error a, Error b when not (alike_raised a b) -> stop state operation key (raised a) (raised b)
    | Error raised, Error _ -> Error raised
    | Ok _, Error it -> stop state operation key "answered" (raised it)
    | Error it, Ok _ -> stop state operation key (raised it) "answered"
  in
  state.calls <- state.calls + 1;
  state.last <- first remembered ((operation ^ " " ^ shown_key key) :: state.last);
  match answers with Ok both -> both | Error raised -> raise raised

let alike show a b = if a = b then None else Some (show a, show b)
let shown_value = function None -> "nothing" | Some value -> Printf.sprintf "%S" (Bytes.to_string value)
let shown_kind = function `Value -> "a value" | `Tree -> "a directory"

module type PAIR = sig
  include Context_sigs.S

  type index_a
  type index_b

  val couple : ?hash_every:int -> ?prefix_steps:int -> ?clock:(unit -> float) -> index_a -> index_b -> index
  val timings : index -> timing list
  val pp_timings : Format.formatter -> index -> unit
  val calls : index -> int
  val stopped : index -> difference option
end

module type PROVER = sig
  include Context_sigs.S
  include Context_sigs.PROOF with type index := index and type tree := tree
end

module Make (A : Context_sigs.S) (B : Context_sigs.S) = struct
  type key = string list
  type value = bytes
  type index = { index_a : A.index; index_b : B.index; state : state }
  type tree = { tree_a : A.tree; tree_b : B.tree; of_ : state }
  type t = { a : A.t; b : B.t; pair : index }

  let couple ?(hash_every = 1) ?(prefix_steps = 2) ?(clock = Unix.gettimeofday) index_a index_b =
    let state =
      { hash_every; prefix_steps; clock; times = Hashtbl.create 64; calls = 0; changes = 0; last = [];
        difference = None }
    in
    { index_a; index_b; state }

  let init ?readonly folder =
    couple (A.init ?readonly (Filename.concat folder "a")) (B.init ?readonly (Filename.concat folder "b"))

  let calls index = index.state.calls
  let stopped index = index.state.difference

  let timings index =
    let all = Hashtbl.fold (fun _ timing all -> timing :: all) index.state.times [] in
    List.sort (fun (x : timing) (y : timing) -> compare (y.a_total, y.operation, y.prefix) (x.a_total, x.operation, x.prefix)) all

  let pp_timings out index =
    Format.fprintf out "@[<v>%-12s %-32s %9s %12s %12s %12s %12s" "operation" "prefix" "calls" "first, us" "longest"
      "second, us" "longest";
    List.iter
      (fun (it : timing) ->
        let mean total = total *. 1e6 /. float_of_int it.calls in
        Format.fprintf out "@,%-12s %-32s %9d %12.2f %12.2f %12.2f %12.2f" it.operation (shown_key it.prefix) it.calls
          (mean it.a_total) (it.a_max *. 1e6) (mean it.b_total) (it.b_max *. 1e6))
      (timings index);
    Format.fprintf out "@]"

  let same_hash a b = alike Hash.to_b58check a b

  (* A hash where hashes are compared after every change, else the kind alone. *)
  let same_tree state a b =
    match alike shown_kind (A.Tree.kind a) (B.Tree.kind b) with
    | Some _ as different -> different
    | None -> if state.hash_every = 1 then same_hash (A.Tree.hash a) (B.Tree.hash b) else None

  let same_option same a b =
    match (a, b) with
    | None, None -> None
    | Some a, Some b -> same a b
    | Some _, None -> Some ("something", "nothing")
    | None, Some _ -> Some ("nothing", "something")

  let names entries = String.concat ", " (List.map (fun (key, kind) -> shown_key key ^ " " ^ shown_kind kind) entries)

  (* Names and kinds of children, or of what a fold visits. *)
  let same_entries a b =
    let a = Lists.map (fun (key, tree) -> (key, A.Tree.kind tree)) a in
    let b = Lists.map (fun (key, tree) -> (key, B.Tree.kind tree)) b in
    if a = b then None
    else
      let rec from_difference at a b =
        match (a, b) with
        | x :: a, y :: b when x = y -> from_difference (at + 1) a b
        | a, b ->
          let shown it = Printf.sprintf "from entry %d on: %s" at (if it = [] then "nothing" else names (first 3 it)) in
          Some (shown a, shown b)
      in
      from_difference 0 a b

  let paired state a b = { tree_a = a; tree_b = b; of_ = state }

  let is_due state =
    state.changes <- state.changes + 1;
    state.hash_every > 0 && state.changes mod state.hash_every = 0

  (* The operations of contexts and of trees are these, of one or of the other. *)
  module Views
      (X : Context_sigs.VIEW with type key = key and type value = value and type tree = A.tree)
      (Y : Context_sigs.VIEW with type key = key and type value = value and type tree = B.tree) (P : sig
        type t

        val a : t -> X.t
        val b : t -> Y.t
        val state : t -> state
        val with_ : t -> X.t -> Y.t -> t
        val hash_a : X.t -> Hash.t
        val hash_b : Y.t -> Hash.t
        val prefix : string
      end) =
  struct
    let do_ t operation key ~compared a b =
      both (P.state t) (P.prefix ^ operation) key ~compared (fun () -> a (P.a t)) (fun () -> b (P.b t))

    let ask t operation key show a b = fst (do_ t operation key ~compared:(alike show) a b)
    let mem t key = ask t "mem" key string_of_bool (fun t -> X.mem t key) (fun t -> Y.mem t key)
    let mem_tree t key = ask t "mem_tree" key string_of_bool (fun t -> X.mem_tree t key) (fun t -> Y.mem_tree t key)
    let find t key = ask t "find" key shown_value (fun t -> X.find t key) (fun t -> Y.find t key)
    let length t key = ask t "length" key string_of_int (fun t -> X.length t key) (fun t -> Y.length t key)

    let find_tree t key =
      let compared = same_option (same_tree (P.state t)) in
      match do_ t "find_tree" key ~compared (fun t -> X.find_tree t key) (fun t -> Y.find_tree t key) with
      | Some a, Some b -> Some (paired (P.state t) a b)
      | _ -> None

    let list t ?offset ?length key =
      let compared a b =
        let keyed entries = Lists.map (fun (name, tree) -> ([ name ], tree)) entries in
        same_entries (keyed a) (keyed b)
      in
      let a, b =
        do_ t "list" key ~compared (fun t -> X.list t ?offset ?length key) (fun t -> Y.list t ?offset ?length key)
      in
      Lists.map2 (fun (name, a) (_, b) -> (name, paired (P.state t) a b)) a b

    let change t operation key a b =
      let compared a b = if is_due (P.state t) then same_hash (P.hash_a a) (P.hash_b b) else None in
      let a, b = do_ t operation key ~compared a b in
      P.with_ t a b

    let add t key value = change t "add" key (fun t -> X.add t key value) (fun t -> Y.add t key value)

    let add_tree t key tree =
      change t "add_tree" key (fun t -> X.add_tree t key tree.tree_a) (fun t -> Y.add_tree t key tree.tree_b)

    let remove t key = change t "remove" key (fun t -> X.remove t key) (fun t -> Y.remove t key)

    (* What each visits is compared first; the function then gets both together. *)
    let fold ?depth t key ~order ~init ~f =
      let visited entries = match order with
        | `Sorted -> List.rev entries
        | `Undefined -> List.sort (fun (a, _) (b, _) -> compare (a : key) b) entries
      in
      let compared a b = same_entries a b in
      let a, b =
        do_ t "fold" key ~compared
          (fun t -> visited (X.fold ?depth t key ~order ~init:[] ~f:(fun key tree all -> (key, tree) :: all)))
          (fun t -> visited (Y.fold ?depth t key ~order ~init:[] ~f:(fun key tree all -> (key, tree) :: all)))
      in
      List.fold_left2 (fun answer (key, a) (_, b) -> f key (paired (P.state t) a b) answer) init a b
  end

  include
    Views (A) (B)
      (struct
        type nonrec t = t

        let a t = t.a
        let b t = t.b
        let state t = t.pair.state
        let with_ t a b = { t with a; b }
        let hash_a t = A.Tree.hash (Option.get (A.find_tree t []))
        let hash_b t = B.Tree.hash (Option.get (B.find_tree t []))
        let prefix = ""
      end)

  module Tree = struct
    module Tree_a = struct
      type t = A.tree
      type key = string list
      type value = bytes
      type tree = A.tree

      include (A.Tree : Context_sigs.TREE with type t := A.t and type tree := A.tree and type key := key and type value := value)
    end

    module Tree_b = struct
      type t = B.tree
      type key = string list
      type value = bytes
      type tree = B.tree

      include (B.Tree : Context_sigs.TREE with type t := B.t and type tree := B.tree and type key := key and type value := value)
    end

    include
      Views (Tree_a) (Tree_b)
        (struct
          type t = tree

          let a t = t.tree_a
          let b t = t.tree_b
          let state t = t.of_
          let with_ t tree_a tree_b = { t with tree_a; tree_b }
          let hash_a = A.Tree.hash
          let hash_b = B.Tree.hash
          let prefix = "Tree."
        end)

    let of_tree t operation show a b =
      let compared = alike show in
      fst (both t.of_ ("Tree." ^ operation) [] ~compared (fun () -> a t.tree_a) (fun () -> b t.tree_b))

    let is_empty t = of_tree t "is_empty" string_of_bool A.Tree.is_empty B.Tree.is_empty
    let kind t = of_tree t "kind" shown_kind A.Tree.kind B.Tree.kind
    let to_value t = of_tree t "to_value" shown_value A.Tree.to_value B.Tree.to_value
    let hash t = of_tree t "hash" Hash.to_b58check A.Tree.hash B.Tree.hash

    let equal t other =
      let equal_a a = A.Tree.equal a other.tree_a and equal_b b = B.Tree.equal b other.tree_b in
      of_tree t "equal" string_of_bool equal_a equal_b

    let clear ?depth t = of_tree t "clear" (fun () -> "done") (A.Tree.clear ?depth) (B.Tree.clear ?depth)

    let made t operation a b =
      let state = t.pair.state in
      let a, b =
        both state ("Tree." ^ operation) [] ~compared:(same_tree state) (fun () -> a t.a) (fun () -> b t.b)
      in
      paired state a b

    let empty t = made t "empty" A.Tree.empty B.Tree.empty
    let of_value t value = made t "of_value" (fun t -> A.Tree.of_value t value) (fun t -> B.Tree.of_value t value)

    type raw = [ `Value of bytes | `Tree of (string * raw) list ]

    let rec raw_a (raw : raw) : A.Tree.raw =
      match raw with
      | `Value value -> `Value value
      | `Tree children -> `Tree (Lists.map (fun (name, child) -> (name, raw_a child)) children)

    let rec raw_b (raw : raw) : B.Tree.raw =
      match raw with
      | `Value value -> `Value value
      | `Tree children -> `Tree (Lists.map (fun (name, child) -> (name, raw_b child)) children)

    let rec of_raw_a (raw : A.Tree.raw) : raw =
      match raw with
      | `Value value -> `Value value
      | `Tree children -> `Tree (Lists.map (fun (name, child) -> (name, of_raw_a child)) children)

    let rec of_raw_b (raw : B.Tree.raw) : raw =
      match raw with
      | `Value value -> `Value value
      | `Tree children -> `Tree (Lists.map (fun (name, child) -> (name, of_raw_b child)) children)

    let to_raw t =
      let different _ = "another raw tree" in
      of_tree t "to_raw" different (fun t -> of_raw_a (A.Tree.to_raw t)) (fun t -> of_raw_b (B.Tree.to_raw t))

    let of_raw t raw =
      made t "of_raw" (fun t -> A.Tree.of_raw t (raw_a raw)) (fun t -> B.Tree.of_raw t (raw_b raw))

    let pp out t = A.Tree.pp out t.tree_a
  end

  (* ---- stores ---- *)

  let of_index pair operation ~compared a b =
    both pair.state operation [] ~compared (fun () -> a pair.index_a) (fun () -> b pair.index_b)

  let close pair =
    A.close pair.index_a;
    B.close pair.index_b

  let sync pair = fst (of_index pair "sync" ~compared:(fun () () -> None) A.sync B.sync)
  let index t = t.pair

  let empty pair =
    let a, b = of_index pair "empty" ~compared:(fun _ _ -> None) A.empty B.empty in
    { a; b; pair }

  let of_context t operation show a b =
    fst (both t.pair.state operation [] ~compared:(alike show) (fun () -> a t.a) (fun () -> b t.b))

  let is_empty t = of_context t "is_empty" string_of_bool A.is_empty B.is_empty

  let exists pair hash =
    let exists_a a = A.exists a hash and exists_b b = B.exists b hash in
    fst (of_index pair "exists" ~compared:(alike string_of_bool) exists_a exists_b)

  let checkout pair hash =
    let compared = same_option (fun a b -> alike string_of_bool (A.is_empty a) (B.is_empty b)) in
    match of_index pair "checkout" ~compared (fun a -> A.checkout a hash) (fun b -> B.checkout b hash) with
    | Some a, Some b -> Some { a; b; pair }
    | _ -> None

  let checkout_exn pair hash =
    match checkout pair hash with
    | Some context -> context
    | None -> raise (Errors.Error (Missing, Printf.sprintf "no commit %s is here" (Hash.to_b58check hash)))

  let hash ~time ?message t =
    of_context t "hash" Hash.to_b58check (fun t -> A.hash ~time ?message t) (fun t -> B.hash ~time ?message t)

  let commit ~time ?message t =
    of_context t "commit" Hash.to_b58check (fun t -> A.commit ~time ?message t) (fun t -> B.commit ~time ?message t)
end

module Make_with_proofs (A : PROVER) (B : PROVER) = struct
  include Make (A) (B)

  type kinded_hash = [ `Value of Hash.t | `Node of Hash.t ]

  let shown_hash = function
    | `Value hash -> "the value " ^ Hash.to_b58check hash
    | `Node hash -> "the directory " ^ Hash.to_b58check hash

  module Proof = struct
    type t = { proof_a : A.Proof.t; proof_b : B.Proof.t; of_ : state }
    type encoding = [ `V1 | `V2 | `Irmin | `Json ]

    let asked proof operation show a b =
      let compared = alike show in
      fst (both proof.of_ operation [] ~compared (fun () -> a proof.proof_a) (fun () -> b proof.proof_b))

    let before proof = asked proof "Proof.before" shown_hash A.Proof.before B.Proof.before
    let after proof = asked proof "Proof.after" shown_hash A.Proof.after B.Proof.after
    let is_stream proof = asked proof "Proof.is_stream" string_of_bool A.Proof.is_stream B.Proof.is_stream

    let encoded operation proof encoding =
      let show bytes = Printf.sprintf "%d bytes, %S" (String.length bytes) bytes in
      asked proof operation show (fun it -> A.Proof.encode it encoding) (fun it -> B.Proof.encode it encoding)

    let encode proof encoding = encoded "Proof.encode" proof encoding

    (* Of no pair yet: the one whose function verifies it finds what differs. *)
    let decode encoding text =
      let of_ =
        { hash_every = 1; prefix_steps = 2; clock = Unix.gettimeofday; times = Hashtbl.create 1; calls = 0; changes = 0;
          last = []; difference = None }
      in
      let proof_a, proof_b =
        both of_ "Proof.decode" [] ~compared:(fun _ _ -> None)
          (fun () -> A.Proof.decode encoding text)
          (fun () -> B.Proof.decode encoding text)
      in
      { proof_a; proof_b; of_ }

    let close proof =
      A.Proof.close proof.proof_a;
      B.Proof.close proof.proof_b
  end

  (* One makes its proof within the other's function, so that the program's sees both trees, once. *)
  let produced operation of_a of_b pair tree f =
    let state = pair.state in
    Option.iter (fun it -> raise (Difference it)) state.difference;
    let within a =
      let changed = ref a in
      let inner b =
        let tree, answer = f (paired state a b) in
        changed := tree.tree_a;
        (tree.tree_b, answer)
      in
      let proof_b, answer = of_b pair.index_b tree.tree_b inner in
      (!changed, (proof_b, answer))
    in
    let proof_a, (proof_b, answer) = of_a pair.index_a tree.tree_a within in
    let proof = { Proof.proof_a; proof_b; of_ = state } in
    ignore (Proof.encoded operation proof `V2);
    (proof, answer)

  let produce_tree_proof pair tree f =
    produced "produce_tree_proof" A.produce_tree_proof B.produce_tree_proof pair tree f

  let produce_stream_proof pair tree f =
    produced "produce_stream_proof" A.produce_stream_proof B.produce_stream_proof pair tree f

  (* The second one refused before it ran the function, which the first one runs. *)
  exception Refused of string

  (* It ran the function, which the first one refused to do. *)
  exception Ran

  let verified operation of_a of_b { Proof.proof_a; proof_b; of_ = state } f =
    let differ a b = stop state operation [] a b in
    let second = ref None in
    let within a =
      let changed = ref None in
      let inner b =
        let tree, answer = f (paired state a b) in
        changed := Some (tree.tree_a, answer);
        (tree.tree_b, ())
      in
      second := Some (of_b proof_b inner);
      match (!second, !changed) with
      | Some (Error (`Proof_mismatch sentence)), None -> raise (Refused sentence)
      | _, changed -> Option.get changed
    in
    match of_a proof_a within with
    | exception Refused sentence -> differ "runs the function" ("refuses: " ^ sentence)
    | Ok (tree_a, answer) -> (
      match !second with
      | Some (Ok (tree_b, ())) -> Ok (paired state tree_a tree_b, answer)
      | Some (Error (`Proof_mismatch sentence)) -> differ "is content" ("refuses: " ^ sentence)
      | None -> differ "is content" "was not asked")
    | Error (`Proof_mismatch sentence) -> (
      let second =
        match !second with
        | Some (Ok _) -> None
        | Some (Error _) -> Some ()
        | None -> (
          match of_b proof_b (fun _ -> raise Ran) with
          | exception Ran -> None
          | Ok _ -> None
          | Error _ -> Some ())
      in
      match second with
      | Some () -> Error (`Proof_mismatch sentence)
      | None -> differ ("refuses: " ^ sentence) "is content")

  let verify_tree_proof ?root proof f =
    let of_a proof run = A.verify_tree_proof ?root proof run and of_b proof run = B.verify_tree_proof ?root proof run in
    verified "verify_tree_proof" of_a of_b proof f

  let verify_stream_proof ?root proof f =
    let of_a proof run = A.verify_stream_proof ?root proof run
    and of_b proof run = B.verify_stream_proof ?root proof run in
    verified "verify_stream_proof" of_a of_b proof f
end
