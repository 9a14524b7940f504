//! Readers of a context in other threads, and at every call of the disk, while a writer commits.
//!
//! What a thread sees when is luck, so each thing that it may see is allowed, and nothing else.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use varvite::Kind;
use varvite::context::{CommitHash, CommitInfo, Durability, Index, Keep, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::context_story::{ACTS, Act, Tale, Told, holds, options, which};
use crate::hooked_disk::{Call, HookedDisk};
use crate::model::context::Node;
use crate::random::Random;

const COMMITS: u64 = 60;

fn small(index: Index, durability: Durability) -> Options {
    Options { chunk_bytes: 20_000, objects_bytes: 8_000, ..options(index, durability) }
}

/// What the store holds in the end: the commits are numbered, so they can be known before.
fn told(options: &Options) -> Told {
    let mut tale = Tale::new(MemoryDisk::seeded(1), options);
    tale.act(Act::Begin).unwrap();
    for number in 0..COMMITS {
        tale.act(Act::Commit(number)).unwrap();
        tale.act(Act::SetBranch("main")).unwrap();
    }
    tale.told
}

/// The log is a beginning of `told`, the branch names a commit of it, and one commit is whole. Returns
/// how many there are.
fn see(store: &Store, told: &Told, random: &mut Random) -> usize {
    let mut log = store.log(usize::MAX).unwrap();
    log.reverse();
    assert!(log.len() <= told.commits.len());
    assert!(log.iter().eq(told.commits[..log.len()].iter().map(|(hash, _)| hash)));
    if let Some((_, main)) = store.branches().first() {
        // It is set after the commit that it names, and before the next.
        let place = told.commits.iter().position(|(hash, _)| hash == main).unwrap() + 1;
        assert!(place == log.len() || place + 1 == log.len(), "{place} of {}", log.len());
    } else {
        assert!(log.len() <= 1);
    }
    if !log.is_empty() {
        let (hash, node) = &told.commits[random.index(log.len())];
        is_whole(&store.checkout(hash).unwrap(), node);
        assert_eq!(store.commit_info(hash).unwrap().tree, node.hash(store.configuration()));
    }
    log.len()
}

fn is_whole(tree: &Tree, node: &Node) {
    for (path, value) in node.values() {
        assert_eq!(tree.find(&path).unwrap(), Some(value));
    }
    let Some(Node::Directory(children)) = node.get(&[b"data".to_vec()]) else { return };
    let names = tree.list(&["data"], 0, u64::MAX).unwrap();
    assert_eq!(names.len(), children.len());
    assert!(names.iter().all(|(name, _)| children.contains_key(name)));
    assert_eq!(tree.hash().unwrap(), node.hash(tree.configuration()));
}

/// Is set when the writer ends, also when it panics, so that nobody waits for it in vain.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn readers_in_threads_see_whole_commits_in_order() {
    for (index, durability) in
        [(Index::Minimal, Durability::Synced), (Index::Always, Durability::Written)]
    {
        let options = small(index, durability);
        let (told, done) = (told(&options), AtomicBool::new(false));
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let mut tale = Tale::new(Arc::clone(&disk), &options);
        tale.act(Act::Begin).unwrap();
        thread::scope(|scope| {
            for seed in 0..3 {
                let (disk, options) = (Arc::clone(&disk), options.clone());
                let (told, done) = (&told, &done);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut store =
                        Store::open_read_only(Arc::clone(&disk), options.clone()).unwrap();
                    let mut last = 0;
                    loop {
                        let is_over = done.load(SeqCst);
                        if random.one_in(5) {
                            store =
                                Store::open_read_only(Arc::clone(&disk), options.clone()).unwrap();
                        } else {
                            store.reload().unwrap();
                        }
                        let count = see(&store, told, &mut random);
                        assert!(count >= last, "{count} commits after {last}");
                        last = count;
                        if is_over {
                            break;
                        }
                    }
                    assert_eq!(last as u64, COMMITS, "after the writer's end");
                    holds(&store, told).unwrap();
                });
            }
            let _done = Done(&done);
            for number in 0..COMMITS {
                tale.act(Act::Commit(number)).unwrap();
                tale.act(Act::SetBranch("main")).unwrap();
                if number % 16 == 7 {
                    tale.act(Act::Checkpoint).unwrap();
                }
                if number % 32 == 15 {
                    tale.act(Act::Rebuild).unwrap();
                }
            }
            tale.act(Act::End).unwrap();
        });
        assert_eq!(tale.told, told);
    }
}

