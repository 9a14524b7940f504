// What GHC cannot call itself: callbacks that take structs by value, and functions on many answers at once.

#include <string.h>

#include "shims.h"

extern void hs_free_fun_ptr(void (*function)(void));

static int join(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    return ((hs_varvite_join)user)(older.data, older.length, newer.data, newer.length, output);
}

static void release(void *user) { hs_free_fun_ptr((void (*)(void))user); }

int hs_varvite_operator_new(const char *name, hs_varvite_join function, varvite_operator **made, varvite_error *error) {
    return varvite_operator_new(name, join, release, (void *)function, made, error);
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
