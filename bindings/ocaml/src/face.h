/* What the stubs share: handles, calls out of the runtime, copies into and out of OCaml's heap.
 *
 * Invariant: the library is only called through LIBRARY, which gives the runtime lock away meanwhile. So every callback
 * takes it back, no thread that has it waits for a lock of the library, and what is on OCaml's heap is copied before.
 */
#ifndef VARVITE_FACE_H
#define VARVITE_FACE_H

#define CAML_INTERNALS /* for caml_enter_blocking_section_no_pending alone */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/custom.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/printexc.h>
#include <caml/signals.h>
#undef CAML_INTERNALS

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "varvite.h"

enum face_kind {
    FACE_DISK,
    FACE_CACHE,
    FACE_OPERATOR,
    FACE_SESSION,
    FACE_TABLE,
    FACE_VIEW,
    FACE_CURSOR,
    FACE_ITERATOR,
    FACE_FOLLOWER,
    FACE_VALUE,
    FACE_VALUE_WRITER,
    FACE_LOADER,
    FACE_SNAPSHOT,
    FACE_TABLES,
    FACE_TRANSACTION,
    FACE_SCRUB,
    FACE_STORE,
    FACE_READER,
    FACE_TREE,
    FACE_PROOF
};

/* What a custom block has. The library's handles are numbers that it checks, so an old one is an error, never a crash. */
struct face_held {
    void *handle;
    enum face_kind kind;
    atomic_int is_closed;
    atomic_int is_in_use; /* of a cursor alone: its bytes are being copied, and lie there until its next call */
    struct face_owner *owner;
};

/* A session or a store that its block and the blocks of what is in it share: it is closed after all of them, because what
 * is in it would be closed with it. */
struct face_owner {
    void *handle;
    enum face_kind kind;
    atomic_size_t blocks;
};

#define HELD(block) ((struct face_held *)Data_custom_val(block))
#define HANDLE(block) (HELD(block)->handle)

/* A block for a handle, which its finaliser closes. */
value face_block(enum face_kind kind, void *handle);
/* The same, of something in the session or store that `in` is, or is in. */
value face_child(enum face_kind kind, void *handle, value in);

/* Around a call of the library: gives the runtime lock away and takes it back. Neither raises nor runs OCaml's code. */
void face_leave(void);
void face_return(void);
#define LIBRARY(call) (face_leave(), status = (call), face_return())

/* Around OCaml's code in a callback, which raises nothing: it is called by face_call_back alone. */
void face_begin_callback(void);
void face_end_callback(void);
/* Calls a function with one argument, or two or three, which `make` gives, together as a tuple. That runs within a handler
 * of OCaml's: where there is no memory for it, the answer is an exception. */
value face_call_back(int arguments, value function, value (*make)(void *), void *of);

/* Raises what a call that failed says. */
CAMLnoreturn_start void face_raise(int status, const varvite_error *error) CAMLnoreturn_end;
#define CHECK(status)                              \
    do {                                           \
        if ((status) != VARVITE_OK) face_raise(status, &error); \
    } while (0)

/* Remembers the text of what a merge operator raised, for the call that fails by it. */
void face_remember(value exception);

/* The arena of this thread at this depth of callbacks. */
varvite_arena *face_arena(void);
/* Gives memory back that is too much to be kept for the next call. */
void face_emptied(varvite_arena *arena);

/* Memory for copies of what is on OCaml's heap, outside of it. */
enum { FACE_NEAR_BYTES = 768 };
struct face_memory {
    unsigned char *start;
    size_t used;
    size_t near[FACE_NEAR_BYTES / sizeof(size_t)];
};

/* Makes room for so many bytes in all, or raises Out_of_memory. Then nothing that takes of it fails. */
void face_reserve(struct face_memory *memory, size_t bytes);
void *face_take(struct face_memory *memory, size_t bytes);
varvite_bytes face_bytes(struct face_memory *memory, value text);
void face_free(struct face_memory *memory);

static inline size_t face_aligned(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}
/* A text is copied by the words that it lies in, which end in a NUL behind its last byte. */
static inline size_t face_size(value text) {
    return Bosize_val(text);
}
size_t face_path_size(value path);
varvite_bytes *face_path(struct face_memory *memory, value path, size_t *steps);
size_t face_array_size(value texts);
varvite_bytes *face_array(struct face_memory *memory, value texts);
/* The handles of an array of blocks. */
static inline size_t face_handles_size(value blocks) {
    return Wosize_val(blocks) * sizeof(void *);
}
void **face_handles(struct face_memory *memory, value blocks);
/* An array of operations, as Table.operation has them. */
size_t face_batch_size(value batch);
varvite_operation *face_batch(struct face_memory *memory, value batch);
/* A text without NUL inside, or Invalid_argument. */
void face_no_nul(value text);

value face_text(varvite_bytes bytes);
value face_optional(varvite_bytes bytes);
/* A number that is not negative and not more than `most`, or Invalid_argument. */
uint64_t face_number(value number, uint64_t most);
/* An option of a struct: an array has them all, and -1 for one that was not given. */
#define GIVEN(field, index)                                                                       \
    do {                                                                                          \
        if (Long_val(Field(given, index)) >= 0) {                                                 \
            options.field = face_number(Field(given, index), (uint64_t) ~(__typeof__(options.field))0); \
        }                                                                                         \
    } while (0)
varvite_configuration face_configuration(value given);
value face_hash(const varvite_hash *hash);
varvite_hash face_hash_of(value text);
/* Numbers of a struct that has nothing but u64, as an array. */
value face_numbers(const void *all, size_t bytes);

/* Every item of the arena: an array of texts, or of optional ones. */
value face_texts(const varvite_arena *arena);
value face_optionals(const varvite_arena *arena);
/* The path of a callback as a list. */
value face_steps(const varvite_bytes *path, size_t steps);

#endif
