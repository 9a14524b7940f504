//! Opening contexts, ours and those of Irmin, and naming their commits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use varvite::context::CommitHash;
use varvite::context::{ChildOrder, Configuration, Options, Store};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack::{self as irmin, Schema, Verify};
use varvite::{Error, Kind, Result};

use super::folder;
use crate::advice::{self, BRANCHES, CONTEXT_LOG, CONTEXT_MIGRATE, LIST, REPAIR};
use crate::hex;
use crate::system::volume;
use crate::text::Notation;
use crate::{print, progress};

/// A context, and what the folder of one of Irmin does not say.
#[derive(Clone, Debug, Args)]
pub struct Folder {
    /// Folder of the store: one of varvite's, or its lower folder, or one of Irmin (irmin-pack), which are only read
    pub store: PathBuf,
    #[command(flatten)]
    pub foreign: Foreign,
}

/// What the folder of a store of Irmin does not say.
#[derive(Clone, Debug, Args)]
pub struct Foreign {
    /// Folder of the lower layer, which has old commits of an archive; of a store of Irmin, if it is not "lower" in or
    /// beside the store
    #[arg(long, value_name = "DIR")]
    lower: Option<PathBuf>,
    /// Irmin: branching of directories, and the most entries of one that is hashed flat
    #[arg(long, value_name = "ENTRIES,FLAT", value_parser = shape, default_value = "32,256")]
    shape: (u32, u32),
    /// Irmin: children are ordered by bits of the hash of their name
    #[arg(long)]
    hash_bits: bool,
    /// Irmin: do not hash directories again when they are read
    #[arg(long)]
    trust: bool,
}

/// Closes a store that was written to, after what it has to warn of, such as files of others that it left alone.
pub fn close(store: Store) -> Result<()> {
    progress::warn_of(store.warnings());
    store.close()
}

/// Two numbers as of `--shape`.
pub fn shape(text: &str) -> std::result::Result<(u32, u32), String> {
    let pair = text.split_once(',').and_then(|(entries, flat)| {
        Some((entries.trim().parse().ok()?, flat.trim().parse().ok()?))
    });
    pair.ok_or_else(|| "give two numbers, as in 32,256".to_owned())
}

impl Default for Foreign {
    fn default() -> Foreign {
        Foreign { lower: None, shape: (32, 256), hash_bits: false, trust: false }
    }
}

impl Foreign {
    /// The folder of the lower layer, where one is given.
    pub fn lower(&self) -> Option<&Path> {
        self.lower.as_deref()
    }

    /// What was given of it, as flags with their values.
    pub fn flags(&self) -> Vec<(&'static str, Option<OsString>)> {
        let (entries, flat) = self.shape;
        let shape = (self.shape != Foreign::default().shape).then(|| format!("{entries},{flat}"));
        let mut flags = Vec::new();
        flags.extend(self.lower.as_ref().map(|lower| ("lower", Some(lower.into()))));
        flags.extend(shape.map(|shape| ("shape", Some(shape.into()))));
        flags.extend(self.hash_bits.then_some(("hash-bits", None)));
        flags.extend(self.trust.then_some(("trust", None)));
        flags
    }

    /// The same for a store beside the one that the lower folder is of.
    #[cfg_attr(not(feature = "explorer"), allow(dead_code))] // which shows several
    pub fn without_lower(&self) -> Foreign {
        Foreign { lower: None, ..self.clone() }
    }

    /// The same wherever it is given, with the full path of the lower folder.
    pub fn absolute(&self) -> Result<Foreign> {
        let full = |lower: &PathBuf| {
            let full = lower.canonicalize();
            full.map_err(|error| Error::io("find", &lower.display().to_string(), error))
        };
        let lower = self.lower.as_ref().map(full).transpose()?;
        Ok(Foreign { lower, ..self.clone() })
    }

