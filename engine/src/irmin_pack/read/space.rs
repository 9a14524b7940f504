//! Addresses: which byte of which file an offset is.
//!
//! Offsets never change. What was collected lives on in prefix and mapping as far as it is still
//! wanted, and with a lower layer in its volumes; everything newer is in the chunks of the suffix.
//! Rules: `docs/format/irmin-pack.md`.

use std::sync::Arc;

use super::files::{Part, small};
use crate::cache::Cache;
use crate::disk::Disk;
use crate::disk::subfolder::Subfolder;
use crate::error::{Error, Kind, Result};
use crate::irmin_pack::format::control::{
    BYTES_MAX, Control, HEADER, Status, VolumeControl, old_header,
};
use crate::irmin_pack::format::dict::Dict;

/// Bytes of a record of a mapping.
pub(crate) const RANGE: u64 = 24;

/// Live ranges of old offsets, and the file that holds them side by side.
#[derive(Debug)]
struct Ranges {
    mapping: Part,
    data: Part,
    /// Of a volume, which is appended to: the offset that its last range reaches. While a collection adds to
    /// it, and after one was killed, there is more data than its control file knows of. Without it, all was
    /// written at once, so that nothing lies before, between or behind the ranges.
    reaches: Option<u64>,
}

/// One range: offsets from `offset` on are `length` bytes at `place`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) place: u64,
    pub(crate) length: u64,
}

impl Range {
    /// Reads a record: three little-endian numbers.
    pub(crate) fn decode(bytes: &[u8]) -> Range {
        let number = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a record has 24 bytes"))
        };
        Range { offset: number(0), place: number(8), length: number(16) }
    }

    /// Whether it is one that `data_bytes` of data can have.
    pub(crate) fn is_possible(&self, data_bytes: u64) -> bool {
        let end = self.place.checked_add(self.length);
        self.offset >> 62 == 0 && self.length > 0 && end.is_some_and(|end| end <= data_bytes)
    }
}

impl Ranges {
    fn open(
        disk: &dyn Disk,
        names: (&str, &str),
        end: Option<u64>,
        reaches: Option<u64>,
        cache: &Arc<Cache>,
    ) -> Result<Ranges> {
        let mapping = Part::open(disk, names.0, called(disk, names.0), cache)?;
        let end = end.unwrap_or(mapping.end);
        let mapping = mapping.bounded(0, end, "the control file")?;
        if !end.is_multiple_of(RANGE) {
            return Err(Error::corrupt(mapping.name(), end, "records of 24 bytes", "part of one"));
        }
        let data = Part::open(disk, names.1, called(disk, names.1), cache)?;
        Ok(Ranges { mapping, data, reaches })
    }

    fn range(&self, number: u64) -> Result<Range> {
        let mut bytes = Vec::new();
        self.mapping.gather(number * RANGE, RANGE, &mut bytes)?;
        let range = Range::decode(&bytes);
        if range.is_possible(self.data.end) {
            return Ok(range);
        }
        Err(Error::corrupt(
            self.mapping.name(),
            number * RANGE,
            format_args!("a range of the {} bytes of {}", self.data.end, self.data.name()),
            format_args!("{} bytes at {}", range.length, range.place),
        ))
    }

    fn count(&self) -> u64 {
        self.mapping.end / RANGE
    }

    /// Ranges are side by side in the data and in order: `Corrupt` unless `range` and the ones
    /// around it are, which finds most of what may befall a file without checksums.
    fn follows(&self, number: u64, range: &Range) -> Result<()> {
        let fits = |before: &Range, after: &Range| {
            let end = before.offset.checked_add(before.length);
            before.place + before.length == after.place
                && end.is_some_and(|end| end <= after.offset)
        };
        let last = number + 1 == self.count();
        let sound = if last {
            let reached = range.offset.checked_add(range.length);
            range.place + range.length == self.data.end
                || reached.is_some_and(|reached| self.reaches == Some(reached))
        } else {
            fits(range, &self.range(number + 1)?)
        };
        let sound = sound
            && match number.checked_sub(1) {
                None => range.place == 0 || self.reaches.is_some(),
                Some(before) => fits(&self.range(before)?, range),
            };
        if sound {
            return Ok(());
        }
        Err(Error::corrupt(
            self.mapping.name(),
            number * RANGE,
            "ranges in order, side by side",
            format_args!("{} bytes of offset {} at {}", range.length, range.offset, range.place),
        ))
    }

