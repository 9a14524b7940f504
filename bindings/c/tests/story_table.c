// The table face in one story: a session, batches, views, cursors, snapshots, the log, large values, unions.
#include "check.h"

static int joins;
static int released;

// "a" and "b" to "a+b", so that the order shows.
static int join(void *user, varvite_bytes older, varvite_bytes newer, varvite_output *output) {
    ++*(int *)user;
    CHECK(varvite_output_write(output, older.data, older.length) == VARVITE_OK);
    CHECK(varvite_output_write(output, (const uint8_t *)"+", 1) == VARVITE_OK);
    return varvite_output_write(output, newer.data, newer.length);
}

static void release(void *user) {
    (void)user;
    ++released;
}

typedef struct {
    uint64_t clock;
    uint64_t updates;
    uint64_t keys;
} watched;

static uint64_t now_ns(void *user) {
    return ++((watched *)user)->clock;
}

static void record(void *user, uint32_t operation, uint64_t duration_ns, uint64_t count) {
    watched *it = user;
    CHECK(duration_ns > 0);
    if (operation == VARVITE_OPERATION_UPDATE) it->updates += count;
    if (operation == VARVITE_OPERATION_LOOKUP || operation == VARVITE_OPERATION_GET) it->keys += count;
}

// Work of merges, which the program does when it likes; here half of it is given back undone.
static varvite_work *works[4096];
static size_t work_count;

static void execute(void *user, varvite_work *work) {
    (void)user;
    CHECK(work_count < 4096);
    works[work_count++] = work;
}

static void do_works(void) {
    while (work_count) {
        varvite_work *work = works[--work_count];
        if (work_count % 2) OK(varvite_work_run(work, &error));
        else OK(varvite_work_close(work, &error));
    }
}