    /// The same as it is given to another command, as far as it is not what is usual.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut given: Vec<OsString> = Vec::new();
        if let Some(lower) = &self.lower {
            given.extend([OsString::from("--lower"), OsString::from(lower)]);
        }
        given.extend(self.shape_arguments().into_iter().map(OsString::from));
        given
    }

    /// The same as it is typed, with a blank before each.
    pub fn typed(&self) -> String {
        let shape = self.shape_arguments().into_iter().map(|word| format!(" {word}"));
        shape.fold(advice::with(self.lower()), |typed, word| typed + &word)
    }

    /// What of it is of stores of Irmin alone.
    fn shape_arguments(&self) -> Vec<String> {
        let usual = Foreign::default();
        let mut given = Vec::new();
        if self.shape != usual.shape {
            given.extend(["--shape".to_owned(), format!("{},{}", self.shape.0, self.shape.1)]);
        }
        given.extend(self.hash_bits.then(|| "--hash-bits".to_owned()));
        given.extend(self.trust.then(|| "--trust".to_owned()));
        given
    }

    /// `Invalid` where any of it is given for a store of tables in `folder`, which has nothing of it.
    pub fn expect_none(&self, path: &Path) -> Result<()> {
        if self.lower.is_some() {
            return Err(folder::no_lower(path));
        }
        self.expect_no_shape(path)
    }

    /// `Invalid` where what is of stores of Irmin alone is given for another in `folder`.
    pub fn expect_no_shape(&self, folder: &Path) -> Result<()> {
        let given = self.shape_arguments();
        match given.iter().find(|word| word.starts_with("--")) {
            None => Ok(()),
            Some(word) => Err(Error::invalid(format!(
                "{} is no store of Irmin, and {word} is of those alone: leave it out",
                folder.display()
            ))),
        }
    }

    /// Whether the shape was given.
    pub fn has_shape(&self) -> bool {
        let usual = Foreign::default();
        (self.shape, self.hash_bits) != (usual.shape, usual.hash_bits)
    }

    /// The same for a store that is none of Irmin.
    #[cfg_attr(not(feature = "explorer"), allow(dead_code))] // as above
    pub fn without_shape(&self) -> Foreign {
        Foreign { lower: self.lower.clone(), ..Foreign::default() }
    }

    /// How a store of Irmin in `folder` is opened.
    pub fn options(&self, folder: &Path) -> Result<irmin::Options> {
        let order = if self.hash_bits { ChildOrder::HashBits } else { ChildOrder::SeededHash };
        let beside = folder.canonicalize().ok().and_then(|full| Some(full.parent()?.join("lower")));
        let lower: Option<Arc<dyn Disk>> = match (&self.lower, beside) {
            (Some(lower), _) => {
                if folder::is_own(lower) {
                    let (shown, own) = (lower.display(), folder.display());
                    return Err(Error::invalid(format!(
                        "{shown} is of a store of varvite, and {own} is one of Irmin: give the folder of its lower layer, \
                         or leave --lower out"
                    )));
                }
                Some(disk(lower)?)
            }
            (None, Some(beside)) if beside.is_dir() && !folder.join("lower").is_dir() => {
                Some(disk(&beside)?)
            }
            _ => None,
        };
        Ok(irmin::Options {
            configuration: Configuration::new(self.shape.0, self.shape.1, order)?,
            lower,
            verify: if self.trust { Verify::Trust } else { Verify::Hashes },
            ..irmin::Options::default()
        })
    }
}

/// The folder of a context as a disk; `Invalid` when it is a store of tables, `Corrupt` when the control file is lost.
fn disk(folder: &Path) -> Result<Arc<OsDisk>> {
    let disk = folder::disk(folder)?;
    if folder::is_wreck(folder) {
        return Err(Error::new(
            Kind::Corrupt,
            format!(
                "{} has lost its file control, which says what the context is made of: put it back from a copy, or see \
                 what {REPAIR} keeps",
                folder.display()
            ),
        ));
    }
    if folder.join("session").is_file() && !folder.join("control").exists() {
        return Err(Error::invalid(format!(
            "{} holds tables, not a context: look into it with {LIST}",
            folder.display()
        )));
    }
    Ok(disk)
}

impl Folder {
    /// The context in `store`, with what is usual where a folder of Irmin does not say.
    pub fn of(store: &Path) -> Folder {
        Folder { store: store.to_owned(), foreign: Foreign::default() }
    }

    /// Opens the store to read.
    pub fn open(&self) -> Result<Store> {
        self.open_with(Options::default())
    }

