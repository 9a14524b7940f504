//! A change by hand, of the store's state: of live tables where there are any, else of the current
//! snapshot, which is opened for writing and saved as the next head.

use std::path::Path;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use varvite::{
    Error, Kind, LoadOrder, MergeOperator, Result, Session, SessionOptions, Snapshot,
    SnapshotContent, SnapshotInfo, Table, TableOptions,
};

use crate::advice::{CREATE, RESTORE, SNAPSHOT_DELETE};
use crate::store::folder::Target;
use crate::store::tables;
use crate::system::volume;
use crate::wheel;

/// What heads are labelled with when nothing before them had a label.
pub const LABEL: &str = "varvite table";

/// What a change begins from.
#[derive(Clone, Debug, Default, Args)]
pub struct Base {
    /// Begin from this snapshot, in a store with neither live tables nor a head [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
}

/// The same where a table is made.
#[derive(Clone, Debug, Default, Args)]
pub struct Making {
    /// Make the store when the folder is missing or empty
    #[arg(long)]
    pub create: bool,
    /// Make the table live, so that a log keeps every update; where there are live tables it always is. In a store
    /// without, the live tables are its state from then on: others leave it, and are named
    #[arg(long, conflicts_with = "snapshot")]
    pub live: bool,
    #[command(flatten)]
    pub base: Base,
    /// Whether the command has `--create`.
    #[arg(skip = true)]
    pub makes: bool,
}

/// The state of a store, open for writing.
pub struct Change {
    /// The open store.
    pub session: Session,
    /// Its current state, which is saved as the next head; the tables that are live, as they are asked for.
    pub snapshot: Snapshot,
    /// Whether tables are live, so that nothing is left to save.
    pub is_live: bool,
    /// No table was live before: those of this change become so when it is saved, since a failure must leave the state
    /// of the store what it is.
    becomes_live: bool,
    /// The snapshot that tables which become live are taken from, if they are.
    pub taken_from: Option<String>,
    /// Where the store was made for this change, if it was.
    made: Option<Target>,
    /// What was said of the store when it was opened.
    told: Vec<String>,
}

/// A state without tables.
fn nothing() -> Snapshot {
    Snapshot { label: LABEL.to_owned(), payload: Vec::new(), tables: Vec::new() }
}

/// How a change ended.
pub struct Saved {
    /// The head that has it, if it is not in the log.
    pub head: Option<String>,
    /// What was the state of the store until tables became live, and is it no more.
    left: Option<Left>,
}

/// Tables of a snapshot that are not read any more where none is named.
#[derive(Serialize)]
struct Left {
    snapshot: String,
    tables: Vec<String>,
}

impl Saved {
    /// Where the change is, for a sentence.
    pub fn text(&self) -> String {
        let at = self.head.as_ref();
        let at = at.map_or("saved in the log".to_owned(), |name| format!("saved as {name}"));
        let Some(Left { snapshot, tables }) = &self.left else { return at };
        let (what, are, them) = match tables.len() {
            1 => ("table", "is", "it"),
            _ => ("tables", "are", "them"),
        };
        let names = tables.join(", ");
        format!(
            "{at}; {what} {names} of {snapshot} {are} no longer read: {RESTORE} makes {them} live, too"
        )
    }

    /// What is said to a program, with what left the state.
    pub fn with_left(&self, mut said: Value) -> Value {
        if let Some(left) = &self.left {
            said["left"] = json!(left);
        }
        said
    }
}

impl Change {
    /// Opens the store in `folder` to change what is in it.
    pub fn open(folder: &Path, base: &Base) -> Result<Change> {
        Self::making(folder, &Making { base: base.clone(), ..Making::default() })
    }

    /// The same to make a table, and the store if that is asked for.
    pub fn making(folder: &Path, making: &Making) -> Result<Change> {
        let change = Self::begin(folder, making, making.base.snapshot.as_deref())?;
        match change.begins_from_the_newest(making.base.snapshot.as_deref()) {
            Ok(()) => Ok(change),
            Err(error) => {
                change.give_up();
                Err(error)
            }
        }
    }

    /// `Invalid` where another state than the newest was asked for.
    fn begins_from_the_newest(&self, asked: Option<&str>) -> Result<()> {
        let Some(asked) = asked else { return Ok(()) };
        match tables::heads(&self.session)?.pop() {
            Some((_, head)) if head != asked => Err(Error::invalid(format!(
                "changes begin from the newest head, {head}, which would be lost if one began from {asked}: leave \
                 --snapshot out, or take tables of {asked} back with {RESTORE}"
            ))),
            _ => Ok(()),
        }
    }

