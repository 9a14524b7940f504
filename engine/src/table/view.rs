//! A table at one moment, for readers: cheap to take, to clone and to send to another thread.

use std::ops::Bound;
use std::sync::Arc;

use super::batch::Values;
use super::cursor::Cursor;
use super::levels::Shape;
use super::lookup;
use super::operator::MergeOperator;
use super::options::Operation;
use super::run::Run;
use super::store::Store;
use super::write_buffer::WriteBuffer;
use crate::error::Result;

/// A table's content at the moment it was taken. Readers never wait for the writer or its disk.
///
/// It costs O(1) to take and to clone. Merges that finish meanwhile change where entries are, never
/// what they say, and a view holds on to no more files than the table itself.
#[derive(Clone)]
pub struct View {
    pub(super) store: Arc<Store>,
    pub(super) active: WriteBuffer,
    pub(super) base: Option<Arc<Run>>,
    pub(super) shape: Arc<Shape>,
    pub(super) operator: Option<MergeOperator>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({:?}, {} levels)", self.active, self.shape.levels.len())
    }
}

impl View {
    /// The values of `keys`, in their order. All page reads of the batch are in flight together:
    /// about one per key that is not in memory.
    pub fn lookup<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Values> {
        let mut values = Values::new();
        self.lookup_into(keys, &mut values)?;
        Ok(values)
    }

    /// Like [`View::lookup`], into memory that is used again.
    pub fn lookup_into<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut Values) -> Result<()> {
        self.store.check_open()?;
        let count = keys.len() as u64;
        self.store.observe(Operation::Lookup, count, || lookup::lookup(self, keys, values))
    }

    /// How many keys are bound, exactly. Reads every page: see [`crate::TableStats`] for an estimate
    /// that reads none.
    pub fn count(&self) -> Result<u64> {
        let mut cursor = self.cursor(Bound::Unbounded, Bound::Unbounded)?;
        let mut count = 0;
        while cursor.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// The value of `key`. Several keys are cheaper together, with [`View::lookup`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.lookup(&[key])?.get(0).map(<[u8]>::to_vec))
    }

    /// Every key between the bounds with its value, in key order.
    pub fn range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = self.cursor(lower, upper)?;
        let mut found = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(found)
    }

    /// A cursor before the first key between the bounds.
    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Cursor> {
        self.store.check_open()?;
        Ok(Cursor::new(self.clone(), lower, upper))
    }
}
