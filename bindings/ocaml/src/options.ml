(* Options are given to the stubs as numbers, -1 for what has its default. *)

let number = function
  | None -> -1
  | Some number when number < 0 -> invalid_arg "Varvite: an option is a negative number"
  | Some number -> number

let flag = function Some true -> 1 | Some false -> 0 | None -> -1
