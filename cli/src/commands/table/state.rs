//! `varvite table list`, `create`, `drop`, `rename` and `restore`: which tables the state of a store has.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use varvite::{Error, Kind, Lookups, Result, Session, SessionOptions, TableOptions};

use super::change::{Base, Change, Making, Saved, built_in};
use crate::exit::{Outcome, Verdict};
use crate::flags::CompressionKind;
use crate::print::records;
use crate::print::{self, Format};
use crate::store::tables;

/// List the tables of a store: those that are live, or those of a snapshot
#[derive(Debug, Args)]
pub struct List {
    /// Folder of the store
    store: PathBuf,
    /// List this snapshot [default: the live tables, or without any the newest head or only snapshot]
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
}

/// Make an empty table
#[derive(Debug, Args)]
pub struct Create {
    /// Folder of the store
    store: PathBuf,
    /// Its name, which no table has
    table: String,
    #[command(flatten)]
    making: Making,
    /// Its merge operator: add-u64, max or append
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Lookups will nearly always find something: no filter for what is in the last level
    #[arg(long)]
    mostly_hit: bool,
    /// Values of at least so many bytes go to blob files [default: 65537]
    #[arg(long, value_name = "BYTES")]
    blob_min: Option<u32>,
    /// Store pages compressed where that saves an eighth: for values that are alike
    #[arg(long, value_enum, default_value_t)]
    compression: CompressionKind,
}

/// Drop a table with all that is in it; snapshots keep what they have
#[derive(Debug, Args)]
pub struct Drop {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    #[command(flatten)]
    base: Base,
}

/// Give a table another name; snapshots keep the one they have
#[derive(Debug, Args)]
pub struct Rename {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    /// Its new name
    to: String,
    #[command(flatten)]
    base: Base,
}

/// Take tables back from a snapshot: they become live where there are live tables, else the newest state
///
/// When it is cut short, some tables are restored and others are not: run it again, with --replace.
#[derive(Debug, Args)]
pub struct Restore {
    /// Folder of the store
    store: PathBuf,
    /// Name of the snapshot
    snapshot: String,
    /// Names of the tables [default: all that the snapshot has]
    tables: Vec<String>,
    /// Replace tables that are there
    #[arg(long)]
    replace: bool,
    /// Make them live also in a store without live tables
    #[arg(long)]
    live: bool,
}

/// What the state of a store has.
#[derive(Debug, Default, Serialize)]
pub struct State {
    /// Whether the tables are live.
    pub live: bool,
    /// The snapshot that has them otherwise.
    pub snapshot: Option<String>,
    /// The tables, by name.
    pub tables: Vec<Row>,
}

/// A table of it.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Entries of every kind; of a live table only where its merge operator is known here.
    physical_entries: Option<u64>,
    disk_bytes: Option<u64>,
    operator: Option<String>,
}

impl State {
    /// The state of the store, or what its snapshot `name` has.
    pub fn of(session: &Session, name: Option<&str>) -> Result<State> {
        if name.is_none() && tables::is_live(session)? {
            return Ok(State { live: true, snapshot: None, tables: live_rows(session)? });
        }
        let info = match name {
            Some(name) => Some(tables::info(session, name)?),
            None => tables::current_info(session)?,
        };
        let Some(info) = info else { return Ok(State::default()) };
        let mut rows: Vec<_> = info
            .tables
            .into_iter()
            .map(|table| Row {
                name: table.name,
                physical_entries: Some(table.physical_entries),
                disk_bytes: Some(table.disk_bytes),
                operator: table.operator,
            })
            .collect();
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(State { live: false, snapshot: Some(info.name), tables: rows })
    }

    /// The tables drawn.
    pub fn draw(&self) -> print::Grid {
        let mut drawn = print::table(&["table", ">entries", ">on disk", "operator"]);
        let unknown = || "?".to_owned();
        for row in &self.tables {
            drawn.add_row(vec![
                row.name.clone(),
                row.physical_entries.map_or_else(unknown, print::count),
                row.disk_bytes.map_or_else(unknown, print::bytes),
                row.operator.clone().unwrap_or_default(),
            ]);
        }
        drawn
    }

    /// Where the tables are, for a sentence.
    pub fn place(&self) -> String {
        match (&self.snapshot, self.live) {
            (_, true) => "live".to_owned(),
            (Some(name), _) => format!("snapshot {name}"),
            (None, _) => "no snapshot yet".to_owned(),
        }
    }
}

fn live_rows(session: &Session) -> Result<Vec<Row>> {
    let opened = tables::live_tables_to_look(session)?;
    let rows = opened.iter().map(|table| {
        let stats = table.stats()?;
        let operator = table.options().operator.as_ref();
        Ok(Row {
            name: table.name().to_owned(),
            physical_entries: Some(stats.physical_entries),
            disk_bytes: Some(stats.disk_bytes),
            operator: operator.map(|operator| operator.name().to_owned()),
        })
    });
    rows.collect()
}

/// The names of the tables of the state of the store in `folder`.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let session = tables::open_read_only(folder, SessionOptions::default())?;
    if tables::is_live(&session)? {
        return session.live_tables();
    }
    let tables = tables::current_info(&session)?.map_or(Vec::new(), |info| info.tables);
    Ok(tables.into_iter().map(|table| table.name).collect())
}

