//! From raw results to the generated part of `docs/benchmarks.md` and its plots.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::engine::{Result, Spec};
use crate::plot;
use crate::ranges::{self, Reading};
use crate::record::{BatchTimes, Run, Setting, read, repeated};

const BEGIN: &str = "<!-- results: written by `compare report` -->";
const BEGIN_RANGES: &str = "<!-- ranges: written by `compare report` -->";
const END: &str = "<!-- end of results -->";

/// Medians over the rounds of one engine in one row.
pub struct Line {
    /// As people call the engine, with options that are not the best ones.
    pub name: String,
    /// Whether it is varvite.
    pub ours: bool,
    /// Operations a second.
    pub rate: f64,
    /// Microseconds of processor an operation.
    pub cpu_us: f64,
    /// Times of batches.
    pub times: BatchTimes,
    /// Most resident memory, in bytes.
    pub peak_rss: f64,
    /// That without pages of files.
    pub peak_anonymous: f64,
    /// Operations done, of those of a whole turnover.
    pub turnover: f64,
    /// Operations a second of each slice of the first round, by the share of a turnover at its end.
    pub slices: Vec<(f64, f64)>,
    disk: f64,
    peak_disk: f64,
    written: f64,
    open_seconds: f64,
    wrong: u64,
    rounds: usize,
}

/// Replaces the marked part of `page` and writes the plots to the folder `plots` beside it.
pub fn write(results: &Path, page: &Path, plots: &Path) -> Result<()> {
    let runs: Vec<Run> = read(results)?;
    let mut rows: BTreeMap<(u64, Setting), Vec<Line>> = BTreeMap::new();
    for runs in repeated(&runs) {
        let row = (runs[0].entries, runs[0].setting);
        rows.entry(row).or_default().push(line(&runs)?);
    }
    let folder = plots.file_name().and_then(|name| name.to_str()).ok_or("plots need a folder")?;
    fs::create_dir_all(plots)?;
    let mut text = String::new();
    for ((entries, setting), mut lines) in rows.into_iter().rev() {
        lines.sort_by(|a, b| {
            (!a.ours, a.cpu_us).partial_cmp(&(!b.ours, b.cpu_us)).expect("numbers")
        });
        let name = format!("{}-{}", short(entries), setting.name());
        writeln!(
            text,
            "\n### {} entries, {}\n",
            short(entries).replace('m', " M"),
            title(setting)
        )?;
        table(&mut text, &lines)?;
        plot::bars(&plots.join(format!("{name}-cost.svg")), &lines)?;
        plot::latencies(&plots.join(format!("{name}-batches.svg")), &lines)?;
        writeln!(text, "\n![throughput, processor and memory]({folder}/{name}-cost.svg)")?;
        writeln!(text, "\n![times of batches]({folder}/{name}-batches.svg)")?;
        if lines.iter().all(|line| line.slices.len() > 2) {
            plot::course(&plots.join(format!("{name}-course.svg")), &lines)?;
            writeln!(text, "\n![throughput in the course of the run]({folder}/{name}-course.svg)")?;
        }
    }
    let machines: Vec<_> = runs.iter().map(|run| &run.machine).collect();
    if let Some(machine) = machines.first() {
        assert!(machines.iter().all(|it| it == machine), "results of several machines do not mix");
        text.insert_str(0, &format!("\nMachine: {machine}.\n"));
    }
    replace(page, BEGIN, END, &text)
}

/// Puts `text` between the marks `begin` and `end` of `page`.
fn replace(page: &Path, begin: &str, end: &str, text: &str) -> Result<()> {
    let old = fs::read_to_string(page)?;
    let parts = old.split_once(begin).and_then(|(before, rest)| {
        rest.split_once(end).map(|(_, after)| (before.to_owned(), after.to_owned()))
    });
    let (before, after) = parts.ok_or_else(|| format!("the page has no place for {begin}"))?;
    fs::write(page, format!("{before}{begin}\n{text}\n{end}{after}"))?;
    Ok(())
}

