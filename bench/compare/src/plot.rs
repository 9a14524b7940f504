//! Plots as SVG: bars, times of batches on a logarithmic scale, and the course of a run.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::engine::Result;
use crate::report::{Line, thousands};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const FONT: &str = "Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(30, 30, 40);
const FAINT: RGBColor = RGBColor(120, 120, 130);
const RULE: RGBColor = RGBColor(225, 225, 230);
const OURS: RGBColor = RGBColor(20, 90, 200);
/// Told apart by people who do not see all colours; no peer has ours.
const PEERS: [RGBColor; 6] = [
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(140, 120, 60),
];
/// From one engine to the next, in pixels.
const STEP: i32 = 26;
const TOP: i32 = 40;
const NAMES: i32 = 190;
const WIDTH: i32 = 960;

fn style(size: i32, colour: &RGBColor, h: HPos) -> TextStyle<'_> {
    let text = TextStyle::from((FONT, size)).color(colour);
    text.pos(Pos::new(h, VPos::Center))
}

/// A peer keeps its colour in every plot.
fn colour(lines: &[Line], index: usize) -> RGBColor {
    if lines[index].ours {
        return OURS;
    }
    let first = lines[index].name.split(',').next().unwrap_or_default();
    let place = match first {
        "RocksDB" => 0,
        "LMDB" => 1,
        "redb" => 2,
        "fjall" => 3,
        _ => 4,
    };
    PEERS[place]
}

fn names(area: &Area, lines: &[Line]) -> Result<()> {
    for (index, line) in lines.iter().enumerate() {
        let ink = if line.ours { OURS } else { INK };
        let at = (NAMES - 10, TOP + index as i32 * STEP + STEP / 2);
        area.draw(&Text::new(line.name.clone(), at, style(13, &ink, HPos::Right)))?;
    }
    Ok(())
}

/// Throughput, processor time and memory, a panel each.
pub fn bars(path: &Path, lines: &[Line]) -> Result<()> {
    let height = TOP + lines.len() as i32 * STEP + 12;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    names(&area, lines)?;
    type Figure = fn(&Line) -> f64;
    let panels: [(&str, Figure, fn(f64) -> String); 3] = [
        ("operations a second (more is better)", |line| line.rate, thousands),
        ("CPU µs an operation (less is better)", |line| line.cpu_us, |us| format!("{us:.1}")),
        ("peak memory MB (less is better)", |line| line.peak_rss / 1e6, thousands),
    ];
    let each = (WIDTH - NAMES) / panels.len() as i32;
    for (place, (title, figure, show)) in panels.into_iter().enumerate() {
        let left = NAMES + place as i32 * each;
        area.draw(&Text::new(title, (left, 20), style(12, &FAINT, HPos::Left)))?;
        let most = lines.iter().map(figure).fold(f64::MIN_POSITIVE, f64::max);
        for (index, line) in lines.iter().enumerate() {
            let top = TOP + index as i32 * STEP;
            let length = (figure(line) / most * f64::from(each - 80)).max(1.0) as i32;
            let fill = if line.ours { OURS } else { RGBColor(165, 170, 180) };
            let corners = [(left, top + 4), (left + length, top + STEP - 4)];
            area.draw(&Rectangle::new(corners, fill.filled()))?;
            let at = (left + length + 6, top + STEP / 2);
            area.draw(&Text::new(show(figure(line)), at, style(12, &INK, HPos::Left)))?;
        }
    }
    area.present()?;
    Ok(())
}

/// Median, 99 %, 99.9 % and maximum of every engine, on one logarithmic scale.
pub fn latencies(path: &Path, lines: &[Line]) -> Result<()> {
    let height = TOP + lines.len() as i32 * STEP + 40;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let title = "milliseconds a batch: median ●, 99 % ■, 99.9 % ▲, longest | (less is better)";
    area.draw(&Text::new(title, (NAMES, 20), style(12, &FAINT, HPos::Left)))?;
    names(&area, lines)?;
    let least = lines.iter().map(|line| line.times.p50).fold(f64::MAX, f64::min).max(1.0);
    let most = lines.iter().map(|line| line.times.max).fold(least * 10.0, f64::max);
    let (low, high) = (least.log10() - 0.1, most.log10() + 0.1);
    let x = |us: f64| {
        let share = (us.max(1.0).log10() - low) / (high - low);
        NAMES + (share * f64::from(WIDTH - NAMES - 20)) as i32
    };
    let bottom = TOP + lines.len() as i32 * STEP + 4;
    for power in low.ceil() as i32..=high.floor() as i32 {
        for (factor, labelled) in [(1.0, true), (3.0, false)] {
            let us = factor * 10f64.powi(power);
            if us.log10() > high {
                continue;
            }
            area.draw(&PathElement::new([(x(us), TOP), (x(us), bottom)], RULE))?;
            if labelled {
                let label = format!("{}", us / 1e3);
                area.draw(&Text::new(
                    label,
                    (x(us), bottom + 14),
                    style(12, &FAINT, HPos::Center),
                ))?;
            }
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let y = TOP + index as i32 * STEP + STEP / 2;
        let ink = colour(lines, index);
        let times = &line.times;
        area.draw(&PathElement::new([(x(times.p50), y), (x(times.max), y)], ink.stroke_width(2)))?;
        area.draw(&Circle::new((x(times.p50), y), 5, ink.filled()))?;
        let at = x(times.p99);
        area.draw(&Rectangle::new([(at - 4, y - 4), (at + 4, y + 4)], ink.filled()))?;
        area.draw(&TriangleMarker::new((x(times.p999), y), 6, ink.filled()))?;
        let at = x(times.max);
        area.draw(&PathElement::new([(at, y - 7), (at, y + 7)], ink.stroke_width(2)))?;
    }
    area.present()?;
    Ok(())
}

/// Throughput of each slice over the share of the turnover that was done.
pub fn course(path: &Path, lines: &[Line]) -> Result<()> {
    let area = SVGBackend::new(path, (WIDTH as u32, 340)).into_drawing_area();
    area.fill(&WHITE)?;
    let title = "operations a second, by the share of the entries that were replaced";
    area.draw(&Text::new(title, (NAMES, 20), style(12, &FAINT, HPos::Left)))?;
    let points = || lines.iter().flat_map(|line| &line.slices);
    let right = points().map(|(share, _)| *share).fold(0.01, f64::max);
    let most = points().map(|(_, rate)| *rate).fold(1.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(36)
        .margin_right(20)
        .margin_bottom(10)
        .set_label_area_size(LabelAreaPosition::Left, NAMES)
        .set_label_area_size(LabelAreaPosition::Bottom, 28)
        .build_cartesian_2d(0.0..right, 0.0..most)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .axis_style(FAINT)
        .label_style(TextStyle::from((FONT, 12)).color(&FAINT))
        .x_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .y_label_formatter(&|rate| thousands(*rate))
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let ink = colour(lines, index);
        let mut before = 0.0;
        let steps = line.slices.iter().flat_map(|(share, rate)| {
            let step = [(before, *rate), (*share, *rate)];
            before = *share;
            step
        });
        chart.draw_series(LineSeries::new(steps.collect::<Vec<_>>(), ink.stroke_width(2)))?;
        let y = 60 + index as i32 * 22;
        area.draw(&PathElement::new([(14, y), (34, y)], ink.stroke_width(3)))?;
        area.draw(&Text::new(line.name.clone(), (42, y), style(13, &INK, HPos::Left)))?;
    }
    area.present()?;
    Ok(())
}
