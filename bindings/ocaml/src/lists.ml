let map f list = List.rev (List.rev_map f list)
let map2 f one other = List.rev (List.rev_map2 f one other)
let of_array f array = Array.fold_right (fun it list -> f it :: list) array []
