// Replays the conformance files: the same answers, and the same bytes on disk.
#include "json.h"

#include <dirent.h>
#include <sys/stat.h>

enum { NAMES = 48 };

typedef struct {
    char name[NAMES][32];
    void *handle[NAMES];
    size_t count;
} named;

static char folder[4096];
static varvite_disk *disk;
static varvite_session *session;
static varvite_store *store;
static named tables, trees;
static varvite_arena found;
static size_t line_number;
// The file that is replayed, until the last of its lines has passed.
static const char *file_name;

// Whatever check it was that ended the program.
static void say_where(void) {
    if (file_name) fprintf(stderr, "line %zu of %s.jsonl\n", line_number, file_name);
}

static void *handle_of(named *all, const char *name) {
    for (size_t it = all->count; it-- > 0;) {
        if (strcmp(all->name[it], name) == 0) return all->handle[it];
    }
    fprintf(stderr, "line %zu names %s, which was not made\n", line_number, name);
    exit(1);
}

static void keep(named *all, const char *name, void *handle) {
    CHECK(all->count < NAMES && strlen(name) < 32);
    strcpy(all->name[all->count], name);
    all->handle[all->count++] = handle;
}

static varvite_table *table_of(json *line) {
    return handle_of(&tables, member(line, "table")->text);
}

static varvite_tree *tree_of(json *line) {
    return handle_of(&trees, member(line, "tree")->text);
}

// The answers are those of the line.
static void compare(json *expected) {
    size_t count;
    varvite_bytes *all = hex_array(expected, &count);
    if (count != found.count) {
        fprintf(stderr, "line %zu: %zu answers and not %zu\n", line_number, found.count, count);
        exit(1);
    }
    for (size_t it = 0; it < count; it++) {
        if (!all[it].data != !found.items[it].data || all[it].length != found.items[it].length ||
            (all[it].length && memcmp(all[it].data, found.items[it].data, all[it].length) != 0)) {
            fprintf(stderr, "line %zu: answer %zu differs\n", line_number, it);
            exit(1);
        }
    }
    free(all);
}

static varvite_hash hash_of(json *it) {
    varvite_bytes bytes = hex(it);
    varvite_hash hash;
    CHECK(bytes.length == sizeof hash.bytes);
    memcpy(hash.bytes, bytes.data, sizeof hash.bytes);
    return hash;
}

static uint32_t crc32_of(const char *path, uint64_t *length) {
    FILE *file = fopen(path, "rb");
    CHECK(file);
    uint32_t crc = ~(uint32_t)0;
    *length = 0;
    for (int byte; (byte = fgetc(file)) != EOF; ++*length) {
        crc ^= (uint32_t)byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1) * 0xedb88320u;
    }
    fclose(file);
    return ~crc;
}

static size_t count_files(const char *path) {
    size_t count = 0;
    DIR *entries = opendir(path);
    CHECK(entries);
    for (struct dirent *it; (it = readdir(entries));) {
        char below[8192];
        struct stat about;
        if (it->d_name[0] == '.') continue;
        CHECK((size_t)snprintf(below, sizeof below, "%s/%s", path, it->d_name) < sizeof below);
        CHECK(stat(below, &about) == 0);
        count += S_ISDIR(about.st_mode) ? count_files(below) : strcmp(it->d_name, "lock") != 0;
    }
    closedir(entries);
    return count;
}

static void compare_files(json *files) {
    CHECK(files->kind == J_ARRAY && count_files(folder) == files->count);
    for (json *it = files->first; it; it = it->next) {
        char path[8192];
        uint64_t length;
        json *expected = it->first->next;
        CHECK((size_t)snprintf(path, sizeof path, "%s/%s", folder, it->first->text) < sizeof path);
        uint32_t crc = crc32_of(path, &length);
        if (length != expected->number || crc != expected->next->number) {
            fprintf(stderr, "line %zu: %s has %llu bytes with the checksum %u\n", line_number, path,
                    (unsigned long long)length, crc);
            exit(1);
        }
    }
}

static json *optional_member(json *of, const char *name) {
    json *it = of->first;
    while (it && strcmp(it->name, name) != 0) it = it->next;
    return it;
}

