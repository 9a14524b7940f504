// varvite: an embeddable storage engine for blockchain ledger state. The interface for C.
//
// Every function that can fail returns one of VARVITE_OK … VARVITE_BUSY, and tells more in its last argument, which may
// be NULL. Answers go to the arguments before it; a place for an answer is not written when the call fails, unless the
// function says so, but for an arena, which is then empty. Answers of any number go to an arena, which one call frees.
//
// Handles come from …_open, …_create and the like and are closed by …_close. A handle that is NULL, was closed, is of
// another kind or was never given is an error, not undefined behaviour. Any thread may use any handle; calls that change
// the same thing wait for each other. After a fork the child's handles are errors. See README.md.
//
// This file is made from the sources of varvite-c: do not edit it.