static void batches_and_snapshots(varvite_session *session) {
    varvite_table_options options;
    OK(varvite_table_options_utxo(&options, &error));
    varvite_table *utxo;
    OK(varvite_session_create_table(session, "utxo", &options, &utxo, &error));
    varvite_operation block[] = {insert_of("tx1#0", "5 ada"), insert_of("tx1#1", "2 ada"), insert_of("void", ""),
                                 delete_of("tx0#7")};
    OK(varvite_table_apply(utxo, block, 4, &error));

    varvite_view *before;
    OK(varvite_table_view(utxo, &before, &error));
    varvite_operation spend = delete_of("tx1#0");
    OK(varvite_table_apply(utxo, &spend, 1, &error));

    varvite_bytes keys[] = {varvite_text("tx1#0"), varvite_text("tx1#1"), varvite_text("void"), varvite_text("?")};
    varvite_arena found = {0};
    OK(varvite_table_lookup(utxo, keys, 4, &found, &error));
    CHECK(found.count == 4 && same(found.items[0], NULL) && same(found.items[1], "2 ada"));
    CHECK(same(found.items[2], "") && same(found.items[3], NULL));
    OK(varvite_view_lookup(before, keys, 4, &found, &error));
    CHECK(same(found.items[0], "5 ada") && same(found.items[1], "2 ada"));
    OK(varvite_table_get(utxo, &keys[1], &found, &error));
    CHECK(found.count == 1 && same(found.items[0], "2 ada"));
    uint8_t buffer[5];
    for (int of_view = 0; of_view < 2; of_view++) {
        for (size_t key = 0; key < 4; key++) {
            for (size_t capacity = 0; capacity <= sizeof buffer; capacity++) {
                size_t length = 77;
                memset(buffer, '#', sizeof buffer);
                uint8_t *place = capacity ? buffer : NULL;
                OK(of_view ? varvite_view_get_into(before, &keys[key], place, capacity, &length, &error)
                           : varvite_table_get_into(utxo, &keys[key], place, capacity, &length, &error));
                const char *expected = key == 0 ? of_view ? "5 ada" : NULL : key == 1 ? "2 ada" : key == 2 ? "" : NULL;
                CHECK(length == (expected ? strlen(expected) : SIZE_MAX));
                size_t written = expected && length <= capacity ? length : 0;
                CHECK(memcmp(buffer, expected ? expected : "", written) == 0);
                for (size_t it = written; it < sizeof buffer; it++) CHECK(buffer[it] == '#');
            }
        }
    }
    FAILS(VARVITE_INVALID, varvite_table_get_into(utxo, keys, NULL, 5, &(size_t){0}, &error));
    FAILS(VARVITE_INVALID, varvite_table_get_into(utxo, keys, buffer, 5, NULL, &error));
    FAILS(VARVITE_INVALID, varvite_table_get_into(utxo, NULL, buffer, 5, &(size_t){0}, &error));
    uint64_t count;
    OK(varvite_view_count(before, &count, &error));
    CHECK(count == 3);

    varvite_snapshot_content content = {"ledger", varvite_text("slot 42"), &utxo, 1};
    OK(varvite_session_save_snapshot(session, "slot-42", &content, &error));
    FAILS(VARVITE_EXISTS, varvite_session_save_snapshot(session, "slot-42", &content, &error));
    OK(varvite_session_snapshots(session, &found, &error));
    CHECK(found.count == 1 && same(found.items[0], "slot-42"));
    varvite_snapshot_info info;
    OK(varvite_session_snapshot_info(session, "slot-42", &info, &found, &error));
    CHECK(info.tables == 1 && info.payload_bytes == 7 && !info.is_damaged);
    CHECK(found.count == 3 && same(found.items[0], "ledger") && same(found.items[1], NULL));
    CHECK(same(found.items[2], "utxo"));
    FAILS(VARVITE_MISSING, varvite_session_snapshot_info(session, "slot-43", &info, &found, &error));
    CHECK(found.count == 0 && !found.items);

    varvite_snapshot *snapshot;
    OK(varvite_session_open_snapshot(session, "slot-42", NULL, &snapshot, &error));
    OK(varvite_snapshot_payload(snapshot, &found, &error));
    CHECK(same(found.items[0], "slot 42"));
    OK(varvite_snapshot_label(snapshot, &found, &error));
    CHECK(same(found.items[0], "ledger"));
    OK(varvite_snapshot_tables(snapshot, &found, &error));
    CHECK(found.count == 1 && same(found.items[0], "utxo"));
    varvite_table *again;
    OK(varvite_snapshot_take(snapshot, "utxo", &again, &error));
    FAILS(VARVITE_MISSING, varvite_snapshot_take(snapshot, "utxo", &again, &error));
    OK(varvite_table_get(again, &keys[1], &found, &error));
    CHECK(same(found.items[0], "2 ada"));
    OK(varvite_snapshot_close(snapshot, &error));
    OK(varvite_table_close(again, &error));
    varvite_open_options other;
    OK(varvite_open_options_default(&other, &error));
    other.label = "another";
    FAILS(VARVITE_INVALID, varvite_session_open_snapshot(session, "slot-42", &other, &snapshot, &error));

    varvite_disk *parcel;
    OK(varvite_disk_memory(3, &parcel, &error));
    varvite_transferred moved;
    OK(varvite_session_export_snapshot(session, "slot-42", parcel, VARVITE_VERIFY_FULL, &moved, &error));
    CHECK(moved.segments > 0 && moved.bytes >= moved.copied_bytes);
    OK(varvite_session_import_snapshot(session, parcel, "slot-42", "back", VARVITE_VERIFY_QUICK, NULL, &error));
    OK(varvite_session_delete_snapshot(session, "back", &error));
    OK(varvite_session_check(parcel, &found, &error));
    CHECK(found.count == 0);
    OK(varvite_disk_close(parcel, &error));

    OK(varvite_arena_free(&found, &error));
    OK(varvite_view_close(before, &error));
    OK(varvite_table_close(utxo, &error));
}

