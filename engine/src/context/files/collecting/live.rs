//! What recent commits need of chunks that go to the lower folder, while some of these move.

use super::marks::Marks;
use crate::context::files::pack::Pack;
use crate::error::Result;

/// Old records that are reached from a commit on, and from some that are older.
#[derive(Debug)]
pub(crate) struct Live {
    epoch: u64,
    pub(crate) edge: u64,
    /// The chunk of that commit.
    pub(crate) line: u64,
    kept: Vec<u64>,
    /// Where the oldest chunk begins of which it is known.
    base: u64,
    pub(crate) marks: Marks,
}

impl Live {
    /// Of the commits from `edge` on, and `kept`, in chunks from that on which begins at `base`. What an earlier call has
    /// found does as well, if it was of no newer commit: what came since refers to nothing else that is old, but what was
    /// told to its marks, and where somebody commits a tree of before.
    pub(crate) fn of(
        pack: &Pack,
        (epoch, before): (u64, Option<Live>),
        (edge, kept): (u64, Vec<u64>),
        base: u64,
    ) -> Result<Live> {
        // Those that cannot go on, as at a damaged record that nothing of what moves needs, are begun anew.
        if before.is_some() {
            let mut live = Live::begun(pack, (epoch, before), (edge, kept.clone()), base)?;
            if live.marks.go_down_to(pack, base).is_ok() {
                return Ok(live);
            }
        }
        let mut live = Live::begun(pack, (epoch, None), (edge, kept), base)?;
        live.marks.go_down_to(pack, base)?;
        Ok(live)
    }

    /// The same as far as an earlier call has come, or of which nothing is marked yet.
    pub(crate) fn begun(
        pack: &Pack,
        (epoch, before): (u64, Option<Live>),
        (edge, kept): (u64, Vec<u64>),
        base: u64,
    ) -> Result<Live> {
        let line = pack.chunk(edge).map_or(0, |chunk| chunk.number);
        let found = before.filter(|live| {
            // Of what lies between that commit and the other nothing was marked, so none of it may be in a chunk that moves.
            live.epoch == epoch
                && live.base <= base
                && live.edge <= edge
                && live.line == line
                && live.kept == kept
        });
        if let Some(found) = found {
            return Ok(found);
        }
        let marks = Marks::verbatim(pack, edge, &kept)?;
        Ok(Live { epoch, edge, line, kept, base, marks })
    }
}
