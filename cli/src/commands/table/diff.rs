//! `varvite table diff`: what is different between two states of tables.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use varvite::{Error, Result, Session, SessionOptions, SnapshotInfo, Table};

use super::reader::Reader;
use crate::advice;
use crate::exit::{self, Outcome, Verdict};
use crate::print::{self, Format, records};
use crate::progress::{Progress, Unit};
use crate::store::tables;
use crate::text::{self, Notation};

/// Entries between two looks at how far it is.
const LOOK: u64 = 4096;
/// How many bytes of a value are printed to a terminal.
const TERMINAL: usize = 100;
/// The columns of a difference.
const COLUMNS: [&str; 11] = [
    "change",
    "table",
    "key",
    "key_text",
    "key_hex",
    "before",
    "before_text",
    "before_hex",
    "after",
    "after_text",
    "after_hex",
];

/// List what is different between two snapshots, a snapshot and the state now, or two stores; exit code 1 when
/// anything is
///
/// Reads all entries of both. A line is +, - or ~ (added, removed, changed), the table, the key, and the value
/// before and after, as there are; a table that only one side has is a line without a key before its entries.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    store: PathBuf,
    /// The snapshot before [default: with --with the live tables, or the newest head or only snapshot]
    before: Option<String>,
    /// The snapshot after [default: the live tables, or without any the newest head or only snapshot]
    after: Option<String>,
    /// The state after is in this store
    #[arg(long, value_name = "STORE")]
    with: Option<PathBuf>,
    /// Only this table; give it again for more
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print whole values to a terminal, too
    #[arg(long)]
    full: bool,
}

/// The tables of a state by name.
type State = BTreeMap<String, Table>;

fn state(session: &Session, snapshot: Option<&str>, only: &[String]) -> Result<State> {
    let opened = if snapshot.is_none() && tables::is_live(session)? {
        tables::live_tables_to_look(session)?
    } else {
        tables::read_told(session, snapshot, "name the one that is meant")?.tables
    };
    let named = opened.into_iter().map(|table| (table.name().to_owned(), table));
    Ok(named.filter(|(name, _)| only.is_empty() || only.contains(name)).collect())
}

/// `Invalid` where `name` is not a snapshot's but a folder's: most likely that of the other store.
fn expect_no_folder(session: &Session, name: &str) -> Result<()> {
    let folder = Path::new(name);
    let is_snapshot = |info: &SnapshotInfo| info.name == name;
    if !folder.is_dir() || session.list_snapshots()?.iter().any(is_snapshot) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name} is a folder, where the name of a snapshot is needed: name another store by --with {}",
        advice::typed(folder)
    )))
}

/// Prints differences and counts them.
struct Printer {
    format: Format,
    notation: Notation,
    most: usize,
    count: u64,
}

impl Printer {
    /// A difference of `key`, or of the whole table.
    fn print(
        &mut self,
        table: &str,
        key: Option<&[u8]>,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
        is_added: bool,
    ) -> std::io::Result<()> {
        self.count += 1;
        exit::note(Verdict::No);
        let (word, sign) = match (before, after, is_added) {
            (Some(_), Some(_), _) => ("changed", "~"),
            (.., true) => ("added", "+"),
            (.., false) => ("removed", "-"),
        };
        if self.format == Format::Json {
            let mut record = json!({ "change": word, "table": table, "key": null, "before": null, "after": null });
            for (name, bytes) in [("key", key), ("before", before), ("after", after)] {
                if let Some(bytes) = bytes {
                    text::put(&mut record, name, self.notation, bytes);
                }
            }
            return records::record(record);
        }
        let mut line = format!("{sign}\t{table}");
        for (most, bytes) in [(usize::MAX, key), (self.most, before), (self.most, after)] {
            if let Some(bytes) = bytes {
                line.push('\t');
                line.push_str(&self.notation.show_up_to(bytes, most));
            }
        }
        print::line(&line)
    }
}

/// A side of the comparison, at an entry; a table that is not there has none.
struct Side<'a> {
    reader: Option<Reader<'a>>,
}

impl<'a> Side<'a> {
    fn new(table: Option<&'a Table>) -> Result<Side<'a>> {
        let open = |table| Reader::new(table, Bound::Unbounded, Bound::Unbounded, false);
        let mut side = Side { reader: table.map(open).transpose()? };
        side.advance()?;
        Ok(side)
    }

    /// Goes on, or ends.
    fn advance(&mut self) -> Result<()> {
        if let Some(reader) = &mut self.reader
            && !reader.advance()?
        {
            self.reader = None;
        }
        Ok(())
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.reader.as_ref().map(|reader| (&*reader.key, &*reader.value))
    }
}

/// Prints what is different of one table.
fn compare(
    name: &str,
    tables: [Option<&Table>; 2],
    printer: &mut Printer,
    mut tell: impl FnMut(),
) -> std::result::Result<(), crate::exit::Failure> {
    let [before, after] = tables;
    if before.is_none() || after.is_none() {
        printer.print(name, None, None, None, after.is_some())?;
    }
    let (mut old, mut new) = (Side::new(before)?, Side::new(after)?);
    loop {
        tell();
        let order = match (old.entry(), new.entry()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((one, _)), Some((other, _))) => one.cmp(other),
        };
        match order {
            Ordering::Less => {
                let entry = old.entry();
                printer.print(name, entry.map(|it| it.0), entry.map(|it| it.1), None, false)?;
            }
            Ordering::Greater => {
                let entry = new.entry();
                printer.print(name, entry.map(|it| it.0), None, entry.map(|it| it.1), true)?;
            }
            Ordering::Equal if old.entry() != new.entry() => {
                let (one, other) = (old.entry(), new.entry());
                let values = [one, other].map(|entry| entry.map(|it| it.1));
                printer.print(name, one.map(|it| it.0), values[0], values[1], false)?;
            }
            Ordering::Equal => {}
        }
        if order.is_le() {
            old.advance()?;
        }
        if order.is_ge() {
            new.advance()?;
        }
    }
}

/// Runs `diff`.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    if arguments.before.is_none() && arguments.with.is_none() {
        return Err(Error::invalid(
            "a state cannot be compared with itself: name a snapshot, or another store by --with",
        )
        .into());
    }
    let only = &arguments.tables;
    let open = |store: &Path| tables::open_read_only(store, SessionOptions::default());
    let old = open(&arguments.store)?;
    arguments.before.as_ref().map_or(Ok(()), |name| expect_no_folder(&old, name))?;
    let before = state(&old, arguments.before.as_deref(), only)?;
    let new = open(arguments.with.as_ref().unwrap_or(&arguments.store))?;
    let after = state(&new, arguments.after.as_deref(), only)?;
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    if let Some(missing) = only.iter().find(|name| !names.contains(name)) {
        return Err(Error::missing(format!("neither side has a table \"{missing}\"")).into());
    }
    records::columns(&COLUMNS)?;
    let most = print::value_bytes(TERMINAL, arguments.full);
    let mut printer = Printer { format, notation: Notation::new(arguments.hex), most, count: 0 };
    let (mut bar, mut looks) = (Progress::endless("comparing", Unit::Items), 0_u64);
    for name in names {
        compare(name, [before.get(name), after.get(name)], &mut printer, || {
            looks += 1;
            if looks.is_multiple_of(LOOK) {
                bar.set(looks);
            }
        })?;
    }
    bar.finish();
    Ok(Verdict::found(printer.count == 0))
}
