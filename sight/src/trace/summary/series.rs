//! What a host measured, over time.

use super::POINTS;

/// Samples of one name: each stands for as many, which double when there would be too many points. It is the largest of
/// them, so that no peak is lost; where a number only grows it is the last one.
#[derive(Clone, Debug)]
pub struct Series {
    first: (f64, u64),
    last: (f64, u64),
    seen: u64,
    width: u64,
    points: Vec<(f64, u64)>,
}

impl Series {
    pub fn new(first: (f64, u64)) -> Series {
        Series { first, last: first, seen: 0, width: 1, points: Vec::new() }
    }

    pub fn add(&mut self, point: (f64, u64)) {
        let larger =
            |one: (f64, u64), other: (f64, u64)| if other.1 >= one.1 { other } else { one };
        self.last = point;
        if self.seen.is_multiple_of(self.width) {
            if self.points.len() == 2 * POINTS {
                let pairs = self.points.chunks(2);
                self.points = pairs.map(|pair| larger(pair[0], pair[pair.len() - 1])).collect();
                self.width *= 2;
            }
            self.points.push(point);
        } else if let Some(end) = self.points.last_mut() {
            *end = larger(*end, point);
        }
        self.seen += 1;
    }

    /// The first, the largest of each part, and the last.
    pub fn points(self) -> Vec<(f64, u64)> {
        let mut points = vec![self.first];
        points.extend(self.points.into_iter().filter(|point| *point != self.first));
        if points[points.len() - 1] != self.last {
            points.push(self.last);
        }
        points
    }
}
