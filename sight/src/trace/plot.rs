//! Lines and bars as inline SVG, which take their colours from the page.

use std::fmt::Write as _;

/// A line: what it is called, and its points.
pub struct Line<'a> {
    pub name: &'a str,
    pub points: Vec<(f64, f64)>,
}

/// How an axis counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// By powers of ten; what is not above zero is left out.
    Logarithmic,
}

/// A chart of lines.
pub struct Chart<'a> {
    pub title: &'a str,
    pub x: (&'a str, Scale),
    pub y: (&'a str, Scale),
    pub lines: Vec<Line<'a>>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;

/// What stands for `text` in a page.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Such have no place in a page.
            it if it.is_control() => out.push('\u{fffd}'),
            it => out.push(it),
        }
    }
    out
}

/// A number in few letters: `1.2 k`, `350 µ`.
pub fn short(value: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    if value == 0.0 {
        return "0".to_owned();
    }
    for (size, unit) in UNITS {
        if value.abs() >= size {
            let scaled = value / size;
            let digits = usize::from(scaled.abs() < 10.0);
            let text = format!("{scaled:.digits$}");
            let text = text.strip_suffix(".0").unwrap_or(&text).to_owned();
            return if unit.is_empty() { text } else { format!("{text} {unit}") };
        }
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Axis {
    scale: Scale,
    least: f64,
    most: f64,
}

impl Axis {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let usable = values.filter(|it| it.is_finite() && (scale == Scale::Linear || *it > 0.0));
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in usable {
            (least, most) = (least.min(value), most.max(value));
        }
        if scale == Scale::Linear {
            least = least.min(0.0);
        }
        if !least.is_finite() || !most.is_finite() {
            (least, most) = (0.0, 1.0);
        }
        if scale == Scale::Logarithmic {
            (least, most) = (least.max(1e-9).log10().floor(), most.max(1e-9).log10().ceil());
        }
        if most <= least {
            most = least + 1.0;
        }
        Axis { scale, least, most }
    }

    /// Where a value is, from 0 to 1.
    fn place(&self, value: f64) -> Option<f64> {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic if value > 0.0 => value.log10(),
            Scale::Logarithmic => return None,
        };
        let place = (value - self.least) / (self.most - self.least);
        place.is_finite().then(|| place.clamp(0.0, 1.0))
    }

    /// Values that are written beside it.
    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Logarithmic => {
                let (least, most) = (self.least as i32, self.most as i32);
                let step = ((most - least) / 6 + 1) as usize;
                (least..=most).step_by(step).map(|power| 10f64.powi(power)).collect()
            }
            Scale::Linear => {
                let raw = (self.most - self.least) / 5.0;
                let power = 10f64.powf(raw.log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
                let step = steps.into_iter().find(|step| *step >= raw).unwrap_or(raw);
                let first = (self.least / step).ceil() as i64;
                let last = (self.most / step).floor() as i64;
                (first..=last).take(12).map(|number| number as f64 * step).collect()
            }
        }
    }
}

impl Chart<'_> {
    /// The chart as a figure of a page.
    pub fn figure(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::of(self.x.1, points().map(|point| point.0));
        let y = Axis::of(self.y.1, points().map(|point| point.1));
        let (across, down) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{0}\">",
            escaped(self.title)
        );
        for tick in y.ticks() {
            let Some(place) = y.place(tick) else { continue };
            let at = TOP + down * (1.0 - place);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
        }
        for tick in x.ticks() {
            let Some(place) = x.place(tick) else { continue };
            let at = LEFT + across * place;
            // At the right end there is no room for the half of a number.
            let anchor = if place > 0.97 { "end" } else { "middle" };
            let _ = write!(
                svg,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                HEIGHT - BOTTOM + 16.0,
                short(tick)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" class=\"unit\">{}</text>\
             <text x=\"{LEFT}\" y=\"{:.1}\" class=\"unit\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 6.0,
            escaped(self.x.0),
            HEIGHT - 6.0,
            if self.y.0.is_empty() { String::new() } else { escaped(&format!("up: {}", self.y.0)) },
        );
        for (number, line) in self.lines.iter().enumerate() {
            let mut path = String::new();
            for (from, to) in &line.points {
                let (Some(from), Some(to)) = (x.place(*from), y.place(*to)) else { continue };
                let letter = if path.is_empty() { 'M' } else { 'L' };
                let (from, to) = (LEFT + across * from, TOP + down * (1.0 - to));
                let _ = write!(path, "{letter}{from:.1} {to:.1}");
            }
            let _ = write!(svg, "<path class=\"line c{}\" d=\"{path}\"/>", number % 8);
        }
        svg.push_str("</svg>");
        if self.lines.len() > 1 {
            svg.push_str("<p class=\"legend\">");
            for (number, line) in self.lines.iter().enumerate() {
                let (colour, name) = (number % 8, escaped(line.name));
                let _ = write!(svg, "<span><i class=\"c{colour}\"></i>{name}</span> ");
            }
            svg.push_str("</p>");
        }
        svg + "</figure>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_anything_have_finite_places_and_escaped_names() {
        let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, 5.0];
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for points in [Vec::new(), vec![(0.0, 0.0)], odd.map(|it| (it, it)).to_vec()] {
                let name = "<script>alert(1)</script>\u{7}\"&";
                let lines = vec![Line { name, points: points.clone() }, Line { name, points }];
                let chart = Chart { title: name, x: (name, scale), y: (name, scale), lines };
                let figure = chart.figure();
                assert!(!figure.contains("NaN") && !figure.contains("inf"), "{figure}");
                assert!(!figure.contains("<script") && !figure.contains('\u{7}'), "{figure}");
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.001, 1.0, 12.0, 1_234.0, 5_600_000.0].map(short);
        assert_eq!(shown, ["0", "0.001", "1", "12", "1.2 k", "5.6 M"]);
    }
}
