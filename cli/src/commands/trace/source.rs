//! The calls of a trace that is replayed, of varvite or of Irmin's benchmarks, and what it has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use varvite::irmin_pack::trace as rows;
use varvite::trace::{Action, Argument, Call, Face};
use varvite::{Error, Result};
use varvite_sight::trace::irmin::FromRows;

use super::recordings::is_commit;
use super::{End, Rows, in_row, open_any, rows_of, told};
use crate::input;
use crate::store::tables;

/// Names of tables that are kept of a trace, and their bytes.
const TABLES_MAX: usize = 1 << 14;
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Where calls come from.
pub enum Source {
    Ours(PathBuf, Box<varvite::trace::Trace>),
    Irmin(PathBuf, Box<Rows>),
}

impl Source {
    pub fn open(file: &Path) -> Result<Source> {
        if rows::is_trace(&input::start(file)?) {
            let rows = rows_of(file).map_err(|error| told(file, error))?;
            return Ok(Source::Irmin(file.to_owned(), Box::new(rows)));
        }
        open_any(file).map(|trace| Source::Ours(file.to_owned(), Box::new(trace)))
    }

    /// Gives each call, with whether its answer is exact.
    pub fn each(&mut self, mut each: impl FnMut(&Call, bool) -> Result<()>) -> Result<End> {
        match self {
            Source::Ours(file, trace) => {
                while let Some(call) = trace.next_call().map_err(|error| told(file, error))? {
                    each(&call, true)?;
                }
                Ok(End::of(trace))
            }
            Source::Irmin(file, rows) => {
                let mut from = FromRows::default();
                for (row, number) in rows.by_ref().zip(1..) {
                    let row = row.map_err(|error| told(file, error))?;
                    let calls = from.calls(&row).map_err(|error| in_row(file, number, &error))?;
                    for call in calls {
                        each(&call, false)?;
                    }
                }
                Ok(End::of_rows(rows))
            }
        }
    }

    /// What it has.
    pub fn contents(file: &Path) -> Result<Contents> {
        let mut contents = Contents::default();
        let Contents { faces: (context, table), commits, refused, tables: names, has_more_tables } =
            &mut contents;
        let mut bytes = 0;
        Source::open(file)?.each(|call, _| {
            *context |= call.action.face() == Face::Context;
            *table |= call.action.face() == Face::Table;
            *commits += u64::from(is_commit(call));
            if let (Action::OpenTable | Action::Duplicate, [.., Argument::Bytes(name)]) =
                (call.action, &call.arguments[..])
            {
                *has_more_tables |=
                    names.len() == TABLES_MAX || bytes + name.len() > NAMES_BYTES_MAX;
                if !*has_more_tables && names.insert(String::from_utf8_lossy(name).into_owned()) {
                    bytes += name.len();
                }
            }
            if let (Action::SaveSnapshot | Action::DeleteSnapshot, [Argument::Bytes(name)]) =
                (call.action, &call.arguments[..])
                && refused.is_none()
            {
                *refused = tables::check_user_name(&String::from_utf8_lossy(name)).err();
            }
            Ok(())
        })?;
        Ok(contents)
    }
}

/// What a trace has.
#[derive(Default)]
pub struct Contents {
    /// Whether it has calls of a context, and of tables.
    pub faces: (bool, bool),
    pub commits: u64,
    /// Why its snapshots of tables are none for a store that somebody has, if so.
    pub refused: Option<Error>,
    /// Names of the tables that it opens, as many as are kept.
    pub tables: BTreeSet<String>,
    /// Whether it may open others.
    pub has_more_tables: bool,
}
