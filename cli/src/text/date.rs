//! Dates as people write them: `2026-01-31`, `2026-01-31T12:00:00Z`, or seconds since 1970, also as `@0`.

use varvite::{Error, Result};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// The day's number since 1970 of a date in the Gregorian calendar.
fn day(year: i64, month: i64, day_of_month: i64) -> i64 {
    // Years begin in March here, so that the day that is sometimes there comes last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day_of_month - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day's number: the other way round.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day_of_month)
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`. Dates of which nobody writes the year so are left as numbers.
pub fn iso(seconds: i64) -> String {
    let (year, month, day_of_month) = date(seconds.div_euclid(DAY));
    if !(0..=9999).contains(&year) {
        return seconds.to_string();
    }
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Seconds since 1970 of what a person writes, in UTC. Of a day without a time, its first second.
pub fn parse(text: &str) -> Result<i64> {
    read(text).ok_or_else(|| {
        Error::invalid(format!(
            "\"{text}\" is no date: write 2026-01-31, 2026-01-31T12:00:00Z (in UTC), or seconds since 1970, as @0"
        ))
    })
}

fn read(text: &str) -> Option<i64> {
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse().ok();
    }
    // Four digits are a year, and eight a day without its dashes, to whoever writes them.
    let is_dated = [4, 8].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if let (false, Ok(seconds)) = (is_dated, text.parse()) {
        return Some(seconds);
    }
    let (date_text, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time.strip_suffix('Z').unwrap_or(time)),
        None => (text, "00:00:00"),
    };
    let [year, month, day_of_month] = numbers(date_text, '-')?;
    let time = if time.matches(':').count() == 1 { format!("{time}:00") } else { time.to_owned() };
    let [hour, minute, second] = numbers(&time, ':')?;
    if year > 9999 {
        return None;
    }
    let number = day(year, month, day_of_month);
    // What is no day of its month is another day when it is counted back.
    let is_there = (1..=12).contains(&month) && date(number) == (year, month, day_of_month);
    let is_time = hour < 24 && minute < 60 && second < 60;
    (is_there && is_time).then_some(number * DAY + hour * 3600 + minute * 60 + second)
}

/// Three numbers of digits alone.
fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.split(between);
    for number in &mut numbers {
        // More digits are no date, and might not be counted with.
        let is_number = |it: &&str| it.len() <= 9 && it.bytes().all(|byte| byte.is_ascii_digit());
        let part = parts.next().filter(is_number)?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_all_dates_are_none() {
        for text in
            ["2026-9223372036854775807-01", "9223372036854775807-01-01", "2026-01-999999999"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_and_seconds_are_the_same_both_ways() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T12:34:56Z", 951_827_696),
            ("2026-11-23T07:00:00Z", 1_795_417_200),
        ] {
            assert_eq!(iso(seconds), text);
            assert_eq!(parse(text).unwrap(), seconds);
        }
        for number in (-400_000..400_000).step_by(37) {
            let (year, month, day_of_month) = date(number);
            assert_eq!(day(year, month, day_of_month), number);
        }
        assert_eq!(parse("2000-02-29").unwrap(), 951_782_400);
        assert_eq!(parse("2000-02-29 12:34").unwrap(), 951_827_640);
        assert_eq!(parse("-5").unwrap(), -5);
        assert_eq!(iso(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in ["", "yesterday", "2026-02-30", "2026-13-01", "2026-1", "2026-01-01T24:00:00Z"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
