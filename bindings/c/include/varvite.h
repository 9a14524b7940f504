// varvite: an embeddable storage engine for blockchain ledger state. The interface for C.
//
// Every function that can fail returns one of VARVITE_OK … VARVITE_BUSY, and tells more in its last argument, which may
// be NULL. Answers go to the arguments before it; a place for an answer is not written when the call fails, unless the
// function says so, but for an arena, which is then empty. Answers of any number go to an arena, which one call frees.
//
// Handles come from …_open, …_create and the like and are closed by …_close. A handle that is NULL, was closed, is of
// another kind or was never given is an error, not undefined behaviour. Any thread may use any handle; calls that change
// the same thing wait for each other. After a fork the child's handles are errors. See README.md.
//
// This file is made from the sources of varvite-c: do not edit it.

#ifndef VARVITE_H
#define VARVITE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The call did what it says.
#define VARVITE_OK 0

// The disk refused or failed: free space, fix permissions or the device, then try again.
#define VARVITE_IO 1

// Bytes on disk are not what was written: restore from a snapshot or another copy.
#define VARVITE_CORRUPT 2

// The file was written by a newer release: use that release.
#define VARVITE_VERSION 3

// Another process, or another handle, has it: close that first.
#define VARVITE_LOCKED 4

// What was named does not exist.
#define VARVITE_MISSING 5

// What was to be created exists already.
#define VARVITE_EXISTS 6

// The call itself is wrong: fix its arguments.
#define VARVITE_INVALID 7

// The handle was closed, or belongs to the process that forked: open it again.
#define VARVITE_CLOSED 8

// A sync or a rollback failed earlier, so writing has stopped: reopen the store.
#define VARVITE_POISONED 9

// A proof does not show what was looked at: ask for one that does.
#define VARVITE_HIDDEN 10

// A collection took it, as it was told to: ask a store that keeps older commits.
#define VARVITE_COLLECTED 11

// A callback of yours returned other than 0, which the error's `callback` has.
#define VARVITE_CALLBACK 100

// The library ran into a fault of its own, and caught it: report it, and close the handle.
#define VARVITE_PANIC 101

// Somebody else has what the call needs, and to wait could be for ever. In a callback that was called with a store in use:
// return, then try again. On a shared handle: a transaction is open through which nothing is done; end it, then try again.
#define VARVITE_BUSY 102

// Bytes of the sentence of an error, its final NUL included.
#define VARVITE_SENTENCE_BYTES 1016

// The version of this interface. It grows by 1 when a program that was compiled for the one before may
// no longer be linked; what is only added does not count.
#define VARVITE_ABI_VERSION 0

// The keys within the bound.
#define VARVITE_UNBOUNDED 0

// The bound's key and those beyond it.
#define VARVITE_INCLUDED 1

// Those beyond the bound's key.
#define VARVITE_EXCLUDED 2

// A batch lookup; the count is its keys.
#define VARVITE_OPERATION_LOOKUP 0

// An update; the count is its operations.
#define VARVITE_OPERATION_UPDATE 1

// Merge and write-out work; the count is its counted work in bytes.
#define VARVITE_OPERATION_MERGE 2

// A snapshot saved; the count is its segments.
#define VARVITE_OPERATION_SAVE_SNAPSHOT 3

// A snapshot opened; the count is its segments.
#define VARVITE_OPERATION_OPEN_SNAPSHOT 4

// The wait for the log in an update; the count is the update's operations.
#define VARVITE_OPERATION_LOG 5

// A checkpoint written; the count is its live tables.
#define VARVITE_OPERATION_CHECKPOINT 6

// The value of one key; the count is 1.
#define VARVITE_OPERATION_GET 7

// Steps of a cursor in one direction, told when they end; the count is the keys that they gave.
#define VARVITE_OPERATION_RANGE 8

// A transaction from its begin to its end, with what the program did meanwhile; the count is the operations that it wrote.
#define VARVITE_OPERATION_TRANSACTION 9

// An operation that a later release added.
#define VARVITE_OPERATION_OTHER 1000

// Nothing: what was not saved in a snapshot is gone when the session ends.
#define VARVITE_LOG_NONE 0

// An update outlives the process. A power cut may take the newest, never one without all later ones.
#define VARVITE_LOG_WRITTEN 1

// An update outlives a power cut.
#define VARVITE_LOG_SYNCED 2

// Lookups often find nothing: every level has a filter.
#define VARVITE_LOOKUPS_MIXED 0

// Lookups nearly always find a value: the last level has no filter.
#define VARVITE_LOOKUPS_MOSTLY_HIT 1

// Pages are stored as they are.
#define VARVITE_COMPRESSION_NONE 0

// Each page is compressed by LZ4 where that saves an eighth of it or more.
#define VARVITE_COMPRESSION_FAST 1

// Checks the manifest and every segment's footer; pages are checked when they are read.
#define VARVITE_VERIFY_QUICK 0

// Checks every byte of every file.
#define VARVITE_VERIFY_FULL 1

// Binds the key to the value, whatever was there.
#define VARVITE_INSERT 0

// Unbinds the key.
#define VARVITE_DELETE 1

// Joins the value to what the key is bound to, by the table's merge operator.
#define VARVITE_UPSERT 2

// Binds the key to the value `held`, without a copy of it.
#define VARVITE_INSERT_VALUE 3

// Unbinds every key from `key` on and before `value`; keys that later operations bind in it stay.
#define VARVITE_DELETE_RANGE 4

// Unbinds every key that begins with `key`, as VARVITE_DELETE_RANGE does.
#define VARVITE_DELETE_PREFIX 5

// A commit is durable when the call returns.
#define VARVITE_DURABILITY_SYNCED 0

// A commit is durable when the system writes it out.
#define VARVITE_DURABILITY_WRITTEN 1

// A store finds commits by their hash.
#define VARVITE_INDEX_MINIMAL 0

// A store finds commits and every object.
#define VARVITE_INDEX_ALWAYS 1

// A name chooses its bucket by a seeded hash, as in the context of Tezos.
#define VARVITE_ORDER_SEEDED_HASH 0

// A name chooses its bucket by bits of its digest, as in the binary context of Tezos.
#define VARVITE_ORDER_HASH_BITS 1

// What an observer of a context is told about: `Operation::Find` of the engine.
#define VARVITE_CONTEXT_FIND 0

// What an observer of a context is told about: `Operation::Mem` of the engine.
#define VARVITE_CONTEXT_MEM 1

// What an observer of a context is told about: `Operation::MemTree` of the engine.
#define VARVITE_CONTEXT_MEM_TREE 2

// What an observer of a context is told about: `Operation::FindTree` of the engine.
#define VARVITE_CONTEXT_FIND_TREE 3

// What an observer of a context is told about: `Operation::List` of the engine.
#define VARVITE_CONTEXT_LIST 4

// What an observer of a context is told about: `Operation::Length` of the engine.
#define VARVITE_CONTEXT_LENGTH 5

// What an observer of a context is told about: `Operation::Fold` of the engine.
#define VARVITE_CONTEXT_FOLD 6

// What an observer of a context is told about: `Operation::Diff` of the engine.
#define VARVITE_CONTEXT_DIFF 7

// What an observer of a context is told about: `Operation::Merge` of the engine.
#define VARVITE_CONTEXT_MERGE 8

// What an observer of a context is told about: `Operation::Add` of the engine.
#define VARVITE_CONTEXT_ADD 9

// What an observer of a context is told about: `Operation::AddTree` of the engine.
#define VARVITE_CONTEXT_ADD_TREE 10

// What an observer of a context is told about: `Operation::Remove` of the engine.
#define VARVITE_CONTEXT_REMOVE 11

// What an observer of a context is told about: `Operation::Hash` of the engine.
#define VARVITE_CONTEXT_HASH 12

// What an observer of a context is told about: `Operation::Spill` of the engine.
#define VARVITE_CONTEXT_SPILL 13

// What an observer of a context is told about: `Operation::Checkout` of the engine.
#define VARVITE_CONTEXT_CHECKOUT 14

// What an observer of a context is told about: `Operation::Commit` of the engine.
#define VARVITE_CONTEXT_COMMIT 15

// What an observer of a context is told about: `Operation::Exists` of the engine.
#define VARVITE_CONTEXT_EXISTS 16

// What an observer of a context is told about: `Operation::Log` of the engine.
#define VARVITE_CONTEXT_LOG 17

// What an observer of a context is told about: `Operation::History` of the engine.
#define VARVITE_CONTEXT_HISTORY 18

// What an observer of a context is told about: `Operation::Branch` of the engine.
#define VARVITE_CONTEXT_BRANCH 19

// What an observer of a context is told about: `Operation::Reload` of the engine.
#define VARVITE_CONTEXT_RELOAD 20

// What an observer of a context is told about: `Operation::Checkpoint` of the engine.
#define VARVITE_CONTEXT_CHECKPOINT 21

// What an observer of a context is told about: `Operation::BeginChunk` of the engine.
#define VARVITE_CONTEXT_BEGIN_CHUNK 22

// What an observer of a context is told about: `Operation::Clear` of the engine.
#define VARVITE_CONTEXT_CLEAR 23

// What an observer of a context is told about: `Operation::Check` of the engine.
#define VARVITE_CONTEXT_CHECK 24

// What an observer of a context is told about: `Operation::RebuildIndex` of the engine.
#define VARVITE_CONTEXT_REBUILD_INDEX 25

// An operation that a later release added.
#define VARVITE_CONTEXT_OTHER 1000

// No collection is under way.
#define VARVITE_COLLECT_NONE 0

// The collection finds out what stays; nothing was taken away.
#define VARVITE_COLLECT_MARKING 1

// The collection takes away what does not stay; older commits are collected already.
#define VARVITE_COLLECT_CLEANING 2

// The tree is bytes.
#define VARVITE_VALUE 0

// The tree is a directory.
#define VARVITE_DIRECTORY 1

// Visits every depth.
#define VARVITE_DEPTH_ALL 0

// Visits exactly this depth; 0 is the start itself.
#define VARVITE_DEPTH_EQ 1

// Visits the depths above it.
#define VARVITE_DEPTH_LT 2

// Visits this one and those above it.
#define VARVITE_DEPTH_LE 3

// Visits those below it.
#define VARVITE_DEPTH_GT 4

// Visits this one and those below it.
#define VARVITE_DEPTH_GE 5

// Visits the children of a directory by name.
#define VARVITE_SORTED 0

// Visits them as they are stored, in bounded memory.
#define VARVITE_UNDEFINED 1

// It remains a conflict.
#define VARVITE_RESOLVE_CONFLICT 0

// What was written to the output is the value.
#define VARVITE_RESOLVE_VALUE 1

// The value goes.
#define VARVITE_RESOLVE_REMOVED 2

// Nothing is new: the other is an ancestor.
#define VARVITE_MERGE_UNCHANGED 0

// This side has nothing of its own: it becomes the other commit.
#define VARVITE_MERGE_FAST_FORWARD 1

// Both have something of their own.
#define VARVITE_MERGE_MERGED 2

// Both changed the same in different ways.
#define VARVITE_MERGE_CONFLICTS 3

// Octez' first encoding: every integer and list at full width.
#define VARVITE_ENCODING_V1 0

// Octez' second encoding: small integers, counts and kinds share a byte.
#define VARVITE_ENCODING_V2 1

// Irmin's own.
#define VARVITE_ENCODING_IRMIN 2

// Text for people and other programs.
#define VARVITE_ENCODING_JSON 3

// To decode: whichever it is.
#define VARVITE_ENCODING_ANY 4

// Hashes every node and value the first time it is read.
#define VARVITE_IRMIN_VERIFY_HASHES 0

// Hashes values only, as Irmin does.
#define VARVITE_IRMIN_TRUST 1

// What owns the memory of an arena.
typedef struct varvite_arena_owner varvite_arena_owner;

// Memory for pages that sessions and stores share.
typedef struct varvite_cache varvite_cache;

// A place between the keys of a table.
typedef struct varvite_cursor varvite_cursor;

// Where files are: a folder of the system, or memory.
typedef struct varvite_disk varvite_disk;

// The live tables of a session that another process writes.
typedef struct varvite_follower varvite_follower;

// A range of a table, from both ends.
typedef struct varvite_iterator varvite_iterator;

// A table that is being loaded.
typedef struct varvite_loader varvite_loader;

// A merge operator: how upserts join older values.
typedef struct varvite_operator varvite_operator;

// Where a callback writes its answer, as long as it runs.
typedef struct varvite_output varvite_output;

// A proof of what a context holds.
typedef struct varvite_proof varvite_proof;

// What a store has, for threads that read while it commits.
typedef struct varvite_reader varvite_reader;

// A trace that is being recorded.
typedef struct varvite_recorder varvite_recorder;

