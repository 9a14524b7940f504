//! The hashes of a node's children, as far as they are known.
//!
//! A node that was taken out of a store to be changed shares the vector that the store's cache has, and has only
//! those by itself that became others: it is written with the vector that was there before, in which a few hashes are
//! replaced, and neither taking a piece nor writing it copies one. Where children came, writing it makes one that is wider.

use std::sync::Arc;

use super::UNKNOWN;
use crate::context::hash::Hash;
use crate::error::Result;
use crate::sync::{Mutex, lock};

/// The hashes of all children of a node, as a cache keeps them.
#[derive(Clone, Debug)]
pub(crate) struct HashVector {
    hashes: Arc<[Hash]>,
    /// None of them is unknown.
    is_whole: bool,
}

impl HashVector {
    pub(crate) fn new(hashes: &[Hash]) -> HashVector {
        HashVector { hashes: hashes.into(), is_whole: !hashes.contains(&UNKNOWN) }
    }

    pub(crate) fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// What is known of the children's hashes.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// One for each child; none at all when nothing is known.
    Own(Vec<Hash>),
    /// Those of a vector that has all, but for these places, in order.
    Shared(Arc<[Hash]>, Vec<Fresh>),
}

/// A child whose hash is another than that of the vector, or is not there.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    /// Where the child is now.
    index: u32,
    /// The vector has none in this place.
    added: bool,
    hash: Hash,
}

/// So many children at most are searched for one by one.
const FRESH_MAX: usize = 64;

impl Default for Known {
    fn default() -> Self {
        Known::Own(Vec::new())
    }
}

impl From<HashVector> for Known {
    fn from(vector: HashVector) -> Known {
        if vector.is_whole && !vector.hashes.is_empty() {
            return Known::Shared(vector.hashes, Vec::new());
        }
        Known::Own(vector.hashes.to_vec())
    }
}

impl Known {
    pub(crate) fn len(&self) -> usize {
        match self {
            Known::Own(own) => own.len(),
            Known::Shared(all, fresh) => all.len() + added(fresh),
        }
    }

    /// One for each of the children, in order.
    pub(crate) fn to_vec(&self) -> Vec<Hash> {
        let mut hashes = Vec::with_capacity(self.len() + 2);
        self.each(|_, hash| hashes.push(*hash));
        hashes
    }

    /// Calls `each` with every child and its hash, in order.
    #[inline]
    pub(crate) fn each(&self, mut each: impl FnMut(usize, &Hash)) {
        let (all, fresh) = match self {
            Known::Own(own) => (&own[..], &[][..]),
            Known::Shared(all, fresh) => (&all[..], &fresh[..]),
        };
        let (mut next, mut rest) = (0, all);
        // Run by run: a wide directory has hundreds of them, and few that changed.
        for Fresh { index, added, hash } in fresh {
            let place = *index as usize;
            let (run, behind) = rest.split_at(place - next);
            run.iter().zip(next..).for_each(|(hash, index)| each(index, hash));
            each(place, hash);
            (next, rest) = (place + 1, &behind[usize::from(!added)..]);
        }
        rest.iter().zip(next..).for_each(|(hash, index)| each(index, hash));
    }

    /// The hash of one child, if it is known.
    pub(crate) fn get(&self, index: usize) -> Option<Hash> {
        let hash = match self {
            Known::Own(own) => own.get(index).copied(),
            Known::Shared(all, fresh) => match place_of(fresh, index) {
                Ok(place) => Some(fresh[place].hash),
                Err(place) => all.get(index - added(&fresh[..place])).copied(),
            },
        };
        hash.filter(|hash| *hash != UNKNOWN)
    }

    /// Calls `each` with every child below `count` of which no hash is known.
    pub(crate) fn each_unknown(&self, count: usize, mut each: impl FnMut(usize)) {
        match self {
            Known::Own(own) => {
                let is_unknown = |index: &usize| own.get(*index).is_none_or(|it| *it == UNKNOWN);
                (0..count).filter(is_unknown).for_each(each);
            }
            Known::Shared(_, fresh) => {
                let unknown = fresh.iter().filter(|it| it.hash == UNKNOWN);
                unknown.for_each(|it| each(it.index as usize));
            }
        }
    }

