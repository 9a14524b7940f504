//! Options of the library that a replay is given by name, so that any of them can be tried on a load that was recorded.

use std::str::FromStr;
use std::sync::Arc;

use varvite::cache::Cache;
use varvite::context::{Durability, Options, Store};
use varvite::disk::Access;
use varvite::disk::memory::MemoryDisk;
use varvite::trace::Recorder;
use varvite::{
    Compression, Error, Log, Lookups, MergeOperator, Result, Session, SessionOptions, TableOptions,
};

use crate::store::tables;

/// Options of a context.
const CONTEXT: [&str; 9] = [
    "durability",
    "objects_bytes",
    "hashes_bytes",
    "hashes_file_bytes",
    "pages_bytes",
    "index_bytes",
    "tree_bytes",
    "chunk_bytes",
    "max_open_files",
];

/// Options of a session; it has `max_open_files`, too.
const SESSION: [&str; 5] =
    ["cache_bytes", "direct", "queue_depth", "segment_bytes", "log_file_bytes"];

/// Options of tables that are made.
const TABLE: [&str; 7] = [
    "write_buffer_bytes",
    "size_ratio",
    "filter_bits",
    "filter_bytes_max",
    "blob_min_bytes",
    "compression",
    "lookups_often_nothing",
];

/// A part of a cache is taken at once; the library has the same for a context's.
const CACHE_BYTES_MAX: u64 = 1 << 36;

/// An option, and the number that it gets.
#[derive(Clone, Debug)]
pub struct Setting {
    name: String,
    number: u64,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Setting, String> {
        let (name, number) = text.split_once('=').ok_or("give it as in pages_bytes=16777216")?;
        if ![&CONTEXT[..], &SESSION, &TABLE].concat().contains(&name) {
            let all = [&CONTEXT[..], &SESSION, &TABLE].concat().join(", ");
            return Err(format!("there is no option {name}: there are {all}"));
        }
        let number = number.parse().map_err(|_| format!("{number} is no number for {name}"))?;
        Ok(Setting { name: name.to_owned(), number })
    }
}

/// How the upserts of a table are joined, or those of all others.
#[derive(Clone, Debug)]
pub struct Joined {
    table: Option<String>,
    operator: MergeOperator,
}

impl Joined {
    /// As a replay takes it.
    pub fn pair(&self) -> (Option<String>, MergeOperator) {
        (self.table.clone(), self.operator.clone())
    }

    /// The table that it is for, if not for all others.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }
}

impl FromStr for Joined {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Joined, String> {
        // A table may have any name, also one with this sign in it.
        let (table, name) =
            text.rsplit_once('=').map_or((None, text), |(table, name)| (Some(table), name));
        let operator = MergeOperator::built_in(name).ok_or_else(|| {
            let known = tables::operators();
            let known: Vec<_> = known.iter().map(MergeOperator::name).collect();
            format!("there is no merge operator \"{name}\": use {}", known.join(", "))
        })?;
        Ok(Joined { table: table.map(str::to_owned), operator })
    }
}

/// Options of a store of Irmin, which is only read.
const IRMIN: [&str; 2] = ["objects_bytes", "pages_bytes"];

/// What a replay has, of a store: whether its trace has calls of a context, and of tables, and whether the context is one of
/// Irmin.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub context: bool,
    pub tables: bool,
    pub is_irmin: bool,
}

impl Parts {
    /// `Invalid` for one of `settings` that nothing here would have.
    pub fn check(self, settings: &[Setting]) -> Result<()> {
        let has = |name: &str| {
            let own: &[&str] = if self.is_irmin { &IRMIN } else { &CONTEXT };
            let of_tables = [&SESSION[..], &TABLE, &["max_open_files"]].concat();
            self.context && own.contains(&name) || self.tables && of_tables.contains(&name)
        };
        let Some(Setting { name, .. }) = settings.iter().find(|it| !has(&it.name)) else {
            return Ok(());
        };
        let why = match (self.is_irmin, CONTEXT.contains(&&**name)) {
            (true, true) => "a store of Irmin has no such option: leave it out",
            (_, true) => "that is an option of a context, and the trace has none: leave it out",
            (_, false) => "that is an option of tables, and the trace has none: leave it out",
        };
        Err(Error::invalid(format!("{name}: {why}")))
    }
}

