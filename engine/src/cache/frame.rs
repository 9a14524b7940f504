//! Memory for pages: pieces of mappings that belong to one cache alone.
//!
//! A frame that is dropped gives its memory back to the system at once, whatever thread made it, and
//! its place is for the next frame. From a general allocator each thread would have frames of its
//! own, and the holes of those that went would be of no use for anything else.

use std::sync::Arc;

use super::PAGE;
use crate::disk::Buffer;
use crate::sync::{Mutex, lock};

/// Bytes of a mapping. Memory is taken only as its frames are written.
const MAPPING_BYTES: usize = 1 << 20;

/// Places for frames.
#[derive(Default)]
pub struct Frames {
    free: Mutex<Vec<Buffer>>,
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

    fn take(&self) -> Buffer {
        let mut free = lock(&self.free);
        if free.is_empty() {
            free.extend(Buffer::new(MAPPING_BYTES).split(PAGE).into_iter().rev());
        }
        free.pop().expect("a mapping has pieces")
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
        if let Some(mut piece) = self.piece.take() {
            piece.release();
            lock(&self.frames.free).push(piece);
        }
    }
}
