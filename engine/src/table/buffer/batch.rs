//! What goes into a table and what comes out, each in contiguous memory that callers may reuse.

use std::any::Any;
use std::ops::Bound;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::order;
use crate::order::BTreeSet;
use crate::table::bytes::{EntryKind, EntryRef, KEY_BYTES_MAX, KeyRange, VALUE_BYTES_MAX, cost};
use crate::table::runs::blob::{BlobFile, BlobSpan, HeldBlob};
use crate::trace::Arguments;

/// Operations to apply in order; those on one key in one batch act one after the other.
///
/// ```
/// let mut batch = varvite::Batch::new();
/// batch.insert(b"spent", b"5").delete(b"spent").insert(b"unspent", b"7");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    operations: Vec<BatchOperation>,
    /// In the order in which they act.
    ranges: Vec<RangeDelete>,
    cost: u64,
    has_upserts: bool,
    held: Vec<HeldBlobFile>,
    /// The first key or value that is too long, with its length.
    refused: Option<(&'static str, usize)>,
}

/// A range whose keys are unbound, and how many operations on single keys come before.
#[derive(Clone, Debug)]
pub struct RangeDelete {
    pub at: usize,
    pub range: KeyRange,
}

/// A blob file that an operation refers to.
#[derive(Clone, Debug)]
struct HeldBlobFile {
    file: Arc<BlobFile>,
    /// Whose lock the file is removed under.
    _owner: Arc<dyn Any + Send + Sync>,
}

#[derive(Clone, Copy, Debug)]
struct BatchOperation {
    kind: EntryKind,
    key_length: u32,
    value_length: u32,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds `key` to `value`, whatever was there.
    ///
    /// ```
    /// let mut batch = varvite::Batch::new();
    /// batch.insert(b"tx1#0", b"5 ada").insert("text", &vec![1, 2]).insert(&7_u64.to_be_bytes(), &String::from("owned"));
    /// assert_eq!(batch.len(), 3);
    /// ```
    pub fn insert(
        &mut self,
        key: &(impl AsRef<[u8]> + ?Sized),
        value: &(impl AsRef<[u8]> + ?Sized),
    ) -> &mut Self {
        self.push(EntryKind::Insert, key.as_ref(), value.as_ref())
    }

    /// Unbinds `key`; nothing happens when it is not bound.
    pub fn delete(&mut self, key: &(impl AsRef<[u8]> + ?Sized)) -> &mut Self {
        self.push(EntryKind::Delete, key.as_ref(), b"")
    }

