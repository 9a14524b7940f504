//! Describes a trace, whatever its state.

use std::collections::BTreeMap;

use super::frame::{Call, HEAD, end_frame, frame_checksum};
use super::frame_reader::FrameReader;
use crate::format::header::{self, FileKind, Header};
use crate::outline::Outline;

/// The outline of `bytes`, which `file` names: its frames with what they have of each call.
#[must_use]
pub fn file(file: &str, bytes: &[u8]) -> Outline {
    let length = bytes.len() as u64;
    let header = match Header::expect(file, bytes, FileKind::Trace) {
        Ok(header) => header,
        Err(error) => return Outline::new("trace", 0..length).damaged(error.detail()),
    };
    let mut outline = Outline::new("trace", 0..length)
        .field("version", header.version)
        .field("identity", format_args!("{:016x}", header.identity));
    let mut offset = header::LENGTH;
    while offset < bytes.len() {
        let place = offset as u64;
        if bytes[offset..].starts_with(&end_frame(header.identity, place)) {
            outline = outline.child(Outline::new("end", place..place + HEAD as u64));
            offset += HEAD;
            if offset < bytes.len() {
                let behind = Outline::new("others", offset as u64..length);
                outline = outline.child(behind.damaged("bytes behind the end of the recording"));
            }
            break;
        }
        let Some((frame, end)) = frame(file, bytes, offset, header.identity) else {
            let cut = Outline::new("cut", offset as u64..length);
            let note = "no whole frame: the recording did not end, or it is damaged here";
            outline = outline.child(cut.damaged(note));
            break;
        };
        outline = outline.child(frame);
        offset = end;
    }
    outline
}

/// The frame at `offset` and where it ends, if it is whole.
fn frame(file: &str, bytes: &[u8], offset: usize, identity: u64) -> Option<(Outline, usize)> {
    let head = bytes.get(offset..offset + HEAD)?;
    let u32_at = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let start = offset + HEAD;
    let end = start.checked_add(u32_at(4) as usize)?;
    let rest = bytes.get(offset + 4..end)?;
    if u32_at(0) != frame_checksum(identity, offset as u64, rest) {
        return None;
    }
    let mut outline = Outline::new("frame", offset as u64..end as u64).field("calls", u32_at(8));
    let mut calls = FrameReader::new(bytes[start..end].to_vec(), start as u64, u32_at(8));
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    loop {
        match calls.next(file) {
            Ok(Some(Call { action, .. })) => *counts.entry(action.name()).or_default() += 1,
            Ok(None) => break,
            Err(error) => {
                outline = outline.damaged(error.detail());
                break;
            }
        }
    }
    for (name, count) in counts {
        outline = outline.field(name, count);
    }
    Some((outline, end))
}