// Of 1000 numbers: from both ends, which meet, by bounds and by prefix.
static void iterators(varvite_table *numbers) {
    varvite_iterator *iterator;
    varvite_arena found = {0};
    varvite_bound lower = {VARVITE_INCLUDED, varvite_text("k0100")}, upper = {VARVITE_EXCLUDED, varvite_text("k0110")};
    OK(varvite_table_iterate(numbers, &lower, &upper, 0, &iterator, &error));
    OK(varvite_iterator_next(iterator, 3, &found, &error));
    CHECK(found.count == 6 && same(found.items[0], "k0100") && same(found.items[5], "v102"));
    OK(varvite_iterator_next_back(iterator, 2, &found, &error));
    CHECK(found.count == 4 && same(found.items[0], "k0109") && same(found.items[3], "v108"));
    OK(varvite_iterator_next(iterator, 0, &found, &error));
    CHECK(found.count == 0);
    OK(varvite_iterator_next(iterator, 100, &found, &error));
    CHECK(found.count == 10 && same(found.items[8], "k0107"));
    OK(varvite_iterator_next_back(iterator, 100, &found, &error));
    CHECK(found.count == 0);
    FAILS(VARVITE_INVALID, varvite_iterator_next(iterator, 1, NULL, &error));
    OK(varvite_iterator_close(iterator, &error));
    FAILS(VARVITE_CLOSED, varvite_iterator_next(iterator, 1, &found, &error));

    varvite_view *view;
    OK(varvite_table_view(numbers, &view, &error));
    varvite_bytes prefix = varvite_text("k09");
    for (int of_view = 0; of_view < 2; of_view++) {
        OK(of_view ? varvite_view_iterate_prefix(view, &prefix, 1, &iterator, &error)
                   : varvite_table_iterate_prefix(numbers, &prefix, 1, &iterator, &error));
        OK(varvite_iterator_next_back(iterator, 1, &found, &error));
        CHECK(found.count == 1 && same(found.items[0], "k0999"));
        OK(varvite_iterator_next(iterator, SIZE_MAX, &found, &error));
        CHECK(found.count == 99 && same(found.items[0], "k0900") && same(found.items[98], "k0998"));
        OK(varvite_iterator_close(iterator, &error));
    }
    OK(varvite_view_iterate(view, NULL, NULL, 1, &iterator, &error));
    OK(varvite_view_close(view, &error));
    OK(varvite_iterator_next(iterator, SIZE_MAX, &found, &error));
    CHECK(found.count == 1000);
    OK(varvite_iterator_close(iterator, &error));
    FAILS(VARVITE_INVALID, varvite_table_iterate(numbers, NULL, NULL, 2, &iterator, &error));
    FAILS(VARVITE_INVALID, varvite_table_iterate(numbers, NULL, NULL, 0, NULL, &error));
    FAILS(VARVITE_INVALID, varvite_table_iterate_prefix(numbers, NULL, 0, &iterator, &error));
    OK(varvite_arena_free(&found, &error));
}

