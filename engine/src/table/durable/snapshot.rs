//! The manifest of a snapshot: one file that names every segment of one or several tables.
//!
//! It appears whole, by the rename of a synced file, after everything that it names is synced. What
//! a write buffer held is one more run, the base, which counts as part of the buffer again when the
//! snapshot is opened. A merge is recorded at its boundary, so less than two segments of its
//! work are done again.
//!
//! Format document: `docs/format/snapshot.md`.

mod union;

use std::sync::Arc;

pub use union::{UNION_RUNS_MAX, UnionRecord};

use crate::error::{Error, Result};
use crate::file::shared::SharedFile;
use crate::format::checksum::crc;
use crate::format::codec::{Decoder, Encoder};
use crate::format::hash::combine;
use crate::format::header::{FileKind, Header, LENGTH, checked_body, finish_with_checksum};
use crate::order;
use crate::order::{BTreeMap, BTreeSet};
use crate::table::merge::{Input, Merging, Shape};
use crate::table::runs::blob::BlobMeta;
use crate::table::runs::{Run, Segment, SegmentMeta};
use crate::table::shared::{BLOB_MIN_BYTES_MAX, Compression, Lookups, TableOptions, paths};

/// Beside the kind of lookups: the least length of blobs follows.
const HAS_BLOB_MIN: u8 = 2;
/// In the same byte: pages are compressed.
const IS_COMPRESSED: u8 = 4;

/// Largest payload in bytes, so that a manifest stays one small file.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// Levels and inputs that a manifest may have: far more than any table reaches.
const LEVELS_MAX: usize = 64;
/// Most bytes that a clock, a merge or all files together may count, so that no sum overflows.
const COST_MAX: u64 = 1 << 52;
/// Saves have smaller numbers, so that there is always a next one.
const SEQUENCE_MAX: u64 = 1 << 62;
/// Segments have smaller ids, so that there is always a next one.
const SEGMENT_ID_MAX: u64 = 1 << 62;

/// Least bytes that one segment takes in a manifest, to bound what a damaged count can ask for.
const SEGMENT_RECORD_BYTES_MIN: usize = 90;
/// Shortest record of a table: an empty one with a name of one byte, every other field one byte.
const TABLE_RECORD_BYTES_MIN: usize = 12;

/// A manifest, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The file's header.
    pub header: Header,
    /// The snapshot's name, as the file's name says it too.
    pub name: String,
    /// Which save of the session it is; later ones have greater numbers.
    pub sequence: u64,
    /// The application's mark.
    pub label: String,
    /// The application's bytes.
    pub payload: Vec<u8>,
    /// The tables, in the order given when it was saved.
    pub tables: Vec<TableRecord>,
}

/// One table of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRecord {
    /// Its name.
    pub name: String,
    /// See [`TableOptions`], as the four after it.
    pub write_buffer_bytes: u64,
    /// `T`.
    pub size_ratio: u32,
    /// Whether the last run has a filter.
    pub lookups: Lookups,
    /// Bits an entry.
    pub filter_bits: u8,
    /// For all filters together.
    pub filter_bytes_max: u64,
    /// Values of at least so many bytes are in blob files.
    pub blob_min_bytes: u32,
    /// Whether pages are compressed.
    pub compression: Compression,
    /// Name of the merge operator.
    pub operator: Option<String>,
    /// How many write buffers were sealed.
    pub seals: u64,
    /// What the write buffer held.
    pub base: RunRecord,
    /// Youngest first.
    pub levels: Vec<LevelRecord>,
    /// The oldest entries.
    pub last: RunRecord,
    /// What becomes the last run, while it is pending.
    pub union: Option<UnionRecord>,
}

/// Segments of a run in key order.
pub type RunRecord = Vec<SegmentMeta>;

/// One level of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelRecord {
    /// Newest first.
    pub runs: Vec<RunRecord>,
    /// The merge of what is older than `runs`.
    pub merging: Option<MergeRecord>,
}

