//! `varvite table load`: makes a table from a dump, or all from one of all.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use clap::Args;
use varvite::table::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use varvite::{
    Batch, Error, Kind, Loader, Lookups, MergeOperator, Result, Session, Table, TableOptions, Value,
};

use super::change::{Change, Making, built_in};
use crate::exit::{Outcome, Verdict};
use crate::flags::{CompressionKind, Sorting};
use crate::input;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::text::Notation;
use crate::workload::dump::{self, Part, Reading};

/// Make a table from what `dump` printed
///
/// The keys must ascend, as in a dump, unless --sort is given; then of several values for one key the
/// last one counts. Whether the input is JSON lines, CSV or binary is seen from its first line: that of CSV names
/// its columns, of which key and value are read, or those in hexadecimal that `dump --format csv` prints; --key-column
/// and --value-column name others.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table, which must not be there without --into
    #[arg(required_unless_present = "all")]
    table: Option<String>,
    /// File to read; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    making: Making,
    /// The table's merge operator for later upserts: add-u64, max or append
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Lookups will nearly always find something: no filter for what is loaded
    #[arg(long)]
    mostly_hit: bool,
    /// Values of at least so many bytes go to blob files [default: 65537]
    #[arg(long, value_name = "BYTES")]
    blob_min: Option<u32>,
    /// Store pages compressed where that saves an eighth: for values that are alike [default: none]
    #[arg(long, value_enum)]
    compression: Option<CompressionKind>,
    /// Keys and values of JSON lines are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Put what is read into a table that is there, in any order, in many updates. In live tables each of them
    /// stays when a later one fails; run it again then
    #[arg(long, conflicts_with_all = ["sort", "live", "create", "operator", "mostly_hit", "blob_min", "compression"])]
    into: bool,
    /// Make every table of this dump of all tables, which `dump` prints without the name of one; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["table", "file", "into", "operator", "key_column", "value_column"])]
    all: Option<PathBuf>,
    /// What a CSV calls its column of keys [default: key, or that of `dump`]
    #[arg(long, value_name = "NAME")]
    key_column: Option<String>,
    /// What a CSV calls its column of values [default: value, or that of `dump`]
    #[arg(long, value_name = "NAME")]
    value_column: Option<String>,
}

impl Arguments {
    /// The table that is loaded, where it is one.
    fn table(&self) -> &str {
        self.table.as_deref().unwrap_or_default()
    }

    /// How its input is read.
    fn reading(&self) -> Reading<'_> {
        let (key, value) = (self.key_column.as_deref(), self.value_column.as_deref());
        let are_named = key.is_some() || value.is_some();
        let columns = are_named.then(|| (key.unwrap_or("key"), value.unwrap_or("value")));
        Reading { notation: Notation::new(self.hex), columns }
    }

    /// How a table is made that has `operator`.
    fn options(&self, operator: Option<&str>) -> Result<TableOptions> {
        Ok(TableOptions {
            operator: operator.map(built_in).transpose()?,
            lookups: if self.mostly_hit { Lookups::MostlyHit } else { Lookups::Mixed },
            blob_min_bytes: self.blob_min,
            compression: self.compression.unwrap_or_default().into(),
            ..TableOptions::default()
        })
    }

    /// What has to be left out where the table is there, as far as it is given.
    fn without_what_makes(&self) -> String {
        let given = [
            (self.sorting.sort, "--sort"),
            (self.making.create, "--create"),
            (self.making.live, "--live"),
            (self.operator.is_some(), "--operator"),
            (self.mostly_hit, "--mostly-hit"),
            (self.blob_min.is_some(), "--blob-min"),
            (self.compression.is_some(), "--compression"),
        ];
        let given: Vec<_> = given.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
        match &given[..] {
            [] => String::new(),
            [one] => format!(" and without {one}"),
            [rest @ .., last] => format!(" and without {} and {last}", rest.join(", ")),
        }
    }
}

/// Bytes of keys and values of one update of a table that is there.
const UPDATE_BYTES: usize = 4 << 20;
/// Entries between two looks at how far it is.
const LOOK: u64 = 1024;

