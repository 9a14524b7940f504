/* Tables that threads share, transactions over them, and scrubs. See face.h for the rules. */
#include "face.h"

value varvite_ocaml_session_sync_log(value session) {
    CAMLparam1(session);
    varvite_error error;
    int status;
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_sync_log(handle, &error));
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- shared handles ---- */

value varvite_ocaml_session_share(value session, value tables) {
    CAMLparam2(session, tables);
    varvite_error error;
    varvite_tables *shared;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(tables);
    face_reserve(&memory, face_handles_size(tables));
    varvite_table **all = (varvite_table **)face_handles(&memory, tables);
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_share(handle, all, count, &shared, &error));
    face_free(&memory);
    CHECK(status);
    for (size_t it = 0; it < count; it++) atomic_store(&HELD(Field(tables, it))->is_closed, 1);
    CAMLreturn(face_child(FACE_TABLES, shared, session));
}

value varvite_ocaml_session_open_shared(value session, value operators) {
    CAMLparam2(session, operators);
    varvite_error error;
    varvite_tables *shared;
    varvite_open_options options;
    struct face_memory memory;
    int status = varvite_open_options_default(&options, &error);
    CHECK(status);
    face_reserve(&memory, face_handles_size(operators));
    options.operators = (varvite_operator *const *)face_handles(&memory, operators);
    options.operator_count = Wosize_val(operators);
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_open_shared(handle, &options, &shared, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_TABLES, shared, session));
}

