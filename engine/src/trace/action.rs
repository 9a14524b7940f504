//! What a trace has calls of, and which arguments and which answer each has.

/// Which face a call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Face {
    /// What the host itself says.
    Host,
    /// `varvite::context`
    Context,
    /// `varvite::table`
    Table,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Action {
    /// What the host calls the place in its load: a block's name.
    Mark,
    /// A number that the host measured, as processor time.
    Sample,
    /// A handle was dropped.
    Release,
    /// `Store::empty_tree`
    EmptyTree,
    /// `Store::checkout`
    Checkout,
    /// Content of a tree that was made elsewhere, before the call that is given it.
    Given,
    /// `Tree::clone`
    Clone,
    /// `Tree::find`
    Find,
    /// `Tree::mem`
    Mem,
    /// `Tree::mem_tree`
    MemTree,
    /// `Tree::find_tree`
    FindTree,
    /// `Tree::list`
    List,
    /// `Tree::length`
    Length,
    /// `Tree::add`
    Add,
    /// `Tree::add_tree`
    AddTree,
    /// `Tree::remove`
    Remove,
    /// `Tree::hash`
    Hash,
    /// `Store::commit`
    Commit,
    /// `Store::exists`
    Exists,
    /// `Store::commit_info`; the answer is that of the tree's hash.
    CommitInfo,
    /// `Store::log`
    Log,
    /// `Store::set_branch`
    SetBranch,
    /// `Store::remove_branch`
    RemoveBranch,
    /// `Store::checkpoint`
    Checkpoint,
    /// `Tree::fold`
    Fold,
    /// `Tree::diff`
    Diff,
    /// `Tree::merge`
    Merge,
    /// `Store::merge_commits`, and what `Store::merge_branch` does of it.
    MergeCommits,
    /// `Store::collect`, and what `Store::collect_keeping` comes to.
    Collect,
    /// `Store::collect_step`
    CollectStep,
    /// `Store::collect_cancel`
    CollectCancel,
    /// `Store::pin`
    Pin,
    /// `Store::pin_every`
    PinEvery,
    /// `Store::unpin`
    Unpin,
    /// `Store::clear`
    Clear,
    /// `Store::collect_pause`
    CollectPause,
    /// `Store::collect_resume`
    CollectResume,
    /// `Tree::diff_from`
    DiffFrom,
    /// `Store::log_before`
    LogBefore,
    /// A table was made or opened, by its name.
    OpenTable,
    /// `Table::update`, `Tables::commit` and `Transaction::commit`, once for each table.
    Update,
    /// `Table::lookup`, `View::lookup`
    Lookup,
    /// `Table::get`, `View::get`
    Get,
    /// `Table::view`
    View,
    /// `Table::duplicate`
    Duplicate,
    /// `Session::save_snapshot`
    SaveSnapshot,
    /// Steps of a cursor or of a range in one direction.
    Range,
    /// `View::find`; the answer is that of the lengths.
    FindValues,
    /// A table as a `Transaction` has it, from its first read of what it wrote.
    Draft,
    /// What a `Transaction` wrote to such a table, before the read or the commit that looks at it.
    Write,
    /// `Session::delete_table`
    DeleteTable,
    /// A table of the snapshot that the same thread saves next.
    SaveTable,
    /// `Session::delete_snapshot`
    DeleteSnapshot,
}

/// A kind of argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A tree, a table or a view, by the number that an answer gave it.
    Handle,
    /// Steps.
    Path,
    /// Bytes.
    Bytes,
    /// A number.
    Number,
    /// The hash of a commit.
    Hash,
    /// Several keys, or the hashes of several commits.
    Keys,
    /// Paths with values.
    Entries,
    /// Keys with what becomes of them.
    Updates,
    /// Two bounds.
    Range,
}

/// A kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// That it was done.
    Nothing,
    /// Yes or no.
    Flag,
    /// A number.
    Number,
    /// What was found, or that nothing was.
    Digest,
    /// A hash.
    Hash,
    /// The number of a tree, a table or a view; 0 for none.
    Handle,
}

/// An action with its number in files, its name, its face, its arguments and its answer.
pub type ActionRow = (Action, u8, &'static str, Face, &'static [Field], Answered);

