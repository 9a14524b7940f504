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

let () =
  Callback.register_exception "varvite.error" (Error (Unknown, ""));
  Printexc.register_printer (function
    | Error (kind, sentence) -> Some (Printf.sprintf "Varvite.Error (%s): %s" (kind_name kind) sentence)
    | _ -> None)