/// Input of which is known how much was read.
struct Counted {
    input: Box<dyn BufRead>,
    bytes: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.bytes.set(self.bytes.get() + length as u64);
        Ok(length)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        self.input.consume(length);
        self.bytes.set(self.bytes.get() + length as u64);
    }
}

/// A bar for reading `file`, which may be a pipe.
fn bar(file: &Path) -> Progress {
    match file.metadata() {
        Ok(data) if data.is_file() => Progress::new("loading", data.len(), Unit::Bytes),
        _ => Progress::endless("loading", Unit::Bytes),
    }
}

/// Runs `load`.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let start = Instant::now();
    let making = &arguments.making;
    // A store that is made has no table to put anything into.
    let making = Making { makes: making.makes && !arguments.into, ..making.clone() };
    let mut change = Change::making(&arguments.store, &making)?;
    let count = match load(&mut change, arguments) {
        Ok(count) => count,
        Err(error) => {
            change.give_up();
            return Err(error.into());
        }
    };
    let written = change.session.stats().written_bytes();
    // An empty table is what a dump of one makes. Another state of the store is more than an empty input asks for.
    let saved = if count == 0 && (arguments.into || change.becomes_live()) {
        change.give_up();
        None
    } else {
        Some(change.save()?)
    };
    let seconds = start.elapsed().as_secs_f64();
    match format {
        Format::Json => {
            let head = saved.as_ref().and_then(|saved| saved.head.clone());
            let said = serde_json::json!({
                "snapshot": head, "entries": count, "written_bytes": written, "seconds": seconds,
            });
            print::json(&match &saved {
                Some(saved) => saved.with_left(said),
                None => said,
            })?;
        }
        Format::Table => {
            let at = saved.map_or("nothing is saved".to_owned(), |saved| saved.text());
            let count = print::counted(count, "entry", "entries");
            print::line(&format!("{count} loaded in {}; {at}", print::seconds(seconds)))?;
        }
    }
    Ok(Verdict::Yes)
}

/// Values that are longer than a stream takes: written in pieces, and put when the rest is there.
struct LongValues<'a> {
    session: &'a Session,
    values: BTreeMap<Vec<u8>, Value>,
}

impl<'a> LongValues<'a> {
    fn new(session: &'a Session) -> Self {
        LongValues { session, values: BTreeMap::new() }
    }

    /// Takes the value if it is long, and gives it to the loader otherwise.
    fn push(&mut self, key: &[u8], value: &[u8], loader: &mut Loader) -> Result<()> {
        if value.len() <= VALUE_BYTES_MAX {
            // Of several values the last one counts.
            self.values.remove(key);
            return loader.push(key, value);
        }
        // The loader holds its place, and sees whether it may come here.
        loader.push(key, b"")?;
        let mut writer = self.session.write_value()?;
        for piece in value.chunks(VALUE_BYTES_MAX) {
            writer.write(piece)?;
        }
        self.values.insert(key.to_vec(), writer.finish()?);
        Ok(())
    }

    fn put(self, table: &mut Table) -> Result<()> {
        if self.values.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        for (key, value) in &self.values {
            batch.insert_value(key, value);
        }
        table.update(&batch)
    }
}

/// A table that is made from what is read.
struct Filled<'a> {
    name: String,
    options: TableOptions,
    loader: Loader,
    long: LongValues<'a>,
}