static void ranges_and_cursors(varvite_session *session) {
    varvite_loader *loader;
    OK(varvite_session_load_table(session, "numbers", NULL, 0, &loader, &error));
    static char text[1000][2][16];
    varvite_bytes entries[2000];
    for (int it = 0; it < 1000; it++) {
        snprintf(text[it][0], 16, "k%04d", it);
        snprintf(text[it][1], 16, "v%d", it);
        entries[2 * it] = varvite_text(text[it][0]);
        entries[2 * it + 1] = varvite_text(text[it][1]);
    }
    size_t pushed;
    OK(varvite_loader_push(loader, entries, 1000, &pushed, &error));
    CHECK(pushed == 1000);
    FAILS(VARVITE_INVALID, varvite_loader_push(loader, entries, 1, &pushed, &error));
    CHECK(pushed == 0);
    varvite_table *numbers;
    OK(varvite_loader_finish(loader, &numbers, &error));
    FAILS(VARVITE_CLOSED, varvite_loader_close(loader, &error));

    varvite_bound lower = {VARVITE_EXCLUDED, varvite_text("k0009")};
    varvite_bound upper = {VARVITE_INCLUDED, varvite_text("k0012")};
    varvite_arena found = {0};
    OK(varvite_table_range(numbers, &lower, &upper, &found, &error));
    CHECK(found.count == 6 && same(found.items[0], "k0010") && same(found.items[5], "v12"));

    varvite_cursor *cursor;
    OK(varvite_table_cursor(numbers, NULL, &upper, &cursor, &error));
    iterators(numbers);
    OK(varvite_table_delete_range(numbers, &lower, &upper, &error));
    OK(varvite_table_range(numbers, &lower, &upper, &found, &error));
    CHECK(found.count == 0);
    varvite_bytes key, value;
    OK(varvite_cursor_seek_last(cursor, &error));
    OK(varvite_cursor_previous(cursor, &key, &value, &error));
    CHECK(same(key, "k0012") && same(value, "v12"));
    varvite_bytes to = varvite_text("k0011x");
    OK(varvite_cursor_seek(cursor, &to, &error));
    OK(varvite_cursor_next_key(cursor, &key, &error));
    CHECK(same(key, "k0012"));
    OK(varvite_cursor_value(cursor, &value, &error));
    CHECK(same(value, "v12"));
    OK(varvite_cursor_next(cursor, &key, &value, &error));
    CHECK(!key.data && !value.data);
    OK(varvite_cursor_seek_first(cursor, &error));
    OK(varvite_cursor_next_many(cursor, 10, &found, &error));
    CHECK(found.count == 20 && same(found.items[18], "k0009"));
    OK(varvite_cursor_next_many(cursor, 10, &found, &error));
    CHECK(found.count == 6);
    OK(varvite_cursor_next_many(cursor, 10, &found, &error));
    CHECK(found.count == 0);
    OK(varvite_cursor_previous_key(cursor, &key, &error));
    CHECK(same(key, "k0012"));
    OK(varvite_cursor_close(cursor, &error));

    varvite_table_stats stats;
    OK(varvite_table_get_stats(numbers, &stats, &error));
    CHECK(stats.logical_entries_min <= 997 && stats.logical_entries_max >= 997 && stats.disk_bytes > 0);
    uint64_t left;
    OK(varvite_table_work(numbers, UINT64_MAX, &left, &error));
    CHECK(left == 0);
    OK(varvite_table_close(numbers, &error));
    OK(varvite_arena_free(&found, &error));
}

static void operators_and_unions(varvite_session *session) {
    varvite_table_options options;
    OK(varvite_table_options_default(&options, &error));
    OK(varvite_operator_new("plus", join, release, &joins, &options.merge_operator, &error));
    OK(varvite_table_options_within_memory(1 << 20, &options, &error));
    CHECK(options.merge_operator && options.write_buffer_bytes == 1 << 17);
    varvite_table *tables[2], *both;
    OK(varvite_session_create_table(session, "left", &options, &tables[0], &error));
    OK(varvite_session_create_table(session, "right", &options, &tables[1], &error));
    OK(varvite_operator_close(options.merge_operator, &error));
    CHECK(released == 0);
    varvite_operation newer[] = {upsert_of("k", "2"), upsert_of("k", "3")};
    varvite_operation older[] = {insert_of("k", "1"), insert_of("other", "x")};
    varvite_table_update updates[] = {{tables[0], newer, 2}, {tables[1], older, 2}};
    OK(varvite_session_apply(session, updates, 2, &error));
    updates[1].table = tables[0];
    FAILS(VARVITE_INVALID, varvite_session_apply(session, updates, 2, &error));

    OK(varvite_session_incremental_union(session, "both", tables, 2, &both, &error));
    varvite_bytes key = varvite_text("k");
    varvite_arena found = {0};
    OK(varvite_table_get(both, &key, &found, &error));
    CHECK(same(found.items[0], "1+2+3") && joins > 0);
    uint64_t debt, left;
    OK(varvite_table_remaining_union_debt(both, &debt, &error));
    CHECK(debt > 0);
    OK(varvite_table_supply_union_credits(both, UINT64_MAX, &left, &error));
    OK(varvite_table_remaining_union_debt(both, &debt, &error));
    CHECK(debt == 0 && left == 0);
    OK(varvite_table_operator_name(both, &found, &error));
    CHECK(found.count == 1 && same(found.items[0], "plus"));
    OK(varvite_table_name(both, &found, &error));
    CHECK(same(found.items[0], "both"));
    OK(varvite_table_close(both, &error));
    OK(varvite_session_union(session, "both", tables, 2, &both, &error));
    varvite_table *copy;
    OK(varvite_table_duplicate(both, "copy", &copy, &error));
    OK(varvite_table_get(copy, &key, &found, &error));
    CHECK(same(found.items[0], "1+2+3"));
    OK(varvite_table_close(copy, &error));
    OK(varvite_table_close(both, &error));
    OK(varvite_table_close(tables[0], &error));
    OK(varvite_table_close(tables[1], &error));
    OK(varvite_arena_free(&found, &error));
    do_works();
    CHECK(released == 1);
}