    /// The same with the memory for nodes and pages that `options` allow.
    pub fn open_with(&self, options: Options) -> Result<Store> {
        let folder = disk(&self.store)?;
        if irmin::is_store(&*folder)? {
            let foreign = self.foreign.options(&self.store)?;
            let (objects_bytes, pages_bytes) = (options.objects_bytes, options.pages_bytes);
            let recorder = options.recorder;
            let own = irmin::Options { objects_bytes, pages_bytes, recorder, ..foreign };
            return irmin::open(folder, &own);
        }
        self.foreign.expect_no_shape(&self.store)?;
        let store = if self.foreign.lower.is_none() && Store::is_lower_folder(&*folder)? {
            Store::open_lower_folder(folder, options)?
        } else {
            let lower = below(self.foreign.lower.as_deref())?;
            Store::open_read_only(folder, Options { lower, ..options })?
        };
        // What is read is not all that there was.
        progress::warn_of(store.damage());
        Ok(store)
    }

    /// The folder of the lower layer, if it was given.
    pub fn lower(&self) -> Option<&Path> {
        self.foreign.lower()
    }

    /// Opens the store to write.
    pub fn open_to_write(&self) -> Result<Store> {
        self.foreign.expect_no_shape(&self.store)?;
        open_with_lower(&self.store, self.foreign.lower.as_deref())
    }
}

/// A store of ours that is changed, whose old commits may be elsewhere.
#[derive(Debug, Args)]
pub struct Target {
    /// Folder of the store
    pub store: PathBuf,
    /// Folder of the lower layer, if the store is an archive
    #[arg(long, value_name = "DIR")]
    lower: Option<PathBuf>,
}

impl Target {
    /// Opens the store to write.
    pub fn open(&self) -> Result<Store> {
        open_with_lower(&self.store, self.lower.as_deref())
    }
}

fn below(lower: Option<&Path>) -> Result<Option<Arc<dyn Disk>>> {
    lower.map(|lower| disk(lower).map(|disk| disk as Arc<dyn Disk>)).transpose()
}

/// Opens one of our stores to write. One of Irmin is only read.
pub fn open_to_write(folder: &Path) -> Result<Store> {
    open_with_lower(folder, None)
}

/// The same with the folder of its lower layer.
fn open_with_lower(folder: &Path, lower: Option<&Path>) -> Result<Store> {
    open_over(folder, below(lower)?)
}

/// The same with the disk of its lower layer.
pub fn open_over(folder: &Path, lower: Option<Arc<dyn Disk>>) -> Result<Store> {
    let disk = disk(folder)?;
    if irmin::is_store(&*disk)? {
        return Err(Error::invalid(format!(
            "{} is a store of Irmin, which is only read: take it over with {CONTEXT_MIGRATE}",
            folder.display()
        )));
    }
    Store::open(disk, Options { lower, ..Options::default() })
}

/// Removes the context that this process has made as `store` in `target`, and the folders that were made for it, as far
/// as nobody put anything else there.
pub fn remove_new(store: Store, target: folder::Target) {
    volume::look();
    // What went wrong before is what is told, so nothing is said of what cannot be removed.
    let _ = store.discard();
    target.give_up();
}

/// What stands before the name of a branch that could be taken for something else.
const BRANCH: &str = "branch:";
/// The newest commit.
const LAST: &str = "last";
/// Characters that the beginning of a hash has at least.
const PREFIX_MIN: usize = 4;
/// Characters from which on a word is taken for a whole hash that was mistyped.
const LOOKS_WHOLE: usize = 40;
/// How every hash begins that is written as Tezos writes those of commits.
const TEXT_START: &str = "Co";
/// Commits that are named of those whose hash begins alike.
const ALIKE: usize = 4;

/// The commit that `text` names: "last", a hash or its beginning, a branch, `branch:NAME` for one that is
/// called like another of these; each may have `~N` behind it, N commits before.
pub fn commit(store: &Store, text: &str) -> Result<CommitHash> {
    // A branch may have been called so before such names were refused.
    let is_branch = |text| branch_name(text).is_ok_and(|name| store.branch(&name).is_some());
    let (name, back) = match text.rsplit_once('~') {
        Some((name, back)) if !is_branch(text) => (name, Some(back)),
        _ => (text, None),
    };
    let mut hash = named(store, name)?;
    let steps = back.map_or(Ok(0), |back| {
        if back.is_empty() { Ok(1) } else { back.parse::<u64>() }.map_err(|_| {
            Error::invalid(format!("\"{text}\" has no number behind ~: write {name}~3"))
        })
    })?;
    for step in 0..steps {
        let parents = store.commit_info(&hash)?.parents;
        hash = *parents.first().ok_or_else(|| {
            let there = print::counted(step, "commit", "commits");
            Error::missing(format!("{name} has only {there} before it, not {steps}"))
        })?;
    }
    Ok(hash)
}

