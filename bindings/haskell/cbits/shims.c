// What GHC cannot call itself: callbacks that take structs by value, and one call for the bytes of many answers.

#include "shims.h"

#include <string.h>

extern void hs_free_fun_ptr(void (*function)(void));

static int join(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    return ((hs_varvite_join)user)(older.data, older.length, newer.data, newer.length, output);
}

static int visit_of(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    return ((hs_varvite_visit)user)(path, steps, subtree);
}

static int change(void *user, const varvite_bytes *path, size_t steps, varvite_bytes before, varvite_bytes after) {
    return ((hs_varvite_change)user)(path, steps, &before, &after);
}

static int work(void *user, varvite_tree *tree) { return ((hs_varvite_work)user)(tree); }

static void release(void *user) { hs_free_fun_ptr((void (*)(void))user); }

int hs_varvite_operator_new(const char *name, hs_varvite_join function, varvite_operator **made, varvite_error *error) {
    return varvite_operator_new(name, join, release, (void *)function, made, error);
}

int hs_varvite_tree_fold(varvite_tree *tree, const varvite_bytes *path, size_t steps, uint32_t depth_kind, size_t depth,
                         uint32_t order, hs_varvite_visit visit, varvite_error *error) {
    return varvite_tree_fold(tree, path, steps, depth_kind, depth, order, visit_of, (void *)visit, error);
}

int hs_varvite_tree_diff(varvite_tree *tree, varvite_tree *after, hs_varvite_change each, varvite_error *error) {
    return varvite_tree_diff(tree, after, change, (void *)each, error);
}

int hs_varvite_proof_make(
    varvite_tree *tree, int stream, hs_varvite_work function, varvite_proof **proof, varvite_error *error) {
    return varvite_proof_make(tree, stream, work, (void *)function, proof, error);
}

int hs_varvite_proof_verify(varvite_proof *proof, const varvite_configuration *configuration, const varvite_kinded *root,
                            hs_varvite_work function, varvite_error *error) {
    return varvite_proof_verify(proof, configuration, root, function ? work : NULL, (void *)function, error);
}

int hs_varvite_store_export_commits(varvite_store *store, const varvite_hash *commits, size_t count, varvite_disk *disk,
                                    const char *path, uint32_t zstd_level, varvite_commit_file *file,
                                    varvite_error *error) {
    return varvite_store_export_commits(store, commits, count, disk, path, zstd_level, NULL, NULL, file, error);
}

int hs_varvite_store_import_commit(
    varvite_store *store, varvite_disk *disk, const char *path, varvite_commit_file *file, varvite_error *error) {
    return varvite_store_import_commit(store, disk, path, NULL, NULL, file, error);
}

int hs_varvite_commit_file_verify(varvite_disk *disk, const char *path, varvite_commit_file *file, varvite_error *error) {
    return varvite_commit_file_verify(disk, path, NULL, NULL, file, error);
}

size_t hs_varvite_arena_bytes(const varvite_arena *arena) {
    size_t total = 0;
    for (size_t at = 0; at < arena->count; at++) total += arena->items[at].length;
    return total;
}

void hs_varvite_arena_copy(const varvite_arena *arena, uint8_t *block) {
    for (size_t at = 0; at < arena->count; at++) {
        const varvite_bytes *item = &arena->items[at];
        if (item->length) memcpy(block, item->data, item->length);
        block += item->length;
    }
}
