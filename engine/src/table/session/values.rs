//! What a session does with large values: reading several at once, and taking one in pieces.

use std::sync::Arc;

use super::lifecycle::Session;
use crate::error::Result;
use crate::table::read::{Value, ValueLocation, ValueWriter, Values};
use crate::table::runs::blob::fetch;

impl Session {
    /// The bytes of `values`, in their order. Reads the pages that hold them, 16 at a time, as many in
    /// flight together as the queue allows. `Io`, `Corrupt`, `Closed` for a value of a session that
    /// ended, and `Invalid` where memory has no room for all of them: read long ones in pieces, with
    /// [`Value::read_at`].
    pub fn read_values(&self, values: &[Value]) -> Result<Values> {
        self.store.check_open()?;
        let mut all = Values::new();
        all.reset(values.len());
        let (mut numbers, mut blobs) = (Vec::new(), Vec::new());
        for (number, value) in values.iter().enumerate() {
            value.store.check_open()?;
            match &value.place {
                ValueLocation::Memory(bytes) => all.set(number, bytes),
                ValueLocation::Blob(blob) => {
                    // Compared with the file before the memory is taken.
                    blob.file.check_span(&blob.span)?;
                    blob.file.file()?;
                    all.make_room(number, blob.span.length)?;
                    numbers.push(number);
                    blobs.push(blob.clone());
                }
            }
        }
        if !blobs.is_empty() {
            let mut scratch = self.store.take_scratch()?;
            fetch(&mut *scratch.queue, &blobs, |blob, at, piece| {
                all.fill(numbers[blob], at as usize, piece);
            })?;
            self.store.put_scratch(scratch);
            self.store.counters.add_blobs(&blobs);
        }
        Ok(all)
    }

    /// Begins a value that comes in pieces and may be longer than a batch takes, up to 1 TiB. It goes
    /// to a blob file of its own, which is gone with its last holder unless it was inserted. Makes that
    /// file and takes 256 KiB of memory, which count in the session's budget. `Io`, and `Invalid` in a session that only reads.
    pub fn write_value(&self) -> Result<ValueWriter> {
        ValueWriter::new(Arc::clone(&self.store))
    }
}