// A reading of everything that a session keeps, under way.
typedef struct varvite_scrub varvite_scrub;

// A folder of tables, open.
typedef struct varvite_session varvite_session;

// An open snapshot.
typedef struct varvite_snapshot varvite_snapshot;

// A context store.
typedef struct varvite_store varvite_store;

// A table, with one writer at a time.
typedef struct varvite_table varvite_table;

// Tables of a session that threads share.
typedef struct varvite_tables varvite_tables;

// An update in the making of shared tables.
typedef struct varvite_transaction varvite_transaction;

// A state of a context: a tree of values.
typedef struct varvite_tree varvite_tree;

// A value that was found and not read yet.
typedef struct varvite_value varvite_value;

// A value that comes in pieces.
typedef struct varvite_value_writer varvite_value_writer;

// A table's content at one moment, for readers that never wait for the writer.
typedef struct varvite_view varvite_view;

// A piece of merging that an executor was given.
typedef struct varvite_work varvite_work;

// What went wrong. It lies with the caller, and there is nothing to free. Every call sets it when
// it is not NULL: to VARVITE_OK and an empty sentence when all is well.
typedef struct varvite_error {
    // The status that the call returned.
    int32_t kind;
    // What the callback returned, after VARVITE_CALLBACK; else 0.
    int32_t callback;
    // A sentence in UTF-8 that names file and place, what was expected, and the next step. What is
    // too long is left out of its middle.
    char sentence[VARVITE_SENTENCE_BYTES];
} varvite_error;

// What a cache did and holds.
typedef struct varvite_cache_stats {
    // Lookups that found their page.
    uint64_t hits;
    // Lookups that did not.
    uint64_t misses;
    // Pages that gave way to others.
    uint64_t evictions;
    // Pages held now.
    uint64_t pages;
    // Bytes taken now.
    uint64_t bytes;
    // Bytes that sessions and stores charged for what they keep beside the pages.
    uint64_t charged_bytes;
} varvite_cache_stats;

// A hash of a context.
typedef struct varvite_hash {
    // BLAKE2b-256.
    uint8_t bytes[32];
} varvite_hash;

// Bytes that somebody else owns. NULL in an answer says that nothing is there; in an argument it needs
// the length 0.
typedef struct varvite_bytes {
    // Where they begin.
    const uint8_t *data;
    // How many there are.
    size_t length;
} varvite_bytes;

// Answers. Begin with all zeros: `varvite_arena arena = {0};`. Each call that fills it uses its memory
// again, so what it had is gone, also when the call fails. `varvite_arena_free` frees it. One thread at a
// time uses an arena, and no callback the one of the call that it is called by.
typedef struct varvite_arena {
    // The answers, in the order that the function says.
    const struct varvite_bytes *items;
    // How many there are.
    size_t count;
    // The library's own.
    struct varvite_arena_owner *owner;
} varvite_arena;

// Joins `older` and `newer`: writes the result to `output`. Anything but 0 is a failure, and the call
// that needed the operator returns VARVITE_CALLBACK and changes nothing. Two calls need it for others: a checkpoint of
// live tables leaves such a table out and `varvite_session_warnings` says so, or is VARVITE_INVALID with the failure
// in its sentence; and `varvite_work_run` returns VARVITE_CALLBACK on the thread that helps. Opening a live table keeps
// a failure of its merges to itself, and the next update meets it. Associative; the same
// answer for the same values; called from any thread that calls the library, at the same time too. Must not call the
// library, but for `varvite_output_write`, and must not leave by an exception, longjmp or the end of its thread.
typedef int (*varvite_join)(void *user,
                            struct varvite_bytes older,
                            struct varvite_bytes newer,
                            struct varvite_output *output);

// Called once for each call that was given it, when nothing needs any more what was given with it: after a call that
// fails before it returns, as a rule. Only when the options that have it cannot be read, because of their size or an
// address that is not aligned, it is never called. Must not call the library. May be NULL.
typedef void (*varvite_release)(void *user);

// Runs work that the library could also do itself, usually on another thread.
typedef struct varvite_executor {
    // Takes a piece of work, to pass it to `varvite_work_run` at some time, on any thread but in this
    // call, or to `varvite_work_close`, after which the writer does it. Must not call the library.
    void (*execute)(void *user, struct varvite_work *work);
    // As a `varvite_release`, for each call that was given this; may be NULL.
    void (*release)(void *user);
    // What the callbacks get. Several threads may use it at once.
    void *user;
} varvite_executor;

// Gets counts and timings by the program's own clock. Called on the thread that called the library, so
// it should be quick; it must not call the library.
typedef struct varvite_observer {
    // The program's clock, in nanoseconds from any fixed point.
    uint64_t (*now_ns)(void *user);
    // One of VARVITE_OPERATION_… on `count` things took `duration_ns`.
    void (*record)(void *user, uint32_t operation, uint64_t duration_ns, uint64_t count);
    // As a `varvite_release`, for each call that was given this; may be NULL.
    void (*release)(void *user);
    // What the callbacks get. Several threads may use it at once.
    void *user;
} varvite_observer;

// How a session is opened. Begin with `varvite_session_options_default`.
typedef struct varvite_session_options {
    // Bytes of this struct, as the defaults say.
    uint32_t size;
    // What is promised of updates: one of VARVITE_LOG_….
    uint32_t log;
    // From what the identity of a new session follows; 0 has the disk draw it. Only tests give one.
    uint64_t seed;
    // 1 to read past the system's page cache, best with a cache; else 0.
    uint32_t direct;
    // How many page reads a lookup keeps in flight.
    uint32_t queue_depth;
    // Memory of the session, in one number, if there is no `cache`: 0 leaves pages to the system.
    uint64_t memory_bytes;
    // Bytes of pages at which a segment file ends.
    uint64_t segment_bytes;
    // Bytes of a log file at which the next one begins.
    uint64_t log_file_bytes;
    // A cache to share; or NULL.
    struct varvite_cache *cache;
    // Helps merges; or NULL.
    const struct varvite_executor *executor;
    // Gets timings; or NULL.
    const struct varvite_observer *observer;
    // The most segment and blob files that are open; 0: as many as the system lets the process have.
    uint64_t max_open_files;
    // Writes down every call; or NULL.
    struct varvite_recorder *recorder;
} varvite_session_options;

// How a table is made. Begin with `varvite_table_options_default` or `varvite_table_options_utxo`.
typedef struct varvite_table_options {
    // Bytes of this struct, as the defaults say.
    uint32_t size;
    // Runs of a level that are merged into one of the next: 2 to 16.
    uint32_t size_ratio;
    // Bytes of entries (key + value + 16 each) gathered in memory before a run is written.
    uint64_t write_buffer_bytes;
    // Most bytes of filters that all levels together may take.
    uint64_t filter_bytes_max;
    // Filter bits an entry above the last level: 0 (none) or 4 to 24.
    uint32_t filter_bits;
    // What lookups find: one of VARVITE_LOOKUPS_….
    uint32_t lookups;
    // Values of at least so many bytes (32 to 65,537) are stored once, beside the runs; 0: those above
    // 64 KiB.
    uint32_t blob_min_bytes;
    // Whether pages are compressed: VARVITE_COMPRESSION_NONE or VARVITE_COMPRESSION_FAST.
    uint32_t compression;
    // How upserts join older values; NULL refuses upserts.
    struct varvite_operator *merge_operator;
} varvite_table_options;

// How a snapshot or a live table is opened. Begin with `varvite_open_options_default`.
typedef struct varvite_open_options {
    // Bytes of this struct, as the defaults say.
    uint32_t size;
    // How much is checked first: one of VARVITE_VERIFY_….
    uint32_t verify;
    // The label that a snapshot must have; NULL for any.
    const char *label;
    // Merge operators of the program's that its tables have; the built-in ones need not be given.
    struct varvite_operator *const *operators;
    // How many there are.
    size_t operator_count;
} varvite_open_options;

// How the filters of a level did.
typedef struct varvite_filter_stats {
    // Keys asked for.
    uint64_t probes;
    // Of these, those that it let pass.
    uint64_t passes;
    // Pages of the level searched in vain, also where it has no filter.
    uint64_t false_passes;
} varvite_filter_stats;

// What a session counted since it was opened.
typedef struct varvite_session_stats {
    // Keys looked up.
    uint64_t keys_looked_up;
    // Pages of 4 KiB that lookups read from disk.
    uint64_t pages_read;
    // Pages that lookups found in the cache instead.
    uint64_t cache_hits;
    // Values that were read from blob files.
    uint64_t blobs_read;
    // Bytes of these values.
    uint64_t blob_read_bytes;
    // Bytes written to blob files.
    uint64_t blob_written_bytes;
    // Bytes that merges read.
    uint64_t merge_read_bytes;
    // All bytes written, the log apart: the next four together.
    uint64_t written_bytes;
    // Bytes that write-outs of full buffers wrote.
    uint64_t write_out_bytes;
    // Bytes that merges wrote.
    uint64_t merge_written_bytes;
    // Bytes that snapshots and checkpoints wrote.
    uint64_t snapshot_written_bytes;
    // Bytes that loading wrote, sorting included.
    uint64_t load_written_bytes;
    // Updates that the log took.
    uint64_t log_records;
    // Bytes that the log wrote.
    uint64_t log_written_bytes;
    // Syncs of the log.
    uint64_t log_syncs;
    // Checkpoints written.
    uint64_t checkpoints;
} varvite_session_stats;

// One operation of a batch.
typedef struct varvite_operation {
    // VARVITE_INSERT, VARVITE_DELETE, VARVITE_UPSERT, VARVITE_INSERT_VALUE, VARVITE_DELETE_RANGE or
    // VARVITE_DELETE_PREFIX.
    uint32_t kind;
    // The key, the first one of a range, or the prefix.
    struct varvite_bytes key;
    // The value to insert or to upsert, or the key before which a range ends; else nothing is read here.
    struct varvite_bytes value;
    // The value of VARVITE_INSERT_VALUE; else nothing is read here.
    struct varvite_value *held;
} varvite_operation;

// A batch for one of several tables.
typedef struct varvite_table_update {
    // Which table; each only once.
    struct varvite_table *table;
    // The operations, in order.
    const struct varvite_operation *operations;
    // How many there are.
    size_t count;
} varvite_table_update;

// Where a range of keys begins or ends. NULL for none is the same as VARVITE_UNBOUNDED.
typedef struct varvite_bound {
    // VARVITE_UNBOUNDED, VARVITE_INCLUDED or VARVITE_EXCLUDED.
    uint32_t kind;
    // The key, unless there is no bound.
    struct varvite_bytes key;
} varvite_bound;

// Sizes and debts of a table at one moment.
typedef struct varvite_table_stats {
    // Bound keys: an estimate.
    uint64_t logical_entries;
    // Fewest keys that may be bound.
    uint64_t logical_entries_min;
    // Most keys that may be bound.
    uint64_t logical_entries_max;
    // Entries of every kind in buffers and runs: exact.
    uint64_t physical_entries;
    // Bytes of all finished segment files.
    uint64_t disk_bytes;
    // Blob files that its segments refer to.
    uint64_t blob_files;
    // Bytes of these files.
    uint64_t blob_disk_bytes;
    // Bytes of entries in write buffers.
    uint64_t buffer_bytes;
    // Memory of the filters that are loaded.
    uint64_t filter_memory_bytes;
    // Memory of the indexes that are loaded.
    uint64_t index_memory_bytes;
    // Bytes of entries that merges have left to read.
    uint64_t debt_bytes;
    // Of these, what is left of a pending union.
    uint64_t union_debt_bytes;
    // Levels that have anything.
    uint64_t levels;
} varvite_table_stats;

// What a snapshot is to hold.
typedef struct varvite_snapshot_content {
    // The program's mark, which opening can ask for; NULL is the same as "".
    const char *label;
    // Bytes of the program's own, at most 16 MiB: what must be in step with the tables.
    struct varvite_bytes payload;
    // Tables of the session, each with a name of its own.
    struct varvite_table *const *tables;
    // How many there are.
    size_t table_count;
} varvite_snapshot_content;

// What a listing says of a snapshot.
typedef struct varvite_snapshot_info {
    // Which save of the session it is: of two, the later one has the greater number.
    uint64_t sequence;
    // Bytes of the program's payload.
    uint64_t payload_bytes;
    // Bytes of the manifest and of all files that it names, shared ones included.
    uint64_t disk_bytes;
    // How many tables it has.
    uint64_t tables;
    // 1 when its manifest cannot be read, and the rest is empty; else 0.
    int is_damaged;
} varvite_snapshot_info;

