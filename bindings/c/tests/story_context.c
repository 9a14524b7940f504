// The context face in one story: trees, commits, branches, merges, walks, proofs, stores of Irmin.
#include "check.h"

static varvite_bytes balance[3];

static const varvite_bytes *path_of(const char *account) {
    balance[0] = varvite_text("contracts");
    balance[1] = varvite_text(account);
    balance[2] = varvite_text("balance");
    return balance;
}

static void add(varvite_tree *tree, const char *account, const char *value) {
    varvite_bytes bytes = varvite_text(value);
    OK(varvite_tree_add(tree, path_of(account), 3, &bytes, &error));
}

// A trace of a table and of a context, with marks and a sample.
static void recording(void) {
    varvite_disk *disk;
    OK(varvite_disk_memory(1, &disk, &error));
    varvite_recorder *recorder, *again;
    OK(varvite_recorder_create(disk, "a.trace", &recorder, &error));
    FAILS(VARVITE_EXISTS, varvite_recorder_create(disk, "a.trace", &again, &error));
    varvite_store_options options;
    OK(varvite_store_options_default(&options, &error));
    options.recorder = recorder;
    varvite_store *store;
    varvite_disk *other;
    OK(varvite_disk_memory(2, &other, &error));
    OK(varvite_store_create(other, &options, &store, &error));
    OK(varvite_recorder_mark(recorder, "block 1", &error));
    varvite_tree *tree;
    OK(varvite_store_empty_tree(store, &tree, &error));
    varvite_bytes value = varvite_text("1");
    OK(varvite_tree_add(tree, path_of("alice"), 3, &value, &error));
    OK(varvite_tree_close(tree, &error));
    varvite_session_options table;
    OK(varvite_session_options_default(&table, &error));
    table.recorder = recorder;
    varvite_session *session;
    varvite_disk *third;
    OK(varvite_disk_memory(3, &third, &error));
    OK(varvite_session_create(third, &table, &session, &error));
    OK(varvite_recorder_sample(recorder, "rss_bytes", 12345, &error));
    uint64_t calls;
    // The mark, empty_tree, add, release, the sample.
    OK(varvite_recorder_finish(recorder, &calls, &error));
    CHECK(calls == 5);
    OK(varvite_recorder_close(recorder, &error));
    FAILS(VARVITE_CLOSED, varvite_recorder_mark(recorder, "block 2", &error));
    options.recorder = recorder;
    FAILS(VARVITE_CLOSED, varvite_store_open(other, &options, &store, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_store_close(store, &error));
    OK(varvite_disk_close(disk, &error));
    OK(varvite_disk_close(other, &error));
    OK(varvite_disk_close(third, &error));
}

static varvite_commit_info info_of(const varvite_hash *parents, size_t count, const char *message) {
    varvite_commit_info info = {parents, count, 1234, varvite_text("me"), varvite_text(message)};
    return info;
}

typedef struct {
    size_t visits;
    size_t stop_at;
    varvite_tree *kept;
    varvite_store *store;
} walk;

static int visit(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    walk *it = user;
    uint32_t kind;
    OK(varvite_tree_kind(subtree, &kind, &error));
    CHECK(kind == (steps == 2 ? VARVITE_VALUE : VARVITE_DIRECTORY));
    CHECK(steps == 0 || path[0].length > 0);
    if (it->visits == 1) OK(varvite_tree_duplicate(subtree, &it->kept, &error));
    return ++it->visits == it->stop_at ? 77 : 0;
}

static int change(void *user, const varvite_bytes *path, size_t steps, varvite_bytes before, varvite_bytes after) {
    CHECK(steps == 3 && same(path[0], "contracts"));
    char *log = user;
    strcat(log, same(path[1], "alice") ? "a" : "b");
    strcat(log, before.data ? "-" : "");
    strcat(log, after.data ? "+" : "");
    return 0;
}

static int resolve(void *user, const varvite_bytes *path, size_t steps, const varvite_sides *sides,
                   uint32_t *resolution, varvite_output *output) {
    CHECK(steps == 3 && same(path[1], "alice") && same(sides->base, "5"));
    *resolution = *(uint32_t *)user;
    // A callback of a merge may call the library.
    int is_there;
    varvite_hash hash;
    OK(varvite_hash_parse("81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c", &hash, &error));
    (void)is_there;
    if (*resolution != VARVITE_RESOLVE_VALUE) return 0;
    return varvite_output_write(output, sides->theirs.data, sides->theirs.length);
}

// What is proven: alice's balance, and that carol is not there.
static int balances(void *user, varvite_tree *tree) {
    varvite_arena found = {0};
    OK(varvite_tree_find(tree, path_of("alice"), 3, &found, &error));
    CHECK(same(found.items[0], "5"));
    uint8_t buffer[2];
    size_t length;
    for (size_t capacity = 0; capacity <= 2; capacity++) {
        memset(buffer, '#', 2);
        OK(varvite_tree_find_into(tree, path_of("alice"), 3, buffer, capacity, &length, &error));
        CHECK(length == 1 && buffer[0] == (capacity ? '5' : '#') && buffer[1] == '#');
    }
    OK(varvite_tree_find_into(tree, path_of("carol"), 3, NULL, 0, &length, &error));
    CHECK(length == SIZE_MAX);
    int carol;
    OK(varvite_tree_mem(tree, path_of("carol"), 3, &carol, &error));
    CHECK(carol == 0);
    if (user) {
        // Whoever looks at more than was proven is told so.
        FAILS(VARVITE_HIDDEN, varvite_tree_find(tree, path_of("bob"), 3, &found, &error));
        OK(varvite_arena_free(&found, &error));
        return 9;
    }
    OK(varvite_arena_free(&found, &error));
    return 0;
}

static void proofs(varvite_store *store, const varvite_hash *commit) {
    varvite_tree *tree;
    OK(varvite_store_checkout(store, commit, &tree, &error));
    varvite_kinded root = {VARVITE_DIRECTORY, {{0}}}, before, after;
    OK(varvite_tree_hash(tree, &root.hash, &error));
    for (int stream = 0; stream < 2; stream++) {
        varvite_proof *proof;
        OK(varvite_proof_make(tree, stream, balances, NULL, &proof, &error));
        varvite_arena bytes = {0};
        for (uint32_t encoding = VARVITE_ENCODING_V1; encoding <= VARVITE_ENCODING_JSON; encoding++) {
            if (stream && encoding == VARVITE_ENCODING_IRMIN) {
                FAILS(VARVITE_INVALID, varvite_proof_encode(proof, encoding, &bytes, &error));
                continue;
            }
            OK(varvite_proof_encode(proof, encoding, &bytes, &error));
            varvite_proof *read;
            uint32_t any = encoding % 2 || encoding == VARVITE_ENCODING_IRMIN ? encoding : VARVITE_ENCODING_ANY;
            OK(varvite_proof_decode(bytes.items, any, NULL, &read, &error));
            OK(varvite_proof_verify(read, NULL, &root, balances, NULL, &error));
            varvite_error error = {0};
            CHECK(varvite_proof_verify(read, NULL, &root, balances, &error, &error) == VARVITE_CALLBACK);
            CHECK(error.callback == 9);
            varvite_kinded wrong = root;
            wrong.hash.bytes[5] ^= 1;
            FAILS(VARVITE_CORRUPT, varvite_proof_verify(read, NULL, &wrong, balances, NULL, &error));
            OK(varvite_proof_close(read, &error));
        }
        varvite_bytes broken = {bytes.items[0].data, bytes.items[0].length - 1};
        varvite_proof *read;
        FAILS(VARVITE_CORRUPT, varvite_proof_decode(&broken, VARVITE_ENCODING_JSON, NULL, &read, &error));
        OK(varvite_proof_roots(proof, &before, &after, &error));
        CHECK(memcmp(&before.hash, &root.hash, 32) == 0 && memcmp(&after.hash, &root.hash, 32) == 0);
        int is_stream;
        OK(varvite_proof_is_stream(proof, &is_stream, &error));
        CHECK(is_stream == stream);
        varvite_proof_summary summary;
        OK(varvite_proof_get_summary(proof, NULL, &summary, &error));
        CHECK(summary.values == 1 && summary.value_bytes == 1);
        OK(varvite_proof_check(proof, NULL, &error));
        varvite_tree *shown;
        OK(varvite_proof_open(proof, NULL, &root, &shown, &error));
        OK(varvite_tree_find(shown, path_of("alice"), 3, &bytes, &error));
        CHECK(same(bytes.items[0], "5"));
        OK(varvite_tree_close(shown, &error));
        OK(varvite_arena_free(&bytes, &error));
        OK(varvite_proof_close(proof, &error));
    }
    OK(varvite_tree_close(tree, &error));
}

static void walks_and_merges(varvite_store *store, varvite_hash commit) {
    varvite_tree *base, *ours, *theirs, *merged;
    OK(varvite_store_checkout(store, &commit, &base, &error));
    OK(varvite_tree_duplicate(base, &ours, &error));
    OK(varvite_tree_duplicate(base, &theirs, &error));
    add(ours, "alice", "6");
    add(theirs, "alice", "7");
    OK(varvite_tree_remove(theirs, path_of("bob"), 3, &error));
    char log[16] = "";
    OK(varvite_tree_diff(base, theirs, change, log, &error));
    CHECK(strcmp(log, "a-+b-") == 0);

    walk it = {0, 0, NULL, store};
    varvite_bytes contracts = varvite_text("contracts");
    OK(varvite_tree_fold(base, &contracts, 1, VARVITE_DEPTH_ALL, 0, VARVITE_SORTED, visit, &it, &error));
    CHECK(it.visits == 5);
    int is_there;
    varvite_bytes name = varvite_text("balance");
    OK(varvite_tree_mem(it.kept, &name, 1, &is_there, &error));
    CHECK(is_there == 1);
    OK(varvite_tree_close(it.kept, &error));
    it.visits = 0, it.stop_at = 2;
    varvite_error error = {0};
    CHECK(varvite_tree_fold(base, &contracts, 1, VARVITE_DEPTH_ALL, 0, VARVITE_UNDEFINED, visit, &it, &error) ==
          VARVITE_CALLBACK);
    CHECK(error.callback == 77 && it.visits == 2);
    OK(varvite_tree_close(it.kept, &error));

    varvite_arena conflicts = {0}, found = {0};
    uint32_t how = VARVITE_RESOLVE_VALUE;
    OK(varvite_tree_merge(ours, base, theirs, resolve, &how, &merged, &conflicts, &error));
    CHECK(conflicts.count == 0);
    OK(varvite_tree_find(merged, path_of("alice"), 3, &found, &error));
    CHECK(same(found.items[0], "7"));
    OK(varvite_tree_close(merged, &error));
    OK(varvite_tree_merge(ours, base, theirs, NULL, NULL, &merged, &conflicts, &error));
    CHECK(conflicts.count == 1 && conflicts.items[0].length == 9 + 5 + 7 + 3 * 4);
    OK(varvite_tree_close(merged, &error));

    // The same through commits and a branch.
    varvite_hash heads[2], last;
    varvite_commit_info info = info_of(&commit, 1, "ours");
    OK(varvite_store_commit(store, ours, &info, &heads[0], &error));
    info = info_of(&commit, 1, "theirs");
    OK(varvite_store_commit(store, theirs, &info, &heads[1], &error));
    OK(varvite_store_lowest_common_ancestors(store, &heads[0], &heads[1], NULL, &found, &error));
    CHECK(found.count == 1 && memcmp(found.items[0].data, &commit, 32) == 0);
    uint32_t merge;
    OK(varvite_store_merge_commits(store, &heads[0], &heads[1], NULL, NULL, NULL, &merge, &merged, &conflicts, &error));
    CHECK(merge == VARVITE_MERGE_CONFLICTS && merged);
    OK(varvite_tree_close(merged, &error));
    varvite_bytes branch = varvite_text("merging");
    OK(varvite_store_set_branch(store, &branch, &heads[0], &error));
    OK(varvite_store_merge_branch(store, &branch, &heads[1], &info, NULL, NULL, NULL, &merge, &last, &conflicts, &error));
    CHECK(merge == VARVITE_MERGE_CONFLICTS && conflicts.count == 1);
    OK(varvite_store_merge_branch(store, &branch, &heads[1], &info, NULL, resolve, &how, &merge, &last, &conflicts,
                                  &error));
    CHECK(merge == VARVITE_MERGE_MERGED && conflicts.count == 0);
    OK(varvite_store_history(store, &last, 1, 10, &found, &error));
    CHECK(found.count == 5);
    OK(varvite_store_merge_branch(store, &branch, &heads[1], &info, NULL, resolve, &how, &merge, &last, &conflicts,
                                  &error));
    CHECK(merge == VARVITE_MERGE_UNCHANGED);
    OK(varvite_arena_free(&conflicts, &error));
    OK(varvite_arena_free(&found, &error));
    OK(varvite_tree_close(base, &error));
    OK(varvite_tree_close(ours, &error));
    OK(varvite_tree_close(theirs, &error));
}

static size_t watched;

static int watch_export(void *user, const varvite_exported *exported) {
    (void)exported;
    ++watched;
    return *(int *)user;
}

static int watch_migration(void *user, const varvite_migrated *migrated) {
    (void)user;
    CHECK(migrated->end >= migrated->offset);
    return 0;
}

static void irmin(varvite_store *store, const varvite_hash *commit, const char *folder) {
    varvite_disk *target, *scratch, *memory;
    int answer = 0;
    OK(varvite_disk_folder(folder, 1, &target, &error));
    OK(varvite_disk_memory(1, &scratch, &error));
    OK(varvite_irmin_is_store(target, &answer, &error));
    CHECK(answer == 0);
    varvite_exported exported;
    OK(varvite_irmin_export(store, target, scratch, watch_export, &answer, &exported, &error));
    CHECK(exported.commits == 5 && watched >= 5);
    varvite_irmin_options options;
    OK(varvite_irmin_options_default(&options, &error));
    varvite_store *irmin, *again;
    OK(varvite_irmin_open(target, &options, &irmin, &error));
    varvite_tree *tree;
    OK(varvite_store_checkout(irmin, commit, &tree, &error));
    varvite_arena found = {0};
    OK(varvite_tree_find(tree, path_of("alice"), 3, &found, &error));
    CHECK(same(found.items[0], "5"));
    varvite_hash unused;
    varvite_commit_info info = info_of(NULL, 0, "");
    FAILS(VARVITE_INVALID, varvite_store_commit(irmin, tree, &info, &unused, &error));
    OK(varvite_tree_close(tree, &error));
    OK(varvite_disk_memory(2, &memory, &error));
    OK(varvite_store_create(memory, NULL, &again, &error));
    varvite_migrated migrated;
    OK(varvite_irmin_migrate(target, &options, again, NULL, 0, NULL, watch_migration, NULL, &migrated, &error));
    CHECK(migrated.commits == 5);
    int exists;
    OK(varvite_store_exists(again, commit, &exists, &error));
    CHECK(exists == 1);
    OK(varvite_arena_free(&found, &error));
    OK(varvite_store_close(again, &error));
    OK(varvite_store_close(irmin, &error));
    OK(varvite_disk_close(target, &error));
    OK(varvite_disk_close(scratch, &error));
    OK(varvite_disk_close(memory, &error));
}

typedef struct {
    uint64_t clock, commits, released;
} counts;

static uint64_t now_ns(void *user) {
    return ++((counts *)user)->clock;
}

static void record(void *user, uint32_t operation, const varvite_bytes *prefix, size_t steps, uint64_t duration_ns,
                   const varvite_cost *cost) {
    CHECK(steps <= 3 && duration_ns > 0 && (steps == 0 || prefix[0].data));
    if (operation == VARVITE_CONTEXT_COMMIT) {
        ++((counts *)user)->commits;
        CHECK(cost->bytes_written > 0);
    }
}

static void release(void *user) {
    ++((counts *)user)->released;
}

int main(int count, char **arguments) {
    char folder[4096];
    folder_of(folder, sizeof folder, count, arguments, "context");
    varvite_disk *disk;
    OK(varvite_disk_folder(folder, 1, &disk, &error));
    recording();
    varvite_store_options options;
    OK(varvite_store_options_default(&options, &error));
    counts seen = {0};
    varvite_context_observer observer = {now_ns, record, release, &seen};
    options.observer = &observer;
    varvite_store *store, *reader;
    OK(varvite_store_create(disk, &options, &store, &error));
    varvite_tree *tree;
    OK(varvite_store_empty_tree(store, &tree, &error));
    int answer;
    OK(varvite_tree_is_empty(tree, &answer, &error));
    CHECK(answer == 1);
    add(tree, "alice", "5");
    varvite_hash genesis, hash, commit;
    varvite_commit_info info = info_of(NULL, 0, "genesis");
    OK(varvite_store_hash(store, tree, &info, &hash, &error));
    OK(varvite_store_commit(store, tree, &info, &genesis, &error));
    CHECK(memcmp(&hash, &genesis, 32) == 0);
    char text[53];
    OK(varvite_hash_text(&genesis, text, &error));
    CHECK(strlen(text) == 52 && memcmp(text, "Co", 2) == 0);
    OK(varvite_hash_parse(text, &hash, &error));
    CHECK(memcmp(&hash, &genesis, 32) == 0);
    OK(varvite_store_open_read_only(disk, NULL, &reader, &error));

    add(tree, "bob", "2");
    info = info_of(&genesis, 1, "level 1");
    OK(varvite_store_commit(store, tree, &info, &commit, &error));
    OK(varvite_store_exists(reader, &commit, &answer, &error));
    CHECK(answer == 0);
    OK(varvite_store_reload(reader, &error));
    OK(varvite_store_exists(reader, &commit, &answer, &error));
    CHECK(answer == 1);
    OK(varvite_store_close(reader, &error));
    OK(varvite_tree_close(tree, &error));

    OK(varvite_store_checkout(store, &commit, &tree, &error));
    varvite_bytes contracts = varvite_text("contracts");
    uint64_t length;
    OK(varvite_tree_length(tree, &contracts, 1, &length, &error));
    CHECK(length == 2);
    varvite_arena found = {0};
    OK(varvite_tree_list(tree, &contracts, 1, 1, 5, &found, &error));
    CHECK(found.count == 2 && same(found.items[0], "bob") && found.items[1].data[0] == VARVITE_DIRECTORY);
    varvite_tree *children[5] = {NULL};
    OK(varvite_tree_list_trees(tree, &contracts, 1, 0, 5, &found, children, &error));
    CHECK(found.count == 4 && same(found.items[0], "alice") && same(found.items[2], "bob"));
    CHECK(children[0] && children[1] && !children[2]);
    varvite_bytes balance = varvite_text("balance");
    OK(varvite_tree_find(children[1], &balance, 1, &found, &error));
    CHECK(same(found.items[0], "2"));
    for (int it = 0; it < 2; it++) OK(varvite_tree_close(children[it], &error));
    OK(varvite_tree_list_trees(tree, &contracts, 1, 1, 0, &found, NULL, &error));
    CHECK(found.count == 0);
    varvite_bytes bob[3];
    memcpy(bob, path_of("bob"), sizeof bob);
    varvite_path paths[] = {{path_of("alice"), 3}, {bob, 3}, {bob, 2}};
    OK(varvite_tree_find_many(tree, paths, 3, &found, &error));
    CHECK(same(found.items[0], "5") && same(found.items[1], "2") && same(found.items[2], NULL));
    varvite_tree *subtree, *same_tree;
    OK(varvite_tree_find_tree(tree, &contracts, 1, &subtree, &error));
    OK(varvite_tree_duplicate(tree, &same_tree, &error));
    OK(varvite_tree_add_tree(same_tree, &contracts, 1, subtree, &error));
    OK(varvite_tree_equal(tree, same_tree, &answer, &error));
    CHECK(answer == 1);
    OK(varvite_tree_clear(same_tree, 0, &error));
    OK(varvite_tree_add_tree(same_tree, &contracts, 1, same_tree, &error));
    OK(varvite_tree_equal(tree, same_tree, &answer, &error));
    CHECK(answer == 0);
    OK(varvite_tree_close(same_tree, &error));
    OK(varvite_tree_close(subtree, &error));
    OK(varvite_tree_find_tree(tree, path_of("nobody"), 3, &subtree, &error));
    CHECK(!subtree);
    OK(varvite_tree_mem_tree(tree, &contracts, 1, &answer, &error));
    CHECK(answer == 1);
    varvite_bytes value = varvite_text("v");
    OK(varvite_tree_of_value(NULL, &value, &subtree, &error));
    OK(varvite_tree_close(subtree, &error));
    OK(varvite_tree_empty(NULL, &subtree, &error));
    OK(varvite_tree_close(subtree, &error));
    OK(varvite_tree_close(tree, &error));

    varvite_commit what;
    OK(varvite_store_commit_info(store, &commit, &what, &found, &error));
    CHECK(what.date == 1234 && what.parents == 1 && what.sequence == 1 && found.count == 3);
    CHECK(same(found.items[0], "me") && same(found.items[1], "level 1"));
    CHECK(found.items[2].length == 32 && memcmp(found.items[2].data, &genesis, 32) == 0);
    OK(varvite_store_last_commit(store, &hash, &answer, &error));
    CHECK(answer == 1 && memcmp(&hash, &commit, 32) == 0);
    OK(varvite_store_log(store, 10, &found, &error));
    CHECK(found.count == 2);
    varvite_hash unknown = {{1, 2, 3}};
    FAILS(VARVITE_MISSING, varvite_store_checkout(store, &unknown, &tree, &error));

    varvite_bytes main_branch = varvite_text("main");
    OK(varvite_store_branch(store, &main_branch, &hash, &answer, &error));
    CHECK(answer == 0);
    OK(varvite_store_set_branch(store, &main_branch, &genesis, &error));
    OK(varvite_store_test_and_set_branch(store, &main_branch, &commit, &commit, &answer, &error));
    CHECK(answer == 0);
    OK(varvite_store_test_and_set_branch(store, &main_branch, &genesis, &commit, &answer, &error));
    CHECK(answer == 1);
    OK(varvite_store_branches(store, &found, &error));
    CHECK(found.count == 2 && same(found.items[0], "main") && memcmp(found.items[1].data, &commit, 32) == 0);
    FAILS(VARVITE_MISSING, varvite_store_set_branch(store, &main_branch, &unknown, &error));

    proofs(store, &commit);
    walks_and_merges(store, commit);
    folder_of(folder, sizeof folder, count, arguments, "irmin");
    irmin(store, &commit, folder);

    OK(varvite_store_remove_branch(store, &main_branch, &error));
    int taken = 2;
    OK(varvite_store_maintain(store, &taken, &error));
    CHECK(taken == 0); // a short history is no reason for one
    OK(varvite_store_checkpoint(store, &error));
    OK(varvite_store_begin_chunk(store, &error));
    OK(varvite_store_rebuild_index(store, &error));
    varvite_checked checked;
    OK(varvite_store_check(store, &checked, &found, &error));
    CHECK(checked.commits == 5 && found.count == 0);
    varvite_store_stats stats;
    OK(varvite_store_get_stats(store, &stats, &error));
    CHECK(stats.commits == 5 && stats.chunks == 2);
    CHECK(stats.epoch == 0 && stats.generation == 0 && stats.index_syncs <= stats.syncs);
    varvite_configuration configuration;
    OK(varvite_tree_empty(&(varvite_configuration){2, 8, VARVITE_ORDER_HASH_BITS}, &tree, &error));
    OK(varvite_tree_configuration(tree, &configuration, &error));
    CHECK(configuration.entries == 2 && configuration.stable_hash == 8 && configuration.child_order == 1);
    OK(varvite_tree_close(tree, &error));
    OK(varvite_store_configuration(store, &configuration, &error));
    CHECK(configuration.entries == 32 && configuration.stable_hash == 256 && configuration.child_order == 0);
    OK(varvite_store_warnings(store, &found, &error));
    CHECK(found.count == 0);
    OK(varvite_store_clear(store, &error));
    OK(varvite_store_get_stats(store, &stats, &error));
    CHECK(stats.epoch == 1 && stats.generation == 0);
    OK(varvite_store_log(store, 10, &found, &error));
    CHECK(found.count == 0 && seen.commits >= 4);
    OK(varvite_arena_free(&found, &error));
    OK(varvite_store_close(store, &error));
    CHECK(seen.released == 1);
    OK(varvite_store_open(disk, NULL, &store, &error));
    FAILS(VARVITE_INVALID, varvite_store_find_object(store, &genesis, &tree, &error));
    OK(varvite_store_close(store, &error));
    OK(varvite_disk_close(disk, &error));
    puts("the story of the context: passed");
    return 0;
}
