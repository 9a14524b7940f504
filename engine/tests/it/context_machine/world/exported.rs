//! Steps of snapshots: commits go to files, come up in a new store and in the living one. Equal commits make
//! equal files, whatever chunks, collections, pins and patches the store has that writes them.

use std::sync::Arc;

use varvite::context::{CommitFileOptions, CommitHash, Index, Options, Store, verify_commit};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use super::{World, options};
use crate::context_machine::pair::Pair;
use crate::model::context::Node;
use crate::random::Random;

const FILE: &str = "file";

/// Files that are kept at most.
const FILES: usize = 6;

/// A file and what must come out of it, parents first.
pub(super) struct Exported {
    commits: Vec<(CommitHash, Arc<Node>)>,
    bytes: Vec<u8>,
    is_plain: bool,
}

impl Exported {
    fn names(&self) -> impl Iterator<Item = &CommitHash> {
        self.commits.iter().map(|(hash, _)| hash)
    }

    fn disk(&self) -> Arc<MemoryDisk> {
        let disk = MemoryDisk::seeded(3);
        disk.replace(FILE, self.bytes.clone()).unwrap();
        disk
    }
}

fn written(store: &Store, commits: &[CommitHash], level: Option<i32>) -> Vec<u8> {
    let disk = MemoryDisk::seeded(3);
    let target = Arc::clone(&disk) as Arc<dyn Disk>;
    let options = CommitFileOptions { zstd_level: level };
    store.export_commits(commits, options, &target, FILE).unwrap();
    disk.bytes(FILE).unwrap()
}

impl World {
    pub(super) fn snapshot(&mut self, random: &mut Random) {
        if self.files.is_empty() || random.one_in(4) {
            self.export_commits(random);
        } else if random.one_in(4) {
            self.export_again(random);
        } else {
            // Old ones rather: a collection may have taken what they have.
            let at = random.index(self.files.len()).min(random.index(self.files.len()));
            let file = self.files.remove(at);
            if random.one_in(3) {
                self.import_elsewhere(&file, random);
            } else {
                self.import_here(&file);
            }
            self.files.push(file);
        }
    }

    /// What was written before, if all of it is there still, or again: by other chunks, collections and patches.
    fn export_again(&mut self, random: &mut Random) {
        let file = self.files.remove(random.index(self.files.len()));
        let names: Vec<CommitHash> = file.names().copied().collect();
        let held = |name| self.held.commits.iter().any(|(hash, _)| hash == name);
        if file.is_plain && names.iter().all(held) {
            let bytes = written(self.store(), &names, None);
            assert!(bytes == file.bytes, "equal commits make equal files");
            self.count("the same commits made the same file");
        }
        self.files.push(file);
    }

    /// A commit, or some that lead to it.
    fn export_commits(&mut self, random: &mut Random) {
        let count = self.held.commits.len();
        if count == 0 {
            return;
        }
        let (last, model) = self.held.commits[random.index(count)].clone();
        let mut in_order = vec![(last, model)];
        for _ in 0..random.index(4) {
            let parents = self.store().commit_info(&in_order[0].0).unwrap().parents;
            let held = |(hash, _): &&(CommitHash, Arc<Node>)| Some(hash) == parents.first();
            let Some(parent) = self.held.commits.iter().find(held) else { break };
            in_order.insert(0, parent.clone());
        }
        let commits: Vec<CommitHash> = in_order.iter().rev().map(|(hash, _)| *hash).collect();
        let level = random.one_in(3).then_some(1);
        let bytes = written(self.store(), &commits, level);
        let file = Exported { commits: in_order, bytes, is_plain: level.is_none() };
        assert_eq!(verify_commit(&*file.disk(), FILE).unwrap().commits, commits.len() as u64);
        if !self.below.is_empty() {
            self.count("a file was written beside chunks below");
        }
        if commits.len() > 1 {
            self.count("a range was written");
        }
        self.files.push(file);
        self.files.drain(..self.files.len().saturating_sub(FILES));
        self.count("a file was written");
    }

    /// A store of its own, which indexes in the other way and spills at once.
    fn import_elsewhere(&mut self, file: &Exported, random: &mut Random) {
        let mine = options(&self.setup, None);
        let index = match mine.index {
            Index::Always => Index::Minimal,
            Index::Minimal => Index::Always,
        };
        let options = Options { index, tree_bytes: random.choose(&[0, 3_000, 1 << 20]), ..mine };
        let target = MemoryDisk::seeded(4);
        let made = Store::create_from_commit(target, options, &*file.disk(), FILE);
        let (store, said) = made.unwrap();
        assert_eq!(said.commits, file.commits.len() as u64);
        for (hash, model) in &file.commits {
            let tree = store.checkout(hash).unwrap();
            let pair = Pair { tree, model: Node::clone(model) };
            pair.check(random, "imported elsewhere");
        }
        if file.is_plain {
            let names: Vec<CommitHash> = file.names().copied().collect();
            assert!(written(&store, &names, None) == file.bytes, "it writes the same file");
        }
        store.check().unwrap();
        self.count("a file made a store");
    }

    /// What the living store has not, or has no more, it has from now on.
    fn import_here(&mut self, file: &Exported) {
        let collects = self.keeping.is_some();
        // What a collection that marks may take is written once more, which the model has no place for:
        // `context_snapshot_beside` looks at it.
        let held = |hash| self.held.commits.iter().position(|(held, _)| held == hash);
        if file.names().filter_map(held).any(|number| self.is_before_target(number)) {
            return;
        }
        let first = self.last_chunk();
        let said = self.store().import_commit(&*file.disk(), FILE).unwrap();
        assert_eq!(said.commits, file.commits.len() as u64);
        for (hash, model) in &file.commits {
            if self.held.commits.iter().any(|(held, _)| held == hash) {
                continue;
            }
            if self.held.ever.iter().any(|(held, _)| held == hash) {
                // Its older record may come back from the lower folder beside the new one.
                self.is_twice = true;
                self.count("a collected commit came back from a file");
            }
            self.held.commits.push((*hash, Arc::clone(model)));
            self.held.ever.push((*hash, Arc::clone(model)));
            let last = self.last_chunk();
            self.places.insert(*hash, (first, last));
            // Each is added as any commit is.
            self.changed();
            self.count("a commit came from a file");
            if collects {
                self.count("a commit came from a file beside a collection");
            }
        }
        self.count("a file was read");
        self.note_horizon();
    }
}
