// What the test programs share: a call that must succeed, a call that must fail as said, and texts as bytes.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <varvite.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                   \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

// `FAILS(kind, f(…, &error))`: the status, the error's kind and a sentence with a next step.
#define FAILS(expected, call)                                                                         \
    do {                                                                                              \
        varvite_error error = {0};                                                                    \
        int status = (call);                                                                          \
        if (status != (expected) || error.kind != status || (status != 0 && !error.sentence[0])) {    \
            fprintf(stderr, "%s:%d: %s gave %s and not %s: %s\n", __FILE__, __LINE__, #call,          \
                    varvite_status_name(status), varvite_status_name(expected), error.sentence);      \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

#define OK(call) FAILS(VARVITE_OK, call)

static inline int same(varvite_bytes bytes, const char *text) {
    if (!bytes.data) return text == NULL;
    return text && bytes.length == strlen(text) && memcmp(bytes.data, text, bytes.length) == 0;
}

static inline varvite_operation insert_of(const char *key, const char *value) {
    varvite_operation it = {VARVITE_INSERT, varvite_text(key), varvite_text(value), NULL};
    return it;
}

static inline varvite_operation delete_of(const char *key) {
    varvite_operation it = {VARVITE_DELETE, varvite_text(key), {NULL, 0}, NULL};
    return it;
}

static inline varvite_operation upsert_of(const char *key, const char *value) {
    varvite_operation it = {VARVITE_UPSERT, varvite_text(key), varvite_text(value), NULL};
    return it;
}

// A folder of this program's own below the one that the test gives as its argument.
static inline void folder_of(char *folder, size_t room, int count, char **arguments, const char *name) {
    CHECK(count == 2);
    CHECK((size_t)snprintf(folder, room, "%s/%s", arguments[1], name) < room);
}

#endif
