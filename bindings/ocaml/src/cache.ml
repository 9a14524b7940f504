type t = Cache of Raw.handle [@@unboxed]

type stats = { hits : int; misses : int; evictions : int; pages : int; bytes : int; charged_bytes : int }

let create bytes = Cache (Raw.cache_new bytes)

let stats (Cache handle) =
  match Raw.cache_stats handle with
  | [| hits; misses; evictions; pages; bytes; charged_bytes |] ->
    { hits; misses; evictions; pages; bytes; charged_bytes }
  | _ -> assert false

let close (Cache handle) = Raw.close handle
