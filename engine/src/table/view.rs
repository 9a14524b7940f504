//! A table at one moment, for readers: cheap to take, to clone and to send to another thread.
//!
//! Its reads stand where they are done: in `lookup.rs` and `cursor.rs`.

use std::sync::Arc;

use super::levels::Shape;
use super::operator::MergeOperator;
use super::run::Run;
use super::store::Store;
use super::write_buffer::WriteBuffer;

/// A table's content at the moment it was taken. Readers never wait for the writer or its disk.
///
/// It costs O(1) to take and to clone. Merges that finish meanwhile change where entries are, never
/// what they say, and a view holds on to no more files than the table itself.
///
/// ```
/// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
/// # let session = Session::create(MemoryDisk::new(), SessionOptions::default())?;
/// # let mut table = session.create_table("t", TableOptions::default())?;
/// table.update(Batch::new().insert(b"key", b"old"))?;
/// let view = table.view();
/// let reader = std::thread::spawn(move || view.get(b"key"));
/// table.update(Batch::new().insert(b"key", b"new"))?;
/// let found = reader.join().expect("the reader does not panic")?;
/// assert_eq!(found.as_deref(), Some(&b"old"[..]));
/// # Ok::<(), varvite::Error>(())
/// ```
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
