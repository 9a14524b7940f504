//! A change by hand: the current snapshot opened for writing and saved as the next head.

use std::path::Path;

use varvite::{
    Error, MergeOperator, Result, Session, SessionOptions, Snapshot, SnapshotContent, Table,
    TableOptions, Verify,
};

use crate::store::tables;

/// What heads are labelled with when nothing before them had a label.
const LABEL: &str = "varvite table";

/// The store as its current snapshot has it, open for writing.
pub struct Change {
    /// The open store.
    pub session: Session,
    /// Its current state, which is saved as the next head.
    pub snapshot: Snapshot,
}

impl Change {
    /// Opens the store in `folder`, or makes one; `otherwise` is the state when there is no head.
    pub fn open(folder: &Path, create: bool, otherwise: Option<&str>) -> Result<Change> {
        let options = SessionOptions::default();
        let session = if create {
            tables::open_or_create(folder, options)?
        } else {
            tables::open(folder, options).map_err(tables::or_create)?
        };
        let current = match otherwise {
            Some(name) if tables::heads(&session)?.is_empty() => Some(name.to_owned()),
            _ => tables::current(&session)?,
        };
        let snapshot = match current {
            Some(name) => session.open_snapshot(&name, &tables::options(Verify::Quick))?,
            None => Snapshot { label: LABEL.to_owned(), payload: Vec::new(), tables: Vec::new() },
        };
        Ok(Change { session, snapshot })
    }

    /// The table called `name`, made when it is not there. `Invalid` when `operator` is not its own.
    pub fn table(
        &mut self,
        name: &str,
        operator: Option<&str>,
        blob_min: Option<u32>,
    ) -> Result<&mut Table> {
        let asked = operator.map(built_in).transpose()?;
        let place = self.snapshot.tables.iter().position(|table| table.name() == name);
        let Some(place) = place else {
            let options = TableOptions {
                operator: asked,
                blob_min_bytes: blob_min,
                ..TableOptions::default()
            };
            self.snapshot.tables.push(self.session.create_table(name, options)?);
            return Ok(self.snapshot.tables.last_mut().expect("just pushed"));
        };
        let table = &mut self.snapshot.tables[place];
        let own = table.options().operator.as_ref().map(MergeOperator::name);
        if let Some(asked) = asked
            && own != Some(asked.name())
        {
            let own = own.map_or("none".to_owned(), |own| format!("\"{own}\""));
            return Err(Error::invalid(format!(
                "table {name} was made with the merge operator {own}, not \"{}\": leave --operator \
                 out or give that one",
                asked.name()
            )));
        }
        if blob_min.is_some_and(|it| Some(it) != table.options().blob_min_bytes) {
            return Err(Error::invalid(format!(
                "table {name} is there already, and what goes to blob files was said when it was made: \
                 leave --blob-min out"
            )));
        }
        Ok(table)
    }

    /// The table called `name`, which must be there.
    pub fn existing(&mut self, name: &str) -> Result<&mut Table> {
        if !self.snapshot.tables.iter().any(|table| table.name() == name) {
            self.snapshot.take(name)?; // says which tables there are
        }
        self.table(name, None, None)
    }

    /// Saves everything as the next head, then removes the heads before it.
    pub fn save(self) -> Result<String> {
        let heads = tables::heads(&self.session)?;
        let name = tables::head_name(heads.last().map_or(1, |(number, _)| number + 1));
        let tables: Vec<&Table> = self.snapshot.tables.iter().collect();
        let Snapshot { label, payload, .. } = &self.snapshot;
        self.session.save_snapshot(&name, SnapshotContent { label, payload, tables: &tables })?;
        for (_, older) in heads {
            self.session.delete_snapshot(&older)?;
        }
        drop(self.snapshot);
        self.session.close()?;
        Ok(name)
    }
}

/// The merge operator called `name`.
pub fn built_in(name: &str) -> Result<MergeOperator> {
    MergeOperator::built_in(name).ok_or_else(|| {
        let operators = tables::operators();
        let names: Vec<_> = operators.iter().map(MergeOperator::name).collect();
        Error::invalid(format!("there is no merge operator \"{name}\": use {}", names.join(", ")))
    })
}
