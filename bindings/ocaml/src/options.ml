(* Options are given to the stubs as numbers, -1 for what has its default. *)

let number = function Some number -> max number 0 | None -> -1
let flag = function Some true -> 1 | Some false -> 0 | None -> -1
