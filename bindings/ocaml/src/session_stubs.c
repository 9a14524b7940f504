/* Disks, merge operators, sessions, snapshots. See face.h for the rules. */
#include "face.h"

/* ---- disks and caches ---- */

value varvite_ocaml_disk_folder(value folder, value create) {
    CAMLparam1(folder);
    varvite_error error;
    varvite_disk *disk;
    struct face_memory memory;
    int status, is_to_be_made = Bool_val(create);
    face_no_nul(folder);
    face_reserve(&memory, face_size(folder));
    const char *name = (const char *)face_bytes(&memory, folder).data;
    LIBRARY(varvite_disk_folder(name, is_to_be_made, &disk, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_block(FACE_DISK, disk));
}

value varvite_ocaml_disk_memory(value seed) {
    varvite_error error;
    varvite_disk *disk;
    int status;
    uint64_t number = face_number(seed, UINT64_MAX);
    LIBRARY(varvite_disk_memory(number, &disk, &error));
    CHECK(status);
    return face_block(FACE_DISK, disk);
}

value varvite_ocaml_cache_new(value bytes) {
    varvite_error error;
    varvite_cache *cache;
    int status;
    uint64_t budget = face_number(bytes, UINT64_MAX);
    LIBRARY(varvite_cache_new(budget, &cache, &error));
    CHECK(status);
    return face_block(FACE_CACHE, cache);
}

value varvite_ocaml_cache_stats(value cache) {
    CAMLparam1(cache);
    varvite_error error;
    varvite_cache_stats stats;
    int status;
    void *handle = HANDLE(cache);
    LIBRARY(varvite_cache_get_stats(handle, &stats, &error));
    CHECK(status);
    CAMLreturn(face_numbers(&stats, sizeof stats));
}

/* ---- merge operators ---- */

struct joining {
    value function; /* a root */
    struct joining *next;
};
/* Operators that nothing needs any more. Roots are given back where the runtime lock is held. */
static _Atomic(struct joining *) all_released;

static void release(void *user) {
    struct joining *joining = user;
    joining->next = atomic_load(&all_released);
    while (!atomic_compare_exchange_weak(&all_released, &joining->next, joining)) {
    }
}

void face_drop_released(void) {
    if (!atomic_load_explicit(&all_released, memory_order_relaxed)) return;
    struct joining *joining = atomic_exchange(&all_released, NULL);
    while (joining) {
        struct joining *next = joining->next;
        caml_remove_generational_global_root(&joining->function);
        free(joining);
        joining = next;
    }
}

/* Of two values of the library. */
static value make_values(void *of) {
    CAMLparam0();
    CAMLlocal3(older, newer, both);
    const varvite_bytes *values = of;
    older = face_text(values[0]);
    newer = face_text(values[1]);
    both = caml_alloc_small(2, 0);
    Field(both, 0) = older;
    Field(both, 1) = newer;
    CAMLreturn(both);
}

static int join(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    struct joining *joining = user;
    varvite_bytes values[] = {older, newer};
    face_begin_callback();
    value answer = face_call_back(2, joining->function, make_values, values);
    int code = 0;
    if (Is_exception_result(answer)) {
        face_remember(Extract_exception(answer));
        code = 1;
    } else {
        code = varvite_output_write(output, (const uint8_t *)String_val(answer), caml_string_length(answer));
    }
    face_end_callback();
    return code;
}

value varvite_ocaml_operator_new(value name, value function) {
    CAMLparam2(name, function);
    varvite_error error;
    varvite_operator *operator;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    struct joining *joining = malloc(sizeof *joining);
    if (!joining) {
        face_free(&memory);
        caml_raise_out_of_memory();
    }
    const char *text = (const char *)face_bytes(&memory, name).data;
    joining->function = function;
    caml_register_generational_global_root(&joining->function);
    LIBRARY(varvite_operator_new(text, join, release, joining, &operator, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_block(FACE_OPERATOR, operator));
}

value varvite_ocaml_operator_built_in(value name) {
    CAMLparam1(name);
    varvite_error error;
    varvite_operator *operator;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    LIBRARY(varvite_operator_built_in(text, &operator, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_block(FACE_OPERATOR, operator));
}

/* ---- sessions ---- */

/* how: 0 creates, 1 opens, 2 opens to read, 3 opens or creates. */
value varvite_ocaml_session(value disk, value how, value given, value cache) {
    CAMLparam2(disk, cache);
    varvite_error error;
    varvite_session *session = NULL;
    varvite_session_options options;
    int status = varvite_session_options_default(&options, &error), which = Int_val(how);
    CHECK(status);
    GIVEN(log, 0);
    GIVEN(seed, 1);
    GIVEN(direct, 2);
    GIVEN(queue_depth, 3);
    GIVEN(memory_bytes, 4);
    GIVEN(segment_bytes, 5);
    GIVEN(log_file_bytes, 6);
    GIVEN(max_open_files, 7);
    if (Is_block(cache)) options.cache = HANDLE(Field(cache, 0));
    void *handle = HANDLE(disk);
    LIBRARY(which == 0   ? varvite_session_create(handle, &options, &session, &error)
            : which == 1 ? varvite_session_open(handle, &options, &session, &error)
            : which == 3 ? varvite_session_open_or_create(handle, &options, &session, &error)
                         : varvite_session_open_read_only(handle, &options, &session, &error));
    CHECK(status);
    CAMLreturn(face_block(FACE_SESSION, session));
}

/* What a handle says in texts. */
#define TEXTS(ocaml_name, function)                          \
    value ocaml_name(value block) {                          \
        CAMLparam1(block);                                   \
        CAMLlocal1(answer);                                  \
        varvite_error error;                                 \
        int status;                                          \
        varvite_arena *arena = face_arena();                 \
        void *handle = HANDLE(block);                        \
        LIBRARY(function(handle, arena, &error));            \
        CHECK(status);                                       \
        answer = face_optionals(arena);                      \
        face_emptied(arena);                                 \
        CAMLreturn(answer);                                  \
    }

TEXTS(varvite_ocaml_session_warnings, varvite_session_warnings)
TEXTS(varvite_ocaml_session_snapshots, varvite_session_snapshots)
TEXTS(varvite_ocaml_session_live_tables, varvite_session_live_tables)
TEXTS(varvite_ocaml_session_check, varvite_session_check)
TEXTS(varvite_ocaml_table_name, varvite_table_name)
TEXTS(varvite_ocaml_table_operator_name, varvite_table_operator_name)
TEXTS(varvite_ocaml_snapshot_label, varvite_snapshot_label)
TEXTS(varvite_ocaml_snapshot_payload, varvite_snapshot_payload)
TEXTS(varvite_ocaml_snapshot_tables, varvite_snapshot_tables)

/* What a handle says in a number. */
#define NUMBER(ocaml_name, function, type)            \
    value ocaml_name(value block) {                   \
        CAMLparam1(block);                            \
        varvite_error error;                          \
        type answer;                                  \
        int status;                                   \
        void *handle = HANDLE(block);                 \
        LIBRARY(function(handle, &answer, &error));   \
        CHECK(status);                                \
        CAMLreturn(Val_long(answer));                 \
    }

NUMBER(varvite_ocaml_session_is_poisoned, varvite_session_is_poisoned, int)
NUMBER(varvite_ocaml_session_merges_are_paused, varvite_session_merges_are_paused, int)
NUMBER(varvite_ocaml_table_is_live, varvite_table_is_live, int)
NUMBER(varvite_ocaml_table_last_work, varvite_table_last_work, uint64_t)
NUMBER(varvite_ocaml_table_union_debt, varvite_table_remaining_union_debt, uint64_t)
NUMBER(varvite_ocaml_view_count, varvite_view_count, uint64_t)
NUMBER(varvite_ocaml_value_length, varvite_value_length, uint64_t)
NUMBER(varvite_ocaml_loader_count, varvite_loader_count, uint64_t)

/* Does something with a handle and a number, which is answered with another. */
#define CREDITS(ocaml_name, function)                             \
    value ocaml_name(value block, value credits) {                \
        CAMLparam1(block);                                        \
        varvite_error error;                                      \
        uint64_t answer, number = face_number(credits, UINT64_MAX);              \
        int status;                                               \
        void *handle = HANDLE(block);                             \
        LIBRARY(function(handle, number, &answer, &error));       \
        CHECK(status);                                            \
        CAMLreturn(Val_long(answer));                             \
    }

CREDITS(varvite_ocaml_table_work, varvite_table_work)
CREDITS(varvite_ocaml_table_supply_credits, varvite_table_supply_union_credits)

value varvite_ocaml_session_stats(value session) {
    CAMLparam1(session);
    varvite_error error;
    varvite_session_stats stats;
    int status;
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_get_stats(handle, &stats, &error));
    CHECK(status);
    CAMLreturn(face_numbers(&stats, sizeof stats));
}

value varvite_ocaml_table_stats(value table) {
    CAMLparam1(table);
    varvite_error error;
    varvite_table_stats stats;
    int status;
    void *handle = HANDLE(table);
    LIBRARY(varvite_table_get_stats(handle, &stats, &error));
    CHECK(status);
    CAMLreturn(face_numbers(&stats, sizeof stats));
}

/* A negative number has merges go on. */
value varvite_ocaml_session_pause(value session, value most) {
    CAMLparam1(session);
    varvite_error error;
    int status;
    intnat bytes = Long_val(most);
    void *handle = HANDLE(session);
    LIBRARY(bytes < 0 ? varvite_session_resume_merges(handle, &error)
                      : varvite_session_pause_merges(handle, bytes, &error));
    CHECK(status);
    CAMLreturn(Val_unit);
}

value varvite_ocaml_session_create_table(value session, value name, value given, value operator) {
    CAMLparam3(session, name, operator);
    varvite_error error;
    varvite_table *table;
    varvite_table_options options;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    status = Bool_val(Field(given, 0)) ? varvite_table_options_utxo(&options, &error)
                                       : varvite_table_options_default(&options, &error);
    if (status == VARVITE_OK && Long_val(Field(given, 1)) >= 0) {
        status = varvite_table_options_within_memory(face_number(Field(given, 1), UINT64_MAX), &options, &error);
    }
    CHECK(status);
    GIVEN(size_ratio, 2);
    GIVEN(write_buffer_bytes, 3);
    GIVEN(filter_bytes_max, 4);
    GIVEN(filter_bits, 5);
    GIVEN(lookups, 6);
    GIVEN(blob_min_bytes, 7);
    GIVEN(compression, 8);
    int opens = Bool_val(Field(given, 9));
    if (Is_block(operator)) options.merge_operator = HANDLE(Field(operator, 0));
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    void *handle = HANDLE(session);
    LIBRARY(opens ? varvite_session_open_or_create_table(handle, text, &options, &table, &error)
                  : varvite_session_create_table(handle, text, &options, &table, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_TABLE, table, session));
}

value varvite_ocaml_session_union(value session, value name, value tables, value incremental) {
    CAMLparam3(session, name, tables);
    varvite_error error;
    varvite_table *table;
    struct face_memory memory;
    int status, is_incremental = Bool_val(incremental);
    size_t count = Wosize_val(tables);
    face_no_nul(name);
    face_reserve(&memory, face_size(name) + face_handles_size(tables));
    const char *text = (const char *)face_bytes(&memory, name).data;
    varvite_table **all = (varvite_table **)face_handles(&memory, tables);
    void *handle = HANDLE(session);
    LIBRARY(is_incremental ? varvite_session_incremental_union(handle, text, all, count, &table, &error)
                           : varvite_session_union(handle, text, all, count, &table, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_TABLE, table, session));
}

/* A table by its name: of the session, of a snapshot, or a duplicate. */
enum by_name { OPEN_LIVE, TAKE, DUPLICATE };

static int table_by_name(enum by_name how, void *of, const char *name, varvite_operator **operators, size_t count,
                         varvite_table **table, varvite_error *error) {
    varvite_open_options options;
    if (how == TAKE) return varvite_snapshot_take(of, name, table, error);
    if (how == DUPLICATE) return varvite_table_duplicate(of, name, table, error);
    int status = varvite_open_options_default(&options, error);
    if (status != VARVITE_OK) return status;
    options.operators = operators;
    options.operator_count = count;
    return varvite_session_open_table(of, name, &options, table, error);
}

value varvite_ocaml_table_by_name(value how, value of, value name, value operators) {
    CAMLparam3(of, name, operators);
    varvite_error error;
    varvite_table *table;
    struct face_memory memory;
    int status;
    enum by_name which = Int_val(how);
    size_t count = Wosize_val(operators);
    face_no_nul(name);
    face_reserve(&memory, face_size(name) + face_handles_size(operators));
    const char *text = (const char *)face_bytes(&memory, name).data;
    varvite_operator **all = (varvite_operator **)face_handles(&memory, operators);
    void *handle = HANDLE(of);
    LIBRARY(table_by_name(which, handle, text, all, count, &table, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_TABLE, table, of));
}

value varvite_ocaml_session_publish(value session, value table) {
    CAMLparam2(session, table);
    varvite_error error;
    int status;
    void *handle = HANDLE(session), *live = HANDLE(table);
    LIBRARY(varvite_session_publish(handle, live, &error));
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* What is deleted by its name: 0 a live table, 1 a snapshot. */
value varvite_ocaml_session_delete(value session, value is_snapshot, value name) {
    CAMLparam2(session, name);
    varvite_error error;
    struct face_memory memory;
    int status, of_snapshots = Bool_val(is_snapshot);
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    void *handle = HANDLE(session);
    LIBRARY(of_snapshots ? varvite_session_delete_snapshot(handle, text, &error)
                         : varvite_session_delete_table(handle, text, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- snapshots ---- */

value varvite_ocaml_session_save_snapshot(value session, value name, value texts, value tables) {
    CAMLparam4(session, name, texts, tables);
    varvite_error error;
    struct face_memory memory;
    int status;
    size_t count = Wosize_val(tables);
    face_no_nul(name);
    face_no_nul(Field(texts, 0));
    face_reserve(&memory, face_size(name) + face_size(Field(texts, 0)) + face_size(Field(texts, 1)) +
                              face_handles_size(tables));
    const char *text = (const char *)face_bytes(&memory, name).data;
    varvite_snapshot_content content = {
        .label = (const char *)face_bytes(&memory, Field(texts, 0)).data,
        .payload = face_bytes(&memory, Field(texts, 1)),
        .tables = (varvite_table **)face_handles(&memory, tables),
        .table_count = count,
    };
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_save_snapshot(handle, text, &content, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* options: whether all is verified, label or none, operators. */
value varvite_ocaml_session_open_snapshot(value session, value name, value given) {
    CAMLparam3(session, name, given);
    CAMLlocal1(operators);
    varvite_error error;
    varvite_snapshot *snapshot;
    varvite_open_options options;
    struct face_memory memory;
    int status = varvite_open_options_default(&options, &error);
    CHECK(status);
    operators = Field(given, 2);
    value label = Is_block(Field(given, 1)) ? Field(Field(given, 1), 0) : 0;
    face_no_nul(name);
    if (label) face_no_nul(label);
    face_reserve(&memory, face_size(name) + (label ? face_size(label) : 0) +
                              face_handles_size(operators));
    const char *text = (const char *)face_bytes(&memory, name).data;
    if (label) options.label = (const char *)face_bytes(&memory, label).data;
    if (Bool_val(Field(given, 0))) options.verify = VARVITE_VERIFY_FULL;
    options.operators = (varvite_operator *const *)face_handles(&memory, operators);
    options.operator_count = Wosize_val(operators);
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_open_snapshot(handle, text, &options, &snapshot, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_SNAPSHOT, snapshot, session));
}

/* Between a session and a disk: exports `name`, or imports it as `new_name`. */
value varvite_ocaml_session_transfer(value session, value disk, value name, value new_name) {
    CAMLparam4(session, disk, name, new_name);
    varvite_error error;
    struct face_memory memory;
    int status, is_import = Is_block(new_name);
    face_no_nul(name);
    if (is_import) face_no_nul(Field(new_name, 0));
    face_reserve(&memory, face_size(name) + (is_import ? face_size(Field(new_name, 0)) : 0));
    const char *from = (const char *)face_bytes(&memory, name).data;
    const char *to = is_import ? (const char *)face_bytes(&memory, Field(new_name, 0)).data : NULL;
    void *handle = HANDLE(session), *other = HANDLE(disk);
    LIBRARY(is_import
                ? varvite_session_import_snapshot(handle, other, from, to, VARVITE_VERIFY_FULL, NULL, &error)
                : varvite_session_export_snapshot(handle, from, other, VARVITE_VERIFY_FULL, NULL, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(Val_unit);
}

/* ---- copies, and what follows a session ---- */

value varvite_ocaml_session_backup(value session, value disk, value is_full) {
    CAMLparam2(session, disk);
    varvite_error error;
    varvite_backed_up backed_up;
    int status;
    uint32_t verify = Bool_val(is_full) ? VARVITE_VERIFY_FULL : VARVITE_VERIFY_QUICK;
    void *handle = HANDLE(session), *target = HANDLE(disk);
    LIBRARY(varvite_session_backup(handle, target, verify, &backed_up, &error));
    CHECK(status);
    CAMLreturn(face_numbers(&backed_up, sizeof backed_up));
}

/* Numbers, and four optional texts for each loss. */
value varvite_ocaml_session_repair(value source, value target, value skip_damaged, value seed) {
    CAMLparam2(source, target);
    CAMLlocal3(answer, counts, losses);
    varvite_error error;
    varvite_repaired repaired;
    int status, skips = Bool_val(skip_damaged);
    uint64_t number = face_number(seed, UINT64_MAX);
    varvite_arena *arena = face_arena();
    void *from = HANDLE(source), *to = HANDLE(target);
    LIBRARY(varvite_session_repair(from, to, skips, number, &repaired, arena, &error));
    CHECK(status);
    losses = face_optionals(arena);
    face_emptied(arena);
    uint64_t numbers[] = {repaired.session_was_lost,  repaired.snapshots, repaired.live_tables,
                          repaired.whole_live_tables, repaired.segments,  repaired.bytes,
                          repaired.copied_bytes,      repaired.log_records, repaired.log_records_behind};
    counts = face_numbers(numbers, sizeof numbers);
    answer = caml_alloc_small(2, 0);
    Field(answer, 0) = counts;
    Field(answer, 1) = losses;
    CAMLreturn(answer);
}

value varvite_ocaml_session_follow(value session, value is_full, value operators) {
    CAMLparam2(session, operators);
    varvite_error error;
    varvite_follower *follower;
    varvite_open_options options;
    struct face_memory memory;
    int status = varvite_open_options_default(&options, &error);
    CHECK(status);
    face_reserve(&memory, face_handles_size(operators));
    if (Bool_val(is_full)) options.verify = VARVITE_VERIFY_FULL;
    options.operators = (varvite_operator *const *)face_handles(&memory, operators);
    options.operator_count = Wosize_val(operators);
    void *handle = HANDLE(session);
    LIBRARY(varvite_session_follow(handle, &options, &follower, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_FOLLOWER, follower, session));
}

NUMBER(varvite_ocaml_follower_reload, varvite_follower_reload, int)
TEXTS(varvite_ocaml_follower_tables, varvite_follower_tables)

value varvite_ocaml_follower_view(value follower, value name) {
    CAMLparam2(follower, name);
    varvite_error error;
    varvite_view *view;
    struct face_memory memory;
    int status;
    face_no_nul(name);
    face_reserve(&memory, face_size(name));
    const char *text = (const char *)face_bytes(&memory, name).data;
    void *handle = HANDLE(follower);
    LIBRARY(varvite_follower_view(handle, text, &view, &error));
    face_free(&memory);
    CHECK(status);
    CAMLreturn(face_child(FACE_VIEW, view, follower));
}