/// A merge at its boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeRecord {
    /// Cost of all entries of all inputs, in bytes.
    pub debt: u64,
    /// Cost of those read so far.
    pub spent: u64,
    /// The clock at which the result is due.
    pub due: u64,
    /// Nothing older lies below.
    pub bottom: bool,
    /// Whether the result becomes the last run.
    pub to_last: bool,
    /// Whether the outputs are the result.
    pub done: bool,
    /// Filter bits an entry of the outputs.
    pub filter_bits: u8,
    /// The last key of the outputs.
    pub boundary: Option<Vec<u8>>,
    /// Finished segments.
    pub outputs: RunRecord,
    /// What is left, newest first.
    pub inputs: Vec<RunRecord>,
}

impl MergeRecord {
    /// Adds every segment that it names.
    pub fn list_segments<'a>(&'a self, all: &mut Vec<&'a SegmentMeta>) {
        for input in &self.inputs {
            all.extend(input);
        }
        all.extend(&self.outputs);
    }
}

/// Segments by id: all that a manifest names, held until it does.
pub type NamedSegments = BTreeMap<u64, Arc<Segment>>;

fn run_record(run: &Run, named: &mut NamedSegments) -> RunRecord {
    let segments = run.segments().iter();
    segments
        .map(|segment| {
            named.insert(segment.meta().id, Arc::clone(segment));
            segment.meta().clone()
        })
        .collect()
}

impl TableRecord {
    /// The record of a table whose sealed buffers are all written out; its segments join `named`.
    /// Each merge is asked for its state once, because a helper may move it on meanwhile.
    pub fn new(
        name: &str,
        options: &TableOptions,
        shape: &Shape,
        base: Option<&Run>,
        named: &mut NamedSegments,
    ) -> Self {
        assert!(shape.sealed.is_empty(), "sealed buffers are written out before a snapshot");
        let mut levels = Vec::with_capacity(shape.levels.len());
        for level in &shape.levels {
            levels.push(LevelRecord {
                runs: level.runs.iter().map(|run| run_record(run, named)).collect(),
                merging: level.merging.as_ref().map(|merging| MergeRecord::new(merging, named)),
            });
        }
        TableRecord {
            name: name.to_owned(),
            write_buffer_bytes: options.write_buffer_bytes,
            size_ratio: options.size_ratio,
            lookups: options.lookups,
            filter_bits: options.filter_bits,
            filter_bytes_max: options.filter_bytes_max,
            blob_min_bytes: options.blob_min(),
            compression: options.compression,
            operator: options.operator.as_ref().map(|operator| operator.name().to_owned()),
            seals: shape.seals,
            base: base.map(|run| run_record(run, named)).unwrap_or_default(),
            levels,
            last: shape.last.as_ref().map(|run| run_record(run, named)).unwrap_or_default(),
            union: shape.union.as_ref().map(|union| UnionRecord::new(union, named)),
        }
    }

    /// Every segment that it names.
    pub fn segments(&self) -> std::vec::IntoIter<&SegmentMeta> {
        let mut all = Vec::new();
        self.list_segments(&mut all);
        all.into_iter()
    }