// What an export or an import moved.
typedef struct varvite_transferred {
    // Segment files and blob files.
    uint64_t segments;
    // Their length together.
    uint64_t bytes;
    // Bytes of those that had to be copied; the others share their blocks with the source.
    uint64_t copied_bytes;
} varvite_transferred;

// What a backup has.
typedef struct varvite_backed_up {
    // Live tables.
    uint64_t tables;
    // Segment files and blob files that came.
    uint64_t segments;
    // Their length together.
    uint64_t bytes;
    // Bytes of those that had to be copied; the others share their blocks with the source.
    uint64_t copied_bytes;
    // Segment files and blob files that an earlier backup had brought.
    uint64_t kept_segments;
    // Their length together.
    uint64_t kept_bytes;
    // Updates in the log that was copied.
    uint64_t log_records;
    // Bytes of it.
    uint64_t log_bytes;
} varvite_backed_up;

// What a repair kept and lost.
typedef struct varvite_repaired {
    // 1 when the file `session` was lost or damaged; else 0.
    int session_was_lost;
    // Snapshots that were kept.
    uint64_t snapshots;
    // Live tables that were kept.
    uint64_t live_tables;
    // Of these, those that have all updates, as far as can be known.
    uint64_t whole_live_tables;
    // Files that were damaged or lost.
    uint64_t losses;
    // Segment files and blob files that were linked or copied.
    uint64_t segments;
    // Their length together.
    uint64_t bytes;
    // Bytes of those that had to be copied.
    uint64_t copied_bytes;
    // Records of the log that were kept.
    uint64_t log_records;
    // Records that seem to lie behind a bad one, and cannot be read for it.
    uint64_t log_records_behind;
} varvite_repaired;

// A batch for one of several shared tables.
typedef struct varvite_named_update {
    // Which table; each only once.
    const char *name;
    // The operations, in order.
    const struct varvite_operation *operations;
    // How many there are.
    size_t count;
} varvite_named_update;

// The shape of directories, on which hashes depend. NULL is that of Tezos: 32, 256, seeded hash.
typedef struct varvite_configuration {
    // The branching factor of large directories.
    uint32_t entries;
    // The most entries of a directory that is hashed flat.
    uint32_t stable_hash;
    // How a name chooses its bucket: one of VARVITE_ORDER_….
    uint32_t child_order;
} varvite_configuration;

// What an operation cost.
typedef struct varvite_cost {
    // Bytes of the pack read from the disk.
    uint64_t bytes_read;
    // Bytes handed to the disk.
    uint64_t bytes_written;
    // Directory pieces found in memory.
    uint64_t node_hits;
    // Directory pieces that were decoded.
    uint64_t node_misses;
    // Pages of the pack found in memory.
    uint64_t page_hits;
    // Pages of the pack that were read.
    uint64_t page_misses;
    // Time in syncs of the pack, in nanoseconds.
    uint64_t sync_ns;
} varvite_cost;

// Gets the cost of every operation, timed by the program's own clock. Must not call the library.
typedef struct varvite_context_observer {
    // The program's clock, in nanoseconds from any fixed point.
    uint64_t (*now_ns)(void *user);
    // One of VARVITE_CONTEXT_… took `duration_ns` and `cost`; `prefix` has the first steps of the path.
    void (*record)(void *user,
                   uint32_t operation,
                   const struct varvite_bytes *prefix,
                   size_t steps,
                   uint64_t duration_ns,
                   const struct varvite_cost *cost);
    // As a `varvite_release`, for each call that was given this; may be NULL.
    void (*release)(void *user);
    // What the callbacks get. Several threads may use it at once.
    void *user;
} varvite_context_observer;

// How a store is made and used. Begin with `varvite_store_options_default`.
typedef struct varvite_store_options {
    // Bytes of this struct, as the defaults say.
    uint32_t size;
    // The shape of directories; only used when the store is created.
    struct varvite_configuration configuration;
    // What the index knows: one of VARVITE_INDEX_…; only used when the store is created.
    uint32_t index;
    // When a commit is durable: one of VARVITE_DURABILITY_….
    uint32_t durability;
    // Memory for nodes, in bytes.
    uint64_t objects_bytes;
    // Memory for hashes of the children of nodes, in bytes.
    uint64_t hashes_bytes;
    // Memory for pages of the pack, in bytes, unless `cache` is given.
    uint64_t pages_bytes;
    // Memory for the index, in bytes: write buffers, filters, merges and pages.
    uint64_t index_bytes;
    // Bytes of changes that a working tree holds before it spills them to the pack.
    uint64_t tree_bytes;
    // A chunk of the pack longer than this is followed by another.
    uint64_t chunk_bytes;
    // Identity of a store that is created; 0 has the disk draw it. Only tests give one.
    uint64_t seed;
    // A page cache to share; or NULL.
    struct varvite_cache *cache;
    // Is told of every operation; or NULL.
    const struct varvite_context_observer *observer;
    // The most files of the pack that are open; 0: as many as the system lets the process have.
    uint64_t max_open_files;
    // A folder on another disk for old chunks, to which `varvite_store_archive` moves them; or NULL.
    struct varvite_disk *lower;
    // Writes down every call; or NULL.
    struct varvite_recorder *recorder;
} varvite_store_options;

// What a commit says beside its tree.
typedef struct varvite_commit_info {
    // The parents' hashes; they need not be in the store.
    const struct varvite_hash *parents;
    // How many there are.
    size_t parent_count;
    // Seconds since 1970.
    int64_t date;
    // Who commits.
    struct varvite_bytes author;
    // Why.
    struct varvite_bytes message;
} varvite_commit_info;

// A commit that is in a store.
typedef struct varvite_commit {
    // Its hash.
    struct varvite_hash hash;
    // The hash of its tree.
    struct varvite_hash tree;
    // Seconds since 1970.
    int64_t date;
    // How many commits the store took before it.
    uint64_t sequence;
    // How many parents it has.
    uint64_t parents;
} varvite_commit;

// How far the past of commits is looked into. NULL for the defaults.
typedef struct varvite_limits {
    // Commits that are read at most.
    size_t commits;
    // Lowest common ancestors at most.
    size_t bases;
} varvite_limits;

// What was checked, and found right.
typedef struct varvite_checked {
    // Commits.
    uint64_t commits;
    // Pieces of directories.
    uint64_t nodes;
    // Values that are not inside their directory.
    uint64_t values;
    // Commits that the index knows and garbage collection took; none in a store of varvite.
    uint64_t collected;
} varvite_checked;

// What a store did and holds.
typedef struct varvite_store_stats {
    // Commits found by hash.
    uint64_t commits;
    // Objects found by hash; 0 with the minimal index.
    uint64_t objects;
    // Bytes of all chunks of the pack.
    uint64_t pack_bytes;
    // Bytes of the index on disk.
    uint64_t index_bytes;
    // Bytes handed to the disk since the store was opened.
    uint64_t written_bytes;
    // Syncs asked for since the store was opened, those of checkpoints and of the index included.
    uint64_t syncs;
    // Those of them that the index asked for.
    uint64_t index_syncs;
    // Memory that nodes take.
    uint64_t objects_bytes;
    // Chunks of the pack.
    uint64_t chunks;
    // How often the store was cleared.
    uint64_t epoch;
    // How often a collection ended.
    uint64_t generation;
} varvite_store_stats;

// How far a collection is.
typedef struct varvite_collect_status {
    // VARVITE_COLLECT_NONE, VARVITE_COLLECT_MARKING or VARVITE_COLLECT_CLEANING.
    uint32_t phase;
    // 1 when its steps do nothing until it is resumed.
    int is_paused;
    // 1 when `target` is known.
    int has_target;
    // The commit from which on all stays.
    struct varvite_hash target;
    // Chunks that it has not passed, of those that it looks at now.
    uint64_t chunks_left;
    // Bytes of files that it has still to look at.
    uint64_t left_bytes;
    // Bytes of files that it has put others in the place of, less those of the others, since the store was opened.
    uint64_t reclaimed_bytes;
    // How many have ended.
    uint64_t collections;
} varvite_collect_status;

// Is told how many `bytes` of a file of commits were read or written, and how many it has, 0 while it is written.
// Anything but 0 ends the work, and the call returns VARVITE_CALLBACK.
typedef int (*varvite_watch_file)(void *user, uint64_t bytes, uint64_t total);

// What a file of commits holds.
typedef struct varvite_commit_file {
    // The commit; of several, the last one.
    struct varvite_hash commit;
    // The hash of its content: the same for the same commits, whoever wrote the file, and however it is compressed.
    struct varvite_hash hash;
    // How many commits.
    uint64_t commits;
    // Bytes of all records.
    uint64_t stream_bytes;
    // Bytes of the file.
    uint64_t bytes;
} varvite_commit_file;

// A path of a context: the names from the root down.
typedef struct varvite_path {
    // The names.
    const struct varvite_bytes *steps;
    // How many there are.
    size_t count;
} varvite_path;

// Gets the path from the start of a fold and what is there. `subtree` is closed when this returns: duplicate it
// to keep it. Anything but 0 ends the fold, which then returns VARVITE_CALLBACK. May call the library; a handle
// that the call itself is using is refused there.
typedef int (*varvite_visit)(void *user,
                             const struct varvite_bytes *path,
                             size_t steps,
                             struct varvite_tree *subtree);

// Gets a value that two trees do not have alike: `before` is NULL when only the second has it, `after` when only
// the first has. Anything but 0 ends the walk, which then returns VARVITE_CALLBACK.
typedef int (*varvite_change)(void *user,
                              const struct varvite_bytes *path,
                              size_t steps,
                              struct varvite_bytes before,
                              struct varvite_bytes after);

// A value that both sides changed, each in its own way; NULL for one that is not there.
typedef struct varvite_sides {
    // What both started from.
    struct varvite_bytes base;
    // What one made of it.
    struct varvite_bytes ours;
    // What the other made of it.
    struct varvite_bytes theirs;
} varvite_sides;

// Says what is to be done about a value that both sides changed: sets `resolution` to one of VARVITE_RESOLVE_…,
// and writes the value to `output` where there is one. Anything but 0 ends the merge, which then returns
// VARVITE_CALLBACK.
typedef int (*varvite_resolve)(void *user,
                               const struct varvite_bytes *path,
                               size_t steps,
                               const struct varvite_sides *sides,
                               uint32_t *resolution,
                               struct varvite_output *output);

// What is proven: reads and changes `tree`, which is closed when this returns, and looks at nothing else. Both who
// makes a proof and who checks it run the same. Anything but 0 is a failure, and the call returns VARVITE_CALLBACK.
typedef int (*varvite_work_on_tree)(void *user, struct varvite_tree *tree);

// A hash, and what it is the hash of.
typedef struct varvite_kinded {
    // VARVITE_VALUE or VARVITE_DIRECTORY.
    uint32_t kind;
    // The hash.
    struct varvite_hash hash;
} varvite_kinded;

// What a proof shows and hides.
typedef struct varvite_proof_summary {
    // Values.
    uint64_t values;
    // Bytes of those values.
    uint64_t value_bytes;
    // Values of which only the hash is there.
    uint64_t hidden_values;
    // Directories, as far as at least one piece of each is there.
    uint64_t directories;
    // Names in the pieces that are there.
    uint64_t names;
    // Directories of which only the hash is there.
    uint64_t hidden_directories;
    // Pieces of directories of which only the hash is there.
    uint64_t hidden_pieces;
} varvite_proof_summary;

// How a store of Irmin is opened. Begin with `varvite_irmin_options_default`.
typedef struct varvite_irmin_options {
    // Bytes of this struct, as the defaults say.
    uint32_t size;
    // The shape of directories, which the folder does not say.
    struct varvite_configuration configuration;
    // Whether what is read is hashed again: VARVITE_IRMIN_VERIFY_HASHES or VARVITE_IRMIN_TRUST.
    uint32_t verify;
    // The folder of the lower layer; NULL for `lower` in the store's folder.
    struct varvite_disk *lower;
    // Memory for materialised nodes, in bytes.
    uint64_t objects_bytes;
    // Memory for pages of the files, in bytes.
    uint64_t pages_bytes;
} varvite_irmin_options;

// How far a migration is.
typedef struct varvite_migrated {
    // Commits that were copied.
    uint64_t commits;
    // Commits that were there before.
    uint64_t present;
    // Commits that garbage collection took.
    uint64_t collected;
    // Commits that were found in the pack, because the index lacks them.
    uint64_t unindexed;
    // Values that were added, changed or removed.
    uint64_t changes;
    // Branches that were set.
    uint64_t branches;
    // Offset of the commit that is copied now.
    uint64_t offset;
    // Offset behind the last object of the store.
    uint64_t end;
} varvite_migrated;

// Is told how far a migration is. Anything but 0 ends it, and the call returns VARVITE_CALLBACK.
typedef int (*varvite_watch_migration)(void *user, const struct varvite_migrated *migrated);

