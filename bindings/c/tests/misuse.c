// Misuse is an error and never a crash: NULL, closed, foreign and wild handles, arguments that cannot be, callbacks that
// fail or call back, options of another release, and a fork.
#include "check.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static varvite_table *asked;

static int failing(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    (void)older, (void)newer, (void)output;
    return *(int *)user;
}

static varvite_output *kept;

static int calls_back(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    // A merge operator runs in the middle of the engine, so every call is refused there.
    varvite_arena found = {0};
    FAILS(VARVITE_INVALID, varvite_table_get(asked, &newer, &found, &error));
    CHECK(found.count == 0 && !found.owner);
    // Also of an arena that had answers nothing is left.
    varvite_bytes old[] = {newer};
    found.items = old, found.count = 1;
    FAILS(VARVITE_INVALID, varvite_table_get(asked, &newer, &found, &error));
    CHECK(found.count == 0 && !found.items);
    (void)user;
    kept = output;
    CHECK(varvite_output_write(output, NULL, 5) == VARVITE_INVALID);
    CHECK(varvite_output_write((varvite_output *)user, older.data, 1) == VARVITE_INVALID);
    return varvite_output_write(output, older.data, older.length);
}

// More than there is memory for is refused, and nothing of it is read.
static int gluttonous(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    (void)older, (void)newer;
    size_t length = (size_t)1 << 44;
    void *much = mmap(NULL, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (much == MAP_FAILED) return *(int *)user = VARVITE_INVALID; // valgrind has no room for it
    *(int *)user = varvite_output_write(output, much, length);
    munmap(much, length);
    return *(int *)user;
}

static void without_memory(varvite_session *session) {
    int answered = 0;
    varvite_table_options options;
    varvite_table *table;
    OK(varvite_table_options_default(&options, &error));
    OK(varvite_operator_new("gluttonous", gluttonous, NULL, &answered, &options.merge_operator, &error));
    OK(varvite_session_create_table(session, "gluttonous", &options, &table, &error));
    varvite_operation batch[] = {insert_of("k", "1"), upsert_of("k", "2"), upsert_of("k", "3")};
    OK(varvite_table_apply(table, batch, 1, &error));
    varvite_error error = {0};
    CHECK(varvite_table_apply(table, batch, 3, &error) == VARVITE_CALLBACK && error.callback == VARVITE_INVALID);
    CHECK(answered == VARVITE_INVALID);
    varvite_bytes key = varvite_text("k");
    varvite_arena found = {0};
    OK(varvite_table_get(table, &key, &found, &error));
    CHECK(same(found.items[0], "1"));
    OK(varvite_arena_free(&found, &error));
    OK(varvite_table_close(table, &error));
    OK(varvite_operator_close(options.merge_operator, &error));
}

static void operators(varvite_session *session) {
    int code = 0;
    varvite_table_options options;
    OK(varvite_table_options_default(&options, &error));
    FAILS(VARVITE_INVALID, varvite_operator_new("x", NULL, NULL, NULL, &options.merge_operator, &error));
    FAILS(VARVITE_INVALID, varvite_operator_built_in("sum", &options.merge_operator, &error));
    OK(varvite_operator_new("failing", failing, NULL, &code, &options.merge_operator, &error));
    varvite_table *table;
    OK(varvite_session_create_table(session, "failing", &options, &table, &error));
    varvite_operation batch[] = {insert_of("k", "1"), upsert_of("k", "2"), upsert_of("k", "3")};
    OK(varvite_table_apply(table, batch, 1, &error));
    code = 41;
    varvite_error error = {0};
    CHECK(varvite_table_apply(table, batch, 3, &error) == VARVITE_CALLBACK && error.callback == 41);
    CHECK(strstr(error.sentence, "41"));
    // The table is as it was.
    varvite_bytes key = varvite_text("k");
    varvite_arena found = {0};
    OK(varvite_table_get(table, &key, &found, &error));
    CHECK(same(found.items[0], "1"));
    code = 0;
    OK(varvite_table_apply(table, batch, 3, &error));
    OK(varvite_table_get(table, &key, &found, &error));
    CHECK(same(found.items[0], ""));
    OK(varvite_table_close(table, &error));
    OK(varvite_operator_close(options.merge_operator, &error));

    OK(varvite_operator_new("calls", calls_back, NULL, NULL, &options.merge_operator, &error));
    OK(varvite_session_create_table(session, "calls", &options, &asked, &error));
    OK(varvite_table_apply(asked, batch, 3, &error));
    OK(varvite_table_get(asked, &key, &found, &error));
    CHECK(same(found.items[0], "1") && kept);
    // An output is of use in its callback only.
    CHECK(varvite_output_write(kept, key.data, 1) == VARVITE_INVALID);
    OK(varvite_table_close(asked, &error));
    OK(varvite_operator_close(options.merge_operator, &error));
    OK(varvite_arena_free(&found, &error));
}

typedef struct {
    varvite_tree *tree;
    varvite_store *store;
} both;

// In a walk the library may be called; what waits for the walk's own call is refused and not waited for.
static int during_fold(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    both *it = user;
    (void)path, (void)steps;
    varvite_bytes step = varvite_text("x"), value = varvite_text("y");
    OK(varvite_tree_add(it->tree, &step, 1, &value, &error));
    OK(varvite_tree_close(subtree, &error));
    FAILS(VARVITE_CLOSED, varvite_tree_close(subtree, &error));
    return 0;
}

static int during_merge(void *user, const varvite_bytes *path, size_t steps, const varvite_sides *sides,
                        uint32_t *resolution, varvite_output *output) {
    both *it = user;
    (void)path, (void)steps, (void)sides, (void)output;
    FAILS(VARVITE_INVALID, varvite_store_checkpoint(it->store, &error));
    FAILS(VARVITE_INVALID, varvite_store_close(it->store, &error));
    *resolution = 17;
    return 0;
}

static int closes_its_tree(void *user, varvite_tree *tree) {
    (void)user;
    OK(varvite_tree_close(tree, &error));
    return 0;
}

static void callbacks(void) {
    varvite_disk *disk;
    varvite_store *store;
    varvite_tree *tree, *other, *merged;
    OK(varvite_disk_memory(1, &disk, &error));
    OK(varvite_store_create(disk, NULL, &store, &error));
    OK(varvite_store_empty_tree(store, &tree, &error));
    varvite_bytes step = varvite_text("a"), value = varvite_text("1");
    OK(varvite_tree_add(tree, &step, 1, &value, &error));
    both it = {tree, store};
    OK(varvite_tree_fold(tree, NULL, 0, VARVITE_DEPTH_ALL, 0, VARVITE_SORTED, during_fold, &it, &error));
    FAILS(VARVITE_INVALID, varvite_tree_fold(tree, NULL, 0, 6, 0, 0, during_fold, &it, &error));
    FAILS(VARVITE_INVALID, varvite_tree_fold(tree, NULL, 0, 0, 0, 2, during_fold, &it, &error));
    FAILS(VARVITE_INVALID, varvite_tree_fold(tree, NULL, 0, 0, 0, 0, NULL, &it, &error));
    FAILS(VARVITE_INVALID, varvite_tree_diff(tree, tree, NULL, NULL, &error));
    varvite_proof *proof;
    FAILS(VARVITE_INVALID, varvite_proof_make(tree, 0, closes_its_tree, NULL, &proof, &error));
    FAILS(VARVITE_INVALID, varvite_proof_make(tree, 2, closes_its_tree, NULL, &proof, &error));
    FAILS(VARVITE_INVALID, varvite_proof_make(tree, 0, NULL, NULL, &proof, &error));

    varvite_commit_info info = {NULL, 0, 0, varvite_text(""), varvite_text("")};
    varvite_hash base, ours, theirs, commit;
    OK(varvite_store_commit(store, tree, &info, &base, &error));
    OK(varvite_tree_duplicate(tree, &other, &error));
    info.parents = &base, info.parent_count = 1;
    value = varvite_text("2");
    OK(varvite_tree_add(tree, &step, 1, &value, &error));
    OK(varvite_store_commit(store, tree, &info, &ours, &error));
    value = varvite_text("3");
    OK(varvite_tree_add(other, &step, 1, &value, &error));
    OK(varvite_store_commit(store, other, &info, &theirs, &error));
    uint32_t merge;
    varvite_arena conflicts = {0};
    varvite_bytes branch = varvite_text("b");
    // Nothing is done for an arena that cannot be filled, also where the merge would go well.
    OK(varvite_store_set_branch(store, &branch, &base, &error));
    varvite_arena copy = {0};
    OK(varvite_store_branches(store, &conflicts, &error));
    copy = conflicts;
    OK(varvite_arena_free(&conflicts, &error));
    varvite_arena *wrong[] = {NULL, (varvite_arena *)1, &copy};
    for (int place = 0; place < 3; place++) {
        int expected = place == 2 ? VARVITE_CLOSED : VARVITE_INVALID;
        FAILS(expected, varvite_store_merge_branch(store, &branch, &theirs, &info, NULL, NULL, NULL, &merge, &commit,
                                                   wrong[place], &error));
        OK(varvite_store_branch(store, &branch, &commit, &(int){0}, &error));
        CHECK(memcmp(&commit, &base, 32) == 0);
        FAILS(expected, varvite_tree_merge(tree, tree, other, NULL, NULL, &merged, wrong[place], &error));
        FAILS(expected, varvite_store_merge_commits(store, &ours, &theirs, NULL, NULL, NULL, &merge, &merged,
                                                    wrong[place], &error));
        varvite_checked checked;
        FAILS(expected, varvite_store_check(store, &checked, wrong[place], &error));
    }
    OK(varvite_store_set_branch(store, &branch, &ours, &error));
    FAILS(VARVITE_INVALID, varvite_store_merge_branch(store, &branch, &theirs, &info, NULL, during_merge, &it, &merge,
                                                      &commit, &conflicts, &error));
    FAILS(VARVITE_INVALID, varvite_store_merge_commits(store, &ours, &theirs, NULL, during_merge, &it, &merge, &merged,
                                                       &conflicts, &error));
    OK(varvite_store_branch(store, &branch, &commit, &(int){0}, &error));
    CHECK(memcmp(&commit, &ours, 32) == 0);
    OK(varvite_tree_close(tree, &error));
    OK(varvite_tree_close(other, &error));
    OK(varvite_store_close(store, &error));
    OK(varvite_disk_close(disk, &error));
}

static void arguments_that_cannot_be(varvite_session *session, varvite_table *table) {
    varvite_arena found = {0};
    varvite_bytes key = varvite_text("k"), wild = {NULL, 7}, huge = {(const uint8_t *)"", SIZE_MAX};
    varvite_table *made = NULL;
    FAILS(VARVITE_INVALID, varvite_table_lookup(table, NULL, 1, &found, &error));
    FAILS(VARVITE_INVALID, varvite_table_lookup(table, &key, SIZE_MAX / 4, &found, &error));
    FAILS(VARVITE_INVALID, varvite_table_lookup(table, &wild, 1, &found, &error));
    FAILS(VARVITE_INVALID, varvite_table_lookup(table, &huge, 1, &found, &error));
    FAILS(VARVITE_INVALID, varvite_table_lookup(table, &key, 1, NULL, &error));
    FAILS(VARVITE_INVALID, varvite_table_get(table, NULL, &found, &error));
    OK(varvite_table_lookup(table, NULL, 0, &found, &error));
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, NULL, NULL, &made, &error));
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "bad\xff", NULL, &made, &error));
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "a/b", NULL, &made, &error));
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "t", NULL, NULL, &error));
    CHECK(!made);
    varvite_operation wrong = {9, key, key, NULL};
    FAILS(VARVITE_INVALID, varvite_table_apply(table, &wrong, 1, &error));
    wrong.kind = VARVITE_UPSERT;
    FAILS(VARVITE_INVALID, varvite_table_apply(table, &wrong, 1, &error));
    wrong.kind = VARVITE_INSERT_VALUE;
    FAILS(VARVITE_INVALID, varvite_table_apply(table, &wrong, 1, &error));
    varvite_bound bound = {3, key};
    varvite_cursor *cursor;
    FAILS(VARVITE_INVALID, varvite_table_cursor(table, &bound, NULL, &cursor, &error));

    // Options of another release, or of none.
    varvite_table_options options = {0};
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "t", &options, &made, &error));
    OK(varvite_table_options_default(&options, &error));
    options.lookups = 2;
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "t", &options, &made, &error));
    OK(varvite_table_options_default(&options, &error));
    options.filter_bits = 1000;
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "t", &options, &made, &error));
    FAILS(VARVITE_INVALID, varvite_table_options_default(NULL, &error));
    varvite_session_options session_options;
    OK(varvite_session_options_default(&session_options, &error));
    session_options.log = 3;
    varvite_disk *disk;
    OK(varvite_disk_memory(1, &disk, &error));
    FAILS(VARVITE_INVALID, varvite_session_create(disk, &session_options, &session, &error));
    OK(varvite_disk_close(disk, &error));
    varvite_hash hash;
    FAILS(VARVITE_INVALID, varvite_hash_parse("Co", &hash, &error));

    // An error may be left out, and an arena that is freed is all zeros.
    CHECK(varvite_table_get(table, NULL, &found, NULL) == VARVITE_INVALID);
    varvite_arena copy = found;
    OK(varvite_arena_free(&found, &error));
    CHECK(!found.items && !found.count && !found.owner);
    OK(varvite_arena_free(&found, &error));
    FAILS(VARVITE_CLOSED, varvite_arena_free(&copy, &error));
    FAILS(VARVITE_CLOSED, varvite_table_get(table, &key, &copy, &error));
    CHECK(strcmp(varvite_status_name(-5), "unknown") == 0 && strlen(varvite_library_version()) > 0);
}

