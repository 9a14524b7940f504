type t = Disk of Raw.handle [@@unboxed]

let folder ?(create = true) name = Disk (Raw.disk_folder name create)
let memory ?(seed = 0) () = Disk (Raw.disk_memory seed)
let close (Disk handle) = Raw.close handle
