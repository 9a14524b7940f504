// Tables that threads share, transactions over them, scrubs, readers beside the writer, files of commits, lower folders: as
// they are meant, and misused.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WRITERS = 4, ROUNDS = 40 };

static varvite_tables *tables;

static long number_of(varvite_bytes bytes) {
    char text[32] = {0};
    CHECK(bytes.length < sizeof text);
    if (bytes.length) memcpy(text, bytes.data, bytes.length);
    return strtol(text, NULL, 10);
}

// Counts both tables up in one transaction: none of them is lost, and nobody sees one without the other.
static void *count_up(void *unused) {
    varvite_arena found = {0};
    varvite_bytes key = varvite_text("n");
    for (int round = 0; round < ROUNDS; round++) {
        varvite_transaction *block;
        OK(varvite_tables_begin(tables, &block, &error));
        OK(varvite_transaction_lookup(block, "a", &key, 1, &found, &error));
        char text[32];
        snprintf(text, sizeof text, "%ld", number_of(found.items[0]) + 1);
        varvite_operation count = insert_of("n", text);
        OK(varvite_transaction_apply(block, "a", &count, 1, &error));
        OK(varvite_transaction_apply(block, "b", &count, 1, &error));
        OK(varvite_transaction_commit(block, &error));
        FAILS(VARVITE_CLOSED, varvite_transaction_commit(block, &error));
    }
    OK(varvite_arena_free(&found, &error));
    return unused;
}

static atomic_int counted;

static void *compare(void *unused) {
    const char *names[] = {"b", "a"};
    varvite_bytes key = varvite_text("n");
    varvite_arena one = {0}, other = {0};
    int is_last;
    do {
        is_last = atomic_load(&counted);
        varvite_view *views[2];
        OK(varvite_tables_views(tables, names, 2, views, &error));
        OK(varvite_view_lookup(views[0], &key, 1, &one, &error));
        OK(varvite_view_lookup(views[1], &key, 1, &other, &error));
        CHECK(number_of(one.items[0]) == number_of(other.items[0]));
        for (int it = 0; it < 2; it++) OK(varvite_view_close(views[it], &error));
    } while (!is_last);
    CHECK(number_of(one.items[0]) == WRITERS * ROUNDS);
    OK(varvite_arena_free(&one, &error));
    OK(varvite_arena_free(&other, &error));
    return unused;
}

