// Threads: readers of views and of the table beside its writer, and handles that are closed while others use them.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { READERS = 4, ROUNDS = 60, KEYS = 64 };

static varvite_table *table;
static varvite_store *store;
static atomic_int done;
static atomic_int closed_seen;

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

// One of these closes the store; for the others it is an error from then on, and never worse.
static void *commit_and_close(void *number) {
    for (int it = 0; it < 10; it++) {
        varvite_error error = {0};
        varvite_tree *tree;
        int status = varvite_store_empty_tree(store, &tree, &error);
        if (status == VARVITE_OK) {
            char text[32];
            snprintf(text, sizeof text, "%d of %ld", it, (long)(intptr_t)number);
            varvite_bytes step = varvite_text("step"), value = varvite_text(text);
            OK(varvite_tree_add(tree, &step, 1, &value, &error));
            varvite_commit_info info = {NULL, 0, it, varvite_text("thread"), varvite_text(text)};
            varvite_hash hash;
            status = varvite_store_commit(store, tree, &info, &hash, &error);
            OK(varvite_tree_close(tree, &error));
        }
        CHECK(status == VARVITE_OK || status == VARVITE_CLOSED);
        if (status == VARVITE_CLOSED) atomic_fetch_add(&closed_seen, 1);
        if (number == NULL && it == 5) OK(varvite_store_close(store, &error));
    }
    return NULL;
}

int main(int count, char **arguments) {
    (void)count, (void)arguments;
    varvite_disk *disk;
    varvite_session *session;
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
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));

    OK(varvite_disk_memory(2, &disk, &error));
    OK(varvite_store_create(disk, NULL, &store, &error));
    for (intptr_t it = 0; it < READERS; it++) {
        CHECK(pthread_create(&threads[it], NULL, commit_and_close, (void *)it) == 0);
    }
    for (int it = 0; it < READERS; it++) CHECK(pthread_join(threads[it], NULL) == 0);
    CHECK(atomic_load(&closed_seen) >= 4);
    OK(varvite_disk_close(disk, &error));
    puts("threads: passed");
    return 0;
}
