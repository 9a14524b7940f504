//! Values that stay where they are until they are read, and values that are written piece by piece.
//!
//! Design: `docs/design/table.md`, "Blobs".

use std::sync::Arc;

use super::lookup::{PendingBlob, search};
use super::values::Values;
use super::view::View;
use crate::cache::Charge;
use crate::error::{Error, Result};
use crate::table::runs::blob::{BlobBuilder, HeldBlob};
use crate::table::shared::{Log, Operation, Purpose, SegmentStore};
use crate::trace::{self, Action, Answer, DigestOfMany};

/// A value of a table that was found and, if it is in a blob file, not read yet. It stays valid as
/// long as it is held, whatever becomes of its key; then it gives `Closed` once the session ended.
///
/// ```
/// use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
///
/// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
/// let mut table = session.create_table("contracts", TableOptions::default())?;
/// let mut writer = session.write_value()?;
/// for _ in 0..100 {
///     writer.write(&[7; 10_000])?;
/// }
/// table.update(Batch::new().insert_value(b"code", &writer.finish()?))?;
/// let found = table.view().find(&[b"code"])?.remove(0).expect("it is bound");
/// table.update(Batch::new().delete(b"code"))?;
/// let mut piece = [0; 3];
/// assert_eq!((found.len(), found.read_at(999_998, &mut piece)?), (1_000_000, 2));
/// assert_eq!(piece, [7, 7, 0]);
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Clone)]
pub struct Value {
    pub(in crate::table) place: ValueLocation,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    pub(in crate::table) store: Arc<SegmentStore>,
}

/// Where the bytes of a value are.
#[derive(Clone)]
pub enum ValueLocation {
    Memory(Arc<[u8]>),
    Blob(HeldBlob),
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

impl Value {
    /// Its length in bytes. No disk.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.place {
            ValueLocation::Memory(bytes) => bytes.len() as u64,
            ValueLocation::Blob(blob) => blob.span.length,
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with its bytes from `offset` on and returns how many there were. Reads the pages
    /// of 4 KiB that hold them. `Io`, `Corrupt`, `Closed`, or `Missing` beside
    /// [another process](View).
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.store.check_open()?;
        let left = self.len().saturating_sub(offset).min(buffer.len() as u64) as usize;
        match &self.place {
            ValueLocation::Memory(bytes) if left > 0 => {
                buffer[..left].copy_from_slice(&bytes[offset as usize..][..left]);
            }
            ValueLocation::Blob(blob) if left > 0 => {
                let mut at = 0;
                blob.file.read(&blob.span, offset, left as u64, |piece| {
                    buffer[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                })?;
            }
            _ => {}
        }
        Ok(left)
    }

    /// All of it. Reads the pages of 4 KiB that hold it, 16 at a time; several values are cheaper
    /// together, with [`crate::Session::read_values`]. `Io`, `Corrupt`, `Closed`, `Invalid` where memory has no
    /// room for it, or `Missing` beside [another process](View).
    pub fn read(&self) -> Result<Vec<u8>> {
        self.store.check_open()?;
        match &self.place {
            ValueLocation::Memory(bytes) => Ok(bytes.to_vec()),
            ValueLocation::Blob(blob) => {
                self.store.counters.add_blobs(std::slice::from_ref(blob));
                blob.file.read_whole(&blob.span)
            }
        }
    }
}

impl View {
    /// As [`View::lookup`], without reading the values that are in blob files; one that upserts join
    /// is read. About one page read per key that is not in memory; `Io`, `Corrupt`, `Closed`,
    /// or `Missing` beside [another process](View).
    pub fn find<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.find_as(Operation::Lookup, keys)
    }

    /// The same, of which the observer is told as of `operation`.
    pub(super) fn find_as<K: AsRef<[u8]>>(
        &self,
        operation: Operation,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let lengths = |found: &Vec<Option<Value>>| {
            let mut digest = DigestOfMany::default();
            for value in found {
                let length = value.as_ref().map(|value| value.len().to_le_bytes());
                digest.add(length.as_ref().map(<[u8; 8]>::as_slice));
            }
            Answer::Digest(Some(digest.finish()))
        };
        let (traced, action) = (self.name.traced(), Action::FindValues);
        let find = || self.find_now(operation, keys);
        trace::call(traced, action, |to| to.keys(keys), lengths, find)
    }