impl<'a> Filled<'a> {
    /// Begins the table called `name`, which must be new.
    fn begin(
        (change, session): (&Change, &'a Session),
        arguments: &Arguments,
        name: &str,
        operator: Option<&str>,
    ) -> Result<Self> {
        if change.has(name)? {
            let or = match arguments.all {
                Some(_) => "drop it, or load into another store".to_owned(),
                None => format!(
                    "choose another name, or add to it with --into{}",
                    arguments.without_what_makes()
                ),
            };
            let what = format!("there is a table {name} already: {or}");
            return Err(Error::new(Kind::Exists, what));
        }
        change.is_new(name)?;
        let options = arguments.options(operator)?;
        let loader = session.load_table(name, options.clone(), arguments.sorting.order())?;
        Ok(Filled { name: name.to_owned(), options, loader, long: LongValues::new(session) })
    }

    fn push(&mut self, key: &[u8], value: &[u8], notation: Notation) -> Result<()> {
        check_number(&self.options, &self.name, value, notation)?;
        self.long.push(key, value, &mut self.loader).map_err(sortable)
    }

    fn finish(self) -> Result<Table> {
        let mut table = self.loader.finish()?;
        self.long.put(&mut table)?;
        Ok(table)
    }
}

/// Adds the table, or all; returns how many entries there were.
fn load(change: &mut Change, arguments: &Arguments) -> Result<u64> {
    if arguments.into {
        return load_into(change, arguments);
    }
    if let Some(file) = &arguments.all {
        return load_all(change, arguments, file);
    }
    let session = change.session.clone();
    let operator = arguments.operator.as_deref();
    let mut filled = Filled::begin((change, &session), arguments, arguments.table(), operator)?;
    let reading = arguments.reading();
    let (name, input) = input::open(&arguments.file)?;
    let input = Counted { input, bytes: Rc::default() };
    let bytes = Rc::clone(&input.bytes);
    let (mut bar, mut entries) = (bar(&arguments.file), 0_u64);
    let count = dump::read(&name, input, reading, |key, value| {
        entries += 1;
        if entries.is_multiple_of(LOOK) {
            bar.set(bytes.get());
        }
        filled.push(key, value, reading.notation)
    })?;
    let table = filled.finish()?;
    bar.finish();
    change.add(table)?;
    Ok(count)
}

/// Adds every table of a dump of all, or none; returns how many entries there were.
fn load_all(change: &mut Change, arguments: &Arguments, file: &Path) -> Result<u64> {
    let session = change.session.clone();
    let notation = Notation::new(arguments.hex);
    let (name, input) = input::open(file)?;
    let input = Counted { input, bytes: Rc::default() };
    let bytes = Rc::clone(&input.bytes);
    let (mut bar, mut entries) = (bar(file), 0_u64);
    let (mut done, mut filled): (Vec<Table>, Option<Filled<'_>>) = (Vec::new(), None);
    dump::tables::read(&name, input, notation, |part| match part {
        Part::Table { name, operator } => {
            done.extend(filled.take().map(Filled::finish).transpose()?);
            if done.iter().any(|table| table.name() == name) {
                return Err(Error::invalid(format!("table {name} begins a second time")));
            }
            filled = Some(Filled::begin((change, &session), arguments, name, operator)?);
            Ok(())
        }
        Part::Entry { key, value } => {
            entries += 1;
            if entries.is_multiple_of(LOOK) {
                bar.set(bytes.get());
            }
            let filled = filled.as_mut().expect("a dump of all tables begins with a table");
            filled.push(key, value, notation)
        }
    })?;
    done.extend(filled.map(Filled::finish).transpose()?);
    bar.finish();
    let names: Vec<String> = done.iter().map(|table| table.name().to_owned()).collect();
    for (place, table) in done.into_iter().enumerate() {
        if let Err(error) = change.add(table) {
            // All of them or none: those that are live already go again.
            names[..place].iter().try_for_each(|name| change.drop_table(name))?;
            return Err(error);
        }
    }
    Ok(entries)
}

/// An error of a loader, with the flag that sorts in place of the library's word for it.
fn sortable(error: Error) -> Error {
    match error.kind() {
        Kind::Invalid => error.with_advice("sort the input, or give --sort"),
        _ => error, // that is no matter of the order
    }
}

/// Puts entries into a table, many in an update.
pub struct Filling<'a> {
    session: &'a Session,
    table: &'a mut Table,
    batch: Batch,
    bytes: usize,
    /// How values are written, and shown.
    notation: Notation,
    /// Entries that are in the table.
    done: u64,
    /// An error says so already, or nothing of it stays.
    is_told: Cell<bool>,
}

/// Bytes of a value that a message shows.
const SHOWN_BYTES: usize = 40;

/// `Invalid` when `value` is to be added to numbers and is none: it would join to nothing that anybody reads. Says how
/// the number is written that was meant.
pub fn check_number(
    options: &TableOptions,
    table: &str,
    value: &[u8],
    notation: Notation,
) -> Result<()> {
    let adds = MergeOperator::add_u64();
    let own = options.operator.as_ref().map(MergeOperator::name);
    if own != Some(adds.name()) || value.len() == 8 {
        return Ok(());
    }
    let detail = format!("table {table} adds numbers of 8 bytes, the least first");
    let typed = |number: u64| notation.show_all(&number.to_le_bytes());
    let shown = notation.show(&value[..value.len().min(SHOWN_BYTES)]);
    // Digits of --hex are those of a number in base 16, the most significant first, as they are written elsewhere.
    let (prefix, base) = if notation == Notation::Hex { ("0x", 16) } else { ("", 10) };
    Err(Error::invalid(match u64::from_str_radix(&shown, base) {
        Ok(number) if value.len() <= SHOWN_BYTES => {
            format!("{detail}: give {prefix}{shown} as {}", typed(number))
        }
        _ => {
            let more = if value.len() > SHOWN_BYTES { "…" } else { "" };
            format!("{detail}, and \"{shown}{more}\" is none: {} is 1", typed(1))
        }
    }))
}

/// `Invalid` when no table takes the key.
fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let length = key.len();
    Err(Error::invalid(format!(
        "a key of {length} bytes is too long: the limit is {KEY_BYTES_MAX} bytes"
    )))
}

