//! The body of the fuzz target `operations`: bytes are a setup and a list of steps for the state machine.

use crate::setup::{DiskKind, Setup};
use crate::table_machine::{run, step::Step};

/// Two bytes choose the setup; then each step takes four.
pub fn operations(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<2>() else { return };
    let disk = if head[0] & 1 == 0 { DiskKind::Memory } else { DiskKind::Sim };
    let setup = Setup::draw(disk, u64::from(u16::from_le_bytes(*head)));
    // More than fills a few write buffers makes the same merges over and over.
    let enough = setup.operations_filling(20) as u32;
    let steps: Vec<_> =
        rest.as_chunks::<4>().0.iter().take(200).map(|bytes| step(*bytes, enough)).collect();
    if let Err(what) = run(&setup, &steps) {
        panic!("{what}\nwith {setup:?}\nand {steps:#?}");
    }
}

fn step([kind, table, low, high]: [u8; 4], count_max: u32) -> Step {
    let seed = u64::from(u16::from_le_bytes([low, high]));
    let count = (1 + u32::from(high)).min(count_max);
    match kind % 36 {
        0 => Step::Create,
        1 => Step::Lookup { table, seed, count },
        2 => Step::Range { table, seed },
        3 => Step::View { table },
        4 => Step::DropView,
        5 => Step::Cursor { table, seed },
        6 => Step::Move { cursor: table, seed },
        7 => Step::DropCursor,
        8 => Step::Duplicate { table },
        9 => Step::Close { table },
        10 => Step::Work { table, credits: seed },
        11 => Step::Help { seed },
        12 => Step::Save { seed },
        13 => Step::Open { seed },
        14 => Step::Delete { seed },
        15 => Step::List,
        16 => Step::ReadOnly { seed },
        17 => Step::Refused { table, seed },
        18 => Step::Reopen { closed: seed.is_multiple_of(2) },
        19 => Step::Crash { seed },
        20 => Step::Union { seed },
        21 => Step::Supply { table, credits: seed },
        22 => Step::Load { table, seed },
        23 => Step::Pause { seed },
        24 => Step::Travel { seed },
        25 => Step::DeleteRange { table, seed },
        26 => Step::OpenLive { seed },
        27 => Step::Publish { table },
        28 => Step::DeleteLive { seed },
        29 => Step::Together { seed, count },
        30 => Step::Find { table, seed },
        31 => Step::Stream { table, seed },
        _ => Step::Update { table, seed, count },
    }
}

#[cfg(test)]
mod tests {
    use crate::random::Random;

    #[test]
    fn operation_lists_from_bytes_agree_with_the_model() {
        let mut random = Random::new(5);
        for _ in 0..40 * crate::damage::effort() {
            let length = random.index(400);
            super::operations(&random.bytes(length));
        }
    }
}
