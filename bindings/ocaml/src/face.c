/* Handles, calls and copies: see face.h. */
#include "face.h"

#include <pthread.h>
#include <stdio.h>

/* ---- handles ---- */

/* What a finaliser left to be closed: it runs inside the collector, where the library, which may wait for the disk, must
 * not be called. The next call of any thread closes it. */
struct left {
    void *handle;
    enum face_kind kind;
    struct left *next;
};
static _Atomic(struct left *) all_left;

static int close_handle(enum face_kind kind, void *handle, varvite_error *error) {
    switch (kind) {
    case FACE_DISK: return varvite_disk_close(handle, error);
    case FACE_CACHE: return varvite_cache_close(handle, error);
    case FACE_OPERATOR: return varvite_operator_close(handle, error);
    case FACE_SESSION: return varvite_session_close(handle, error);
    case FACE_TABLE: return varvite_table_close(handle, error);
    case FACE_VIEW: return varvite_view_close(handle, error);
    case FACE_CURSOR: return varvite_cursor_close(handle, error);
    case FACE_ITERATOR: return varvite_iterator_close(handle, error);
    case FACE_FOLLOWER: return varvite_follower_close(handle, error);
    case FACE_VALUE: return varvite_value_close(handle, error);
    case FACE_VALUE_WRITER: return varvite_value_writer_close(handle, error);
    case FACE_LOADER: return varvite_loader_close(handle, error);
    case FACE_SNAPSHOT: return varvite_snapshot_close(handle, error);
    case FACE_TABLES: return varvite_tables_close(handle, error);
    case FACE_TRANSACTION: return varvite_transaction_close(handle, error);
    case FACE_SCRUB: return varvite_scrub_close(handle, error);
    case FACE_READER: return varvite_reader_close(handle, error);
    case FACE_STORE: return varvite_store_close(handle, error);
    case FACE_TREE: return varvite_tree_close(handle, error);
    case FACE_PROOF: return varvite_proof_close(handle, error);
    }
    return VARVITE_INVALID;
}

static void leave_to_close(enum face_kind kind, void *handle) {
    struct left *left = malloc(sizeof *left);
    if (!left) return; /* without memory the handle stays open */
    left->handle = handle;
    left->kind = kind;
    left->next = atomic_load(&all_left);
    while (!atomic_compare_exchange_weak(&all_left, &left->next, left)) {
    }
}

/* Whether other handles are closed with those of this kind. */
static int is_owner(enum face_kind kind) {
    return kind == FACE_SESSION || kind == FACE_STORE;
}

static void finalise(value block) {
    struct face_held *held = HELD(block);
    if (!is_owner(held->kind) && !atomic_load(&held->is_closed)) leave_to_close(held->kind, held->handle);
    struct face_owner *owner = held->owner;
    if (owner && atomic_fetch_sub(&owner->blocks, 1) == 1) {
        /* That it may have been closed long ago does no harm: an old handle is an error. */
        leave_to_close(owner->kind, owner->handle);
        free(owner);
    }
}

static struct custom_operations operations = {
    "varvite.handle",           finalise, custom_compare_default, custom_hash_default, custom_serialize_default,
    custom_deserialize_default, NULL,     NULL,
};

static value block_of(enum face_kind kind, void *handle, struct face_owner *owner) {
    /* About what a version of a tree takes beside the one before it, so that dropped ones are found in time. */
    value block = caml_alloc_custom_mem(&operations, sizeof(struct face_held), kind == FACE_TREE ? 1024 : 256);
    struct face_held *held = HELD(block);
    held->handle = handle;
    held->kind = kind;
    atomic_init(&held->is_closed, 0);
    atomic_init(&held->is_in_use, 0);
    held->owner = owner;
    return block;
}

value face_block(enum face_kind kind, void *handle) {
    if (!is_owner(kind)) return block_of(kind, handle, NULL);
    struct face_owner *owner = malloc(sizeof *owner);
    if (!owner) {
        leave_to_close(kind, handle);
        caml_raise_out_of_memory();
    }
    owner->handle = handle;
    owner->kind = kind;
    atomic_init(&owner->blocks, 1);
    return block_of(kind, handle, owner);
}