static void large_values(varvite_session *session) {
    varvite_table_options options;
    OK(varvite_table_options_default(&options, &error));
    options.blob_min_bytes = 100;
    varvite_table *table;
    OK(varvite_session_create_table(session, "large", &options, &table, &error));
    varvite_value_writer *writer;
    OK(varvite_session_write_value(session, &writer, &error));
    uint8_t piece[1000];
    memset(piece, 7, sizeof piece);
    varvite_bytes bytes = {piece, sizeof piece};
    for (int it = 0; it < 500; it++) OK(varvite_value_writer_write(writer, &bytes, &error));
    varvite_value *value;
    OK(varvite_value_writer_finish(writer, &value, &error));
    varvite_operation insert = {VARVITE_INSERT_VALUE, varvite_text("big"), {NULL, 0}, value};
    OK(varvite_table_apply(table, &insert, 1, &error));
    OK(varvite_value_close(value, &error));

    varvite_bytes keys[] = {varvite_text("big"), varvite_text("none")};
    varvite_value *values[2];
    OK(varvite_table_find(table, keys, 2, values, &error));
    CHECK(values[0] && !values[1]);
    uint64_t length;
    OK(varvite_value_length(values[0], &length, &error));
    CHECK(length == 500000);
    uint8_t buffer[64] = {0};
    size_t got;
    OK(varvite_value_read_at(values[0], 499990, buffer, sizeof buffer, &got, &error));
    CHECK(got == 10 && buffer[9] == 7 && buffer[10] == 0);
    varvite_arena found = {0};
    OK(varvite_session_read_values(session, values, 1, &found, &error));
    CHECK(found.count == 1 && found.items[0].length == 500000 && found.items[0].data[499999] == 7);
    OK(varvite_arena_free(&found, &error));
    OK(varvite_value_close(values[0], &error));
    OK(varvite_table_close(table, &error));
}