static void transactions(varvite_session *session) {
    varvite_table *a, *b, *twin;
    OK(varvite_session_create_table(session, "a", NULL, &a, &error));
    OK(varvite_session_create_table(session, "b", NULL, &b, &error));
    OK(varvite_table_duplicate(b, "a", &twin, &error));
    varvite_table *doubled[] = {a, twin}, *both[] = {a, b};
    FAILS(VARVITE_INVALID, varvite_session_share(session, doubled, 2, &tables, &error));
    FAILS(VARVITE_INVALID, varvite_session_share(session, both, 2, NULL, &error));
    varvite_view *view;
    OK(varvite_table_view(a, &view, &error)); // it was not taken
    OK(varvite_view_close(view, &error));

    // What is refused is as it was, also where only the engine sees why.
    varvite_disk *elsewhere;
    varvite_session *other;
    varvite_table *foreign;
    varvite_operation kept = insert_of("kept", "1");
    OK(varvite_disk_memory(9, &elsewhere, &error));
    OK(varvite_session_create(elsewhere, NULL, &other, &error));
    OK(varvite_session_create_table(other, "f", NULL, &foreign, &error));
    varvite_table *mixed[] = {b, foreign, a};
    FAILS(VARVITE_INVALID, varvite_session_share(session, mixed, 3, &tables, &error));
    for (int it = 0; it < 3; it++) OK(varvite_table_apply(mixed[it], &kept, 1, &error));
    varvite_arena name = {0};
    OK(varvite_table_name(b, &name, &error)); // each stands for what it stood for
    CHECK(same(name.items[0], "b"));
    OK(varvite_table_name(foreign, &name, &error));
    CHECK(same(name.items[0], "f"));
    OK(varvite_arena_free(&name, &error));
    OK(varvite_session_share(session, both, 2, &tables, &error));
    FAILS(VARVITE_CLOSED, varvite_table_view(a, &view, &error));

    pthread_t threads[WRITERS + 1];
    CHECK(pthread_create(&threads[WRITERS], NULL, compare, NULL) == 0);
    for (int it = 0; it < WRITERS; it++) CHECK(pthread_create(&threads[it], NULL, count_up, NULL) == 0);
    for (int it = 0; it < WRITERS; it++) CHECK(pthread_join(threads[it], NULL) == 0);
    atomic_store(&counted, 1);
    CHECK(pthread_join(threads[WRITERS], NULL) == 0);

    FAILS(VARVITE_INVALID, varvite_tables_add(tables, foreign, &error));
    OK(varvite_table_apply(foreign, &kept, 1, &error));
    OK(varvite_table_close(foreign, &error));
    OK(varvite_session_close(other, &error));
    OK(varvite_disk_close(elsewhere, &error));

    // What would wait for its own transaction, in which nothing is done meanwhile, is told so.
    varvite_transaction *block, *second;
    varvite_operation insert = insert_of("k", "1");
    varvite_named_update update = {"a", &insert, 1};
    varvite_table *taken;
    uint64_t left;
    OK(varvite_tables_set_patience(tables, 20, &error));
    OK(varvite_tables_begin(tables, &block, &error));
    FAILS(VARVITE_BUSY, varvite_tables_begin(tables, &second, &error));
    FAILS(VARVITE_BUSY, varvite_tables_commit(tables, &update, 1, &error));
    FAILS(VARVITE_BUSY, varvite_tables_work(tables, 1, &left, &error));
    FAILS(VARVITE_BUSY, varvite_tables_add(tables, twin, &error));
    FAILS(VARVITE_BUSY, varvite_tables_remove(tables, "a", &taken, &error));
    FAILS(VARVITE_BUSY, varvite_tables_save_snapshot(tables, "s", NULL, NULL, &error));
    OK(varvite_tables_set_patience(tables, UINT64_MAX, &error));
    OK(varvite_tables_try_begin(tables, &second, &error));
    CHECK(!second);
    OK(varvite_transaction_apply(block, "a", &insert, 1, &error));
    FAILS(VARVITE_MISSING, varvite_transaction_apply(block, "c", &insert, 1, &error));
    FAILS(VARVITE_INVALID, varvite_transaction_apply(block, NULL, &insert, 1, &error));
    varvite_operation odd = {9, varvite_text("k"), {NULL, 0}, NULL};
    FAILS(VARVITE_INVALID, varvite_transaction_apply(block, "a", &odd, 1, &error));
    OK(varvite_transaction_view(block, "a", &view, &error));
    varvite_bytes key = varvite_text("k");
    varvite_arena found = {0};
    OK(varvite_view_lookup(view, &key, 1, &found, &error));
    CHECK(same(found.items[0], "1"));
    OK(varvite_view_close(view, &error));
    OK(varvite_transaction_close(block, &error));
    OK(varvite_tables_lookup(tables, "a", &key, 1, &found, &error));
    CHECK(same(found.items[0], NULL)); // it was dropped
    FAILS(VARVITE_MISSING, varvite_tables_lookup(tables, "c", &key, 1, &found, &error));

    OK(varvite_tables_commit(tables, &update, 1, &error));
    varvite_named_update twice[] = {update, update};
    FAILS(VARVITE_INVALID, varvite_tables_commit(tables, twice, 2, &error));
    FAILS(VARVITE_INVALID, varvite_tables_add(tables, twin, &error));
    OK(varvite_table_view(twin, &view, &error)); // it was refused, and is there still
    OK(varvite_view_close(view, &error));
    OK(varvite_table_close(twin, &error));
    OK(varvite_tables_save_snapshot(tables, "s", "here", &key, &error));
    OK(varvite_tables_remove(tables, "b", &taken, &error));
    OK(varvite_tables_names(tables, &found, &error));
    CHECK(found.count == 1 && same(found.items[0], "a"));
    OK(varvite_tables_add(tables, taken, &error));
    FAILS(VARVITE_CLOSED, varvite_tables_add(tables, taken, &error));
    OK(varvite_tables_work(tables, 1 << 20, &left, &error));

    // A handle that is closed under a transaction leaves it its tables.
    OK(varvite_tables_begin(tables, &block, &error));
    OK(varvite_tables_close(tables, &error));
    OK(varvite_transaction_lookup(block, "a", &key, 1, &found, &error));
    CHECK(same(found.items[0], "1"));
    OK(varvite_transaction_commit(block, &error));
    FAILS(VARVITE_CLOSED, varvite_tables_begin(tables, &block, &error));
    FAILS(VARVITE_INVALID, varvite_tables_begin((varvite_tables *)session, &block, &error));
    OK(varvite_arena_free(&found, &error));
}

