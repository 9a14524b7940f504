#ifndef VARVITE_SHIMS_H
#define VARVITE_SHIMS_H

#include <varvite.h>

typedef int (*hs_varvite_join)(
    const uint8_t *older, size_t older_length, const uint8_t *newer, size_t newer_length, varvite_output *output);

// The operator owns the function, which must be one that GHC made.
int hs_varvite_operator_new(const char *name, hs_varvite_join function, varvite_operator **made, varvite_error *error);

// The length of all items together.
size_t hs_varvite_arena_bytes(const varvite_arena *arena);

// Copies the items, one after another, into a block that has room for them.
void hs_varvite_arena_copy(const varvite_arena *arena, uint8_t *block);

#endif
