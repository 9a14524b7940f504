//! Puts the chunks that were found one behind the other, and something between them where chunks are not there.

use super::{Piece, Wreck};
use crate::context::files::control::{Row, State};
use crate::context::files::paths;
use crate::context::store::repair::gathered::Gathered;

impl Wreck {
    /// Finds where chunks begin that do not say it, and names those that are not there between others.
    pub(super) fn settle(&mut self, pieces: Vec<Piece>, gathered: &mut Gathered) {
        let nexts: Vec<Option<(u64, u64)>> = pieces
            .iter()
            .skip(1)
            .map(|next| Some((next.row.number, next.row.base)))
            .chain([None])
            .collect();
        // The sparse file that reaches farthest: it may have records of chunks behind its own.
        let mut covering: Option<Row> = None;
        for (mut piece, next) in pieces.into_iter().zip(nexts) {
            let Row { number, length, .. } = piece.row;
            let before = self.pieces.last().map(|before| before.row);
            let end = before.map_or(0, |before| before.base + before.length);
            if piece.row.base == u64::MAX {
                let next = next.filter(|next| next.0 == number + 1 && next.1 != u64::MAX);
                let follows = before.is_some_and(|it| it.number + it.count == number);
                match next.and_then(|next| next.1.checked_sub(length)) {
                    Some(base) => piece.row.base = base,
                    None if follows => piece.row.base = end,
                    None => {
                        let path = paths::chunk(self.epoch, number);
                        self.tell(format!(
                            "{path} does not say where it begins, so nothing of it is found"
                        ));
                        continue;
                    }
                }
            }
            if let Some(before) = self.pieces.last_mut().filter(|_| piece.row.base < end) {
                // A file with the records of several has taken the place of this one, or nothing stayed of it: one that is
                // there all the same has more.
                let is_more = piece.row.state == State::Whole && piece.missing.is_none();
                if before.row.state != State::Whole
                    && !(is_more && piece.row.base > before.row.base)
                {
                    let count = number + piece.row.count - before.row.number;
                    before.row.count = before.row.count.max(count);
                    continue;
                }
                if piece.row.base <= before.row.base {
                    continue;
                }
                // What is behind the end of a chunk is none of it.
                before.row.length = piece.row.base - before.row.base;
                before.row.count =
                    before.row.count.min(number.saturating_sub(before.row.number)).max(1);
            }
            let covers = |base: u64| covering.filter(|row| row.base + row.length > base);
            let first = before.map_or(0, |before| before.number + before.count);
            if first < number && piece.row.base > end {
                let is_sparse = before.is_some_and(|before| before.state != State::Whole);
                let is_gone = is_sparse || covers(piece.row.base - 1).is_some();
                self.settle_gap((first, end), (number, piece.row.base), is_gone, gathered);
                if let Some(gap) = self.pieces.last_mut() {
                    gap.above = covers(end);
                }
            }
            // What was made of several is newer than what was made of one of them.
            if piece.row.state == State::Whole {
                piece.above = covers(piece.row.base).or(piece.above);
            }
            let end = |row: &Row| row.base + row.length;
            covering = piece.above.into_iter().chain(covering).max_by_key(end);
            if let Some(why) = &piece.missing {
                self.missing.insert(why.clone());
                gathered.missing.insert(paths::chunk(self.epoch, number), why.clone());
            }
            self.pieces.push(piece);
        }
    }

    /// Puts something for the chunks between two places, each a number and a logical offset, of which there is no file.
    fn settle_gap(
        &mut self,
        (number, base): (u64, u64),
        (after, end): (u64, u64),
        is_collected: bool,
        gathered: &mut Gathered,
    ) {
        // A collection takes chunks from the front, and leaves none whole before one that it took. One that is younger than
        // the control file is none that it took.
        let (count, length) = (after - number, end - base);
        let is_younger = self.control.as_ref().map(|control| number > control.last().number);
        let is_gone = is_collected || is_younger == Some(false);
        let (mut state, mut missing) = (State::Gone, None);
        if !is_gone {
            let path = paths::chunk(self.epoch, number);
            let more = match count {
                1 => String::new(),
                _ => format!(", nor are the {} chunks behind it", count - 1),
            };
            let may_be_gone = if is_younger.is_none() { ", lost or collected" } else { "" };
            let why = format!("{path} is not there{more}{may_be_gone}");
            self.missing.insert(why.clone());
            gathered.missing.insert(path, why.clone());
            (state, missing) = (State::Whole, Some(why));
        }
        let row = Row { number, count, base, length, chain: 0, state };
        self.pieces.push(Piece { row, opening: None, missing, above: None });
    }
}