#[test]
fn threads_share_a_reader_and_the_trees_of_a_writer() {
    let options = small(Index::Always, Durability::Written);
    let (told, done) = (told(&options), AtomicBool::new(false));
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut tale = Tale::new(Arc::clone(&disk), &options);
    tale.act(Act::Begin).unwrap();
    for number in 0..COMMITS / 2 {
        tale.act(Act::Commit(number)).unwrap();
    }
    let shared = Store::open_read_only(Arc::clone(&disk), options.clone()).unwrap();
    // Trees of the writing handle, whose nodes and pages its commits use too.
    let half = COMMITS as usize / 2;
    let trees: Mutex<Vec<(Tree, CommitHash)>> = Mutex::default();
    thread::scope(|scope| {
        for seed in 0..3 {
            let (shared, told, done, trees) = (&shared, &told, &done, &trees);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                loop {
                    let is_over = done.load(SeqCst);
                    let (hash, node) = &told.commits[random.index(half)];
                    is_whole(&shared.checkout(hash).unwrap(), node);
                    let tree = {
                        let trees = trees.lock().unwrap();
                        (!trees.is_empty()).then(|| trees[random.index(trees.len())].clone())
                    };
                    if let Some((mut tree, hash)) = tree {
                        let (_, node) = told.commits.iter().find(|it| it.0 == hash).unwrap();
                        is_whole(&tree, node);
                        // A change of a thread's own handle is nobody else's.
                        tree.remove(&["data"]).unwrap();
                        tree.add(&["data", "mine"], &[seed as u8; 40]).unwrap();
                        assert_eq!(tree.length(&["data"]).unwrap(), 1);
                    }
                    if is_over {
                        break;
                    }
                }
                assert_eq!(shared.log(usize::MAX).unwrap().len(), half, "it was not reloaded");
            });
        }
        let _done = Done(&done);
        for number in COMMITS / 2..COMMITS {
            tale.act(Act::Commit(number)).unwrap();
            let hash = tale.told.commits.last().unwrap().0;
            let tree = tale.store().checkout(&hash).unwrap();
            trees.lock().unwrap().push((tree, hash));
        }
    });
    assert_eq!(tale.told.commits, told.commits);
}

/// A host's own thread takes the steps: the handle is shared by a lock, and held for a step or for a commit, while trees
/// are changed and hashed without it.
#[test]
fn a_thread_takes_the_steps_of_collections_beside_one_that_commits() {
    let options = small(Index::Minimal, Durability::Written);
    let store = Mutex::new(Store::create(MemoryDisk::seeded(1), options).unwrap());
    let put = |level: u32, parent: Option<CommitHash>| {
        let mut tree = match &parent {
            Some(parent) => store.lock().unwrap().checkout(parent).unwrap(),
            None => store.lock().unwrap().empty_tree(),
        };
        for change in 0..20 {
            let name = format!("n{}", (20 * level + change) % 300);
            tree.add(&["data", &name], format!("{level:060}").as_bytes()).unwrap();
        }
        tree.hash().unwrap();
        let info = CommitInfo::new(&[], i64::from(level), "", "");
        store.lock().unwrap().commit(&mut tree, &info).unwrap()
    };
    let (done, mut last, mut level) = (AtomicBool::new(false), None, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut is_under_way = false;
            // Those that were begun are ended.
            while !done.load(SeqCst) || is_under_way {
                let mut store = store.lock().unwrap();
                is_under_way = if is_under_way {
                    store.collect_step(8).unwrap()
                } else {
                    store.collect_keeping(&Keep::Newest(20)).unwrap()
                };
                drop(store);
                thread::yield_now();
            }
        });
        let _done = Done(&done);
        // Until one has ended beside the commits, however slow the thread is.
        while level < 200 || store.lock().unwrap().stats().generation == 0 {
            last = Some(put(level, last));
            level += 1;
            thread::yield_now();
        }
    });
    let store = store.into_inner().unwrap();
    let checked = store.check().unwrap();
    assert!(checked.missing.is_empty(), "{checked:?}");
    assert!(checked.commits < u64::from(level), "{level}: {checked:?}");
    let tree = store.checkout(&last.unwrap()).unwrap();
    assert_eq!(tree.length(&["data"]).unwrap(), 300);
}