// What an export wrote.
typedef struct varvite_exported {
    // Commits.
    uint64_t commits;
    // Objects, commits included.
    uint64_t objects;
    // Bytes of all objects.
    uint64_t bytes;
    // Branches.
    uint64_t branches;
} varvite_exported;

// Is told how far an export is. Anything but 0 ends it, and the call returns VARVITE_CALLBACK.
typedef int (*varvite_watch_export)(void *user, const struct varvite_exported *exported);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The interface's version in the library, to be compared with VARVITE_ABI_VERSION of the header.
uint32_t varvite_abi_version(void);

// The library's release, as "0.1.0". Not to be freed.
const char *varvite_library_version(void);

// The name of a status, as "corrupt"; "unknown" for what is none. Not to be freed.
const char *varvite_status_name(int status);

// A folder as a disk. With `create` it is made, and those above it; without, a folder that is missing
// is VARVITE_MISSING.
int varvite_disk_folder(const char *folder,
                        int create,
                        struct varvite_disk **disk,
                        struct varvite_error *error);

// A disk in memory, gone with its last user. What is drawn at random on a disk follows from `seed`, so the
// same operations give the same bytes.
int varvite_disk_memory(uint64_t seed,
                        struct varvite_disk **disk,
                        struct varvite_error *error);

// Closes a disk. Sessions and stores on it stay open.
int varvite_disk_close(struct varvite_disk *disk, struct varvite_error *error);

// A cache of at most so many bytes. VARVITE_INVALID for more than the memory of the machine.
int varvite_cache_new(uint64_t budget_bytes,
                      struct varvite_cache **cache,
                      struct varvite_error *error);

// What a cache did and holds.
int varvite_cache_get_stats(struct varvite_cache *cache,
                            struct varvite_cache_stats *stats,
                            struct varvite_error *error);

// Closes a cache. Who shares it keeps it.
int varvite_cache_close(struct varvite_cache *cache, struct varvite_error *error);

// Writes a hash as people see it, `Co…`, 52 characters and NUL into `text`.
int varvite_hash_text(const struct varvite_hash *hash, char *text, struct varvite_error *error);

// Reads a hash from its text, `Co…`, or from 64 hex digits.
int varvite_hash_parse(const char *text, struct varvite_hash *hash, struct varvite_error *error);

// Frees an arena's memory and makes it all zeros, so freeing it twice does nothing more.
int varvite_arena_free(struct varvite_arena *arena, struct varvite_error *error);

// Begins a trace in a new file `path` of `disk`, for the options of sessions and stores, which may share it.
int varvite_recorder_create(struct varvite_disk *disk,
                            const char *path,
                            struct varvite_recorder **recorder,
                            struct varvite_error *error);

// Says where the program is in its load: the name of the block that begins.
int varvite_recorder_mark(struct varvite_recorder *recorder,
                          const char *name,
                          struct varvite_error *error);

// Says what the program measured: "cpu_ns", "rss_bytes" and others of docs/format/trace.md, or a name of its own.
int varvite_recorder_sample(struct varvite_recorder *recorder,
                            const char *name,
                            uint64_t number,
                            struct varvite_error *error);

// Writes what is left and syncs the file; `calls` is how many it has. What is called afterwards is recorded too. The
// first error of the recording, if there was one: calls themselves do not fail for it.
int varvite_recorder_finish(struct varvite_recorder *recorder,
                            uint64_t *calls,
                            struct varvite_error *error);

// Lets go of the recorder. What was opened with it goes on to be recorded, but is not synced any more.
int varvite_recorder_close(struct varvite_recorder *recorder,
                           struct varvite_error *error);

// Appends `length` bytes to the answer of the callback that got `output`.
int varvite_output_write(struct varvite_output *output, const uint8_t *data, size_t length);

// A merge operator of the program's, called `name` in what is stored: give it again where a table that has
// it is opened. `release` is called with `user` when nothing needs it any more.
int varvite_operator_new(const char *name,
                         varvite_join join,
                         varvite_release release,
                         void *user,
                         struct varvite_operator **merge_operator,
                         struct varvite_error *error);

// A built-in merge operator: "add-u64", "max" or "append".
int varvite_operator_built_in(const char *name,
                              struct varvite_operator **merge_operator,
                              struct varvite_error *error);

// Closes an operator. Tables that have it keep it.
int varvite_operator_close(struct varvite_operator *merge_operator, struct varvite_error *error);

// Does a piece of work and closes it. VARVITE_CALLBACK when a merge operator failed in it: the writer does it then, and
// its update fails likewise if the operator still does.
int varvite_work_run(struct varvite_work *work,
                     struct varvite_error *error);

// Gives a piece of work back undone: the writer does it.
int varvite_work_close(struct varvite_work *work, struct varvite_error *error);

// Sets the defaults of a session.
int varvite_session_options_default(struct varvite_session_options *options,
                                    struct varvite_error *error);

// Sets the defaults of a table.
int varvite_table_options_default(struct varvite_table_options *options,
                                  struct varvite_error *error);

// Sets the configuration for a UTxO set: outputs that are looked up are there.
int varvite_table_options_utxo(struct varvite_table_options *options, struct varvite_error *error);

// Changes the options so that a table keeps within `bytes` of memory, a cache counted apart.
int varvite_table_options_within_memory(uint64_t bytes,
                                        struct varvite_table_options *options,
                                        struct varvite_error *error);

// Sets the defaults of opening.
int varvite_open_options_default(struct varvite_open_options *options, struct varvite_error *error);

// Makes a session in the root folder of `disk`, which must be empty, and opens it. `options` may be NULL.
int varvite_session_create(struct varvite_disk *disk,
                           const struct varvite_session_options *options,
                           struct varvite_session **session,
                           struct varvite_error *error);

// Opens a session for writing. VARVITE_MISSING when there is none, VARVITE_LOCKED when another process has it.
// `options` may be NULL.
int varvite_session_open(struct varvite_disk *disk,
                         const struct varvite_session_options *options,
                         struct varvite_session **session,
                         struct varvite_error *error);

// Opens the session in the root folder of `disk` for writing, or makes it where there is none. VARVITE_LOCKED when
// another process has it, VARVITE_INVALID when the folder holds something else. `options` may be NULL.
int varvite_session_open_or_create(struct varvite_disk *disk,
                                   const struct varvite_session_options *options,
                                   struct varvite_session **session,
                                   struct varvite_error *error);

// Opens a session for reading snapshots, also while another process writes. Changes nothing. `options` may
// be NULL.
int varvite_session_open_read_only(struct varvite_disk *disk,
                                   const struct varvite_session_options *options,
                                   struct varvite_session **session,
                                   struct varvite_error *error);

// Ends a session. Live tables are durable then; of the others, what is in no snapshot is gone. Its tables and
// views give VARVITE_CLOSED from now on, and are closed as always. The handle is closed also after an error.
int varvite_session_close(struct varvite_session *session,
                          struct varvite_error *error);

// What was found wrong at opening, and which live tables the last checkpoint could not write: sentences.
int varvite_session_warnings(struct varvite_session *session,
                             struct varvite_arena *warnings,
                             struct varvite_error *error);

// Whether a sync failed, so that updates give VARVITE_POISONED: 0 or 1.
int varvite_session_is_poisoned(struct varvite_session *session,
                                int *is_poisoned,
                                struct varvite_error *error);

// Has updates do no merging until `varvite_session_resume_merges`; one that would have a table hold more than so
// many bytes in memory is refused.
int varvite_session_pause_merges(struct varvite_session *session,
                                 uint64_t buffered_bytes_max,
                                 struct varvite_error *error);

// Has updates merge again.
int varvite_session_resume_merges(struct varvite_session *session, struct varvite_error *error);

// Whether merges are paused: 0 or 1.
int varvite_session_merges_are_paused(struct varvite_session *session,
                                      int *are_paused,
                                      struct varvite_error *error);

// Where the session is: one item.
int varvite_session_root(struct varvite_session *session,
                         struct varvite_arena *root,
                         struct varvite_error *error);

// How the filters did, of the youngest level first: `stats` is an array of `capacity` that gets those of as many levels
// at most; `levels` is how many there are.
int varvite_session_get_filter_stats(struct varvite_session *session,
                                     struct varvite_filter_stats *stats,
                                     size_t capacity,
                                     size_t *levels,
                                     struct varvite_error *error);

// What was counted since the session was opened.
int varvite_session_get_stats(struct varvite_session *session,
                              struct varvite_session_stats *stats,
                              struct varvite_error *error);

// A new, empty table. `options` may be NULL. In a session with a log it is live: durable, and found again by
// `varvite_session_open_table`.
int varvite_session_create_table(struct varvite_session *session,
                                 const char *name,
                                 const struct varvite_table_options *options,
                                 struct varvite_table **table,
                                 struct varvite_error *error);

// A table that binds every key that one of `tables` binds, merged before this returns. A key of several gets
// their values joined by the merge operator, the leftmost as the newest; without one, the leftmost's.
int varvite_session_union(struct varvite_session *session,
                          const char *name,
                          struct varvite_table *const *tables,
                          size_t count,
                          struct varvite_table **table,
                          struct varvite_error *error);

// The same, merged bit by bit: updates of the result pay for it, or `varvite_table_supply_union_credits`.
int varvite_session_incremental_union(struct varvite_session *session,
                                      const char *name,
                                      struct varvite_table *const *tables,
                                      size_t count,
                                      struct varvite_table **table,
                                      struct varvite_error *error);

// Checks every byte that snapshots and live tables of the session on `disk` need, also beside its writer.
// `findings` gets two items for each thing that is wrong: the file, and the sentence; none when all is well.
int varvite_session_check(struct varvite_disk *disk,
                          struct varvite_arena *findings,
                          struct varvite_error *error);

// Applies the operations in order, all or none of them. After an error the table is as it was, and the same
// update may be tried again.
int varvite_table_apply(struct varvite_table *table,
                        const struct varvite_operation *operations,
                        size_t count,
                        struct varvite_error *error);

// Applies a batch to each of several tables, all of them or none, also through a crash.
int varvite_session_apply(struct varvite_session *session,
                          const struct varvite_table_update *updates,
                          size_t count,
                          struct varvite_error *error);

// Unbinds every key between the bounds, all or none of them. NULL is no bound.
int varvite_table_delete_range(struct varvite_table *table,
                               const struct varvite_bound *lower,
                               const struct varvite_bound *upper,
                               struct varvite_error *error);

// The table's content of this moment, for any number of readers. O(1).
int varvite_table_view(struct varvite_table *table,
                       struct varvite_view **view,
                       struct varvite_error *error);

// A table called `name` with the same content, independent from now on. O(1).
int varvite_table_duplicate(struct varvite_table *table,
                            const char *name,
                            struct varvite_table **duplicate,
                            struct varvite_error *error);

// The table's name: one item.
int varvite_table_name(struct varvite_table *table,
                       struct varvite_arena *name,
                       struct varvite_error *error);

// The name of the table's merge operator: one item, NULL when it has none.
int varvite_table_operator_name(struct varvite_table *table,
                                struct varvite_arena *name,
                                struct varvite_error *error);

// Whether the table's updates go to the session's log: 0 or 1.
int varvite_table_is_live(struct varvite_table *table, int *is_live, struct varvite_error *error);

// Works ahead on merges by up to `credits` bytes of entries; `left` is how much is left to do.
int varvite_table_work(struct varvite_table *table,
                       uint64_t credits,
                       uint64_t *left,
                       struct varvite_error *error);

// The merging that the last update or `varvite_table_work` did, in bytes of entries.
int varvite_table_last_work(struct varvite_table *table,
                            uint64_t *work,
                            struct varvite_error *error);

// At most how many bytes of entries are left to merge of the union that the table is.
int varvite_table_remaining_union_debt(struct varvite_table *table,
                                       uint64_t *debt,
                                       struct varvite_error *error);

// Merges at least `credits` bytes of entries of the union that the table is; `left` is how much is left to do, 0
// when the union is complete.
int varvite_table_supply_union_credits(struct varvite_table *table,
                                       uint64_t credits,
                                       uint64_t *left,
                                       struct varvite_error *error);

// Sizes and debts.
int varvite_table_get_stats(struct varvite_table *table,
                            struct varvite_table_stats *stats,
                            struct varvite_error *error);

// Closes a table. A live one can be opened again; of another, what no snapshot or duplicate has is gone.
int varvite_table_close(struct varvite_table *table,
                        struct varvite_error *error);

// The values of `keys`, in their order: one item a key, NULL for a key that is not bound. All page reads of
// the batch are in flight together.
int varvite_table_lookup(struct varvite_table *table,
                         const struct varvite_bytes *keys,
                         size_t count,
                         struct varvite_arena *found,
                         struct varvite_error *error);

