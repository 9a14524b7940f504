#ifndef VARVITE_SHIMS_H
#define VARVITE_SHIMS_H

#include <varvite.h>

// Callbacks of Haskell's, which GHC makes: they get no structs by value and no data of the program's.
typedef int (*hs_varvite_join)(
    const uint8_t *older, size_t older_length, const uint8_t *newer, size_t newer_length, varvite_output *output);
typedef int (*hs_varvite_visit)(const varvite_bytes *path, size_t steps, varvite_tree *subtree);
typedef int (*hs_varvite_change)(
    const varvite_bytes *path, size_t steps, const varvite_bytes *before, const varvite_bytes *after);
typedef int (*hs_varvite_work)(varvite_tree *tree);

// The operator owns the function.
int hs_varvite_operator_new(const char *name, hs_varvite_join function, varvite_operator **made, varvite_error *error);

int hs_varvite_tree_fold(varvite_tree *tree, const varvite_bytes *path, size_t steps, uint32_t depth_kind, size_t depth,
                         uint32_t order, hs_varvite_visit visit, varvite_error *error);
int hs_varvite_tree_diff(varvite_tree *tree, varvite_tree *after, hs_varvite_change each, varvite_error *error);
int hs_varvite_proof_make(
    varvite_tree *tree, int stream, hs_varvite_work function, varvite_proof **proof, varvite_error *error);
// `function` may be NULL.
int hs_varvite_proof_verify(varvite_proof *proof, const varvite_configuration *configuration, const varvite_kinded *root,
                            hs_varvite_work function, varvite_error *error);

// Without a function that is told how far it is.
int hs_varvite_store_export_commits(varvite_store *store, const varvite_hash *commits, size_t count, varvite_disk *disk,
                                    const char *path, uint32_t zstd_level, varvite_commit_file *file,
                                    varvite_error *error);
int hs_varvite_store_import_commit(
    varvite_store *store, varvite_disk *disk, const char *path, varvite_commit_file *file, varvite_error *error);
int hs_varvite_commit_file_verify(varvite_disk *disk, const char *path, varvite_commit_file *file, varvite_error *error);

// The length of all items together.
size_t hs_varvite_arena_bytes(const varvite_arena *arena);

// Copies the items, one after another, into a block that has room for them.
void hs_varvite_arena_copy(const varvite_arena *arena, uint8_t *block);

#endif
