//! Steps on live tables. Every session with a log has them, and what they hold must be there again
//! however the session ended.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::{Kind, Log, OpenTable, Session, Table};

use super::{ALIVE, Outcome, World, compare, ok, refused, same};
use crate::model::table as model;
use crate::random::Random;

/// How often a log of many files became one of few in [`World::restarts`].
pub static SHORTENED: AtomicU64 = AtomicU64::new(0);

impl World {
    pub(super) fn opening(&self) -> OpenTable {
        OpenTable { operators: self.setup.operator().into_iter().collect(), ..OpenTable::default() }
    }

    /// Follows what a step did to the handles of live tables. It is told after every step.
    pub(super) fn follow_live(&mut self) {
        for (table, model) in self.tables.iter().filter(|(table, _)| table.is_live()) {
            self.live.insert(table.name().to_owned(), model.clone());
        }
    }

    fn is_held(&self, name: &str) -> bool {
        self.tables.iter().any(|(table, _)| table.is_live() && table.name() == name)
    }

    /// One of the names of live tables, if there are any.
    fn live_name(&self, seed: u64) -> Option<String> {
        let index = seed.checked_rem(self.live.len() as u64)?;
        self.live.keys().nth(index as usize).cloned()
    }

    /// Opens a live table again, unless some handle has it.
    pub(super) fn open_live(&mut self, seed: u64) -> Outcome {
        let Some(name) = self.live_name(seed) else {
            let kind = if self.setup.log == Log::None { Kind::Invalid } else { Kind::Missing };
            let outcome = self.session.open_table("none", &self.opening());
            return refused("a live table that is not there", outcome, kind);
        };
        let outcome = self.session.open_table(&name, &self.opening());
        if self.is_held(&name) {
            return refused("a live table that is open", outcome, Kind::Locked);
        }
        let (table, model) = (ok(outcome)?, self.live[&name].clone());
        compare("a live table", &table.view(), &model)?;
        self.tables.push((table, model));
        self.tables.drain(..self.tables.len().saturating_sub(ALIVE));
        Ok(())
    }

    pub(super) fn publish(&mut self, index: usize) -> Outcome {
        let table = &mut self.tables[index].0;
        let (was_live, is_taken) = (table.is_live(), self.live.contains_key(table.name()));
        let outcome = self.session.publish(table);
        if self.setup.log == Log::None {
            refused("a live table without a log", outcome, Kind::Invalid)
        } else if was_live {
            refused("making live what is live", outcome, Kind::Invalid)
        } else if is_taken {
            refused("the name of a live table", outcome, Kind::Exists)
        } else {
            ok(outcome)
        }
    }

    pub(super) fn delete_live(&mut self, seed: u64) -> Outcome {
        let Some(name) = self.live_name(seed) else { return Ok(()) };
        let outcome = self.session.delete_table(&name);
        if self.is_held(&name) {
            return refused("deleting a live table that is open", outcome, Kind::Locked);
        }
        self.live.remove(&name);
        ok(outcome)?;
        refused("deleting it again", self.session.delete_table(&name), Kind::Missing)
    }

    /// Updates several tables as one, live ones and others.
    pub(super) fn update_together(&mut self, seed: u64, count: u32) -> Outcome {
        let mut random = Random::new(seed);
        let mut chosen: Vec<_> = self
            .tables
            .iter_mut()
            .filter(|_| random.one_in(2))
            .map(|(table, model)| (table, model))
            .collect();
        let changes: Vec<_> =
            (0..chosen.len()).map(|_| self.setup.changes(random.next(), count)).collect();
        let batches: Vec<_> = changes.iter().map(|changes| model::batch(changes)).collect();
        let mut update = |session: &Session| {
            let tables = chosen.iter_mut().map(|(table, _)| &mut **table);
            let mut parts: Vec<(&mut Table, &varvite::Batch)> = tables.zip(&batches).collect();
            session.update(&mut parts)
        };
        if let Err(error) = update(&self.session) {
            same("an update refused", &error.kind(), &Kind::Invalid)?;
            same("merges paused", &self.session.merges_are_paused(), &true)?;
            self.session.resume_merges();
            ok(update(&self.session))?;
        }
        for ((_, model), changes) in chosen.iter_mut().zip(&changes) {
            model.update(changes, self.setup.join());
        }
        Ok(())
    }

    /// Sessions that update one live table each and end anyhow: no other is opened, and keeps its part of the log.
    pub(super) fn restarts(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut before = 0;
        for _ in 0..10 + random.below(12) {
            let files = self.disk.list("log").map_or(0, |names| names.len());
            SHORTENED.fetch_add(u64::from(files + 4 < before), SeqCst);
            before = files;
            self.restart(random.one_in(4).then(|| random.next()))?;
            let Some(name) = self.live_name(random.next()) else { continue };
            let table = ok(self.session.open_table(&name, &self.opening()))?;
            compare("a live table of a short session", &table.view(), &self.live[&name])?;
            self.tables.push((table, self.live[&name].clone()));
            self.update(0, random.next(), 1)?;
            self.follow_live();
            self.tables.clear();
            if random.one_in(2) {
                ok(self.session.clone().close())?;
            }
        }
        self.restart(None)?;
        self.reopen(random.one_in(2), None)
    }

    /// What `session`, which may only read, finds of the live tables. Keeps the handles.
    pub(super) fn find_live(
        &self,
        session: &Session,
    ) -> Result<Vec<(Table, model::Table)>, String> {
        let names: Vec<_> = self.live.keys().cloned().collect();
        same("the live tables", &ok(session.live_tables())?, &names)?;
        if self.setup.log == Log::None {
            return Ok(Vec::new());
        }
        let tables = ok(session.open_all(&self.opening()))?;
        for (table, (name, model)) in tables.iter().zip(&self.live) {
            same("name of a live table", &table.name(), &&name[..])?;
            compare("a live table found again", &table.view(), model)?;
        }
        same("the count of live tables", &tables.len(), &self.live.len())?;
        Ok(tables.into_iter().zip(self.live.values().cloned()).collect())
    }
}
