/* What updates and reads tables. See face.h for the rules. */
#include "face.h"

#include <caml/bigarray.h>

/* ---- updates ---- */

/* Operation: Insert (key, value) | Delete key | Upsert (key, value) | Insert_value (key, value's block)
 * | Delete_range (from, before) | Delete_prefix prefix. */
enum { INSERT, DELETE, UPSERT, INSERT_VALUE, DELETE_RANGE, DELETE_PREFIX };

static int has_text(value operation) {
    return Tag_val(operation) == INSERT || Tag_val(operation) == UPSERT || Tag_val(operation) == DELETE_RANGE;
}

size_t face_batch_size(value batch) {
    size_t bytes = Wosize_val(batch) * sizeof(varvite_operation) + 8;
    for (mlsize_t it = 0; it < Wosize_val(batch); it++) {
        value one = Field(batch, it);
        bytes += face_size(Field(one, 0));
        if (has_text(one)) bytes += face_size(Field(one, 1));
    }
    return bytes;
}

varvite_operation *face_batch(struct face_memory *memory, value batch) {
    static const uint32_t kinds[] = {VARVITE_INSERT,       VARVITE_DELETE,       VARVITE_UPSERT,
                                     VARVITE_INSERT_VALUE, VARVITE_DELETE_RANGE, VARVITE_DELETE_PREFIX};
    varvite_operation *all = face_take(memory, Wosize_val(batch) * sizeof *all);
    for (mlsize_t it = 0; it < Wosize_val(batch); it++) {
        value one = Field(batch, it);
        varvite_operation *to = &all[it];
        to->kind = kinds[Tag_val(one)];
        to->key = face_bytes(memory, Field(one, 0));
        to->value = (varvite_bytes){NULL, 0};
        to->held = NULL;
        if (Tag_val(one) == INSERT_VALUE) to->held = HANDLE(Field(one, 1));
        else if (has_text(one)) to->value = face_bytes(memory, Field(one, 1));
    }
    return all;
}

