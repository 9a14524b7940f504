//! Small directories within the record of their parent, as the bytes that `entry.rs` writes.
//!
//! Those of one leaf share a buffer or a few, so that a copy of the leaf touches a few counts of references
//! and not one an entry.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::{Leaf, Slot};

/// One small directory.
#[derive(Clone, Debug)]
pub(crate) struct Embedded {
    /// None only while a leaf is being read. Thin, so that a slot stays small.
    buffer: Option<Arc<Buffer>>,
    start: u32,
    length: u16,
}

/// Bytes of one directory, or of several.
#[derive(Debug)]
enum Buffer {
    /// So few that they need no memory of their own.
    Few([u8; FEW]),
    Many(Box<[u8]>),
    /// Those of a leaf that is kept as bytes.
    Kept(Arc<[u8]>),
}

/// Bytes that directories share.
pub(crate) struct Shared(Arc<Buffer>);

const FEW: usize = 47;

impl Buffer {
    fn new(bytes: &[u8]) -> Arc<Buffer> {
        let mut few = [0; FEW];
        let Some(room) = few.get_mut(..bytes.len()) else {
            return Arc::new(Buffer::Many(bytes.into()));
        };
        room.copy_from_slice(bytes);
        Arc::new(Buffer::Few(few))
    }

    fn len(&self) -> usize {
        match self {
            Buffer::Few(_) => FEW,
            Buffer::Many(bytes) => bytes.len(),
            Buffer::Kept(bytes) => bytes.len(),
        }
    }

    /// Memory that it takes: two counts beside it, and what the allocator adds to each piece.
    fn bytes(&self) -> usize {
        const OWN: usize = size_of::<Buffer>() + 3 * size_of::<usize>();
        match self {
            Buffer::Few(_) => OWN,
            Buffer::Many(bytes) => OWN + size_of::<usize>() + bytes.len(),
            Buffer::Kept(bytes) => OWN + 3 * size_of::<usize>() + bytes.len(),
        }
    }

    fn of(bytes: Vec<u8>) -> Arc<Buffer> {
        Arc::new(Buffer::Many(bytes.into_boxed_slice()))
    }
}

impl Embedded {
    pub(crate) fn new(bytes: &[u8]) -> Embedded {
        let length = u16::try_from(bytes.len()).expect("an embedded directory is short");
        Embedded { buffer: Some(Buffer::new(bytes)), start: 0, length }
    }

    /// Bytes that directories are within, for [`Embedded::within`].
    pub(crate) fn shared(bytes: &Arc<[u8]>) -> Shared {
        Shared(Arc::new(Buffer::Kept(Arc::clone(bytes))))
    }

    /// The bytes `range` of `shared`.
    pub(crate) fn within(shared: &Shared, range: Range<usize>) -> Embedded {
        let length = u16::try_from(range.len()).expect("an embedded directory is short");
        Embedded { buffer: Some(Arc::clone(&shared.0)), start: range.start as u32, length }
    }

    /// The bytes from `start` on of `buffer`, which it is given by [`Leaf::share`] or [`Slot::share`].
    pub(crate) fn among(buffer: &[u8], start: usize) -> Embedded {
        let length = u16::try_from(buffer.len() - start).expect("an embedded directory is short");
        Embedded { buffer: None, start: start as u32, length }
    }
}

#[cfg(test)]
impl Embedded {
    /// The size of the buffer that it keeps in memory.
    pub(crate) fn held(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len())
    }
}

impl Deref for Embedded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = match &**self.buffer.as_ref().expect("it is shared once its leaf is read") {
            Buffer::Few(bytes) => &bytes[..],
            Buffer::Many(bytes) => bytes,
            Buffer::Kept(bytes) => bytes,
        };
        &bytes[self.start as usize..self.start as usize + usize::from(self.length)]
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
    /// A copy to be kept for long: it keeps no other entries in memory, as a clone of a directory would.
    pub(crate) fn apart(&self) -> Slot {
        match self {
            Slot::Embedded(bytes) => Slot::Embedded(Embedded::new(bytes)),
            other => other.clone(),
        }
    }

    /// Gives a slot that was read its bytes, if it is a small directory.
    pub(crate) fn share(mut self, bytes: &[u8]) -> Slot {
        if let Slot::Embedded(inside) = &mut self {
            inside.buffer = Some(Buffer::new(bytes));
        }
        self
    }
}

