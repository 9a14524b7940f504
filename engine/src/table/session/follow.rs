//! The live tables of a session that another process writes, followed from update to update.
//!
//! A follower has the tables as the last checkpoint and the log had them at one moment. To go on it reads what
//! has come to the log since, into buffers of its own; when there is a newer checkpoint it begins with
//! that, which lets the buffers go. It takes no lock and writes nothing, and its writer knows nothing of it.
//!
//! Invariant: the tables are those of one place in the log, between two records, and change together.
//!
//! What a reader may find beside a writer: `docs/design/durability.md`.

use super::lifecycle::Session;
use super::live::{OpenTable, Replay, places};
use crate::error::{Error, Kind, Result};
use crate::format::codec::Decoder;
use crate::table::durable::{
    Checkpoint, CheckpointTag, LogPlace, LogRecord, log_files, no_live_table, read_tag,
};
use crate::table::write::Table;

/// The live tables of a session, as another process updates them. See [`Session::follow`].
pub struct Follower {
    session: Session,
    options: OpenTable,
    state: Followed,
}

/// All live tables at one moment.
struct Followed {
    /// Of the checkpoint that it began with, or of one before.
    tag: Option<CheckpointTag>,
    /// The id of the next live table, as that checkpoint has it.
    next_id: u64,
    tables: Vec<Replay>,
    /// Where they are in the log.
    place: Option<LogPlace>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.tables().map(Table::name).collect();
        write!(f, "Follower({names:?} at {:?})", self.state.place)
    }
}

impl Session {
    /// Follows the live tables of a session that is [open to read](Session::open_read_only), beside the process
    /// that updates them. `Invalid` in a session that writes; `Corrupt`, `Io`.
    ///
    /// All tables are as they were at one moment: after an update that stands whole in the log, all before
    /// it, and none after it. [`Follower::reload`] goes on to a later one. That an update stands in the log
    /// may be seen just before its caller is told so. With `Log::Synced` that is while it is synced: should
    /// that fail, or the write, it was never acknowledged, and the next reload shows the tables without it.
    ///
    /// Costs what [`Session::open_table`] costs. What the log has since the checkpoint is held in memory:
    /// mostly one log file and the write buffers, at most about three log files and four write buffers a table, and
    /// twice that behind sessions that were cut off.
    /// It counts in the cache's budget, but is not bounded by it.
    ///
    /// ```
    /// use varvite::{Batch, Log, OpenTable, Session, SessionOptions, TableOptions};
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let disk = MemoryDisk::seeded(1);
    /// let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    /// let writer = Session::create(disk.clone(), options)?;
    /// let mut utxo = writer.create_table("utxo", TableOptions::utxo())?;
    ///
    /// let session = Session::open_read_only(disk, SessionOptions::default())?;
    /// let mut follower = session.follow(&OpenTable::default())?;
    /// utxo.update(Batch::new().insert(b"tx1#0", b"5 ada"))?;
    /// assert_eq!(follower.table("utxo")?.get(b"tx1#0")?, None);
    /// assert!(follower.reload()?);
    /// assert_eq!(follower.table("utxo")?.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn follow(&self, options: &OpenTable) -> Result<Follower> {
        self.store.check_open()?;
        if !self.store.read_only {
            return Err(Error::invalid(format!(
                "the session at {} is open for writing, so its live tables are as it updates them: open \
                 them with open_table, or follow them in a session that only reads",
                self.root()
            )));
        }
        let (session, options) = (self.clone(), options.clone());
        let state = Followed::read(&session, &options)?;
        Ok(Follower { session, options, state })
    }
}