fn named(store: &Store, text: &str) -> Result<CommitHash> {
    if let Some(name) = text.strip_prefix(BRANCH) {
        return store.branch(&branch_name(name)?).ok_or_else(|| {
            Error::missing(format!(
                "there is no branch \"{name}\": {BRANCHES} shows which there are"
            ))
        });
    }
    if text == LAST {
        return store.last_commit()?.ok_or_else(|| Error::missing("the store has no commit yet"));
    }
    if let Some(hash) = whole(text) {
        return Ok(hash);
    }
    if let Some(hash) = store.branch(&branch_name(text)?) {
        return Ok(hash);
    }
    if let Some(hash) = beginning(store, text)? {
        return Ok(hash);
    }
    if text.len() >= LOOKS_WHOLE {
        // Says what is wrong with a hash that was mistyped.
        return text.parse().map_err(|error: Error| error.context("neither a branch nor \"last\""));
    }
    Err(Error::missing(format!(
        "there is no branch \"{text}\", and no commit whose hash begins so: {BRANCHES} and {CONTEXT_LOG} \
         show which there are"
    )))
}

/// The bytes of a branch's name as it is typed: text with escapes.
pub fn branch_name(typed: &str) -> Result<Vec<u8>> {
    Notation::Text.parse("branch", typed)
}

/// The hash that `text` is all of.
fn whole(text: &str) -> Option<CommitHash> {
    if let Some(short) = hex::decode(text).filter(|bytes| bytes.len() == Schema::Sha1.hash_bytes())
    {
        let mut hash = [0; 32];
        hash[..short.len()].copy_from_slice(&short);
        return Some(hash.into());
    }
    text.parse().ok()
}

/// The only commit whose hash begins with `start`; `Invalid` when there are several.
fn beginning(store: &Store, start: &str) -> Result<Option<CommitHash>> {
    let found = beginning_with(store, start)?;
    if found.len() < 2 {
        return Ok(found.first().copied());
    }
    let names: Vec<_> = found.iter().take(ALIKE).map(|hash| text(hash)).collect();
    Err(Error::invalid(format!(
        "{} commits begin with {start}: write more of {}",
        found.len(),
        names.join(" or ")
    )))
}

/// All commits whose hash begins with `start`; none where that is no beginning of a hash.
fn beginning_with(store: &Store, start: &str) -> Result<Vec<CommitHash>> {
    // Other words, as "main", are not looked for in the whole log.
    let is_hash =
        start.starts_with(TEXT_START) || start.bytes().all(|byte| byte.is_ascii_hexdigit());
    if start.len() < PREFIX_MIN
        || !is_hash
        || !start.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Ok(Vec::new());
    }
    let as_hex = start.to_lowercase();
    let mut found = store.log(usize::MAX)?;
    found.extend(store.branches().into_iter().map(|(_, hash)| hash));
    found.retain(|hash| {
        text(hash).starts_with(start) || hex::encode(hash.as_bytes()).starts_with(&as_hex)
    });
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Refuses names for new branches of the store that mean something else.
pub fn check_branch_name(store: &Store, name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "empty"
    } else if name == LAST {
        "the word for the newest commit"
    } else if name.starts_with(BRANCH) || name.contains('~') {
        "how commits are counted back from, or branches are told apart"
    } else if whole(name).is_some() {
        "the hash of a commit"
    } else {
        let found = beginning_with(store, name).map_err(|error| {
            error.context(format!("looking whether the hash of a commit begins with \"{name}\""))
        })?;
        if found.is_empty() {
            return Ok(());
        }
        "how the hash of a commit begins"
    };
    Err(Error::invalid(format!(
        "a branch cannot be called \"{name}\", which is {why}: choose another name"
    )))
}

/// A hash as people see it. Those of SHA-1 are known by the zeros behind them.
pub fn text(hash: &[u8; 32]) -> String {
    let short = Schema::Sha1.hash_bytes();
    let schema = if hash[short..].iter().all(|byte| *byte == 0) && hash[..short] != [0; 20] {
        Schema::Sha1
    } else {
        Schema::Tezos
    };
    schema.text(hash)
}