    /// The same; `otherwise` is the state when there is neither a live table nor a head.
    pub fn begin(folder: &Path, making: &Making, otherwise: Option<&str>) -> Result<Change> {
        let was_live = folder.join("session").is_file()
            && tables::is_live(&tables::open_read_only(folder, SessionOptions::default())?)?;
        Self::begin_as(folder, making, otherwise, was_live)
    }

    /// The same of a store that had live tables, or none, when nobody was kept from changing that.
    fn begin_as(
        folder: &Path,
        making: &Making,
        otherwise: Option<&str>,
        was_live: bool,
    ) -> Result<Change> {
        if was_live && making.base.snapshot.is_some() {
            return Err(Error::invalid(format!(
                "{} has live tables, which a change of a snapshot would not reach: leave --snapshot out, or \
                 make the tables of the snapshot live with {RESTORE}",
                folder.display()
            )));
        }
        let is_live = was_live || making.live;
        let options = if is_live { tables::logged() } else { SessionOptions::default() };
        let (session, made) = if making.create {
            tables::open_or_make(folder, options)?
        } else {
            let opened = tables::open(folder, options);
            // Only some commands make a store.
            let opened = if making.makes { opened.map_err(tables::or_create) } else { opened };
            (opened?, None)
        };
        if !is_live && made.is_none() && tables::is_live(&session)? {
            // Another process has made a table live since: a change of a snapshot would reach nobody.
            session.close()?;
            return Self::begin_as(folder, making, otherwise, true);
        }
        let begun = if is_live { Ok(nothing()) } else { Self::state(&session, otherwise) };
        match begun {
            Ok(snapshot) => {
                let becomes_live = is_live && !was_live && made.is_none();
                let change = Change {
                    told: session.warnings(),
                    session,
                    snapshot,
                    is_live,
                    becomes_live,
                    taken_from: None,
                    made,
                };
                Ok(change)
            }
            Err(error) => {
                if let Some(target) = made {
                    tables::remove_new(session, target);
                }
                Err(error)
            }
        }
    }

    /// What is changed in a store without live tables.
    fn state(session: &Session, otherwise: Option<&str>) -> Result<Snapshot> {
        let current = match otherwise {
            Some(name) if tables::heads(session)?.is_empty() => Some(name.to_owned()),
            _ => tables::current(session)?,
        };
        let open = |name: String| tables::snapshot_to_pass_on(session, &name);
        current.map_or_else(|| Ok(nothing()), open)
    }

    /// Whether there is a table called `name`.
    pub fn has(&self, name: &str) -> Result<bool> {
        if self.is_live && self.session.live_tables()?.iter().any(|live| live == name) {
            return Ok(true);
        }
        Ok(self.snapshot.tables.iter().any(|table| table.name() == name))
    }

    /// `Exists` when there is a table called `name`.
    pub fn is_free(&self, name: &str) -> Result<()> {
        if self.has(name)? {
            let what = format!("there is a table {name} already: choose another name");
            return Err(Error::new(Kind::Exists, what));
        }
        Ok(())
    }

    /// `Exists` when there is a table called `name`, which is asked for as a new one; `Missing` when the state has one
    /// that is not live, or had it before its tables were. A name that only other snapshots have is free again.
    pub fn is_new(&self, name: &str) -> Result<()> {
        self.is_free(name)?;
        match (self.is_live, self.becomes_live) {
            (true, true) => no_twin(name, tables::restorable(&self.session, name)?),
            (true, false) => no_twin(name, tables::restorable_from_a_head(&self.session, name)?),
            (false, _) => Ok(()),
        }
    }

