//! What tables need of many files of the log, in one new file, so that those may go.
//!
//! As where each of many sessions has made a few updates, some of tables that nobody opens any more. To write such tables
//! out would take their operators, and more room than their records do. The new file says that it follows itself, so that it
//! counts only where a checkpoint names it; the checkpoint that does so has the tables' places in it, and names none of the
//! files whose records it has. Until then the log is as it was.

use super::steps::kept_max_of;
use super::{LiveTableMap, LiveTables, SHORT_FILES_MAX};
use crate::error::Result;
use crate::format::codec::Decoder;
use crate::order;
use crate::order::BTreeMap;
use crate::sync::lock;
use crate::table::durable::log::{LogFile, LogWriter, bytes_of, scan, short_run};
use crate::table::durable::log_copy::LogCopy;
use crate::table::durable::log_record::{LogPoint, LogRecord};
use crate::table::durable::snapshot::NamedSegments;

/// Where each table that needs a part of the log begins to.
type Begins = BTreeMap<u64, LogPoint>;

/// Where points of the files that were joined are in the new one.
struct Moved {
    first: u64,
    number: u64,
    to: BTreeMap<LogPoint, LogPoint>,
}

impl Moved {
    fn of(&self, point: LogPoint) -> LogPoint {
        self.to.get(&point).copied().unwrap_or(point)
    }

    fn has(&self, point: &LogPoint) -> bool {
        (self.first..self.number).contains(&point.file)
    }
}

/// Those of `files` of which the tables need a part.
fn needed<'f>(files: &'f [LogFile], begins: &Begins) -> Vec<&'f LogFile> {
    let is_needed = |file: &&LogFile| begins.iter().any(|(id, from)| file.is_needed(*id, *from));
    files.iter().filter(is_needed).collect()
}

/// The same tables with the places of their records in the new file.
fn placed(mut entries: LiveTableMap, places: &Moved) -> LiveTableMap {
    for entry in entries.values_mut() {
        let record = (*entry.record).clone();
        let points = record.points().map(|point| places.of(point));
        entry.record = record.placed(points).into();
    }
    entries
}

