/* What a store keeps: collections, pins, lower folders, files of commits, readers. See face.h for the rules. */
#include "face.h"

/* ---- collections and pins ---- */

value varvite_ocaml_store_collect(value store, value target) {
    CAMLparam2(store, target);
    varvite_error error;
    varvite_hash commit = face_hash_of(target);
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_collect(handle, &commit, &error));
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* Keeps the newest so many, or those since a moment. */
value varvite_ocaml_store_collect_keeping(value store, value is_moment, value given) {
    CAMLparam2(store, given);
    varvite_error error;
    int status, began, since = Bool_val(is_moment);
    int64_t number = Int64_val(given);
    if (!since && number < 0) caml_invalid_argument("Varvite: a number is negative");
    void *handle = HANDLE(store);
    LIBRARY(since ? varvite_store_collect_keeping_since(handle, number, &began, &error)
                  : varvite_store_collect_keeping_newest(handle, (uint64_t)number, &began, &error));
    CHECK(status);
    CAMLreturn(Val_bool(began));
}

value varvite_ocaml_store_collect_step(value store, value credits) {
    CAMLparam1(store);
    varvite_error error;
    int status, is_left;
    uint64_t number = face_number(credits, UINT64_MAX);
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_collect_step(handle, number, &is_left, &error));
    CHECK(status);
    CAMLreturn(Val_bool(is_left));
}

/* Phase, whether it is paused, and four numbers; the target. */
value varvite_ocaml_store_collect_status(value store) {
    CAMLparam1(store);
    CAMLlocal4(answer, numbers, target, some);
    varvite_error error;
    varvite_collect_status found;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_collect_status(handle, &found, &error));
    CHECK(status);
    uint64_t all[] = {found.phase,           found.is_paused,  found.chunks_left, found.left_bytes,
                      found.reclaimed_bytes, found.collections};
    numbers = face_numbers(all, sizeof all);
    some = Val_none;
    if (found.has_target) {
        target = face_hash(&found.target);
        some = caml_alloc_some(target);
    }
    answer = caml_alloc_small(2, 0);
    Field(answer, 0) = numbers;
    Field(answer, 1) = some;
    CAMLreturn(answer);
}

value varvite_ocaml_store_pin(value store, value hash, value is_pinned) {
    CAMLparam2(store, hash);
    varvite_error error;
    varvite_hash commit = face_hash_of(hash);
    int status, was_pinned = 0, pins = Bool_val(is_pinned);
    void *handle = HANDLE(store);
    LIBRARY(pins ? varvite_store_pin(handle, &commit, &error)
                 : varvite_store_unpin(handle, &commit, &was_pinned, &error));
    CHECK(status);
    CAMLreturn(Val_bool(was_pinned));
}

value varvite_ocaml_store_pin_every(value store, value nth) {
    CAMLparam1(store);
    varvite_error error;
    uint64_t added, number = face_number(nth, UINT64_MAX);
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_pin_every(handle, number, &added, &error));
    CHECK(status);
    CAMLreturn(Val_long(added));
}

value varvite_ocaml_store_pins(value store) {
    CAMLparam1(store);
    CAMLlocal1(answer);
    varvite_error error;
    int status;
    varvite_arena *arena = face_arena();
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_pins(handle, arena, &error));
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* ---- lower folders ---- */

/* With a target chunks go to the lower folder, without they come back. */
value varvite_ocaml_store_archive(value store, value target, value most) {
    CAMLparam2(store, target);
    varvite_error error;
    varvite_hash commit;
    uint64_t moved, number = face_number(most, UINT64_MAX);
    int status, is_down = Is_block(target);
    if (is_down) commit = face_hash_of(Field(target, 0));
    void *handle = HANDLE(store);
    LIBRARY(is_down ? varvite_store_archive(handle, &commit, number, &moved, &error)
                    : varvite_store_unarchive(handle, number, &moved, &error));
    CHECK(status);
    CAMLreturn(Val_long(moved));
}

value varvite_ocaml_store_attach(value store) {
    CAMLparam1(store);
    varvite_error error;
    uint64_t attached;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_attach(handle, &attached, &error));
    CHECK(status);
    CAMLreturn(Val_long(attached));
}

value varvite_ocaml_store_archived_bytes(value store) {
    CAMLparam1(store);
    varvite_error error;
    uint64_t bytes;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_archived_bytes(handle, &bytes, &error));
    CHECK(status);
    CAMLreturn(Val_long(bytes));
}

/* ---- files of commits ---- */

