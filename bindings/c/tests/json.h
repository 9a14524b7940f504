// As much JSON as the conformance files have: objects, arrays, texts without escapes, whole numbers, true, false, null.
#ifndef JSON_H
#define JSON_H

#include "check.h"

typedef struct json {
    enum { J_NULL, J_BOOL, J_NUMBER, J_TEXT, J_ARRAY, J_OBJECT } kind;
    uint64_t number;
    char *text;         // of a text, without its quotes
    const char *name;   // of a member of an object
    struct json *first; // of an array or object
    struct json *next;  // beside this one
    size_t count;       // of an array
} json;

static inline void json_blank(char **at) {
    while (**at == ' ' || **at == '\n') ++*at;
}

static inline char *json_text(char **at) {
    CHECK(**at == '"');
    char *start = ++*at;
    while (**at != '"') {
        CHECK(**at && **at != '\\');
        ++*at;
    }
    *(*at)++ = 0;
    return start;
}

static inline json *json_read(char **at) {
    json *it = calloc(1, sizeof *it);
    CHECK(it);
    json_blank(at);
    if (**at == '"') {
        it->kind = J_TEXT;
        it->text = json_text(at);
    } else if (**at == '[' || **at == '{') {
        it->kind = **at == '[' ? J_ARRAY : J_OBJECT;
        char close = **at == '[' ? ']' : '}';
        json **last = &it->first;
        ++*at;
        json_blank(at);
        while (**at != close) {
            char *name = NULL;
            if (it->kind == J_OBJECT) {
                name = json_text(at);
                CHECK(**at == ':');
                ++*at;
            }
            *last = json_read(at);
            (*last)->name = name;
            last = &(*last)->next;
            ++it->count;
            json_blank(at);
            if (**at == ',') {
                ++*at;
                json_blank(at);
            } else {
                CHECK(**at == close);
            }
        }
        ++*at;
    } else if (strncmp(*at, "null", 4) == 0) {
        *at += 4;
    } else if (strncmp(*at, "true", 4) == 0) {
        it->kind = J_BOOL, it->number = 1, *at += 4;
    } else if (strncmp(*at, "false", 5) == 0) {
        it->kind = J_BOOL, *at += 5;
    } else {
        CHECK(**at >= '0' && **at <= '9');
        it->kind = J_NUMBER;
        while (**at >= '0' && **at <= '9') it->number = it->number * 10 + (uint64_t)(*(*at)++ - '0');
    }
    return it;
}

static inline void json_free(json *it) {
    while (it) {
        json *next = it->next;
        json_free(it->first);
        free(it);
        it = next;
    }
}

static inline json *member(json *of, const char *name) {
    for (json *it = of->first; it; it = it->next) {
        if (it->name && strcmp(it->name, name) == 0) return it;
    }
    fprintf(stderr, "a line has no member called %s\n", name);
    exit(1);
}

// The bytes that hexadecimal digits say, in place of them; NULL for null.
static inline varvite_bytes hex(json *it) {
    varvite_bytes bytes = {NULL, 0};
    if (it->kind == J_NULL) return bytes;
    CHECK(it->kind == J_TEXT);
    size_t length = strlen(it->text) / 2;
    uint8_t *to = (uint8_t *)it->text;
    for (size_t at = 0; at < length; at++) {
        unsigned value;
        CHECK(sscanf(it->text + 2 * at, "%2x", &value) == 1);
        to[at] = (uint8_t)value;
    }
    bytes.data = to, bytes.length = length;
    return bytes;
}

static inline varvite_bytes *hex_array(json *array, size_t *count) {
    CHECK(array->kind == J_ARRAY);
    varvite_bytes *all = calloc(array->count + 1, sizeof *all);
    CHECK(all);
    *count = 0;
    for (json *it = array->first; it; it = it->next) all[(*count)++] = hex(it);
    return all;
}

#endif