// Numbers that ask for more than there is.
static void extremes(varvite_session *session) {
    varvite_disk *disk;
    varvite_cache *cache;
    OK(varvite_disk_memory(1, &disk, &error));
    for (int shift = 0; shift < 20; shift++) {
        FAILS(VARVITE_INVALID, varvite_cache_new(UINT64_MAX >> shift, &cache, &error));
    }
    varvite_session_options options;
    varvite_session *other;
    OK(varvite_session_options_default(&options, &error));
    options.memory_bytes = UINT64_MAX;
    FAILS(VARVITE_INVALID, varvite_session_create(disk, &options, &other, &error));
    varvite_store *store;
    for (int field = 0; field < 4; field++) {
        varvite_store_options options;
        OK(varvite_store_options_default(&options, &error));
        *(uint64_t *[]){&options.objects_bytes, &options.hashes_bytes, &options.pages_bytes,
                        &options.index_bytes}[field] = UINT64_MAX >> field;
        FAILS(VARVITE_INVALID, varvite_store_create(disk, &options, &store, &error));
    }
    for (int field = 0; field < 2; field++) {
        varvite_irmin_options options;
        OK(varvite_irmin_options_default(&options, &error));
        *(field ? &options.objects_bytes : &options.pages_bytes) = UINT64_MAX;
        FAILS(VARVITE_INVALID, varvite_irmin_open(disk, &options, &store, &error));
    }
    // Bounds that nothing is taken for in advance may be as high as they go, or are refused.
    varvite_store_options large;
    OK(varvite_store_options_default(&large, &error));
    large.tree_bytes = large.chunk_bytes = large.max_open_files = UINT64_MAX;
    int status = varvite_store_create(disk, &large, &store, NULL);
    CHECK(status == VARVITE_OK || status == VARVITE_INVALID);
    if (status == VARVITE_OK) {
        varvite_arena found = {0};
        OK(varvite_store_log(store, SIZE_MAX, &found, &error));
        OK(varvite_arena_free(&found, &error));
        OK(varvite_store_close(store, &error));
    }
    OK(varvite_disk_close(disk, &error));
    OK(varvite_disk_memory(2, &disk, &error));
    OK(varvite_session_options_default(&options, &error));
    options.queue_depth = UINT32_MAX;
    options.segment_bytes = options.log_file_bytes = options.max_open_files = UINT64_MAX;
    status = varvite_session_create(disk, &options, &other, NULL);
    CHECK(status == VARVITE_OK || status == VARVITE_INVALID);
    if (status == VARVITE_OK) OK(varvite_session_close(other, &error));
    varvite_table_options table_options;
    OK(varvite_table_options_default(&table_options, &error));
    table_options.write_buffer_bytes = table_options.filter_bytes_max = UINT64_MAX;
    varvite_table *table;
    status = varvite_session_create_table(session, "large", &table_options, &table, NULL);
    CHECK(status == VARVITE_OK || status == VARVITE_INVALID);
    varvite_operation insert = insert_of("k", "v");
    if (status == VARVITE_OK) {
        OK(varvite_table_apply(table, &insert, 1, &error));
        OK(varvite_table_close(table, &error));
    }
    OK(varvite_table_options_default(&table_options, &error));
    status = varvite_table_options_within_memory(UINT64_MAX, &table_options, NULL);
    CHECK(status == VARVITE_OK || status == VARVITE_INVALID);
    varvite_loader *loader;
    FAILS(VARVITE_INVALID, varvite_session_load_table(session, "loaded", NULL, UINT64_MAX, &loader, &error));

    // Counts that no array has.
    varvite_arena found = {0};
    size_t huge = (size_t)1 << 44, pushed = 7;
    FAILS(VARVITE_INVALID, varvite_session_read_values(session, NULL, huge, &found, &error));
    OK(varvite_session_load_table(session, "loaded", NULL, 0, &loader, &error));
    FAILS(VARVITE_INVALID, varvite_loader_push(loader, NULL, huge, &pushed, &error));
    CHECK(pushed == 0);
    FAILS(VARVITE_INVALID, varvite_session_union(session, "u", NULL, huge, &table, &error));
    FAILS(VARVITE_INVALID, varvite_session_apply(session, NULL, huge, &error));
    varvite_tree *tree;
    OK(varvite_tree_empty(NULL, &tree, &error));
    FAILS(VARVITE_INVALID, varvite_tree_find_many(tree, NULL, huge, &found, &error));
    OK(varvite_tree_list(tree, NULL, 0, 0, UINT64_MAX, &found, &error));
    FAILS(VARVITE_INVALID, varvite_tree_list_trees(tree, NULL, 0, 0, huge, &found, NULL, &error));
    FAILS(VARVITE_INVALID, varvite_tree_list_trees(tree, NULL, 0, 0, 1, &found, NULL, &error));
    OK(varvite_tree_close(tree, &error));
    OK(varvite_arena_free(&found, &error));

    // What closes its handle does so also after an error.
    FAILS(VARVITE_INVALID, varvite_loader_finish(loader, NULL, &error));
    FAILS(VARVITE_CLOSED, varvite_loader_close(loader, &error));
    varvite_value_writer *writer;
    OK(varvite_session_write_value(session, &writer, &error));
    FAILS(VARVITE_INVALID, varvite_value_writer_finish(writer, NULL, &error));
    FAILS(VARVITE_CLOSED, varvite_value_writer_close(writer, &error));
    OK(varvite_disk_close(disk, &error));
}

