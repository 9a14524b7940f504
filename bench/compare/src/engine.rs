//! What every engine must be able to do, and how one is asked for with its options.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::draw::Key;
#[cfg(feature = "rocksdb")]
use crate::engines::rocksdb;
use crate::engines::{fjall, lmdb, redb, varvite};
use crate::outputs::Prefix;

/// Any engine's error, which ends the run.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Where an answer goes: the value, if the key was there.
pub type Answer<'a> = &'a mut dyn FnMut(Option<&[u8]>);

/// Where an entry goes: its key and its value.
pub type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// An open store of one engine.
pub trait Engine {
    /// Looks `keys` up, in order.
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()>;

    /// One batch: looks `spent` up in order, then deletes these keys and inserts `fresh`, as one
    /// change that is durable when `Terms` say so.
    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()>;

    /// Up to `length` entries in order of keys, from `from` on.
    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()>;

    /// The entries whose keys begin with `prefix`, in order.
    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()>;

    /// Everything, in order of keys, or from the last to the first.
    fn scan(&mut self, backward: bool, each: Each) -> Result<()>;

    /// Makes everything durable, waits for work in the background, and closes.
    fn settle(self: Box<Self>) -> Result<()>;
}

/// What is asked of every engine alike.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Entries in the store.
    pub entries: u64,
    /// Whether every batch must survive a power cut when it returns.
    pub synced: bool,
    /// Whether ranges are read, by the transactions that keys begin with among others.
    pub ranges: bool,
    /// The memory limit that the process runs under, page cache included.
    pub limit_bytes: Option<u64>,
}

/// An engine by name with options of its own, as `rocksdb:cache_mib=64,direct=1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The engine.
    pub engine: String,
    options: BTreeMap<String, u64>,
}

/// An engine that can be asked for.
struct Kind {
    name: &'static str,
    /// Version and where it comes from.
    version: &'static str,
    /// Options that decide what is written when the store is filled.
    filled_by: &'static [&'static str],
    /// Options that matter to a run only.
    run_by: &'static [&'static str],
    open: fn(&Path, &Spec, &Terms) -> Result<Box<dyn Engine>>,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "varvite",
        version: varvite::VERSION,
        filled_by: varvite::FILLED_BY,
        run_by: varvite::RUN_BY,
        open: varvite::open,
    },
    #[cfg(feature = "rocksdb")]
    Kind {
        name: "rocksdb",
        version: rocksdb::VERSION,
        filled_by: rocksdb::FILLED_BY,
        run_by: rocksdb::RUN_BY,
        open: rocksdb::open,
    },
    Kind {
        name: "lmdb",
        version: lmdb::VERSION,
        filled_by: lmdb::FILLED_BY,
        run_by: lmdb::RUN_BY,
        open: lmdb::open,
    },
    Kind {
        name: "redb",
        version: redb::VERSION,
        filled_by: redb::FILLED_BY,
        run_by: redb::RUN_BY,
        open: redb::open,
    },
    Kind {
        name: "fjall",
        version: fjall::VERSION,
        filled_by: fjall::FILLED_BY,
        run_by: fjall::RUN_BY,
        open: fjall::open,
    },
];

impl Spec {
    /// Every engine, with the options that are best for it.
    pub fn all() -> Vec<Spec> {
        KINDS
            .iter()
            .map(|kind| Spec { engine: kind.name.to_owned(), options: BTreeMap::new() })
            .collect()
    }

    fn kind(&self) -> &'static Kind {
        KINDS.iter().find(|kind| kind.name == self.engine).expect("parsed, so known")
    }

    /// Version of the engine.
    pub fn version(&self) -> &'static str {
        self.kind().version
    }

    /// Option `name`, or what is best without it.
    pub fn option(&self, name: &str, best: u64) -> u64 {
        let kind = self.kind();
        debug_assert!(kind.filled_by.contains(&name) || kind.run_by.contains(&name), "{name}");
        self.options.get(name).copied().unwrap_or(best)
    }

    /// Whether option `name` is on.
    pub fn is_on(&self, name: &str, best: bool) -> bool {
        self.option(name, u64::from(best)) != 0
    }

    /// The same without what matters to a run only: stores with equal ones are equal.
    pub fn filled(&self) -> Spec {
        let kind = self.kind();
        let mut spec = self.clone();
        spec.options.retain(|name, _| kind.filled_by.contains(&&**name));
        spec
    }

    /// Opens the store in folder `path`, or makes one when the folder is empty.
    pub fn open(&self, path: &Path, terms: &Terms) -> Result<Box<dyn Engine>> {
        (self.kind().open)(path, self, terms)
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Spec, String> {
        let (engine, options) = text.split_once(':').unwrap_or((text, ""));
        let Some(kind) = KINDS.iter().find(|kind| kind.name == engine) else {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            return Err(format!("{engine} is no engine here; choose from {}", names.join(", ")));
        };
        let mut spec = Spec { engine: engine.to_owned(), options: BTreeMap::new() };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let parsed = option.split_once('=').and_then(|(name, number)| {
                let known = kind.filled_by.iter().chain(kind.run_by).any(|it| *it == name);
                known.then_some((name.to_owned(), number.parse().ok()?))
            });
            let Some((name, number)) = parsed else {
                return Err(format!(
                    "{option} is no option of {engine}: write name=number with one of {}",
                    [kind.filled_by, kind.run_by].concat().join(", ")
                ));
            };
            spec.options.insert(name, number);
        }
        Ok(spec)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine)?;
        for (index, (name, number)) in self.options.iter().enumerate() {
            write!(f, "{}{name}={number}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_what_it_was_written_as() {
        let spec: Spec = "varvite:memory_mib=64,filter_bits=10".parse().unwrap();
        assert_eq!(spec.to_string(), "varvite:memory_mib=64,filter_bits=10");
        assert_eq!(spec.option("cache_mib", 1), 64);
        assert_eq!(spec.filled().to_string(), "varvite:filter_bits=10");
        assert!("varvite:cash=1".parse::<Spec>().is_err());
        assert!("bdb".parse::<Spec>().is_err());
    }
}