impl Action {
    /// Every action with its number in files, its name, its face, its arguments and its answer.
    pub const ALL: [ActionRow; 53] = [
        (Action::Mark, 1, "mark", Face::Host, &[Field::Bytes], Answered::Nothing),
        (
            Action::Sample,
            2,
            "sample",
            Face::Host,
            &[Field::Bytes, Field::Number],
            Answered::Nothing,
        ),
        (Action::Release, 3, "release", Face::Host, &[Field::Handle], Answered::Nothing),
        (Action::EmptyTree, 10, "empty_tree", Face::Context, &[], Answered::Handle),
        (Action::Checkout, 11, "checkout", Face::Context, &[Field::Hash], Answered::Handle),
        (
            Action::Given,
            12,
            "given",
            Face::Context,
            &[Field::Handle, Field::Entries],
            Answered::Nothing,
        ),
        (Action::Clone, 13, "clone", Face::Context, &[Field::Handle], Answered::Handle),
        (Action::Find, 14, "find", Face::Context, &[Field::Handle, Field::Path], Answered::Digest),
        (Action::Mem, 15, "mem", Face::Context, &[Field::Handle, Field::Path], Answered::Flag),
        (
            Action::MemTree,
            16,
            "mem_tree",
            Face::Context,
            &[Field::Handle, Field::Path],
            Answered::Flag,
        ),
        (
            Action::FindTree,
            17,
            "find_tree",
            Face::Context,
            &[Field::Handle, Field::Path],
            Answered::Handle,
        ),
        (
            Action::List,
            18,
            "list",
            Face::Context,
            &[Field::Handle, Field::Path, Field::Number, Field::Number],
            Answered::Digest,
        ),
        (
            Action::Length,
            19,
            "length",
            Face::Context,
            &[Field::Handle, Field::Path],
            Answered::Number,
        ),
        (
            Action::Add,
            21,
            "add",
            Face::Context,
            &[Field::Handle, Field::Path, Field::Bytes],
            Answered::Nothing,
        ),
        (
            Action::AddTree,
            22,
            "add_tree",
            Face::Context,
            &[Field::Handle, Field::Path, Field::Handle],
            Answered::Nothing,
        ),
        (
            Action::Remove,
            23,
            "remove",
            Face::Context,
            &[Field::Handle, Field::Path],
            Answered::Nothing,
        ),
        (Action::Hash, 24, "hash", Face::Context, &[Field::Handle], Answered::Hash),
        (
            Action::Commit,
            25,
            "commit",
            Face::Context,
            &[Field::Handle, Field::Keys, Field::Number, Field::Bytes, Field::Bytes],
            Answered::Hash,
        ),
        (Action::Exists, 26, "exists", Face::Context, &[Field::Hash], Answered::Flag),
        (Action::CommitInfo, 27, "commit_info", Face::Context, &[Field::Hash], Answered::Digest),
        (Action::Log, 28, "log", Face::Context, &[Field::Number], Answered::Digest),
        (
            Action::SetBranch,
            29,
            "set_branch",
            Face::Context,
            &[Field::Bytes, Field::Hash],
            Answered::Nothing,
        ),
        (
            Action::RemoveBranch,
            30,
            "remove_branch",
            Face::Context,
            &[Field::Bytes],
            Answered::Nothing,
        ),
        (Action::Checkpoint, 31, "checkpoint", Face::Context, &[], Answered::Nothing),
        (
            Action::Fold,
            32,
            "fold",
            Face::Context,
            &[
                Field::Handle,
                Field::Path,
                Field::Number,
                Field::Number,
                Field::Number,
                Field::Number,
            ],
            Answered::Digest,
        ),
        (
            Action::Diff,
            33,
            "diff",
            Face::Context,
            &[Field::Handle, Field::Handle, Field::Number],
            Answered::Digest,
        ),
        (
            Action::Merge,
            34,
            "merge",
            Face::Context,
            &[Field::Handle, Field::Handle, Field::Handle, Field::Keys, Field::Number],
            Answered::Handle,
        ),
        (
            Action::MergeCommits,
            35,
            "merge_commits",
            Face::Context,
            &[Field::Hash, Field::Hash, Field::Number, Field::Number, Field::Keys, Field::Number],
            Answered::Handle,
        ),
        (Action::Collect, 36, "collect", Face::Context, &[Field::Hash], Answered::Nothing),
        (Action::CollectStep, 37, "collect_step", Face::Context, &[Field::Number], Answered::Flag),
        (Action::CollectCancel, 38, "collect_cancel", Face::Context, &[], Answered::Nothing),
        (Action::Pin, 39, "pin", Face::Context, &[Field::Hash], Answered::Nothing),
        (Action::PinEvery, 40, "pin_every", Face::Context, &[Field::Number], Answered::Number),
        (Action::Unpin, 41, "unpin", Face::Context, &[Field::Hash], Answered::Flag),
        (Action::Clear, 42, "clear", Face::Context, &[], Answered::Nothing),
        (Action::CollectPause, 43, "collect_pause", Face::Context, &[], Answered::Nothing),
        (Action::CollectResume, 44, "collect_resume", Face::Context, &[], Answered::Nothing),
        (
            Action::DiffFrom,
            45,
            "diff_from",
            Face::Context,
            &[Field::Handle, Field::Handle, Field::Path, Field::Number],
            Answered::Digest,
        ),
        (
            Action::LogBefore,
            46,
            "log_before",
            Face::Context,
            &[Field::Hash, Field::Number],
            Answered::Digest,
        ),
        (Action::OpenTable, 64, "open_table", Face::Table, &[Field::Bytes], Answered::Handle),
        (
            Action::Update,
            65,
            "update",
            Face::Table,
            &[Field::Handle, Field::Updates],
            Answered::Nothing,
        ),
        (
            Action::Lookup,
            66,
            "lookup",
            Face::Table,
            &[Field::Handle, Field::Keys],
            Answered::Digest,
        ),
        (Action::Get, 67, "get", Face::Table, &[Field::Handle, Field::Bytes], Answered::Digest),
        (Action::View, 68, "view", Face::Table, &[Field::Handle], Answered::Handle),
        (
            Action::Duplicate,
            69,
            "duplicate",
            Face::Table,
            &[Field::Handle, Field::Bytes],
            Answered::Handle,
        ),
        (
            Action::SaveSnapshot,
            70,
            "save_snapshot",
            Face::Table,
            &[Field::Bytes],
            Answered::Nothing,
        ),
        (
            Action::Range,
            71,
            "range",
            Face::Table,
            &[Field::Handle, Field::Range, Field::Number, Field::Number],
            Answered::Digest,
        ),
        (
            Action::FindValues,
            72,
            "find_values",
            Face::Table,
            &[Field::Handle, Field::Keys],
            Answered::Digest,
        ),
        (Action::Draft, 73, "draft", Face::Table, &[Field::Handle], Answered::Handle),
        (
            Action::Write,
            74,
            "write",
            Face::Table,
            &[Field::Handle, Field::Updates],
            Answered::Nothing,
        ),
        (Action::DeleteTable, 75, "delete_table", Face::Table, &[Field::Bytes], Answered::Nothing),
        (Action::SaveTable, 76, "save_table", Face::Table, &[Field::Handle], Answered::Nothing),
        (
            Action::DeleteSnapshot,
            77,
            "delete_snapshot",
            Face::Table,
            &[Field::Bytes],
            Answered::Nothing,
        ),
    ];

    fn row(self) -> &'static ActionRow {
        &Self::ALL[self as usize]
    }

    /// The action of a number in files.
    #[must_use]
    pub fn of(number: u8) -> Option<Action> {
        Self::ALL.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The action that is called so.
    #[must_use]
    pub fn named(name: &str) -> Option<Action> {
        Self::ALL.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Its number in files.
    #[must_use]
    pub fn number(self) -> u8 {
        self.row().1
    }

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Which face it is of.
    #[must_use]
    pub fn face(self) -> Face {
        self.row().3
    }

    /// Its arguments, in their order.
    #[must_use]
    pub fn fields(self) -> &'static [Field] {
        self.row().4
    }

    /// Its answer.
    #[must_use]
    pub fn answered(self) -> Answered {
        self.row().5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_at_its_place_and_has_a_number_and_a_name_of_its_own() {
        for (index, row) in Action::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{row:?}");
            assert_eq!((Action::of(row.1), Action::named(row.2)), (Some(row.0), Some(row.0)));
        }
    }
}