/// What a replay opens and makes stores with.
#[derive(Clone)]
pub struct Settled {
    pub context: Options,
    pub session: SessionOptions,
    pub table: TableOptions,
}

impl Settled {
    /// With `settings`, the last of a name. `Invalid` for a number that its option does not take.
    pub fn with(mut self, settings: &[Setting]) -> Result<Settled> {
        settings.iter().try_for_each(|setting| self.set(setting))?;
        // Refused here, before anything is made, and not at each table that the trace makes.
        let session = SessionOptions { log: Log::None, ..self.session.clone() };
        let probe = Session::create(MemoryDisk::seeded(1), session)?;
        probe.create_table("options", self.table.clone())?;
        // In memory that file would be memory.
        let context = Options { hashes_file_bytes: 0, ..self.context.clone() };
        Store::create(MemoryDisk::seeded(1), context)?;
        Ok(self)
    }

    /// Has `recorder` write down what is done with it.
    pub fn recorded(mut self, recorder: Option<Arc<Recorder>>) -> Settled {
        self.context.recorder.clone_from(&recorder);
        self.session.recorder = recorder;
        self
    }

    fn set(&mut self, Setting { name, number }: &Setting) -> Result<()> {
        let Settled { context, session, table } = self;
        let number = *number;
        match name.as_str() {
            "durability" => {
                let is_synced = flag(name, number)?;
                context.durability =
                    if is_synced { Durability::Synced } else { Durability::Written };
            }
            "objects_bytes" => context.objects_bytes = number,
            "hashes_bytes" => context.hashes_bytes = number,
            "hashes_file_bytes" => context.hashes_file_bytes = number,
            "pages_bytes" => context.pages_bytes = number,
            "index_bytes" => context.index_bytes = number,
            "tree_bytes" => context.tree_bytes = number,
            "chunk_bytes" => context.chunk_bytes = number,
            "max_open_files" => {
                context.max_open_files = Some(fitting(name, number)?);
                session.max_open_files = Some(fitting(name, number)?);
            }
            "cache_bytes" if number > CACHE_BYTES_MAX => return Err(too_large(name, number)),
            "cache_bytes" => session.cache = Some(Cache::new(number)),
            "direct" => {
                session.access =
                    if flag(name, number)? { Access::Direct } else { Access::Buffered };
            }
            "queue_depth" => session.queue_depth = fitting(name, number)?,
            "segment_bytes" => session.segment_bytes = number,
            "log_file_bytes" => session.log_file_bytes = number,
            "write_buffer_bytes" => table.write_buffer_bytes = number,
            "size_ratio" => table.size_ratio = fitting(name, number)?,
            "filter_bits" => table.filter_bits = fitting(name, number)?,
            "filter_bytes_max" => table.filter_bytes_max = number,
            "blob_min_bytes" => table.blob_min_bytes = Some(fitting(name, number)?),
            "compression" => {
                let is_on = flag(name, number)?;
                table.compression = if is_on { Compression::Fast } else { Compression::None };
            }
            "lookups_often_nothing" => {
                let is_on = flag(name, number)?;
                table.lookups = if is_on { Lookups::Mixed } else { Lookups::MostlyHit };
            }
            _ => unreachable!("names were looked at when they were read"),
        }
        Ok(())
    }
}

fn fitting<T: TryFrom<u64>>(name: &str, number: u64) -> Result<T> {
    T::try_from(number).map_err(|_| too_large(name, number))
}

fn too_large(name: &str, number: u64) -> Error {
    Error::invalid(format!("{number} is too large for {name}: give a smaller one"))
}

fn flag(name: &str, number: u64) -> Result<bool> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::invalid(format!("{name} is 1 or 0, and not {number}"))),
    }
}
