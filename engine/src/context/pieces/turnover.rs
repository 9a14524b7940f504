//! Names that come and go below a branch whose shape is put right late.

use std::collections::BTreeMap;

/// Which names came and went since a branch was loaded or settled.
#[derive(Clone, Debug)]
pub(crate) struct Turnover {
    /// Entries at the beginning.
    start: u64,
    /// Whether each name came; a name that did both is as before.
    names: BTreeMap<Vec<u8>, bool>,
}

impl Turnover {
    pub(crate) fn new(start: u64) -> Turnover {
        Turnover { start, names: BTreeMap::new() }
    }

    /// Takes note that `name` came, or went.
    pub(crate) fn note(&mut self, name: &[u8], came: bool) {
        if self.names.get(name).is_some_and(|earlier| *earlier != came) {
            self.names.remove(name);
        } else {
            self.names.insert(name.to_vec(), came);
        }
    }

    /// The fewest entries at the departure of a name, when all come and go by name.
    pub(crate) fn fewest(&self) -> Option<u64> {
        let mut count = self.start;
        let mut fewest = None;
        for came in self.names.values() {
            if *came {
                count += 1;
            } else {
                count = count.saturating_sub(1);
                fewest = fewest.filter(|fewest| *fewest < count).or(Some(count));
            }
        }
        fewest
    }
}

#[cfg(test)]
mod tests {
    use super::Turnover;

    #[test]
    fn names_come_and_go_in_their_order() {
        let mut turnover = Turnover::new(3);
        turnover.note(b"a", true);
        assert_eq!(turnover.fewest(), None);
        turnover.note(b"b", false);
        turnover.note(b"c", true);
        assert_eq!(turnover.fewest(), Some(3));
        turnover.note(b"a", false);
        assert_eq!(turnover.fewest(), Some(2), "a is as before, b goes first");
        turnover.note(b"b", true);
        assert_eq!(turnover.fewest(), None);
    }
}
