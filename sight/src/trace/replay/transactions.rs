//! Transactions of a trace that read what they wrote: their drafts, from the first such read to the commit or its lack.

use varvite::Result;
use varvite::trace::{Action, Answer, Argument, Call, KeyUpdate};

use super::super::drafts::{Draft, batch};
use super::Replay;
use super::held::Of;

impl Replay {
    /// The number of the draft of a table, if it has one.
    pub(super) fn draft_of(&self, table: u64) -> Option<u64> {
        self.drafts.iter().find(|(_, draft)| draft.table == table).map(|(number, _)| *number)
    }

    pub(super) fn begin_draft(&mut self, call: &Call, handle: u64) -> Result<Option<Answer>> {
        let Some(table) = self.tables.remove(&handle) else { return Ok(None) };
        let draft = self.timed(call.action, |replay| {
            let session = replay.session.as_ref().expect("it was looked for");
            Draft::begin(session, handle, table)
        })?;
        if let Answer::Handle(number) = call.answer {
            self.drafts.insert(number, draft);
        }
        Ok(Some(Answer::Handle(1)))
    }

    /// Writes to a draft. What the trace has not whole ends it, so that its reads are skipped and not wrong.
    pub(super) fn write_draft(
        &mut self,
        handle: u64,
        updates: &[KeyUpdate],
    ) -> Result<Option<Answer>> {
        let Some(mut draft) = self.drafts.remove(&handle) else { return Ok(None) };
        let Some(batch) = batch(updates) else {
            let number = draft.table;
            self.held.release(Of::Draft, handle);
            self.tables.insert(number, draft.roll_back()?);
            return Ok(None);
        };
        let written = self.timed(Action::Write, |_| draft.write(&batch, updates.len()));
        self.drafts.insert(handle, draft);
        written.map(|()| Some(Answer::Nothing))
    }

    /// Commits a draft, which was told of a part of `updates`, mostly of all.
    pub(super) fn commit_draft(
        &mut self,
        number: u64,
        updates: &[KeyUpdate],
    ) -> Result<Option<Answer>> {
        let Some(draft) = self.drafts.remove(&number) else { return Ok(None) };
        // Its release stands within the commit, and is not run.
        self.held.release(Of::Draft, number);
        let (table, rest) = (draft.table, batch(draft.rest(updates)));
        let Some(rest) = rest else {
            self.tables.insert(table, draft.roll_back()?);
            return Ok(None);
        };
        let mut back = None;
        let done = self.timed(Action::Update, |_| {
            let (done, table) = draft.commit(&rest);
            back = Some(table);
            done
        });
        if let Some(given) = back {
            self.tables.insert(table, given?);
        }
        done.map(|()| Some(Answer::Nothing))
    }

    /// Ends a draft that was released without a commit; whether there is one.
    pub(super) fn roll_back(&mut self, number: u64) -> Result<bool> {
        let Some(draft) = self.drafts.remove(&number) else { return Ok(false) };
        self.held.release(Of::Draft, number);
        let table = draft.table;
        self.tables.insert(table, draft.roll_back()?);
        Ok(true)
    }

    /// Ends the draft whose commit had failed: its release stands within that, and is not run.
    pub(super) fn roll_back_failed(&mut self, call: &Call) -> Result<()> {
        let of = match (call.action, call.arguments.first()) {
            (Action::Update, Some(Argument::Handle(table))) => self.draft_of(*table),
            _ => None,
        };
        of.map_or(Ok(()), |number| self.roll_back(number).map(drop))
    }
}
