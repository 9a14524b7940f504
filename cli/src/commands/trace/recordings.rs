//! What a replay writes into its recordings beside its calls: where blocks begin, and how many transactions they had.

use std::path::Path;
use std::sync::Arc;

use varvite::trace::{Action, Answer, Argument, Call, Recorder};
use varvite::{Error, Result};

use crate::sight::Tracing;

/// The mark of what is no block.
const LOAD: &str = "load";

/// The recording of a replay, and that of the store beside it.
pub struct Recordings {
    own: Tracing,
    beside: Tracing,
    has_begun: bool,
    /// What the trace said last.
    mark: Option<String>,
    transactions: Option<u64>,
    blocks: Option<Blocks>,
}

/// Blocks of a store that is only read, whose recording has no commits: marks stand where those of the other end.
#[derive(Default)]
struct Blocks {
    ended: u64,
    /// Commits that are still to come; what is behind the last one is no block.
    left: u64,
    /// Whether a mark stands before the next call.
    is_due: bool,
}

impl Recordings {
    /// Begins those that there is a file for.
    pub fn begin(
        own: (Option<&Path>, Option<&Path>),
        beside: (Option<&Path>, Option<&Path>),
    ) -> Result<Recordings> {
        // What the process uses is one store's only where there is no other.
        let begin = if beside.1.is_none() { Tracing::to } else { Tracing::beside };
        Ok(Recordings {
            own: begin(own.0, own.1)?,
            beside: Tracing::beside(beside.0, beside.1)?,
            has_begun: false,
            mark: None,
            transactions: None,
            blocks: None,
        })
    }

    /// The recorders, for options.
    pub fn recorders(&self) -> [Option<Arc<Recorder>>; 2] {
        [self.own.recorder(), self.beside.recorder()]
    }

    /// Marks the blocks of the store beside, of a trace with so many commits.
    pub fn mark_blocks(&mut self, commits: u64) {
        self.blocks = Some(Blocks { left: commits, ..Blocks::default() });
    }

    /// Processor time that samples took so far.
    pub fn sampling_ns(&self) -> u64 {
        self.own.sampling_ns() + self.beside.sampling_ns()
    }

    fn is_load(&self) -> bool {
        self.mark.as_deref() == Some(LOAD)
    }

    /// The replay runs calls from here on: what the trace said last holds for the first of them.
    pub fn run_from_here(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if self.mark.is_some() {
            self.tell_mark();
        }
        self.tell_transactions();
        if let Some(blocks) = &mut self.blocks {
            blocks.is_due = true;
        }
    }

    fn tell_mark(&self) {
        let name = self.mark.as_deref().unwrap_or_default();
        self.own.mark(name);
        if self.blocks.is_none() {
            self.beside.mark(name);
        }
    }

    fn tell_transactions(&self) {
        if let Some(number) = self.transactions {
            self.own.count("transactions", number);
            self.beside.count("transactions", number);
        }
    }

    /// Hears a call before it is run.
    pub fn before(&mut self, call: &Call) {
        match (call.action, &call.arguments[..]) {
            (Action::Mark, [Argument::Bytes(name)]) => {
                let was_load = self.is_load();
                self.mark = Some(String::from_utf8_lossy(name).into_owned());
                let is_other = was_load != self.is_load();
                if let Some(blocks) = &mut self.blocks {
                    blocks.is_due |= is_other;
                }
                if self.has_begun {
                    self.tell_mark();
                }
            }
            (Action::Sample, [Argument::Bytes(name), Argument::Number(number)])
                if name == b"transactions" =>
            {
                self.transactions = Some(*number);
                if self.has_begun {
                    self.tell_transactions();
                }
            }
            (Action::Mark | Action::Sample | Action::Release, _) => {}
            _ => self.mark_if_due(),
        }
    }

    fn mark_if_due(&mut self) {
        let is_load = self.is_load();
        if let Some(blocks) = self.blocks.as_mut().filter(|it| it.is_due && self.has_begun) {
            blocks.is_due = false;
            let is_block = !is_load && blocks.left > 0;
            let name = if is_block { blocks.ended.to_string() } else { LOAD.to_owned() };
            self.beside.mark(&name);
        }
    }

    /// Hears it when it was run on the one store.
    pub fn after_own(&mut self) {
        self.own.tick();
    }

    /// Hears it when it was run on the other, too.
    pub fn after_beside(&mut self, call: &Call) {
        self.beside.tick();
        let (is_load, has_begun) = (self.is_load(), self.has_begun);
        if let Some(blocks) = self.blocks.as_mut().filter(|_| is_commit(call)) {
            blocks.left = blocks.left.saturating_sub(1);
            if has_begun && !is_load {
                blocks.ended += 1;
                blocks.is_due = true;
            }
        }
    }

    /// Ends both.
    pub fn finish(self) -> Result<()> {
        match (self.own.finish(), self.beside.finish()) {
            (Err(own), Err(beside)) => Err(Error::new(own.kind(), format!("{own}; {beside}"))),
            (own, beside) => own.and(beside),
        }
    }
}

/// Whether the call ends a block.
pub fn is_commit(call: &Call) -> bool {
    call.action == Action::Commit && call.depth == 0 && matches!(call.answer, Answer::Hash(_))
}