impl Follower {
    /// Goes on to what the log has now; whether that is another moment than before. Views that were taken
    /// stay as they are. After an error the tables are as they were, and it may be tried again: `Io`, and `Corrupt`
    /// when checkpoint, log or a segment is damaged. Where a table says `Missing`, since the writer has removed a
    /// file meanwhile, the tables are to be asked once more after it, also when it says false: a checkpoint names other
    /// files for the same moment.
    ///
    /// Reads what was written since. Once for each checkpoint, that is for each log file that was filled, it reads
    /// this checkpoint, opens the segments that it has not yet, and takes the log from there: about a log
    /// file and the write buffers. Until that is done it holds what it had, too.
    pub fn reload(&mut self) -> Result<bool> {
        self.session.store.check_open()?;
        let next = match self.state.go_on(&self.session)? {
            Some(next) => next,
            None => Followed::read(&self.session, &self.options)?,
        };
        let is_other = !next.is_as(&self.state);
        self.state = next;
        Ok(is_other)
    }

    /// The live tables, in the order of their names.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &Table> {
        self.state.tables.iter().map(|replay| &replay.table)
    }

    /// The live table `name`; `Missing` when there is none of that name.
    pub fn table(&self, name: &str) -> Result<&Table> {
        let found = self.tables().find(|table| table.name() == name);
        found.ok_or_else(|| no_live_table(name, self.tables().map(Table::name)))
    }
}

impl Followed {
    /// The tables as checkpoint and log have them now.
    fn read(session: &Session, options: &OpenTable) -> Result<Followed> {
        // Before the checkpoint: should that be a newer one, it is only read once more.
        let tag = read_tag(&*session.store.disk)?;
        let mut opening = session.store.opening();
        let (checkpoint, (mut tables, place)) = session.read_beside(None, options)?;
        for replay in &mut tables {
            replay.table.name_by(&mut opening);
        }
        let next_id = next_id(checkpoint.as_ref());
        Ok(Followed { tag, next_id, tables, place })
    }

    /// The tables after what the log has by now. `None` when that is to be read with the checkpoint.
    fn go_on(&self, session: &Session) -> Result<Option<Followed>> {
        let (disk, identity) = (&*session.store.disk, session.store.identity);
        let Some(place) = self.place else { return Ok(None) };
        if read_tag(disk)? != self.tag {
            return Ok(None);
        }
        // Should they be dropped, the keys of their updates stay in the filters that both share, and are mostly the same
        // again next time.
        let mut next =
            Followed { tables: self.tables.iter().map(Replay::copied).collect(), ..*self };
        let places = places(&next.tables);
        let read = log_files::go_on(disk, identity, place, &mut |at, payload| {
            self.check_known(&mut payload.clone())?;
            session.replay_record(&mut next.tables, &places, at, payload)
        });
        match read {
            Ok(place) => next.place = Some(place),
            // What the writer did meanwhile, or damage: the checkpoint tells which.
            Err(error) if [Kind::Missing, Kind::Corrupt].contains(&error.kind()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // A table that was made or deleted meanwhile was there, or not, before some of these records.
        Ok((read_tag(disk)? == self.tag).then_some(next))
    }

    /// `Corrupt` for a record of a table that was made after the checkpoint.
    fn check_known(&self, payload: &mut Decoder<'_>) -> Result<()> {
        let start = payload.clone();
        let tables = LogRecord::decode(payload, &|_| false)?.tables();
        match tables.into_iter().find(|id| *id >= self.next_id) {
            Some(id) => {
                let expected = format_args!("tables below {}", self.next_id);
                Err(start.corrupt(expected, format_args!("table {id}")))
            }
            None => Ok(()),
        }
    }

    /// Whether both are of the same moment.
    fn is_as(&self, other: &Followed) -> bool {
        let ids = |it: &Followed| it.tables.iter().map(|replay| replay.id).collect::<Vec<_>>();
        let end = |it: &Followed| it.place.map(|place| place.end);
        end(self) == end(other) && ids(self) == ids(other)
    }
}

fn next_id(checkpoint: Option<&Checkpoint>) -> u64 {
    checkpoint.map_or(0, |checkpoint| checkpoint.next_id)
}