static void live_tables(const char *folder) {
    varvite_disk *disk;
    OK(varvite_disk_folder(folder, 1, &disk, &error));
    varvite_session_options options;
    OK(varvite_session_options_default(&options, &error));
    options.log = VARVITE_LOG_SYNCED;
    varvite_session *session;
    OK(varvite_session_create(disk, &options, &session, &error));
    varvite_table *table;
    OK(varvite_session_create_table(session, "live", NULL, &table, &error));
    int is_live;
    OK(varvite_table_is_live(table, &is_live, &error));
    CHECK(is_live == 1);
    varvite_operation insert = insert_of("k", "v");
    OK(varvite_table_apply(table, &insert, 1, &error));
    varvite_session *second;
    FAILS(VARVITE_LOCKED, varvite_session_open(disk, &options, &second, &error));
    OK(varvite_session_close(session, &error));
    // The table is of a session that ended; its handle is still to be closed.
    FAILS(VARVITE_CLOSED, varvite_table_apply(table, &insert, 1, &error));
    OK(varvite_table_close(table, &error));

    OK(varvite_session_open(disk, &options, &session, &error));
    varvite_arena names = {0};
    OK(varvite_session_live_tables(session, &names, &error));
    CHECK(names.count == 1 && same(names.items[0], "live"));
    OK(varvite_session_open_table(session, "live", NULL, &table, &error));
    FAILS(VARVITE_LOCKED, varvite_session_open_table(session, "live", NULL, &table, &error));
    varvite_bytes key = varvite_text("k");
    OK(varvite_table_get(table, &key, &names, &error));
    CHECK(same(names.items[0], "v"));
    varvite_table *copy;
    OK(varvite_table_duplicate(table, "second", &copy, &error));
    OK(varvite_session_publish(session, copy, &error));
    OK(varvite_table_close(copy, &error));
    OK(varvite_table_close(table, &error));
    varvite_table *all[3];
    size_t opened;
    FAILS(VARVITE_INVALID, varvite_session_open_all(session, NULL, all, 1, &opened, &error));
    CHECK(opened == 2);
    OK(varvite_session_open_all(session, NULL, all, 3, &opened, &error));
    CHECK(opened == 2);
    OK(varvite_table_get(all[1], &key, &names, &error));
    CHECK(same(names.items[0], "v"));
    OK(varvite_table_close(all[0], &error));
    OK(varvite_table_close(all[1], &error));
    OK(varvite_session_delete_table(session, "second", &error));
    FAILS(VARVITE_MISSING, varvite_session_delete_table(session, "second", &error));
    OK(varvite_arena_free(&names, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(disk, &error));
}

// Copies of a session, and what follows it beside its writer.
static void copies(const char *folder) {
    varvite_disk *disk, *backup, *hurt, *whole;
    OK(varvite_disk_folder(folder, 1, &disk, &error));
    OK(varvite_disk_memory(5, &backup, &error));
    OK(varvite_disk_memory(6, &hurt, &error));
    OK(varvite_disk_memory(7, &whole, &error));
    varvite_session_options options;
    OK(varvite_session_options_default(&options, &error));
    options.log = VARVITE_LOG_WRITTEN;
    options.log_file_bytes = 4096; // so that checkpoints name segments
    options.max_open_files = 16;
    varvite_session *session, *reader;
    OK(varvite_session_create(disk, &options, &session, &error));
    varvite_table_options table_options;
    OK(varvite_table_options_default(&table_options, &error));
    table_options.write_buffer_bytes = 4096;
    varvite_table *table;
    OK(varvite_session_create_table(session, "t", &table_options, &table, &error));
    char name[16];
    for (int it = 0; it < 300; it++) {
        snprintf(name, sizeof name, "k%03d", it);
        varvite_operation insert = insert_of(name, "a value that fills the buffer of the table");
        OK(varvite_table_apply(table, &insert, 1, &error));
    }
    varvite_follower *follower;
    FAILS(VARVITE_INVALID, varvite_session_follow(session, NULL, &follower, &error));
    OK(varvite_session_open_read_only(disk, &options, &reader, &error));
    OK(varvite_session_follow(reader, NULL, &follower, &error));
    varvite_view *before, *after;
    OK(varvite_follower_view(follower, "t", &before, &error));
    FAILS(VARVITE_MISSING, varvite_follower_view(follower, "u", &after, &error));
    int is_other;
    OK(varvite_follower_reload(follower, &is_other, &error));
    CHECK(is_other == 0);
    // All of one prefix, and a part of another.
    varvite_operation batch[] = {{VARVITE_DELETE_PREFIX, varvite_text("k1"), {NULL, 0}, NULL},
                                 {VARVITE_DELETE_RANGE, varvite_text("k2"), varvite_text("k25"), NULL},
                                 insert_of("k100", "again")};
    OK(varvite_table_apply(table, batch, 3, &error));
    OK(varvite_follower_reload(follower, &is_other, &error));
    CHECK(is_other == 1);
    varvite_arena found = {0};
    OK(varvite_follower_tables(follower, &found, &error));
    CHECK(found.count == 1 && same(found.items[0], "t"));
    OK(varvite_follower_view(follower, "t", &after, &error));
    OK(varvite_follower_close(follower, &error));
    FAILS(VARVITE_CLOSED, varvite_follower_reload(follower, &is_other, &error));
    uint64_t keys;
    OK(varvite_view_count(before, &keys, &error));
    CHECK(keys == 300);
    OK(varvite_view_count(after, &keys, &error));
    CHECK(keys == 151);
    OK(varvite_view_close(before, &error));
    OK(varvite_view_close(after, &error));
    OK(varvite_session_close(reader, &error));

    varvite_backed_up backed_up;
    OK(varvite_session_backup(session, backup, VARVITE_VERIFY_QUICK, &backed_up, &error));
    CHECK(backed_up.tables == 1 && backed_up.segments > 0 && backed_up.kept_segments == 0);
    size_t brought = backed_up.segments;
    OK(varvite_session_backup(session, backup, VARVITE_VERIFY_FULL, &backed_up, &error));
    CHECK(backed_up.kept_segments == brought && backed_up.segments == 0);
    OK(varvite_session_backup(session, hurt, VARVITE_VERIFY_QUICK, NULL, &error));
    FAILS(VARVITE_INVALID, varvite_session_backup(session, whole, 9, NULL, &error));
    FAILS(VARVITE_INVALID, varvite_session_backup(session, NULL, VARVITE_VERIFY_QUICK, NULL, &error));
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_session_open(backup, &options, &session, &error));
    OK(varvite_session_open_table(session, "t", NULL, &table, &error));
    varvite_bytes key = varvite_text("k100");
    OK(varvite_table_get(table, &key, &found, &error));
    CHECK(same(found.items[0], "again"));
    OK(varvite_table_close(table, &error));
    OK(varvite_session_close(session, &error));

    varvite_repaired repaired;
    OK(varvite_session_repair(hurt, whole, 0, 0, &repaired, &found, &error));
    CHECK(!repaired.session_was_lost && repaired.live_tables == 1 && repaired.whole_live_tables == 1);
    CHECK(repaired.losses == 0 && found.count == 0 && repaired.segments == brought);
    OK(varvite_session_open(whole, &options, &session, &error));
    OK(varvite_session_close(session, &error));
    OK(varvite_disk_close(whole, &error));
    OK(varvite_disk_close(hurt, &error));

    // One byte of the first segment of the session is wrong.
    char path[8192];
    FILE *pipe, *file;
    snprintf(path, sizeof path, "find '%s' -name '*segment*' -type f | sort | head -1", folder);
    CHECK((pipe = popen(path, "r")) && fgets(path, sizeof path, pipe));
    pclose(pipe);
    path[strcspn(path, "\n")] = 0;
    CHECK((file = fopen(path, "r+b")));
    fseek(file, 100, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, 100, SEEK_SET);
    fputc(byte ^ 0xff, file);
    fclose(file);
    for (int skips = 0; skips < 2; skips++) {
        OK(varvite_disk_memory(8 + skips, &whole, &error));
        OK(varvite_session_repair(disk, whole, skips, 99, &repaired, &found, &error));
        CHECK(repaired.live_tables == (uint64_t)skips && repaired.whole_live_tables == 0);
        CHECK(repaired.losses > 0 && found.count == 4 * repaired.losses && found.items[1].length > 10);
        int has_keys = 0;
        for (size_t it = 0; it < found.count; it += 4) {
            CHECK(!found.items[it + 2].data == !found.items[it + 3].data);
            has_keys |= found.items[it + 3].data != NULL;
        }
        CHECK(has_keys == skips);
        FAILS(VARVITE_EXISTS, varvite_session_repair(disk, whole, skips, 99, NULL, &found, &error));
        CHECK(found.count == 0);
        OK(varvite_disk_close(whole, &error));
    }
    FAILS(VARVITE_INVALID, varvite_session_repair(disk, backup, 2, 0, &repaired, &found, &error));
    FAILS(VARVITE_INVALID, varvite_session_repair(disk, backup, 0, 0, &repaired, NULL, &error));
    OK(varvite_arena_free(&found, &error));
    OK(varvite_disk_close(backup, &error));
    OK(varvite_disk_close(disk, &error));
}

