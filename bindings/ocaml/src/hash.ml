type t = string

let of_string text = if String.length text = 32 then Some text else None

let of_string_exn text =
  match of_string text with
  | Some hash -> hash
  | None ->
    raise (Errors.Error (Invalid, Printf.sprintf "a hash has 32 bytes, not %d" (String.length text)))

let to_string hash = hash
let to_b58check = Raw.hash_text
let of_b58check_exn = Raw.hash_parse
let of_b58check text = match Raw.hash_parse text with hash -> Some hash | exception Errors.Error _ -> None
let to_hex hash = String.concat "" (List.map (fun it -> Printf.sprintf "%02x" (Char.code it)) (List.of_seq (String.to_seq hash)))
let equal = String.equal
let compare = String.compare
let hash = Hashtbl.hash
let pp out hash = Format.pp_print_string out (to_b58check hash)