    fn find_now<K: AsRef<[u8]>>(
        &self,
        operation: Operation,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.store.check_open()?;
        self.store.observe((operation, &self.name), keys.len() as u64, || {
            let mut values = Values::new();
            let (mut scratch, blobs) = search(self, keys, &mut values)?;
            let (joined, apart): (Vec<_>, Vec<_>) =
                blobs.into_iter().partition(|blob| blob.newer.is_some());
            if !joined.is_empty() {
                super::lookup::fetch(self, &mut scratch, joined, &mut values)?;
            }
            self.store.put_scratch(scratch);
            let value = |place| Value { place, store: Arc::clone(&self.store) };
            let whole = |bytes: &[u8]| value(ValueLocation::Memory(bytes.into()));
            let mut found: Vec<_> = values.iter().map(|bytes| bytes.map(whole)).collect();
            for PendingBlob { index, blob, .. } in apart {
                found[index] = Some(value(ValueLocation::Blob(blob)));
            }
            Ok(found)
        })
    }
}

/// A value that comes in pieces: see [`crate::Session::write_value`].
///
/// Dropped unfinished, or after an error, it leaves nothing behind.
pub struct ValueWriter {
    /// None after a failure.
    blob: Option<BlobBuilder>,
    /// For the memory of `blob`.
    _charge: Option<Charge>,
    store: Arc<SegmentStore>,
}

impl std::fmt::Debug for ValueWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.blob.as_ref().map_or(0, BlobBuilder::bytes_so_far);
        write!(f, "ValueWriter({bytes} bytes)")
    }
}

impl ValueWriter {
    pub(in crate::table) fn new(store: Arc<SegmentStore>) -> Result<Self> {
        let blob = store.write(|| store.build_blob())?;
        let charge = store.charge();
        if let Some(charge) = &charge {
            charge.set(blob.memory_bytes() as u64);
        }
        Ok(ValueWriter { blob: Some(blob), _charge: charge, store })
    }

    /// Appends a piece. Writes 256 KiB at a time. `Io`, after which the writer is of no use; `Invalid`
    /// beyond 1 TiB.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        let Some(mut blob) = self.blob.take() else { return Err(self.broken()) };
        if blob.bytes_so_far() + piece.len() as u64 > crate::table::runs::blob::BLOB_BYTES_MAX {
            return Err(Error::invalid("a value has at most 1 TiB: store it in several"));
        }
        self.store.write(|| blob.append(piece))?;
        self.blob = Some(blob);
        Ok(())
    }

    /// The value, to be inserted with [`crate::Batch::insert_value`]. Writes what is left of it and the
    /// file's last page. In a session with a log it also syncs the file and its folder, so that updates
    /// of live tables need not; otherwise that is for the snapshot that names it. `Io`; `Invalid` after
    /// an error of [`ValueWriter::write`].
    pub fn finish(mut self) -> Result<Value> {
        let Some(mut blob) = self.blob.take() else { return Err(self.broken()) };
        let span = blob.end_value(0);
        let file = self.store.write(|| {
            let file = self.store.adopt_blob(blob, Purpose::Load)?;
            if self.store.options.log != Log::None {
                self.store.sync_blobs(std::iter::once(&file))?;
            }
            Ok(file)
        })?;
        Ok(Value {
            place: ValueLocation::Blob(HeldBlob { span, file }),
            store: Arc::clone(&self.store),
        })
    }

    fn broken(&self) -> Error {
        Error::invalid(format!(
            "writing a value to {} failed: begin it again",
            self.store.disk.root()
        ))
    }
}

impl crate::Batch {
    /// Binds `key` to a value that is in the session already, without a copy of it: one that was
    /// written in pieces, or found in a table. No disk.
    ///
    /// If the value is in a blob file, an update refuses it with `Invalid` for a table with a merge
    /// operator, which joins whole values, and for a table of another session: insert its bytes there, of
    /// which a batch takes 16 MiB a value. The update of a live table syncs the file if nothing did yet;
    /// the log refers to it.
    pub fn insert_value(&mut self, key: &(impl AsRef<[u8]> + ?Sized), value: &Value) -> &mut Self {
        let key = key.as_ref();
        match &value.place {
            ValueLocation::Memory(bytes) => self.insert(key, bytes),
            ValueLocation::Blob(blob) => {
                self.insert_blob(key, blob, Arc::new(Arc::clone(&value.store)))
            }
        }
    }
}