    /// Unbinds every key between the bounds, those that earlier operations of the batch bind too; later ones
    /// bind keys in it as ever. Bounds that cross are an empty range, which does nothing.
    ///
    /// The update looks for the keys that are bound in the range, with the reads of a cursor over it, and
    /// deletes them; segments that lie wholly in it go unread. See [`Table::delete_range`](crate::Table::delete_range).
    ///
    /// ```
    /// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    /// use std::ops::Bound::{Included, Unbounded};
    /// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// # let mut table = session.create_table("t", TableOptions::default())?;
    /// table.update(Batch::new().insert(b"epoch 1/a", b"old").insert(b"epoch 2/a", b"old"))?;
    /// let mut batch = Batch::new();
    /// batch.delete_range(Included(b"epoch 2"), Unbounded).insert(b"epoch 2/b", b"new");
    /// table.update(&batch)?; // all of it or nothing
    /// assert_eq!(table.get(b"epoch 2/a")?, None);
    /// assert_eq!(table.get(b"epoch 2/b")?.as_deref(), Some(&b"new"[..]));
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn delete_range(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> &mut Self {
        self.push_range(KeyRange::new(lower, upper))
    }

    /// Unbinds every key that begins with `prefix`, as [`Batch::delete_range`] does. With an empty prefix
    /// that is every key.
    pub fn delete_prefix(&mut self, prefix: &(impl AsRef<[u8]> + ?Sized)) -> &mut Self {
        self.push_range(KeyRange::of_prefix(prefix.as_ref()))
    }

    /// Puts the operations of `other` behind those of this one: on a key that both touch, they act last.
    /// `other` stays as it is.
    ///
    /// ```
    /// let (mut block, mut fees) = (varvite::Batch::new(), varvite::Batch::new());
    /// block.insert(b"pool", b"1").insert(b"tx", b"5");
    /// fees.delete(b"pool");
    /// block.append(&fees); // inserts of "pool" and "tx", then the delete of "pool"
    /// assert_eq!(block.len(), 3);
    /// ```
    pub fn append(&mut self, other: &Batch) -> &mut Self {
        let before = self.operations.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.operations.extend_from_slice(&other.operations);
        self.ranges.extend(
            other
                .ranges
                .iter()
                .map(|it| RangeDelete { at: before + it.at, range: it.range.clone() }),
        );
        self.held.extend_from_slice(&other.held);
        self.cost += other.cost;
        self.has_upserts |= other.has_upserts;
        self.refused = self.refused.or(other.refused);
        self
    }

    pub(in crate::table) fn push_range(&mut self, range: KeyRange) -> &mut Self {
        if !range.is_empty() {
            self.ranges.push(RangeDelete { at: self.operations.len(), range });
        }
        self
    }

    /// The ranges that it deletes, in order.
    pub(in crate::table) fn ranges(&self) -> &[RangeDelete] {
        &self.ranges
    }

    /// The one range that it deletes, if it does nothing else.
    pub(in crate::table) fn only_range(&self) -> Option<&KeyRange> {
        match &self.ranges[..] {
            [only] if self.operations.is_empty() => Some(&only.range),
            _ => None,
        }
    }

    /// Whether it binds nothing.
    pub(in crate::table) fn only_deletes(&self) -> bool {
        self.operations.iter().all(|it| it.kind == EntryKind::Delete)
    }

    /// At least as many bytes as it takes in a record of the log.
    pub(in crate::table) fn record_bytes_max(&self) -> usize {
        /// The lengths of a key and a value, or a place, and what ends a range, with theirs.
        const LENGTHS: usize = 16;
        let ranges: usize = self.ranges.iter().map(|it| 2 * LENGTHS + it.range.bytes()).sum();
        LENGTHS + self.bytes.len() + self.operations.len() * LENGTHS / 2 + ranges
    }

    /// How many operations on single keys it has.
    pub(in crate::table) fn point_count(&self) -> usize {
        self.operations.len()
    }

    /// An empty batch that holds the same blob files.
    pub(in crate::table) fn emptied(&self) -> Batch {
        Batch { held: self.held.clone(), ..Batch::default() }
    }

    /// Adds one operation on a key, whatever it does.
    pub(in crate::table) fn push_entry(&mut self, entry: EntryRef<'_>) {
        self.has_upserts |= entry.kind == EntryKind::Upsert;
        self.push(entry.kind, entry.key, entry.value);
    }

    /// Joins `value` to what `key` is bound to, by the table's merge operator; binds it when unbound.
    pub fn upsert(
        &mut self,
        key: &(impl AsRef<[u8]> + ?Sized),
        value: &(impl AsRef<[u8]> + ?Sized),
    ) -> &mut Self {
        self.has_upserts = true;
        self.push(EntryKind::Upsert, key.as_ref(), value.as_ref())
    }

    /// Binds `key` to a value in a blob file of the session that `owner` is of.
    pub(in crate::table) fn insert_blob(
        &mut self,
        key: &[u8],
        blob: &HeldBlob,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> &mut Self {
        self.hold(Arc::clone(&blob.file), owner);
        self.insert_span(key, &blob.span)
    }

    /// Binds `key` to a value in a blob file that is held, or is to be.
    pub(in crate::table) fn insert_span(&mut self, key: &[u8], span: &BlobSpan) -> &mut Self {
        self.push(EntryKind::Blob, key, &span.encode())
    }

    /// Holds a blob file that operations refer to.
    pub(in crate::table) fn hold(
        &mut self,
        file: Arc<BlobFile>,
        owner: Arc<dyn Any + Send + Sync>,
    ) {
        self.held.push(HeldBlobFile { file, _owner: owner });
    }

    /// The identities of the blob files that operations refer to, whether they are held or not.
    pub(in crate::table) fn blob_identities(&self) -> BTreeSet<u64> {
        let blobs = self.entries().filter(|entry| entry.kind == EntryKind::Blob);
        order::set(blobs.filter_map(|entry| Some(BlobSpan::decode(entry.value)?.file)))
    }

    /// The blob files that operations refer to.
    pub(in crate::table) fn blobs(&self) -> impl ExactSizeIterator<Item = &Arc<BlobFile>> + Clone {
        self.held.iter().map(|held| &held.file)
    }

    fn push(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> &mut Self {
        if key.len() > KEY_BYTES_MAX {
            self.refused.get_or_insert(("key", key.len()));
        } else if value.len() > VALUE_BYTES_MAX {
            self.refused.get_or_insert(("value", value.len()));
        } else {
            self.cost += cost(key, value);
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(value);
            self.operations.push(BatchOperation {
                kind,
                key_length: key.len() as u32,
                value_length: value.len() as u32,
            });
        }
        self
    }

    /// How many operations it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len() + self.ranges.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.ranges.is_empty()
    }

    /// Whether nothing was asked of it, not even what it refuses.
    pub(in crate::table) fn is_untouched(&self) -> bool {
        self.is_empty() && self.refused.is_none()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.operations.clear();
        self.ranges.clear();
        self.held.clear();
        (self.cost, self.has_upserts, self.refused) = (0, false, None);
    }

    /// Memory of its operations on single keys, in bytes.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.operations.capacity() * size_of::<BatchOperation>()
    }

    pub(in crate::table) fn has_upserts(&self) -> bool {
        self.has_upserts
    }

    pub(in crate::table) fn cost(&self) -> u64 {
        self.cost
    }

    /// `Invalid` when something in it cannot be stored.
    pub(in crate::table) fn check(&self, has_operator: bool) -> Result<()> {
        if let Some((what, length)) = self.refused {
            let limit = if what == "key" { KEY_BYTES_MAX } else { VALUE_BYTES_MAX };
            return Err(Error::invalid(format!(
                "a {what} of {length} bytes is too long: the limit is {limit} bytes"
            )));
        }
        if self.has_upserts && !has_operator {
            return Err(Error::invalid(
                "the batch has upserts but the table has no merge operator: \
                 create the table with one, or use inserts",
            ));
        }
        Ok(())
    }

    /// Tells a recorder of its operations, in the order in which they act.
    pub(in crate::table) fn tell<'a, 'b>(
        &self,
        to: &'a mut Arguments<'b>,
    ) -> &'a mut Arguments<'b> {
        to.number(self.len() as u64);
        let mut ranges = self.ranges.iter().peekable();
        for (at, entry) in self.entries().enumerate() {
            while let Some(range) = ranges.next_if(|range| range.at <= at) {
                to.range(range.range.bounds());
            }
            to.update(entry.kind as u8, entry.key, entry.value);
        }
        ranges.for_each(|range| to.range(range.range.bounds()));
        to
    }

    /// Keys and values of all operations, one after the other.
    pub(in crate::table) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The operations on single keys, in order.
    pub(in crate::table) fn entries(&self) -> impl Iterator<Item = EntryRef<'_>> {
        let mut rest = &self.bytes[..];
        self.operations.iter().map(move |operation| {
            let (key, after) = rest.split_at(operation.key_length as usize);
            let (value, after) = after.split_at(operation.value_length as usize);
            rest = after;
            EntryRef { kind: operation.kind, key, value }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = Batch::new();
        batch.insert(b"a", b"1").upsert(b"b", b"").delete(b"a");
        let kinds: Vec<_> = batch.entries().map(|entry| (entry.kind, entry.key)).collect();
        let expected: [(EntryKind, &[u8]); 3] =
            [(EntryKind::Insert, b"a"), (EntryKind::Upsert, b"b"), (EntryKind::Delete, b"a")];
        assert_eq!(kinds, expected);
        assert!(batch.check(true).is_ok() && batch.check(false).is_err());
        batch.clear();
        batch.insert(&[0; 4_001], b"");
        assert!(batch.check(true).unwrap_err().detail().contains("4001 bytes"));
    }
}
