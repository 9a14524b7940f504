// Processes that were forked: before the library was ever called, one from the other many times over, in a callback, and
// with arenas that are their parent's.
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void passes(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// The fork handler is there from the start: the six highest bits of a handle count the forks that it saw.
static void before_any_call(void) {
    pid_t child = fork();
    if (child == 0) {
        varvite_disk *disk;
        OK(varvite_disk_memory(1, &disk, &error));
        CHECK((uintptr_t)disk >> 58 == 1);
        OK(varvite_disk_close(disk, &error));
        exit(0);
    }
    passes(child);
}

static void arenas(varvite_table *table) {
    varvite_bytes key = varvite_text("k");
    varvite_arena found = {0};
    OK(varvite_table_get(table, &key, &found, &error));
    pid_t child = fork();
    if (child == 0) {
        // What the parent was told stays readable, and the arena serves again.
        CHECK(found.count == 1 && same(found.items[0], "1"));
        varvite_arena copy = found;
        OK(varvite_arena_free(&copy, &error));
        CHECK(!copy.items && !copy.count && !copy.owner);
        FAILS(VARVITE_CLOSED, varvite_table_get(table, &key, &found, &error));
        CHECK(found.count == 0 && !found.items);
        varvite_tree *tree;
        OK(varvite_tree_of_value(NULL, &key, &tree, &error));
        OK(varvite_tree_find(tree, NULL, 0, &found, &error));
        CHECK(found.count == 1 && same(found.items[0], "k"));
        OK(varvite_tree_close(tree, &error));
        OK(varvite_arena_free(&found, &error));
        exit(0);
    }
    passes(child);
    CHECK(same(found.items[0], "1"));
    OK(varvite_arena_free(&found, &error));
}

// Handles count forks up to a number, beyond which there are none: never those of an ancestor by another count.
static void many(varvite_table *table, varvite_disk *disk) {
    varvite_bytes key = varvite_text("k");
    for (int depth = 1; depth <= 70; depth++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child) {
            int status;
            CHECK(waitpid(child, &status, 0) == child);
            int code = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
            if (depth == 1) {
                CHECK(code == 0);
                return;
            }
            _exit(code);
        }
        varvite_arena found = {0};
        varvite_disk *other = NULL;
        FAILS(VARVITE_CLOSED, varvite_table_get(table, &key, &found, &error));
        FAILS(VARVITE_CLOSED, varvite_disk_close(disk, &error));
        if (depth < 64) {
            OK(varvite_disk_memory(1, &other, &error));
            FAILS(VARVITE_CLOSED, varvite_disk_close(disk, &error));
            OK(varvite_disk_close(other, &error));
        } else {
            FAILS(VARVITE_INVALID, varvite_disk_memory(1, &other, &error));
            CHECK(!other);
        }
    }
    _exit(0);
}

static pid_t parent;
static int ends_itself;

static int forks(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    (void)user, (void)older;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (ends_itself) _exit(0);
        fclose(stderr); // what it says on its way out is no finding of this test
        close(2);
        return varvite_output_write(output, newer.data, newer.length);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (ends_itself) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    else CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return varvite_output_write(output, newer.data, newer.length);
}

static int forks_in_fold(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    (void)path, (void)steps, (void)subtree;
    return forks(user, (varvite_bytes){NULL, 0}, (varvite_bytes){NULL, 0}, NULL) == VARVITE_INVALID ? 0 : 1;
}

// A child that comes back from a callback stands in the middle of its parent's call. It ends there, before it writes what
// its parent writes; one that calls exec or _exit is none of the library's business.
static void in_callbacks(const char *folder) {
    varvite_disk *disk;
    varvite_session_options session_options;
    varvite_table_options options;
    varvite_session *session;
    varvite_table *table;
    OK(varvite_disk_folder(folder, 1, &disk, &error));
    OK(varvite_session_options_default(&session_options, &error));
    OK(varvite_table_options_default(&options, &error));
    session_options.log = VARVITE_LOG_WRITTEN;
    OK(varvite_operator_new("forks", forks, NULL, NULL, &options.merge_operator, &error));
    OK(varvite_session_create(disk, &session_options, &session, &error));
    OK(varvite_session_create_table(session, "forks", &options, &table, &error));
    parent = getpid();
    for (ends_itself = 0; ends_itself < 2; ends_itself++) {
        varvite_operation batch[] = {insert_of("k", "1"), upsert_of("k", ends_itself ? "3" : "2")};
        OK(varvite_table_apply(table, batch, 2, &error));
        CHECK(getpid() == parent);
        varvite_tree *tree;
        varvite_bytes value = varvite_text("v");
        OK(varvite_tree_of_value(NULL, &value, &tree, &error));
        OK(varvite_tree_fold(tree, NULL, 0, VARVITE_DEPTH_ALL, 0, VARVITE_SORTED, forks_in_fold, NULL, &error));
        OK(varvite_tree_close(tree, &error));
    }
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_session_open(disk, &session_options, &session, &error));
    varvite_open_options open;
    OK(varvite_open_options_default(&open, &error));
    open.operators = &options.merge_operator;
    open.operator_count = 1;
    OK(varvite_session_open_table(session, "forks", &open, &table, &error));
    varvite_bytes key = varvite_text("k");
    varvite_arena found = {0};
    OK(varvite_table_get(table, &key, &found, &error));
    CHECK(same(found.items[0], "3"));
    OK(varvite_arena_free(&found, &error));
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_operator_close(options.merge_operator, &error));
    OK(varvite_disk_close(disk, &error));
}

int main(int count, char **arguments) {
    fflush(NULL);
    before_any_call();
    char folder[4096];
    folder_of(folder, sizeof folder, count, arguments, "forks");
    varvite_disk *disk;
    varvite_session *session;
    varvite_table *table;
    OK(varvite_disk_memory(1, &disk, &error));
    OK(varvite_session_create(disk, NULL, &session, &error));
    OK(varvite_session_create_table(session, "t", NULL, &table, &error));
    varvite_operation insert = insert_of("k", "1");
    OK(varvite_table_apply(table, &insert, 1, &error));
    arenas(table);
    many(table, disk);
    in_callbacks(folder);
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
    puts("forks: passed");
    return 0;
}