value face_child(enum face_kind kind, void *handle, value in) {
    struct face_owner *owner = HELD(in)->owner;
    atomic_fetch_add(&owner->blocks, 1);
    return block_of(kind, handle, owner);
}

static int is_exclusive(enum face_kind kind) {
    return kind == FACE_CURSOR;
}

value varvite_ocaml_close(value block) {
    CAMLparam1(block);
    varvite_error error;
    int status = VARVITE_OK;
    void *handle = HANDLE(block);
    enum face_kind kind = HELD(block)->kind;
    if (is_exclusive(kind) && atomic_exchange(&HELD(block)->is_in_use, 1)) {
        caml_invalid_argument("Varvite: another thread is using this cursor");
    }
    if (!atomic_exchange(&HELD(block)->is_closed, 1)) LIBRARY(close_handle(kind, handle, &error));
    /* What refused to be closed, as in a callback, can be closed later, at the latest by the finaliser. What was closed
     * in spite of an error is told so then, which nobody hears. */
    if (status != VARVITE_OK && status != VARVITE_CLOSED) atomic_store(&HELD(block)->is_closed, 0);
    if (is_exclusive(kind)) atomic_store(&HELD(block)->is_in_use, 0);
    /* A finish that failed has closed them. */
    if (status == VARVITE_CLOSED && (kind == FACE_LOADER || kind == FACE_VALUE_WRITER)) status = VARVITE_OK;
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* Loader and writer that finished are closed by that. */
value varvite_ocaml_finished(value block) {
    atomic_store(&HELD(block)->is_closed, 1);
    return Val_unit;
}

/* ---- what belongs to a thread ---- */

enum { DEPTHS = 4 };
static size_t const KEPT_BYTES = (size_t)1 << 20;

struct own {
    int depth; /* callbacks that the thread is in */
    int is_known;
    varvite_arena arenas[DEPTHS];
    /* Memory for the copies of batches, kept because giving much back to the system and getting it again is dear. */
    unsigned char *copies;
    size_t copies_bytes;
    int copies_are_taken;
    char raised[512];
};
static __thread struct own own;
static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_thread(void *its) {
    struct own *of = its;
    for (int depth = 0; depth < DEPTHS; depth++) varvite_arena_free(&of->arenas[depth], NULL);
    free(of->copies);
}

static void make_key(void) {
    pthread_key_create(&ending, end_thread);
}

static void know_thread(void) {
    if (own.is_known) return;
    pthread_once(&once, make_key);
    pthread_setspecific(ending, &own);
    own.is_known = 1;
}

varvite_arena *face_arena(void) {
    know_thread();
    if (own.depth >= DEPTHS) caml_invalid_argument("Varvite: callbacks are nested too deep");
    return &own.arenas[own.depth];
}

void face_emptied(varvite_arena *arena) {
    size_t bytes = arena->count * sizeof(varvite_bytes);
    for (size_t it = 0; it < arena->count && bytes < KEPT_BYTES; it++) bytes += arena->items[it].length;
    if (bytes >= KEPT_BYTES) varvite_arena_free(arena, NULL);
}

/* ---- calls ---- */

static void close_left(void) {
    struct left *left = NULL, *newest = atomic_exchange(&all_left, NULL);
    while (newest) { /* the oldest first: a session or store was left after what is in it */
        struct left *next = newest->next;
        newest->next = left;
        left = newest;
        newest = next;
    }
    while (left) {
        struct left *next = left->next;
        close_handle(left->kind, left->handle, NULL);
        free(left);
        left = next;
    }
}

extern void face_drop_released(void);

void face_leave(void) {
    face_drop_released();
    /* Pending signals wait: their handlers may raise, which here would leave memory behind, and in a callback would
     * leave the library by a jump. */
    caml_enter_blocking_section_no_pending();
    if (own.depth == 0 && atomic_load_explicit(&all_left, memory_order_relaxed)) close_left();
}

void face_return(void) {
    caml_leave_blocking_section();
}

void face_begin_callback(void) {
    caml_leave_blocking_section();
    own.depth++;
}

void face_end_callback(void) {
    own.depth--;
    caml_enter_blocking_section_no_pending();
}

/* A function that Errors registered. */
static value registered(int which) {
    static const char *const names[] = {"varvite.told", "varvite.call_1", "varvite.call_2", "varvite.call_3"};
    static const value *_Atomic known[sizeof names / sizeof *names];
    const value *function = known[which];
    if (!function) known[which] = function = caml_named_value(names[which]);
    return *function;
}

struct building {
    value (*make)(void *);
    void *of;
};

/* The address of a building, which is even, travels as a number. */
value varvite_ocaml_built(value at) {
    const struct building *building = (const struct building *)(at & ~(value)1);
    return building->make(building->of);
}

value face_call_back(int arguments, value function, value (*make)(void *), void *of) {
    struct building building = {make, of};
    return caml_callback2_exn(registered(arguments), function, (value)&building | 1);
}

/* ---- errors ---- */

void face_remember(value exception) {
    value text = caml_callback_exn(registered(0), exception);
    snprintf(own.raised, sizeof own.raised, "%s", Is_exception_result(text) ? "an exception" : String_val(text));
}

void face_raise(int status, const varvite_error *error) {
    static const value *_Atomic known = NULL;
    CAMLparam0();
    CAMLlocalN(arguments, 2);
    const value *exception = known;
    if (!exception) known = exception = caml_named_value("varvite.error");
    if (!exception) caml_failwith("Varvite.Error is not linked");
    int kind = status <= VARVITE_COLLECTED ? status - 1 : status - VARVITE_CALLBACK + VARVITE_COLLECTED;
    if (kind < 0 || status > VARVITE_BUSY || (status > VARVITE_COLLECTED && status < VARVITE_CALLBACK)) {
        kind = VARVITE_COLLECTED + 3;
    }
    arguments[0] = Val_int(kind);
    if (status == VARVITE_CALLBACK && own.raised[0]) {
        char sentence[sizeof own.raised + VARVITE_SENTENCE_BYTES + 16];
        snprintf(sentence, sizeof sentence, "%s: it raised %s", error->sentence, own.raised);
        own.raised[0] = 0;
        arguments[1] = caml_copy_string(sentence);
    } else {
        arguments[1] = caml_copy_string(error->sentence);
    }
    caml_raise_with_args(*exception, 2, arguments);
    CAMLnoreturn;
}

/* ---- copies ---- */

/* The thread's own memory, unless a call that this one is nested in has it, or it is too much to keep. */
static unsigned char *much(size_t bytes) {
    if (own.copies_are_taken || bytes > KEPT_BYTES) return malloc(bytes);
    if (bytes > own.copies_bytes) {
        know_thread();
        free(own.copies);
        own.copies = malloc(bytes * 2);
        own.copies_bytes = own.copies ? bytes * 2 : 0;
    }
    own.copies_are_taken = own.copies != NULL;
    return own.copies;
}

void face_reserve(struct face_memory *memory, size_t bytes) {
    memory->used = 0;
    memory->start = bytes <= FACE_NEAR_BYTES ? (unsigned char *)memory->near : much(bytes);
    if (!memory->start) caml_raise_out_of_memory();
}

void *face_take(struct face_memory *memory, size_t bytes) {
    void *taken = memory->start + memory->used;
    memory->used += face_aligned(bytes);
    return taken;
}

varvite_bytes face_bytes(struct face_memory *memory, value text) {
    enum { FEW_WORDS = 8 };
    size_t words = Wosize_val(text), length = caml_string_length(text);
    value *copy = face_take(memory, words * sizeof(value));
    if (words <= FEW_WORDS) {
        for (size_t it = 0; it < words; it++) copy[it] = Field(text, it);
    } else {
        memcpy(copy, String_val(text), words * sizeof(value));
    }
    return (varvite_bytes){(const uint8_t *)copy, length};
}

void face_free(struct face_memory *memory) {
    if (memory->start == (unsigned char *)memory->near) return;
    if (memory->start == own.copies) own.copies_are_taken = 0;
    else free(memory->start);
}

size_t face_path_size(value path) {
    size_t bytes = 0;
    for (; path != Val_emptylist; path = Field(path, 1)) bytes += sizeof(varvite_bytes) + face_size(Field(path, 0));
    return bytes;
}

varvite_bytes *face_path(struct face_memory *memory, value path, size_t *steps) {
    size_t count = 0;
    for (value it = path; it != Val_emptylist; it = Field(it, 1)) count++;
    varvite_bytes *all = face_take(memory, count * sizeof *all);
    for (size_t it = 0; it < count; it++, path = Field(path, 1)) all[it] = face_bytes(memory, Field(path, 0));
    *steps = count;
    return all;
}

size_t face_array_size(value texts) {
    size_t bytes = Wosize_val(texts) * sizeof(varvite_bytes);
    for (mlsize_t it = 0; it < Wosize_val(texts); it++) bytes += face_size(Field(texts, it));
    return bytes;
}

varvite_bytes *face_array(struct face_memory *memory, value texts) {
    varvite_bytes *all = face_take(memory, Wosize_val(texts) * sizeof *all);
    for (mlsize_t it = 0; it < Wosize_val(texts); it++) all[it] = face_bytes(memory, Field(texts, it));
    return all;
}

void **face_handles(struct face_memory *memory, value blocks) {
    void **all = face_take(memory, face_handles_size(blocks));
    for (mlsize_t it = 0; it < Wosize_val(blocks); it++) all[it] = HANDLE(Field(blocks, it));
    return all;
}

void face_no_nul(value text) {
    if (!caml_string_is_c_safe(text)) caml_invalid_argument("Varvite: a name has a NUL in it");
}

uint64_t face_number(value number, uint64_t most) {
    if (Long_val(number) < 0 || (uint64_t)Long_val(number) > most) {
        caml_invalid_argument("Varvite: a number is negative, or too large for what it is given for");
    }
    return Long_val(number);
}

varvite_configuration face_configuration(value given) {
    return (varvite_configuration){face_number(Field(given, 0), UINT32_MAX), face_number(Field(given, 1), UINT32_MAX),
                                   face_number(Field(given, 2), UINT32_MAX)};
}

value face_numbers(const void *all, size_t bytes) {
    CAMLparam0();
    CAMLlocal1(array);
    const uint64_t *from = all;
    array = caml_alloc(bytes / sizeof *from, 0);
    for (size_t it = 0; it < bytes / sizeof *from; it++) {
        /* More than fits is not counted on, as where there is no bound. */
        Store_field(array, it, Val_long(from[it] > Max_long ? Max_long : (intnat)from[it]));
    }
    CAMLreturn(array);
}

value face_text(varvite_bytes bytes) {
    return caml_alloc_initialized_string(bytes.length, (const char *)bytes.data);
}

value face_optional(varvite_bytes bytes) {
    CAMLparam0();
    CAMLlocal1(text);
    if (!bytes.data) CAMLreturn(Val_none);
    text = face_text(bytes);
    CAMLreturn(caml_alloc_some(text));
}

static value array_of(const varvite_arena *arena, value (*make)(varvite_bytes)) {
    CAMLparam0();
    CAMLlocal2(all, one);
    if (arena->count == 0) CAMLreturn(Atom(0));
    all = caml_alloc(arena->count, 0);
    for (size_t it = 0; it < arena->count; it++) {
        one = make(arena->items[it]);
        Store_field(all, it, one);
    }
    CAMLreturn(all);
}

value face_texts(const varvite_arena *arena) {
    return array_of(arena, face_text);
}

value face_optionals(const varvite_arena *arena) {
    return array_of(arena, face_optional);
}

value face_steps(const varvite_bytes *path, size_t steps) {
    CAMLparam0();
    CAMLlocal3(list, cell, step);
    list = Val_emptylist;
    while (steps-- > 0) {
        step = face_text(path[steps]);
        cell = caml_alloc_small(2, Tag_cons);
        Field(cell, 0) = step;
        Field(cell, 1) = list;
        list = cell;
    }
    CAMLreturn(list);
}
