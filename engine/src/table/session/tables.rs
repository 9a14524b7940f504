//! Tables behind one handle that threads share: everybody reads, one at a time writes.
//!
//! Whoever writes takes the tables out of the handle and puts them back: an update for its time, a
//! transaction for its life. Readers never wait for that; they have the views of the last update that stands, of all
//! tables at one moment, which are replaced before the writer's call returns.

use std::sync::Arc;

use super::lifecycle::Session;
use super::live::OpenTable;
use crate::error::{Error, Result};
use crate::order;
use crate::sync::{Condvar, Mutex, lock, wait};
use crate::table::buffer::Batch;
use crate::table::read::{KeyBounds, Range, Values, View};
use crate::table::shared::SegmentStore;
use crate::table::write::{Table, update_all};

/// Tables of a session, shared by threads: a cheap handle to clone and send. See [`Session::share`].
#[derive(Clone)]
pub struct Tables {
    shared: Arc<Shared>,
}

/// What the clones of a handle share.
struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when the tables are back.
    is_free: Condvar,
    /// As the last update left them.
    views: Mutex<Views>,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    store: Arc<SegmentStore>,
}

/// Who writes, in the order in which they came.
struct Queue {
    /// The tables, unless somebody writes.
    tables: Option<Vec<Table>>,
    /// How many came so far, and how many of them are done.
    came: u64,
    done: u64,
}

/// Views of tables at one moment: after the same updates.
#[derive(Clone, Debug)]
pub struct Views {
    named: Arc<[(String, View)]>,
}

impl Views {
    fn of(tables: &[Table]) -> Views {
        Views { named: tables.iter().map(|it| (it.name().to_owned(), it.view())).collect() }
    }

    /// The view of table `name`; `Missing` when there is none of that name.
    pub fn get(&self, name: &str) -> Result<&View> {
        let found = self.iter().find(|(there, _)| *there == name);
        found.map(|(_, view)| view).ok_or_else(|| no_table(name, self.iter().map(|(name, _)| name)))
    }

    /// Each table's name and view.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &View)> {
        self.named.iter().map(|(name, view)| (name.as_str(), view))
    }
}

/// `Missing` for a table that is not among `there`.
pub(super) fn no_table<'a>(name: &str, there: impl Iterator<Item = &'a str>) -> Error {
    let names: Vec<_> = there.collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Error::missing(format!("there is no table \"{name}\"; there are: {there}"))
}

/// Tables that a shared handle did not take, and why. It becomes the [`Error`] where one is asked for, which drops the tables.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotShared {
    /// Why not.
    pub error: Error,
    /// What was to be shared, in the order in which it was given.
    pub tables: Vec<Table>,
}

impl From<NotShared> for Error {
    fn from(refused: NotShared) -> Error {
        refused.error
    }
}

impl std::fmt::Display for NotShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotShared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// The number of table `name`.
pub(super) fn find(tables: &[Table], name: &str) -> Result<usize> {
    let found = tables.iter().position(|table| table.name() == name);
    found.ok_or_else(|| no_table(name, tables.iter().map(Table::name)))
}

/// The tables, for the one who writes. Dropped, they are back, and everybody sees what they are now.
pub(super) struct Seat {
    /// Empty only while it is dropped.
    pub(super) tables: Vec<Table>,
    /// Whether views have to be renewed.
    pub(super) is_changed: bool,
    shared: Arc<Shared>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut tables = std::mem::take(&mut self.tables);
        if self.is_changed {
            // Whatever a closure of the host left.
            tables.retain(|table| Arc::ptr_eq(&table.store, &self.shared.store));
            // Of two of a name the first stays.
            order::sort_few_by(&mut tables, |a, b| {
                (a.name(), !a.is_live()).cmp(&(b.name(), !b.is_live()))
            });
            tables.dedup_by(|a, b| a.name() == b.name());
            let views = Views::of(&tables);
            // What went with the old views is let go outside the lock.
            let _old = std::mem::replace(&mut *lock(&self.shared.views), views);
        }
        let mut queue = lock(&self.shared.queue);
        queue.tables = Some(tables);
        queue.done += 1;
        drop(queue);
        self.shared.is_free.notify_all();
    }
}

