//! The order of the commits of a file: parents before children, the smallest hash of those that could be next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::context::hash::CommitHash;

/// A commit and its parents.
pub(crate) type Listed = (CommitHash, Vec<CommitHash>);

/// The places of `commits`, each once, in the order of a file; none when the last one does not descend from
/// all others, or when they descend from each other in a circle.
pub(crate) fn order(commits: &[Listed]) -> Option<Vec<usize>> {
    let places: HashMap<&CommitHash, usize> =
        commits.iter().enumerate().map(|(place, (hash, _))| (hash, place)).collect();
    if places.len() != commits.len() {
        return None;
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); commits.len()];
    let mut waits_for = vec![0_usize; commits.len()];
    for (place, (_, parents)) in commits.iter().enumerate() {
        for parent in parents {
            // A commit may name a parent twice; a hostile one names a million, of which those that are in the
            // file are few.
            if let Some(above) = places.get(parent)
                && children[*above].last() != Some(&place)
            {
                children[*above].push(place);
                waits_for[place] += 1;
            }
        }
    }
    if children.iter().filter(|children| children.is_empty()).count() != 1 {
        return None;
    }
    let mut ready: BinaryHeap<Reverse<(&CommitHash, usize)>> = (0..commits.len())
        .filter(|place| waits_for[*place] == 0)
        .map(|place| Reverse((&commits[place].0, place)))
        .collect();
    let mut order = Vec::with_capacity(commits.len());
    while let Some(Reverse((_, place))) = ready.pop() {
        order.push(place);
        for child in &children[place] {
            waits_for[*child] -= 1;
            if waits_for[*child] == 0 {
                ready.push(Reverse((&commits[*child].0, *child)));
            }
        }
    }
    (order.len() == commits.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_ties_go_by_hash() {
        let commit = |hash: u8, parents: &[u8]| {
            (
                CommitHash::new([hash; 32]),
                parents.iter().map(|parent| CommitHash::new([*parent; 32])).collect::<Vec<_>>(),
            )
        };
        // 9 above 5 and 2, both above 7; 1 is in no file.
        let listed = [commit(9, &[2, 5]), commit(5, &[7, 7]), commit(7, &[1]), commit(2, &[7])];
        assert_eq!(order(&listed), Some(vec![2, 3, 1, 0]));
        assert_eq!(order(&[commit(1, &[]), commit(2, &[])]), None, "two ends");
        assert_eq!(order(&[commit(1, &[]), commit(1, &[])]), None, "twice");
        assert_eq!(order(&[commit(1, &[2]), commit(2, &[1]), commit(3, &[1])]), None, "a circle");
        assert_eq!(order(&[]), None);
    }
}