/* Commit, hash, commits, bytes of records and of the file. */
static value told(const varvite_commit_file *file) {
    CAMLparam0();
    CAMLlocal3(answer, commit, hash);
    commit = face_hash(&file->commit);
    hash = face_hash(&file->hash);
    answer = caml_alloc_small(5, 0);
    Field(answer, 0) = commit;
    Field(answer, 1) = hash;
    Field(answer, 2) = Val_long(file->commits);
    Field(answer, 3) = Val_long(file->stream_bytes);
    Field(answer, 4) = Val_long(file->bytes);
    CAMLreturn(answer);
}

value varvite_ocaml_store_export(value store, value commits, value disk, value path, value level) {
    CAMLparam4(store, commits, disk, path);
    varvite_error error;
    varvite_commit_file file;
    struct face_memory memory;
    int status;
    uint32_t zstd = face_number(level, UINT32_MAX);
    size_t count = Wosize_val(commits);
    face_no_nul(path);
    face_reserve(&memory, count * sizeof(varvite_hash) + 8 + face_size(path));
    varvite_hash *all = face_take(&memory, count * sizeof *all);
    for (size_t it = 0; it < count; it++) all[it] = face_hash_of(Field(commits, it));
    const char *text = (const char *)face_bytes(&memory, path).data;
    void *handle = HANDLE(store), *target = HANDLE(disk);
    LIBRARY(varvite_store_export_commits(handle, all, count, target, text, zstd, NULL, NULL, &file, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(told(&file));
}

/* Takes a file over into a store, or, for the disk that the file is on, only verifies it. */
value varvite_ocaml_store_import(value of, value disk, value path) {
    CAMLparam3(of, disk, path);
    varvite_error error;
    varvite_commit_file file;
    struct face_memory memory;
    int status, is_store = HELD(of)->kind == FACE_STORE;
    face_no_nul(path);
    face_reserve(&memory, face_size(path));
    const char *text = (const char *)face_bytes(&memory, path).data;
    void *handle = HANDLE(of), *source = HANDLE(disk);
    LIBRARY(is_store ? varvite_store_import_commit(handle, source, text, NULL, NULL, &file, &error)
                     : varvite_commit_file_verify(source, text, NULL, NULL, &file, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(told(&file));
}

value varvite_ocaml_store_create_from_commit(value disk, value source, value path) {
    CAMLparam3(disk, source, path);
    varvite_error error;
    varvite_store *store;
    struct face_memory memory;
    int status;
    face_no_nul(path);
    face_reserve(&memory, face_size(path));
    const char *text = (const char *)face_bytes(&memory, path).data;
    void *handle = HANDLE(disk), *from = HANDLE(source);
    LIBRARY(varvite_store_create_from_commit(handle, NULL, from, text, &store, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_block(FACE_STORE, store));
}

/* ---- readers ---- */

value varvite_ocaml_store_reader(value store) {
    CAMLparam1(store);
    varvite_error error;
    varvite_reader *reader;
    int status;
    void *handle = HANDLE(store);
    LIBRARY(varvite_store_reader(handle, &reader, &error));
    CHECK(status);
    CAMLreturn(face_child(FACE_READER, reader, store));
}

/* None for a commit that is not there. */
value varvite_ocaml_reader_checkout(value reader, value hash) {
    CAMLparam2(reader, hash);
    CAMLlocal1(block);
    varvite_error error;
    varvite_tree *tree;
    varvite_hash commit = face_hash_of(hash);
    int status;
    void *handle = HANDLE(reader);
    LIBRARY(varvite_reader_checkout(handle, &commit, &tree, &error));
    if (status == VARVITE_MISSING) CAMLreturn(Val_none);
    CHECK(status);
    block = face_block(FACE_TREE, tree);
    CAMLreturn(caml_alloc_some(block));
}

/* The commit of a branch, or without one the newest. */
value varvite_ocaml_reader_head(value reader, value branch) {
    CAMLparam2(reader, branch);
    CAMLlocal1(answer);
    varvite_error error;
    varvite_hash commit;
    varvite_bytes text = {NULL, 0};
    struct face_memory memory;
    int status, is_there, has_branch = Is_block(branch);
    face_reserve(&memory, has_branch ? face_size(Field(branch, 0)) : 0);
    if (has_branch) text = face_bytes(&memory, Field(branch, 0));
    void *handle = HANDLE(reader);
    LIBRARY(has_branch ? varvite_reader_branch(handle, &text, &commit, &is_there, &error)
                       : varvite_reader_last_commit(handle, &commit, &is_there, &error));
    face_free(&memory);
    CHECK(status);
    if (!is_there) CAMLreturn(Val_none);
    answer = face_hash(&commit);
    CAMLreturn(caml_alloc_some(answer));
}