    /// Adds every segment that it names.
    pub fn list_segments<'a>(&'a self, all: &mut Vec<&'a SegmentMeta>) {
        all.extend(&self.base);
        for level in &self.levels {
            for run in &level.runs {
                all.extend(run);
            }
            if let Some(merging) = &level.merging {
                merging.list_segments(all);
            }
        }
        all.extend(&self.last);
        if let Some(union) = &self.union {
            union.merging.list_segments(all);
        }
    }

    /// Every segment that it names, to be numbered anew.
    pub fn segments_mut(&mut self) -> Vec<&mut SegmentMeta> {
        fn of(merging: &mut MergeRecord) -> impl Iterator<Item = &mut SegmentMeta> {
            merging.inputs.iter_mut().flatten().chain(&mut merging.outputs)
        }
        let mut all: Vec<_> = self.base.iter_mut().chain(&mut self.last).collect();
        for level in &mut self.levels {
            all.extend(level.runs.iter_mut().flatten());
            all.extend(level.merging.iter_mut().flat_map(of));
        }
        all.extend(self.union.iter_mut().flat_map(|union| of(&mut union.merging)));
        all
    }

    fn encode(&self, to: &mut Encoder) {
        to.bytes_with_length(self.name.as_bytes());
        to.varint(self.write_buffer_bytes);
        to.varint(u64::from(self.size_ratio));
        let has_blob_min = self.blob_min_bytes != BLOB_MIN_BYTES_MAX;
        let mostly_hit = u8::from(self.lookups == Lookups::MostlyHit);
        let blob_min = if has_blob_min { HAS_BLOB_MIN } else { 0 };
        let compressed = match self.compression {
            Compression::None => 0,
            Compression::Fast => IS_COMPRESSED,
        };
        to.u8(mostly_hit | blob_min | compressed);
        to.u8(self.filter_bits);
        to.varint(self.filter_bytes_max);
        if has_blob_min {
            to.varint(u64::from(self.blob_min_bytes));
        }
        encode_optional(to, self.operator.as_ref().map(String::as_bytes));
        to.varint(self.seals);
        encode_run(to, &self.base);
        to.varint(self.levels.len() as u64);
        for level in &self.levels {
            encode_runs(to, &level.runs);
            to.u8(u8::from(level.merging.is_some()));
            if let Some(merging) = &level.merging {
                merging.encode(to);
            }
        }
        encode_run(to, &self.last);
    }

    /// Decodes one record.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let name = from.text()?.to_owned();
        let write_buffer_bytes = from.varint()?;
        let size_ratio = from.varint()?;
        let flags = from.u8()?;
        let lookups = match flags & !(HAS_BLOB_MIN | IS_COMPRESSED) {
            0 => Lookups::Mixed,
            1 => Lookups::MostlyHit,
            other => return Err(from.corrupt("lookups of kind 0 or 1", other)),
        };
        let compression = match flags & IS_COMPRESSED {
            0 => Compression::None,
            _ => Compression::Fast,
        };
        let filter_bits = from.u8()?;
        let filter_bytes_max = from.varint()?;
        let blob_min_bytes = match flags & HAS_BLOB_MIN {
            0 => BLOB_MIN_BYTES_MAX,
            _ => u32::try_from(from.varint()?).unwrap_or(u32::MAX),
        };
        if flags & HAS_BLOB_MIN != 0 && blob_min_bytes == BLOB_MIN_BYTES_MAX {
            return Err(from.corrupt("no length of blobs where it is the usual", blob_min_bytes));
        }
        let operator = decode_optional(from)?.map(String::from_utf8).transpose();
        let operator = operator.map_err(|_| from.corrupt("an operator's name", "other bytes"))?;
        let seals = from.varint()?;
        let base = decode_run(from)?;
        let level_count = limited(from, LEVELS_MAX)?;
        let mut levels = Vec::new();
        for _ in 0..level_count {
            let runs = decode_runs(from, LEVELS_MAX)?;
            let merging =
                if flag(from)? { Some(MergeRecord::decode(from, LEVELS_MAX)?) } else { None };
            levels.push(LevelRecord { runs, merging });
        }
        let last = decode_run(from)?;
        let size_ratio = u32::try_from(size_ratio).unwrap_or(u32::MAX);
        let options = TableOptions {
            write_buffer_bytes,
            size_ratio,
            lookups,
            filter_bits,
            filter_bytes_max,
            blob_min_bytes: Some(blob_min_bytes),
            compression,
            operator: None,
        };
        options.check().map_err(|error| from.corrupt("table options", error))?;
        let record = TableRecord {
            name,
            write_buffer_bytes,
            size_ratio,
            lookups,
            filter_bits,
            filter_bytes_max,
            blob_min_bytes,
            compression,
            operator,
            seals,
            base,
            levels,
            last,
            union: None,
        };
        record.check().map_err(|expected| from.corrupt(expected, "another table"))?;
        Ok(record)
    }

    /// What the schedule relies on, beyond what the coding says: `Err` with what must hold.
    fn check(&self) -> std::result::Result<(), &'static str> {
        let clock = self.seals.checked_mul(self.write_buffer_bytes);
        if clock.is_none_or(|clock| clock > COST_MAX) {
            return Err("a clock of at most 2^52 bytes");
        }
        for (index, level) in self.levels.iter().enumerate() {
            if level.runs.len() >= self.size_ratio as usize {
                return Err("fewer runs in a level than its size ratio");
            }
            let Some(merging) = &level.merging else { continue };
            merging.check()?;
            if merging.bottom && self.union.is_some() {
                return Err("no merge at the bottom above a pending union");
            }
            if merging.inputs.len() > self.size_ratio as usize + 1 {
                return Err("a merge of one level's runs and the last run");
            }
            // Its result needs a place, and the last run has one place only.
            let deepest = index + 1 == self.levels.len();
            if merging.to_last != deepest || (deepest && !self.last.is_empty()) {
                return Err("the deepest level's merge, and no other, in place of the last run");
            }
        }
        if self.union.is_some() && !self.last.is_empty() {
            return Err("a pending union in place of the last run");
        }
        let upserts = self.segments().any(|segment| segment.footer.counts.upserts > 0);
        if upserts && self.operator.is_none() {
            return Err("a merge operator for the upserts");
        }
        Ok(())
    }
}