static int same_bytes(varvite_bytes one, varvite_bytes other) {
    return one.length == other.length && (!one.length || memcmp(one.data, other.data, one.length) == 0);
}

static varvite_operation *batch_of(json *all, size_t *count) {
    varvite_operation *batch = calloc(all->count + 1, sizeof *batch);
    CHECK(batch);
    *count = 0;
    for (json *it = all->first; it; it = it->next) {
        const char *kind = it->first->text;
        varvite_operation *one = &batch[(*count)++];
        const char *kinds[] = {"insert", "delete", "upsert", "", "delete_range", "delete_prefix"};
        while (strcmp(kinds[one->kind], kind) != 0) CHECK(++one->kind <= VARVITE_DELETE_PREFIX);
        one->key = hex(it->first->next);
        if (it->first->next->next) one->value = hex(it->first->next->next);
    }
    return batch;
}

static void update(json *line) {
    size_t count;
    varvite_operation *batch = batch_of(member(line, "operations"), &count);
    OK(varvite_table_apply(table_of(line), batch, count, &error));
    free(batch);
}

static varvite_tables *shared;

static void share(json *line) {
    varvite_table *all[4];
    size_t count = 0;
    for (json *it = member(line, "tables")->first; it; it = it->next) {
        all[count++] = handle_of(&tables, it->text);
        CHECK(count < 4);
    }
    OK(varvite_session_share(session, all, count, &shared, &error));
    // Their own handles are closed by that.
    size_t left = 0;
    for (size_t at = 0; at < tables.count; at++) {
        int is_shared = 0;
        for (size_t it = 0; it < count; it++) is_shared |= tables.handle[at] == all[it];
        if (is_shared) continue;
        memmove(tables.name[left], tables.name[at], sizeof tables.name[at]);
        tables.handle[left++] = tables.handle[at];
    }
    tables.count = left;
}

static void transaction(json *line) {
    varvite_transaction *block;
    OK(varvite_tables_begin(shared, &block, &error));
    for (json *it = member(line, "steps")->first; it; it = it->next) {
        const char *name = it->first->next->text;
        json *given = it->first->next->next;
        size_t count;
        if (strcmp(it->first->text, "update") == 0) {
            varvite_operation *batch = batch_of(given, &count);
            OK(varvite_transaction_apply(block, name, batch, count, &error));
            free(batch);
        } else {
            varvite_bytes *keys = hex_array(given, &count);
            OK(varvite_transaction_lookup(block, name, keys, count, &found, &error));
            compare(given->next);
            free(keys);
        }
    }
    if (strcmp(member(line, "ends")->text, "commit") == 0) OK(varvite_transaction_commit(block, &error));
    else OK(varvite_transaction_close(block, &error));
}

static void cursor(json *line) {
    varvite_cursor *at;
    varvite_bytes entry[2], sought = hex(member(line, "key"));
    json *due = member(line, "found")->first;
    OK(varvite_table_cursor(table_of(line), NULL, NULL, &at, &error));
    OK(varvite_cursor_seek(at, &sought, &error));
    for (const char *step = member(line, "steps")->text; *step; step++) {
        if (*step == 'n') OK(varvite_cursor_next(at, &entry[0], &entry[1], &error));
        else OK(varvite_cursor_previous(at, &entry[0], &entry[1], &error));
        for (int side = 0; side < 2; side++, due = due->next) {
            CHECK(due);
            varvite_bytes expected = hex(due);
            CHECK(!expected.data == !entry[0].data);
            if (expected.data) CHECK(same_bytes(expected, entry[side]));
        }
    }
    CHECK(!due);
    OK(varvite_cursor_close(at, &error));
}

static int kind_of(json *line) {
    const char *name = member(line, "kind")->text;
    if (strcmp(name, "missing") == 0) return VARVITE_MISSING;
    if (strcmp(name, "exists") == 0) return VARVITE_EXISTS;
    if (strcmp(name, "locked") == 0) return VARVITE_LOCKED;
    CHECK(strcmp(name, "invalid") == 0);
    return VARVITE_INVALID;
}