static varvite_transaction *handed;
static atomic_int is_waiting;

// A step of a task that began on another thread.
static void *step(void *ends) {
    varvite_operation insert = insert_of("step", "1");
    OK(varvite_transaction_apply(handed, "a", &insert, 1, &error));
    if (ends) {
        while (!atomic_load(&is_waiting)) usleep(1000);
        usleep(50000);
        OK(varvite_transaction_commit(handed, &error));
    }
    return NULL;
}

static void *wait_for_turn(void *unused) {
    varvite_operation insert = insert_of("after", "1");
    varvite_named_update update = {"a", &insert, 1};
    atomic_store(&is_waiting, 1);
    FAILS(VARVITE_CLOSED, varvite_tables_commit(tables, &update, 1, &error));
    return unused;
}

// A transaction belongs to who has its handle: a task that goes from thread to thread, beside others of these threads.
static void across_threads(varvite_session *session) {
    pthread_t thread;
    varvite_table *a;
    varvite_operation insert = insert_of("beside", "1");
    varvite_named_update update = {"a", &insert, 1};
    varvite_bytes key = varvite_text("step");
    varvite_arena found = {0};
    OK(varvite_session_create_table(session, "a", NULL, &a, &error));
    OK(varvite_session_share(session, &a, 1, &tables, &error));
    OK(varvite_tables_begin(tables, &handed, &error));
    CHECK(pthread_create(&thread, NULL, step, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, step, &found) == 0);
    atomic_store(&is_waiting, 1);
    // The thread that began it works for another task now, which waits its turn.
    OK(varvite_tables_commit(tables, &update, 1, &error));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(varvite_tables_lookup(tables, "a", &key, 1, &found, &error));
    CHECK(same(found.items[0], "1"));

    // An asynchronous runtime does not wait, and tries again.
    OK(varvite_tables_set_patience(tables, 0, &error));
    OK(varvite_tables_begin(tables, &handed, &error));
    FAILS(VARVITE_BUSY, varvite_tables_commit(tables, &update, 1, &error));
    OK(varvite_transaction_commit(handed, &error));
    OK(varvite_tables_commit(tables, &update, 1, &error));

    // Who waits when the handle is closed is told so.
    OK(varvite_tables_set_patience(tables, UINT64_MAX, &error));
    OK(varvite_tables_begin(tables, &handed, &error));
    atomic_store(&is_waiting, 0);
    CHECK(pthread_create(&thread, NULL, wait_for_turn, NULL) == 0);
    while (!atomic_load(&is_waiting)) usleep(1000);
    usleep(20000);
    OK(varvite_tables_close(tables, &error));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(varvite_transaction_apply(handed, "a", &insert, 1, &error));
    OK(varvite_transaction_commit(handed, &error));
    OK(varvite_arena_free(&found, &error));
}

