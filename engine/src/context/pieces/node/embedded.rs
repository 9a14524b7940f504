//! Small directories within the record of their parent, as the bytes that `entry.rs` writes.
//!
//! Those of one leaf share a buffer, so that a copy of the leaf touches one count of references and not
//! one an entry.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::{Leaf, Slot};

/// One small directory.
#[derive(Clone, Debug)]
pub(crate) struct Embedded {
    /// None only while a leaf is being read. Thin, so that a slot stays small.
    buffer: Option<Arc<Box<[u8]>>>,
    start: u32,
    length: u16,
}

impl Embedded {
    pub(crate) fn new(bytes: &[u8]) -> Embedded {
        let length = u16::try_from(bytes.len()).expect("an embedded directory is short");
        Embedded { buffer: Some(Arc::new(bytes.into())), start: 0, length }
    }

    /// The bytes from `start` on of `buffer`, which it is given by [`Leaf::share`] or [`Slot::share`].
    pub(crate) fn among(buffer: &[u8], start: usize) -> Embedded {
        let length = u16::try_from(buffer.len() - start).expect("an embedded directory is short");
        Embedded { buffer: None, start: start as u32, length }
    }
}

impl Deref for Embedded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let buffer = self.buffer.as_ref().expect("it is shared once its leaf is read");
        &buffer[self.start as usize..self.start as usize + usize::from(self.length)]
    }
}

impl PartialEq for Embedded {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Embedded {}

impl Hash for Embedded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Slot {
    /// Gives a slot that was read its bytes, if it is a small directory.
    pub(crate) fn share(mut self, bytes: &[u8]) -> Slot {
        if let Slot::Embedded(inside) = &mut self {
            inside.buffer = Some(Arc::new(bytes.into()));
        }
        self
    }
}

impl Leaf {
    /// How many buffers directories within it have, and their bytes.
    pub(super) fn embedded(&self) -> (usize, usize) {
        let (mut buffers, mut bytes) = (0, 0);
        let mut last = None;
        for entry in &self.entries {
            if let Slot::Embedded(inside) = &entry.slot {
                bytes += usize::from(inside.length);
                let buffer = inside.buffer.as_ref().map(Arc::as_ptr);
                buffers += usize::from(buffer != last);
                last = buffer;
            }
        }
        (buffers, bytes)
    }

    /// Gives the directories that were read into `bytes` that buffer.
    pub(crate) fn share(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let buffer = Arc::new(bytes.into_boxed_slice());
        for entry in &mut self.entries {
            if let Slot::Embedded(inside) = &mut entry.slot
                && inside.buffer.is_none()
            {
                inside.buffer = Some(Arc::clone(&buffer));
            }
        }
    }

    /// Puts the bytes of the directories within it into one buffer, unless they are.
    pub(crate) fn gather(&mut self) {
        let (buffers, bytes) = self.embedded();
        if buffers < 2 || u32::try_from(bytes).is_err() {
            return;
        }
        let mut all = Vec::with_capacity(bytes);
        for entry in &self.entries {
            if let Slot::Embedded(inside) = &entry.slot {
                all.extend_from_slice(inside);
            }
        }
        let buffer = Arc::new(all.into_boxed_slice());
        let mut start = 0;
        for entry in &mut self.entries {
            if let Slot::Embedded(inside) = &mut entry.slot {
                (inside.buffer, inside.start) = (Some(Arc::clone(&buffer)), start);
                start += u32::from(inside.length);
            }
        }
    }
}

/// Memory of a buffer beside its bytes: two counts, a pointer and a length, and what the allocator adds.
pub(super) const BUFFER: usize = 6 * size_of::<usize>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_is_what_it_was_in_one_buffer() {
        let mut leaf = Leaf::default();
        for name in 0..20_u8 {
            let slot = match name % 3 {
                0 => Slot::value(&[name; 3]),
                _ => Slot::Embedded(Embedded::new(&vec![name; usize::from(name) + 1])),
            };
            leaf.push(&[name], slot);
        }
        let before = leaf.clone();
        assert_eq!(leaf.embedded().0, 13);
        leaf.gather();
        *leaf.slot_mut(4) = Slot::Embedded(Embedded::new(&[4; 5]));
        leaf.gather();
        assert_eq!((leaf.embedded().0, leaf.embedded().1), (1, before.embedded().1));
        for index in 0..leaf.len() {
            assert!(leaf.slot(index).same(before.slot(index)), "{index}");
        }
    }
}