/// What a reader may find, and the reader that stays open.
#[derive(Default)]
struct Watch {
    allowed: Vec<Told>,
    reader: Option<Store>,
    begun: bool,
    looks: u64,
    news: u64,
}

#[test]
fn a_reader_that_opens_or_reloads_at_any_call_of_the_writer_sees_what_was_or_what_is() {
    for index in [Index::Minimal, Index::Always] {
        let options = options(index, Durability::Synced);
        let inner: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let watch: Arc<Mutex<Watch>> = Arc::default();
        let (disk, seen) = (Arc::clone(&inner), Arc::clone(&watch));
        let reading = options.clone();
        let hooked = HookedDisk::new(Arc::clone(&inner), move |call, path| {
            if !call.changes() {
                return;
            }
            let watch = &mut *seen.lock().unwrap();
            let allowed: Vec<&Told> = watch.allowed.iter().collect();
            let what = format!("before {call:?} of {path}");
            watch.looks += 1;
            let fresh = match Store::open_read_only(Arc::clone(&disk), reading.clone()) {
                Err(error) if error.kind() == Kind::Missing && !watch.begun => return,
                opened => opened.unwrap_or_else(|error| panic!("{what}: {error}")),
            };
            let found = which(&fresh, &allowed).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = found.unwrap_or_else(|| panic!("{what}: neither what was nor what is"));
            watch.news += u64::from(found == 1);
            assert!(fresh.check().unwrap().index_faults.is_empty(), "{what}");
            let reader = watch.reader.get_or_insert(fresh);
            reader.reload().unwrap_or_else(|error| panic!("{what}: {error}"));
            let again = which(reader, &allowed).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(again, Some(found), "{what}: the reloaded one sees something else");
        });
        let mut tale = Tale::new(hooked, &options);
        for act in ACTS {
            {
                let mut watch = watch.lock().unwrap();
                watch.allowed = vec![tale.told.clone(), tale.after(*act)];
                watch.allowed.dedup();
                watch.begun |= !matches!(act, Act::Begin);
            }
            tale.act(*act).unwrap();
        }
        let watch = watch.lock().unwrap();
        println!("{index:?}: {} looks, {} of them at what is new", watch.looks, watch.news);
        assert!(watch.looks > 250 && watch.news > 10, "{} {}", watch.looks, watch.news);
    }
}

/// What the writer does between two calls of a reader's disk.
const BETWEEN: [&[Act]; 6] = [
    &[Act::Commit(20), Act::Checkpoint],
    &[Act::Commit(20), Act::Chunk, Act::Commit(21), Act::Checkpoint, Act::Commit(22)],
    &[Act::Chunk, Act::Commit(20), Act::Chunk, Act::Commit(21), Act::SetBranch("main")],
    &[Act::Clear, Act::Commit(20), Act::Checkpoint],
    &[Act::Clear],
    &[Act::Clear, Act::Commit(20), Act::Chunk, Act::Clear, Act::Commit(21)],
];