// A scrub reads all, a part at a time, and is nothing when its session is closed.
static void scrubs(varvite_session *session) {
    varvite_scrub *scrub;
    varvite_arena found = {0};
    uint64_t left = 1, place;
    OK(varvite_session_scrub(session, 0, &scrub, &error));
    for (int it = 0; left; it++) {
        CHECK(it < 1000);
        OK(varvite_scrub_work(scrub, 1, &left, &error));
        OK(varvite_scrub_place(scrub, &place, &error));
    }
    OK(varvite_scrub_findings(scrub, &found, &error));
    CHECK(found.count == 0);
    OK(varvite_scrub_close(scrub, &error));
    FAILS(VARVITE_CLOSED, varvite_scrub_work(scrub, 1, &left, &error));
    OK(varvite_session_scrub(session, 0, &scrub, &error));
    OK(varvite_session_close(session, &error));
    FAILS(VARVITE_CLOSED, varvite_scrub_work(scrub, 1, &left, &error));
    OK(varvite_scrub_close(scrub, &error));
    OK(varvite_arena_free(&found, &error));
}

static varvite_hash commit_of(varvite_store *store, int level) {
    varvite_tree *tree;
    varvite_bytes path[] = {varvite_text("level")}, many[] = {varvite_text("large")};
    char text[16], large[5000];
    snprintf(text, sizeof text, "%d", level);
    memset(large, level, sizeof large);
    varvite_bytes value = varvite_text(text), filled = {(uint8_t *)large, sizeof large};
    varvite_commit_info info = {NULL, 0, level, varvite_text("me"), varvite_text("")};
    varvite_hash commit;
    OK(varvite_store_empty_tree(store, &tree, &error));
    OK(varvite_tree_add(tree, path, 1, &value, &error));
    OK(varvite_tree_add(tree, many, 1, &filled, &error));
    OK(varvite_store_commit(store, tree, &info, &commit, &error));
    OK(varvite_tree_close(tree, &error));
    return commit;
}

static long level_of(varvite_tree *tree) {
    varvite_bytes path[] = {varvite_text("level")};
    varvite_arena found = {0};
    OK(varvite_tree_find(tree, path, 1, &found, &error));
    long level = number_of(found.items[0]);
    OK(varvite_arena_free(&found, &error));
    OK(varvite_tree_close(tree, &error));
    return level;
}

static varvite_reader *reader;
static atomic_int committed;

static void *read_on(void *unused) {
    varvite_bytes name = varvite_text("main");
    long seen = -1;
    while (seen < ROUNDS) {
        int last = atomic_load(&committed), is_there;
        varvite_hash commit;
        varvite_tree *tree;
        OK(varvite_reader_branch(reader, &name, &commit, &is_there, &error));
        CHECK(is_there);
        OK(varvite_reader_checkout(reader, &commit, &tree, &error));
        seen = level_of(tree);
        CHECK(seen >= last); // a commit whose call has returned is seen
    }
    return unused;
}

static void readers(varvite_store *store) {
    varvite_bytes name = varvite_text("main");
    varvite_hash commit = commit_of(store, 0), other = {{1}};
    varvite_tree *tree;
    pthread_t threads[2];
    int is_there;
    OK(varvite_store_set_branch(store, &name, &commit, &error));
    OK(varvite_store_reader(store, &reader, &error));
    for (int it = 0; it < 2; it++) CHECK(pthread_create(&threads[it], NULL, read_on, NULL) == 0);
    for (int level = 1; level <= ROUNDS; level++) {
        commit = commit_of(store, level);
        OK(varvite_store_set_branch(store, &name, &commit, &error));
        atomic_store(&committed, level);
    }
    for (int it = 0; it < 2; it++) CHECK(pthread_join(threads[it], NULL) == 0);
    OK(varvite_reader_last_commit(reader, &other, &is_there, &error));
    CHECK(is_there && memcmp(&other, &commit, sizeof commit) == 0);
    OK(varvite_reader_exists(reader, &other, &is_there, &error));
    CHECK(is_there);
    other.bytes[0] ^= 1;
    OK(varvite_reader_exists(reader, &other, &is_there, &error));
    CHECK(!is_there);
    FAILS(VARVITE_MISSING, varvite_reader_checkout(reader, &other, &tree, &error));
    OK(varvite_reader_close(reader, &error));
    FAILS(VARVITE_CLOSED, varvite_reader_exists(reader, &other, &is_there, &error));
}

