type kind =
  | Io
  | Corrupt
  | Version
  | Locked
  | Missing
  | Exists
  | Invalid
  | Closed
  | Poisoned
  | Hidden
  | Collected
  | Callback
  | Panic
  | Busy
  | Unknown

exception Error of kind * string

let kind_name = function
  | Io -> "io"
  | Corrupt -> "corrupt"
  | Version -> "version"
  | Locked -> "locked"
  | Missing -> "missing"
  | Exists -> "exists"
  | Invalid -> "invalid"
  | Closed -> "closed"
  | Poisoned -> "poisoned"
  | Hidden -> "hidden"
  | Collected -> "collected"
  | Callback -> "callback"
  | Panic -> "panic"
  | Busy -> "busy"
  | Unknown -> "unknown"

(* What a callback is given: made by the stub that calls it, within the handlers of the closures below. Where there is no
   memory for it, the callback raises; made before, it would leave the library by a jump over its frames. *)
external built : int -> 'a = "varvite_ocaml_built"

let () =
  Callback.register "varvite.call_1" (fun f at -> f (built at));
  Callback.register "varvite.call_2" (fun f at ->
      let a, b = built at in
      f a b);
  Callback.register "varvite.call_3" (fun f at ->
      let a, b, c = built at in
      f a b c);
  Callback.register "varvite.told" Printexc.to_string_default;
  Callback.register_exception "varvite.error" (Error (Unknown, ""));
  Printexc.register_printer (function
    | Error (kind, sentence) -> Some (Printf.sprintf "Varvite.Error (%s): %s" (kind_name kind) sentence)
    | _ -> None)