/// Lets the writer do `acts` before the `n`-th call of a reader that opens or reloads; `false` when it
/// made fewer calls.
fn move_at(n: u64, acts: &'static [Act], options: &Options, opens: bool) -> bool {
    let inner: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut tale = Tale::new(Arc::clone(&inner), options);
    for act in [Act::Begin, Act::Commit(1), Act::SetBranch("main"), Act::Checkpoint, Act::Commit(2)]
    {
        tale.act(act).unwrap();
    }
    let mut early = tale.told.clone();
    let shared = Arc::new(Mutex::new((0, tale, Vec::new())));
    let moved = Arc::clone(&shared);
    let hooked: Arc<dyn Disk> = HookedDisk::new(inner, move |_, _| {
        let (left, tale, told) = &mut *moved.lock().unwrap();
        *left -= u64::from(*left > 0);
        // Armed, due, and not done yet.
        if *left == 0 && told.len() == 1 {
            for act in acts {
                tale.act(*act).unwrap();
                told.push(tale.told.clone());
            }
        }
    });
    let arm = || {
        let (left, tale, told) = &mut *shared.lock().unwrap();
        (*left, *told) = (n, vec![tale.told.clone()]);
    };
    let what = (n, acts, opens, options.index);
    let open = || Store::open_read_only(Arc::clone(&hooked), options.clone());
    let mut reader = if opens {
        arm();
        open().unwrap_or_else(|error| panic!("{what:?}: {error}"))
    } else {
        let mut reader = open().unwrap();
        {
            let tale = &mut shared.lock().unwrap().1;
            for act in [Act::Commit(3), Act::Checkpoint, Act::Commit(4)] {
                tale.act(act).unwrap();
            }
            early = tale.told.clone();
        }
        arm();
        reader.reload().unwrap_or_else(|error| panic!("{what:?}: {error}"));
        reader
    };
    let (left, history) = {
        // Nothing happens at the calls that follow.
        let (left, _, told) = &mut *shared.lock().unwrap();
        (std::mem::take(left), std::mem::take(told))
    };
    assert_eq!(history[0], early);
    let allowed: Vec<&Told> = history.iter().collect();
    let seen = which(&reader, &allowed).unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert!(seen.is_some(), "{what:?}: nothing that there ever was");
    if !acts.iter().any(|act| matches!(act, Act::Clear)) {
        assert_eq!(reader.warnings(), [""; 0], "{what:?}: a sound store is called damaged");
    }
    reader.reload().unwrap_or_else(|error| panic!("{what:?}: again: {error}"));
    let last = history.last().unwrap();
    holds(&reader, last).unwrap();
    assert!(reader.check().unwrap().index_faults.is_empty(), "{what:?}");
    assert_eq!(reader.stats().commits, last.commits.len() as u64, "{what:?}");
    left == 0
}

#[test]
fn a_writer_that_moves_at_any_call_of_a_reader_never_looks_like_damage() {
    let mut places = 0;
    for index in [Index::Minimal, Index::Always] {
        let options = options(index, Durability::Synced);
        for acts in BETWEEN {
            for opens in [false, true] {
                let mut n = 1;
                while move_at(n, acts, &options, opens) {
                    n += 1;
                }
                assert!(n > 10, "{n} calls");
                places += n;
            }
        }
    }
    println!("{places} places");
}

#[test]
fn whoever_asks_for_warnings_waits_for_no_write() {
    let (begins, begun) = mpsc::channel();
    let (lets, let_go) = mpsc::channel::<()>();
    let waits = Mutex::new(Some((begins, let_go)));
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&is_armed);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        if call == Call::Write && path.contains(".pack") && armed.load(SeqCst) {
            let Some((begins, let_go)) = waits.lock().unwrap().take() else { return };
            begins.send(()).unwrap();
            // Dropped where the test has failed.
            let _ = let_go.recv();
        }
    });
    let spilling = Options { tree_bytes: 300, ..options(Index::Minimal, Durability::Synced) };
    let store = Store::create(disk, spilling).unwrap();
    let mut tree = store.empty_tree();
    is_armed.store(true, SeqCst);
    let (asks, asked) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..100 {
                tree.add(&[format!("{number}")], &[7; 100]).unwrap();
            }
        });
        begun.recv_timeout(Duration::from_secs(59)).expect("it spills");
        scope.spawn(|| asks.send(store.warnings()).unwrap());
        let told = asked.recv_timeout(Duration::from_secs(20));
        drop(lets);
        assert_eq!(told.expect("it waited for the write"), Vec::<String>::new());
    });
}
