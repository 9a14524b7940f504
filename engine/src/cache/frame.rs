//! Memory for pages: pieces of mappings that belong to one cache alone.
//!
//! A frame that is dropped gives its memory back to the system, but for a few, whatever thread made it, and its place
//! is for the next frame. Where a page of the system's has room for several frames, it is given back
//! when none of them is left. From a general allocator each thread would have frames of its
//! own, and the holes of those that went would be of no use for anything else.

use std::sync::Arc;

use super::PAGE;
use crate::disk::{Buffer, page_bytes};
use crate::order::BTreeMap;
use crate::sync::{Mutex, lock};

/// Bytes of a mapping. Memory is taken only as its frames are written.
const MAPPING_BYTES: usize = 1 << 20;

/// Groups without a frame whose memory is kept: a page that no cache keeps has a frame for as long as somebody looks at
/// it, and would otherwise cost a call and a page fault each.
const KEPT: usize = 16;

/// Places for frames.
pub struct Frames {
    free: Mutex<Free>,
    /// Bytes that are given back together: a page of the system's, or of ours if that is larger.
    group_bytes: usize,
}

/// Memory without a frame.
#[derive(Default)]
struct Free {
    /// Groups of which no frame is left; the system has their memory.
    groups: Vec<Buffer>,
    /// The same, a few, with their memory.
    kept: Vec<Buffer>,
    /// The places left of other groups, by their origin.
    pieces: BTreeMap<usize, Vec<Buffer>>,
}

impl Default for Frames {
    fn default() -> Self {
        Frames::of_groups(page_bytes())
    }
}

/// A page and its name.
pub struct Frame {
    pub file: u64,
    pub page: u32,
    /// Always there until it is dropped.
    piece: Option<Buffer>,
    frames: Arc<Frames>,
}

impl Frames {
    /// A frame with this page in it.
    pub fn frame(self: &Arc<Self>, file: u64, page: u32, bytes: &[u8; PAGE]) -> Frame {
        let mut frame = Frame { file, page, piece: Some(self.take()), frames: Arc::clone(self) };
        frame.fill(file, page, bytes);
        frame
    }

    /// Frames of a system that gives and takes pages of `page_bytes`.
    fn of_groups(page_bytes: usize) -> Frames {
        let group_bytes = page_bytes.clamp(PAGE, MAPPING_BYTES);
        Frames { free: Mutex::new(Free::default()), group_bytes }
    }

    fn take(&self) -> Buffer {
        let mut free = lock(&self.free);
        let first = free.pieces.keys().next().copied();
        if let Some(origin) = first {
            let group = free.pieces.get_mut(&origin).expect("it was just there");
            let piece = group.pop().expect("a group with a place left has pieces");
            if group.is_empty() {
                free.pieces.remove(&origin);
            }
            return piece;
        }
        if free.kept.is_empty() && free.groups.is_empty() {
            let groups = Buffer::new(MAPPING_BYTES).split(self.group_bytes);
            free.groups.extend(groups.into_iter().rev());
        }
        let group = free.kept.pop().or_else(|| free.groups.pop()).expect("a mapping has groups");
        if self.group_bytes == PAGE {
            return group;
        }
        let mut pieces = group.split(PAGE);
        let piece = pieces.pop().expect("a group has pieces");
        free.pieces.insert(piece.origin(), pieces);
        piece
    }

    /// Takes the place of a frame that is gone.
    fn put(&self, mut piece: Buffer) {
        if self.group_bytes == PAGE {
            {
                let mut free = lock(&self.free);
                if free.kept.len() < KEPT {
                    free.kept.push(piece);
                    return;
                }
            }
            piece.release();
            lock(&self.free).groups.push(piece);
            return;
        }
        let mut free = lock(&self.free);
        let origin = piece.origin();
        let pieces = free.pieces.entry(origin).or_default();
        pieces.push(piece);
        if pieces.len() == self.group_bytes / PAGE {
            let pieces = free.pieces.remove(&origin).expect("it was just there");
            let mut group = Buffer::join(pieces).expect("all pieces of a group");
            if free.kept.len() < KEPT {
                free.kept.push(group);
            } else {
                group.release();
                free.groups.push(group);
            }
        }
    }
}

impl Frame {
    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8; PAGE] {
        let piece = self.piece.as_ref().map(|piece| piece.as_slice().first_chunk());
        piece.flatten().expect("a piece is as long as a page")
    }

    /// Puts another page in.
    pub fn fill(&mut self, file: u64, page: u32, bytes: &[u8; PAGE]) {
        (self.file, self.page) = (file, page);
        let piece = self.piece.as_mut().expect("a frame has a piece until it is dropped");
        piece.as_mut_slice()[..PAGE].copy_from_slice(bytes);
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.frames.put(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_pages_whatever_a_page_of_the_system_is() {
        for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
            let frames = Arc::new(Frames::of_groups(page_bytes));
            let page = |number: u32| [number as u8 | 1; PAGE];
            let frame = |number| frames.frame(1, number, &page(number));
            let mut held: Vec<_> = (0..600).map(frame).collect();
            // Every third one goes, and its neighbours stay as they are.
            held.retain(|frame| frame.page % 3 > 0);
            held.extend((600..650).map(frame));
            assert_eq!(held.len(), 450);
            for frame in &held {
                assert!(*frame.bytes() == page(frame.page), "{page_bytes} {}", frame.page);
            }
            held.truncate(300);
            for frame in &held {
                assert!(*frame.bytes() == page(frame.page), "{page_bytes} {}", frame.page);
            }
            drop(held);
            let free = lock(&frames.free);
            let groups = free.groups.len() + free.kept.len();
            assert_eq!((free.pieces.len(), groups), (0, (3 << 20) / page_bytes));
            assert!(free.kept.len() <= KEPT);
            // All else was given back, where the system takes it, which it does by pages of its own.
            let is_taken = cfg!(target_os = "linux") && !cfg!(miri);
            let is_released = is_taken && page_bytes >= super::page_bytes();
            for group in &free.groups {
                assert!(!is_released || group.as_slice() == vec![0; group.capacity()]);
            }
        }
    }
}
