//! The engine's tests from outside, one binary.
#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

mod byte_formats; // pages, indexes, segments and runs give back what was put in
mod cache_threads; // several threads on one cache
mod checksums; // pieces of another store, right in themselves, are noticed; crashes at equal lengths
mod damage; // flipped bits, cuts and mutations of the table's files: detected or harmless
mod decoders; // the bodies of the fuzz targets; `fuzz/` runs the same ones
mod disk_promises;
mod disk_suite; // what every disk promises, as statements that all of them pass
mod entries; // entries and segments that the tests above build
mod file_shapes; // appended and replaced files, through crashes and faults
mod given_again; // readers, exports, checks and scrubs beside a writer that gives numbers of files again
mod golden; // the files in `golden/`: read, written again, equal
mod manifests; // golden manifests and session files, and what is refused in spite of its checksum
mod sim_disk; // what the simulated disk adds: crashes and faults

mod archive_above; // what stays above of chunks in the lower folder, which recent commits need
mod archive_marks; // archives that cannot find out, or have no room for, what recent commits need
mod archive_returns; // commits of an archive that have again what older ones had
mod archive_steps; // what a move to the lower folder reads before the first chunk goes, in steps
mod archive_twins; // lower folders of copies that went on by themselves, and of others that were put in their place
mod backup; // live tables of one moment in another folder: crashes, faults, refusals, what is copied
mod batch_ranges; // ranges that a batch deletes among other operations; batches that are joined
mod beside; // readers, checks and inspections at every call of a writer, and the other way round
mod blobs; // values beside the runs: copied by no merge, held, streamed, travelling, damaged
mod check_batches; // a check of a context tells every byte of the pack that is not what it was
mod check_beside; // checks beside a writer that replaces what is checked, and lost files
mod check_parts; // checks of a part, and in parts, find what one check of everything finds
mod collect_any_tree; // collections beside commits of trees of any age, grafts, readers, openings: against maps
mod collect_damage; // a byte wrong in each file of a store that was collected, or is being collected
mod collect_index; // what the index of all objects takes behind collections, beside one that was made anew
mod collect_joins; // small sparse chunks become one: in the long run, under faults and crashes
mod collect_kept; // what collections keep is exported to Irmin and proven; a clearing beside one is noticed by readers
mod collect_killed; // a process that commits and collects, killed at a hundred moments
mod collect_merged; // patches whose base stays for nothing else: what is saved, and trees and readers that know of the base
mod collect_oddities; // collections after a lock was taken, one was cancelled, a commit came twice, dates went back
mod collect_steps; // what one step of a collection reads and writes at most
mod collect_twice; // collections of what a store has twice, since it was written again beside one before
mod compressed; // tables with compressed pages
mod context_adopt; // trees of another handle of a store, and of a copy that went another way
mod context_archive; // the lower layer: chunks on another disk, through crashes and failures of either
mod context_attach; // lower folders by themselves, and at another copy of their store
mod context_chunks; // chunks that describe themselves: control files put back, stores mixed, limits
mod context_collect; // what collections keep and take, beside commits, readers, faults and crashes
mod context_crash; // crashes and failed calls of a context store
mod context_discard; // a store that was just made is taken back
mod context_doubt; // foreign and newer files, ends of chunks that were taken back, panics, few descriptors
mod context_embedded; // small directories within the records of their parents
mod context_examples; // trees and stores of a context, by example
mod context_files; // mutated files of a context, operation lists; bodies of fuzz targets
mod context_golden; // the context's files in `golden/`
mod context_import_resume; // imports that were cut off go on, whatever happened between
mod context_index; // the context's index: lost, damaged, foreign, and what it costs
mod context_left_over; // files that cannot be removed keep no context from opening, and are told
mod context_limits; // the longest values and names, trees of any size, and what damage may cost
mod context_machine; // random steps on a context, its readers and another store, and on their model
mod context_merge; // merges of trees, histories and branches
mod context_names; // names that collide in every bucket and every internal hash
mod context_observer; // what an observer of a context is told
mod context_reader; // readers of a context's handle that writes, in threads and at every call of its disk
mod context_repair; // new stores of what is whole in damaged ones
mod context_repair_counts; // repairs count what is lost: beside objects that are there twice, older control files, lost chunks
mod context_retry; // killed in the middle, opened again, the same call again, and the power goes
mod context_sharing; // what commits share, counted, and differences and logs that go on from where they ended
mod context_siblings; // what hashing a change reads of what is beside it
mod context_snapshot_beside; // exports by readers while blocks arrive, imports beside one
mod context_snapshot_ranges;
mod context_snapshots; // commits in files: the same bytes from any store, damage, crashes, faults
mod context_story; // a fixed script that touches every operation of a context, with its model
mod context_threads; // readers of a context beside a writer: in threads, and at every call of the disk
mod corpus; // what the fuzz targets begin with, written by command
mod crash; // the power goes at every write and sync
mod determinism; // same operations, same seed, same bytes
mod empty_keys; // the empty key: everywhere, like any other
mod exclusive; // two writers of one folder
mod faults; // every call fails once, in every way
mod few_descriptors; // whole stores copied, followed, scrubbed and repaired with few files open
mod following; // live tables followed by other sessions: restarts, damage, memory, threads
mod full_disk; // what goes through on a disk that updates have filled
mod hooked_disk; // a disk that tells of calls before they are made
mod identities; // whose a file is, drawn or given; what a creation finds is never removed
mod irmin_files; // a store of Irmin: read, damaged, growing; bodies of fuzz targets
mod joined_blobs; // short log files become one whose values are in blob files
mod joined_power; // random sessions that join log files, while the power goes, calls fail, files are damaged
mod joined_values; // short log files become one, with ranges that took segments
mod listed; // ranges in vectors, as the model has them
mod listing; // snapshots listed while a writer replaces them
mod live_blobs; // values in pieces in live tables: found again, held by the log, given back, damaged
mod live_faults; // live tables where threads meet a disk that fails or panics
mod live_panics; // merge operators and disks of the host that panic beside other tables, or where it counts
mod live_steps; // a checkpoint in steps, crashes at each call of the disk, and what is done to tables meanwhile
mod live_work; // what updates of live tables do for other tables, and for those that cannot be written out
mod lock_order; // files go while the folder's lock is held
mod log; // live tables, by example
mod log_crash; // live tables through crashes and failing calls
mod log_files; // log and checkpoint: golden, damaged, mutated; bodies of fuzz targets
mod log_joins; // many short log files become one: tables at rest, crashes, faults, random sessions
mod lost_checkpoint; // live tables of which a file is gone or written over: the newest state, or an error
mod lost_snapshots; // sessions whose folder of snapshots is gone: nothing is removed, and it is told
mod memory_budget; // what a session takes of its one number of memory
mod merge_control; // pausing and resuming merges, working ahead, and closing in the middle
mod merged_again; // stores with merged patches go on: readers, later collections, old trees, snapshots
mod model; // models: the same meaning in the least code
mod newest_damaged; // contexts whose newest commit is damaged: opened to read as they were before it
mod open_files; // tables of more files than may be open: the same answers, and the right files
mod open_names; // both faces where open files keep their names, as on some file systems of Windows
mod open_or_create; // sessions, tables and stores that are there or not: crashes, threads, other options
mod operations; // operation lists from bytes; the body of a fuzz target
mod operator_replay; // merge operators that fail in transactions, and where a log is applied again
mod operators; // merge operators of the host that panic
mod other_files; // files of another store or copy under the names of a store's own: none is removed or written over
mod proof_attacks; // made-up proofs whose hashes fit
mod proof_bytes; // encoded proofs: golden, changed, any bytes; bodies of fuzz targets
mod proof_machine; // random functions on random trees: what is recorded verifies
mod put_back; // an older version of any one file: noticed, or acknowledged once
mod random; // numbers that follow from a seed
mod ranges; // iterators and single gets, by example, with failing reads
mod removals; // files go when the session is used, not where a view is dropped
mod reopened; // a fault, an opening, more updates, and then the power goes
mod repair; // every file of a store damaged or lost, then repaired: what can be saved is, and is told
mod repair_halves; // repairs of contexts where each of two files has a part, and of lower folders that cannot be read everywhere
mod repair_log; // logs of many files with gaps, values that are lost, and disks that do not answer
mod repair_merged; // repairs of what two folders have together, where collections wrote records otherwise
mod schedule; // the work of updates against the model of levels, and its bound
mod scrubs; // what a check finds, in bounded parts, beside a writer, from where it was left
mod seeks; // seeks over many runs: against a map, and how many pages they read
mod setup; // how sessions and tables are set up; keys, values and batches from seeds
mod short_sessions;
mod shrinking; // fewer steps that still fail
mod snapshot_crash; // exports that a crash of the disk of their file ends, and what is told then
mod snapshot_killed; // a process that commits, collects, exports and imports is killed at any moment
mod snapshot_retry; // snapshots saved or deleted by a process that was killed, opened, and then the power goes
mod space; // how much disk a table takes over what is alive
mod sparse_ends; // a chunk that a collection rewrote, damaged where an opening reads it: the store opens, reads and writes
mod store_files; // mutated manifests, session files and appended files; bodies of fuzz targets
mod story; // a fixed workload that touches every operation
mod synced_to_write; // where only what was opened to write can be synced, everything that comes from elsewhere is
mod table_discard; // a session that was just made is taken back
mod table_machine;
mod table_observer; // random steps on a session and on its model
mod thread_bounds; // what threads may share, at compile time
mod threads; // readers beside a writer, its merges and helpers; every stop of the disk; closing
mod trace_bytes; // traces: golden file, cuts, mutations; the body of a fuzz target
mod traces; // what is recorded of both faces
mod transactions; // tables that threads share, and updates that read what they wrote
mod transactions_beside; // transactions beside a budget, blob files, helpers, pauses and unions
mod transfer; // exports and imports: crashes, faults and damage on the way
mod unions; // unions of tables: content, refusals, space, and that no work is lost
mod unreadable_ends; // what a disk cannot read of a context and nobody needs
