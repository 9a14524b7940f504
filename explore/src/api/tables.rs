//! Tables: their levels, filters and merges.

use serde_json::{Value, json};
use varvite::{Kind, Table};

use super::{Made, State, Until};
use crate::answer::{Answer, Fault};
use crate::query::Query;
use crate::sources::{OpenTables, try_lock};

/// Lookups by which filters are measured, when asked for.
const PROBES_MAX: u64 = 20_000;

/// Keys looked up at once.
const BATCH: u64 = 256;

/// `/api/levels`.
pub fn levels(state: &State, query: &Query, until: &Until) -> Made {
    let shown = state.store(query)?;
    let why = || Fault::missing(format!("store {} holds a context, not tables", shown.source.name));
    let open = shown.tables().ok_or_else(why)??;
    let named = query.text("table")?;
    let probes = query.number("probes", 0, PROBES_MAX)?;
    let names: Vec<_> = open.tables.iter().map(|table| table.name().to_owned()).collect();
    let found = match &named {
        Some(name) => open.tables.iter().find(|table| table.name() == name),
        None => open.tables.first(),
    };
    let Some(table) = found else {
        return match named {
            Some(name) => Err(Fault::missing(format!(
                "there is no table {name}; there are: {}",
                names.join(", ")
            ))),
            None => Ok(Answer::Json(
                json!({ "tables": names, "place": open.place, "levels": [], "merges": [] }),
                "levels",
            )),
        };
    };
    let measured = if probes > 0 {
        // The counters are those of the session, for all who look things up in it.
        let busy = || Fault::busy("somebody measures the filters: ask again in a moment");
        let _alone = try_lock(&shown.counting).ok_or_else(busy)?;
        measure(&open, table, probes, until)?
    } else {
        Vec::new()
    };
    let stats = table.stats()?;
    let levels: Vec<_> = stats
        .levels
        .iter()
        .enumerate()
        .map(|(at, level)| {
            json!({
                "level": at + 1, "is_last": level.is_last, "runs": level.runs, "segments": level.segments,
                "entries": level.entries, "disk_bytes": level.disk_bytes, "filter_bytes": level.filter_bytes,
                "filter_bits_per_entry": level.filter_bytes as f64 * 8.0 / level.entries.max(1) as f64,
                "probes": measured.get(at).map(|it| it.0), "passes": measured.get(at).map(|it| it.1),
            })
        })
        .collect();
    let merges: Vec<_> = stats.merges.iter().map(|merge| json!({
        "level": merge.level, "is_union": merge.is_union, "spent_bytes": merge.spent_bytes, "debt_bytes": merge.debt_bytes,
    })).collect();
    Ok(Answer::Json(
        json!({
            "table": stats.name, "tables": names, "place": open.place, "entries": stats.physical_entries,
            "keys_min": stats.logical_entries_min, "keys_max": stats.logical_entries_max,
            "disk_bytes": stats.disk_bytes, "blob_files": stats.blob_files, "blob_disk_bytes": stats.blob_disk_bytes,
            "blob_bytes": stats.blob_bytes, "debt_bytes": stats.debt_bytes, "union_debt_bytes": stats.union_debt_bytes,
            "buffer_bytes": stats.buffer_bytes, "filter_bytes": stats.filter_memory_bytes,
            "index_bytes": stats.index_memory_bytes, "merges": merges, "levels": levels,
        }),
        "levels",
    ))
}

/// Looks for keys that are not there: those that each level's filter lets pass are its false positives. The keys are
/// those of the table with every byte changed; of these, the ones that are there after all are left out.
fn measure(
    open: &OpenTables,
    table: &Table,
    probes: u64,
    until: &Until,
) -> Result<Vec<(u64, u64)>, Fault> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for entry in table.iter().take(1_024) {
        seeds.push(entry?.0.to_vec());
    }
    if seeds.is_empty() {
        return Ok(Vec::new());
    }
    let (mut number, mut sums) = (0_u64, Vec::new());
    while number < probes && !until.is_over() {
        let mut batch: Vec<Vec<u8>> =
            (number..probes.min(number + BATCH)).map(|at| mangled(&seeds, at)).collect();
        number += batch.len() as u64;
        // Where a value cannot be read, its key may be there.
        match table.lookup(&batch) {
            Err(error) if error.kind() == Kind::Corrupt => continue,
            found => {
                let found = found?;
                let mut at = 0;
                batch.retain(|_| {
                    at += 1;
                    found.get(at - 1).is_none()
                });
            }
        }
        let before = open.session.stats().filters;
        table.lookup(&batch)?;
        let after = open.session.stats().filters;
        sums.resize(after.len().max(sums.len()), (0, 0));
        for (at, (sum, now)) in sums.iter_mut().zip(after).enumerate() {
            let before = before.get(at).copied().unwrap_or_default();
            sum.0 += now.probes - before.probes;
            sum.1 += now.passes - before.passes;
        }
    }
    Ok(sums)
}

/// A key as long as one of the table, every byte of it mixed with the number.
fn mangled(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut key = seeds[number as usize % seeds.len()].clone();
    let mut mix = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if key.is_empty() {
        key.push(0);
    }
    for byte in &mut key {
        mix ^= mix >> 29;
        mix = mix.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *byte ^= (mix >> 56) as u8;
    }
    key
}

/// What the overview says of tables.
pub fn about(open: &OpenTables) -> Result<Value, Fault> {
    let mut tables = Vec::new();
    for table in &open.tables {
        let stats = table.stats()?;
        tables.push(json!({
            "name": stats.name, "entries": stats.physical_entries, "disk_bytes": stats.disk_bytes,
            "levels": stats.levels.len(), "merges": stats.merges.len(), "debt_bytes": stats.debt_bytes,
            "memory_bytes": stats.filter_memory_bytes + stats.index_memory_bytes + stats.buffer_bytes,
        }));
    }
    let snapshots: Vec<_> = open.session.list_snapshots()?.into_iter().map(|it| it.name).collect();
    Ok(json!({ "place": open.place, "tables": tables, "snapshots": snapshots }))
}
