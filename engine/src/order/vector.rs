//! A map and a set as a sorted list, with as much of the library's interface as the engine asks for.
//!
//! The library's trees are made anew for each type, at up to 8 kB of WebAssembly each, and the engine has thirty. Searching
//! a list is as fast; what comes into its middle moves what is behind, so it is for what stays small: files, tables,
//! branches, not keys.

use std::borrow::Borrow;
use std::iter::FusedIterator;
use std::ops::{Bound, Index, RangeBounds};
use std::{slice, vec};

/// As `std::collections::BTreeMap`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Map<K, V>(Vec<(K, V)>);

/// As `std::collections::BTreeSet`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set<T>(Map<T, ()>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Map::new()
    }
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Set::new()
    }
}

impl<K, V> Map<K, V> {
    pub const fn new() -> Self {
        Map(Vec::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(self.0.iter())
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> {
        self.0.into_iter().map(|(key, _)| key)
    }

    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.0.into_iter().map(|(_, value)| value)
    }

    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    pub fn pop_first(&mut self) -> Option<(K, V)> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    pub fn pop_last(&mut self) -> Option<(K, V)> {
        self.0.pop()
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> Map<K, V> {
    /// Where the key is, or comes.
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|at| &self.0[at].1)
    }

    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|at| &mut self.0[at].1)
    }

    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|at| (&self.0[at].0, &self.0[at].1))
    }

    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    pub fn remove_entry<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|at| self.0.remove(at))
    }

    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let place = self.place(&key);
        Entry { map: self, key, place }
    }

    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(&self, range: R) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let from = match range.start_bound() {
            Bound::Included(key) => self.place(key).unwrap_or_else(|at| at),
            Bound::Excluded(key) => self.place(key).map_or_else(|at| at, |at| at + 1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(key) => self.place(key).map_or_else(|at| at, |at| at + 1),
            Bound::Excluded(key) => self.place(key).unwrap_or_else(|at| at),
            Bound::Unbounded => self.len(),
        };
        Iter(self.0[from..to].iter())
    }
}

/// The place of a key, which it may or may not have.
pub struct Entry<'a, K, V> {
    map: &'a mut Map<K, V>,
    key: K,
    place: Result<usize, usize>,
}

impl<'a, K, V> Entry<'a, K, V> {
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    pub fn or_insert_with(self, value: impl FnOnce() -> V) -> &'a mut V {
        let (Ok(at) | Err(at)) = self.place;
        if self.place.is_err() {
            self.map.0.insert(at, (self.key, value()));
        }
        &mut self.map.0[at].1
    }

    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    #[must_use]
    pub fn and_modify(self, change: impl FnOnce(&mut V)) -> Self {
        if let Ok(at) = self.place {
            change(&mut self.map.0[at].1);
        }
        self
    }
}

/// The entries in the order of the keys.
pub struct Iter<'a, K, V>(slice::Iter<'a, (K, V)>);

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (key, value))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}
impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut map = Map::new();
        map.extend(items);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(items: [(K, V); N]) -> Self {
        items.into_iter().collect()
    }
}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for Map<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("a key that is there")
    }
}

impl<T> Set<T> {
    pub const fn new() -> Self {
        Set(Map::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> Items<'_, T> {
        Items(self.0.iter())
    }

    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    pub fn pop_first(&mut self) -> Option<T> {
        self.0.pop_first().map(|(item, ())| item)
    }

    pub fn pop_last(&mut self) -> Option<T> {
        self.0.pop_last().map(|(item, ())| item)
    }
}

impl<T: Ord> Set<T> {
    pub fn insert(&mut self, item: T) -> bool {
        self.0.insert(item, ()).is_none()
    }

    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(item)
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(item).is_some()
    }
}

/// The items in their order.
pub struct Items<'a, T>(Iter<'a, T, ()>);

impl<'a, T> Iterator for Items<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.0.next().map(|(item, ())| item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> DoubleEndedIterator for Items<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(item, ())| item)
    }
}

impl<T> ExactSizeIterator for Items<'_, T> {}

