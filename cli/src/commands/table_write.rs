//! `varvite table put` and `delete`: change a table and save the result as the next head.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use clap::Args;
use varvite::table::VALUE_BYTES_MAX;
use varvite::{
    Batch, Error, Kind, MergeOperator, Result, Session, SessionOptions, Snapshot, SnapshotContent,
    Table, TableOptions, Verify,
};

use super::table::{KeyRange, as_slice, bounds};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store;
use crate::text::Notation;

/// What heads are labelled with when nothing before them had a label.
const LABEL: &str = "varvite table";

/// Bytes read from an input at once.
const READ_BYTES: usize = 256 << 10;
/// A file of so many bytes is not read into memory whole.
const STREAMED_BYTES: u64 = (64 << 10) + 1;

/// Bind keys to values; the table is made when it is not there
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag that a person types
pub struct Put {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    /// A key, its value, and so on
    #[arg(required = true, num_args = 2.., value_names = ["KEY", "VALUE"])]
    pairs: Vec<String>,
    /// Make the store when the folder is missing or empty
    #[arg(long)]
    create: bool,
    /// Join the values to what is there, by the table's merge operator
    #[arg(long)]
    upsert: bool,
    /// The table's merge operator: add-u64, max or append; must be the one that it was made with
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Each value names a file whose bytes are stored, however many they are; `-` is standard input
    #[arg(long, conflicts_with = "upsert")]
    files: bool,
    /// When the table is made: values of at least so many bytes go to blob files [default: 65537]
    #[arg(long, value_name = "BYTES")]
    blob_min: Option<u32>,
}

/// Unbind keys
#[derive(Debug, Args)]
pub struct Delete {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    /// The keys
    #[arg(required = true)]
    keys: Vec<String>,
    /// Keys are hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Unbind every key of a range: whole segments at once, the rest key by key
#[derive(Debug, Args)]
pub struct DeleteRange {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    #[command(flatten)]
    range: KeyRange,
    /// Every key, when no bound is given
    #[arg(long)]
    all: bool,
}

/// The store as its current snapshot has it, open for writing.
pub struct Work {
    /// The open store.
    pub session: Session,
    /// Its current state, which is saved as the next head.
    pub snapshot: Snapshot,
}

impl Work {
    /// Opens the store in `folder`, or makes one; `otherwise` is the state when there is no head.
    pub fn open(folder: &Path, create: bool, otherwise: Option<&str>) -> Result<Work> {
        let options = SessionOptions::default();
        let session = if create {
            store::open_or_create(folder, options)?
        } else {
            store::open(folder, options).map_err(store::or_create)?
        };
        let current = match otherwise {
            Some(name) if store::heads(&session)?.is_empty() => Some(name.to_owned()),
            _ => store::current(&session)?,
        };
        let snapshot = match current {
            Some(name) => session.open_snapshot(&name, &store::options(Verify::Quick))?,
            None => Snapshot { label: LABEL.to_owned(), payload: Vec::new(), tables: Vec::new() },
        };
        Ok(Work { session, snapshot })
    }

    /// The table called `name`, made when it is not there. `Invalid` when `operator` is not its own.
    fn table(
        &mut self,
        name: &str,
        operator: Option<&str>,
        blob_min: Option<u32>,
    ) -> Result<&mut Table> {
        let asked = operator.map(built_in).transpose()?;
        let place = self.snapshot.tables.iter().position(|table| table.name() == name);
        let Some(place) = place else {
            let options = TableOptions {
                operator: asked,
                blob_min_bytes: blob_min,
                ..TableOptions::default()
            };
            self.snapshot.tables.push(self.session.create_table(name, options)?);
            return Ok(self.snapshot.tables.last_mut().expect("just pushed"));
        };
        let table = &mut self.snapshot.tables[place];
        let own = table.options().operator.as_ref().map(MergeOperator::name);
        if let Some(asked) = asked
            && own != Some(asked.name())
        {
            let own = own.map_or("none".to_owned(), |own| format!("\"{own}\""));
            return Err(Error::invalid(format!(
                "table {name} was made with the merge operator {own}, not \"{}\": leave --operator \
                 out or give that one",
                asked.name()
            )));
        }
        if blob_min.is_some_and(|it| Some(it) != table.options().blob_min_bytes) {
            return Err(Error::invalid(format!(
                "table {name} is there already, and what goes to blob files was said when it was made: \
                 leave --blob-min out"
            )));
        }
        Ok(table)
    }

    /// The table called `name`, which must be there.
    fn existing(&mut self, name: &str) -> Result<&mut Table> {
        if !self.snapshot.tables.iter().any(|table| table.name() == name) {
            self.snapshot.take(name)?; // says which tables there are
        }
        self.table(name, None, None)
    }

