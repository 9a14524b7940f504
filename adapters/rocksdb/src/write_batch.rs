//! Writes that stand together or not at all.

use std::sync::Arc;

use crate::column_family::{AsColumnFamilyRef, Family};
use crate::shared::{Shared, Write, Writes};

/// Writes that are gathered until a database takes them; `TRANSACTION` for one with transactions.
pub struct WriteBatchWithTransaction<const TRANSACTION: bool> {
    writes: Vec<(Option<Arc<Family>>, Write)>,
    bytes: usize,
}

/// One for a database without transactions.
pub type WriteBatch = WriteBatchWithTransaction<false>;

/// Is shown the writes of a batch that go to the default column family.
pub trait WriteBatchIterator {
    /// `key` is bound to `value`.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// `key` is unbound.
    fn delete(&mut self, key: &[u8]);
}

impl<const TRANSACTION: bool> Default for WriteBatchWithTransaction<TRANSACTION> {
    fn default() -> Self {
        WriteBatchWithTransaction { writes: Vec::new(), bytes: 0 }
    }
}

impl<const TRANSACTION: bool> WriteBatchWithTransaction<TRANSACTION> {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same; the capacity is not needed here.
    #[must_use]
    pub fn with_capacity_bytes(_capacity: usize) -> Self {
        Self::default()
    }

    /// How many writes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all writes out.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.bytes = 0;
    }

    fn push(&mut self, family: Option<&Arc<Family>>, write: Write) {
        self.bytes += match &write {
            Write::Put(one, two) | Write::DeleteRange(one, two) => one.len() + two.len(),
            Write::Delete(key) => key.len(),
        };
        self.writes.push((family.map(Arc::clone), write));
    }

    /// Binds `key` to `value`. Of several writes to one key the last one counts.
    pub fn put<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, key: K, value: V) {
        self.push(None, Write::Put(key.as_ref().to_vec(), value.as_ref().to_vec()));
    }

    /// The same in a column family.
    pub fn put_cf<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        value: V,
    ) {
        self.push(Some(cf.family()), Write::Put(key.as_ref().to_vec(), value.as_ref().to_vec()));
    }

    /// Unbinds `key`.
    pub fn delete<K: AsRef<[u8]>>(&mut self, key: K) {
        self.push(None, Write::Delete(key.as_ref().to_vec()));
    }

    /// The same in a column family.
    pub fn delete_cf<K: AsRef<[u8]>>(&mut self, cf: &impl AsColumnFamilyRef, key: K) {
        self.push(Some(cf.family()), Write::Delete(key.as_ref().to_vec()));
    }

    /// Shows the writes to the default column family, but for deleted ranges.
    pub fn iterate<T: WriteBatchIterator>(&self, callbacks: &mut T) {
        for (_, write) in self.writes.iter().filter(|(family, _)| family.is_none()) {
            match write {
                Write::Put(key, value) => callbacks.put(key, value),
                Write::Delete(key) => callbacks.delete(key),
                Write::DeleteRange(..) => {}
            }
        }
    }

    pub(crate) fn into_writes(self, shared: &Shared) -> Writes {
        let mut writes = Writes::new();
        for (family, write) in self.writes {
            let family = family.unwrap_or_else(|| Arc::clone(&shared.default));
            let part = writes.entry(family.number);
            part.or_insert_with(|| (family, Vec::new())).1.push(write);
        }
        writes
    }
}

impl WriteBatchWithTransaction<false> {
    /// Unbinds every key from `from` on that is before `to`.
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, from: K, to: K) {
        self.push(None, Write::DeleteRange(from.as_ref().to_vec(), to.as_ref().to_vec()));
    }

    /// The same in a column family.
    pub fn delete_range_cf<K: AsRef<[u8]>>(&mut self, cf: &impl AsColumnFamilyRef, from: K, to: K) {
        let write = Write::DeleteRange(from.as_ref().to_vec(), to.as_ref().to_vec());
        self.push(Some(cf.family()), write);
    }
}
