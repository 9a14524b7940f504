(* Folders for tests, below one that is removed in the end. *)

let root =
  lazy
    (let name = Filename.temp_file "varvite" ".tests" in
     Sys.remove name;
     Unix.mkdir name 0o700;
     name)

let count = ref 0

let fresh () =
  incr count;
  Filename.concat (Lazy.force root) (string_of_int !count)

let rec files folder =
  List.concat_map
    (fun name ->
      let path = Filename.concat folder name in
      if Sys.is_directory path then List.map (Filename.concat name) (files path) else [ name ])
    (List.sort compare (Array.to_list (Sys.readdir folder)))

let rec remove path =
  if Sys.is_directory path then begin
    Array.iter (fun name -> remove (Filename.concat path name)) (Sys.readdir path);
    Unix.rmdir path
  end
  else Sys.remove path

let () =
  let owner = Unix.getpid () in
  at_exit (fun () -> if Lazy.is_val root && Unix.getpid () = owner then remove (Lazy.force root))

let first_line path =
  let file = open_in path in
  Fun.protect ~finally:(fun () -> close_in file) (fun () -> input_line file)

let content path =
  let file = open_in_bin path in
  Fun.protect ~finally:(fun () -> close_in file) (fun () -> really_input_string file (in_channel_length file))
