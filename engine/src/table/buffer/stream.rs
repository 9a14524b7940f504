//! A place in a write buffer, which goes both ways over the keys of all its layers.

use std::sync::Arc;

use super::layer::Layer;
use crate::table::bytes::{EntryRef, prefix as key_prefix};

/// How many entries of a layer ahead their bytes are asked for.
const AHEAD: usize = 4;

/// A place in a write buffer's state of the moment when it was made; later inserts do not move it.
#[derive(Clone)]
pub struct BufferStream {
    /// From the newest to the oldest.
    layers: Vec<Arc<Layer>>,
    /// In each layer, the first entry that is not before this place, and the start of its key.
    places: Vec<usize>,
    heads: Vec<u64>,
    /// The layer whose entry counts; none past either end.
    current: Option<usize>,
}

impl BufferStream {
    /// A place before the first entry of `layers`, the newest first.
    pub fn new(layers: Vec<Arc<Layer>>) -> Self {
        let (places, heads) = (vec![0; layers.len()], vec![0; layers.len()]);
        let mut stream = BufferStream { layers, places, heads, current: None };
        stream.seek_first();
        stream
    }

    /// The entry here; `None` past either end.
    #[inline]
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        self.current.map(|layer| self.layers[layer].entry(self.places[layer]))
    }

    fn place(&mut self, layer: usize, place: usize) {
        self.places[layer] = place;
        self.heads[layer] = self.layers[layer].prefix(place);
    }

    /// Takes the least of the entries at the places, of equal keys the newest.
    fn choose(&mut self) {
        let mut least: Option<usize> = None;
        for layer in 0..self.layers.len() {
            let is_less = match least {
                Some(least) if self.heads[layer] == self.heads[least] => self
                    .at(layer)
                    .is_some_and(|other| self.at(least).is_some_and(|key| other < key)),
                Some(least) => self.heads[layer] < self.heads[least],
                None => self.at(layer).is_some(),
            };
            if is_less {
                least = Some(layer);
            }
        }
        self.current = least;
    }

    /// The key at a layer's place.
    fn at(&self, layer: usize) -> Option<&[u8]> {
        let place = self.places[layer];
        (place < self.layers[layer].len()).then(|| self.layers[layer].entry(place).key)
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) {
        (0..self.layers.len()).for_each(|layer| self.place(layer, 0));
        self.choose();
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) {
        (0..self.layers.len()).for_each(|layer| self.place(layer, self.layers[layer].len()));
        self.step_back();
    }

    /// Moves to the first entry whose key is `key` or greater.
    pub fn seek(&mut self, key: &[u8]) {
        let prefix = key_prefix(key);
        for layer in 0..self.layers.len() {
            let place = self.layers[layer].search(prefix, key).unwrap_or_else(|place| place);
            self.place(layer, place);
        }
        self.choose();
    }

    /// Moves to the next entry.
    pub fn next(&mut self) {
        let Some(current) = self.current else { return };
        let (head, place) = (self.heads[current], self.places[current]);
        // Those that are hidden by it come first, as they are compared with it.
        for layer in current + 1..self.layers.len() {
            if self.heads[layer] == head
                && self.at(layer) == Some(self.layers[current].entry(place).key)
            {
                self.place(layer, self.places[layer] + 1);
            }
        }
        self.layers[current].prefetch(place + AHEAD);
        self.place(current, place + 1);
        self.choose();
    }

    /// Moves to the previous entry.
    pub fn previous(&mut self) {
        if self.current.is_some() {
            self.step_back();
        }
    }

    /// Takes the greatest of the entries before the places, of equal keys the newest.
    fn step_back(&mut self) {
        let mut greatest: Option<usize> = None;
        for layer in 0..self.layers.len() {
            // Nothing is before everything.
            if self.before(layer) > greatest.and_then(|greatest| self.before(greatest)) {
                greatest = Some(layer);
            }
        }
        self.current = greatest;
        let Some(current) = greatest else { return };
        for layer in current + 1..self.layers.len() {
            if self.before(layer) == self.before(current) {
                self.place(layer, self.places[layer] - 1);
            }
        }
        self.place(current, self.places[current] - 1);
    }

    /// The key before a layer's place.
    fn before(&self, layer: usize) -> Option<&[u8]> {
        let place = self.places[layer].checked_sub(1)?;
        Some(self.layers[layer].entry(place).key)
    }
}
