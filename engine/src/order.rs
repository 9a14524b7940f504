//! Sorting, and maps made of what comes in any order, where it is done seldom.
//!
//! The library's sorts are made anew for each type, at 5 kB of WebAssembly each, and so are maps that are collected, which
//! sort first. In a module for browsers this is a heap sort and a loop instead, and maps and sets of what is few are sorted lists.
//! Where many are sorted often, sort there, and take a map of keys from the library.

#[cfg(any(test, target_family = "wasm"))]
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod vector;

use std::cmp::Ordering;
#[cfg(not(target_family = "wasm"))]
pub(crate) use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[cfg(target_family = "wasm")]
pub(crate) use vector::{Map as BTreeMap, Set as BTreeSet};

/// Sorts; equal items come in any order.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl FnMut(&T, &T) -> Ordering) {
    items.sort_unstable_by(compare);
}

/// Sorts; equal items come in any order.
#[cfg(target_family = "wasm")]
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl FnMut(&T, &T) -> Ordering) {
    heap_sort(items, compare);
}

/// Sorts what is few; equal items stay in their order.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn sort_few_by<T>(items: &mut [T], compare: impl FnMut(&T, &T) -> Ordering) {
    items.sort_by(compare);
}

/// Sorts what is few; equal items stay in their order.
#[cfg(target_family = "wasm")]
pub(crate) fn sort_few_by<T>(items: &mut [T], compare: impl FnMut(&T, &T) -> Ordering) {
    insertion_sort(items, compare);
}

/// Each item goes down to where it belongs among those before it.
#[cfg(any(test, target_family = "wasm"))]
fn insertion_sort<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    for next in 1..items.len() {
        let mut at = next;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// As [`sort_by`], in little code. Source: Williams 1964, with the heap made from below as Floyd does.
#[cfg(any(test, target_family = "wasm"))]
fn heap_sort<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let count = items.len();
    // The first half of the steps makes a heap whose greatest is in front, the others take that one out.
    for step in (0..count + count / 2).rev() {
        let (mut at, end) = if step >= count {
            (step - count, count)
        } else {
            items.swap(0, step);
            (0, step)
        };
        loop {
            let mut child = 2 * at + 1;
            if child >= end {
                break;
            }
            if child + 1 < end && compare(&items[child], &items[child + 1]).is_lt() {
                child += 1;
            }
            if compare(&items[at], &items[child]).is_ge() {
                break;
            }
            items.swap(at, child);
            at = child;
        }
    }
}

/// Leaves the least items, at most `count`, in any order.
pub(crate) fn keep_least<T: Ord>(items: &mut Vec<T>, count: usize) {
    if items.len() > count {
        #[cfg(not(target_family = "wasm"))]
        items.select_nth_unstable(count);
        #[cfg(target_family = "wasm")]
        heap_sort(items, Ord::cmp);
        items.truncate(count);
    }
}

/// Puts `fresh` into the place of what is at `places`, which it gives back: one copy for each type, where the library's has
/// one for each iterator.
pub(crate) fn splice<T>(items: &mut Vec<T>, places: Range<usize>, fresh: Vec<T>) -> Vec<T> {
    let rest = items.split_off(places.end);
    let old = items.split_off(places.start);
    items.extend(fresh);
    items.extend(rest);
    old
}

/// A map; of several values of a key the last.
pub(crate) fn map<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in items {
        map.insert(key, value);
    }
    map
}

/// A set.
pub(crate) fn set<K: Ord>(items: impl IntoIterator<Item = K>) -> BTreeSet<K> {
    let mut set = BTreeSet::new();
    for item in items {
        set.insert(item);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_sort_sorts() {
        for count in (0..40).chain([1000]) {
            for kinds in [1, 2, 7, 1 << 20] {
                let number = |it: u64| crate::format::hash::combine(it, kinds) % kinds;
                let mut items: Vec<_> = (0..count).map(number).collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                heap_sort(&mut items, u64::cmp);
                assert_eq!(items, expected, "{count} of {kinds}");
                heap_sort(&mut items, |one, other| other.cmp(one));
                expected.reverse();
                assert_eq!(items, expected, "{count} of {kinds}, backwards");
            }
        }
    }

    #[test]
    fn an_insertion_sort_sorts_and_keeps_the_order_of_equals() {
        for count in [0, 1, 2, 3, 17, 100] {
            for kinds in [1, 2, 7, 1 << 20] {
                let number = |it: u64| (crate::format::hash::combine(it, kinds) % kinds, it);
                let mut items: Vec<_> = (0..count).map(number).collect();
                let mut expected = items.clone();
                expected.sort_by_key(|it| it.0);
                insertion_sort(&mut items, |one, other| one.0.cmp(&other.0));
                assert_eq!(items, expected, "{count} of {kinds}");
            }
        }
    }

    #[test]
    fn what_is_spliced_in_stands_where_the_old_items_stood() {
        for (places, fresh) in
            [(0..0, vec![7]), (1..3, vec![7, 8, 9]), (0..4, vec![]), (4..4, vec![7])]
        {
            let (mut items, mut expected) = (vec![0, 1, 2, 3], vec![0, 1, 2, 3]);
            let old: Vec<_> = expected.splice(places.clone(), fresh.clone()).collect();
            assert_eq!(splice(&mut items, places, fresh), old);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn the_least_items_stay() {
        for (count, kept) in [(0, 3), (3, 3), (4, 3), (100, 7), (100, 0)] {
            let mut items: Vec<u64> =
                (0..count).map(|it| crate::format::hash::combine(it, 5)).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            expected.truncate(kept);
            keep_least(&mut items, kept);
            items.sort_unstable();
            assert_eq!(items, expected, "{kept} of {count}");
        }
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        assert_eq!(
            map([(2, "a"), (1, "b"), (2, "c")]).into_iter().collect::<Vec<_>>(),
            [(1, "b"), (2, "c")]
        );
        assert_eq!(set([2, 1, 2]).into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
