//! Describes a context's files, whatever their state: what can be decoded is, the rest is noted.
//!
//! Everything here takes bytes and fails never, because the files that people look at are broken.

use super::context_snapshot::frames;
use super::context_snapshot::import_state::ImportState;
use super::files::chunk::{Opening, Seal};
use super::files::commit::CommitBody;
use super::files::control::{Control, State};
use super::files::record::{self, Tag};
use super::files::sparse::{self, Footer};
use super::hash;
use crate::cache::PAGE;
use crate::error::{Error, Result};
use crate::file::append::{self, HEAD, Position};
use crate::file::inspect;
use crate::format::header::{self, FileKind, Header};
use crate::outline::Outline;

/// The outline of a file of a context, called `file`; none when its header's letter is no context's.
#[must_use]
pub fn file(file: &str, bytes: &[u8]) -> Option<Outline> {
    let letter = bytes.get(7).copied();
    let row =
        FileKind::ALL.iter().find(|row| bytes.starts_with(b"varvite") && Some(row.1) == letter);
    match row.map(|row| row.0) {
        Some(FileKind::Pack) => Some(pack(file, bytes)),
        Some(FileKind::Control) => Some(control(file, bytes)),
        Some(FileKind::Sparse) => Some(sparse(file, bytes)),
        Some(FileKind::ContextSnapshot) => Some(commit_file(file, bytes)),
        Some(FileKind::ImportState) => Some(import_state(file, bytes)),
        _ => None,
    }
}

/// The outline of the state of an import.
fn import_state(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("state of an import", 0..bytes.len() as u64).field("file", file);
    let whole = whole.child(inspect::header(file, bytes));
    let end = bytes.len().max(header::LENGTH) as u64;
    let body = Outline::new("state", header::LENGTH as u64..end);
    whole.child(match ImportState::decode_any(file, bytes) {
        Err(error) => body.damaged(error),
        Ok(state) => body
            .field("last commit", hash::to_text(&state.commit))
            .field("commits", state.commits)
            .field("frames taken", state.frames)
            .field("bytes of records", state.stream)
            .field("commits read", state.roots.len())
            .field("objects that wait", state.stack.len())
            .field("objects that may come again", state.table.len()),
    })
}

/// The outline of the snapshot of a commit: its beginning only, since each frame rests on those before it.
fn commit_file(file: &str, bytes: &[u8]) -> Outline {
    let end = bytes.len().max(header::LENGTH) as u64;
    let whole = Outline::new("snapshot of a commit", 0..bytes.len() as u64).field("file", file);
    let whole = whole.child(inspect::header(file, bytes));
    let opening =
        Outline::new("opening", header::LENGTH as u64..end.min(frames::FRAMES_START as u64));
    whole.child(match frames::opening(file, bytes) {
        Err(error) => opening.damaged(error),
        Ok(frames::CommitFileOpening { configuration, commits, commit }) => opening
            .field("commits", commits)
            .field("last commit", hash::to_text(&commit))
            .field("entries", configuration.entries())
            .field("flat up to", configuration.stable_hash())
            .field("child order", format_args!("{:?}", configuration.child_order()))
            .field("bytes of frames", bytes.len().saturating_sub(frames::FRAMES_START)),
    })
}

/// The outline of a control file.
#[must_use]
pub fn control(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("control", 0..bytes.len() as u64).field("file", file);
    let whole = whole.child(inspect::header(file, bytes));
    let body = Outline::new("store", header::LENGTH as u64..bytes.len().max(header::LENGTH) as u64);
    whole.child(match Control::decode(file, bytes) {
        Err(error) => body.damaged(error),
        Ok(control) => {
            let configuration = control.configuration;
            let mut body = body
                .field("epoch", control.epoch)
                .field("entries", configuration.entries())
                .field("flat up to", configuration.stable_hash())
                .field("child order", format_args!("{:?}", configuration.child_order()))
                .field("index", format_args!("{:?}", control.index))
                .field("chunks", control.chunks.len())
                .field("scan from chunk", control.checkpoint.chunk)
                .field("scan from", control.checkpoint.position.offset)
                .field("last commit", control.last_commit);
            body = collected(body, &control);
            for (name, commit) in &control.branches {
                let name = String::from_utf8_lossy(name).into_owned();
                body = body.field(format!("branch {name}"), hash::to_text(commit));
            }
            body
        }
    })
}