static int stop(void *user, uint64_t bytes, uint64_t total) {
    (void)total;
    CHECK(bytes > 0);
    return *(int *)user;
}

static void files(varvite_store *store, varvite_disk *disk) {
    varvite_hash commit, sent[2];
    int is_there, code = 41;
    varvite_tree *tree;
    OK(varvite_store_last_commit(store, &commit, &is_there, &error));
    OK(varvite_store_checkout(store, &commit, &tree, &error));
    varvite_bytes path[] = {varvite_text("huge")}, zeros = {calloc(1, 3 << 20), 3 << 20};
    OK(varvite_tree_add(tree, path, 1, &zeros, &error));
    free((void *)zeros.data);
    varvite_commit_info info = {&commit, 1, 5, varvite_text("me"), varvite_text("")};
    sent[0] = commit;
    OK(varvite_store_commit(store, tree, &info, &sent[1], &error));
    OK(varvite_tree_close(tree, &error));
    varvite_commit_file file, packed, read;
    varvite_error error = {0};
    CHECK(varvite_store_export_commits(store, sent, 2, disk, "file", 0, stop, &code, &file, &error) == VARVITE_CALLBACK);
    CHECK(error.callback == 41);
    code = 0;
    OK(varvite_store_export_commits(store, sent, 2, disk, "file", 0, stop, &code, &file, &error));
    OK(varvite_store_export_commits(store, sent, 2, disk, "packed", 9, NULL, NULL, &packed, &error));
    CHECK(file.commits == 2 && memcmp(&file.hash, &packed.hash, sizeof file.hash) == 0 && packed.bytes < file.bytes);
    FAILS(VARVITE_INVALID,
          varvite_store_export_commits(store, sent, 2, disk, "odd", UINT32_MAX, NULL, NULL, NULL, &error));
    OK(varvite_commit_file_verify(disk, "packed", NULL, NULL, &read, &error));
    CHECK(memcmp(&read.commit, &sent[1], sizeof read.commit) == 0);
    FAILS(VARVITE_MISSING, varvite_commit_file_verify(disk, "none", NULL, NULL, NULL, &error));
    varvite_disk *memory;
    varvite_store *other;
    OK(varvite_disk_memory(3, &memory, &error));
    OK(varvite_store_create_from_commit(memory, NULL, disk, "packed", &other, &error));
    OK(varvite_store_exists(other, &sent[0], &is_there, &error));
    CHECK(is_there);
    code = 7;
    CHECK(varvite_store_import_commit(other, disk, "file", stop, &code, NULL, &error) == VARVITE_CALLBACK);
    OK(varvite_store_import_commit(other, disk, "file", NULL, NULL, &read, &error));
    OK(varvite_store_close(other, &error));
    OK(varvite_disk_close(memory, &error));
}

static void lower(varvite_disk *disk) {
    varvite_store_options options;
    varvite_store *store;
    varvite_disk *below;
    varvite_hash commits[8];
    uint64_t moved, bytes;
    OK(varvite_store_options_default(&options, &error));
    OK(varvite_disk_memory(5, &below, &error));
    options.chunk_bytes = 10000;
    options.lower = below;
    OK(varvite_store_create(disk, &options, &store, &error));
    for (int level = 0; level < 8; level++) commits[level] = commit_of(store, level);
    FAILS(VARVITE_INVALID, varvite_store_archive(store, NULL, 9, &moved, &error));
    OK(varvite_store_archive(store, &commits[6], UINT64_MAX, &moved, &error));
    OK(varvite_store_archived_bytes(store, &bytes, &error));
    CHECK(moved > 1 && bytes > 10000);
    varvite_tree *tree;
    OK(varvite_store_checkout(store, &commits[0], &tree, &error));
    CHECK(level_of(tree) == 0);
    FAILS(VARVITE_INVALID, varvite_store_collect(store, &commits[6], &error));
    OK(varvite_store_unarchive(store, 1, &moved, &error));
    CHECK(moved == 1);
    OK(varvite_store_unarchive(store, UINT64_MAX, &moved, &error));
    OK(varvite_store_attach(store, &moved, &error));
    CHECK(moved == 0);
    OK(varvite_store_close(store, &error));
    OK(varvite_disk_close(below, &error));
}

