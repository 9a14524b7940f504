# The lines of one of a document's blocks of OCaml.
/^```ocaml$/ { inside = ++count == block; next }
/^```$/ { inside = 0 }
inside