value varvite_ocaml_table_apply(value table, value batch) {
    CAMLparam2(table, batch);
    varvite_error error;
    struct face_memory memory;
    int status;
    face_reserve(&memory, face_batch_size(batch));
    varvite_operation *operations = face_batch(&memory, batch);
    size_t count = Wosize_val(batch);
    void *handle = HANDLE(table);
    LIBRARY(varvite_table_apply(handle, operations, count, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* An array of tables with their batches. */
value varvite_ocaml_session_apply(value session, value updates) {
    CAMLparam2(session, updates);
    varvite_error error;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(updates), bytes = count * sizeof(varvite_table_update) + 8;
    for (size_t it = 0; it < count; it++) bytes += face_batch_size(Field(Field(updates, it), 1));
    face_reserve(&memory, bytes);
    varvite_table_update *all = face_take(&memory, count * sizeof *all);
    for (size_t it = 0; it < count; it++) {
        value update = Field(updates, it);
        all[it].table = HANDLE(Field(update, 0));
        all[it].count = Wosize_val(Field(update, 1));
        all[it].operations = face_batch(&memory, Field(update, 1));
    }
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_apply(handle, all, count, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* Bound: Unbounded | Included key | Excluded key. */
static size_t bound_size(value bound) {
    return Is_block(bound) ? face_size(Field(bound, 0)) : 0;
}

static varvite_bound bound_of(struct face_memory *memory, value bound) {
    varvite_bound to = {VARVITE_UNBOUNDED, {NULL, 0}};
    if (Is_block(bound)) {
        to.kind = Tag_val(bound) == 0 ? VARVITE_INCLUDED : VARVITE_EXCLUDED;
        to.key = face_bytes(memory, Field(bound, 0));
    }
    return to;
}

value varvite_ocaml_table_delete_range(value table, value from, value to) {
    CAMLparam3(table, from, to);
    varvite_error error;
    struct face_memory memory;
    int status;
    face_reserve(&memory, bound_size(from) + bound_size(to));
    varvite_bound lower = bound_of(&memory, from), upper = bound_of(&memory, to);
    void *handle = HANDLE(table);
    LIBRARY(varvite_table_delete_range(handle, &lower, &upper, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- reading: of a table or of a view ---- */

value varvite_ocaml_table_view(value table) {
    CAMLparam1(table);
    varvite_error error;
    varvite_view *view;
    int status;
    void *handle = HANDLE(table);
    LIBRARY(varvite_table_view(handle, &view, &error));
    CHECK(status);
    CAMLreturn(face_child(FACE_VIEW, view, table));
}

value varvite_ocaml_lookup(value of, value keys) {
    CAMLparam2(of, keys);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    int status;
    varvite_arena *arena = face_arena();
    size_t count = Wosize_val(keys);
    face_reserve(&memory, face_array_size(keys));
    varvite_bytes *all = face_array(&memory, keys);
    void *handle = HANDLE(of);
    int is_view = HELD(of)->kind == FACE_VIEW;
    LIBRARY(is_view ? varvite_view_lookup(handle, all, count, arena, &error)
                    : varvite_table_lookup(handle, all, count, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_optionals(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* Most values are no longer: one call, and no arena. */
enum { NEAR_BYTES = 1024 };

value varvite_ocaml_get(value of, value key) {
    CAMLparam2(of, key);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    size_t length;
    uint8_t near[NEAR_BYTES];
    int status;
    varvite_arena *arena = face_arena();
    face_reserve(&memory, face_size(key));
    varvite_bytes one = face_bytes(&memory, key);
    void *handle = HANDLE(of);
    int is_view = HELD(of)->kind == FACE_VIEW;
    LIBRARY(is_view ? varvite_view_get_into(handle, &one, near, sizeof near, &length, &error)
                    : varvite_table_get_into(handle, &one, near, sizeof near, &length, &error));
    if (status == VARVITE_OK && (length <= sizeof near || length == SIZE_MAX)) {
        face_free(&memory);
        CAMLreturn(face_optional((varvite_bytes){length == SIZE_MAX ? NULL : near, length}));
    }
    if (status != VARVITE_OK && status != VARVITE_INVALID) {
        face_free(&memory);
        CHECK(status);
    }
    /* Also what is too long for a get. */
    LIBRARY(is_view ? varvite_view_lookup(handle, &one, 1, arena, &error)
                    : varvite_table_lookup(handle, &one, 1, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_optional(arena->items[0]);
    face_emptied(arena);
    CAMLreturn(answer);
}

value varvite_ocaml_range(value of, value from, value to) {
    CAMLparam3(of, from, to);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    int status;
    varvite_arena *arena = face_arena();
    face_reserve(&memory, bound_size(from) + bound_size(to));
    varvite_bound lower = bound_of(&memory, from), upper = bound_of(&memory, to);
    void *handle = HANDLE(of);
    int is_view = HELD(of)->kind == FACE_VIEW;
    LIBRARY(is_view ? varvite_view_range(handle, &lower, &upper, arena, &error)
                    : varvite_table_range(handle, &lower, &upper, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

value varvite_ocaml_find_values(value of, value keys) {
    CAMLparam2(of, keys);
    CAMLlocal2(answer, one);
    varvite_error error;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(keys);
    if (count == 0) CAMLreturn(Atom(0));
    face_reserve(&memory, face_array_size(keys) + count * sizeof(void *));
    varvite_bytes *all = face_array(&memory, keys);
    varvite_value **found = face_take(&memory, count * sizeof *found);
    void *handle = HANDLE(of);
    int is_view = HELD(of)->kind == FACE_VIEW;
    LIBRARY(is_view ? varvite_view_find(handle, all, count, found, &error)
                    : varvite_table_find(handle, all, count, found, &error));
    if (status != VARVITE_OK) {
        face_free(&memory);
        CHECK(status);
    }
    answer = caml_alloc(count, 0);
    for (size_t it = 0; it < count; it++) {
        one = Val_none;
        if (found[it]) {
            one = face_child(FACE_VALUE, found[it], of);
            one = caml_alloc_some(one);
        }
        Store_field(answer, it, one);
    }
    face_free(&memory);
    CAMLreturn(answer);
}

/* ---- values ---- */

value varvite_ocaml_read_values(value session, value values) {
    CAMLparam2(session, values);
    CAMLlocal1(answer);
    varvite_error error;
    struct face_memory memory;
    int status;
    varvite_arena *arena = face_arena();
    size_t count = Wosize_val(values);
    face_reserve(&memory, face_handles_size(values));
    varvite_value **all = (varvite_value **)face_handles(&memory, values);
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_read_values(handle, all, count, arena, &error));
    face_free(&memory);
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* Straight into a bigarray, which does not move. */
value varvite_ocaml_value_read_at(value held, value offset, value buffer) {
    CAMLparam2(held, buffer);
    varvite_error error;
    size_t length;
    int status;
    uint64_t from = face_number(offset, UINT64_MAX);
    uint8_t *data = Caml_ba_data_val(buffer);
    size_t capacity = Caml_ba_array_val(buffer)->dim[0];
    void *handle = HANDLE(held);
    LIBRARY(varvite_value_read_at(handle, from, data, capacity, &length, &error));
    CHECK(status);
    CAMLreturn(Val_long(length));
}

value varvite_ocaml_write_value(value session) {
    CAMLparam1(session);
    varvite_error error;
    varvite_value_writer *writer;
    int status;
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_write_value(handle, &writer, &error));
    CHECK(status);
    CAMLreturn(face_child(FACE_VALUE_WRITER, writer, session));
}

value varvite_ocaml_writer_write(value writer, value piece) {
    CAMLparam2(writer, piece);
    varvite_error error;
    struct face_memory memory;
    int status;
    face_reserve(&memory, face_size(piece));
    varvite_bytes bytes = face_bytes(&memory, piece);
    void *handle = HANDLE(writer);
    LIBRARY(varvite_value_writer_write(handle, &bytes, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_writer_finish(value writer) {
    CAMLparam1(writer);
    varvite_error error;
    varvite_value *made;
    int status;
    void *handle = HANDLE(writer);
    LIBRARY(varvite_value_writer_finish(handle, &made, &error));
    CHECK(status);
    CAMLreturn(face_child(FACE_VALUE, made, writer));
}

/* ---- loading ---- */

value varvite_ocaml_load_table(value session, value name, value sort_bytes) {
    CAMLparam2(session, name);
    varvite_error error;
    varvite_loader *loader;
    struct face_memory memory;
    int status;
    uint64_t bytes = face_number(sort_bytes, UINT64_MAX);
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_load_table(handle, text, NULL, bytes, &loader, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_LOADER, loader, session));
}

value varvite_ocaml_loader_push(value loader, value entries) {
    CAMLparam2(loader, entries);
    varvite_error error;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(entries);
    face_reserve(&memory, face_array_size(entries));
    varvite_bytes *all = face_array(&memory, entries);
    void *handle = HANDLE(loader);
    LIBRARY(varvite_loader_push(handle, all, count / 2, NULL, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_loader_finish(value loader) {
    CAMLparam1(loader);
    varvite_error error;
    varvite_table *table;
    int status;
    void *handle = HANDLE(loader);
    LIBRARY(varvite_loader_finish(handle, &table, &error));
    CHECK(status);
    CAMLreturn(face_child(FACE_TABLE, table, loader));
}

/* ---- cursors ---- */

value varvite_ocaml_cursor(value of, value from, value to) {
    CAMLparam3(of, from, to);
    varvite_error error;
    varvite_cursor *cursor;
    struct face_memory memory;
    int status;
    face_reserve(&memory, bound_size(from) + bound_size(to));
    varvite_bound lower = bound_of(&memory, from), upper = bound_of(&memory, to);
    void *handle = HANDLE(of);
    int is_view = HELD(of)->kind == FACE_VIEW;
    LIBRARY(is_view ? varvite_view_cursor(handle, &lower, &upper, &cursor, &error)
                    : varvite_table_cursor(handle, &lower, &upper, &cursor, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_CURSOR, cursor, of));
}

/* What a step gives lies with the cursor until its next call, so one thread at a time has it. */
static void use(value cursor) {
    if (atomic_exchange(&HELD(cursor)->is_in_use, 1)) {
        caml_invalid_argument("Varvite: another thread is using this cursor");
    }
}

/* step: 0 next, 1 previous, 2 next key, 3 previous key, 4 value; an array of two or one texts, empty at the end. */
value varvite_ocaml_cursor_step(value cursor, value step) {
    CAMLparam1(cursor);
    CAMLlocal3(answer, first, second);
    varvite_error error;
    varvite_bytes key = {NULL, 0}, held = {NULL, 0};
    int status, which = Int_val(step);
    use(cursor);
    void *handle = HANDLE(cursor);
    LIBRARY(which == 0   ? varvite_cursor_next(handle, &key, &held, &error)
            : which == 1 ? varvite_cursor_previous(handle, &key, &held, &error)
            : which == 2 ? varvite_cursor_next_key(handle, &key, &error)
            : which == 3 ? varvite_cursor_previous_key(handle, &key, &error)
                         : varvite_cursor_value(handle, &key, &error));
    if (status != VARVITE_OK || !key.data) {
        answer = Atom(0);
    } else if (which < 2) {
        first = face_text(key);
        second = face_text(held);
        answer = caml_alloc_small(2, 0);
        Field(answer, 0) = first;
        Field(answer, 1) = second;
    } else {
        first = face_text(key);
        answer = caml_alloc_small(1, 0);
        Field(answer, 0) = first;
    }
    atomic_store(&HELD(cursor)->is_in_use, 0);
    CHECK(status);
    CAMLreturn(answer);
}

value varvite_ocaml_cursor_next_many(value cursor, value limit) {
    CAMLparam1(cursor);
    CAMLlocal1(answer);
    varvite_error error;
    int status;
    varvite_arena *arena = face_arena();
    size_t most = face_number(limit, SIZE_MAX);
    use(cursor);
    void *handle = HANDLE(cursor);
    LIBRARY(varvite_cursor_next_many(handle, most, arena, &error));
    atomic_store(&HELD(cursor)->is_in_use, 0);
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}

/* where: 0 the first, 1 the last. */
value varvite_ocaml_cursor_seek_end(value cursor, value where) {
    CAMLparam1(cursor);
    varvite_error error;
    int status, is_last = Int_val(where);
    use(cursor);
    void *handle = HANDLE(cursor);
    LIBRARY(is_last ? varvite_cursor_seek_last(handle, &error) : varvite_cursor_seek_first(handle, &error));
    atomic_store(&HELD(cursor)->is_in_use, 0);
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_cursor_seek(value cursor, value key) {
    CAMLparam2(cursor, key);
    varvite_error error;
    struct face_memory memory;
    int status;
    face_reserve(&memory, face_size(key));
    varvite_bytes bytes = face_bytes(&memory, key);
    if (atomic_exchange(&HELD(cursor)->is_in_use, 1)) {
        face_free(&memory);
        caml_invalid_argument("Varvite: another thread is using this cursor");
    }
    void *handle = HANDLE(cursor);
    LIBRARY(varvite_cursor_seek(handle, &bytes, &error));
    atomic_store(&HELD(cursor)->is_in_use, 0);
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- iterators: of a table or of a view ---- */

/* between: a lower and an upper bound, or a prefix. */
value varvite_ocaml_iterate(value of, value between, value keys_only) {
    CAMLparam2(of, between);
    varvite_error error;
    varvite_iterator *iterator;
    struct face_memory memory;
    int status, only = Bool_val(keys_only), is_view = HELD(of)->kind == FACE_VIEW;
    int is_prefix = Is_block(Field(between, 2));
    void *handle = HANDLE(of);
    if (is_prefix) {
        value text = Field(Field(between, 2), 0);
        face_reserve(&memory, face_size(text));
        varvite_bytes prefix = face_bytes(&memory, text);
        LIBRARY(is_view ? varvite_view_iterate_prefix(handle, &prefix, only, &iterator, &error)
                        : varvite_table_iterate_prefix(handle, &prefix, only, &iterator, &error));
    } else {
        face_reserve(&memory, bound_size(Field(between, 0)) + bound_size(Field(between, 1)));
        varvite_bound lower = bound_of(&memory, Field(between, 0)), upper = bound_of(&memory, Field(between, 1));
        LIBRARY(is_view ? varvite_view_iterate(handle, &lower, &upper, only, &iterator, &error)
                        : varvite_table_iterate(handle, &lower, &upper, only, &iterator, &error));
    }
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_ITERATOR, iterator, of));
}

value varvite_ocaml_iterator_next(value iterator, value limit, value is_back) {
    CAMLparam1(iterator);
    CAMLlocal1(answer);
    varvite_error error;
    int status, back = Bool_val(is_back);
    varvite_arena *arena = face_arena();
    size_t most = face_number(limit, SIZE_MAX);
    void *handle = HANDLE(iterator);
    LIBRARY(back ? varvite_iterator_next_back(handle, most, arena, &error)
                 : varvite_iterator_next(handle, most, arena, &error));
    CHECK(status);
    answer = face_texts(arena);
    face_emptied(arena);
    CAMLreturn(answer);
}