// As `varvite_table_lookup`, of a view.
int varvite_view_lookup(struct varvite_view *view,
                        const struct varvite_bytes *keys,
                        size_t count,
                        struct varvite_arena *found,
                        struct varvite_error *error);

// Every key between the bounds with its value, in key order: two items a key. NULL is no bound. All of them
// are in memory at once; a cursor takes them piece by piece.
int varvite_table_range(struct varvite_table *table,
                        const struct varvite_bound *lower,
                        const struct varvite_bound *upper,
                        struct varvite_arena *entries,
                        struct varvite_error *error);

// As `varvite_table_range`, of a view.
int varvite_view_range(struct varvite_view *view,
                       const struct varvite_bound *lower,
                       const struct varvite_bound *upper,
                       struct varvite_arena *entries,
                       struct varvite_error *error);

// As `varvite_table_lookup`, without reading values that are in blob files: `values` is an array of `count`
// that gets a handle for each key, NULL for one that is not bound. Each is to be closed.
int varvite_table_find(struct varvite_table *table,
                       const struct varvite_bytes *keys,
                       size_t count,
                       struct varvite_value **values,
                       struct varvite_error *error);

// As `varvite_table_find`, of a view.
int varvite_view_find(struct varvite_view *view,
                      const struct varvite_bytes *keys,
                      size_t count,
                      struct varvite_value **values,
                      struct varvite_error *error);

// How many keys are bound, exactly. Reads every page.
int varvite_view_count(struct varvite_view *view, uint64_t *count, struct varvite_error *error);

// Closes a view.
int varvite_view_close(struct varvite_view *view, struct varvite_error *error);

// The length of a value in bytes.
int varvite_value_length(struct varvite_value *value,
                         uint64_t *length,
                         struct varvite_error *error);

// Fills `buffer`, of `capacity` bytes, with the value's bytes from `offset` on; `length` is how many there
// were.
int varvite_value_read_at(struct varvite_value *value,
                          uint64_t offset,
                          uint8_t *buffer,
                          size_t capacity,
                          size_t *length,
                          struct varvite_error *error);

// The bytes of several values of one session, in their order: one item each.
int varvite_session_read_values(struct varvite_session *session,
                                struct varvite_value *const *values,
                                size_t count,
                                struct varvite_arena *found,
                                struct varvite_error *error);

// Closes a value.
int varvite_value_close(struct varvite_value *value, struct varvite_error *error);

// The value of one key: one item, NULL when it is not bound. Several keys are cheaper together.
int varvite_table_get(struct varvite_table *table,
                      const struct varvite_bytes *key,
                      struct varvite_arena *found,
                      struct varvite_error *error);

// As `varvite_table_get`, into memory of the program's: `length` is how many bytes the value has, SIZE_MAX when the key is
// not bound. More than `capacity` of them are not written, and are to be got by `varvite_table_get`. VARVITE_INVALID for a
// value of more than 16 MiB.
int varvite_table_get_into(struct varvite_table *table,
                           const struct varvite_bytes *key,
                           uint8_t *buffer,
                           size_t capacity,
                           size_t *length,
                           struct varvite_error *error);

// As `varvite_table_get_into`, of a view.
int varvite_view_get_into(struct varvite_view *view,
                          const struct varvite_bytes *key,
                          uint8_t *buffer,
                          size_t capacity,
                          size_t *length,
                          struct varvite_error *error);

// A cursor before the first key between the bounds of a table as it is now. NULL is no bound.
int varvite_table_cursor(struct varvite_table *table,
                         const struct varvite_bound *lower,
                         const struct varvite_bound *upper,
                         struct varvite_cursor **cursor,
                         struct varvite_error *error);

// As `varvite_table_cursor`, of a view.
int varvite_view_cursor(struct varvite_view *view,
                        const struct varvite_bound *lower,
                        const struct varvite_bound *upper,
                        struct varvite_cursor **cursor,
                        struct varvite_error *error);

// The next binding, which is passed; NULL at the upper bound. The bytes stay until the cursor's next call.
int varvite_cursor_next(struct varvite_cursor *cursor,
                        struct varvite_bytes *key,
                        struct varvite_bytes *value,
                        struct varvite_error *error);

// The binding before, which is passed; NULL at the lower bound. The bytes stay until the cursor's next call.
int varvite_cursor_previous(struct varvite_cursor *cursor,
                            struct varvite_bytes *key,
                            struct varvite_bytes *value,
                            struct varvite_error *error);

// As `varvite_cursor_next`, without reading a value that is in a blob file.
int varvite_cursor_next_key(struct varvite_cursor *cursor,
                            struct varvite_bytes *key,
                            struct varvite_error *error);

// As `varvite_cursor_previous`, without reading a value that is in a blob file.
int varvite_cursor_previous_key(struct varvite_cursor *cursor,
                                struct varvite_bytes *key,
                                struct varvite_error *error);

// The value of the key that the last step gave. The bytes stay until the cursor's next call.
int varvite_cursor_value(struct varvite_cursor *cursor,
                         struct varvite_bytes *value,
                         struct varvite_error *error);

// Up to `limit` bindings from here on, which are passed: two items a key. None only at the upper bound. What was passed
// before an error is given, and the next call tells the error: the cursor stands before the key that could not be read,
// and a seek forgets it.
int varvite_cursor_next_many(struct varvite_cursor *cursor,
                             size_t limit,
                             struct varvite_arena *entries,
                             struct varvite_error *error);

// Moves before the first key within the bounds that is `key` or greater.
int varvite_cursor_seek(struct varvite_cursor *cursor,
                        const struct varvite_bytes *key,
                        struct varvite_error *error);

// Moves before the first key within the bounds.
int varvite_cursor_seek_first(struct varvite_cursor *cursor, struct varvite_error *error);

// Moves after the last key within the bounds.
int varvite_cursor_seek_last(struct varvite_cursor *cursor, struct varvite_error *error);

// Closes a cursor.
int varvite_cursor_close(struct varvite_cursor *cursor, struct varvite_error *error);

// An iterator over what is between the bounds of a table as it is now, from both ends. NULL is no bound. With
// `keys_only` 1 values are not read; else 0. Nothing is read before it is asked.
int varvite_table_iterate(struct varvite_table *table,
                          const struct varvite_bound *lower,
                          const struct varvite_bound *upper,
                          int keys_only,
                          struct varvite_iterator **iterator,
                          struct varvite_error *error);

// As `varvite_table_iterate`, over the keys that begin with `prefix`.
int varvite_table_iterate_prefix(struct varvite_table *table,
                                 const struct varvite_bytes *prefix,
                                 int keys_only,
                                 struct varvite_iterator **iterator,
                                 struct varvite_error *error);

// As `varvite_table_iterate`, of a view.
int varvite_view_iterate(struct varvite_view *view,
                         const struct varvite_bound *lower,
                         const struct varvite_bound *upper,
                         int keys_only,
                         struct varvite_iterator **iterator,
                         struct varvite_error *error);

// As `varvite_table_iterate_prefix`, of a view.
int varvite_view_iterate_prefix(struct varvite_view *view,
                                const struct varvite_bytes *prefix,
                                int keys_only,
                                struct varvite_iterator **iterator,
                                struct varvite_error *error);

// Up to `limit` bindings from the front, or keys: two items each, or one. None only where the two ends meet. What comes
// before an error is given, and the next call tells the error, which is the last that the iterator gives.
int varvite_iterator_next(struct varvite_iterator *iterator,
                          size_t limit,
                          struct varvite_arena *items,
                          struct varvite_error *error);

// As `varvite_iterator_next`, from the back: the greatest key first.
int varvite_iterator_next_back(struct varvite_iterator *iterator,
                               size_t limit,
                               struct varvite_arena *items,
                               struct varvite_error *error);

// Closes an iterator.
int varvite_iterator_close(struct varvite_iterator *iterator, struct varvite_error *error);

// Saves tables as the snapshot `name`, whole or not at all. VARVITE_EXISTS when the name is taken.
int varvite_session_save_snapshot(struct varvite_session *session,
                                  const char *name,
                                  const struct varvite_snapshot_content *content,
                                  struct varvite_error *error);

// Opens the snapshot `name`. `options` may be NULL.
int varvite_session_open_snapshot(struct varvite_session *session,
                                  const char *name,
                                  const struct varvite_open_options *options,
                                  struct varvite_snapshot **snapshot,
                                  struct varvite_error *error);

// The names of all snapshots, in order.
int varvite_session_snapshots(struct varvite_session *session,
                              struct varvite_arena *names,
                              struct varvite_error *error);

// What is known of the snapshot `name` without opening it. `texts` gets its label, what is wrong with its
// manifest (NULL when nothing is), then the names of its tables.
int varvite_session_snapshot_info(struct varvite_session *session,
                                  const char *name,
                                  struct varvite_snapshot_info *info,
                                  struct varvite_arena *texts,
                                  struct varvite_error *error);

// Deletes the snapshot `name`. Tables opened from it stay usable.
int varvite_session_delete_snapshot(struct varvite_session *session,
                                    const char *name,
                                    struct varvite_error *error);

// Exports the snapshot `name` to the root folder of `target`, which must be empty: it becomes a session with
// that one snapshot. `verify` is one of VARVITE_VERIFY_…; `transferred` may be NULL.
int varvite_session_export_snapshot(struct varvite_session *session,
                                    const char *name,
                                    struct varvite_disk *target,
                                    uint32_t verify,
                                    struct varvite_transferred *transferred,
                                    struct varvite_error *error);

// Imports the snapshot `name` of the session in the root folder of `source` as the snapshot `new_name`.
int varvite_session_import_snapshot(struct varvite_session *session,
                                    struct varvite_disk *source,
                                    const char *name,
                                    const char *new_name,
                                    uint32_t verify,
                                    struct varvite_transferred *transferred,
                                    struct varvite_error *error);

// Takes the table `name` out of an open snapshot. It can be updated; the snapshot stays as it is.
int varvite_snapshot_take(struct varvite_snapshot *snapshot,
                          const char *name,
                          struct varvite_table **table,
                          struct varvite_error *error);

// The label: one item.
int varvite_snapshot_label(struct varvite_snapshot *snapshot,
                           struct varvite_arena *label,
                           struct varvite_error *error);

// The payload: one item.
int varvite_snapshot_payload(struct varvite_snapshot *snapshot,
                             struct varvite_arena *payload,
                             struct varvite_error *error);

// The names of the tables that were not taken yet, in the order in which they were saved.
int varvite_snapshot_tables(struct varvite_snapshot *snapshot,
                            struct varvite_arena *names,
                            struct varvite_error *error);

// Closes an open snapshot. Tables that were taken out stay open.
int varvite_snapshot_close(struct varvite_snapshot *snapshot, struct varvite_error *error);

// The names of the live tables, in order.
int varvite_session_live_tables(struct varvite_session *session,
                                struct varvite_arena *names,
                                struct varvite_error *error);

// Opens the live table `name` as it was last updated. VARVITE_LOCKED while another handle to it is open.
// `options` may be NULL.
int varvite_session_open_table(struct varvite_session *session,
                               const char *name,
                               const struct varvite_open_options *options,
                               struct varvite_table **table,
                               struct varvite_error *error);

// Opens the live table `name`, or makes it where there is none. One that is there keeps the options that it was made
// with; the operator of `options` has to be its own. VARVITE_LOCKED while another handle to it is open,
// VARVITE_INVALID in a session without a log. `options` may be NULL.
int varvite_session_open_or_create_table(struct varvite_session *session,
                                         const char *name,
                                         const struct varvite_table_options *options,
                                         struct varvite_table **table,
                                         struct varvite_error *error);

// Makes durable every update of a live table whose call has returned, by one sync or none: for a program that logs with
// VARVITE_LOG_WRITTEN and says itself when. Updates go on meanwhile. VARVITE_INVALID without a log; after VARVITE_IO
// nobody knows what is durable, so all that write say VARVITE_POISONED until the session is opened again.
int varvite_session_sync_log(struct varvite_session *session,
                             struct varvite_error *error);

// Makes `table` live under its name: for duplicates, and for tables from snapshots.
int varvite_session_publish(struct varvite_session *session,
                            struct varvite_table *table,
                            struct varvite_error *error);

// Deletes the live table `name`. VARVITE_LOCKED while a handle to it is open.
int varvite_session_delete_table(struct varvite_session *session,
                                 const char *name,
                                 struct varvite_error *error);

// Opens every live table, in the order of their names, in one pass over the log: `tables` is an array of `capacity`
// that gets the handles, `count` is how many. When there are more than `capacity` it opens none, gives VARVITE_INVALID,
// and `count` is set all the same, to how many there are. `options` may be NULL.
int varvite_session_open_all(struct varvite_session *session,
                             const struct varvite_open_options *options,
                             struct varvite_table **tables,
                             size_t capacity,
                             size_t *count,
                             struct varvite_error *error);