// A call that is refused, with the kind that the line says.
static void refused_by_session(json *line) {
    json *call = member(line, "call");
    const char *what = member(call, "do")->text;
    int kind = kind_of(line);
    varvite_table *table;
    if (strcmp(what, "create_table") == 0) {
        varvite_table_options options;
        OK(varvite_table_options_default(&options, &error));
        FAILS(kind, varvite_session_create_table(session, member(call, "table")->text, &options, &table, &error));
    } else if (strcmp(what, "open_table") == 0) {
        FAILS(kind, varvite_session_open_table(session, member(call, "table")->text, NULL, &table, &error));
    } else if (strcmp(what, "save_snapshot") == 0) {
        varvite_table *saved = handle_of(&tables, member(call, "tables")->first->text);
        varvite_snapshot_content content = {member(call, "label")->text, hex(member(call, "payload")), &saved, 1};
        FAILS(kind, varvite_session_save_snapshot(session, member(call, "snapshot")->text, &content, &error));
    } else {
        varvite_snapshot *snapshot;
        CHECK(strcmp(what, "open_snapshot") == 0);
        FAILS(kind, varvite_session_open_snapshot(session, member(call, "snapshot")->text, NULL, &snapshot, &error));
    }
}

static int reopened_line(const char *what, json *line) {
    if (strcmp(what, "open_table") == 0) {
        varvite_table *table;
        OK(varvite_session_open_table(session, member(line, "table")->text, NULL, &table, &error));
        keep(&tables, member(line, "table")->text, table);
    } else if (strcmp(what, "live_tables") == 0) {
        OK(varvite_session_live_tables(session, &found, &error));
        compare(member(line, "found"));
    } else if (strcmp(what, "cursor") == 0) {
        cursor(line);
    } else if (strcmp(what, "refused") == 0) {
        refused_by_session(line);
    } else {
        return 0;
    }
    return 1;
}