int main(int count, char **arguments) {
    CHECK(varvite_abi_version() == VARVITE_ABI_VERSION);
    char folder[4096];
    folder_of(folder, sizeof folder, count, arguments, "tables");
    varvite_disk *disk;
    FAILS(VARVITE_MISSING, varvite_disk_folder(folder, 0, &disk, &error));
    OK(varvite_disk_folder(folder, 1, &disk, &error));
    varvite_session_options options;
    OK(varvite_session_options_default(&options, &error));
    watched seen = {0};
    varvite_observer observer = {now_ns, record, release, &seen};
    varvite_executor executor = {execute, release, NULL};
    options.observer = &observer;
    options.executor = &executor;
    options.memory_bytes = 16 << 20;
    varvite_session *session;
    OK(varvite_session_create(disk, &options, &session, &error));
    batches_and_snapshots(session);
    CHECK(seen.updates == 5 && seen.keys >= 10);
    ranges_and_cursors(session);
    operators_and_unions(session);
    large_values(session);
    do_works();
    varvite_session_stats stats;
    OK(varvite_session_get_stats(session, &stats, &error));
    CHECK(stats.keys_looked_up > 0 && stats.blobs_read > 0 && stats.written_bytes > 0);
    int poisoned;
    OK(varvite_session_is_poisoned(session, &poisoned, &error));
    CHECK(poisoned == 0);
    CHECK(stats.written_bytes == stats.write_out_bytes + stats.merge_written_bytes + stats.snapshot_written_bytes +
                                     stats.load_written_bytes);
    int paused;
    OK(varvite_session_pause_merges(session, 1 << 20, &error));
    OK(varvite_session_merges_are_paused(session, &paused, &error));
    CHECK(paused == 1);
    OK(varvite_session_resume_merges(session, &error));
    OK(varvite_session_merges_are_paused(session, &paused, &error));
    CHECK(paused == 0);
    varvite_filter_stats filters[20];
    size_t levels;
    OK(varvite_session_get_filter_stats(session, filters, 20, &levels, &error));
    CHECK(levels > 0 && levels <= 20 && filters[0].passes <= filters[0].probes);
    OK(varvite_session_get_filter_stats(session, NULL, 0, &levels, &error));
    varvite_arena root = {0};
    OK(varvite_session_root(session, &root, &error));
    CHECK(root.count == 1 && strstr((const char *)folder, "tables") && root.items[0].length > 0);
    OK(varvite_arena_free(&root, &error));
    OK(varvite_session_close(session, &error));

    // The same session once more, to read what was saved, with a cache that is shared.
    OK(varvite_session_options_default(&options, &error));
    OK(varvite_cache_new(8 << 20, &options.cache, &error));
    OK(varvite_session_open_read_only(disk, &options, &session, &error));
    varvite_snapshot *snapshot;
    OK(varvite_session_open_snapshot(session, "slot-42", NULL, &snapshot, &error));
    varvite_table *table;
    OK(varvite_snapshot_take(snapshot, "utxo", &table, &error));
    varvite_operation insert = insert_of("a", "b");
    FAILS(VARVITE_INVALID, varvite_table_apply(table, &insert, 1, &error));
    OK(varvite_table_close(table, &error));
    OK(varvite_snapshot_close(snapshot, &error));
    varvite_arena warnings = {0};
    OK(varvite_session_warnings(session, &warnings, &error));
    CHECK(warnings.count == 0);
    OK(varvite_arena_free(&warnings, &error));
    OK(varvite_session_close(session, &error));
    varvite_cache_stats cached;
    OK(varvite_cache_get_stats(options.cache, &cached, &error));
    CHECK(cached.bytes > 0 && cached.bytes <= 8 << 20);
    OK(varvite_cache_close(options.cache, &error));
    OK(varvite_disk_close(disk, &error));

    folder_of(folder, sizeof folder, count, arguments, "live");
    live_tables(folder);
    folder_of(folder, sizeof folder, count, arguments, "copied");
    copies(folder);
    puts("the story of the table: passed");
    return 0;
}