    /// The table called `name`, made when it is not there. `Invalid` when `operator` is not its own.
    pub fn table(
        &mut self,
        name: &str,
        operator: Option<&str>,
        blob_min: Option<u32>,
    ) -> Result<&mut Table> {
        let asked = operator.map(built_in).transpose()?;
        if !self.has(name)? {
            if self.is_live {
                let mut advice = tables::restorable(&self.session, name)?;
                // Where `create` may make one; by heads it would be a twin of what was the state.
                let is_free = !self.becomes_live
                    && tables::restorable_from_a_head(&self.session, name)?.is_none();
                if is_free {
                    advice = advice.map(|advice| format!("{advice}; {CREATE} makes an empty one"));
                }
                no_twin(name, advice)?;
            }
            let options = TableOptions {
                operator: asked,
                blob_min_bytes: blob_min,
                ..TableOptions::default()
            };
            // Live with what comes into it, at once: a kill leaves no empty one, unless the store is as new.
            let table = if self.is_live && self.made.is_none() {
                self.session.load_table(name, options, LoadOrder::Sorted)?.finish()?
            } else {
                self.session.create_table(name, options)?
            };
            self.snapshot.tables.push(table);
            return Ok(self.snapshot.tables.last_mut().expect("just pushed"));
        }
        let table = self.existing(name)?;
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

    /// The table called `name`, which must be there, to change it.
    pub fn existing(&mut self, name: &str) -> Result<&mut Table> {
        let table = self.existing_as_it_is(name)?;
        let own = table.options().operator.as_ref().map(|own| own.name().to_owned());
        match own.filter(|own| MergeOperator::built_in(own).is_none()) {
            Some(own) => Err(tables::foreign(&own)),
            None => Ok(table),
        }
    }

    /// The same, to pass it on as it is.
    pub fn existing_as_it_is(&mut self, name: &str) -> Result<&mut Table> {
        let mut place = self.snapshot.tables.iter().position(|table| table.name() == name);
        if place.is_none() {
            let table = if self.is_live {
                tables::live_table(&self.session, name)?
            } else {
                self.snapshot.take(name)? // says which tables there are
            };
            self.snapshot.tables.push(table);
            place = Some(self.snapshot.tables.len() - 1);
        }
        Ok(&mut self.snapshot.tables[place.expect("it is there now")])
    }

    /// Adds a table that was made apart.
    pub fn add(&mut self, mut table: Table) -> Result<()> {
        if self.is_live && !self.becomes_live && !table.is_live() {
            self.session.publish(&mut table)?;
        }
        self.snapshot.tables.push(table);
        Ok(())
    }

    /// Drops the table called `name`, which is there.
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        self.snapshot.tables.retain(|table| table.name() != name);
        if self.is_live && !self.becomes_live { self.session.delete_table(name) } else { Ok(()) }
    }

    /// Whether the first tables of the store become live when it is saved.
    pub fn becomes_live(&self) -> bool {
        self.becomes_live
    }

    /// The tables that are the state of the store before others become live, without those that are taken from there.
    fn left(&self) -> Result<Option<Left>> {
        if !self.becomes_live {
            return Ok(None);
        }
        let state = match tables::current_info(&self.session) {
            // Several snapshots, of which none is the state.
            Err(error) if error.kind() == Kind::Invalid => None,
            state => state?,
        };
        let Some(SnapshotInfo { name: snapshot, tables, .. }) = state else { return Ok(None) };
        let is_taken = |name: &String| {
            self.taken_from.as_ref() == Some(&snapshot)
                && self.snapshot.tables.iter().any(|table| table.name() == name)
        };
        let mut names: Vec<_> = tables.into_iter().map(|table| table.name).collect();
        names.retain(|name| !is_taken(name));
        Ok((!names.is_empty()).then_some(Left { snapshot, tables: names }))
    }

    /// Saves everything as the next head, then removes the heads before it; live tables are durable
    /// when the session is closed.
    ///
    /// A store that was made for it goes again where that fails, unless everything is durable by then.
    pub fn save(mut self) -> Result<Saved> {
        let made = self.made.take().map(|target| (self.session.clone(), target));
        let saved = self.save_all(made.is_some());
        if let (Err(_), Some((session, target))) = (&saved, made) {
            tables::remove_new(session, target);
        }
        saved
    }

    fn save_all(mut self, is_made: bool) -> Result<Saved> {
        let (mut saved, left) = (None, self.left()?);
        if self.is_live {
            for table in self.snapshot.tables.iter_mut().filter(|table| !table.is_live()) {
                wheel::during("saving", || self.session.publish(table))?;
            }
        }
        if !self.is_live {
            let heads = tables::heads(&self.session)?;
            let name = tables::head_name(heads.last().map_or(1, |(number, _)| number + 1));
            let tables: Vec<&Table> = self.snapshot.tables.iter().collect();
            let Snapshot { label, payload, .. } = &self.snapshot;
            let content = SnapshotContent { label, payload, tables: &tables };
            let done = wheel::during("saving", || self.session.save_snapshot(&name, content));
            done.map_err(|error| without_room(&self.session, heads.len(), error))?;
            for (_, older) in heads {
                self.session.delete_snapshot(&older)?;
            }
            saved = Some(name);
        }
        drop(self.snapshot);
        if is_made && self.is_live {
            // Closing lets the lock go, so the store can be taken back before that alone; then it has all, and stays.
            self.session.sync_log()?;
        }
        let handle = self.session.clone();
        let closed = self.session.close();
        tables::warn_besides(&handle, &self.told);
        closed?;
        Ok(Saved { head: saved, left })
    }

