//! The table of repeats as a reader keeps it: memory grows with what it has, and never by copying all.

use super::SLOTS;

/// Objects in one piece of memory.
const PIECE: usize = 1 << 10;

/// For each slot the last object that was worth it.
pub(super) struct Repeats<T> {
    /// For each slot, one more than the place of what it has; 0 for nothing.
    places: Vec<u32>,
    pieces: Vec<Vec<T>>,
}

impl<T> Repeats<T> {
    pub(super) fn new() -> Repeats<T> {
        Repeats { places: Vec::new(), pieces: Vec::new() }
    }

    /// What the slot has.
    pub(super) fn get(&self, slot: usize) -> Option<&T> {
        let place = (*self.places.get(slot)? as usize).checked_sub(1)?;
        Some(&self.pieces[place / PIECE][place % PIECE])
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        let place = (*self.places.get(slot)? as usize).checked_sub(1)?;
        Some(&mut self.pieces[place / PIECE][place % PIECE])
    }

    /// How many slots have something.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// The slots that have something, ascending.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> {
        self.places.iter().enumerate().filter(|(_, place)| **place > 0).map(|(slot, _)| slot)
    }

    /// Puts `object` into the slot; returns what was there.
    pub(super) fn put(&mut self, slot: usize, object: T) -> Option<T> {
        if let Some(there) = self.get_mut(slot) {
            return Some(std::mem::replace(there, object));
        }
        if self.places.is_empty() {
            self.places = vec![0; SLOTS];
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let last = self.pieces.len() - 1;
        self.pieces[last].push(object);
        self.places[slot] = (last * PIECE + self.pieces[last].len()) as u32;
        None
    }
}
