//! What a repair keeps of the log: for each table its updates before the first bad record that it may need.
//!
//! A table whose place in the log lies behind a bad file needs nothing of that, so it loses nothing. Any other
//! ends before the bad record, since an update that is missing in the middle leaves a state that never was.

use super::{Holder, Repaired, RepairedTable, Repairer, UnfinishedUpdate};
use crate::error::{Error, Kind, Result};
use crate::file::append::Position;
use crate::file::reserve;
use crate::format::codec::Decoder;
use crate::order::BTreeMap;
use crate::table::durable::{
    Checkpoint, LiveRecord, LogCopy, LogEnd, LogPoint, LogRecord, log_files,
};
use crate::table::shared::paths::{self, LOG};

/// A live table while the log is read.
struct TableReading {
    from: LogPoint,
    /// The rest of the log is not for it.
    is_cut: bool,
    /// Then, up to where it has the log at most.
    ends: LogPoint,
    kept: u64,
    left_out: u64,
}

impl Repairer<'_> {
    /// Copies the log behind `checkpoint` for the tables `kept`, as far as it can be read.
    pub(super) fn copy_log(
        &mut self,
        checkpoint: &Checkpoint,
        kept: &[LiveRecord],
    ) -> Result<(LogCopy, Vec<RepairedTable>)> {
        let mut log = self.new.begin_log(kept.iter().flat_map(LiveRecord::points))?;
        let reading = |record: &LiveRecord| {
            let (from, ends) = (record.from, record.from);
            (record.id, TableReading { from, is_cut: false, ends, kept: 0, left_out: 0 })
        };
        let mut reached = LogPoint::default();
        let mut tables: BTreeMap<u64, TableReading> = kept.iter().map(reading).collect();
        let (mut before, mut unread): (Option<LogEnd>, Option<UnfinishedUpdate>) = (None, None);
        for number in self.log_numbers(checkpoint)? {
            let listed = checkpoint.files.iter().find(|end| end.file == number).copied();
            let is_last_listed = checkpoint.files.last().is_some_and(|end| end.file == number);
            // Looked at first: what follows nothing that is there is not to be applied.
            let source = self.source;
            let identity = self.store.identity;
            let found = log_files::salvage(source, identity, number, &mut |_, _| Ok(()))?;
            let is_new = listed.is_none();
            let is_empty = found.end == Position::start();
            let is_unfinished = found.damage.is_none() && found.unfinished_bytes > 0;
            if is_new
                && (is_empty && found.damage.is_none() && !is_unfinished || found.is_alone(number))
            {
                continue;
            }
            if is_new && !is_empty && found.before != before {
                let gap = Error::new(
                    Kind::Corrupt,
                    format!("{} does not follow what is before it", paths::log_file(number)),
                );
                self.cut(kept, &mut tables, (number - 1, reached), &gap);
            }
            log_files::salvage(source, identity, number, &mut |at, payload| {
                self.record(kept, &mut tables, at, payload, &mut log)?;
                reached = at.after();
                Ok(())
            })?;
            // The next one follows a file that the checkpoint names, also where no record got into it.
            if !is_empty || !is_new {
                before = Some(LogEnd { file: number, position: found.end });
            }
            self.report.log_records_behind += found.behind;
            let unfinished = is_unfinished.then(|| UnfinishedUpdate {
                file: paths::log_file(number),
                at: found.end.offset,
                bytes: found.unfinished_bytes,
            });
            // The last file that follows another says where that one ends; one of which nothing can be read does not.
            if is_empty {
                unread = unread.or_else(|| unfinished.clone());
            }
            if !is_empty || !is_new {
                self.report.log_unfinished = unfinished;
            }
            let is_short = listed.is_some_and(|end| {
                let (found, named) = (found.end, end.position);
                found != named && !(is_last_listed && found.offset > named.offset)
            });
            let damage = found.damage.or_else(|| {
                is_short.then(|| {
                    let path = paths::log_file(number);
                    let end = listed.map_or(0, |end| end.position.offset);
                    Error::corrupt(
                        &path,
                        found.end.offset,
                        format_args!("records up to byte {end}"),
                        "less",
                    )
                })
            });
            if let Some(error) = damage {
                self.cut(kept, &mut tables, (number, reached), &error);
            }
        }
        if self.report.log_unfinished.is_none() {
            self.report.log_unfinished = unread;
        }
        self.new.intake.copy_blobs(self.source)?;
        let repaired = kept.iter().map(|record| {
            let TableReading { from, is_cut, ends, kept, left_out } = tables[&record.id];
            let ends_within_update = is_cut && kept == 0 && from.skip > 0;
            let name = record.table.name.clone();
            let has_all = |loss: &super::Loss| !loss.live_tables.contains(&name);
            let is_whole = !is_cut && self.report.losses.iter().all(has_all);
            let lacks_keys = is_cut && record.cut.as_ref().is_some_and(|cut| cut.until > ends);
            RepairedTable {
                name,
                log_records: kept,
                left_out,
                is_whole,
                ends_within_update,
                lacks_keys,
            }
        });
        Ok((log, repaired.collect()))
    }

    /// The numbers of the log files that count, those that are lost among them.
    fn log_numbers(&self, checkpoint: &Checkpoint) -> Result<Vec<u64>> {
        let names = match self.source.list(LOG) {
            Err(error) if error.kind() == Kind::Missing => Vec::new(),
            names => names?,
        };
        let last = checkpoint.files.last().map_or(0, |end| end.file);
        let newer = names.iter().filter_map(|name| paths::log_number(name));
        let mut numbers: Vec<_> = newer.filter(|number| *number > last).collect();
        numbers.extend(checkpoint.files.iter().map(|end| end.file));
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Ends all tables that need the log up to file `number` at the place that was reached.
    fn cut(
        &mut self,
        kept: &[LiveRecord],
        tables: &mut BTreeMap<u64, TableReading>,
        (number, reached): (u64, LogPoint),
        error: &Error,
    ) {
        let mut is_said = false;
        for record in kept {
            let table = tables.get_mut(&record.id).expect("each is there");
            if table.from.file <= number && !table.is_cut {
                (table.is_cut, table.ends) = (true, table.ends.max(reached));
                let file = paths::log_file(number);
                self.report.lose(&file, error, &Holder::Live(&record.table.name), None);
                is_said = true;
            }
        }
        if !is_said {
            self.report.lose(&paths::log_file(number), error, &Holder::Nobody, None);
        }
    }

    /// Keeps of a record what is for tables that go on.
    fn record(
        &mut self,
        kept: &[LiveRecord],
        tables: &mut BTreeMap<u64, TableReading>,
        at: LogPoint,
        payload: &Decoder<'_>,
        log: &mut LogCopy,
    ) -> Result<()> {
        let record = LogRecord::decode(&mut payload.clone(), &|id| {
            tables.get(&id).is_some_and(|table| !table.is_cut && at.after() > table.from)
        })?;
        let ids = record.tables();
        if let LogRecord::Update { parts, blobs } = &record {
            for (id, batch) in parts {
                let Some(batch) = batch.as_ref().filter(|_| !blobs.is_empty()) else { continue };
                let referred = batch.blob_identities();
                let mut own = blobs.iter().filter(|blob| referred.contains(&blob.identity));
                let bad = own.find_map(|blob| self.blob(blob).transpose()).transpose()?;
                let Some((file, detail)) = bad else { continue };
                // Without its values it is no update: the table ends before it.
                let table = tables.get_mut(id).expect("its part was asked for");
                (table.is_cut, table.ends) = (true, table.ends.max(at));
                let name = &kept.iter().find(|it| it.id == *id).expect("it is kept").table.name;
                let error = Error::new(Kind::Corrupt, detail);
                self.report.lose(&file, &error, &Holder::Live(name), None);
            }
        }
        for id in &ids {
            let Some(table) = tables.get_mut(id).filter(|it| at.after() > it.from) else {
                continue;
            };
            *(if table.is_cut { &mut table.left_out } else { &mut table.kept }) += 1;
        }
        let goes_on = |id| {
            tables.get(&id).is_some_and(|it: &TableReading| !it.is_cut && at.after() > it.from)
        };
        let mut bytes = Vec::new();
        let intake = &mut self.new.intake;
        let renumber = &mut |blob: &_| {
            let blob = intake.announce_blob(blob);
            log.add_blob(blob.id);
            Ok(blob)
        };
        if LogRecord::rewrite(payload, &goes_on, renumber, &mut bytes)? {
            log.push(at, &bytes)?;
        }
        Ok(())
    }

    /// Tells that the segments of a table lack what ranges deleted whose updates are lost.
    pub(super) fn lose_ranges(&mut self, record: &LiveRecord, is_kept: bool) {
        let Some(cut) = &record.cut else { return };
        let error = Error::new(
            Kind::Corrupt,
            format!(
                "its updates up to record {} had deleted ranges of keys, which are gone from the segments of table \
                 {} already, and not all of these updates can be read",
                cut.until.sequence.saturating_sub(1),
                record.table.name
            ),
        );
        let keys = (cut.first_key.clone(), cut.last_key.clone());
        let lost = is_kept.then_some((keys, 0));
        let file = paths::log_file(cut.until.file);
        self.report.lose(&file, &error, &Holder::Live(&record.table.name), lost);
    }

    /// Says what a log has whose checkpoint is gone.
    pub(super) fn log_without_checkpoint(&mut self) -> Result<()> {
        let names = match self.source.list(LOG) {
            Err(error) if error.kind() == Kind::Missing => Vec::new(),
            names => names?,
        };
        // It is made after a checkpoint only.
        let (mut records, mut is_told) = (0, reserve::is_there(self.source, paths::RESERVE)?);
        for number in names.iter().filter_map(|name| paths::log_number(name)) {
            let (source, identity) = (self.source, self.store.identity);
            let found = log_files::salvage(source, identity, number, &mut |_, _| {
                records += 1;
                Ok(())
            })?;
            // No file has a record before tables are live.
            is_told |= found.end != Position::start();
        }
        let report: &mut Repaired = &mut self.report;
        if records > 0 || is_told {
            report.log_records_behind = records;
            let detail = format!(
                "{} is not there, so it is not known which tables were live; the log has {records} updates of \
                 them",
                paths::CHECKPOINT
            );
            report.lose(
                paths::CHECKPOINT,
                &Error::new(Kind::Corrupt, detail),
                &Holder::Nobody,
                None,
            );
        }
        Ok(())
    }
}