/* The names of shared tables, or what a scrub found. */
value varvite_ocaml_shared_texts(value block) {
    CAMLparam1(block);
    CAMLlocal1(answer);
    varvite_error error;
    int status, is_scrub = HELD(block)->kind == FACE_SCRUB;
    varvite_arena *arena = face_arena();
    void *handle = HANDLE(block);
    LIBRARY(is_scrub ? varvite_scrub_findings(handle, arena, &error) : varvite_tables_names(handle, arena, &error));
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* Views of one moment. */
value varvite_ocaml_tables_views(value tables, value names) {
    CAMLparam2(tables, names);
    CAMLlocal2(answer, one);
    varvite_error error;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(names);
    if (count == 0) CAMLreturn(Atom(0));
    for (size_t it = 0; it < count; it++) face_no_nul(Field(names, it));
    face_reserve(&memory, face_array_size(names) + 2 * count * sizeof(void *));
    varvite_bytes *texts = face_array(&memory, names);
    const char **all = face_take(&memory, count * sizeof *all);
    varvite_view **views = face_take(&memory, count * sizeof *views);
    for (size_t it = 0; it < count; it++) all[it] = (const char *)texts[it].data;
    void *handle = HANDLE(tables);
    LIBRARY(varvite_tables_views(handle, all, count, views, &error));
    if (status != VARVITE_OK) face_free(&memory);
    CHECK(status);
    answer = caml_alloc(count, 0);
    for (size_t it = 0; it < count; it++) {
        one = face_child(FACE_VIEW, views[it], tables);
        Store_field(answer, it, one);
    }
    face_free(&memory);
    CAMLreturn(answer);
}

/* Of shared tables, or of a transaction. */
value varvite_ocaml_shared_lookup(value of, value name, value keys) {
    CAMLparam3(of, name, keys);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    int status, is_transaction = HELD(of)->kind == FACE_TRANSACTION;
    size_t count = Wosize_val(keys);
    varvite_arena *arena = face_arena();
    face_no_nul(name);
    face_reserve(&memory, face_size(name) + face_array_size(keys));
    const char *text = (const char *)face_bytes(&memory, name).data;
    varvite_bytes *all = face_array(&memory, keys);
    void *handle = HANDLE(of);
    LIBRARY(is_transaction ? varvite_transaction_lookup(handle, text, all, count, arena, &error)
                           : varvite_tables_lookup(handle, text, all, count, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_optionals(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* An array of names with their batches. */
value varvite_ocaml_tables_commit(value tables, value updates) {
    CAMLparam2(tables, updates);
    varvite_error error;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(updates), bytes = count * sizeof(varvite_named_update) + 8;
    for (size_t it = 0; it < count; it++) {
        face_no_nul(Field(Field(updates, it), 0));
        bytes += face_size(Field(Field(updates, it), 0)) + face_batch_size(Field(Field(updates, it), 1));
    }
    face_reserve(&memory, bytes);
    varvite_named_update *all = face_take(&memory, count * sizeof *all);
    for (size_t it = 0; it < count; it++) {
        value update = Field(updates, it);
        all[it].name = (const char *)face_bytes(&memory, Field(update, 0)).data;
        all[it].count = Wosize_val(Field(update, 1));
        all[it].operations = face_batch(&memory, Field(update, 1));
    }
    void *handle = HANDLE(tables);
    LIBRARY(varvite_tables_commit(handle, all, count, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_tables_add(value tables, value table) {
    CAMLparam2(tables, table);
    varvite_error error;
    int status;
    void *handle = HANDLE(tables), *added = HANDLE(table);
    LIBRARY(varvite_tables_add(handle, added, &error));
    CHECK(status);
    atomic_store(&HELD(table)->is_closed, 1);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_tables_remove(value tables, value name) {
    CAMLparam2(tables, name);
    varvite_error error;
    varvite_table *table;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    void *handle = HANDLE(tables);
    LIBRARY(varvite_tables_remove(handle, text, &table, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_TABLE, table, tables));
}

value varvite_ocaml_tables_save_snapshot(value tables, value name, value label, value payload) {
    CAMLparam4(tables, name, label, payload);
    varvite_error error;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_no_nul(label);
    face_reserve(&memory, face_size(name) + face_size(label) + face_size(payload));
    const char *text = (const char *)face_bytes(&memory, name).data;
    const char *mark = (const char *)face_bytes(&memory, label).data;
    varvite_bytes bytes = face_bytes(&memory, payload);
    void *handle = HANDLE(tables);
    LIBRARY(varvite_tables_save_snapshot(handle, text, mark, &bytes, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* Works ahead on shared tables, or reads on in a scrub. */
value varvite_ocaml_shared_work(value block, value credits) {
    CAMLparam1(block);
    varvite_error error;
    uint64_t left, number = face_number(credits, UINT64_MAX);
    int status, is_scrub = HELD(block)->kind == FACE_SCRUB;
    void *handle = HANDLE(block);
    LIBRARY(is_scrub ? varvite_scrub_work(handle, number, &left, &error)
                     : varvite_tables_work(handle, number, &left, &error));
    CHECK(status);
    CAMLreturn(Val_long(left));
}

/* Milliseconds, or a negative number for as long as it takes. */
value varvite_ocaml_tables_set_patience(value tables, value patience) {
    CAMLparam1(tables);
    varvite_error error;
    int status;
    uint64_t milliseconds = Long_val(patience) < 0 ? UINT64_MAX : (uint64_t)Long_val(patience);
    void *handle = HANDLE(tables);
    LIBRARY(varvite_tables_set_patience(handle, milliseconds, &error));
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- transactions ---- */

/* None when somebody else writes, and it does not wait. */
value varvite_ocaml_tables_begin(value tables, value waits) {
    CAMLparam1(tables);
    CAMLlocal1(block);
    varvite_error error;
    varvite_transaction *transaction;
    int status, is_to_wait = Bool_val(waits);
    void *handle = HANDLE(tables);
    LIBRARY(is_to_wait ? varvite_tables_begin(handle, &transaction, &error)
                       : varvite_tables_try_begin(handle, &transaction, &error));
    CHECK(status);
    if (!transaction) CAMLreturn(Val_none);
    block = face_child(FACE_TRANSACTION, transaction, tables);
    CAMLreturn(caml_alloc_some(block));
}

value varvite_ocaml_transaction_apply(value transaction, value name, value batch) {
    CAMLparam3(transaction, name, batch);
    varvite_error error;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_reserve(&memory, face_size(name) + face_batch_size(batch));
    const char *text = (const char *)face_bytes(&memory, name).data;
    varvite_operation *operations = face_batch(&memory, batch);
    size_t count = Wosize_val(batch);
    void *handle = HANDLE(transaction);
    LIBRARY(varvite_transaction_apply(handle, text, operations, count, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_transaction_view(value transaction, value name) {
    CAMLparam2(transaction, name);
    varvite_error error;
    varvite_view *view;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    void *handle = HANDLE(transaction);
    LIBRARY(varvite_transaction_view(handle, text, &view, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_VIEW, view, transaction));
}

/* It is over then, also after an error, unless the call was refused. */
value varvite_ocaml_transaction_commit(value transaction) {
    CAMLparam1(transaction);
    varvite_error error;
    int status;
    void *handle = HANDLE(transaction);
    LIBRARY(varvite_transaction_commit(handle, &error));
    if (status == VARVITE_OK) atomic_store(&HELD(transaction)->is_closed, 1);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- scrubs ---- */

value varvite_ocaml_session_scrub(value session, value from) {
    CAMLparam1(session);
    varvite_error error;
    varvite_scrub *scrub;
    int status;
    uint64_t place = face_number(from, UINT64_MAX);
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_scrub(handle, place, &scrub, &error));
    CHECK(status);
    CAMLreturn(face_child(FACE_SCRUB, scrub, session));
}

value varvite_ocaml_scrub_place(value scrub) {
    CAMLparam1(scrub);
    varvite_error error;
    uint64_t place;
    int status;
    void *handle = HANDLE(scrub);
    LIBRARY(varvite_scrub_place(handle, &place, &error));
    CHECK(status);
    CAMLreturn(Val_long(place));
}