impl MergeRecord {
    fn new(merging: &Merging, named: &mut NamedSegments) -> Self {
        let (state, plan) = (merging.job.state(), merging.job.plan());
        let inputs = state.inputs.iter().map(|input| match input {
            Input::Run(run) => run_record(run, named),
            Input::Buffer(_) => unreachable!("levels merge runs only"),
        });
        MergeRecord {
            debt: plan.debt,
            spent: state.spent,
            due: merging.due,
            bottom: plan.bottom,
            to_last: merging.to_last,
            done: state.done,
            filter_bits: plan.filter_bits,
            boundary: state.boundary.as_ref().map(|key| key.to_vec()),
            inputs: inputs.collect(),
            outputs: run_record(&state.outputs, named),
        }
    }

    fn encode(&self, to: &mut Encoder) {
        to.varint(self.debt);
        to.varint(self.spent);
        to.varint(self.due);
        to.u8(u8::from(self.bottom) | u8::from(self.to_last) << 1 | u8::from(self.done) << 2);
        to.u8(self.filter_bits);
        encode_optional(to, self.boundary.as_deref());
        encode_run(to, &self.outputs);
        encode_runs(to, &self.inputs);
    }

    fn decode(from: &mut Decoder<'_>, inputs_max: usize) -> Result<Self> {
        let (debt, spent, due) = (from.varint()?, from.varint()?, from.varint()?);
        let flags = from.u8()?;
        if flags > 7 {
            return Err(from.corrupt("merge flags of at most 7", flags));
        }
        let filter_bits = from.u8()?;
        if filter_bits > 24 {
            return Err(from.corrupt("a merge's filter bits of at most 24", filter_bits));
        }
        Ok(MergeRecord {
            debt,
            spent,
            due,
            bottom: flags & 1 != 0,
            to_last: flags & 2 != 0,
            done: flags & 4 != 0,
            filter_bits,
            boundary: decode_optional(from)?,
            outputs: decode_run(from)?,
            inputs: decode_runs(from, inputs_max)?,
        })
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.debt.max(self.spent) > COST_MAX {
            return Err("debt and work of at most 2^52 bytes");
        }
        if self.boundary.as_ref() != self.outputs.last().map(|segment| &segment.last_key) {
            return Err("a boundary that is the last key of the outputs");
        }
        if self.done && !self.inputs.is_empty() {
            return Err("no inputs of a merge that is done");
        }
        if self.to_last && !self.bottom {
            return Err("nothing below a merge into the last run");
        }
        Ok(())
    }
}