impl LiveTables {
    /// Which of the files that are `needed` are to become one: all, where they are more than tables may keep and mostly of
    /// what no table needs; else the newest, where many are short.
    fn joinable<'f>(&self, mut needed: Vec<&'f LogFile>, begins: &Begins) -> Vec<&'f LogFile> {
        let file_bytes = self.store.options.log_file_bytes;
        // With values in blob files, which stay as long as a file does that lists them.
        let length = bytes_of(needed.iter().copied());
        let needs = |file: &&LogFile| -> u64 {
            let of = |(id, from): (&u64, &LogPoint)| {
                let (_, bytes) = file.tables.get(id).filter(|_| file.is_needed(*id, *from))?;
                Some(*bytes)
            };
            begins.iter().filter_map(of).fold(0, u64::saturating_add)
        };
        let is_over = length > kept_max_of(&self.entries().0, file_bytes);
        let in_use = needed.iter().map(needs).fold(0, u64::saturating_add);
        if is_over && in_use <= length / 2 {
            return needed;
        }
        let run = short_run(needed.iter().copied(), file_bytes);
        let others = needed.len() - run;
        if run > SHORT_FILES_MAX / 2 { needed.split_off(others) } else { Vec::new() }
    }

    /// Whether a checkpoint would let some of the files go that the opening has found.
    pub(super) fn lets_some_go(&self, log: &LogWriter) -> bool {
        let (entries, _) = self.entries();
        let mut begins = Begins::new();
        for entry in entries.values() {
            let mut from = entry.record.from;
            if let Some((state, oldest, ..)) = entry.live.found() {
                if self.is_behind(log, entry, &state, oldest) {
                    return true;
                }
                from = from.max(oldest);
            }
            begins.insert(entry.record.id, from);
        }
        let files = log.older();
        let needed = needed(&files, &begins);
        let last = files.last().map(|last| last.number);
        let follows = log.is_begun() || log.keeps_values();
        // The last file stays, or one without updates takes its place.
        let stays = |file: &LogFile| {
            needed.iter().any(|needed| needed.number == file.number)
                || Some(file.number) == last && (file.tables.is_empty() || !follows)
        };
        !files.iter().all(stays) || !self.joinable(needed, &begins).is_empty()
    }

    /// Makes `entries` what is live, see [`LiveTables::write`], with what they need of many files of the log in one.
    pub(super) fn write_joined(
        &self,
        entries: LiveTableMap,
        next_id: u64,
        named: &NamedSegments,
    ) -> Result<()> {
        let log = self.log_writer()?;
        let Some((number, files)) = log.take_aside() else {
            return self.write(entries, next_id, named);
        };
        // Whoever replays records now needs them where they are.
        let Ok(_alone) = self.places.try_write() else {
            return self.write(entries, next_id, named);
        };
        let begins = order::map(entries.values().map(|it| (it.record.id, it.record.from)));
        let files = self.joinable(needed(&files, &begins), &begins);
        if files.is_empty() {
            return self.write(entries, next_id, named);
        }
        let joined = self.store.write(|| {
            // What comes next is not to follow one of the files that go.
            log.begin()?;
            self.join(number, &files, &begins, &entries)
        });
        let written = joined.and_then(|places| {
            self.write(placed(entries.clone(), &places), next_id, named)?;
            Ok(places)
        });
        match written {
            Ok(places) => {
                log.leave_joined();
                self.place_states(&begins, &places);
                Ok(())
            }
            // Where the session is sound nothing names the new file, and the log is as it was. A later session tries again.
            Err(error) if self.store.is_sound() => {
                let is_no_space = error.is_no_space();
                *lock(&self.not_joined) = Some((error, is_no_space));
                log.remove_joined(number);
                self.write(entries, next_id, named)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives what tables left of themselves their places in the new file, as their records have them by now.
    fn place_states(&self, begins: &Begins, places: &Moved) {
        for entry in self.entries().0.values() {
            let Some(from) = begins.get(&entry.record.id) else { continue };
            // What begins before its record was written out: moved onto that it would be taken for newer.
            let moved = |point: LogPoint| if point < *from { point } else { places.of(point) };
            let mut state = lock(&entry.live.state);
            state.applied = moved(state.applied);
            state.points.iter_mut().for_each(|point| *point = moved(*point));
            if let Some(cut) = &mut state.cut {
                cut.until = moved(cut.until);
            }
        }
    }

    /// Writes log file `number` with what tables need of `files`, makes it durable, and has it be one of the log.
    fn join(
        &self,
        number: u64,
        files: &[&LogFile],
        begins: &Begins,
        entries: &LiveTableMap,
    ) -> Result<Moved> {
        let log = self.log_writer()?;
        let mut places = Moved { first: files[0].number, number, to: BTreeMap::new() };
        let mut points: Vec<LogPoint> = Vec::new();
        for entry in entries.values() {
            points.extend(entry.record.points());
            let state = lock(&entry.live.state);
            let of_state = state.points.iter().copied().chain([state.applied]);
            let of_state = of_state.chain(state.cut.as_ref().map(|cut| cut.until));
            points.extend(of_state.filter(|point| *point >= entry.record.from));
        }
        points.retain(|point| places.has(point));
        let mut copy = LogCopy::in_folder(&self.store, number, points.iter().copied())?;
        let (mut tables, mut blobs) = (BTreeMap::<u64, (u64, u64)>::new(), BTreeMap::new());
        let mut bytes = Vec::new();
        for file in files {
            let scanned =
                scan(&*self.store.disk, self.store.identity, file.number, |at, payload| {
                    bytes.clear();
                    let keeps = |id| begins.get(&id).is_some_and(|from| at.after() > *from);
                    let same = &mut |blob: &crate::table::runs::blob::BlobMeta| {
                        blobs.insert(blob.id, blob.file_bytes());
                        Ok(*blob)
                    };
                    if LogRecord::rewrite(payload, &keeps, same, &mut bytes)? {
                        let from = Decoder::new("", 0, &bytes);
                        let record = LogRecord::decode(&mut from.clone(), &|_| false)?;
                        for (id, share) in record.shares(&from)? {
                            let (last, sum) = tables.entry(id).or_default();
                            (*last, *sum) = (copy.records() + 1, sum.saturating_add(share));
                        }
                        copy.push(at, &bytes)?;
                    }
                    Ok(())
                })?;
            file.expect_read(scanned.end)?;
        }
        let end = copy.finish()?.position;
        places.to = order::map(points.iter().copied().zip(copy.points()));
        self.pins.pin_joined(number, blobs.keys().copied())?;
        let blob_bytes = blobs.values().sum();
        log.add_joined(LogFile { number, end, tables, blob_bytes }, files);
        Ok(places)
    }
}