/// Adds what a collection took and how far one has come, where there was any.
fn collected(mut body: Outline, control: &Control) -> Outline {
    let horizon = &control.horizon;
    if horizon.commit != 0 {
        body = body
            .field("history from", horizon.commit)
            .field("only what is kept below", horizon.offset)
            .field("kept commits", horizon.kept.len());
    }
    if !control.pins.is_empty() {
        body = body.field("pins", control.pins.len());
    }
    if control.collections > 0 {
        body = body.field("collections", control.collections);
    }
    if control.is_paused {
        body = body.field("paused", "yes");
    }
    if control.has_copies {
        body = body.field("objects that may be there twice", "yes");
    }
    if control.is_unfinished {
        body = body.field("cancelled as it took away", "yes");
    }
    if let Some(cursor) = control.cursor {
        let phase = if cursor.phase == 1 { "marks" } else { "cleans" };
        body = body
            .field("collection", phase)
            .field("its next chunk", cursor.chunk)
            .field("history will be from", cursor.target);
    }
    let count = |is: fn(State) -> bool| {
        let rows = control.chunks.iter().filter(|row| is(row.state));
        rows.map(|row| row.count).sum::<u64>()
    };
    for (name, chunks) in [
        ("sparse chunks", count(|state| matches!(state, State::Sparse(_)))),
        ("chunks in the lower layer", count(State::is_lower)),
        ("of them with a part above", count(|state| matches!(state, State::Both(_)))),
        ("chunks gone", count(|state| state == State::Gone)),
    ] {
        if chunks > 0 {
            body = body.field(name, chunks);
        }
    }
    body
}

/// The outline of one whole chunk of a pack: its batches, and what each holds.
#[must_use]
pub fn pack(file: &str, bytes: &[u8]) -> Outline {
    let whole = Outline::new("pack", 0..bytes.len() as u64).field("file", file);
    let mut whole = whole.child(inspect::header(file, bytes));
    let Ok(header) = Header::expect(file, bytes, FileKind::Pack) else { return whole };
    let mut batches = Vec::new();
    let scanned = append::scan_bytes(bytes, header.identity, |position, payload| {
        batches.push(batch(file, position, payload));
        Ok(())
    });
    whole.children.extend(batches);
    match scanned {
        Err(error) => whole.damaged(error),
        Ok(scan) if scan.tail_bytes > 0 => {
            let tail = scan.end.offset..bytes.len() as u64;
            whole.child(Outline::new("tail", tail).damaged("bytes that no batch claims"))
        }
        Ok(_) => whole,
    }
}

/// The outline of a chunk that a collection rewrote: its records, and the mapping that leads to them.
#[must_use]
pub fn sparse(file: &str, bytes: &[u8]) -> Outline {
    let length = bytes.len() as u64;
    let whole = Outline::new("sparse chunk", 0..length).field("file", file);
    let whole = whole.child(inspect::header(file, bytes));
    let Ok(header) = Header::expect(file, bytes, FileKind::Sparse) else { return whole };
    let Some((_, last)) = bytes.split_last_chunk::<{ Footer::BYTES }>() else {
        return whole.damaged("it ends before its mapping");
    };
    let mapping = Footer::decode(file, length, last).and_then(|footer| {
        let table = footer.table.start as usize..footer.table.end as usize;
        footer.mapping(file, header.identity, &bytes[table])
    });
    let mapping = match mapping {
        Ok(mapping) => mapping,
        Err(error) => return whole.damaged(error),
    };
    let mut entries = Vec::new();
    for number in mapping.pages() {
        let page = bytes[number as usize * PAGE..].first_chunk().expect("the table is behind it");
        if let Err(error) = mapping.check_page(file, header.identity, number, page) {
            return whole.damaged(error);
        }
        entries.extend(sparse::entries(page));
    }
    let (start, end) = (header::LENGTH as u64, mapping.records_end());
    let bases = entries.iter().filter(|entry| !entry.is_object).count();
    let records = match kept_records(file, &header, &bytes[..end as usize], &entries) {
        Ok(records) => records,
        Err(error) => Outline::new("records", start..end).damaged(error),
    };
    whole.child(records).child(
        Outline::new("mapping", end..length)
            .field("records", mapping.records)
            .field("bases of patches only", bases)
            .field("pages", mapping.pages().len()),
    )
}

/// The records of a sparse chunk, which lie one behind the other in `bytes`, and then zeros.
fn kept_records(
    file: &str,
    header: &Header,
    bytes: &[u8],
    entries: &[sparse::KeptRecord],
) -> Result<Outline> {
    let mut outline = Outline::new("records", header::LENGTH as u64..bytes.len() as u64);
    let mut counts: [u64; 12] = [0; 12];
    let mut place = header::LENGTH as u64;
    let mut base = None;
    for entry in entries {
        let rest = usize::try_from(entry.place).ok().and_then(|place| bytes.get(place..));
        let Some(rest) = rest.filter(|_| entry.place == place) else {
            return Err(Error::corrupt(
                file,
                entry.place,
                format_args!("a record at {place}"),
                "none",
            ));
        };
        // The first record says which offset the chunk begins with.
        let base = if let Some(base) = base {
            base
        } else {
            let record = record::split(file, place, rest)?;
            let opening = Opening::decode(file, place, record.body)?;
            *base.insert(opening.base)
        };
        let record =
            record::take(file, place, header.store, base.wrapping_add(entry.distance), rest)?;
        counts[record.tag as usize] += 1;
        outline.children.extend(described(file, place, &record));
        place += record.length as u64;
    }
    if bytes[place as usize..].iter().any(|byte| *byte != 0) {
        return Err(Error::corrupt(file, place, "zeros before the mapping", "other bytes"));
    }
    Ok(with_counts(outline, &counts))
}