impl<'a> Filling<'a> {
    /// `stays` where updates of a live table stay when a later one fails, as they do but in a store that goes with it.
    pub fn new(
        session: &'a Session,
        table: &'a mut Table,
        stays: bool,
        notation: Notation,
    ) -> Self {
        let is_told = Cell::new(!stays);
        Filling { session, table, batch: Batch::new(), bytes: 0, notation, done: 0, is_told }
    }

    /// Takes an entry. What fails is to be [told](Filling::told) once it says where it was.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (options, name) = (self.table.options(), self.table.name());
        let checked = check_number(options, name, value, self.notation);
        // Here, since an update as a whole does not say which one it was.
        let checked = checked.and_then(|()| check_key(key));
        checked.and_then(|()| self.take(key, value))
    }

    /// The same error, with what it leaves behind, unless it says so already.
    pub fn told(&self, error: Error) -> Error {
        let done = self.done;
        if !self.table.is_live() || done == 0 || self.is_told.replace(true) {
            return error;
        }
        error.context(format!("after {done} entries, which stay"))
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() <= VALUE_BYTES_MAX {
            self.batch.insert(key, value);
        } else {
            let mut writer = self.session.write_value()?;
            for piece in value.chunks(VALUE_BYTES_MAX) {
                writer.write(piece)?;
            }
            self.batch.insert_value(key, &writer.finish()?);
        }
        self.bytes += key.len() + value.len().min(VALUE_BYTES_MAX);
        if self.bytes >= UPDATE_BYTES { self.update() } else { Ok(()) }
    }

    /// Puts what is left; what fails says how many entries are in.
    pub fn finish(mut self) -> Result<()> {
        self.update().map_err(|error| self.told(error))
    }

    fn update(&mut self) -> Result<()> {
        self.table.update(&self.batch)?;
        self.done += self.batch.len() as u64;
        (self.batch, self.bytes) = (Batch::new(), 0);
        Ok(())
    }
}

/// Adds the entries to the table; returns how many there were.
fn load_into(change: &mut Change, arguments: &Arguments) -> Result<u64> {
    let session = change.session.clone();
    let stays = !change.is_of_new_store();
    let notation = Notation::new(arguments.hex);
    let mut filling = Filling::new(&session, change.existing(arguments.table())?, stays, notation);
    let (name, input) = input::open(&arguments.file)?;
    let input = Counted { input, bytes: Rc::default() };
    let bytes = Rc::clone(&input.bytes);
    let (mut bar, mut entries) = (bar(&arguments.file), 0_u64);
    let count = dump::read(&name, input, arguments.reading(), |key, value| {
        entries += 1;
        if entries.is_multiple_of(LOOK) {
            bar.set(bytes.get());
        }
        filling.push(key, value)
    });
    bar.finish();
    let count = count.map_err(|error| filling.told(error))?;
    filling.finish()?;
    Ok(count)
}
