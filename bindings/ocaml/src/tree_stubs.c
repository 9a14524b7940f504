/* Trees and proofs. To OCaml a tree never changes: what changes one duplicates it first, in O(1). See face.h for the
 * rules. */
#include "face.h"

static value tree_block(varvite_tree *tree) {
    return face_block(FACE_TREE, tree);
}

static value optional_tree(varvite_tree *tree) {
    CAMLparam0();
    CAMLlocal1(block);
    if (!tree) CAMLreturn(Val_none);
    block = tree_block(tree);
    CAMLreturn(caml_alloc_some(block));
}

value varvite_ocaml_tree_empty(value configuration) {
    varvite_error error;
    varvite_tree *tree;
    varvite_configuration shape = face_configuration(configuration);
    int status;
    LIBRARY(varvite_tree_empty(&shape, &tree, &error));
    CHECK(status);
    return tree_block(tree);
}

value varvite_ocaml_tree_of_value(value configuration, value held) {
    CAMLparam2(configuration, held);
    varvite_error error;
    varvite_tree *tree;
    varvite_configuration shape = face_configuration(configuration);
    struct face_memory memory;
    int status;
    face_reserve(&memory, face_size(held));
    varvite_bytes bytes = face_bytes(&memory, held);
    LIBRARY(varvite_tree_of_value(&shape, &bytes, &tree, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(tree_block(tree));
}

/* ---- reading ---- */

/* Most values are no longer: one call, and no arena. */
enum { NEAR_BYTES = 1024 };

value varvite_ocaml_tree_find(value tree, value path) {
    CAMLparam2(tree, path);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    size_t steps, length;
    uint8_t near[NEAR_BYTES];
    int status;
    varvite_arena *arena = face_arena();
    face_reserve(&memory, face_path_size(path));
    varvite_bytes *all = face_path(&memory, path, &steps);
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_find_into(handle, all, steps, near, sizeof near, &length, &error));
    if (status == VARVITE_OK && (length <= sizeof near || length == SIZE_MAX)) {
        face_free(&memory);
        CAMLreturn(face_optional((varvite_bytes){length == SIZE_MAX ? NULL : near, length}));
    }
    if (status != VARVITE_OK) {
        face_free(&memory);
        CHECK(status);
    }
    LIBRARY(varvite_tree_find(handle, all, steps, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_optional(arena->items[0]);
    face_emptied(arena);
    CAMLreturn(answer);
}

value varvite_ocaml_tree_find_many(value tree, value paths) {
    CAMLparam2(tree, paths);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    int status;
    varvite_arena *arena = face_arena();
    size_t count = Wosize_val(paths), bytes = count * sizeof(varvite_path) + 8;
    for (size_t it = 0; it < count; it++) bytes += face_path_size(Field(paths, it));
    face_reserve(&memory, bytes);
    varvite_path *all = face_take(&memory, count * sizeof *all);
    for (size_t it = 0; it < count; it++) all[it].steps = face_path(&memory, Field(paths, it), &all[it].count);
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_find_many(handle, all, count, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_optionals(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

value varvite_ocaml_tree_find_tree(value tree, value path) {
    CAMLparam2(tree, path);
    varvite_error error;
    varvite_tree *found;
    struct face_memory memory;
    size_t steps;
    int status;
    face_reserve(&memory, face_path_size(path));
    varvite_bytes *all = face_path(&memory, path, &steps);
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_find_tree(handle, all, steps, &found, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(optional_tree(found));
}

/* what: 0 mem, 1 mem_tree, 2 length. */
value varvite_ocaml_tree_ask(value tree, value what, value path) {
    CAMLparam2(tree, path);
    varvite_error error;
    struct face_memory memory;
    size_t steps;
    uint64_t length = 0;
    int status, is_there = 0, which = Int_val(what);
    face_reserve(&memory, face_path_size(path));
    varvite_bytes *all = face_path(&memory, path, &steps);
    void *handle = HANDLE(tree);
    LIBRARY(which == 0   ? varvite_tree_mem(handle, all, steps, &is_there, &error)
            : which == 1 ? varvite_tree_mem_tree(handle, all, steps, &is_there, &error)
                         : varvite_tree_length(handle, all, steps, &length, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_long(which == 2 ? (long long)length : is_there));
}

value varvite_ocaml_tree_kind(value tree) {
    CAMLparam1(tree);
    varvite_error error;
    uint32_t kind;
    int status;
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_kind(handle, &kind, &error));
    CHECK(status);
    CAMLreturn(Val_long(kind));
}

value varvite_ocaml_tree_is_empty(value tree) {
    CAMLparam1(tree);
    varvite_error error;
    int status, is_empty;
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_is_empty(handle, &is_empty, &error));
    CHECK(status);
    CAMLreturn(Val_bool(is_empty));
}

value varvite_ocaml_tree_hash(value tree) {
    CAMLparam1(tree);
    varvite_error error;
    varvite_hash hash;
    int status;
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_hash(handle, &hash, &error));
    CHECK(status);
    CAMLreturn(caml_alloc_initialized_string(sizeof hash.bytes, (const char *)hash.bytes));
}

value varvite_ocaml_tree_equal(value tree, value other) {
    CAMLparam2(tree, other);
    varvite_error error;
    int status, are_equal;
    void *handle = HANDLE(tree), *second = HANDLE(other);
    LIBRARY(varvite_tree_equal(handle, second, &are_equal, &error));
    CHECK(status);
    CAMLreturn(Val_bool(are_equal));
}

value varvite_ocaml_tree_clear(value tree, value depth) {
    CAMLparam1(tree);
    varvite_error error;
    int status;
    size_t deeper = face_number(depth, SIZE_MAX);
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_clear(handle, deeper, &error));
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* The children after the first `offset`, at most `length` of them: an array of names and trees in turn. */
value varvite_ocaml_tree_list(value tree, value offset, value length, value path) {
    CAMLparam2(tree, path);
    CAMLlocal3(answer, one, cell);
    varvite_error error;
    struct face_memory memory;
    size_t steps;
    uint64_t count = 0, first = Long_val(offset), most = Long_val(length);
    int status;
    varvite_arena *arena = face_arena();
    face_reserve(&memory, face_path_size(path));
    varvite_bytes *all = face_path(&memory, path, &steps);
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_length(handle, all, steps, &count, &error));
    count = count > first ? count - first : 0;
    if (count > most) count = most;
    varvite_tree **trees = NULL;
    if (status == VARVITE_OK && count > 0) {
        trees = malloc(count * sizeof *trees);
        if (!trees) {
            face_free(&memory);
            caml_raise_out_of_memory();
        }
        LIBRARY(varvite_tree_list_trees(handle, all, steps, first, count, arena, trees, &error));
    }
    face_free(&memory);
    if (status != VARVITE_OK) {
        free(trees);
        CHECK(status);
    }
    answer = Val_emptylist;
    for (size_t it = count > 0 ? arena->count / 2 : 0; it-- > 0;) {
        one = caml_alloc(2, 0);
        Store_field(one, 0, face_text(arena->items[2 * it]));
        Store_field(one, 1, tree_block(trees[it]));
        cell = caml_alloc_small(2, Tag_cons);
        Field(cell, 0) = one;
        Field(cell, 1) = answer;
        answer = cell;
    }
    free(trees);
    if (count > 0) face_emptied(arena);
    CAMLreturn(answer);
}

/* ---- changing ---- */

static int added(void *tree, const varvite_bytes *path, size_t steps, const varvite_bytes *held, void *subtree,
                 varvite_tree **changed, varvite_error *error) {
    int status = varvite_tree_duplicate(tree, changed, error);
    if (status != VARVITE_OK) return status;
    status = held      ? varvite_tree_add(*changed, path, steps, held, error)
             : subtree ? varvite_tree_add_tree(*changed, path, steps, subtree, error)
                       : varvite_tree_remove(*changed, path, steps, error);
    if (status != VARVITE_OK) varvite_tree_close(*changed, NULL);
    return status;
}

/* what: 0 adds a value, 1 a tree, 2 removes. */
value varvite_ocaml_tree_change(value tree, value what, value path, value with) {
    CAMLparam3(tree, path, with);
    varvite_error error;
    varvite_tree *changed;
    varvite_bytes held;
    struct face_memory memory;
    size_t steps;
    int status, which = Int_val(what);
    face_reserve(&memory, face_path_size(path) + (which == 0 ? face_size(with) : 0));
    varvite_bytes *all = face_path(&memory, path, &steps);
    if (which == 0) held = face_bytes(&memory, with);
    void *handle = HANDLE(tree), *subtree = which == 1 ? HANDLE(with) : NULL;
    LIBRARY(added(handle, all, steps, which == 0 ? &held : NULL, subtree, &changed, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(tree_block(changed));
}

/* ---- callbacks ---- */

/* A function of OCaml's that runs inside a call, and what it raised: both are roots of the call's stub. */
struct running {
    value *function;
    value *raised;
    varvite_error inner; /* what failed beside the function */
};

static int outcome(struct running *running, value answer) {
    if (!Is_exception_result(answer)) return 0;
    *running->raised = Extract_exception(answer);
    return 1;
}

/* Raises what the function raised, else what the call says. */
static void check(int status, const varvite_error *error, const struct running *running) {
    if (*running->raised != Val_unit) caml_raise(*running->raised);
    if (status == VARVITE_CALLBACK && running->inner.kind != VARVITE_OK) {
        face_raise(running->inner.kind, &running->inner);
    }
    if (status != VARVITE_OK) face_raise(status, error);
}

/* Where a function is called. */
struct visited {
    const varvite_bytes *path;
    size_t steps;
    varvite_tree *subtree; /* until a block has it */
    varvite_bytes before, after;
};

static value make_visit(void *of) {
    CAMLparam0();
    CAMLlocal3(list, block, both);
    struct visited *visited = of;
    list = face_steps(visited->path, visited->steps);
    block = tree_block(visited->subtree);
    visited->subtree = NULL;
    both = caml_alloc_small(2, 0);
    Field(both, 0) = list;
    Field(both, 1) = block;
    CAMLreturn(both);
}

static int visit(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    struct running *running = user;
    struct visited visited = {.path = path, .steps = steps};
    /* The handle that is given is closed when this returns, OCaml's lives on. */
    int status = varvite_tree_duplicate(subtree, &visited.subtree, &running->inner);
    if (status != VARVITE_OK) return status;
    face_begin_callback();
    int code = outcome(running, face_call_back(2, *running->function, make_visit, &visited));
    face_end_callback();
    if (visited.subtree) varvite_tree_close(visited.subtree, NULL);
    return code;
}

/* how: an array of depth's kind, depth, and order. */
value varvite_ocaml_tree_fold(value tree, value path, value how, value function) {
    CAMLparam4(tree, path, how, function);
    CAMLlocal1(raised);
    varvite_error error;
    struct face_memory memory;
    struct running running = {.function = &function, .raised = &raised, .inner = {.kind = VARVITE_OK}};
    size_t steps, depth = Long_val(Field(how, 1));
    uint32_t kind = Long_val(Field(how, 0)), order = Long_val(Field(how, 2));
    int status;
    raised = Val_unit;
    face_reserve(&memory, face_path_size(path));
    varvite_bytes *all = face_path(&memory, path, &steps);
    void *handle = HANDLE(tree);
    LIBRARY(varvite_tree_fold(handle, all, steps, kind, depth, order, visit, &running, &error));
    face_free(&memory);
    check(status, &error, &running);
    CAMLreturn(Val_unit);
}

static value make_change(void *of) {
    CAMLparam0();
    CAMLlocal4(list, before, after, all);
    const struct visited *visited = of;
    list = face_steps(visited->path, visited->steps);
    before = face_optional(visited->before);
    after = face_optional(visited->after);
    all = caml_alloc_small(3, 0);
    Field(all, 0) = list;
    Field(all, 1) = before;
    Field(all, 2) = after;
    CAMLreturn(all);
}

static int change(void *user, const varvite_bytes *path, size_t steps, varvite_bytes before, varvite_bytes after) {
    struct running *running = user;
    struct visited visited = {.path = path, .steps = steps, .before = before, .after = after};
    face_begin_callback();
    int code = outcome(running, face_call_back(3, *running->function, make_change, &visited));
    face_end_callback();
    return code;
}

value varvite_ocaml_tree_diff(value tree, value after, value function) {
    CAMLparam3(tree, after, function);
    CAMLlocal1(raised);
    varvite_error error;
    struct running running = {.function = &function, .raised = &raised, .inner = {.kind = VARVITE_OK}};
    int status;
    raised = Val_unit;
    void *handle = HANDLE(tree), *other = HANDLE(after);
    LIBRARY(varvite_tree_diff(handle, other, change, &running, &error));
    check(status, &error, &running);
    CAMLreturn(Val_unit);
}

/* ---- proofs ---- */

/* A tree for a function, and its block. */
struct worked {
    varvite_tree *given; /* until the block has it */
    value *block;        /* a root */
};

static value make_work(void *of) {
    struct worked *worked = of;
    *worked->block = tree_block(worked->given);
    worked->given = NULL;
    return *worked->block;
}

/* The tree that the function made of the one that it was given, or NULL when it is the same. */
static value worked(struct running *running, varvite_tree **given, void **made) {
    CAMLparam0();
    CAMLlocal2(block, answer);
    struct worked worked = {*given, &block};
    answer = face_call_back(1, *running->function, make_work, &worked);
    *given = worked.given;
    if (!Is_exception_result(answer)) *made = answer == block ? NULL : HANDLE(answer);
    CAMLreturn(answer);
}

static int work(void *user, varvite_tree *tree) {
    struct running *running = user;
    varvite_tree *given;
    void *made = NULL;
    int status = varvite_tree_duplicate(tree, &given, &running->inner);
    if (status != VARVITE_OK) return status;
    face_begin_callback();
    value answer = worked(running, &given, &made);
    int code = outcome(running, answer);
    /* Kept from the collector until the tree has it. */
    if (code == 0 && made) *running->raised = answer;
    face_end_callback();
    if (given) varvite_tree_close(given, NULL);
    if (code == 0 && made) {
        code = varvite_tree_add_tree(tree, NULL, 0, made, &running->inner);
        face_begin_callback();
        *running->raised = Val_unit;
        face_end_callback();
    }
    return code;
}

value varvite_ocaml_proof_make(value tree, value is_stream, value function) {
    CAMLparam2(tree, function);
    CAMLlocal1(raised);
    varvite_error error;
    varvite_proof *proof;
    struct running running = {.function = &function, .raised = &raised, .inner = {.kind = VARVITE_OK}};
    int status, stream = Bool_val(is_stream);
    raised = Val_unit;
    void *handle = HANDLE(tree);
    LIBRARY(varvite_proof_make(handle, stream, work, &running, &proof, &error));
    check(status, &error, &running);
    CAMLreturn(face_block(FACE_PROOF, proof));
}

value varvite_ocaml_proof_verify(value proof, value configuration, value root, value function) {
    CAMLparam4(proof, configuration, root, function);
    CAMLlocal1(raised);
    varvite_error error;
    varvite_configuration shape = face_configuration(configuration);
    varvite_kinded known = {Long_val(Field(root, 0)), {{0}}};
    struct running running = {.function = &function, .raised = &raised, .inner = {.kind = VARVITE_OK}};
    int status;
    raised = Val_unit;
    memcpy(known.hash.bytes, String_val(Field(root, 1)), sizeof known.hash.bytes);
    void *handle = HANDLE(proof);
    LIBRARY(varvite_proof_verify(handle, &shape, &known, work, &running, &error));
    check(status, &error, &running);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_proof_encode(value proof, value encoding) {
    CAMLparam1(proof);
    CAMLlocal1(answer);
    varvite_error error;
    int status;
    uint32_t which = Long_val(encoding);
    varvite_arena *arena = face_arena();
    void *handle = HANDLE(proof);
    LIBRARY(varvite_proof_encode(handle, which, arena, &error));
    CHECK(status);
    answer = face_text(arena->items[0]);
    face_emptied(arena);
    CAMLreturn(answer);
}

value varvite_ocaml_proof_decode(value encoding, value configuration, value encoded) {
    CAMLparam2(configuration, encoded);
    varvite_error error;
    varvite_proof *proof;
    struct face_memory memory;
    varvite_configuration shape = face_configuration(configuration);
    int status;
    uint32_t which = Long_val(encoding);
    face_reserve(&memory, face_size(encoded));
    varvite_bytes bytes = face_bytes(&memory, encoded);
    LIBRARY(varvite_proof_decode(&bytes, which, &shape, &proof, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_block(FACE_PROOF, proof));
}

/* Kind and hash before, kind and hash after, whether it is a stream. */
value varvite_ocaml_proof_roots(value proof) {
    CAMLparam1(proof);
    CAMLlocal3(answer, first, second);
    varvite_error error;
    varvite_kinded before, after;
    int status, is_stream = 0;
    void *handle = HANDLE(proof);
    LIBRARY(varvite_proof_roots(handle, &before, &after, &error));
    CHECK(status);
    LIBRARY(varvite_proof_is_stream(handle, &is_stream, &error));
    CHECK(status);
    first = caml_alloc_initialized_string(sizeof before.hash.bytes, (const char *)before.hash.bytes);
    second = caml_alloc_initialized_string(sizeof after.hash.bytes, (const char *)after.hash.bytes);
    answer = caml_alloc_small(5, 0);
    Field(answer, 0) = Val_long(before.kind);
    Field(answer, 1) = first;
    Field(answer, 2) = Val_long(after.kind);
    Field(answer, 3) = second;
    Field(answer, 4) = Val_bool(is_stream);
    CAMLreturn(answer);
}