static int table_line(const char *what, json *line) {
    if (strcmp(what, "create_session") == 0 || strcmp(what, "open_session") == 0) {
        varvite_session_options options;
        OK(varvite_session_options_default(&options, &error));
        options.seed = member(line, "seed")->number;
        json *log = optional_member(line, "log");
        if (log) options.log = strcmp(log->text, "synced") == 0 ? VARVITE_LOG_SYNCED : VARVITE_LOG_WRITTEN;
        if (what[0] == 'c') OK(varvite_session_create(disk, &options, &session, &error));
        else OK(varvite_session_open(disk, &options, &session, &error));
    } else if (strcmp(what, "create_table") == 0) {
        varvite_table_options options;
        varvite_table *table;
        OK(varvite_table_options_default(&options, &error));
        options.write_buffer_bytes = member(line, "write_buffer_bytes")->number;
        options.size_ratio = (uint32_t)member(line, "size_ratio")->number;
        options.blob_min_bytes = (uint32_t)member(line, "blob_min_bytes")->number;
        OK(varvite_operator_built_in(member(line, "operator")->text, &options.merge_operator, &error));
        OK(varvite_session_create_table(session, member(line, "table")->text, &options, &table, &error));
        OK(varvite_operator_close(options.merge_operator, &error));
        keep(&tables, member(line, "table")->text, table);
    } else if (strcmp(what, "update") == 0) {
        update(line);
    } else if (strcmp(what, "lookup") == 0) {
        size_t count;
        varvite_bytes *keys = hex_array(member(line, "keys"), &count);
        OK(varvite_table_lookup(table_of(line), keys, count, &found, &error));
        compare(member(line, "found"));
        free(keys);
    } else if (strcmp(what, "range") == 0) {
        varvite_bound lower = {VARVITE_INCLUDED, hex(member(line, "from"))};
        varvite_bound upper = {VARVITE_EXCLUDED, hex(member(line, "before"))};
        OK(varvite_table_range(table_of(line), lower.key.data ? &lower : NULL, upper.key.data ? &upper : NULL, &found,
                               &error));
        compare(member(line, "found"));
    } else if (strcmp(what, "delete_range") == 0) {
        varvite_bound lower = {VARVITE_INCLUDED, hex(member(line, "from"))};
        varvite_bound upper = {VARVITE_EXCLUDED, hex(member(line, "before"))};
        OK(varvite_table_delete_range(table_of(line), &lower, &upper, &error));
    } else if (strcmp(what, "prefix") == 0 || strcmp(what, "keys_back") == 0) {
        int is_back = what[0] == 'k';
        varvite_bytes prefix = hex(member(line, "prefix"));
        varvite_iterator *iterator;
        OK(varvite_table_iterate_prefix(table_of(line), &prefix, is_back, &iterator, &error));
        if (is_back) OK(varvite_iterator_next_back(iterator, SIZE_MAX, &found, &error));
        else OK(varvite_iterator_next(iterator, SIZE_MAX, &found, &error));
        OK(varvite_iterator_close(iterator, &error));
        compare(member(line, "found"));
    } else if (strcmp(what, "union") == 0) {
        varvite_table *of[2], *made;
        json *names = member(line, "of");
        of[0] = handle_of(&tables, names->first->text);
        of[1] = handle_of(&tables, names->first->next->text);
        OK(varvite_session_union(session, member(line, "table")->text, of, 2, &made, &error));
        keep(&tables, member(line, "table")->text, made);
    } else if (strcmp(what, "save_snapshot") == 0) {
        varvite_table *table = handle_of(&tables, member(line, "tables")->first->text);
        varvite_snapshot_content content = {member(line, "label")->text, hex(member(line, "payload")), &table, 1};
        OK(varvite_session_save_snapshot(session, member(line, "snapshot")->text, &content, &error));
    } else if (strcmp(what, "open_snapshot") == 0) {
        varvite_snapshot *snapshot;
        varvite_table *table;
        OK(varvite_session_open_snapshot(session, member(line, "snapshot")->text, NULL, &snapshot, &error));
        OK(varvite_snapshot_take(snapshot, member(line, "take")->text, &table, &error));
        OK(varvite_snapshot_close(snapshot, &error));
        keep(&tables, member(line, "take")->text, table);
    } else if (strcmp(what, "share") == 0) {
        share(line);
    } else if (strcmp(what, "transaction") == 0) {
        transaction(line);
    } else if (strcmp(what, "shared_lookup") == 0) {
        size_t count;
        varvite_bytes *keys = hex_array(member(line, "keys"), &count);
        OK(varvite_tables_lookup(shared, member(line, "table")->text, keys, count, &found, &error));
        compare(member(line, "found"));
        free(keys);
    } else if (strcmp(what, "save_shared") == 0) {
        varvite_bytes payload = hex(member(line, "payload"));
        OK(varvite_tables_save_snapshot(shared, member(line, "snapshot")->text, member(line, "label")->text, &payload,
                                        &error));
    } else if (strcmp(what, "close_session") == 0) {
        if (shared) OK(varvite_tables_close(shared, &error));
        shared = NULL;
        while (tables.count) OK(varvite_table_close(tables.handle[--tables.count], &error));
        OK(varvite_session_close(session, &error));
        compare_files(member(line, "files"));
    } else {
        return reopened_line(what, line);
    }
    return 1;
}

typedef struct {
    varvite_path paths[8];
    size_t count;
} finds;

static int find_all(void *user, varvite_tree *tree) {
    finds *it = user;
    varvite_arena values = {0};
    OK(varvite_tree_find_many(tree, it->paths, it->count, &values, &error));
    OK(varvite_arena_free(&values, &error));
    return 0;
}

/* Of the store's trees. */
static varvite_configuration configuration;

