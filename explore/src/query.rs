//! Query strings: what a request asks for, decoded and checked before anything is opened.
//!
//! A stranger's bytes. The rules are narrow: each name at most once, only names that the endpoint knows, numbers in
//! decimal without a sign, `%` before two digits. A path is steps joined by `/`, each decoded by itself, so a step
//! may have any bytes, or none. A slash in front of all steps is not one of theirs: `/` is one step of no bytes, and
//! nothing is no step.

use std::fmt;

/// Bytes of the longest query string.
const BYTES_MAX: usize = 8 << 10;

/// Steps of the longest path.
const STEPS_MAX: usize = 64;

/// Why a request is refused: a sentence for who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Names and raw values of a query string.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

fn refused<T>(why: String) -> Result<T, Refused> {
    Err(Refused(why))
}

/// The bytes that `text` stands for.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digit = |at: usize| (*after.get(at)? as char).to_digit(16);
        bytes.push((digit(0)? << 4 | digit(1)?) as u8);
        rest = &after[2..];
    }
    Some(bytes)
}

impl Query {
    /// The query string `raw`, in which only the names of `known` may stand.
    ///
    /// # Errors
    ///
    /// When it is too long, has a name twice or an unknown one, or a `%` without two digits behind it.
    pub fn parse(raw: &str, known: &[&str]) -> Result<Query, Refused> {
        if raw.len() > BYTES_MAX {
            return refused(format!("the query has more than {BYTES_MAX} bytes"));
        }
        let mut query = Query::default();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                let known = known.join(", ");
                return refused(format!(
                    "the query has a name that is not known here: these are: {known}"
                ));
            }
            if query.raw(name).is_some() {
                return refused(format!("the query has {name} twice"));
            }
            if decoded(value).is_none() {
                return refused(format!("in {name}, a % has no two hexadecimal digits behind it"));
            }
            query.pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(query)
    }

    fn raw(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|pair| pair.0 == name)?;
        Some(&pair.1)
    }

    /// The text of `name`, if it is given and not empty.
    ///
    /// # Errors
    ///
    /// When it is no UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<String>, Refused> {
        let Some(raw) = self.raw(name).filter(|raw| !raw.is_empty()) else { return Ok(None) };
        let bytes = decoded(raw).unwrap_or_default();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => refused(format!("{name} is no UTF-8")),
        }
    }

    /// The number of `name`, or `default`; at most `most`.
    ///
    /// # Errors
    ///
    /// When it is no number, or greater.
    pub fn number(&self, name: &str, default: u64, most: u64) -> Result<u64, Refused> {
        let Some(raw) = self.raw(name).filter(|raw| !raw.is_empty()) else { return Ok(default) };
        let is_plain = raw.bytes().all(|digit| digit.is_ascii_digit());
        match raw.parse::<u64>() {
            Ok(number) if is_plain && number <= most => Ok(number),
            // What is behind the last one is missing, and said so.
            _ if most == u64::MAX => refused(format!("{name} is a number, in decimal digits")),
            _ => refused(format!("{name} is a number from 0 to {most}")),
        }
    }

    /// The steps of the path of `name`.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub fn path(&self, name: &str) -> Result<Vec<Vec<u8>>, Refused> {
        let raw = self.raw(name).unwrap_or("");
        if raw.is_empty() {
            return Ok(Vec::new());
        }
        let steps = raw.strip_prefix('/').unwrap_or(raw).split('/');
        let steps: Vec<_> = steps.take(STEPS_MAX + 1).filter_map(decoded).collect();
        if steps.len() > STEPS_MAX {
            return refused(format!("{name} has more than {STEPS_MAX} steps"));
        }
        Ok(steps)
    }

    /// Numbers of `name`, joined by commas: at most `count` of them, each less than `below`.
    ///
    /// # Errors
    ///
    /// When one is no number or too great, or there are too many.
    pub fn numbers(&self, name: &str, count: usize, below: u64) -> Result<Vec<u64>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(Vec::new()) };
        let all: Option<Vec<u64>> =
            text.split(',').take(count + 1).map(|it| it.parse().ok()).collect();
        match all {
            Some(all) if all.len() <= count && all.iter().all(|it| *it < below) => Ok(all),
            _ => {
                refused(format!("{name} is up to {count} numbers below {below}, joined by commas"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Result<Query, Refused> {
        Query::parse(raw, &["path", "limit", "name", "of"])
    }

    #[test]
    fn a_step_may_have_any_bytes() {
        let path = |raw: &str| parse(&format!("path={raw}")).unwrap().path("path").unwrap();
        assert_eq!(path("a/b%2Fc/%ff%00"), [b"a".to_vec(), b"b/c".to_vec(), vec![0xff, 0]]);
        assert_eq!(path("../%2e%2e"), [b"..".to_vec(), b"..".to_vec()]);
        assert_eq!(path(""), Vec::<Vec<u8>>::new());
        assert_eq!(path("/a/b"), path("a/b"));
        assert_eq!(path("/"), [b""]);
        assert_eq!(path("//a/"), [b"".to_vec(), b"a".to_vec(), Vec::new()]);
        assert!(parse(&format!("path={}", "a/".repeat(64))).unwrap().path("path").is_err());
    }

    #[test]
    fn what_is_not_known_twice_or_malformed_is_refused() {
        for raw in [
            "other=1",
            "limit=1&limit=2",
            "name=%",
            "name=%4",
            "name=%zz",
            "name=%+4",
            "=",
            "limit&limit",
        ] {
            assert!(parse(raw).is_err(), "{raw}");
        }
        assert!(parse(&format!("name={}", "a".repeat(BYTES_MAX))).is_err());
        assert!(parse("name=%ff").unwrap().text("name").is_err());
        for raw in [
            "limit=-1",
            "limit=+1",
            "limit=1e3",
            "limit=11",
            "limit=99999999999999999999",
            "limit=%31",
        ] {
            assert!(parse(raw).unwrap().number("limit", 5, 10).is_err(), "{raw}");
        }
        assert_eq!(parse("limit=7").unwrap().number("limit", 5, 10), Ok(7));
        assert_eq!(parse("limit=").unwrap().number("limit", 5, 10), Ok(5));
        assert_eq!(parse("of=0,2").unwrap().numbers("of", 2, 3), Ok(vec![0, 2]));
        for raw in ["of=0,3", "of=0,1,2", "of=a", "of=,"] {
            assert!(parse(raw).unwrap().numbers("of", 2, 3).is_err(), "{raw}");
        }
    }
}
