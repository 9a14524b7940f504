/* Stores, their commits and branches. See face.h for the rules. */
#include "face.h"

value face_hash(const varvite_hash *hash) {
    return caml_alloc_initialized_string(sizeof hash->bytes, (const char *)hash->bytes);
}

varvite_hash face_hash_of(value text) {
    varvite_hash hash;
    memcpy(hash.bytes, String_val(text), sizeof hash.bytes); /* Hash.t has 32 bytes */
    return hash;
}

value varvite_ocaml_hash_text(value hash) {
    varvite_error error;
    varvite_hash from = face_hash_of(hash);
    char text[64];
    int status;
    LIBRARY(varvite_hash_text(&from, text, &error));
    CHECK(status);
    return caml_copy_string(text);
}

value varvite_ocaml_hash_parse(value text) {
    CAMLparam1(text);
    varvite_error error;
    varvite_hash hash;
    struct face_memory memory;
    int status;
    face_no_nul(text);
    face_reserve(&memory, face_size(text));
    const char *from = (const char *)face_bytes(&memory, text).data;
    LIBRARY(varvite_hash_parse(from, &hash, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_hash(&hash));
}

/* how: 0 creates, 1 opens, 2 opens to read, 3 opens or creates. Cache and lower folder may be none. */
value varvite_ocaml_store(value disk, value how, value given, value cache, value lower) {
    CAMLparam3(disk, cache, lower);
    varvite_error error;
    varvite_store *store;
    varvite_store_options options;
    int status = varvite_store_options_default(&options, &error), which = Int_val(how);
    CHECK(status);
    GIVEN(index, 0);
    GIVEN(durability, 1);
    GIVEN(objects_bytes, 2);
    GIVEN(hashes_bytes, 3);
    GIVEN(pages_bytes, 4);
    GIVEN(index_bytes, 5);
    GIVEN(tree_bytes, 6);
    GIVEN(chunk_bytes, 7);
    GIVEN(seed, 8);
    GIVEN(configuration.entries, 9);
    GIVEN(configuration.stable_hash, 10);
    GIVEN(configuration.child_order, 11);
    GIVEN(max_open_files, 12);
    if (Is_block(cache)) options.cache = HANDLE(Field(cache, 0));
    if (Is_block(lower)) options.lower = HANDLE(Field(lower, 0));
    void *handle = HANDLE(disk);
    LIBRARY(which == 0   ? varvite_store_create(handle, &options, &store, &error)
            : which == 1 ? varvite_store_open(handle, &options, &store, &error)
            : which == 3 ? varvite_store_open_or_create(handle, &options, &store, &error)
                         : varvite_store_open_read_only(handle, &options, &store, &error));
    CHECK(status);
    CAMLreturn(face_block(FACE_STORE, store));
}

value varvite_ocaml_irmin_is_store(value disk) {
    CAMLparam1(disk);
    varvite_error error;
    int status, is_store;
    void *handle = HANDLE(disk);
    LIBRARY(varvite_irmin_is_store(handle, &is_store, &error));
    CHECK(status);
    CAMLreturn(Val_bool(is_store));
}

value varvite_ocaml_irmin_open(value disk) {
    CAMLparam1(disk);
    varvite_error error;
    varvite_store *store;
    int status;
    void *handle = HANDLE(disk);
    LIBRARY(varvite_irmin_open(handle, NULL, &store, &error));
    CHECK(status);
    CAMLreturn(face_block(FACE_STORE, store));
}

value varvite_ocaml_irmin_export(value store, value disk, value scratch_disk) {
    CAMLparam3(store, disk, scratch_disk);
    varvite_error error;
    varvite_exported exported;
    int status;
    void *handle = HANDLE(store), *target = HANDLE(disk), *scratch = HANDLE(scratch_disk);
    LIBRARY(varvite_irmin_export(handle, target, scratch, NULL, NULL, &exported, &error));
    CHECK(status);
    CAMLreturn(face_numbers(&exported, sizeof exported));
}

/* What is done to a store alone. */
value varvite_ocaml_store_do(value store, value what) {
    CAMLparam1(store);
    varvite_error error;
    int status, which = Int_val(what), is_taken = 0;
    void *handle = HANDLE(store);
    LIBRARY(which == 0   ? varvite_store_reload(handle, &error)
            : which == 1 ? varvite_store_checkpoint(handle, &error)
            : which == 2 ? varvite_store_begin_chunk(handle, &error)
            : which == 3 ? varvite_store_clear(handle, &error)
            : which == 4 ? varvite_store_rebuild_index(handle, &error)
            : which == 6 ? varvite_store_collect_pause(handle, &error)
            : which == 7 ? varvite_store_collect_resume(handle, &error)
            : which == 8 ? varvite_store_collect_cancel(handle, &is_taken, &error)
                         : varvite_store_maintain(handle, &is_taken, &error));
    CHECK(status);
    CAMLreturn(Val_bool(is_taken));
}

value varvite_ocaml_store_configuration(value store) {
    CAMLparam1(store);
    CAMLlocal1(answer);
    varvite_error error;
    varvite_configuration configuration;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_configuration(handle, &configuration, &error));
    CHECK(status);
    answer = caml_alloc_small(3, 0);
    Field(answer, 0) = Val_long(configuration.entries);
    Field(answer, 1) = Val_long(configuration.stable_hash);
    Field(answer, 2) = Val_long(configuration.child_order);
    CAMLreturn(answer);
}

