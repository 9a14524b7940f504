//! Query strings of any bytes; the body is that of the fuzz target `query`.

use crate::query::Query;

const NAMES: [&str; 4] = ["store", "path", "limit", "traces"];

/// What is taken is what was said: nothing is read that is not there, and nothing past its limits.
pub fn query(bytes: &[u8]) {
    let Ok(raw) = std::str::from_utf8(bytes) else { return };
    let Ok(query) = Query::parse(raw, &NAMES) else { return };
    assert!(raw.len() <= 8 << 10);
    for name in NAMES {
        if let Ok(path) = query.path(name) {
            assert!(path.len() <= 64);
            assert!(path.iter().map(Vec::len).sum::<usize>() <= raw.len());
        }
        if let Ok(Some(text)) = query.text(name) {
            assert!(!text.is_empty() && raw.contains(&format!("{name}=")));
        }
        assert!(query.number(name, 7, 1_000).is_ok_and(|it| it <= 1_000) || raw.contains(name));
        if let Ok(numbers) = query.numbers(name, 3, 9) {
            assert!(numbers.len() <= 3 && numbers.iter().all(|it| *it < 9));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mutation_of_a_query_panics() {
        let seeds: [&[u8]; 4] = [
            b"store=0&path=a/%ff%2f/b&limit=10",
            b"traces=0,1,2&store=18446744073709551615",
            b"path=%e2%82%ac/%/x&path=y",
            b"=&&limit=%31&store",
        ];
        // Numbers that follow from a seed, as of the splitting generator.
        let mut state = 5_u64;
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let marks = b"%&=/,+-09afF\x00\xc3\xa9";
        for round in 0..40_000 {
            let mut bytes = seeds[round % seeds.len()].to_vec();
            for _ in 0..=below(5) {
                let at = below(bytes.len());
                match below(4) {
                    0 => bytes[at] = marks[below(marks.len())],
                    1 => bytes.insert(at, marks[below(marks.len())]),
                    2 if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => bytes.extend_from_within(at..),
                }
            }
            query(&bytes);
        }
    }
}