/// Adds how many records of each kind there are.
fn with_counts(mut outline: Outline, counts: &[u64; 12]) -> Outline {
    let names = [
        (Tag::Value, "values"),
        (Tag::Flat, "directories"),
        (Tag::Values, "leaves"),
        (Tag::Branch, "branches"),
        (Tag::FlatPatch, "patched directories"),
        (Tag::ValuesPatch, "patched leaves"),
        (Tag::BranchPatch, "patched branches"),
    ];
    for (tag, name) in names {
        if counts[tag as usize] > 0 {
            outline = outline.field(name, counts[tag as usize]);
        }
    }
    outline
}

fn batch(file: &str, position: Position, payload: &[u8]) -> Outline {
    let start = position.offset + HEAD as u64;
    let mut counts: [u64; 12] = [0; 12];
    let mut outline = Outline::new(
        format!("batch {}", position.sequence),
        position.offset..start + payload.len() as u64,
    );
    let mut at = 0;
    while at < payload.len() {
        let place = start + at as u64;
        let rest = &payload[at..];
        let length = record::length(rest).filter(|length| *length <= rest.len() as u64);
        let Some(length) = length else {
            return outline.damaged(format_args!("no record at byte {place}"));
        };
        let record = match record::split(file, place, &rest[..length as usize]) {
            Ok(record) => record,
            Err(error) => return outline.damaged(error),
        };
        counts[record.tag as usize] += 1;
        if let Some(child) = described(file, place, &record) {
            outline = outline.child(child);
        }
        at += length as usize;
    }
    with_counts(outline, &counts)
}

/// Commits and branches are worth a line of their own.
fn described(file: &str, place: u64, record: &record::Record<'_>) -> Option<Outline> {
    let span = place..place + record.length as u64;
    match record.tag {
        Tag::Commit => {
            let outline = Outline::new("commit", span).field("hash", hash::to_text(&record.hash));
            // Distances are relative to a logical offset, which a chunk alone does not know.
            Some(match CommitBody::decode(file, place, u64::MAX / 2, record.body) {
                Err(error) => outline.damaged(error),
                Ok(body) => outline
                    .field("sequence", body.sequence)
                    .field("date", body.date)
                    .field("parents", body.parents.len())
                    .field("message", String::from_utf8_lossy(&body.message)),
            })
        }
        Tag::Reference => Some(
            Outline::new("branch", span)
                .field("name", String::from_utf8_lossy(record.body))
                .field("commit", hash::to_text(&record.hash)),
        ),
        Tag::Opening => {
            let outline = Outline::new("opening", span);
            Some(match Opening::decode(file, place, record.body) {
                Err(error) => outline.damaged(error),
                Ok(opening) => outline
                    .field("epoch", opening.epoch)
                    .field("number", opening.number)
                    .field("base", opening.base)
                    .field("chain of the chunk before", format_args!("{:08x}", opening.chain))
                    .field("last commit before", opening.last_commit)
                    .field("entries", opening.configuration.entries())
                    .field("index", format_args!("{:?}", opening.index)),
            })
        }
        Tag::Seal => {
            let outline = Outline::new("end", span);
            Some(match Seal::decode(file, place, record.body) {
                Err(error) => outline.damaged(error),
                Ok(seal) => outline
                    .field("length", seal.length)
                    .field("first commit", seal.first_commit)
                    .field("last commit", seal.last_commit),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::configuration::Configuration;
    use super::super::files::control::{Cursor, Horizon, Row};
    use super::super::files::sparse::SparseFile;
    use super::super::options::Index;
    use super::*;

    fn fields(control: &Control) -> Vec<(String, String)> {
        let outline = super::control("control", &control.encode());
        assert_eq!(outline.damage_count(), 0);
        outline.children[1].fields.clone()
    }

    #[test]
    fn a_control_file_says_what_was_collected_and_how_far_a_collection_is() {
        let mut control = Control::empty(5, Configuration::TEZOS, Index::Minimal, 0);
        let before = fields(&control);
        let last = control.chunks[0];
        let states = [
            State::Gone,
            State::Sparse(SparseFile { generation: 2, bytes: 9, sum: 0 }),
            State::Gone,
            State::Lower,
            State::Whole,
        ];
        control.chunks = (0..)
            .zip(states)
            .map(|(number, state)| Row { number, base: number * last.length, state, ..last })
            .collect();
        control.checkpoint.chunk = 4;
        control.horizon = Horizon { commit: 99, offset: 120, sequence: 4, kept: vec![8, 77] };
        control.cursor = Some(Cursor { phase: 2, target: 99, chunk: 3 });
        let after = fields(&control);
        let added: Vec<String> =
            after[before.len()..].iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let expected = [
            "history from: 99",
            "only what is kept below: 120",
            "kept commits: 2",
            "collection: cleans",
            "its next chunk: 3",
            "history will be from: 99",
            "sparse chunks: 1",
            "chunks in the lower layer: 1",
            "chunks gone: 2",
        ];
        assert_eq!(added, expected);
        control.cursor = Some(Cursor { phase: 1, target: 130, chunk: 3 });
        assert!(fields(&control).contains(&("collection".to_owned(), "marks".to_owned())));
    }
}
