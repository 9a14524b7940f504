//! What a case is made of: steps drawn from a seed, printable.
//!
//! A step means something in every state (numbers are taken modulo what is there), so a failing list stays
//! a list of steps when some are taken out.

use varvite::Log;

use crate::random::Random;
use crate::setup::{DiskKind, Setup};

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Create,
    Update {
        table: u8,
        seed: u64,
        count: u32,
    },
    Lookup {
        table: u8,
        seed: u64,
        count: u32,
    },
    /// Finds values, reads them together, and holds some of them.
    Find {
        table: u8,
        seed: u64,
    },
    /// Inserts a value that is written in pieces, or one that was found.
    Stream {
        table: u8,
        seed: u64,
    },
    Range {
        table: u8,
        seed: u64,
    },
    View {
        table: u8,
    },
    DropView,
    Cursor {
        table: u8,
        seed: u64,
    },
    Move {
        cursor: u8,
        seed: u64,
    },
    DropCursor,
    Duplicate {
        table: u8,
    },
    Union {
        seed: u64,
    },
    Supply {
        table: u8,
        credits: u64,
    },
    Close {
        table: u8,
    },
    DeleteRange {
        table: u8,
        seed: u64,
    },
    /// A live table that may be open already.
    OpenLive {
        seed: u64,
    },
    Publish {
        table: u8,
    },
    DeleteLive {
        seed: u64,
    },
    /// One update of several tables.
    Together {
        seed: u64,
        count: u32,
    },
    /// A snapshot to a folder of its own, and back under another name.
    Travel {
        seed: u64,
    },
    /// A new table from a stream, sorted or not, beside the one that it is told of.
    Load {
        table: u8,
        seed: u64,
    },
    Work {
        table: u8,
        credits: u64,
    },
    /// Merges are paused or resumed.
    Pause {
        seed: u64,
    },
    Help {
        seed: u64,
    },
    Save {
        seed: u64,
    },
    Open {
        seed: u64,
    },
    Delete {
        seed: u64,
    },
    List,
    ReadOnly {
        seed: u64,
    },
    /// The live tables to another folder, perhaps one with an earlier backup.
    BackUp {
        seed: u64,
    },
    /// Another session looks at the live tables, first and then again and again.
    Follow,
    /// A store that is sound, to another folder.
    Repair {
        seed: u64,
    },
    /// Everything read, in parts.
    Scrub {
        seed: u64,
    },
    Refused {
        table: u8,
        seed: u64,
    },
    Compare,
    /// The session ends, in order or not, and is opened again.
    Reopen {
        closed: bool,
    },
    /// The power goes: on the simulated disk only.
    Crash {
        seed: u64,
    },
    /// Sessions that update one live table each, as many as have the log make one file of theirs.
    Restarts {
        seed: u64,
    },
}

/// Write buffers that a batch fills at most, in all but one of this many cases.
const BUFFERS: u64 = 20;
const FREE: u64 = 200;

/// The steps of a case.
pub fn draw(setup: &Setup, seed: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let most = random.choose(&[3, 30, 300]);
    // A batch of hundreds of tiny write buffers makes the same merges over and over. Few cases that
    // do took nearly all the time, so they are drawn rarely.
    let enough = setup.operations_filling(BUFFERS);
    let most = if random.one_in(FREE) { most } else { most.min(enough) };
    let mut draw = |_| {
        let (table, seed) = (random.next() as u8, random.next());
        let size = 1 + random.below(most) as u32;
        match random.below(100) {
            0..2 => Step::Create,
            2..36 => Step::Update { table, seed, count: size },
            36..38 => Step::Together { seed, count: size },
            38 if seed.is_multiple_of(3) => Step::DeleteLive { seed },
            38 => Step::OpenLive { seed },
            39 => Step::Publish { table },
            40..42 => Step::Find { table, seed },
            42..43 => Step::Stream { table, seed },
            43..45 if setup.log != Log::None && seed.is_multiple_of(2) => {
                Step::Stream { table, seed }
            }
            // A log is for what happens when a session ends.
            43..47 if setup.log != Log::None && setup.disk == DiskKind::Sim => Step::Crash { seed },
            43..47 if setup.log != Log::None => Step::Reopen { closed: seed.is_multiple_of(2) },
            43..50 => Step::Lookup { table, seed, count: size },
            50..53 => Step::Range { table, seed },
            53..54 => Step::DeleteRange { table, seed },
            54..58 => Step::View { table },
            58..59 => Step::DropView,
            59 => Step::Follow,
            60..63 => Step::Cursor { table, seed },
            63..70 => Step::Move { cursor: table, seed },
            70..71 => Step::DropCursor,
            71..74 => Step::Duplicate { table },
            74..75 if seed.is_multiple_of(2) => Step::Load { table, seed },
            74..75 => Step::Close { table },
            75..77 => Step::Union { seed },
            77..78 => Step::Supply { table, credits: random.choose(&[0, 1, 2_000, u64::MAX]) },
            78..79 => Step::Pause { seed },
            79..80 => Step::Work { table, credits: random.choose(&[1, 200, 5_000, u64::MAX]) },
            80..82 => Step::Help { seed },
            82 => match seed % 8 {
                0..5 => Step::BackUp { seed },
                5..7 => Step::Scrub { seed },
                _ => Step::Repair { seed },
            },
            83..87 => Step::Save { seed },
            87..90 => Step::Open { seed },
            90..92 => Step::Delete { seed },
            92..93 if seed.is_multiple_of(3) => Step::List,
            92..93 => Step::Travel { seed },
            93..94 => Step::ReadOnly { seed },
            94..96 => Step::Refused { table, seed },
            96..97 => Step::Compare,
            97 if setup.log != Log::None => Step::Restarts { seed },
            97..99 => Step::Reopen { closed: seed.is_multiple_of(2) },
            _ if setup.disk == DiskKind::Sim => Step::Crash { seed },
            _ => Step::Compare,
        }
    };
    (0..count).map(&mut draw).collect()
}