value varvite_ocaml_store_empty_tree(value store) {
    CAMLparam1(store);
    varvite_error error;
    varvite_tree *tree;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_empty_tree(handle, &tree, &error));
    CHECK(status);
    CAMLreturn(face_block(FACE_TREE, tree));
}

/* None for a commit that is not there. */
value varvite_ocaml_store_checkout(value store, value hash) {
    CAMLparam2(store, hash);
    CAMLlocal1(block);
    varvite_error error;
    varvite_tree *tree;
    varvite_hash commit = face_hash_of(hash);
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_checkout(handle, &commit, &tree, &error));
    if (status == VARVITE_MISSING) CAMLreturn(Val_none);
    CHECK(status);
    block = face_block(FACE_TREE, tree);
    CAMLreturn(caml_alloc_some(block));
}

value varvite_ocaml_store_exists(value store, value hash) {
    CAMLparam2(store, hash);
    varvite_error error;
    varvite_hash commit = face_hash_of(hash);
    int status, exists;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_exists(handle, &commit, &exists, &error));
    CHECK(status);
    CAMLreturn(Val_bool(exists));
}

/* info: parents, date, author, message; commits, or only says the hash. */
value varvite_ocaml_store_commit(value store, value tree, value info, value is_dry) {
    CAMLparam3(store, tree, info);
    varvite_error error;
    varvite_hash commit;
    struct face_memory memory;
    int status, dry = Bool_val(is_dry);
    size_t parents = Wosize_val(Field(info, 0));
    face_reserve(&memory, parents * sizeof(varvite_hash) + 8 + face_size(Field(info, 2)) + face_size(Field(info, 3)));
    varvite_hash *all = face_take(&memory, parents * sizeof *all);
    for (size_t it = 0; it < parents; it++) all[it] = face_hash_of(Field(Field(info, 0), it));
    varvite_commit_info said = {
        .parents = all,
        .parent_count = parents,
        .date = Int64_val(Field(info, 1)),
        .author = face_bytes(&memory, Field(info, 2)),
        .message = face_bytes(&memory, Field(info, 3)),
    };
    void *handle = HANDLE(store), *committed = HANDLE(tree);
    LIBRARY(dry ? varvite_store_hash(handle, committed, &said, &commit, &error)
                : varvite_store_commit(handle, committed, &said, &commit, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_hash(&commit));
}

/* Tree, parents, date, author, message of a commit. */
value varvite_ocaml_store_commit_info(value store, value hash) {
    CAMLparam2(store, hash);
    CAMLlocal5(answer, tree, parents, date, one);
    CAMLlocal3(author, message, cell);
    varvite_error error;
    varvite_commit found;
    varvite_hash commit = face_hash_of(hash);
    int status;
    varvite_arena *arena = face_arena();
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_commit_info(handle, &commit, &found, arena, &error));
    if (status == VARVITE_MISSING) CAMLreturn(Val_none);
    CHECK(status);
    tree = face_hash(&found.tree);
    date = caml_copy_int64(found.date);
    author = face_text(arena->items[0]);
    message = face_text(arena->items[1]);
    parents = Val_emptylist;
    for (size_t it = arena->count; it-- > 2;) {
        one = face_text(arena->items[it]);
        cell = caml_alloc_small(2, Tag_cons);
        Field(cell, 0) = one;
        Field(cell, 1) = parents;
        parents = cell;
    }
    answer = caml_alloc_small(5, 0);
    Field(answer, 0) = tree;
    Field(answer, 1) = parents;
    Field(answer, 2) = date;
    Field(answer, 3) = author;
    Field(answer, 4) = message;
    CAMLreturn(caml_alloc_some(answer));
}