// Options of a program that knows fewer fields, or more.
static void sizes(varvite_session *session) {
    varvite_disk *disk;
    varvite_session *other;
    varvite_session_options options;
    OK(varvite_disk_memory(1, &disk, &error));
    // An older program's: what comes behind is not its own.
    memset(&options, 0xa5, sizeof options);
    options.size = offsetof(varvite_session_options, memory_bytes);
    options.log = VARVITE_LOG_NONE;
    options.seed = 7;
    options.direct = 0;
    options.queue_depth = 8;
    OK(varvite_session_create(disk, &options, &other, &error));
    OK(varvite_session_close(other, &error));
    uint32_t sizes[] = {0, 4, 7, options.size - 4, sizeof options + 8, UINT32_MAX};
    for (int place = 0; place < 6; place++) {
        OK(varvite_session_options_default(&options, &error));
        options.size = sizes[place];
        FAILS(VARVITE_INVALID, varvite_session_open(disk, &options, &other, &error));
    }
    varvite_table_options table_options;
    varvite_table *table;
    memset(&table_options, 0xa5, sizeof table_options);
    table_options.size = offsetof(varvite_table_options, write_buffer_bytes);
    table_options.size_ratio = 2;
    OK(varvite_session_create_table(session, "older", &table_options, &table, &error));
    OK(varvite_table_close(table, &error));
    FAILS(VARVITE_INVALID, varvite_table_options_within_memory(1 << 20, &table_options, &error));
    OK(varvite_table_options_default(&table_options, &error));
    table_options.compression = 2;
    FAILS(VARVITE_INVALID, varvite_session_create_table(session, "newer", &table_options, &table, &error));
    varvite_open_options open = {8, VARVITE_VERIFY_FULL, (const char *)1, (varvite_operator **)1, 9};
    varvite_snapshot *snapshot;
    FAILS(VARVITE_MISSING, varvite_session_open_snapshot(session, "none", &open, &snapshot, &error));
    varvite_store_options store_options;
    varvite_store *store;
    memset(&store_options, 0xa5, sizeof store_options);
    store_options.size = offsetof(varvite_store_options, objects_bytes);
    store_options.configuration = (varvite_configuration){32, 256, VARVITE_ORDER_SEEDED_HASH};
    store_options.index = VARVITE_INDEX_MINIMAL;
    store_options.durability = VARVITE_DURABILITY_SYNCED;
    OK(varvite_disk_close(disk, &error));
    OK(varvite_disk_memory(2, &disk, &error));
    OK(varvite_store_create(disk, &store_options, &store, &error));
    OK(varvite_store_close(store, &error));
    OK(varvite_disk_close(disk, &error));
}