// Follows the live tables of a session that was opened to read, beside the process that updates them: all tables are as
// they were at one moment. `options` may be NULL. VARVITE_INVALID in a session that writes.
int varvite_session_follow(struct varvite_session *session,
                           const struct varvite_open_options *options,
                           struct varvite_follower **follower,
                           struct varvite_error *error);

// Goes on to what the log has now; `is_other` says whether that is another moment than before, 0 or 1. Views that were
// taken stay as they are. After an error the tables are as they were, and it may be tried again.
int varvite_follower_reload(struct varvite_follower *follower,
                            int *is_other,
                            struct varvite_error *error);

// The names of the live tables, in order.
int varvite_follower_tables(struct varvite_follower *follower,
                            struct varvite_arena *names,
                            struct varvite_error *error);

// The content of the live table `name` at this moment.
int varvite_follower_view(struct varvite_follower *follower,
                          const char *name,
                          struct varvite_view **view,
                          struct varvite_error *error);

// Closes a follower. Views that were taken stay open.
int varvite_follower_close(struct varvite_follower *follower, struct varvite_error *error);

// Backs up all live tables, as they are at one moment, to the root folder of `target`: one that is empty, or has an
// earlier backup of this session, which becomes the new one. Updates go on meanwhile. `verify` is one of
// VARVITE_VERIFY_…; `backed_up` may be NULL. `varvite_session_open` opens the backup.
int varvite_session_backup(struct varvite_session *session,
                           struct varvite_disk *target,
                           uint32_t verify,
                           struct varvite_backed_up *backed_up,
                           struct varvite_error *error);

// Makes a new session in the root folder of `target`, which is empty, of what is whole in the one in that of `source`,
// which nobody writes to. With `skip_damaged` 1 a table or snapshot with damaged segments is kept without their entries;
// with 0 it is left out. `seed` is as of the options of a session. `losses` gets four items for each file that is damaged
// or lost: its name, a sentence, and the keys between which entries are missing or older, both included, or NULL twice.
// `repaired` may be NULL.
int varvite_session_repair(struct varvite_disk *source,
                           struct varvite_disk *target,
                           int skip_damaged,
                           uint64_t seed,
                           struct varvite_repaired *repaired,
                           struct varvite_arena *losses,
                           struct varvite_error *error);

// Begins a table that is loaded whole from a stream. With `sort_bytes` 0 the keys come in order; else they come
// in any, and are sorted with about so many bytes of memory. `options` may be NULL.
int varvite_session_load_table(struct varvite_session *session,
                               const char *name,
                               const struct varvite_table_options *options,
                               uint64_t sort_bytes,
                               struct varvite_loader **loader,
                               struct varvite_error *error);

// Adds `count` keys with their values, two items each as a range gives them: the range's count is twice this one.
// After an error those before the one that was refused are in; `pushed` says how many, also then. It may be NULL.
int varvite_loader_push(struct varvite_loader *loader,
                        const struct varvite_bytes *entries,
                        size_t count,
                        size_t *pushed,
                        struct varvite_error *error);

// Makes the table of what was pushed, and closes the loader, also after an error.
int varvite_loader_finish(struct varvite_loader *loader,
                          struct varvite_table **table,
                          struct varvite_error *error);

// How many keys were pushed.
int varvite_loader_count(struct varvite_loader *loader,
                         uint64_t *count,
                         struct varvite_error *error);

// Closes a loader; what was pushed is gone.
int varvite_loader_close(struct varvite_loader *loader, struct varvite_error *error);

// Begins a value that comes in pieces, up to 1 TiB.
int varvite_session_write_value(struct varvite_session *session,
                                struct varvite_value_writer **writer,
                                struct varvite_error *error);

// Appends a piece.
int varvite_value_writer_write(struct varvite_value_writer *writer,
                               const struct varvite_bytes *piece,
                               struct varvite_error *error);

// Makes the value, to be inserted with VARVITE_INSERT_VALUE, and closes the writer, also after an error.
int varvite_value_writer_finish(struct varvite_value_writer *writer,
                                struct varvite_value **value,
                                struct varvite_error *error);

// Closes a writer; what was written is gone.
int varvite_value_writer_close(struct varvite_value_writer *writer, struct varvite_error *error);

// Puts tables behind one handle that any number of threads may use at once: everybody reads, one at a time writes, and
// readers never wait. The tables' own handles are closed then; after an error they are open as before. VARVITE_INVALID
// when a table is of another session, or two have one name.
int varvite_session_share(struct varvite_session *session,
                          struct varvite_table *const *tables,
                          size_t count,
                          struct varvite_tables **shared,
                          struct varvite_error *error);

// Opens every live table, behind one handle. `options` may be NULL.
int varvite_session_open_shared(struct varvite_session *session,
                                const struct varvite_open_options *options,
                                struct varvite_tables **shared,
                                struct varvite_error *error);

// The names of the tables, in order.
int varvite_tables_names(struct varvite_tables *tables,
                         struct varvite_arena *names,
                         struct varvite_error *error);

// The content of the tables of these names at one moment, after the last update that stands: `views` is an array of
// `count` that gets a handle for each. Waits for no writer. VARVITE_MISSING when there is no table of a name.
int varvite_tables_views(struct varvite_tables *tables,
                         const char *const *names,
                         size_t count,
                         struct varvite_view **views,
                         struct varvite_error *error);

// As `varvite_table_lookup`, of table `name` after the last update that stands.
int varvite_tables_lookup(struct varvite_tables *tables,
                          const char *name,
                          const struct varvite_bytes *keys,
                          size_t count,
                          struct varvite_arena *found,
                          struct varvite_error *error);

// Applies a batch to each of several tables, all of them or none, also through a crash. Waits while others write.
int varvite_tables_commit(struct varvite_tables *tables,
                          const struct varvite_named_update *updates,
                          size_t count,
                          struct varvite_error *error);

// Begins a transaction, which reads what it wrote, as the only one who writes until `varvite_transaction_commit` or
// `varvite_transaction_close`. Any thread may use it, one at a time. Waits while others write, as do the other calls on a
// shared handle that say so. They wait for an open transaction too, whichever thread began it; when nothing was done
// through that for as long as `varvite_tables_set_patience` says they are VARVITE_BUSY, because it may be the caller's
// own, and have changed nothing. A callback whose call has a store in use does not wait: VARVITE_BUSY at once while others
// write.
int varvite_tables_begin(struct varvite_tables *tables,
                         struct varvite_transaction **transaction,
                         struct varvite_error *error);

// The same if nobody writes just now; else `transaction` is NULL.
int varvite_tables_try_begin(struct varvite_tables *tables,
                             struct varvite_transaction **transaction,
                             struct varvite_error *error);

// How many milliseconds who waits for a transaction has patience while nothing is done through it: 10,000 unless it is
// said otherwise, 0 for none at all, UINT64_MAX for as long as it takes.
int varvite_tables_set_patience(struct varvite_tables *tables,
                                uint64_t milliseconds,
                                struct varvite_error *error);

// Works ahead on merges by up to `credits` bytes of entries; `left` is how much is left to do. Waits while others write.
int varvite_tables_work(struct varvite_tables *tables,
                        uint64_t credits,
                        uint64_t *left,
                        struct varvite_error *error);

// Adds a table of the session, whose own handle is closed then; after an error it is open as before. VARVITE_INVALID when
// there is one of its name, or it is of another session. Waits while others write.
int varvite_tables_add(struct varvite_tables *tables,
                       struct varvite_table *table,
                       struct varvite_error *error);

// Takes table `name` out. Views that were taken keep what they have. Waits while others write.
int varvite_tables_remove(struct varvite_tables *tables,
                          const char *name,
                          struct varvite_table **table,
                          struct varvite_error *error);

// Saves all of the tables, as they are between two updates, as the snapshot `name`. `label` may be NULL, `payload` too.
// Waits while others write.
int varvite_tables_save_snapshot(struct varvite_tables *tables,
                                 const char *name,
                                 const char *label,
                                 const struct varvite_bytes *payload,
                                 struct varvite_error *error);

// Closes a shared handle, and with its last transaction the tables. Live ones can be opened again. Calls that wait while
// others write are VARVITE_CLOSED then; an open transaction goes on.
int varvite_tables_close(struct varvite_tables *tables,
                         struct varvite_error *error);

// Adds operations to those of table `name`.
int varvite_transaction_apply(struct varvite_transaction *transaction,
                              const char *name,
                              const struct varvite_operation *operations,
                              size_t count,
                              struct varvite_error *error);

// As `varvite_table_lookup`, of table `name` with what the transaction wrote.
int varvite_transaction_lookup(struct varvite_transaction *transaction,
                               const char *name,
                               const struct varvite_bytes *keys,
                               size_t count,
                               struct varvite_arena *found,
                               struct varvite_error *error);

// Table `name` with what the transaction wrote so far; what it writes later is not in it.
int varvite_transaction_view(struct varvite_transaction *transaction,
                             const char *name,
                             struct varvite_view **view,
                             struct varvite_error *error);

// Makes everything that the transaction wrote stand, all of it or nothing, also through a crash. The handle is closed then,
// also after an error, which leaves the tables as they were before the transaction.
int varvite_transaction_commit(struct varvite_transaction *transaction,
                               struct varvite_error *error);

// Drops what the transaction wrote, and closes its handle.
int varvite_transaction_close(struct varvite_transaction *transaction, struct varvite_error *error);

// Begins to read everything that the session keeps: manifests, the log, and every page of its files. `from` is what
// `varvite_scrub_place` gave of a scrub that was left, or 0.
int varvite_session_scrub(struct varvite_session *session,
                          uint64_t from,
                          struct varvite_scrub **scrub,
                          struct varvite_error *error);

// Reads on, about `pages` pages of 4 KiB; `left` is how many there are still, 0 at the end.
int varvite_scrub_work(struct varvite_scrub *scrub,
                       uint64_t pages,
                       uint64_t *left,
                       struct varvite_error *error);

// What is damaged, of what was read so far: two items a finding, the file and a sentence.
int varvite_scrub_findings(struct varvite_scrub *scrub,
                           struct varvite_arena *findings,
                           struct varvite_error *error);

// From where another scrub goes on, also of another process.
int varvite_scrub_place(struct varvite_scrub *scrub, uint64_t *place, struct varvite_error *error);

// Closes a scrub.
int varvite_scrub_close(struct varvite_scrub *scrub, struct varvite_error *error);

// Sets the defaults of a store.
int varvite_store_options_default(struct varvite_store_options *options,
                                  struct varvite_error *error);

// Makes a store in an empty folder and opens it for writing. `options` may be NULL.
int varvite_store_create(struct varvite_disk *disk,
                         const struct varvite_store_options *options,
                         struct varvite_store **store,
                         struct varvite_error *error);

// Opens a store for writing. VARVITE_LOCKED when somebody writes to it already. `options` may be NULL.
int varvite_store_open(struct varvite_disk *disk,
                       const struct varvite_store_options *options,
                       struct varvite_store **store,
                       struct varvite_error *error);

// Opens the store in the root folder of `disk` for writing, or makes it where there is none. VARVITE_LOCKED when
// somebody writes to it already, VARVITE_INVALID when the folder holds something else. `options` may be NULL.
int varvite_store_open_or_create(struct varvite_disk *disk,
                                 const struct varvite_store_options *options,
                                 struct varvite_store **store,
                                 struct varvite_error *error);

// Opens a store to read while another process may write to it: as of now, until `varvite_store_reload`. `options`
// may be NULL.
int varvite_store_open_read_only(struct varvite_disk *disk,
                                 const struct varvite_store_options *options,
                                 struct varvite_store **store,
                                 struct varvite_error *error);

// Takes a checkpoint and closes the store. Its trees stay readable. The handle is closed also after an error.
int varvite_store_close(struct varvite_store *store,
                        struct varvite_error *error);

// Sees what another process committed since the store was opened or last reloaded.
int varvite_store_reload(struct varvite_store *store, struct varvite_error *error);

// The shape of the store's directories.
int varvite_store_configuration(struct varvite_store *store,
                                struct varvite_configuration *configuration,
                                struct varvite_error *error);

// What was found wrong with the index, which was then made again: sentences.
int varvite_store_warnings(struct varvite_store *store,
                           struct varvite_arena *warnings,
                           struct varvite_error *error);

// An empty working tree of this store, which spills to the store's pack what is too much for memory.
int varvite_store_empty_tree(struct varvite_store *store,
                             struct varvite_tree **tree,
                             struct varvite_error *error);