    /// Byte of the data at which `offset` is, and how many bytes of its range are left.
    fn locate(&self, offset: u64) -> Result<Option<(u64, u64)>> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            if self.range(middle)?.offset <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(before) = low.checked_sub(1) else { return Ok(None) };
        let range = self.range(before)?;
        self.follows(before, &range)?;
        let inside = offset - range.offset;
        Ok((inside < range.length).then(|| (range.place + inside, range.length - inside)))
    }
}

/// A file of the lower layer.
#[derive(Debug)]
struct Volume {
    start: u64,
    end: u64,
    ranges: Ranges,
}

/// Bytes at an address: a file, the place in it, and how many of them follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) part: &'a Part,
    pub(crate) position: u64,
    pub(crate) left: u64,
}

/// Whether to look at the lower layer only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Anywhere,
    Lower,
}

/// All pack files of a store, as its control file names them.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) control: Control,
    control_name: String,
    pub(crate) dict: Dict,
    /// Chunks, each with what is in the ones before it.
    chunks: Vec<(u64, Part)>,
    suffix_start: u64,
    dead_bytes: u64,
    end: u64,
    prefix: Option<Ranges>,
    volumes: Vec<Volume>,
    /// Volumes exist but were not given.
    lower_unknown: bool,
}

/// How messages name a file.
fn called(disk: &dyn Disk, path: &str) -> String {
    format!("{}/{path}", disk.root())
}

/// `error` of opening a file that the control file names. Before version 4 that has no checksum, so
/// either of the two may be what is wrong.
fn unfounded(disk: &dyn Disk, error: Error) -> Error {
    if error.kind() != Kind::Missing {
        return error;
    }
    Error::corrupt(
        &called(disk, "store.control"),
        0,
        "the names of files that are there",
        format_args!("one of which the disk says: {}", error.detail()),
    )
}

/// The control file; versions 1 and 2 get one from the headers of their files.
pub(crate) fn control(disk: &dyn Disk) -> Result<Control> {
    if let Some(bytes) = small(disk, "store.control", BYTES_MAX)? {
        return Control::decode(&called(disk, "store.control"), &bytes);
    }
    let header = |path: &str, cut: bool| -> Result<(u64, u32)> {
        let file = disk.open(path, crate::disk::Mode::Read, crate::disk::Access::Buffered)?;
        let mut bytes = [0; HEADER as usize];
        if cut && file.len()? == 0 {
            return Ok((0, 1));
        }
        file.read_exact_at(0, &mut bytes)?;
        old_header(&called(disk, path), &bytes)
    };
    let (chunk_end, version) = header("store.pack", false)?;
    let dict = header("store.dict", true).map_err(|error| match error.kind() {
        Kind::Missing => {
            let pack = called(disk, "store.pack");
            Error::corrupt(&pack, 0, "a file store.dict beside it", "none")
        }
        _ => error,
    });
    let (dict_end, _) = dict?;
    Ok(Control::of_one_chunk(version, dict_end, chunk_end, Status::Upgraded(chunk_end)))
}