value varvite_ocaml_store_last_commit(value store) {
    CAMLparam1(store);
    CAMLlocal1(answer);
    varvite_error error;
    varvite_hash commit;
    int status, is_there;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_last_commit(handle, &commit, &is_there, &error));
    CHECK(status);
    if (!is_there) CAMLreturn(Val_none);
    answer = face_hash(&commit);
    CAMLreturn(caml_alloc_some(answer));
}

value varvite_ocaml_store_log(value store, value limit) {
    CAMLparam1(store);
    CAMLlocal1(answer);
    varvite_error error;
    int status;
    varvite_arena *arena = face_arena();
    size_t most = face_number(limit, SIZE_MAX);
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_log(handle, most, arena, &error));
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

value varvite_ocaml_store_history(value store, value heads, value limit) {
    CAMLparam2(store, heads);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    int status;
    varvite_arena *arena = face_arena();
    size_t most = face_number(limit, SIZE_MAX), count = Wosize_val(heads);
    face_reserve(&memory, count * sizeof(varvite_hash) + 8);
    varvite_hash *all = face_take(&memory, count * sizeof *all);
    for (size_t it = 0; it < count; it++) all[it] = face_hash_of(Field(heads, it));
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_history(handle, all, count, most, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* Commits, nodes and values that were checked; raises at the first that is wrong. */
value varvite_ocaml_store_check(value store) {
    CAMLparam1(store);
    CAMLlocal2(answer, faults);
    varvite_error error;
    varvite_checked checked;
    int status;
    varvite_arena *arena = face_arena();
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_check(handle, &checked, arena, &error));
    CHECK(status);
    faults = face_texts(arena);
    face_emptied(arena);
    answer = caml_alloc_small(4, 0);
    Field(answer, 0) = Val_long(checked.commits);
    Field(answer, 1) = Val_long(checked.nodes);
    Field(answer, 2) = Val_long(checked.values);
    Field(answer, 3) = faults;
    CAMLreturn(answer);
}

value varvite_ocaml_store_stats(value store) {
    CAMLparam1(store);
    CAMLlocal1(answer);
    varvite_error error;
    varvite_store_stats stats;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_get_stats(handle, &stats, &error));
    CHECK(status);
    answer = face_numbers(&stats, sizeof stats);
    CAMLreturn(answer);
}

/* ---- branches ---- */

value varvite_ocaml_store_branch(value store, value name) {
    CAMLparam2(store, name);
    CAMLlocal1(answer);
    varvite_error error;
    varvite_hash commit;
    struct face_memory memory;
    int status, is_there;
    face_reserve(&memory, face_size(name));
    varvite_bytes text = face_bytes(&memory, name);
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_branch(handle, &text, &commit, &is_there, &error));
    face_free(&memory);
    CHECK(status);
    if (!is_there) CAMLreturn(Val_none);
    answer = face_hash(&commit);
    CAMLreturn(caml_alloc_some(answer));
}

value varvite_ocaml_store_branches(value store) {
    CAMLparam1(store);
    CAMLlocal1(answer);
    varvite_error error;
    int status;
    varvite_arena *arena = face_arena();
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_branches(handle, arena, &error));
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* None removes the branch. */
value varvite_ocaml_store_set_branch(value store, value name, value hash) {
    CAMLparam3(store, name, hash);
    varvite_error error;
    varvite_hash commit;
    struct face_memory memory;
    int status, is_set = Is_block(hash);
    if (is_set) commit = face_hash_of(Field(hash, 0));
    face_reserve(&memory, face_size(name));
    varvite_bytes text = face_bytes(&memory, name);
    void *handle = HANDLE(store);
    LIBRARY(is_set ? varvite_store_set_branch(handle, &text, &commit, &error)
                   : varvite_store_remove_branch(handle, &text, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_store_test_and_set(value store, value name, value expected, value hash) {
    CAMLparam4(store, name, expected, hash);
    varvite_error error;
    varvite_hash before, commit = face_hash_of(hash);
    struct face_memory memory;
    int status, is_set, was = Is_block(expected);
    if (was) before = face_hash_of(Field(expected, 0));
    face_reserve(&memory, face_size(name));
    varvite_bytes text = face_bytes(&memory, name);
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_test_and_set_branch(handle, &text, was ? &before : NULL, &commit, &is_set, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_bool(is_set));
}