// The tree of a commit, loaded as it is looked at. VARVITE_MISSING for an unknown commit.
int varvite_store_checkout(struct varvite_store *store,
                           const struct varvite_hash *commit,
                           struct varvite_tree **tree,
                           struct varvite_error *error);

// Commits `tree`, which is then the committed one, and gives the commit's hash. After an error nothing is
// changed.
int varvite_store_commit(struct varvite_store *store,
                         struct varvite_tree *tree,
                         const struct varvite_commit_info *info,
                         struct varvite_hash *commit,
                         struct varvite_error *error);

// The hash that `varvite_store_commit` would give, without committing.
int varvite_store_hash(struct varvite_store *store,
                       struct varvite_tree *tree,
                       const struct varvite_commit_info *info,
                       struct varvite_hash *commit,
                       struct varvite_error *error);

// Whether a commit with this hash is here: 0 or 1.
int varvite_store_exists(struct varvite_store *store,
                         const struct varvite_hash *commit,
                         int *exists,
                         struct varvite_error *error);

// What a commit says. `texts` gets its author, its message, and the hashes of its parents, 32 bytes each.
int varvite_store_commit_info(struct varvite_store *store,
                              const struct varvite_hash *commit,
                              struct varvite_commit *found,
                              struct varvite_arena *texts,
                              struct varvite_error *error);

// The commit that the store took last; `is_there` is 0 when there is none.
int varvite_store_last_commit(struct varvite_store *store,
                              struct varvite_hash *commit,
                              int *is_there,
                              struct varvite_error *error);

// The commits of the store, newest first, at most `limit`: 32 bytes each.
int varvite_store_log(struct varvite_store *store,
                      size_t limit,
                      struct varvite_arena *commits,
                      struct varvite_error *error);

// The commits that `heads` descend from, they included, at most `limit`, children before their parents: 32
// bytes each.
int varvite_store_history(struct varvite_store *store,
                          const struct varvite_hash *heads,
                          size_t count,
                          size_t limit,
                          struct varvite_arena *commits,
                          struct varvite_error *error);

// The common ancestors of two commits that no other common ancestor descends from, the oldest first: 32 bytes
// each. `limits` may be NULL.
int varvite_store_lowest_common_ancestors(struct varvite_store *store,
                                          const struct varvite_hash *ours,
                                          const struct varvite_hash *theirs,
                                          const struct varvite_limits *limits,
                                          struct varvite_arena *commits,
                                          struct varvite_error *error);

// The value or directory with this hash, in a store that finds every object; `tree` is NULL when there is none.
int varvite_store_find_object(struct varvite_store *store,
                              const struct varvite_hash *hash,
                              struct varvite_tree **tree,
                              struct varvite_error *error);

// Syncs the pack, saves the index, and records how far both are known, so that opening scans less.
int varvite_store_checkpoint(struct varvite_store *store, struct varvite_error *error);

// Takes a checkpoint if one is due, and tells whether: 0 or 1. A host that calls this between two commits, when nobody
// waits, keeps the syncs of the index out of them.
int varvite_store_maintain(struct varvite_store *store,
                           int *taken,
                           struct varvite_error *error);

// Ends the last chunk of the pack and begins another.
int varvite_store_begin_chunk(struct varvite_store *store, struct varvite_error *error);

// Makes the index from the pack again.
int varvite_store_rebuild_index(struct varvite_store *store, struct varvite_error *error);

// Removes everything and begins a new epoch. Trees checked out before stay readable.
int varvite_store_clear(struct varvite_store *store, struct varvite_error *error);

// Recomputes the hash of all that the store's commits reach. VARVITE_CORRUPT at the first that is wrong. `faults`
// gets sentences on the index, which can be made again, and on what collected stores no longer have.
int varvite_store_check(struct varvite_store *store,
                        struct varvite_checked *checked,
                        struct varvite_arena *faults,
                        struct varvite_error *error);

// What the store did and holds.
int varvite_store_get_stats(struct varvite_store *store,
                            struct varvite_store_stats *stats,
                            struct varvite_error *error);

// An empty tree without a store. `configuration` may be NULL.
int varvite_tree_empty(const struct varvite_configuration *configuration,
                       struct varvite_tree **tree,
                       struct varvite_error *error);

// Begins a collection: commits that the store took before `target` go, but for those that branches name and those that
// are pinned. `varvite_store_collect_step` does the work. VARVITE_INVALID while one is under way, VARVITE_MISSING for
// an unknown commit, VARVITE_COLLECTED for one that is no more.
int varvite_store_collect(struct varvite_store *store,
                          const struct varvite_hash *target,
                          struct varvite_error *error);

// Begins a collection that keeps the newest `commits`, beside those that branches and pins name. `began` is 0 when one is
// under way or paused, or nothing would go, so a program may call this after each commit.
int varvite_store_collect_keeping_newest(struct varvite_store *store,
                                         uint64_t commits,
                                         int *began,
                                         struct varvite_error *error);

// The same, but keeps all from the oldest commit on that is not older than `date`, in seconds since 1970.
int varvite_store_collect_keeping_since(struct varvite_store *store,
                                        int64_t date,
                                        int *began,
                                        struct varvite_error *error);

// Does work of about `credits` KiB read or written for the collection that is under way; `is_left` tells whether some is
// left: 0 or 1. 0 without one, and while it is paused.
int varvite_store_collect_step(struct varvite_store *store,
                               uint64_t credits,
                               int *is_left,
                               struct varvite_error *error);

// How far a collection is. That of a reader is as of its last reload.
int varvite_store_collect_status(struct varvite_store *store,
                                 struct varvite_collect_status *status,
                                 struct varvite_error *error);

// Lets steps do nothing until `varvite_store_collect_resume`, also of whoever opens the store later.
int varvite_store_collect_pause(struct varvite_store *store,
                                struct varvite_error *error);

// Lets steps go on.
int varvite_store_collect_resume(struct varvite_store *store, struct varvite_error *error);

// Ends the collection that is under way; `was_there` tells whether one was: 0 or 1. Commits that are collected already
// stay so.
int varvite_store_collect_cancel(struct varvite_store *store,
                                 int *was_there,
                                 struct varvite_error *error);

// Keeps a commit, and all of its tree, through every collection until it is unpinned. VARVITE_MISSING for an unknown
// commit, VARVITE_COLLECTED for one that is no more or is about to go.
int varvite_store_pin(struct varvite_store *store,
                      const struct varvite_hash *commit,
                      struct varvite_error *error);

// Pins every `nth` commit, by the numbers of `varvite_commit`, that goes with no collection; `added` is how many were not
// pinned before. VARVITE_INVALID for 0.
int varvite_store_pin_every(struct varvite_store *store,
                            uint64_t nth,
                            uint64_t *added,
                            struct varvite_error *error);

// Lets the next collection take a commit that was pinned; `was_pinned` tells whether it was: 0 or 1.
int varvite_store_unpin(struct varvite_store *store,
                        const struct varvite_hash *commit,
                        int *was_pinned,
                        struct varvite_error *error);

// The commits that are pinned, in the order in which the store took them: 32 bytes each.
int varvite_store_pins(struct varvite_store *store,
                       struct varvite_arena *commits,
                       struct varvite_error *error);

// Moves whole chunks that have only commits before `target` to the lower folder of the store's options, the oldest first,
// at most `most` of them; `moved_chunks` is how many. Their commits are read there. VARVITE_INVALID without a lower
// folder and while a collection is under way; afterwards the store collects nothing until they are back.
int varvite_store_archive(struct varvite_store *store,
                          const struct varvite_hash *target,
                          uint64_t most,
                          uint64_t *moved_chunks,
                          struct varvite_error *error);

// Moves chunks back from the lower folder, the newest first, at most `most` of them; `moved_chunks` is how many.
int varvite_store_unarchive(struct varvite_store *store,
                            uint64_t most,
                            uint64_t *moved_chunks,
                            struct varvite_error *error);

// Takes the chunks that collections took from this store, and that another copy of it has moved to the lower folder;
// `attached_chunks` is how many. Every byte of them is verified. VARVITE_INVALID when they are of another store.
int varvite_store_attach(struct varvite_store *store,
                         uint64_t *attached_chunks,
                         struct varvite_error *error);

// Bytes of the chunks that are in the lower folder.
int varvite_store_archived_bytes(struct varvite_store *store,
                                 uint64_t *bytes,
                                 struct varvite_error *error);

// Writes commits, in any order, all of which one descends from through others of them, as the file `path` of `disk`.
// With `zstd_level` 0 its bytes follow from the commits alone; 1 to 19 compress. After an error no file is there. `watch`
// and `file` may be NULL.
int varvite_store_export_commits(struct varvite_store *store,
                                 const struct varvite_hash *commits,
                                 size_t count,
                                 struct varvite_disk *disk,
                                 const char *path,
                                 uint32_t zstd_level,
                                 varvite_watch_file watch,
                                 void *user,
                                 struct varvite_commit_file *file,
                                 struct varvite_error *error);

// Takes the commits of a file over into the store. Everything is verified before any of it is there. `watch` and `file`
// may be NULL.
int varvite_store_import_commit(struct varvite_store *store,
                                struct varvite_disk *disk,
                                const char *path,
                                varvite_watch_file watch,
                                void *user,
                                struct varvite_commit_file *file,
                                struct varvite_error *error);

// Makes a store of the commits in the file `path` of `source`, in the empty folder `disk`. VARVITE_INVALID when the file
// has another configuration than `options`, for which nothing in it vouches. `options` may be NULL: then it is Tezos'.
int varvite_store_create_from_commit(struct varvite_disk *disk,
                                     const struct varvite_store_options *options,
                                     struct varvite_disk *source,
                                     const char *path,
                                     struct varvite_store **store,
                                     struct varvite_error *error);

// Reads a file of commits, and verifies every hash in it, without a store. `watch` and `file` may be NULL.
int varvite_commit_file_verify(struct varvite_disk *disk,
                               const char *path,
                               varvite_watch_file watch,
                               void *user,
                               struct varvite_commit_file *file,
                               struct varvite_error *error);

// A handle for threads that read while this store commits: it sees each commit when its call has returned, and waits for
// none. It ends with the store. VARVITE_INVALID for a store of Irmin.
int varvite_store_reader(struct varvite_store *store,
                         struct varvite_reader **reader,
                         struct varvite_error *error);

// The tree of a commit, loaded as it is looked at.
int varvite_reader_checkout(struct varvite_reader *reader,
                            const struct varvite_hash *commit,
                            struct varvite_tree **tree,
                            struct varvite_error *error);

// Whether a commit with this hash is there: 0 or 1.
int varvite_reader_exists(struct varvite_reader *reader,
                          const struct varvite_hash *commit,
                          int *exists,
                          struct varvite_error *error);

// The commit that the store took last; `is_there` is 0 when there is none.
int varvite_reader_last_commit(struct varvite_reader *reader,
                               struct varvite_hash *commit,
                               int *is_there,
                               struct varvite_error *error);

// The commit that a branch names; `is_there` is 0 when there is no such branch.
int varvite_reader_branch(struct varvite_reader *reader,
                          const struct varvite_bytes *name,
                          struct varvite_hash *commit,
                          int *is_there,
                          struct varvite_error *error);

// Closes a reader. Trees that it gave stay open.
int varvite_reader_close(struct varvite_reader *reader, struct varvite_error *error);

// The commit that a branch names; `is_there` is 0 when there is no such branch.
int varvite_store_branch(struct varvite_store *store,
                         const struct varvite_bytes *name,
                         struct varvite_hash *commit,
                         int *is_there,
                         struct varvite_error *error);

// All branches, by name: two items each, the name and the 32 bytes of the hash.
int varvite_store_branches(struct varvite_store *store,
                           struct varvite_arena *branches,
                           struct varvite_error *error);

// Makes `name` the name of a commit, which must be in the store.
int varvite_store_set_branch(struct varvite_store *store,
                             const struct varvite_bytes *name,
                             const struct varvite_hash *commit,
                             struct varvite_error *error);

// Makes `name` the name of `new_commit` if it is now that of `expected`; NULL stands for no branch. `is_set` is 0
// when it was not.
int varvite_store_test_and_set_branch(struct varvite_store *store,
                                      const struct varvite_bytes *name,
                                      const struct varvite_hash *expected,
                                      const struct varvite_hash *new_commit,
                                      int *is_set,
                                      struct varvite_error *error);

// Removes a branch; nothing happens when there is none.
int varvite_store_remove_branch(struct varvite_store *store,
                                const struct varvite_bytes *name,
                                struct varvite_error *error);

// A tree that is one value. `configuration` may be NULL.
int varvite_tree_of_value(const struct varvite_configuration *configuration,
                          const struct varvite_bytes *value,
                          struct varvite_tree **tree,
                          struct varvite_error *error);