// Answers have no place, or one that is not aligned; nothing is written anywhere then.
static void places(varvite_session *session, varvite_table *table) {
    varvite_arena found = {0};
    varvite_bytes key = varvite_text("k");
    OK(varvite_table_get(table, &key, &found, &error));
    CHECK(found.count == 1);
    // An arena is empty after whatever went wrong.
    FAILS(VARVITE_INVALID, varvite_table_get(NULL, &key, &found, &error));
    CHECK(found.count == 0 && !found.items);
    OK(varvite_table_get(table, &key, &found, &error));
    FAILS(VARVITE_INVALID, varvite_table_lookup(table, NULL, 3, &found, &error));
    CHECK(found.count == 0 && !found.items);
    OK(varvite_table_get(table, &key, &found, &error));
    FAILS(VARVITE_MISSING, varvite_session_snapshot_info(session, "none", &(varvite_snapshot_info){0}, &found, &error));
    CHECK(found.count == 0 && !found.items);
    OK(varvite_table_get(table, &key, &found, &error));
    FAILS(VARVITE_INVALID, varvite_tree_find(NULL, &key, 1, &found, &error));
    CHECK(found.count == 0 && !found.items);
    OK(varvite_arena_free(&found, &error));

    // An answer that comes with an arena is not written when there is none.
    varvite_snapshot_content content = {"label", varvite_text(""), &table, 1};
    OK(varvite_session_save_snapshot(session, "one", &content, &error));
    varvite_snapshot_info info;
    memset(&info, 0xa5, sizeof info);
    varvite_snapshot_info before = info;
    FAILS(VARVITE_INVALID, varvite_session_snapshot_info(session, "one", &info, NULL, &error));
    CHECK(memcmp(&info, &before, sizeof info) == 0);
    varvite_disk *parcel;
    varvite_session *moved;
    OK(varvite_disk_memory(9, &parcel, &error));
    char memory[sizeof(varvite_error) + 8] __attribute__((aligned(8)));
    memset(memory, 0xa5, sizeof memory);
    void *odd = memory + 1;
    FAILS(VARVITE_INVALID, varvite_session_export_snapshot(session, "one", parcel, VARVITE_VERIFY_QUICK, odd, &error));
    FAILS(VARVITE_MISSING, varvite_session_open(parcel, NULL, &moved, &error)); // nothing was done
    OK(varvite_disk_close(parcel, &error));
    OK(varvite_session_delete_snapshot(session, "one", &error));

    // An error that cannot be written is an error of the call.
    CHECK(varvite_table_get(table, &key, &found, odd) == VARVITE_INVALID);
    for (size_t place = 0; place < sizeof memory; place++) CHECK(memory[place] == (char)0xa5);

    // Nothing is written behind what there is of a value, and what was never written before it is no matter.
    varvite_value_writer *writer;
    varvite_value *value;
    OK(varvite_session_write_value(session, &writer, &error));
    OK(varvite_value_writer_write(writer, &key, &error));
    OK(varvite_value_writer_finish(writer, &value, &error));
    size_t length;
    uint8_t *fresh = malloc(3);
    fresh[2] = 9;
    OK(varvite_value_read_at(value, 0, fresh, 3, &length, &error));
    CHECK(length == 1 && fresh[0] == 'k' && fresh[2] == 9);
    OK(varvite_value_read_at(value, 5, fresh, 3, &length, &error));
    CHECK(length == 0);
    FAILS(VARVITE_INVALID, varvite_value_read_at(value, 0, NULL, 3, &length, &error));
    free(fresh);
    OK(varvite_value_close(value, &error));
}