impl Seat {
    pub(super) fn store(&self) -> &Arc<SegmentStore> {
        &self.shared.store
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let views = self.views();
        write!(f, "Tables({:?})", views.iter().map(|(name, _)| name).collect::<Vec<_>>())
    }
}

impl Session {
    /// Puts `tables` behind one handle that any number of threads may use at once. `Invalid` when one is
    /// of another session, or two have one name; `Closed`. The error has the tables, as they were given.
    ///
    /// Reads take the views of the last update that stands, and wait for nobody. Updates and
    /// [transactions](Tables::begin) come one after the other.
    ///
    /// ```
    /// use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    ///
    /// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let utxo = session.create_table("utxo", TableOptions::utxo())?;
    /// let stake = session.create_table("stake", TableOptions::default())?;
    /// let tables = session.share(vec![utxo, stake])?;
    ///
    /// let writer = tables.clone();
    /// let block = std::thread::spawn(move || {
    ///     let (mut outputs, mut earned) = (Batch::new(), Batch::new());
    ///     outputs.insert(b"tx1#0", b"5 ada");
    ///     earned.insert(b"pool1", b"1 ada");
    ///     writer.commit(&[("utxo", &outputs), ("stake", &earned)]) // both or none
    /// });
    /// block.join().expect("the writer does not panic")?;
    /// let views = tables.views(); // of one moment
    /// assert!(views.get("utxo")?.get(b"tx1#0")?.is_some());
    /// assert!(views.get("stake")?.get(b"pool1")?.is_some());
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn share(&self, mut tables: Vec<Table>) -> std::result::Result<Tables, NotShared> {
        if let Err(error) = self.check_shareable(&tables) {
            return Err(NotShared { error, tables });
        }
        order::sort_by(&mut tables, |a, b| a.name().cmp(b.name()));
        let views = Mutex::new(Views::of(&tables));
        let queue = Mutex::new(Queue { tables: Some(tables), came: 0, done: 0 });
        let (is_free, store) = (Condvar::new(), Arc::clone(&self.store));
        Ok(Tables { shared: Arc::new(Shared { queue, is_free, views, store }) })
    }

    /// Opens every live table, behind one handle. See [`Session::open_all`] and [`Session::share`].
    pub fn open_shared(&self, options: &OpenTable) -> Result<Tables> {
        Ok(self.share(self.open_all(options)?)?)
    }

    fn check_shareable(&self, tables: &[Table]) -> Result<()> {
        self.store.check_open()?;
        tables.iter().try_for_each(|table| self.check_own(table))?;
        let mut names: Vec<_> = tables.iter().map(Table::name).collect();
        order::sort_by(&mut names, Ord::cmp);
        let twice = names.windows(2).find(|two| two[0] == two[1]);
        twice.map_or(Ok(()), |two| Err(two_called(two[0])))
    }
}

fn two_called(name: &str) -> Error {
    Error::invalid(format!("two tables are called \"{name}\""))
}

impl Tables {
    /// What all tables hold after the last update that stands: each at the same moment, never behind an
    /// update whose call returned. O(1), waits for no writer and no disk.
    #[must_use]
    pub fn views(&self) -> Views {
        lock(&self.shared.views).clone()
    }

    /// The same of one table; `Missing`.
    pub fn view(&self, name: &str) -> Result<View> {
        self.views().get(name).cloned()
    }

    /// See [`View::get`]; `Missing` when there is no table `name`.
    pub fn get(&self, name: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.views().get(name)?.get(key)
    }

    /// See [`View::lookup`]; `Missing` when there is no table `name`.
    pub fn lookup<K: AsRef<[u8]>>(&self, name: &str, keys: &[K]) -> Result<Values> {
        self.views().get(name)?.lookup(keys)
    }

    /// See [`View::range`]; `Missing` when there is no table `name`.
    pub fn range(&self, name: &str, range: impl KeyBounds) -> Result<Range> {
        Ok(self.views().get(name)?.range(range))
    }

    /// See [`View::prefix`]; `Missing` when there is no table `name`.
    pub fn prefix(&self, name: &str, prefix: impl AsRef<[u8]>) -> Result<Range> {
        Ok(self.views().get(name)?.prefix(prefix))
    }

