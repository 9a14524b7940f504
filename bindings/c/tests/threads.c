// Threads: readers of views and of the table beside its writer, handles that are closed while others use them, and
// callbacks that use what other threads use.
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { READERS = 4, ROUNDS = 60, KEYS = 64 };

static varvite_table *table;
static varvite_store *store;
static atomic_int done;

static void *write_rounds(void *unused) {
    (void)unused;
    for (int round = 1; round <= ROUNDS; round++) {
        char keys[KEYS][16], value[16];
        varvite_operation batch[KEYS];
        snprintf(value, sizeof value, "%d", round);
        for (int it = 0; it < KEYS; it++) {
            snprintf(keys[it], sizeof keys[it], "k%d", it);
            batch[it] = insert_of(keys[it], value);
        }
        OK(varvite_table_apply(table, batch, KEYS, &error));
    }
    atomic_store(&done, 1);
    return NULL;
}

// All keys have the value of one round, in a view and in a batch of lookups.
static void *read_rounds(void *unused) {
    (void)unused;
    varvite_arena found = {0};
    while (!atomic_load(&done)) {
        char text[KEYS][16];
        varvite_bytes keys[KEYS];
        for (int it = 0; it < KEYS; it++) {
            snprintf(text[it], sizeof text[it], "k%d", it);
            keys[it] = varvite_text(text[it]);
        }
        varvite_view *view;
        OK(varvite_table_view(table, &view, &error));
        OK(varvite_view_lookup(view, keys, KEYS, &found, &error));
        for (int it = 1; it < KEYS; it++) {
            CHECK(found.items[it].length == found.items[0].length);
            CHECK(!found.items[0].data ||
                  memcmp(found.items[it].data, found.items[0].data, found.items[0].length) == 0);
        }
        OK(varvite_view_close(view, &error));
        OK(varvite_table_lookup(table, keys, KEYS, &found, &error));
        CHECK(found.count == KEYS);
    }
    OK(varvite_arena_free(&found, &error));
    return NULL;
}

// What is closed while others use it: for them it is an error from then on, and never worse.
typedef struct {
    // One use; 1 when the handle was closed before it or in it.
    int (*use)(int number, int round);
    atomic_int users_that_began;
} victim;

typedef struct {
    victim *of;
    int number;
} user;

static void *use_until_closed(void *given) {
    user *it = given;
    for (int round = 0; !it->of->use(it->number, round); round++) {
        if (round == 3) atomic_fetch_add(&it->of->users_that_began, 1);
    }
    return NULL;
}

// Every user has used it, and finds out that it is closed.
#define CLOSES(use, close)                                                                            \
    do {                                                                                              \
        victim it = {use, 0};                                                                         \
        user users[READERS];                                                                          \
        pthread_t threads[READERS];                                                                   \
        for (int number = 0; number < READERS; number++) {                                            \
            users[number] = (user){&it, number};                                                      \
            CHECK(pthread_create(&threads[number], NULL, use_until_closed, &users[number]) == 0);     \
        }                                                                                             \
        while (atomic_load(&it.users_that_began) < READERS) sched_yield();                            \
        OK(close);                                                                                    \
        FAILS(VARVITE_CLOSED, close);                                                                 \
        for (int number = 0; number < READERS; number++) CHECK(pthread_join(threads[number], NULL) == 0); \
    } while (0)

static int is_closed(int status) {
    CHECK(status == VARVITE_OK || status == VARVITE_CLOSED);
    return status == VARVITE_CLOSED;
}

static int commit(int number, int round) {
    varvite_tree *tree;
    if (is_closed(varvite_store_empty_tree(store, &tree, NULL))) return 1;
    char text[32];
    snprintf(text, sizeof text, "%d of %d", round, number);
    varvite_bytes step = varvite_text("step"), value = varvite_text(text);
    OK(varvite_tree_add(tree, &step, 1, &value, &error));
    varvite_commit_info info = {NULL, 0, round, varvite_text("thread"), varvite_text(text)};
    varvite_hash hash;
    int status = varvite_store_commit(store, tree, &info, &hash, NULL);
    OK(varvite_tree_close(tree, &error));
    return is_closed(status);
}

static int use_table(int number, int round) {
    char text[32];
    snprintf(text, sizeof text, "k%d", round % KEYS);
    varvite_operation insert = insert_of(text, "v");
    if (number % 2) return is_closed(varvite_table_apply(table, &insert, 1, NULL));
    varvite_arena found = {0};
    int closed = is_closed(varvite_table_get(table, &insert.key, &found, NULL));
    CHECK(found.count == (closed ? 0 : 1));
    OK(varvite_arena_free(&found, &error));
    return closed;
}

static varvite_view *view;
static varvite_cursor *cursor;
static varvite_session *session;

static int use_view(int number, int round) {
    varvite_arena found = {0};
    varvite_cursor *own;
    int closed = is_closed(number % 2 ? varvite_view_range(view, NULL, NULL, &found, NULL)
                                      : varvite_view_cursor(view, NULL, NULL, &own, NULL));
    if (!closed && number % 2 == 0) OK(varvite_cursor_close(own, &error));
    CHECK(!closed || found.count == 0);
    OK(varvite_arena_free(&found, &error));
    (void)round;
    return closed;
}