static void handles(varvite_session *session, varvite_table *table) {
    varvite_arena found = {0};
    varvite_bytes key = varvite_text("k");
    FAILS(VARVITE_INVALID, varvite_table_get(NULL, &key, &found, &error));
    FAILS(VARVITE_INVALID, varvite_table_get((varvite_table *)session, &key, &found, &error));
    char memory[64] = {0};
    FAILS(VARVITE_INVALID, varvite_table_get((varvite_table *)memory, &key, &found, &error));
    for (int bit = 0; bit < 64; bit++) {
        uintptr_t number = (uintptr_t)table ^ (uintptr_t)1 << bit;
        varvite_error error = {0};
        int status = varvite_table_get((varvite_table *)number, &key, &found, &error);
        CHECK(status == VARVITE_INVALID || status == VARVITE_CLOSED);
    }
    varvite_view *view;
    OK(varvite_table_view(table, &view, &error));
    OK(varvite_view_close(view, &error));
    FAILS(VARVITE_CLOSED, varvite_view_close(view, &error));
    FAILS(VARVITE_CLOSED, varvite_view_lookup(view, &key, 1, &found, &error));
    // However many come after it, an old handle is never a new one.
    for (int it = 0; it < 20000; it++) {
        varvite_view *next;
        OK(varvite_table_view(table, &next, &error));
        CHECK(next != view);
        OK(varvite_view_close(next, &error));
    }
    FAILS(VARVITE_CLOSED, varvite_view_lookup(view, &key, 1, &found, &error));
}

