# The lines of one of a document's blocks of Haskell.
/^```haskell$/ { inside = ++count == block; next }
/^```$/ { inside = 0 }
inside