// While a call has a store in use, its callback does not wait for a transaction: whoever has that may be waiting for the
// store.
static atomic_int is_begun, may_end;

static void *hold(void *unused) {
    varvite_transaction *block;
    OK(varvite_tables_begin(tables, &block, &error));
    atomic_store(&is_begun, 1);
    while (!atomic_load(&may_end)) usleep(1000);
    OK(varvite_transaction_close(block, &error));
    return unused;
}

static int ask(void *user, uint64_t bytes, uint64_t total) {
    (void)bytes, (void)total;
    varvite_transaction *block;
    varvite_operation insert = insert_of("k", "1");
    varvite_named_update update = {"t", &insert, 1};
    if (user) { // nobody writes
        uint64_t left;
        OK(varvite_tables_commit(tables, &update, 1, &error));
        OK(varvite_tables_work(tables, 1, &left, &error));
        OK(varvite_tables_begin(tables, &block, &error));
        OK(varvite_transaction_commit(block, &error));
        return 0;
    }
    FAILS(VARVITE_BUSY, varvite_tables_begin(tables, &block, &error));
    FAILS(VARVITE_BUSY, varvite_tables_commit(tables, &update, 1, &error));
    OK(varvite_tables_try_begin(tables, &block, &error));
    CHECK(!block);
    return 0;
}

static void in_callbacks(varvite_store *store, varvite_disk *disk) {
    varvite_disk *memory;
    varvite_session *session;
    varvite_table *table;
    varvite_hash commit;
    int is_there;
    pthread_t holder;
    OK(varvite_disk_memory(6, &memory, &error));
    OK(varvite_session_create(memory, NULL, &session, &error));
    OK(varvite_session_create_table(session, "t", NULL, &table, &error));
    OK(varvite_session_share(session, &table, 1, &tables, &error));
    CHECK(pthread_create(&holder, NULL, hold, NULL) == 0);
    while (!atomic_load(&is_begun)) usleep(1000);
    OK(varvite_store_last_commit(store, &commit, &is_there, &error));
    OK(varvite_store_export_commits(store, &commit, 1, disk, "asked", 0, ask, NULL, NULL, &error));
    atomic_store(&may_end, 1);
    CHECK(pthread_join(holder, NULL) == 0);
    OK(varvite_store_export_commits(store, &commit, 1, disk, "asked again", 0, ask, &holder, NULL, &error));
    OK(varvite_tables_close(tables, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(memory, &error));
}

int main(int count, char **arguments) {
    char folder[4096];
    folder_of(folder, sizeof folder, count, arguments, "shared");
    varvite_disk *disk, *files_disk;
    varvite_session *session;
    varvite_store *store;
    OK(varvite_disk_memory(1, &disk, &error));
    OK(varvite_session_create(disk, NULL, &session, &error));
    transactions(session);
    across_threads(session);
    scrubs(session);
    OK(varvite_disk_close(disk, &error));
    OK(varvite_disk_memory(2, &disk, &error));
    OK(varvite_disk_folder(folder, 1, &files_disk, &error));
    OK(varvite_store_create(disk, NULL, &store, &error));
    readers(store);
    files(store, files_disk);
    in_callbacks(store, files_disk);
    OK(varvite_store_close(store, &error));
    OK(varvite_disk_close(disk, &error));
    OK(varvite_disk_memory(4, &disk, &error));
    lower(disk);
    OK(varvite_disk_close(disk, &error));
    OK(varvite_disk_close(files_disk, &error));
    puts("shared: passed");
    return 0;
}