// Another handle to the same state, independent from now on. O(1).
int varvite_tree_duplicate(struct varvite_tree *tree,
                           struct varvite_tree **duplicate,
                           struct varvite_error *error);

// The value at a path: one item, NULL when nothing is there, or a directory.
int varvite_tree_find(struct varvite_tree *tree,
                      const struct varvite_bytes *path,
                      size_t steps,
                      struct varvite_arena *value,
                      struct varvite_error *error);

// As `varvite_tree_find`, into memory of the program's: `length` is how many bytes the value has, SIZE_MAX when nothing
// is there, or a directory. More than `capacity` of them are not written, and are to be had by `varvite_tree_find`.
int varvite_tree_find_into(struct varvite_tree *tree,
                           const struct varvite_bytes *path,
                           size_t steps,
                           uint8_t *buffer,
                           size_t capacity,
                           size_t *length,
                           struct varvite_error *error);

// The values at `count` paths: one item each, in their order.
int varvite_tree_find_many(struct varvite_tree *tree,
                           const struct varvite_path *paths,
                           size_t count,
                           struct varvite_arena *values,
                           struct varvite_error *error);

// Whether a value is at a path: 0 or 1. Never reads the value.
int varvite_tree_mem(struct varvite_tree *tree,
                     const struct varvite_bytes *path,
                     size_t steps,
                     int *is_there,
                     struct varvite_error *error);

// Whether anything is at a path, a value or a directory: 0 or 1.
int varvite_tree_mem_tree(struct varvite_tree *tree,
                          const struct varvite_bytes *path,
                          size_t steps,
                          int *is_there,
                          struct varvite_error *error);

// What is at a path, as a tree of its own; NULL when nothing is. The whole for the empty path.
int varvite_tree_find_tree(struct varvite_tree *tree,
                           const struct varvite_bytes *path,
                           size_t steps,
                           struct varvite_tree **subtree,
                           struct varvite_error *error);

// Whether the tree is a value or a directory: VARVITE_VALUE or VARVITE_DIRECTORY.
int varvite_tree_kind(struct varvite_tree *tree, uint32_t *kind, struct varvite_error *error);

// Whether the tree is a directory without entries: 0 or 1.
int varvite_tree_is_empty(struct varvite_tree *tree, int *is_empty, struct varvite_error *error);

// How many children the directory at a path has; 0 for a value or nothing.
int varvite_tree_length(struct varvite_tree *tree,
                        const struct varvite_bytes *path,
                        size_t steps,
                        uint64_t *length,
                        struct varvite_error *error);

// Up to `length` children of the directory at a path after the first `offset`, in stored order: two items each,
// the name, and one byte that is VARVITE_VALUE or VARVITE_DIRECTORY.
int varvite_tree_list(struct varvite_tree *tree,
                      const struct varvite_bytes *path,
                      size_t steps,
                      uint64_t offset,
                      uint64_t length,
                      struct varvite_arena *children,
                      struct varvite_error *error);

// As `varvite_tree_list`, of at most `capacity` children, with what they are: `trees`, an array of `capacity`, gets a
// handle for each child, as many as half the items of `children`. Each is to be closed.
int varvite_tree_list_trees(struct varvite_tree *tree,
                            const struct varvite_bytes *path,
                            size_t steps,
                            uint64_t offset,
                            size_t capacity,
                            struct varvite_arena *children,
                            struct varvite_tree **trees,
                            struct varvite_error *error);

// Binds `value` at a path. A directory there is replaced, and so is a value on the way, by a directory.
int varvite_tree_add(struct varvite_tree *tree,
                     const struct varvite_bytes *path,
                     size_t steps,
                     const struct varvite_bytes *value,
                     struct varvite_error *error);

// Binds `subtree` at a path, sharing it. An empty one removes what is there.
int varvite_tree_add_tree(struct varvite_tree *tree,
                          const struct varvite_bytes *path,
                          size_t steps,
                          struct varvite_tree *subtree,
                          struct varvite_error *error);

// Removes what is at a path, and the directories above that become empty with it.
int varvite_tree_remove(struct varvite_tree *tree,
                        const struct varvite_bytes *path,
                        size_t steps,
                        struct varvite_error *error);

// The hash of the value, or of the directory as Tezos defines it.
int varvite_tree_hash(struct varvite_tree *tree,
                      struct varvite_hash *hash,
                      struct varvite_error *error);

// Whether two trees have the same hash and kind: 0 or 1.
int varvite_tree_equal(struct varvite_tree *tree,
                       struct varvite_tree *other,
                       int *are_equal,
                       struct varvite_error *error);

// The shape of the tree's directories.
int varvite_tree_configuration(struct varvite_tree *tree,
                               struct varvite_configuration *configuration,
                               struct varvite_error *error);

// Gives back memory of what is deeper than `depth`: hashes of children that were kept to hash faster.
int varvite_tree_clear(struct varvite_tree *tree,
                       size_t depth,
                       struct varvite_error *error);

// Closes a tree.
int varvite_tree_close(struct varvite_tree *tree, struct varvite_error *error);

// Calls `visit` with the path from `path` on and the subtree there, a directory before its children. `depth_kind`
// is one of VARVITE_DEPTH_…, `order` is VARVITE_SORTED or VARVITE_UNDEFINED.
int varvite_tree_fold(struct varvite_tree *tree,
                      const struct varvite_bytes *path,
                      size_t steps,
                      uint32_t depth_kind,
                      size_t depth,
                      uint32_t order,
                      varvite_visit visit,
                      void *user,
                      struct varvite_error *error);

// Calls `each` with path and change of every value that differs from `tree` to `after`, by path.
int varvite_tree_diff(struct varvite_tree *tree,
                      struct varvite_tree *after,
                      varvite_change each,
                      void *user,
                      struct varvite_error *error);

// Brings what `theirs` changed since `base` into a copy of `ours`. `resolve` may be NULL. `conflicts` gets the path
// of each conflict as one item: for every step its length in 4 bytes, little-endian, then its bytes; the merged
// tree has what our side has there.
int varvite_tree_merge(struct varvite_tree *ours,
                       struct varvite_tree *base,
                       struct varvite_tree *theirs,
                       varvite_resolve resolve,
                       void *user,
                       struct varvite_tree **merged,
                       struct varvite_arena *conflicts,
                       struct varvite_error *error);

// Merges two commits into a tree, and changes nothing in the store. `merge` gets one of VARVITE_MERGE_…; `merged`
// is the tree after VARVITE_MERGE_MERGED and VARVITE_MERGE_CONFLICTS, else NULL; `conflicts` as of
// `varvite_tree_merge`. `limits` and `resolve` may be NULL.
int varvite_store_merge_commits(struct varvite_store *store,
                                const struct varvite_hash *ours,
                                const struct varvite_hash *theirs,
                                const struct varvite_limits *limits,
                                varvite_resolve resolve,
                                void *user,
                                uint32_t *merge,
                                struct varvite_tree **merged,
                                struct varvite_arena *conflicts,
                                struct varvite_error *error);

// Merges the commit `theirs` into a branch, and commits what both have; the parents in `info` are not used. A branch
// that is not there becomes `theirs`. `merge` gets one of VARVITE_MERGE_…; `commit` is the branch's new commit
// after VARVITE_MERGE_MERGED. Nothing is changed when there are conflicts; `conflicts` as of `varvite_tree_merge`.
// `limits` and `resolve` may be NULL.
int varvite_store_merge_branch(struct varvite_store *store,
                               const struct varvite_bytes *branch,
                               const struct varvite_hash *theirs,
                               const struct varvite_commit_info *info,
                               const struct varvite_limits *limits,
                               varvite_resolve resolve,
                               void *user,
                               uint32_t *merge,
                               struct varvite_hash *commit,
                               struct varvite_arena *conflicts,
                               struct varvite_error *error);

// Runs `function` on a copy of `tree` and makes a proof of what it looked at: a tree proof, or with `stream` 1 a
// stream proof, of any depth. `tree` stays as it is.
int varvite_proof_make(struct varvite_tree *tree,
                       int stream,
                       varvite_work_on_tree function,
                       void *user,
                       struct varvite_proof **proof,
                       struct varvite_error *error);

// The bytes of a proof: one item. `encoding` is one of VARVITE_ENCODING_….
int varvite_proof_encode(struct varvite_proof *proof,
                         uint32_t encoding,
                         struct varvite_arena *encoded,
                         struct varvite_error *error);

// Reads a proof of trees of this configuration, which may be NULL. Nothing is hashed yet:
// `varvite_proof_verify` checks what it says.
int varvite_proof_decode(const struct varvite_bytes *encoded,
                         uint32_t encoding,
                         const struct varvite_configuration *configuration,
                         struct varvite_proof **proof,
                         struct varvite_error *error);

// Runs `function` on what the proof shows of the tree whose hash is `root`, which is all that is trusted. A read in
// it gives what the whole tree would give, or VARVITE_HIDDEN. VARVITE_CORRUPT when the proof is not of `root`, when
// the tree that is left has another hash than the proof says, or when a stream shows too much. `function` may be
// NULL for a proof that shows nothing that was changed; `configuration` may be NULL.
int varvite_proof_verify(struct varvite_proof *proof,
                         const struct varvite_configuration *configuration,
                         const struct varvite_kinded *root,
                         varvite_work_on_tree function,
                         void *user,
                         struct varvite_error *error);

// The tree before, as far as the proof shows it: what is read of it is proven by `root` alone, and what is hidden
// is VARVITE_HIDDEN. `configuration` may be NULL.
int varvite_proof_open(struct varvite_proof *proof,
                       const struct varvite_configuration *configuration,
                       const struct varvite_kinded *root,
                       struct varvite_tree **tree,
                       struct varvite_error *error);

// The hashes of the trees before and after, as the proof says; trust a root that you know instead.
int varvite_proof_roots(struct varvite_proof *proof,
                        struct varvite_kinded *before,
                        struct varvite_kinded *after,
                        struct varvite_error *error);

// Whether it is a stream proof: 0 or 1.
int varvite_proof_is_stream(struct varvite_proof *proof,
                            int *is_stream,
                            struct varvite_error *error);

// Checks what the proof says of the tree before, without running anything: its limits, its order, and that it has the
// hash before. VARVITE_CORRUPT when it does not. `configuration` may be NULL.
int varvite_proof_check(struct varvite_proof *proof,
                        const struct varvite_configuration *configuration,
                        struct varvite_error *error);

// Counts what the proof shows and hides. `configuration` may be NULL.
int varvite_proof_get_summary(struct varvite_proof *proof,
                              const struct varvite_configuration *configuration,
                              struct varvite_proof_summary *summary,
                              struct varvite_error *error);

// Closes a proof.
int varvite_proof_close(struct varvite_proof *proof, struct varvite_error *error);

// Sets the defaults of a store of Irmin.
int varvite_irmin_options_default(struct varvite_irmin_options *options,
                                  struct varvite_error *error);

// Whether the folder holds a store of Irmin, of any version: 0 or 1.
int varvite_irmin_is_store(struct varvite_disk *disk, int *is_store, struct varvite_error *error);

// Opens a store of Irmin to read, as of now; `varvite_store_reload` sees what another process wrote since. Writes
// nothing. `options` may be NULL.
int varvite_irmin_open(struct varvite_disk *disk,
                       const struct varvite_irmin_options *options,
                       struct varvite_store **store,
                       struct varvite_error *error);

// Copies commits of the store of Irmin on `source` into `target`, and sets its branches that name one: those in
// `commits`, or with none all; with `since` that one and those taken after it, else NULL. What `target` has is left
// out, so an interrupted migration goes on where it was. `watch` and `migrated` may be NULL.
int varvite_irmin_migrate(struct varvite_disk *source,
                          const struct varvite_irmin_options *options,
                          struct varvite_store *target,
                          const struct varvite_hash *commits,
                          size_t count,
                          const struct varvite_hash *since,
                          varvite_watch_migration watch,
                          void *user,
                          struct varvite_migrated *migrated,
                          struct varvite_error *error);

// Writes every commit of `source`, with its branches, as a store of Irmin into the empty folder `target`. `scratch` is
// an empty folder that is the caller's to remove. `watch` and `exported` may be NULL.
int varvite_irmin_export(struct varvite_store *source,
                         struct varvite_disk *target,
                         struct varvite_disk *scratch,
                         varvite_watch_export watch,
                         void *user,
                         struct varvite_exported *exported,
                         struct varvite_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VARVITE_H */

#ifndef VARVITE_TEXT
#define VARVITE_TEXT

// The bytes of a text, without its final NUL.
static inline struct varvite_bytes varvite_text(const char *text) {
    struct varvite_bytes bytes = {(const uint8_t *)text, strlen(text)};
    return bytes;
}

#endif