/// Which snapshot a manifest is of: its name and its number among the saves.
pub fn decode_identity(from: &mut Decoder<'_>) -> Result<(String, u64)> {
    let start = from.clone();
    let name = from.text()?.to_owned();
    if paths::check_name("snapshot", &name).is_err() {
        return Err(start.corrupt("the name of a snapshot", format_args!("{name:?}")));
    }
    let sequence = from.varint()?;
    if !(1..SEQUENCE_MAX).contains(&sequence) {
        return Err(from.corrupt("a sequence of at least 1 and below 2^62", sequence));
    }
    Ok((name, sequence))
}

/// Reads what stands behind the tables: sections, each with a tag of its own, to the end.
pub fn decode_sections(tables: &mut [TableRecord], from: &mut Decoder<'_>) -> Result<()> {
    let mut before = 0;
    while from.remaining() > 0 {
        match from.u8()? {
            union::TAG if before < union::TAG => union::decode(tables, from)?,
            other => return Err(from.corrupt("the tag of a section, in order", other)),
        }
        before = union::TAG;
    }
    Ok(())
}

fn flag(from: &mut Decoder<'_>) -> Result<bool> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(from.corrupt("0 or 1", other)),
    }
}

fn limited(from: &mut Decoder<'_>, most: usize) -> Result<usize> {
    let count = from.count(1)?;
    if count <= most { Ok(count) } else { Err(from.corrupt(format_args!("at most {most}"), count)) }
}

fn encode_optional(to: &mut Encoder, bytes: Option<&[u8]>) {
    to.u8(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        to.bytes_with_length(bytes);
    }
}

fn decode_optional(from: &mut Decoder<'_>) -> Result<Option<Vec<u8>>> {
    if flag(from)? { Ok(Some(from.bytes_with_length()?.to_vec())) } else { Ok(None) }
}

fn encode_run(to: &mut Encoder, run: &RunRecord) {
    to.varint(run.len() as u64);
    for segment in run {
        segment.encode(to);
    }
}

fn decode_run(from: &mut Decoder<'_>) -> Result<RunRecord> {
    let count = from.count(SEGMENT_RECORD_BYTES_MIN)?;
    let mut run: RunRecord = Vec::new();
    for _ in 0..count {
        let segment = SegmentMeta::decode(from)?;
        if run.last().is_some_and(|before| before.last_key >= segment.first_key) {
            return Err(from.corrupt("segments in key order", "overlapping segments"));
        }
        if segment.id > SEGMENT_ID_MAX {
            return Err(from.corrupt("a segment's id of at most 2^62", segment.id));
        }
        run.push(segment);
    }
    Ok(run)
}

fn encode_runs(to: &mut Encoder, runs: &[RunRecord]) {
    to.varint(runs.len() as u64);
    for run in runs {
        encode_run(to, run);
    }
}

fn decode_runs(from: &mut Decoder<'_>, most: usize) -> Result<Vec<RunRecord>> {
    let count = limited(from, most)?;
    (0..count).map(|_| decode_run(from)).collect()
}

