// Merge operators that fail wherever one is called, what is told of it, and what a program gets back of its callbacks.
#include "check.h"

typedef struct {
    int joins;
    // How many of the next joins fail.
    int failures;
    int released;
} host;

static int join(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    host *it = user;
    it->joins++;
    if (it->failures > 0) {
        it->failures--;
        return 41;
    }
    varvite_output_write(output, older.data, older.length);
    return varvite_output_write(output, newer.data, newer.length);
}

// What is called in the middle of the library may not call it.
static void release(void *user) {
    ((host *)user)->released++;
    varvite_disk *disk;
    FAILS(VARVITE_INVALID, varvite_disk_memory(1, &disk, &error));
}

enum { ALWAYS = 1 << 30, KEYS = 100 };

// A call that fails because the operator does, and says so; its arena is empty then.
#define JOIN_FAILS(call)                                                                              \
    do {                                                                                              \
        varvite_error error = {0};                                                                    \
        int status = (call);                                                                          \
        if (status != VARVITE_CALLBACK || error.callback != 41 || !strstr(error.sentence, "41")) {    \
            fprintf(stderr, "%s:%d: %s gave %s: %s\n", __FILE__, __LINE__, #call,                     \
                    varvite_status_name(status), error.sentence);                                     \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

static char names[KEYS][16];
static char value[200];

// A table of KEYS keys, all of them in runs; of these the one in the middle is to be joined to a newer part.
static varvite_table *table_of(varvite_session *session, const char *name, host *it, uint32_t blob_min_bytes) {
    varvite_table_options options;
    OK(varvite_table_options_default(&options, &error));
    options.write_buffer_bytes = 4096;
    options.size_ratio = 2;
    options.blob_min_bytes = blob_min_bytes;
    OK(varvite_operator_new("join", join, release, it, &options.merge_operator, &error));
    varvite_table *table;
    OK(varvite_session_create_table(session, name, &options, &table, &error));
    OK(varvite_operator_close(options.merge_operator, &error));
    varvite_operation batch[KEYS];
    memset(value, 'v', sizeof value - 1);
    for (int key = 0; key < KEYS; key++) {
        snprintf(names[key], sizeof names[key], "k%02d", key);
        batch[key] = insert_of(names[key], value);
    }
    OK(varvite_table_apply(table, batch, KEYS, &error));
    varvite_operation upsert = upsert_of("k50", "!");
    OK(varvite_table_apply(table, &upsert, 1, &error));
    CHECK(it->joins == 0);
    return table;
}

static void is_joined(varvite_bytes found) {
    CHECK(found.length == sizeof value && found.data[0] == 'v' && found.data[sizeof value - 1] == '!');
}

// What an iterator gave before a failure is given, then the failure, then nothing more.
static void iterators(varvite_view *view, host *it) {
    varvite_arena found = {0};
    for (int is_back = 0; is_back < 2; is_back++) {
        for (size_t limit = 1; limit < 2 * KEYS; limit *= 3) {
            varvite_iterator *iterator;
            OK(varvite_view_iterate(view, NULL, NULL, 0, &iterator, &error));
            it->failures = 1;
            size_t passed = 0;
            int status;
            do {
                varvite_error error = {0};
                status = is_back ? varvite_iterator_next_back(iterator, limit, &found, &error)
                                 : varvite_iterator_next(iterator, limit, &found, &error);
                passed += found.count / 2;
            } while (status == VARVITE_OK && found.count);
            CHECK(status == VARVITE_CALLBACK && passed == (is_back ? 49 : 50));
            OK(varvite_iterator_next(iterator, limit, &found, &error));
            CHECK(found.count == 0);
            OK(varvite_iterator_next_back(iterator, limit, &found, &error));
            CHECK(found.count == 0);
            OK(varvite_iterator_close(iterator, &error));
        }
    }
    OK(varvite_arena_free(&found, &error));
}

static void reads(varvite_session *session, uint32_t blob_min_bytes) {
    host it = {0};
    varvite_table *table = table_of(session, "reads", &it, blob_min_bytes);
    varvite_view *view;
    OK(varvite_table_view(table, &view, &error));
    varvite_bytes keys[] = {varvite_text("k49"), varvite_text("k50")};
    varvite_arena found = {0};
    for (int round = 0; round < 2; round++) {
        it.failures = round ? 0 : ALWAYS;
        int expected = round ? VARVITE_OK : VARVITE_CALLBACK;
        size_t one = round ? 1 : 0;
        FAILS(expected, varvite_table_get(table, &keys[1], &found, &error));
        CHECK(found.count == one);
        FAILS(expected, varvite_table_lookup(table, keys, 2, &found, &error));
        CHECK(found.count == 2 * one);
        FAILS(expected, varvite_view_lookup(view, keys, 2, &found, &error));
        CHECK(found.count == 2 * one);
        if (round) is_joined(found.items[1]);
        FAILS(expected, varvite_table_range(table, NULL, NULL, &found, &error));
        CHECK(found.count == 2 * KEYS * one);
        FAILS(expected, varvite_view_range(view, NULL, NULL, &found, &error));
        CHECK(found.count == 2 * KEYS * one);
        OK(varvite_table_get(table, &keys[0], &found, &error));
        CHECK(found.count == 1);
        if (!round) JOIN_FAILS(varvite_table_get(table, &keys[1], &found, &error));
        CHECK(round || (found.count == 0 && !found.items));
    }

    // A cursor stands before the key that cannot be joined, and passes it when it can.
    varvite_cursor *cursor;
    varvite_bytes key, got;
    OK(varvite_view_cursor(view, NULL, NULL, &cursor, &error));
    // Also a failure of one time is told, by the next call of any kind, but not where a seek went.
    for (int way = 0; way < 4; way++) {
        it.failures = 1;
        OK(varvite_cursor_seek_first(cursor, &error));
        OK(varvite_cursor_next_many(cursor, KEYS, &found, &error));
        CHECK(found.count == 100 && same(found.items[98], "k49"));
        if (way == 0) JOIN_FAILS(varvite_cursor_next_many(cursor, KEYS, &found, &error));
        if (way == 1) JOIN_FAILS(varvite_cursor_next(cursor, &key, &got, &error));
        if (way == 2) JOIN_FAILS(varvite_cursor_previous_key(cursor, &key, &error));
        varvite_bytes place = varvite_text("k50");
        if (way == 3) OK(varvite_cursor_seek(cursor, &place, &error));
        OK(varvite_cursor_next_many(cursor, KEYS, &found, &error));
        CHECK(found.count == 100 && same(found.items[0], "k50"));
        is_joined(found.items[1]);
    }
    for (size_t limit = 1; limit < 2 * KEYS; limit *= 3) {
        size_t passed = 0, told = 0;
        it.failures = 1;
        OK(varvite_cursor_seek_first(cursor, &error));
        do {
            varvite_error error = {0};
            int status = varvite_cursor_next_many(cursor, limit, &found, &error);
            CHECK(status == VARVITE_OK || (status == VARVITE_CALLBACK && passed == 50));
            told += status != VARVITE_OK;
            passed += found.count / 2;
            if (status) found.count = 1;
        } while (found.count);
        CHECK(passed == KEYS && told == 1);
    }
    iterators(view, &it);
    OK(varvite_cursor_seek_first(cursor, &error));
    it.failures = ALWAYS;
    OK(varvite_cursor_next_many(cursor, KEYS, &found, &error));
    CHECK(found.count == 100);
    for (int round = 0; round < 3; round++) {
        JOIN_FAILS(varvite_cursor_next_many(cursor, KEYS, &found, &error));
        CHECK(found.count == 0);
        JOIN_FAILS(varvite_cursor_next(cursor, &key, &got, &error));
    }
    it.failures = 0;
    OK(varvite_cursor_next(cursor, &key, &got, &error));
    CHECK(same(key, "k50"));
    is_joined(got);
    OK(varvite_cursor_next(cursor, &key, &got, &error));
    CHECK(same(key, "k51"));
    OK(varvite_cursor_previous(cursor, &key, &got, &error));
    it.failures = 2;
    JOIN_FAILS(varvite_cursor_previous(cursor, &key, &got, &error));
    JOIN_FAILS(varvite_cursor_previous(cursor, &key, &got, &error));
    OK(varvite_cursor_previous(cursor, &key, &got, &error));
    CHECK(same(key, "k50"));
    is_joined(got);
    OK(varvite_cursor_previous(cursor, &key, &got, &error));
    CHECK(same(key, "k49"));
    OK(varvite_cursor_close(cursor, &error));
    OK(varvite_view_close(view, &error));
    OK(varvite_table_close(table, &error));
    OK(varvite_arena_free(&found, &error));
    CHECK(it.released == 1);
}

static void unions(varvite_session *session) {
    host it = {0};
    varvite_table *tables[2], *both;
    tables[1] = table_of(session, "older", &it, 0);
    OK(varvite_table_duplicate(tables[1], "newer", &tables[0], &error));
    varvite_operation upsert = upsert_of("k07", "!");
    OK(varvite_table_apply(tables[0], &upsert, 1, &error));
    it.failures = ALWAYS;
    JOIN_FAILS(varvite_session_union(session, "both", tables, 2, &both, &error));
    OK(varvite_session_incremental_union(session, "both", tables, 2, &both, &error));
    uint64_t left;
    JOIN_FAILS(varvite_table_supply_union_credits(both, UINT64_MAX, &left, &error));
    it.failures = 0;
    OK(varvite_table_supply_union_credits(both, UINT64_MAX, &left, &error));
    varvite_bytes key = varvite_text("k07");
    varvite_arena found = {0};
    OK(varvite_table_get(both, &key, &found, &error));
    CHECK(found.items[0].length == 2 * strlen(value) + 1);
    OK(varvite_arena_free(&found, &error));
    for (int place = 0; place < 2; place++) OK(varvite_table_close(tables[place], &error));
    OK(varvite_table_close(both, &error));
    CHECK(it.released == 1);
}

// An update of one table may write a checkpoint of all, and with it an idle one whose operator fails: that is said to
// who asks, and to who updates the idle table.
static void checkpoints(void) {
    host it = {0};
    varvite_disk *disk;
    OK(varvite_disk_memory(1, &disk, &error));
    varvite_session_options session_options;
    OK(varvite_session_options_default(&session_options, &error));
    session_options.log = VARVITE_LOG_WRITTEN;
    session_options.log_file_bytes = 4096;
    varvite_session *session;
    OK(varvite_session_create(disk, &session_options, &session, &error));
    varvite_table_options options;
    OK(varvite_table_options_default(&options, &error));
    varvite_table *good, *first, *idle;
    OK(varvite_session_create_table(session, "good", &options, &good, &error));
    OK(varvite_operator_new("join", join, release, &it, &options.merge_operator, &error));
    options.write_buffer_bytes = 700; // the smaller, the sooner it keeps too much of the log
    OK(varvite_session_create_table(session, "first", &options, &first, &error));
    OK(varvite_operator_close(options.merge_operator, &error));
    varvite_operation operation = insert_of("k", "1");
    OK(varvite_table_apply(first, &operation, 1, &error));
    OK(varvite_table_duplicate(first, "idle", &idle, &error));
    OK(varvite_session_publish(session, idle, &error));
    OK(varvite_table_close(first, &error));
    OK(varvite_session_delete_table(session, "first", &error));
    operation = upsert_of("k", "2");
    OK(varvite_table_apply(idle, &operation, 1, &error));
    it.failures = ALWAYS;
    varvite_arena warnings = {0};
    memset(value, 'v', sizeof value - 1);
    for (int number = 0; !warnings.count; number++) {
        CHECK(number < 1000);
        char name[16];
        snprintf(name, sizeof name, "%d", number);
        operation = insert_of(name, value);
        OK(varvite_table_apply(good, &operation, 1, &error));
        OK(varvite_session_warnings(session, &warnings, &error));
    }
    char said[1024];
    snprintf(said, sizeof said, "%.*s", (int)warnings.items[0].length, (const char *)warnings.items[0].data);
    CHECK(strstr(said, "table idle") && strstr(said, "a callback of the program failed and returned 41"));
    varvite_error error = {0};
    operation = insert_of("other", "x");
    CHECK(varvite_table_apply(idle, &operation, 1, &error) == VARVITE_INVALID);
    CHECK(strstr(error.sentence, "returned 41"));
    it.failures = 0;
    OK(varvite_table_apply(idle, &operation, 1, &error));
    varvite_bytes key = varvite_text("k");
    OK(varvite_table_get(idle, &key, &warnings, &error));
    CHECK(same(warnings.items[0], "12"));
    OK(varvite_arena_free(&warnings, &error));
    OK(varvite_table_close(good, &error));
    OK(varvite_table_close(idle, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
    CHECK(it.released == 1);
}

static varvite_work *works[4096];
static size_t work_count;

static void execute(void *user, varvite_work *work) {
    (void)user;
    CHECK(work_count < sizeof works / sizeof *works);
    works[work_count++] = work;
}

// A merge of runs that an executor helps with: the failure is the helper's to see first.
static void helpers(void) {
    host it = {0};
    varvite_disk *disk;
    OK(varvite_disk_memory(1, &disk, &error));
    varvite_session_options options;
    OK(varvite_session_options_default(&options, &error));
    varvite_executor executor = {execute, release, &it};
    options.executor = &executor;
    varvite_session *session;
    OK(varvite_session_create(disk, &options, &session, &error));
    varvite_table *table = table_of(session, "helped", &it, 0);
    it.failures = ALWAYS;
    int failed_helps = 0;
    for (int round = 0; round < 200; round++) {
        varvite_operation batch[4];
        for (int place = 0; place < 4; place++) batch[place] = upsert_of(names[(round * 4 + place) % KEYS], value);
        varvite_error error = {0};
        int status = varvite_table_apply(table, batch, 4, &error);
        CHECK(status == VARVITE_OK || (status == VARVITE_CALLBACK && error.callback == 41));
        if (status) {
            it.failures = 0;
            OK(varvite_table_apply(table, batch, 4, &error));
        }
        it.failures = ALWAYS;
        while (work_count) {
            status = varvite_work_run(works[--work_count], &error);
            CHECK(status == VARVITE_OK || (status == VARVITE_CALLBACK && error.callback == 41));
            failed_helps += status != VARVITE_OK;
            FAILS(VARVITE_CLOSED, varvite_work_run(works[work_count], &error));
        }
    }
    CHECK(failed_helps > 0);
    it.failures = 0;
    varvite_arena found = {0};
    OK(varvite_table_range(table, NULL, NULL, &found, &error));
    CHECK(found.count == 2 * KEYS);
    // Eight upserts a key, and the one of the beginning.
    size_t bytes = 0;
    for (int key = 0; key < KEYS; key++) bytes += found.items[2 * key + 1].length;
    CHECK(bytes == KEYS * 9 * strlen(value) + 1);
    OK(varvite_arena_free(&found, &error));
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
    while (work_count) OK(varvite_work_close(works[--work_count], &error));
    CHECK(it.released == 2); // of the operator and of the executor
}

static uint64_t now_ns(void *user) {
    (void)user;
    return 0;
}

static void record(void *user, uint32_t operation, uint64_t duration_ns, uint64_t count) {
    (void)user, (void)operation, (void)duration_ns, (void)count;
}

static void record_context(void *user, uint32_t operation, const varvite_bytes *prefix, size_t steps,
                           uint64_t duration_ns, const varvite_cost *cost) {
    (void)user, (void)operation, (void)prefix, (void)steps, (void)duration_ns, (void)cost;
}

// Whatever a call makes of it, a release is called once for each call that was given it.
static void releases(void) {
    host it = {0};
    varvite_operator *plus;
    varvite_disk *disk;
    OK(varvite_disk_memory(1, &disk, &error));
    FAILS(VARVITE_INVALID, varvite_operator_new("x", NULL, release, &it, &plus, &error));
    FAILS(VARVITE_INVALID, varvite_operator_new(NULL, join, release, &it, &plus, &error));
    FAILS(VARVITE_INVALID, varvite_operator_new("x", join, release, &it, NULL, &error));
    CHECK(it.released == 3);
    OK(varvite_operator_new("x", join, release, &it, &plus, &error));
    CHECK(it.released == 3);
    OK(varvite_operator_close(plus, &error));
    CHECK(it.released == 4);

    host watched = {0}, helping = {0};
    varvite_observer observer = {now_ns, record, release, &watched};
    varvite_executor executor = {execute, release, &helping};
    varvite_session_options options;
    OK(varvite_session_options_default(&options, &error));
    options.observer = &observer;
    options.executor = &executor;
    varvite_session *session;
    FAILS(VARVITE_MISSING, varvite_session_open(disk, &options, &session, &error));
    FAILS(VARVITE_INVALID, varvite_session_create(NULL, &options, &session, &error));
    FAILS(VARVITE_INVALID, varvite_session_create(disk, &options, NULL, &error));
    options.log = 3;
    FAILS(VARVITE_INVALID, varvite_session_create(disk, &options, &session, &error));
    options.log = VARVITE_LOG_NONE;
    observer.now_ns = NULL;
    FAILS(VARVITE_INVALID, varvite_session_create(disk, &options, &session, &error));
    CHECK(watched.released == 5 && helping.released == 5);
    observer.now_ns = now_ns;
    executor.execute = NULL;
    FAILS(VARVITE_INVALID, varvite_session_open_read_only(disk, &options, &session, &error));
    CHECK(watched.released == 6 && helping.released == 6);
    executor.execute = execute;
    // Of options that cannot be read nothing is taken.
    options.size = 3;
    FAILS(VARVITE_INVALID, varvite_session_create(disk, &options, &session, &error));
    options.size = sizeof options;
    CHECK(watched.released == 6 && helping.released == 6);
    OK(varvite_session_create(disk, &options, &session, &error));
    CHECK(watched.released == 6 && helping.released == 6);
    OK(varvite_session_close(session, &error));
    CHECK(watched.released == 7 && helping.released == 7);

    host seen = {0};
    varvite_context_observer looking = {now_ns, record_context, release, &seen};
    varvite_store_options store_options;
    OK(varvite_store_options_default(&store_options, &error));
    store_options.observer = &looking;
    varvite_store *store;
    FAILS(VARVITE_MISSING, varvite_store_open(disk, &store_options, &store, &error));
    FAILS(VARVITE_INVALID, varvite_store_create(NULL, &store_options, &store, &error));
    FAILS(VARVITE_INVALID, varvite_store_create(disk, &store_options, NULL, &error));
    store_options.durability = 9;
    FAILS(VARVITE_INVALID, varvite_store_create(disk, &store_options, &store, &error));
    store_options.durability = VARVITE_DURABILITY_SYNCED;
    looking.record = NULL;
    FAILS(VARVITE_INVALID, varvite_store_create(disk, &store_options, &store, &error));
    CHECK(seen.released == 5);
    OK(varvite_disk_close(disk, &error));
}

int main(int count, char **arguments) {
    (void)count, (void)arguments;
    varvite_disk *disk;
    varvite_session *session;
    OK(varvite_disk_memory(1, &disk, &error));
    OK(varvite_session_create(disk, NULL, &session, &error));
    reads(session, 0);
    reads(session, 32);
    unions(session);
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
    checkpoints();
    helpers();
    releases();
    puts("operators: passed");
    return 0;
}
