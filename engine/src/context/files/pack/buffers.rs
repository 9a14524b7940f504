//! Memory of buffers that are used for a moment: of a large one that is allocated and freed each time, an allocator puts
//! all that is free in order.

use crate::sync::{Mutex, lock};

/// How many wait for their next use, and how long they are at most.
const BUFFERS: usize = 4;
const LONGEST: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty one.
    pub(super) fn take(&self) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_default()
    }

    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = lock(&self.0);
        if buffers.len() < BUFFERS && (1..=LONGEST).contains(&buffer.capacity()) {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_buffers_of_moderate_length_are_kept() {
        let buffers = Buffers::default();
        for _ in 0..2 * BUFFERS {
            buffers.give(vec![7; 100]);
            buffers.give(vec![7; LONGEST + 1]);
            buffers.give(Vec::new());
        }
        let all: Vec<_> = (0..2 * BUFFERS).map(|_| buffers.take()).collect();
        assert!(all.iter().all(Vec::is_empty));
        let capacities: Vec<_> = all.iter().map(Vec::capacity).collect();
        assert_eq!(capacities, [[100; BUFFERS], [0; BUFFERS]].concat());
    }
}