impl<'a, T> IntoIterator for &'a Set<T> {
    type Item = &'a T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = std::iter::Map<vec::IntoIter<(T, ())>, fn((T, ())) -> T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(item, ())| item)
    }
}

impl<T: Ord> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.insert(item);
        }
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut set = Set::new();
        set.extend(items);
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn number(seed: u64) -> u64 {
        crate::format::hash::combine(seed, 7)
    }

    #[test]
    fn a_sorted_list_answers_as_the_map_of_the_library_does() {
        let (mut ours, mut model) = (Map::new(), BTreeMap::new());
        for step in 0..2000 {
            let (key, value) = (number(step) % 50, step);
            match number(step + 10_000) % 9 {
                0 | 1 => assert_eq!(ours.insert(key, value), model.insert(key, value)),
                2 => assert_eq!(ours.remove(&key), model.remove(&key)),
                3 => {
                    assert_eq!(ours.entry(key).or_insert(value), model.entry(key).or_insert(value));
                }
                4 => {
                    let (one, other) = (ours.get_mut(&key), model.get_mut(&key));
                    assert_eq!(one, other);
                    one.into_iter().chain(other).for_each(|it| *it += 1);
                }
                5 => {
                    let one = *ours.entry(key).and_modify(|it| *it += 2).or_default();
                    assert_eq!(one, *model.entry(key).and_modify(|it| *it += 2).or_default());
                }
                6 => assert_eq!(ours.pop_first(), model.pop_first()),
                7 => assert_eq!(ours.pop_last(), model.pop_last()),
                _ => {
                    ours.retain(|key, value| !(*key + *value).is_multiple_of(5));
                    model.retain(|key, value| !(*key + *value).is_multiple_of(5));
                }
            }
            assert!(ours.iter().eq(&model) && ours.iter().rev().eq(model.iter().rev()), "{step}");
            assert_eq!((ours.len(), ours.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(ours.get(&key), model.get(&key));
            assert_eq!(ours.get_key_value(&key), model.get_key_value(&key));
            assert_eq!(ours.contains_key(&key), model.contains_key(&key));
            assert_eq!(ours.first_key_value(), model.first_key_value());
            assert_eq!(ours.last_key_value(), model.last_key_value());
            let to = key + 7;
            assert!(ours.range(key..to).eq(model.range(key..to)), "{step}");
            assert!(ours.range(..=key).eq(model.range(..=key)), "{step}");
            let above = (Bound::Excluded(key), Bound::Unbounded);
            assert!(ours.range(above).eq(model.range(above)), "{step}");
        }
        ours.values_mut().for_each(|it| *it += 3);
        ours.iter_mut().for_each(|(key, it)| *it += key);
        for (key, it) in &mut model {
            *it += key + 3;
        }
        assert!(ours.keys().eq(model.keys()) && ours.values().eq(model.values()));
        assert!(ours.clone().into_keys().eq(model.clone().into_keys()));
        assert!(ours.clone().into_values().eq(model.clone().into_values()));
        let mut cleared = ours.clone();
        cleared.clear();
        assert!(cleared.is_empty() && cleared.iter().next().is_none());
        assert!(ours.into_iter().eq(model));
    }

    #[test]
    fn a_sorted_list_answers_as_the_set_of_the_library_does() {
        let (mut ours, mut model) = (Set::new(), BTreeSet::new());
        for step in 0..500 {
            let item = number(step) % 40;
            if number(step + 10_000).is_multiple_of(3) {
                assert_eq!(ours.remove(&item), model.remove(&item));
            } else {
                assert_eq!(ours.insert(item), model.insert(item));
            }
            assert!(ours.iter().eq(&model), "{step}");
            assert_eq!((ours.first(), ours.last()), (model.first(), model.last()));
            assert_eq!(ours.contains(&(item + 1)), model.contains(&(item + 1)));
            if step % 20 == 0 {
                assert_eq!(ours.pop_first(), model.pop_first());
                assert_eq!(ours.pop_last(), model.pop_last());
            }
        }
        let again: Set<u64> = model.iter().copied().collect();
        assert_eq!(again, ours);
        assert!(ours.into_iter().eq(model));
    }
}