static void forked(varvite_session *session, varvite_table *table, const char *folder) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        varvite_arena found = {0};
        varvite_bytes key = varvite_text("k");
        FAILS(VARVITE_CLOSED, varvite_table_get(table, &key, &found, &error));
        FAILS(VARVITE_CLOSED, varvite_table_close(table, &error));
        FAILS(VARVITE_CLOSED, varvite_session_close(session, &error));
        // What the child opens itself works, and the parent's folder is still the parent's.
        varvite_disk *disk;
        varvite_session *own;
        OK(varvite_disk_folder(folder, 0, &disk, &error));
        FAILS(VARVITE_LOCKED, varvite_session_open(disk, NULL, &own, &error));
        OK(varvite_disk_close(disk, &error));
        OK(varvite_disk_memory(1, &disk, &error));
        OK(varvite_session_create(disk, NULL, &own, &error));
        OK(varvite_session_close(own, &error));
        OK(varvite_disk_close(disk, &error));
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    varvite_arena found = {0};
    varvite_bytes key = varvite_text("k");
    OK(varvite_table_get(table, &key, &found, &error));
    OK(varvite_arena_free(&found, &error));
}

int main(int count, char **arguments) {
    char folder[4096];
    folder_of(folder, sizeof folder, count, arguments, "misuse");
    varvite_disk *disk;
    varvite_session *session;
    varvite_table *table;
    FAILS(VARVITE_INVALID, varvite_disk_folder(folder, 5, &disk, &error));
    OK(varvite_disk_folder(folder, 1, &disk, &error));
    FAILS(VARVITE_MISSING, varvite_session_open(disk, NULL, &session, &error));
    OK(varvite_session_create(disk, NULL, &session, &error));
    OK(varvite_session_create_table(session, "table", NULL, &table, &error));
    operators(session);
    without_memory(session);
    callbacks();
    arguments_that_cannot_be(session, table);
    places(session, table);
    extremes(session);
    sizes(session);
    handles(session, table);
    forked(session, table, folder);
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
    puts("misuse: passed");
    return 0;
}