static void prove(json *line) {
    finds looked = {.count = 0};
    for (json *it = member(line, "paths")->first; it; it = it->next) {
        CHECK(looked.count < 8);
        varvite_path *path = &looked.paths[looked.count++];
        path->steps = hex_array(it, &path->count);
    }
    const char *names[] = {"v1", "v2", "irmin", "json"};
    uint32_t encoding = 0;
    while (strcmp(names[encoding], member(line, "encoding")->text) != 0) CHECK(++encoding < 4);
    int stream = (int)member(line, "stream")->number;
    varvite_tree *tree = tree_of(line);
    varvite_proof *proof;
    OK(varvite_proof_make(tree, stream, find_all, &looked, &proof, &error));
    OK(varvite_proof_encode(proof, encoding, &found, &error));
    varvite_bytes expected = hex(member(line, "proof"));
    CHECK(found.items[0].length == expected.length && memcmp(found.items[0].data, expected.data, expected.length) == 0);
    OK(varvite_proof_close(proof, &error));
    varvite_kinded root = {VARVITE_DIRECTORY, {{0}}};
    OK(varvite_tree_hash(tree, &root.hash, &error));
    OK(varvite_proof_decode(&expected, encoding, &configuration, &proof, &error));
    OK(varvite_proof_verify(proof, &configuration, &root, find_all, &looked, &error));
    OK(varvite_proof_close(proof, &error));
    while (looked.count) free((void *)looked.paths[--looked.count].steps);
}

static void commit(json *line) {
    varvite_hash parents[4], hash, expected;
    varvite_commit_info info = {parents, 0, (int64_t)member(line, "date")->number, hex(member(line, "author")),
                                hex(member(line, "message"))};
    for (json *it = member(line, "parents")->first; it; it = it->next) parents[info.parent_count++] = hash_of(it);
    OK(varvite_store_commit(store, tree_of(line), &info, &hash, &error));
    expected = hash_of(member(line, "hash"));
    CHECK(memcmp(&hash, &expected, sizeof hash) == 0);
}

static int keeping_line(const char *what, json *line) {
    varvite_hash hash = {{0}};
    int answer;
    for (json *it = line->first; it; it = it->next) {
        if (strcmp(it->name, "commit") == 0) hash = hash_of(it);
    }
    if (strcmp(what, "pin") == 0) {
        OK(varvite_store_pin(store, &hash, &error));
    } else if (strcmp(what, "unpin") == 0) {
        OK(varvite_store_unpin(store, &hash, &answer, &error));
        CHECK(answer == (int)member(line, "was")->number);
    } else if (strcmp(what, "pin_every") == 0) {
        uint64_t added;
        OK(varvite_store_pin_every(store, member(line, "nth")->number, &added, &error));
        CHECK(added == member(line, "added")->number);
    } else if (strcmp(what, "pins") == 0) {
        OK(varvite_store_pins(store, &found, &error));
        compare(member(line, "found"));
    } else if (strcmp(what, "collect") == 0) {
        OK(varvite_store_collect(store, &hash, &error));
    } else if (strcmp(what, "collect_keep") == 0) {
        OK(varvite_store_collect_keeping_newest(store, member(line, "newest")->number, &answer, &error));
        CHECK(answer == (int)member(line, "began")->number);
    } else if (strcmp(what, "collect_to_the_end") == 0) {
        do OK(varvite_store_collect_step(store, member(line, "credits")->number, &answer, &error));
        while (answer);
    } else if (strcmp(what, "is_collected") == 0) {
        varvite_tree *tree;
        FAILS(VARVITE_COLLECTED, varvite_store_checkout(store, &hash, &tree, &error));
    } else {
        return 0;
    }
    return 1;
}

// What a fold or a difference gives, line by line of the answer that is due.
typedef struct {
    json *due;
} walk;

static void same_path(json *due, const varvite_bytes *path, size_t steps) {
    for (size_t it = 0; it < steps; it++, due = due->next) CHECK(due && same_bytes(hex(due), path[it]));
    CHECK(!due);
}

static int visit(void *user, const varvite_bytes *path, size_t steps, varvite_tree *subtree) {
    walk *it = user;
    uint32_t kind;
    CHECK(it->due);
    OK(varvite_tree_kind(subtree, &kind, &error));
    CHECK((kind == VARVITE_VALUE) == (strcmp(it->due->first->text, "value") == 0));
    same_path(it->due->first->next, path, steps);
    it->due = it->due->next;
    return 0;
}

static int change(void *user, const varvite_bytes *path, size_t steps, varvite_bytes before, varvite_bytes after) {
    walk *it = user;
    CHECK(it->due);
    json *old = it->due->first, *new = old->next;
    varvite_bytes sides[2] = {hex(old), hex(new)};
    CHECK(!sides[0].data == !before.data && same_bytes(sides[0], before));
    CHECK(!sides[1].data == !after.data && same_bytes(sides[1], after));
    same_path(new->next, path, steps);
    it->due = it->due->next;
    return 0;
}