/// Replaces the marked part of `page` that shows ranges.
pub fn write_ranges(results: &Path, page: &Path) -> Result<()> {
    let runs: Vec<ranges::Run> = read(results)?;
    let mut rows: BTreeMap<(u64, Setting), BTreeMap<&str, Vec<&ranges::Run>>> = BTreeMap::new();
    for run in &runs {
        let row = rows.entry((run.entries, run.setting)).or_default();
        row.entry(&run.spec).or_default().push(run);
    }
    let mut text = String::new();
    for ((entries, setting), engines) in rows.into_iter().rev() {
        let entries = short(entries).replace('m', " M");
        writeln!(text, "\n### Ranges of {entries} entries, {}\n", title(setting))?;
        text.push_str(
            "| engine | seek, µs | seek and 100 entries, µs | outputs of a transaction, µs | \
             scan forward, ns an entry | backward | peak memory MB (own) | disk MB | rounds |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        let mut lines: Vec<_> = engines.into_iter().collect();
        lines.sort_by_key(|(spec, _)| (!spec.starts_with("varvite"), spec.to_string()));
        for (spec, runs) in lines {
            range_line(&mut text, spec, &runs)?;
        }
    }
    replace(page, BEGIN_RANGES, END, &text)
}

fn range_line(text: &mut String, spec: &str, runs: &[&ranges::Run]) -> Result<()> {
    let median = |of: &dyn Fn(&ranges::Run) -> f64| median(runs.iter().map(|run| of(run)));
    let of = |reading: Reading, figure: fn(&ranges::Figures) -> f64| {
        median(&|run| run.figures.get(&reading).map_or(f64::NAN, figure))
    };
    let us = |reading| of(reading, ranges::Figures::cpu_us);
    let ns = |reading| of(reading, ranges::Figures::cpu_ns);
    let megabytes = |bytes: f64| thousands(bytes / 1e6);
    writeln!(
        text,
        "| {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {} ({}) | {} | {} |",
        name(&spec.parse()?),
        us(Reading::Seek),
        us(Reading::Hundred),
        us(Reading::Prefix),
        ns(Reading::Forward),
        ns(Reading::Backward),
        megabytes(median(&|run| run.peak_rss_bytes as f64)),
        megabytes(median(&|run| run.peak_anonymous_bytes as f64)),
        megabytes(median(&|run| run.disk_bytes as f64)),
        runs.len(),
    )?;
    let wrong: u64 =
        runs.iter().flat_map(|run| run.figures.values()).map(|figures| figures.wrong).sum();
    if wrong > 0 {
        writeln!(text, "\n**{spec} read {wrong} wrong ranges.**\n")?;
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn line(runs: &[&Run]) -> Result<Line> {
    let median = |of: &dyn Fn(&Run) -> f64| median(runs.iter().map(|run| of(run)));
    let spec: Spec = runs[0].spec.parse()?;
    let first = runs[0];
    let turnover = |operations: u64| operations as f64 / first.entries as f64;
    let mut done = 0;
    let slices = first.slices.iter().map(|slice| {
        done += slice.operations;
        (turnover(done), slice.operations as f64 / slice.seconds)
    });
    Ok(Line {
        name: name(&spec),
        ours: spec.engine == "varvite",
        rate: median(&Run::rate),
        cpu_us: median(&Run::cpu_us),
        times: BatchTimes {
            p50: median(&|run| run.own.batch_us.p50),
            p99: median(&|run| run.own.batch_us.p99),
            p999: median(&|run| run.own.batch_us.p999),
            max: median(&|run| run.own.batch_us.max),
        },
        peak_rss: median(&|run| run.peak_rss_bytes as f64),
        peak_anonymous: median(&|run| run.peak_anonymous_bytes as f64),
        turnover: turnover(first.operations()),
        slices: slices.collect(),
        disk: median(&|run| run.disk_bytes as f64),
        peak_disk: median(&|run| run.peak_disk_bytes as f64),
        written: median(&Run::written_per_operation),
        open_seconds: median(&|run| run.own.open_seconds),
        wrong: runs.iter().map(|run| run.own.wrong).sum(),
        rounds: runs.len(),
    })
}

/// As people call it.
fn name(spec: &Spec) -> String {
    let text = spec.to_string();
    let (engine, options) = text.split_once(':').unwrap_or((&text, ""));
    let engine = match engine {
        "rocksdb" => "RocksDB",
        "lmdb" => "LMDB",
        other => other,
    };
    if options.is_empty() { engine.to_owned() } else { format!("{engine}, {options}") }
}

fn title(setting: Setting) -> &'static str {
    match setting {
        Setting::Page => "page cache",
        Setting::Limit => "512 MB of memory",
        Setting::Synced => "every batch synced",
    }
}

fn short(entries: u64) -> String {
    if entries.is_multiple_of(1_000_000) {
        format!("{}m", entries / 1_000_000)
    } else {
        entries.to_string()
    }
}

fn table(text: &mut String, lines: &[Line]) -> Result<()> {
    text.push_str(
        "| engine | operations/s | CPU µs/op | batch ms p50 / p99 / p99.9 / max | \
         peak memory MB (own) | disk MB, end / peak | bytes written/op | open ms | turnovers |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let milliseconds =
        |us: f64| if us < 9950.0 { format!("{:.1}", us / 1e3) } else { format!("{:.0}", us / 1e3) };
    let megabytes = |bytes: f64| thousands(bytes / 1e6);
    for line in lines {
        let times = [line.times.p50, line.times.p99, line.times.p999, line.times.max];
        let rounds = if line.rounds > 1 { format!(" × {}", line.rounds) } else { String::new() };
        writeln!(
            text,
            "| {} | {} | {:.1} | {} | {} ({}) | {} / {} | {} | {} | {:.2}{rounds} |",
            line.name,
            thousands(line.rate),
            line.cpu_us,
            times.map(milliseconds).join(" / "),
            megabytes(line.peak_rss),
            megabytes(line.peak_anonymous),
            megabytes(line.disk),
            megabytes(line.peak_disk),
            thousands(line.written),
            thousands(line.open_seconds * 1e3),
            line.turnover,
        )?;
        if line.wrong > 0 {
            writeln!(text, "\n**{} gave {} wrong answers.**\n", line.name, line.wrong)?;
        }
    }
    Ok(())
}

/// A number with commas.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(999.6), "1,000");
        assert_eq!(thousands(0.0), "0");
        assert_eq!(short(10_000_000), "10m");
    }

    #[test]
    fn a_page_gets_its_tables_and_plots() {
        let folder = std::env::temp_dir().join(format!("compare-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let results = folder.join("results.jsonl");
        for (spec, rate) in [("varvite", 100), ("lmdb:writemap=0", 50)] {
            let slice = crate::record::Slice { operations: rate, seconds: 1.0, cpu_seconds: 0.5 };
            let run = Run {
                entries: 300,
                setting: Setting::Page,
                spec: spec.to_owned(),
                version: String::new(),
                round: 0,
                planned: 300,
                batch_size: 10,
                slices: vec![slice; 3],
                own: crate::record::Own::default(),
                peak_rss_bytes: 2_000_000,
                peak_anonymous_bytes: 1_000_000,
                peak_group_bytes: 0,
                disk_bytes: 0,
                peak_disk_bytes: 0,
                machine: "a machine".to_owned(),
            };
            crate::record::append(&results, &run).unwrap();
        }
        let page = folder.join("page.md");
        fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        write(&results, &page, &folder.join("plots")).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("\nafter\n"), "{text}");
        assert!(text.contains("| varvite | 100 | 5000.0 |"), "{text}");
        assert!(text.contains("| LMDB, writemap=0 | 50 | 10000.0 |"), "{text}");
        assert!(!text.contains("old"));
        for plot in ["cost", "batches", "course"] {
            let svg =
                fs::read_to_string(folder.join(format!("plots/300-page-{plot}.svg"))).unwrap();
            assert!(svg.contains("LMDB"), "{plot}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