static int use_cursor(int number, int round) {
    varvite_arena found = {0};
    int closed = is_closed(number % 2 || round % 8 == 0 ? varvite_cursor_seek_first(cursor, NULL)
                                                        : varvite_cursor_next_many(cursor, 5, &found, NULL));
    OK(varvite_arena_free(&found, &error));
    return closed;
}

static int use_session(int number, int round) {
    varvite_table *own;
    char text[32];
    snprintf(text, sizeof text, "t%d-%d", number, round);
    if (is_closed(varvite_session_create_table(session, text, NULL, &own, NULL))) return 1;
    varvite_operation insert = insert_of("k", "v");
    is_closed(varvite_table_apply(own, &insert, 1, NULL)); // the call after the next one tells
    is_closed(varvite_session_get_stats(session, &(varvite_session_stats){0}, NULL));
    OK(varvite_table_close(own, &error));
    return 0;
}

static varvite_tree *shared;

static void *change_rounds(void *unused) {
    (void)unused;
    for (int round = 0; !atomic_load(&done); round++) {
        char text[32];
        snprintf(text, sizeof text, "%d", round % KEYS);
        varvite_bytes step = varvite_text(text);
        varvite_hash hash;
        OK(varvite_tree_add(shared, &step, 1, &step, &error));
        OK(varvite_tree_hash(shared, &hash, &error));
    }
    return NULL;
}

// A callback that uses what other threads use waits for them, as any call does.
static int use_what_others_use(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    (void)user, (void)path, (void)steps, (void)subtree;
    varvite_bytes step = varvite_text("mine");
    uint64_t length;
    OK(varvite_tree_add(shared, &step, 1, &step, &error));
    OK(varvite_tree_length(shared, NULL, 0, &length, &error));
    return 0;
}

static void callbacks(void) {
    varvite_tree *tree;
    OK(varvite_tree_empty(NULL, &tree, &error));
    OK(varvite_tree_empty(NULL, &shared, &error));
    for (int it = 0; it < KEYS; it++) {
        char text[32];
        snprintf(text, sizeof text, "%d", it);
        varvite_bytes step = varvite_text(text);
        OK(varvite_tree_add(tree, &step, 1, &step, &error));
        // Many entries, so that hashing them takes a while.
        for (int more = 0; more < 20; more++) {
            snprintf(text, sizeof text, "%d.%d", it, more);
            step = varvite_text(text);
            OK(varvite_tree_add(shared, &step, 1, &step, &error));
        }
    }
    atomic_store(&done, 0);
    pthread_t threads[2];
    for (int it = 0; it < 2; it++) CHECK(pthread_create(&threads[it], NULL, change_rounds, NULL) == 0);
    // Under valgrind each round takes a thousand times as long.
    time_t end = time(NULL) + 3;
    for (int round = 0; round < 300 && time(NULL) < end; round++) {
        OK(varvite_tree_fold(tree, NULL, 0, VARVITE_DEPTH_ALL, 0, VARVITE_SORTED, use_what_others_use, NULL, &error));
    }
    atomic_store(&done, 1);
    for (int it = 0; it < 2; it++) CHECK(pthread_join(threads[it], NULL) == 0);
    OK(varvite_tree_close(tree, &error));
    OK(varvite_tree_close(shared, &error));
}

int main(int count, char **arguments) {
    (void)count, (void)arguments;
    varvite_disk *disk;
    OK(varvite_disk_memory(1, &disk, &error));
    OK(varvite_session_create(disk, NULL, &session, &error));
    varvite_table_options options;
    OK(varvite_table_options_default(&options, &error));
    options.write_buffer_bytes = 4096;
    OK(varvite_session_create_table(session, "t", &options, &table, &error));
    pthread_t threads[READERS + 1];
    for (int it = 0; it < READERS; it++) CHECK(pthread_create(&threads[it], NULL, read_rounds, NULL) == 0);
    CHECK(pthread_create(&threads[READERS], NULL, write_rounds, NULL) == 0);
    for (int it = 0; it <= READERS; it++) CHECK(pthread_join(threads[it], NULL) == 0);
    OK(varvite_table_view(table, &view, &error));
    OK(varvite_table_cursor(table, NULL, NULL, &cursor, &error));
    CLOSES(use_cursor, varvite_cursor_close(cursor, &error));
    CLOSES(use_view, varvite_view_close(view, &error));
    CLOSES(use_table, varvite_table_close(table, &error));
    CLOSES(use_session, varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));

    OK(varvite_disk_memory(2, &disk, &error));
    OK(varvite_store_create(disk, NULL, &store, &error));
    CLOSES(commit, varvite_store_close(store, &error));
    OK(varvite_disk_close(disk, &error));
    callbacks();
    puts("threads: passed");
    return 0;
}