    /// Saves everything as the next head, then removes the heads before it.
    pub fn save(self) -> Result<String> {
        let heads = store::heads(&self.session)?;
        let name = store::head_name(heads.last().map_or(1, |(number, _)| number + 1));
        let tables: Vec<&Table> = self.snapshot.tables.iter().collect();
        let Snapshot { label, payload, .. } = &self.snapshot;
        self.session.save_snapshot(&name, SnapshotContent { label, payload, tables: &tables })?;
        for (_, older) in heads {
            self.session.delete_snapshot(&older)?;
        }
        drop(self.snapshot);
        self.session.close()?;
        Ok(name)
    }
}

/// The merge operator called `name`.
pub fn built_in(name: &str) -> Result<MergeOperator> {
    MergeOperator::built_in(name).ok_or_else(|| {
        let operators = store::operators();
        let names: Vec<_> = operators.iter().map(MergeOperator::name).collect();
        Error::invalid(format!("there is no merge operator \"{name}\": use {}", names.join(", ")))
    })
}

/// Runs `put`.
pub fn put(arguments: &Put, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    if !arguments.pairs.len().is_multiple_of(2) {
        return Err(
            Error::invalid("the last key has no value: give keys and values in turn").into()
        );
    }
    if arguments.files {
        return put_files(arguments, notation, format);
    }
    let mut batch = Batch::new();
    for pair in arguments.pairs.chunks_exact(2) {
        let (key, value) = (notation.parse("key", &pair[0])?, notation.parse("value", &pair[1])?);
        if arguments.upsert {
            batch.upsert(&key, &value)
        } else {
            batch.insert(&key, &value)
        };
    }
    let mut work = Work::open(&arguments.store, arguments.create, None)?;
    let operator = arguments.operator.as_deref();
    work.table(&arguments.table, operator, arguments.blob_min)?.update(&batch)?;
    saved(work, batch.len(), "put", format)
}

/// Binds keys to the content of files. Long ones go to the store in pieces.
fn put_files(arguments: &Put, notation: Notation, format: Format) -> Outcome {
    let mut work = Work::open(&arguments.store, arguments.create, None)?;
    let session = work.session.clone();
    let table = work.table(&arguments.table, arguments.operator.as_deref(), arguments.blob_min)?;
    let joins = table.options().operator.is_some();
    let mut batch = Batch::new();
    for pair in arguments.pairs.chunks_exact(2) {
        let key = notation.parse("key", &pair[0])?;
        let (name, mut input) = open_input(Path::new(&pair[1]))?;
        let failed = |error: &io::Error| Error::new(Kind::Io, format!("reading {name}: {error}"));
        // Values that upserts may join are inserted whole.
        let most = if joins { VALUE_BYTES_MAX as u64 + 1 } else { STREAMED_BYTES };
        let mut start = Vec::new();
        input.by_ref().take(most).read_to_end(&mut start).map_err(|error| failed(&error))?;
        if joins || (start.len() as u64) < most {
            batch.insert(&key, &start);
            continue;
        }
        let mut writer = session.write_value()?;
        writer.write(&start)?;
        loop {
            let piece = input.fill_buf().map_err(|error| failed(&error))?;
            if piece.is_empty() {
                break;
            }
            writer.write(piece)?;
            let read = piece.len();
            input.consume(read);
        }
        batch.insert_value(&key, &writer.finish()?);
    }
    table.update(&batch)?;
    let count = batch.len();
    drop((batch, session));
    saved(work, count, "put", format)
}

/// The file at `path`, or standard input, with its name for errors.
pub fn open_input(path: &Path) -> Result<(String, Box<dyn BufRead>)> {
    if path.as_os_str() == "-" {
        let input = BufReader::with_capacity(READ_BYTES, io::stdin());
        return Ok(("standard input".to_owned(), Box::new(input)));
    }
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { Kind::Missing } else { Kind::Io };
        Error::new(kind, format!("opening {name}: {error}"))
    })?;
    Ok((name, Box::new(BufReader::with_capacity(READ_BYTES, file))))
}

/// Runs `delete`.
pub fn delete(arguments: &Delete, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let mut batch = Batch::new();
    for key in &arguments.keys {
        batch.delete(&notation.parse("key", key)?);
    }
    let mut work = Work::open(&arguments.store, false, None)?;
    work.existing(&arguments.table)?.update(&batch)?;
    saved(work, batch.len(), "deleted", format)
}

/// Runs `delete-range`.
pub fn delete_range(arguments: &DeleteRange, format: Format) -> Outcome {
    let (lower, upper) = bounds(&arguments.range, Notation::new(arguments.range.hex))?;
    if !arguments.all && lower == Bound::Unbounded && upper == Bound::Unbounded {
        let detail = "no bound is given: give --all to unbind every key of the table";
        return Err(Error::invalid(detail).into());
    }
    let mut work = Work::open(&arguments.store, false, None)?;
    work.existing(&arguments.table)?.delete_range(as_slice(&lower), as_slice(&upper))?;
    let name = work.save()?;
    match format {
        Format::Json => print::json(&serde_json::json!({ "snapshot": name }))?,
        Format::Table => print::line(&format!("range deleted; saved as {name}"))?,
    }
    Ok(Verdict::Yes)
}

fn saved(work: Work, count: usize, done: &str, format: Format) -> Outcome {
    let name = work.save()?;
    match format {
        Format::Json => print::json(&serde_json::json!({ "snapshot": name, "operations": count }))?,
        Format::Table => {
            let plural = if count == 1 { "" } else { "s" };
            print::line(&format!("{count} key{plural} {done}; saved as {name}"))?;
        }
    }
    Ok(Verdict::Yes)
}