impl Manifest {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        to.raw(&self.header.encode());
        to.bytes_with_length(self.name.as_bytes());
        to.varint(self.sequence);
        to.bytes_with_length(self.label.as_bytes());
        to.bytes_with_length(&self.payload);
        encode_tables(&self.tables, &mut to);
        finish_with_checksum(to)
    }

    /// Decodes the manifest called `file`.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<Self> {
        let header = Header::expect(file, bytes, FileKind::Snapshot)?;
        let mut from = checked_body(file, bytes, "manifest checksum")?;
        let (name, sequence) = decode_identity(&mut from)?;
        let label = from.text()?.to_owned();
        let payload = from.bytes_with_length()?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(from.corrupt("a payload of at most 16 MiB", payload.len()));
        }
        let payload = payload.to_vec();
        let tables = decode_tables(&mut from)?;
        Ok(Manifest { header, name, sequence, label, payload, tables })
    }

    /// The header of the manifest of snapshot `name` of the session `store`.
    #[must_use]
    pub fn header(store: u64, name: &str) -> Header {
        let path = paths::snapshot(name);
        Header::new(FileKind::Snapshot, combine(store, crc(path.as_bytes()).into()), store)
    }

    /// `Corrupt` unless `file` holds the manifest of snapshot `name` of the session `store`: one that
    /// was copied or renamed would pass another state for this one.
    pub fn expect(&self, file: &str, store: u64, name: &str) -> Result<()> {
        if self.header.store != store {
            return Err(Error::corrupt(
                file,
                0,
                "a snapshot of this session",
                "one of another session: if the others are too, put this session's own file `session` \
                 back; otherwise move this file away, and import the snapshot",
            ));
        }
        if self.name != name {
            return Err(Error::corrupt(
                file,
                LENGTH as u64,
                format_args!("the snapshot \"{name}\""),
                format_args!(
                    "the snapshot \"{}\", copied or renamed: give the file that name again, or put the \
                     file of \"{name}\" back",
                    self.name
                ),
            ));
        }
        Ok(())
    }

    /// Every segment that it names; one may come more than once.
    pub fn segments(&self) -> std::vec::IntoIter<&SegmentMeta> {
        segments_of(self.tables.iter())
    }

    /// Every blob file that its segments refer to; one may come more than once.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobMeta> {
        self.segments().flat_map(|segment| &segment.blobs).map(|it| &it.file)
    }

    /// The id and the path of every file that it names; one may come more than once.
    pub fn files(&self) -> impl Iterator<Item = (u64, String)> {
        named_files(self.segments())
    }
}

impl TableRecord {
    /// Bytes of the segments that it names and of the blob files that these refer to.
    fn disk_bytes(&self) -> u64 {
        let blobs = self.segments().flat_map(|segment| &segment.blobs);
        let blobs = order::map(blobs.map(|it| (it.file.id, it.file.file_bytes())));
        self.segments().map(SegmentMeta::file_bytes).sum::<u64>() + blobs.values().sum::<u64>()
    }
}

/// The counted files of segments and of the blob files that they refer to, by id.
pub fn files_of(named: &NamedSegments) -> BTreeMap<u64, Arc<SharedFile>> {
    let mut files = BTreeMap::new();
    for (id, segment) in named {
        files.insert(*id, Arc::clone(segment.shared()));
        let blobs = segment.blobs().iter();
        files.extend(blobs.map(|blob| (blob.meta().id, Arc::clone(blob.shared()))));
    }
    files
}

/// Every segment that the tables name. As a list: an iterator over all of their parts is a type of its own with much code.
pub fn segments_of<'a>(
    tables: impl Iterator<Item = &'a TableRecord>,
) -> std::vec::IntoIter<&'a SegmentMeta> {
    let mut all = Vec::new();
    for table in tables {
        table.list_segments(&mut all);
    }
    all.into_iter()
}

/// The id and the path of each of `segments` and of the blob files that it refers to.
pub fn named_files(
    segments: std::vec::IntoIter<&SegmentMeta>,
) -> std::vec::IntoIter<(u64, String)> {
    let mut all = Vec::new();
    for segment in segments {
        for blob in &segment.blobs {
            all.push((blob.file.id, paths::blob(blob.file.id)));
        }
        all.push((segment.id, paths::segment(segment.id)));
    }
    all.into_iter()
}

/// Tables and all that stands behind them, as a manifest and a checkpoint have them.
pub fn encode_tables(tables: &[TableRecord], to: &mut Encoder) {
    to.varint(tables.len() as u64);
    for table in tables {
        table.encode(to);
    }
    union::encode(tables, to);
}