impl Leaf {
    fn inside(&self) -> impl Iterator<Item = &Embedded> {
        self.entries.iter().filter_map(|entry| match &entry.slot {
            Slot::Embedded(inside) => Some(inside),
            _ => None,
        })
    }

    /// The bytes of the directories within it.
    pub(super) fn inside_bytes(&self) -> usize {
        self.inside().map(|inside| usize::from(inside.length)).sum()
    }

    /// How many buffers directories within it have, one counted again where it comes again, and what they
    /// take of memory.
    pub(super) fn buffers(&self) -> (usize, usize) {
        let (mut buffers, mut bytes, mut last) = (0, 0, std::ptr::null());
        // Shared ones come early and again between others, which have one directory each.
        let (mut seen, mut known) = ([std::ptr::null(); 8], 0);
        for buffer in self.inside().filter_map(|inside| inside.buffer.as_ref()) {
            let address = Arc::as_ptr(buffer);
            if std::mem::replace(&mut last, address) == address {
                continue;
            }
            buffers += 1;
            if seen[..known].contains(&address) {
                continue;
            }
            bytes += buffer.bytes();
            if let Some(place) = seen.get_mut(known) {
                *place = address;
                known += 1;
            }
        }
        (buffers, bytes)
    }

    /// The size of the largest buffer that directories within it have.
    fn largest(&self) -> usize {
        let buffers = self.inside().filter_map(|inside| inside.buffer.as_ref());
        buffers.map(|buffer| buffer.len()).max().unwrap_or(0)
    }

    /// Gives the directories that were read into `bytes` that buffer.
    pub(crate) fn share(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let buffer = Buffer::of(bytes);
        for entry in &mut self.entries {
            if let Slot::Embedded(inside) = &mut entry.slot
                && inside.buffer.is_none()
            {
                inside.buffer = Some(Arc::clone(&buffer));
            }
        }
    }

    /// Puts the bytes of the directories within it into one buffer, unless they are in few.
    pub(crate) fn gather(&mut self) {
        let (buffers, bytes) = (self.buffers().0, self.inside_bytes());
        let is_wasteful = self.largest() > 2 * (bytes + FEW);
        if !is_wasteful && buffers <= BUFFERS || u32::try_from(bytes).is_err() {
            return;
        }
        let mut all = Vec::with_capacity(bytes);
        self.inside().for_each(|inside| all.extend_from_slice(inside));
        let buffer = Buffer::of(all);
        let mut start = 0;
        for entry in &mut self.entries {
            if let Slot::Embedded(inside) = &mut entry.slot {
                (inside.buffer, inside.start) = (Some(Arc::clone(&buffer)), start);
                start += u32::from(inside.length);
            }
        }
    }
}

/// How many buffers a leaf may have before they are put into one: one change of a directory makes two more,
/// and to copy all of them for each would cost more than to count a few references.
const BUFFERS: usize = 5;

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
        assert_eq!(leaf.buffers().0, 13);
        leaf.gather();
        assert_eq!((leaf.buffers().0, leaf.inside_bytes()), (1, before.inside_bytes()));
        // Two changes are left as they are, a third one is gathered.
        for (place, buffers) in [(4, 3), (10, 5), (16, 1)] {
            *leaf.slot_mut(place) = Slot::Embedded(Embedded::new(&vec![place as u8; place + 1]));
            leaf.gather();
            assert_eq!((leaf.buffers().0, leaf.inside_bytes()), (buffers, before.inside_bytes()));
        }
        for index in 0..leaf.len() {
            assert!(leaf.slot(index).same(before.slot(index)), "{index}");
        }
        // One that comes again between others is held once.
        let mut mixed = leaf.clone();
        let whole = mixed.buffers().1;
        for place in (1..mixed.len()).step_by(3) {
            *mixed.slot_mut(place) = Slot::Embedded(Embedded::new(&[7]));
        }
        let ones = mixed.buffers().1 - whole;
        assert!(mixed.buffers().0 > 10 && ones == 7 * Buffer::new(&[7]).bytes(), "{ones}");
        // Few that are left do not keep the memory of many.
        assert!(leaf.largest() > 2 * (2 + FEW));
        (2..leaf.len()).rev().for_each(|index| leaf.remove(index));
        leaf.gather();
        assert_eq!((leaf.buffers().0, leaf.inside_bytes(), leaf.largest()), (1, 2, 2));
        assert!(leaf.slot(1).same(before.slot(1)));
    }
}