static void compare_list(json *it) {
    for (size_t at = 0; at < found.count; at += 2, it = it->next->next) {
        CHECK(it && it->next);
        CHECK(same_bytes(hex(it), found.items[at]));
        CHECK((found.items[at + 1].data[0] == VARVITE_VALUE) == (strcmp(it->next->text, "value") == 0));
    }
    CHECK(!it);
}

static void refused_by_store(json *line) {
    json *call = member(line, "call");
    const char *what = member(call, "do")->text;
    int kind = kind_of(line);
    varvite_hash hash = hash_of(member(call, "commit"));
    if (strcmp(what, "checkout") == 0) {
        varvite_tree *tree;
        FAILS(kind, varvite_store_checkout(store, &hash, &tree, &error));
    } else if (strcmp(what, "set_branch") == 0) {
        varvite_bytes name = hex(member(call, "branch"));
        FAILS(kind, varvite_store_set_branch(store, &name, &hash, &error));
    } else if (strcmp(what, "pin") == 0) {
        FAILS(kind, varvite_store_pin(store, &hash, &error));
    } else {
        CHECK(strcmp(what, "collect") == 0);
        FAILS(kind, varvite_store_collect(store, &hash, &error));
    }
}

static int walked_line(const char *what, json *line, const varvite_bytes *path, size_t steps) {
    walk all;
    if (strcmp(what, "open_store") == 0) {
        varvite_store_options options;
        OK(varvite_store_options_default(&options, &error));
        options.seed = member(line, "seed")->number;
        OK(varvite_store_open(disk, &options, &store, &error));
    } else if (strcmp(what, "branch") == 0) {
        varvite_bytes name = hex(member(line, "branch")), expected = hex(member(line, "found"));
        varvite_hash hash;
        int is_there;
        OK(varvite_store_branch(store, &name, &hash, &is_there, &error));
        CHECK(is_there == (expected.data != NULL));
        if (is_there) CHECK(memcmp(hash.bytes, expected.data, sizeof hash.bytes) == 0);
    } else if (strcmp(what, "fold") == 0) {
        all.due = member(line, "found")->first;
        OK(varvite_tree_fold(tree_of(line), path, steps, VARVITE_DEPTH_ALL, 0, VARVITE_SORTED, visit, &all, &error));
        CHECK(!all.due);
    } else if (strcmp(what, "diff") == 0) {
        all.due = member(line, "found")->first;
        OK(varvite_tree_diff(tree_of(line), handle_of(&trees, member(line, "after")->text), change, &all, &error));
        CHECK(!all.due);
    } else if (strcmp(what, "page") == 0) {
        uint64_t length;
        OK(varvite_tree_list(tree_of(line), NULL, 0, member(line, "offset")->number, member(line, "length")->number,
                             &found, &error));
        compare_list(member(line, "found")->first);
        OK(varvite_tree_length(tree_of(line), NULL, 0, &length, &error));
        CHECK(length == member(line, "count")->number);
    } else if (strcmp(what, "refused") == 0) {
        refused_by_store(line);
    } else {
        return 0;
    }
    return 1;
}

