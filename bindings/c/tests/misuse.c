// Misuse is an error and never a crash: NULL, closed, foreign and wild handles, arguments that cannot be, callbacks that
// fail or call back, options of another release, and a fork.
#include "check.h"

#include <stdatomic.h>
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
    (void)user;
    kept = output;
    CHECK(varvite_output_write(output, NULL, 5) == VARVITE_INVALID);
    CHECK(varvite_output_write((varvite_output *)user, older.data, 1) == VARVITE_INVALID);
    return varvite_output_write(output, older.data, older.length);
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
    callbacks();
    arguments_that_cannot_be(session, table);
    handles(session, table);
    forked(session, table, folder);
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
    puts("misuse: passed");
    return 0;
}
