(* As much of JSON as the conformance files have. *)

type t = Null | Number of int | Text of string | List of t list | Members of (string * t) list

let read line =
  let at = ref 0 in
  let rec skip () =
    if !at < String.length line && (line.[!at] = ' ' || line.[!at] = '\n') then begin
      incr at;
      skip ()
    end
  in
  let expect letter =
    skip ();
    if line.[!at] <> letter then failwith (Printf.sprintf "%c is missing at %d of %s" letter !at line);
    incr at
  in
  let text () =
    expect '"';
    let first = !at in
    at := String.index_from line first '"';
    incr at;
    let text = String.sub line first (!at - 1 - first) in
    if String.contains text '\\' then failwith "no text of the files has an escape";
    text
  in
  let rec several last one =
    skip ();
    if line.[!at] = last then begin
      incr at;
      []
    end
    else
      let first = one () in
      skip ();
      if line.[!at] = ',' then begin
        incr at;
        skip ()
      end;
      first :: several last one
  in
  let rec value () =
    skip ();
    match line.[!at] with
    | '"' -> Text (text ())
    | '[' ->
      incr at;
      List (several ']' value)
    | '{' ->
      incr at;
      let member () =
        let name = text () in
        expect ':';
        (name, value ())
      in
      Members (several '}' member)
    | 'n' ->
      at := !at + 4;
      Null
    | 't' ->
      at := !at + 4;
      Number 1
    | 'f' ->
      at := !at + 5;
      Number 0
    | _ ->
      let first = !at in
      while !at < String.length line && (match line.[!at] with '0' .. '9' | '-' -> true | _ -> false) do incr at done;
      Number (int_of_string (String.sub line first (!at - first)))
  in
  value ()

let member name = function
  | Members members -> (
    match List.assoc_opt name members with Some it -> it | None -> failwith ("no member " ^ name))
  | _ -> failwith "no object"

let member_opt name = function Members members -> List.assoc_opt name members | _ -> None
let text = function Text text -> text | _ -> failwith "no text"
let number = function Number number -> number | _ -> failwith "no number"
let list = function List list -> list | _ -> failwith "no list"

let hex text =
  String.init (String.length text / 2) (fun at -> Char.chr (int_of_string ("0x" ^ String.sub text (2 * at) 2)))

let bytes it = hex (text it)
let optional = function Null -> None | it -> Some (bytes it)