    /// Whether the store was made for it, and goes with it when it fails.
    pub fn is_of_new_store(&self) -> bool {
        self.made.is_some()
    }

    /// Leaves everything as it was, but for what came into live tables; a store that was made for this change goes again.
    pub fn give_up(self) {
        drop(self.snapshot);
        match self.made {
            Some(target) => tables::remove_new(self.session, target),
            // What went wrong before is what is told.
            None => drop(self.session.close()),
        }
    }
}

/// Names what gives room where the disk has none: a snapshot beside the state, of which there are so many heads.
fn without_room(session: &Session, heads: usize, error: Error) -> Error {
    if !volume::is_full(&error) || session.list_snapshots().is_ok_and(|all| all.len() <= heads) {
        return error;
    }
    error.with_advice(&format!("free some space, as by {SNAPSHOT_DELETE}, and try again"))
}

/// `Missing` when snapshots have the table `name` that would be made: an empty one beside the one that was meant is what
/// nobody asked for.
fn no_twin(name: &str, advice: Option<String>) -> Result<()> {
    let Some(advice) = advice else { return Ok(()) };
    Err(Error::missing(format!("there is no live table \"{name}\"; {advice}")))
}

/// The merge operator called `name`.
pub fn built_in(name: &str) -> Result<MergeOperator> {
    MergeOperator::built_in(name).ok_or_else(|| {
        let operators = tables::operators();
        let names: Vec<_> = operators.iter().map(MergeOperator::name).collect();
        Error::invalid(format!("there is no merge operator \"{name}\": use {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_live_before_the_lock_is_taken_is_changed_in_the_log() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("s");
        let making = Making { create: true, ..Making::default() };
        let mut change = Change::making(&folder, &making).unwrap();
        change.table("t", None, None).unwrap();
        change.save().unwrap();
        let live = Making { live: true, ..Making::default() };
        let mut other = Change::making(&folder, &live).unwrap();
        other.table("u", None, None).unwrap();
        other.save().unwrap();
        // It looked before the other began.
        let change = Change::begin_as(&folder, &Making::default(), None, false).unwrap();
        assert!(change.is_live && change.has("u").unwrap());
        change.give_up();
        let base = Base { snapshot: Some("head-0000000001".to_owned()) };
        let making = Making { base, ..Making::default() };
        let refused = Change::begin_as(&folder, &making, None, false).map(|_| ()).unwrap_err();
        assert!(refused.detail().contains("has live tables"), "{refused}");
    }

    /// A kill between the two would leave it empty.
    #[test]
    fn a_table_that_is_made_is_live_with_what_comes_into_it() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("s");
        let live = Making { create: true, live: true, ..Making::default() };
        let mut change = Change::making(&folder, &live).unwrap();
        change.table("old", None, None).unwrap();
        change.save().unwrap();
        let seen = || {
            let session = tables::open_read_only(&folder, SessionOptions::default()).unwrap();
            session.live_tables().unwrap()
        };
        let mut change = Change::open(&folder, &Base::default()).unwrap();
        let table = change.table("new", None, None).unwrap();
        table.update(varvite::Batch::new().insert(b"k", b"v")).unwrap();
        assert_eq!(seen(), ["old"]);
        assert!(change.has("new").unwrap());
        change.save().unwrap();
        assert_eq!(seen(), ["new", "old"]);
        let mut change = Change::open(&folder, &Base::default()).unwrap();
        change.table("other", None, None).unwrap();
        change.give_up();
        assert_eq!(seen(), ["new", "old"]);
    }

    /// Somebody has moved the folder away and made another store in its place.
    #[cfg(unix)]
    #[test]
    fn a_store_that_took_the_place_of_one_that_was_made_stays() {
        for (live, gives_up) in [(false, false), (false, true), (true, false), (true, true)] {
            let temporary = tempfile::tempdir().unwrap();
            let folder = temporary.path().join("s");
            let making = Making { create: true, live, ..Making::default() };
            let mut change = Change::making(&folder, &making).unwrap();
            change.table("t", None, None).unwrap();
            std::fs::rename(&folder, temporary.path().join("old")).unwrap();
            let mut other = Change::making(&folder, &making).unwrap();
            other.table("u", None, None).unwrap();
            other.save().unwrap();
            if gives_up {
                change.give_up();
            } else {
                change.save().map(|_| ()).unwrap_err();
            }
            let left = Change::begin_as(&folder, &Making::default(), None, live).unwrap();
            assert!(left.has("u").unwrap(), "live: {live}, given up: {gives_up}");
        }
    }
}