/// Runs `list`.
pub fn list(arguments: &List, format: Format) -> Outcome {
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    let state = State::of(&session, arguments.snapshot.as_deref())?;
    records::columns(&["name", "physical_entries", "disk_bytes", "operator"])?;
    match format {
        Format::Json => records::whole_with(&state, "tables")?,
        Format::Table => {
            let count = print::counted(state.tables.len() as u64, "table", "tables");
            print::aside(&format!("{count}, {}", state.place()))?;
            if !state.tables.is_empty() {
                print::line(&state.draw().to_string())?;
            }
        }
    }
    Ok(Verdict::Yes)
}

/// Runs `create`.
pub fn create(arguments: &Create, format: Format) -> Outcome {
    let mut change = Change::making(&arguments.store, &arguments.making)?;
    if let Err(error) = add_empty(&mut change, arguments) {
        change.give_up();
        return Err(error.into());
    }
    done(&change.save()?, &arguments.table, "created", format)
}

fn add_empty(change: &mut Change, arguments: &Create) -> Result<()> {
    change.is_new(&arguments.table)?;
    let options = TableOptions {
        operator: arguments.operator.as_deref().map(built_in).transpose()?,
        lookups: if arguments.mostly_hit { Lookups::MostlyHit } else { Lookups::Mixed },
        blob_min_bytes: arguments.blob_min,
        compression: arguments.compression.into(),
        ..TableOptions::default()
    };
    let table = change.session.create_table(&arguments.table, options)?;
    change.add(table)
}

/// Runs `drop`.
pub fn drop_table(arguments: &Drop, format: Format) -> Outcome {
    let mut change = Change::open(&arguments.store, &arguments.base)?;
    if !change.has(&arguments.table)? {
        // Says which there are; one that is there need not be opened.
        change.existing_as_it_is(&arguments.table)?;
    }
    change.drop_table(&arguments.table)?;
    done(&change.save()?, &arguments.table, "dropped", format)
}

/// Runs `rename`.
pub fn rename(arguments: &Rename, format: Format) -> Outcome {
    let mut change = Change::open(&arguments.store, &arguments.base)?;
    change.is_new(&arguments.to)?;
    let renamed = change.existing_as_it_is(&arguments.table)?.duplicate(&arguments.to)?;
    // The new name first: whatever happens in between, nothing is lost.
    change.add(renamed)?;
    change.drop_table(&arguments.table)?;
    done(&change.save()?, &arguments.table, &format!("renamed to {}", arguments.to), format)
}

/// Runs `restore`.
pub fn restore(arguments: &Restore, format: Format) -> Outcome {
    let (name, making) =
        (&*arguments.snapshot, Making { live: arguments.live, ..Making::default() });
    let mut change = Change::begin(&arguments.store, &making, Some(name))?;
    let mut snapshot = tables::snapshot_to_pass_on(&change.session, name)?;
    let is_own = !change.is_live && begin_from_the_state(&mut change, name)?;
    let all = snapshot.tables.iter().map(|table| table.name().to_owned());
    let names = if arguments.tables.is_empty() { all.collect() } else { arguments.tables.clone() };
    let taken = names.iter().map(|name| snapshot.take(name)).collect::<Result<Vec<_>>>()?;
    for name in &names {
        if change.has(name)? && !arguments.replace && !is_own {
            let detail = format!(
                "there is a table {name} already: --replace replaces it by that of {}",
                arguments.snapshot
            );
            return Err(Error::new(Kind::Exists, detail).into());
        }
    }
    for table in taken {
        if change.has(table.name())? {
            change.drop_table(table.name())?;
        }
        change.add(table)?;
    }
    change.taken_from = Some(name.to_owned());
    let count = print::counted(names.len() as u64, "table", "tables");
    done(&change.save()?, name, &format!("{count} restored"), format)
}

/// Has a change that began from the snapshot `name` begin from the state of the store instead, where there is one without
/// a head; whether that is the snapshot itself.
fn begin_from_the_state(change: &mut Change, name: &str) -> Result<bool> {
    if !tables::heads(&change.session)?.is_empty() {
        return Ok(false);
    }
    match tables::current(&change.session) {
        Ok(Some(current)) if current == name => return Ok(true),
        Ok(Some(current)) => {
            change.snapshot = tables::snapshot_to_pass_on(&change.session, &current)?;
        }
        Ok(None) => change.snapshot.tables.clear(),
        // Several snapshots, of which none is the state.
        Err(error) if error.kind() == Kind::Invalid => change.snapshot.tables.clear(),
        Err(error) => return Err(error),
    }
    Ok(false)
}

fn done(saved: &Saved, name: &str, what: &str, format: Format) -> Outcome {
    match format {
        Format::Json => {
            let said = json!({ "name": name, "outcome": what, "snapshot": saved.head });
            print::json(&saved.with_left(said))?;
        }
        Format::Table => print::line(&format!("{name}: {what}; {}", saved.text()))?,
    }
    Ok(Verdict::Yes)
}