/// What [`encode_tables`] encoded, up to the end.
pub fn decode_tables(from: &mut Decoder<'_>) -> Result<Vec<TableRecord>> {
    let count = from.count(TABLE_RECORD_BYTES_MIN)?;
    let (mut tables, mut names) = (Vec::<TableRecord>::new(), BTreeSet::new());
    for _ in 0..count {
        let table = TableRecord::decode(from)?;
        paths::check_name("table", &table.name)
            .map_err(|_| from.corrupt("a table's name", &table.name))?;
        if !names.insert(table.name.clone()) {
            return Err(from.corrupt("tables of different names", &table.name));
        }
        tables.push(table);
    }
    decode_sections(&mut tables, from)?;
    check_tables(&tables).map_err(|expected| from.corrupt(expected, "others"))?;
    Ok(tables)
}

/// That a segment is described once, and that sums over all segments do not overflow.
fn check_tables(tables: &[TableRecord]) -> std::result::Result<(), &'static str> {
    let (mut known, mut blobs, mut sum) = (BTreeMap::new(), BTreeMap::new(), 0u64);
    for segment in tables.iter().flat_map(TableRecord::segments) {
        if *known.entry(segment.id).or_insert(segment) != segment {
            return Err("one description of each segment");
        }
        let cost = segment.footer.counts.cost().max(segment.file_bytes());
        sum = sum.saturating_add(cost).saturating_add(segment.footer.counts.blob_bytes);
        for it in &segment.blobs {
            if *blobs.entry(it.file.id).or_insert(it.file) != it.file {
                return Err("one description of each blob file");
            }
            sum = sum.saturating_add(it.file.file_bytes());
        }
        if sum > COST_MAX {
            return Err("files of at most 2^52 bytes together");
        }
    }
    if blobs.keys().any(|&id| id > SEGMENT_ID_MAX || known.contains_key(&id)) {
        return Err("blob files with ids of at most 2^62, which no segment has");
    }
    Ok(())
}

/// What [`crate::Session::list_snapshots`] says of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// Which save of the session it is: of two, the later one has the greater number.
    pub sequence: u64,
    /// Its label.
    pub label: String,
    /// Bytes of the application's payload.
    pub payload_bytes: u64,
    /// Its tables, in the order given when it was saved.
    pub tables: Vec<SnapshotTable>,
    /// Bytes of the manifest and of all files that it names, shared ones included.
    pub disk_bytes: u64,
    /// What is wrong with its manifest, if anything; then the rest is empty.
    pub damage: Option<String>,
}

/// A table of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotTable {
    /// Its name.
    pub name: String,
    /// Entries of every kind, those that hide each other included.
    pub physical_entries: u64,
    /// Bytes of its segments and blob files.
    pub disk_bytes: u64,
    /// Name of its merge operator.
    pub operator: Option<String>,
}

impl SnapshotInfo {
    pub(in crate::table) fn new(name: &str, manifest: &Manifest, manifest_bytes: u64) -> Self {
        let tables = manifest.tables.iter().map(|table| SnapshotTable {
            name: table.name.clone(),
            physical_entries: table.segments().map(SegmentMeta::entries).sum(),
            disk_bytes: table.disk_bytes(),
            operator: table.operator.clone(),
        });
        let segments = manifest.segments().map(|segment| (segment.id, segment.file_bytes()));
        let blobs = manifest.blobs().map(|blob| (blob.id, blob.file_bytes()));
        let distinct = order::map(segments.chain(blobs));
        SnapshotInfo {
            name: name.to_owned(),
            sequence: manifest.sequence,
            label: manifest.label.clone(),
            payload_bytes: manifest.payload.len() as u64,
            tables: tables.collect(),
            disk_bytes: manifest_bytes + distinct.values().sum::<u64>(),
            damage: None,
        }
    }

    pub(in crate::table) fn damaged(name: &str, error: &Error) -> Self {
        SnapshotInfo {
            name: name.to_owned(),
            sequence: 0,
            label: String::new(),
            payload_bytes: 0,
            tables: Vec::new(),
            disk_bytes: 0,
            damage: Some(error.detail().to_owned()),
        }
    }
}