impl Space {
    /// Opens every file that `control` names.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        lower: Option<&Arc<dyn Disk>>,
        control: Control,
        cache: &Arc<Cache>,
    ) -> Result<Space> {
        let header = control.header_bytes();
        let dict_part = Part::open(&**disk, "store.dict", called(&**disk, "store.dict"), cache);
        let dict_part = dict_part.map_err(|error| unfounded(&**disk, error))?;
        let start = header.min(dict_part.end);
        let dict_part = dict_part.bounded(start, start + control.dict_end, "the control file")?;
        let bytes = dict_part.read(dict_part.start, dict_part.end)?;
        let dict = Dict::decode(dict_part.name(), dict_part.start, &bytes)?;
        let mut space = Space {
            dict,
            chunks: Vec::new(),
            suffix_start: 0,
            dead_bytes: 0,
            end: 0,
            prefix: None,
            volumes: Vec::new(),
            lower_unknown: false,
            control,
            control_name: called(&**disk, "store.control"),
        };
        let total = space.open_chunks(&**disk, header, cache)?;
        if let Some(collected) = space.control.collected() {
            space.suffix_start = collected.suffix_start;
            space.dead_bytes = collected.dead_bytes;
            if collected.dead_bytes > total {
                return Err(Error::corrupt(
                    &called(&**disk, "store.control"),
                    0,
                    format_args!("at most {total} dead bytes, as the chunks have"),
                    collected.dead_bytes,
                ));
            }
            let (mapping, prefix) = (
                format!("store.{}.mapping", collected.generation),
                format!("store.{}.prefix", collected.generation),
            );
            let end = collected.mapping_end;
            space.prefix = match Ranges::open(&**disk, (&mapping, &prefix), end, None, cache) {
                Ok(ranges) => Some(ranges),
                // Moved to the lower layer as a whole: nothing was kept here.
                Err(error) if error.kind() == Kind::Missing && end == Some(0) => None,
                Err(error) => return Err(unfounded(&**disk, error)),
            };
        }
        space.end = space.suffix_start + total - space.dead_bytes;
        space.open_volumes(disk, lower, cache)?;
        space.check_target()?;
        Ok(space)
    }

    fn open_chunks(&mut self, disk: &dyn Disk, header: u64, cache: &Arc<Cache>) -> Result<u64> {
        let mut total = 0;
        for number in 0..self.control.chunk_count {
            let path = if self.control.version < 3 {
                "store.pack".to_owned()
            } else {
                format!("store.{}.suffix", self.control.chunk_start + number)
            };
            let part = Part::open(disk, &path, called(disk, &path), cache)
                .map_err(|error| unfounded(disk, error))?;
            let start = if number == 0 && self.control.chunk_start == 0 { header } else { 0 };
            let end = if number + 1 == self.control.chunk_count {
                start + self.control.chunk_end
            } else {
                part.end
            };
            // A store without objects may have no header either.
            let start = if end == start { start.min(part.end) } else { start };
            let part = part.bounded(start, end.max(start), "the control file")?;
            let length = part.len();
            self.chunks.push((total, part));
            total += length;
        }
        Ok(total)
    }

    fn open_volumes(
        &mut self,
        disk: &Arc<dyn Disk>,
        lower: Option<&Arc<dyn Disk>>,
        cache: &Arc<Cache>,
    ) -> Result<()> {
        if self.control.volumes == 0 {
            return Ok(());
        }
        let inside: Arc<dyn Disk>;
        let lower = match lower {
            Some(lower) => lower,
            None if disk.exists("lower")? => {
                inside = Subfolder::new(Arc::clone(disk), "lower");
                &inside
            }
            None => {
                self.lower_unknown = true;
                return Ok(());
            }
        };
        let generation = self.control.collected().map_or(0, |collected| collected.generation);
        for number in 0..self.control.volumes {
            let folder = format!("volume.{number}");
            // A collection that was cut short between two renames left the new one under this name.
            let mut control = format!("{folder}/volume.{generation}.control");
            let mut bytes = small(&**lower, &control, BYTES_MAX)?;
            if bytes.is_none() {
                control = format!("{folder}/volume.control");
                bytes = small(&**lower, &control, BYTES_MAX)?;
            }
            let Some(bytes) = bytes else {
                if lower.exists(&format!("{folder}/volume.data"))? {
                    continue;
                }
                return Err(Error::missing(format!(
                    "the lower layer at {} has no {folder}: give the folder that has it",
                    lower.root()
                )));
            };
            let says = VolumeControl::decode(&called(&**lower, &control), &bytes)?;
            let names = (format!("{folder}/volume.mapping"), format!("{folder}/volume.data"));
            let end = Some(says.mapping_end);
            let ranges = Ranges::open(&**lower, (&names.0, &names.1), end, Some(says.end), cache)?;
            self.volumes.push(Volume { start: says.start, end: says.end, ranges });
        }
        Ok(())
    }

    /// The commit that the last collection was for is always kept: without it the mapping is wrong.
    fn check_target(&self) -> Result<()> {
        let (Some(prefix), Some(collected)) = (&self.prefix, self.control.collected()) else {
            return Ok(());
        };
        let Some(target) = collected.target.filter(|target| *target < self.suffix_start) else {
            return Ok(());
        };
        match self.locate(target, From::Anywhere) {
            Err(error) if error.kind() == Kind::Missing => Err(Error::corrupt(
                prefix.mapping.name(),
                0,
                format_args!("a range with the commit at offset {target}"),
                "none",
            )),
            outcome => outcome.map(drop),
        }
    }

    /// How messages name the control file.
    pub(crate) fn control_name(&self) -> &str {
        &self.control_name
    }

    /// The offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The first offset of the suffix.
    pub(crate) fn suffix_start(&self) -> u64 {
        self.suffix_start
    }

    /// Bytes of all pack files.
    pub(crate) fn bytes(&self) -> u64 {
        let ranges = self.prefix.iter().chain(self.volumes.iter().map(|volume| &volume.ranges));
        self.chunks.iter().map(|(_, part)| part.len()).sum::<u64>()
            + ranges.map(|ranges| ranges.data.end).sum::<u64>()
    }

    /// How many files objects are in.
    pub(crate) fn files(&self) -> u64 {
        (self.chunks.len() + usize::from(self.prefix.is_some()) + self.volumes.len()) as u64
    }

    /// Where `offset` is. `Missing` when it was collected; `Corrupt` beyond the end.
    pub(crate) fn locate(&self, offset: u64, from: From) -> Result<Place<'_>> {
        if from == From::Anywhere {
            if offset >= self.suffix_start {
                return self.locate_suffix(offset);
            }
            if let Some(prefix) = &self.prefix
                && let Some((position, left)) = prefix.locate(offset)?
            {
                return Ok(Place { part: &prefix.data, position, left });
            }
        }
        for volume in &self.volumes {
            if (volume.start..volume.end).contains(&offset)
                && let Some((position, left)) = volume.ranges.locate(offset)?
            {
                return Ok(Place { part: &volume.ranges.data, position, left });
            }
        }
        let advice = if self.lower_unknown {
            "it may be in the lower layer: give its folder"
        } else {
            "it was garbage collected"
        };
        Err(Error::missing(format!("no object is at offset {offset}: {advice}")))
    }

    fn locate_suffix(&self, offset: u64) -> Result<Place<'_>> {
        let logical = offset - self.suffix_start + self.dead_bytes;
        let index = self.chunks.partition_point(|(before, _)| *before <= logical);
        // Of chunks of which some are empty, the last that begins there has the bytes.
        let found = index.checked_sub(1).map(|index| &self.chunks[index]);
        match found {
            Some((before, part)) if logical - before < part.len() => {
                let position = part.start + (logical - before);
                Ok(Place { part, position, left: part.end - position })
            }
            _ => {
                let (_, part) = self.chunks.last().expect("there is at least one chunk");
                Err(Error::corrupt(
                    part.name(),
                    part.end,
                    format_args!("the object at offset {offset}"),
                    format_args!("the end of the store at offset {}", self.end),
                ))
            }
        }
    }

    /// Appends up to `length` bytes from `offset` on, fewer at the end of what lies side by side.
    pub(crate) fn gather(
        &self,
        offset: u64,
        length: u64,
        from: From,
        out: &mut Vec<u8>,
    ) -> Result<Place<'_>> {
        let first = self.locate(offset, from)?;
        first.part.gather(first.position, length.min(first.left), out)?;
        let mut done = length.min(first.left);
        while done < length && offset + done >= self.suffix_start && offset + done < self.end {
            let next = self.locate_suffix(offset + done)?;
            let count = (length - done).min(next.left);
            next.part.gather(next.position, count, out)?;
            done += count;
        }
        Ok(first)
    }
}