    /// Applies each batch to its table, all of them or none, also through a crash: those of live tables
    /// are one record of the log. Waits while others write. Costs and errors are those of
    /// [`Table::update`], and `Missing`; `Invalid` when a table is named twice.
    pub fn commit(&self, changes: &[(&str, &Batch)]) -> Result<()> {
        let mut seat = self.take_seat();
        let mut batches: Vec<Option<&Batch>> = vec![None; seat.tables.len()];
        for (name, batch) in changes {
            let place = &mut batches[find(&seat.tables, name)?];
            if place.replace(batch).is_some() {
                return Err(Error::invalid(format!(
                    "table \"{name}\" is named twice: put its batches together with Batch::append"
                )));
            }
        }
        let store = Arc::clone(seat.store());
        // Also for an error, which may leave merge work done.
        seat.is_changed = true;
        let updates = seat.tables.iter_mut().zip(batches);
        let mut updates: Vec<_> =
            updates.filter_map(|(table, batch)| Some((table, batch?))).collect();
        update_all(&store, &mut updates)
    }

    /// Works ahead on merges by up to `credits` bytes of entries; returns how much is left to do. See
    /// [`Table::work`]. Waits while others write.
    pub fn work(&self, credits: u64) -> Result<u64> {
        let mut seat = self.take_seat();
        seat.is_changed = true;
        let (mut left, mut owed) = (credits, 0);
        for table in &mut seat.tables {
            owed += table.work(left)?;
            left = left.saturating_sub(table.last_work());
        }
        Ok(owed)
    }

    /// Adds a table. `Invalid` when it is of another session, or there is one of its name; the error has it then.
    ///
    /// ```
    /// use varvite::{Kind, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    ///
    /// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let utxo = session.create_table("utxo", TableOptions::utxo())?;
    /// let copy = utxo.duplicate("utxo")?;
    /// let tables = session.share(vec![utxo])?;
    /// let mut refused = tables.add(copy).unwrap_err();
    /// assert_eq!(refused.error.kind(), Kind::Invalid);
    /// let table = refused.tables.pop().expect("it was given back");
    /// tables.add(table.duplicate("other")?)?;
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn add(&self, table: Table) -> std::result::Result<(), NotShared> {
        let mut seat = self.take_seat();
        let refused = if !Arc::ptr_eq(&table.store, seat.store()) {
            let detail = format!("table {} belongs to another session", table.name());
            Some(Error::invalid(detail))
        } else if find(&seat.tables, table.name()).is_ok() {
            Some(two_called(table.name()))
        } else {
            None
        };
        if let Some(error) = refused {
            return Err(NotShared { error, tables: vec![table] });
        }
        seat.is_changed = true;
        seat.tables.push(table);
        Ok(())
    }

    /// Takes table `name` out; `Missing`. Views that were taken keep what they have.
    pub fn remove(&self, name: &str) -> Result<Table> {
        let mut seat = self.take_seat();
        let number = find(&seat.tables, name)?;
        seat.is_changed = true;
        Ok(seat.tables.remove(number))
    }

    /// Runs `action` on the tables themselves, in the order of their names, for what the handle has no call for:
    /// snapshots, duplicates, statistics. Waits while others write, and has them wait.
    pub fn with<T>(&self, action: impl FnOnce(&mut [Table]) -> T) -> T {
        let mut seat = self.take_seat();
        seat.is_changed = true;
        action(&mut seat.tables)
    }

    fn seat(&self, tables: Vec<Table>) -> Seat {
        Seat { tables, is_changed: false, shared: Arc::clone(&self.shared) }
    }

    /// The tables if nobody writes or waits for that just now.
    pub(super) fn try_take_seat(&self) -> Option<Seat> {
        let mut queue = lock(&self.shared.queue);
        if queue.came != queue.done {
            return None;
        }
        queue.came += 1;
        let tables = queue.tables.take();
        drop(queue);
        tables.map(|tables| self.seat(tables))
    }

    /// The tables, once all who came before are done.
    pub(super) fn take_seat(&self) -> Seat {
        let mut queue = lock(&self.shared.queue);
        let turn = queue.came;
        queue.came += 1;
        loop {
            if queue.done == turn
                && let Some(tables) = queue.tables.take()
            {
                drop(queue);
                return self.seat(tables);
            }
            queue = wait(&self.shared.is_free, queue);
        }
    }
}