    /// Calls `each` with every child of which no hash is known, where its hash goes, and the number of that place.
    pub(crate) fn fill(
        &mut self,
        mut each: impl FnMut(usize, &mut Hash, usize) -> Result<()>,
    ) -> Result<()> {
        match self {
            Known::Own(own) => {
                for (index, hash) in own.iter_mut().enumerate() {
                    if *hash == UNKNOWN {
                        each(index, hash, index)?;
                    }
                }
            }
            Known::Shared(_, fresh) => {
                for (place, Fresh { index, hash, .. }) in fresh.iter_mut().enumerate() {
                    if *hash == UNKNOWN {
                        each(*index as usize, hash, place)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts a hash into a place that [`Known::fill`] named.
    pub(crate) fn put_at(&mut self, place: usize, hash: Hash) {
        match self {
            Known::Own(own) => own[place] = hash,
            Known::Shared(_, fresh) => fresh[place].hash = hash,
        }
    }

    /// The hash of child `index` is `hash`.
    pub(crate) fn set(&mut self, index: usize, hash: Hash) {
        match self {
            Known::Own(own) => {
                if let Some(known) = own.get_mut(index) {
                    *known = hash;
                }
            }
            Known::Shared(all, fresh) => match place_of(fresh, index) {
                Ok(place) => fresh[place].hash = hash,
                Err(place) if index < all.len() + added(fresh) => {
                    fresh.insert(place, Fresh { index: index as u32, added: false, hash });
                }
                Err(_) => {}
            },
        }
    }

    /// Child `index` is new, and those from there on moved up.
    fn insert(&mut self, index: usize) {
        match self {
            Known::Shared(_, fresh) if fresh.len() < FRESH_MAX => {
                let (Ok(place) | Err(place)) = place_of(fresh, index);
                fresh[place..].iter_mut().for_each(|it| it.index += 1);
                fresh.insert(place, Fresh { index: index as u32, added: true, hash: UNKNOWN });
            }
            _ => self.own().insert(index, UNKNOWN),
        }
    }

    /// All of them, to be kept: in the vector that was shared, if nobody else has it any more.
    pub(crate) fn into_vector(self) -> HashVector {
        let (mut all, fresh) = match self {
            Known::Own(own) => return HashVector::new(&own),
            Known::Shared(all, fresh) => (all, fresh),
        };
        let is_whole = fresh.iter().all(|it| it.hash != UNKNOWN);
        let count = all.len() + added(&fresh);
        if count > all.len() {
            let mut wider: Arc<[Hash]> = std::iter::repeat_n(UNKNOWN, count).collect();
            let own = Arc::get_mut(&mut wider).expect("it was just made");
            Known::Shared(all, fresh).each(|index, hash| own[index] = *hash);
            return HashVector { hashes: wider, is_whole };
        }
        if !fresh.is_empty() {
            let own = Arc::make_mut(&mut all);
            for it in fresh {
                own[it.index as usize] = it.hash;
            }
        }
        HashVector { hashes: all, is_whole }
    }

    /// All of them in memory of their own, because children go, or many come.
    fn own(&mut self) -> &mut Vec<Hash> {
        if let Known::Shared(..) = self {
            *self = Known::Own(self.to_vec());
        }
        match self {
            Known::Own(own) => own,
            Known::Shared(..) => unreachable!("it was just copied"),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Known::Own(own) => own.capacity() * size_of::<Hash>(),
            Known::Shared(all, fresh) => {
                size_of_val(&**all) + fresh.capacity() * size_of::<Fresh>()
            }
        }
    }
}

fn place_of(fresh: &[Fresh], index: usize) -> std::result::Result<usize, usize> {
    fresh.binary_search_by_key(&(index as u32), |it| it.index)
}

fn added(fresh: &[Fresh]) -> usize {
    fresh.iter().filter(|it| it.added).count()
}

/// What a node knows of the hashes of its children.
#[derive(Debug, Default)]
pub(crate) struct Hashes(Mutex<Known>);

impl Clone for Hashes {
    fn clone(&self) -> Self {
        Hashes(Mutex::new(lock(&self.0).clone()))
    }
}

impl Hashes {
    /// Takes them out, to be completed and put back; one place per child.
    pub(crate) fn take(&self, count: usize) -> Known {
        let mut known = std::mem::take(&mut *lock(&self.0));
        if known.len() != count {
            known.own().resize(count, UNKNOWN);
        }
        known
    }

    /// Puts back what is known; one place per child.
    pub(crate) fn put(&self, known: Known) {
        *lock(&self.0) = known;
    }

    /// The hash of one child, if it is known.
    pub(crate) fn get(&self, index: usize) -> Option<Hash> {
        lock(&self.0).get(index)
    }

    /// Runs `each` on what is known; there are fewer than children when nothing is.
    pub(crate) fn with<T>(&self, each: impl FnOnce(&Known) -> T) -> T {
        each(&lock(&self.0))
    }

    pub(crate) fn bytes(&self) -> usize {
        lock(&self.0).bytes()
    }

    /// What is known, of a node that is nobody else's.
    pub(super) fn known(&mut self) -> &mut Known {
        #[cfg(not(shuttle))]
        return self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(shuttle)]
        return self.0.get_mut().expect("no thread panics with it");
    }

    pub(super) fn forget(&mut self, index: usize) {
        self.known().set(index, UNKNOWN);
    }

    pub(super) fn insert(&mut self, index: usize) {
        let known = self.known();
        if index <= known.len() && known.len() > 0 {
            known.insert(index);
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        let known = self.known();
        if index < known.len() {
            known.own().remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u8) -> Vec<Hash> {
        (0..count).map(|number| [number + 1; 32]).collect()
    }

    /// What was shared and what was copied say the same, whatever is done to both.
    #[test]
    fn a_shared_vector_is_changed_as_one_of_its_own() {
        let mut state = 3_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as usize % below
        };
        for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let vector = HashVector::new(&hashes(1 + draw(40) as u8));
            let mut shared = Hashes::default();
            shared.put(Known::from(vector.clone()));
            let mut own = Hashes::default();
            own.put(Known::Own(vector.hashes().to_vec()));
            assert!(matches!(*shared.known(), Known::Shared(..)));
            let mut count = vector.hashes().len();
            // In some rounds more come than are searched for one by one.
            let comes = if draw(8) == 0 { 6 } else { 0 };
            for step in 0..draw(if comes > 0 { 150 } else { 12 }) {
                let index = draw(count);
                match draw(8) {
                    which if which <= comes && which != 1 && which != 2 => {
                        shared.insert(index);
                        own.insert(index);
                        count += 1;
                    }
                    1 if count > 1 => {
                        shared.remove(index);
                        own.remove(index);
                        count -= 1;
                    }
                    2 => {
                        for hashes in [&shared, &own] {
                            let mut known = hashes.take(count);
                            let fill = |index: usize, hash: &mut Hash, _place: usize| {
                                *hash = [index as u8 ^ step as u8 | 128; 32];
                                Ok(())
                            };
                            known.fill(fill).unwrap();
                            hashes.put(known);
                        }
                    }
                    _ => {
                        shared.forget(index);
                        own.forget(index);
                    }
                }
                let all = |hashes: &Hashes| hashes.with(Known::to_vec);
                assert_eq!(all(&shared), all(&own), "round {round}");
                let unknown = |hashes: &Hashes| {
                    let mut unknown = Vec::new();
                    hashes.with(|it| it.each_unknown(count, |index| unknown.push(index)));
                    unknown
                };
                assert_eq!(unknown(&shared), unknown(&own), "round {round}");
                assert!((0..=count).all(|index| shared.get(index) == own.get(index)));
            }
            let (shared, own) = (shared.take(count).into_vector(), own.take(count).into_vector());
            assert_eq!(shared.hashes(), own.hashes(), "round {round}");
            assert_eq!(shared.is_whole(), own.is_whole(), "round {round}");
            assert_eq!(vector.hashes(), hashes(vector.hashes().len() as u8), "it stays as it was");
        }
    }

    /// A record that is made up may be of a directory without entries.
    #[test]
    fn a_vector_of_nothing_takes_no_hash() {
        let mut hashes = Hashes::default();
        hashes.put(Known::from(HashVector::new(&[])));
        hashes.insert(0);
        hashes.forget(0);
        assert_eq!(hashes.take(1).to_vec(), [UNKNOWN]);
        let mut shared = Known::from(HashVector::new(&self::hashes(2)));
        shared.set(2, UNKNOWN);
        assert_eq!(shared.to_vec(), self::hashes(2));
    }

    #[test]
    fn a_vector_that_nobody_else_has_is_not_copied_and_one_with_a_gap_is() {
        let vector = HashVector::new(&hashes(32));
        let address = vector.hashes().as_ptr();
        let mut known = Known::from(vector);
        known.set(7, [99; 32]);
        let vector = known.into_vector();
        assert_eq!((vector.hashes().as_ptr(), vector.hashes()[7]), (address, [99; 32]));
        let mut known = Known::from(vector.clone());
        known.set(7, UNKNOWN);
        let other = known.into_vector();
        assert!(other.hashes().as_ptr() != address && !other.is_whole() && vector.is_whole());
        assert!(matches!(Known::from(other), Known::Own(_)));
    }
}