static int context_line(const char *what, json *line) {
    size_t steps = 0;
    varvite_bytes *path = NULL;
    for (json *it = line->first; it; it = it->next) {
        if (strcmp(it->name, "path") == 0) path = hex_array(it, &steps);
    }
    int is_known = 1;
    varvite_tree *tree;
    if (strcmp(what, "create_store") == 0) {
        varvite_store_options options;
        OK(varvite_store_options_default(&options, &error));
        options.seed = member(line, "seed")->number;
        for (json *it = line->first; it; it = it->next) {
            if (strcmp(it->name, "chunk_bytes") == 0) options.chunk_bytes = it->number;
            if (strcmp(it->name, "configuration") != 0) continue;
            CHECK(strcmp(it->text, "tezos-binary") == 0);
            options.configuration = (varvite_configuration){2, 2, 1};
        }
        configuration = options.configuration;
        OK(varvite_store_create(disk, &options, &store, &error));
    } else if (strcmp(what, "empty_tree") == 0) {
        OK(varvite_store_empty_tree(store, &tree, &error));
        keep(&trees, member(line, "tree")->text, tree);
    } else if (strcmp(what, "checkout") == 0) {
        varvite_hash hash = hash_of(member(line, "commit"));
        OK(varvite_store_checkout(store, &hash, &tree, &error));
        keep(&trees, member(line, "tree")->text, tree);
    } else if (strcmp(what, "add") == 0) {
        varvite_bytes value = hex(member(line, "value"));
        OK(varvite_tree_add(tree_of(line), path, steps, &value, &error));
    } else if (strcmp(what, "remove") == 0) {
        OK(varvite_tree_remove(tree_of(line), path, steps, &error));
    } else if (strcmp(what, "find") == 0) {
        OK(varvite_tree_find(tree_of(line), path, steps, &found, &error));
        varvite_bytes expected = hex(member(line, "found"));
        CHECK(!expected.data == !found.items[0].data && expected.length == found.items[0].length);
        CHECK(!expected.length || memcmp(expected.data, found.items[0].data, expected.length) == 0);
    } else if (strcmp(what, "list") == 0) {
        OK(varvite_tree_list(tree_of(line), path, steps, 0, UINT64_MAX, &found, &error));
        compare_list(member(line, "found")->first);
    } else if (strcmp(what, "hash") == 0) {
        varvite_hash hash, expected = hash_of(member(line, "hash"));
        OK(varvite_tree_hash(tree_of(line), &hash, &error));
        CHECK(memcmp(&hash, &expected, sizeof hash) == 0);
    } else if (strcmp(what, "commit") == 0) {
        commit(line);
    } else if (strcmp(what, "set_branch") == 0) {
        varvite_bytes name = hex(member(line, "branch"));
        varvite_hash hash = hash_of(member(line, "commit"));
        OK(varvite_store_set_branch(store, &name, &hash, &error));
    } else if (strcmp(what, "prove_finds") == 0) {
        prove(line);
    } else if (strcmp(what, "close_store") == 0) {
        while (trees.count) OK(varvite_tree_close(trees.handle[--trees.count], &error));
        OK(varvite_store_close(store, &error));
        compare_files(member(line, "files"));
    } else {
        is_known = keeping_line(what, line) || walked_line(what, line, path, steps);
    }
    free(path);
    return is_known;
}

static void replay(const char *path, int (*do_line)(const char *, json *)) {
    FILE *file = fopen(path, "r");
    CHECK(file);
    char *text = NULL;
    size_t room = 0;
    for (line_number = 1; getline(&text, &room, file) > 0; line_number++) {
        char *at = text;
        json *line = json_read(&at);
        const char *what = member(line, "do")->text;
        if (!do_line(what, line)) {
            fprintf(stderr, "%s: line %zu: nobody knows how to do %s\n", path, line_number, what);
            exit(1);
        }
        json_free(line);
    }
    CHECK(line_number > 20);
    printf("%s: %zu lines passed\n", path, line_number - 1);
    free(text);
    fclose(file);
}

int main(int count, char **arguments) {
    CHECK(count == 3 || count == 4);
    CHECK(atexit(say_where) == 0);
    const char *names[] = {"table", "context", "collect", "binary", "logged", "walked"};
    int (*lines[])(const char *, json *) = {table_line,   context_line, context_line,
                                            context_line, table_line,   context_line};
    for (int it = 0; it < 6; it++) {
        char path[4096];
        if (count == 4 && strcmp(names[it], arguments[3]) != 0) continue;
        file_name = names[it];
        snprintf(folder, sizeof folder, "%s/conformance-%s", arguments[1], names[it]);
        OK(varvite_disk_folder(folder, 1, &disk, &error));
        snprintf(path, sizeof path, "%s/%s.jsonl", arguments[2], names[it]);
        replay(path, lines[it]);
        file_name = NULL;
        OK(varvite_disk_close(disk, &error));
    }
    OK(varvite_arena_free(&found, &error));
    return 0;
}
