//! Times and durations: how people type them and how they are told.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};

const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// `500ms`, `30s`, `5m`, `2h`, `30d`, `1w`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wanted = "give a number with a unit, such as 500ms, 30s, 5m, 2h or 30d";
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(wanted)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted)?;
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(wanted)?;
    number.checked_mul(*millis).map(Duration::from_millis).ok_or_else(|| wanted.to_owned())
}

/// A time as in RFC 3339, a day (its beginning, UTC), or how long ago: `2h`.
pub(crate) fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    parse_time_at(text, Utc::now())
}

fn parse_time_at(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.to_utc());
    }
    if let Some(midnight) = text.parse::<NaiveDate>().ok().and_then(|day| day.and_hms_opt(0, 0, 0)) {
        return Ok(midnight.and_utc());
    }
    let ago = parse_duration(text)
        .ok()
        .and_then(|ago| now.checked_sub_signed(chrono::TimeDelta::from_std(ago).ok()?));
    ago.ok_or_else(|| {
        "give a time such as 2026-03-01T12:00:00Z, a day such as 2026-03-01, or how long ago: 2h".to_owned()
    })
}

/// The one form of times in JSON and in details.
pub(crate) fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// For tables: to the second.
pub(crate) fn short_stamp(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// `12 ms`, `40 s`, `3 min`, `2 h`, `5 d`: the largest unit that says at least two of it.
pub(crate) fn span(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} d", secs / 86_400),
    }
}

/// From one time to a later one; nothing if it is not later.
pub(crate) fn between(from: DateTime<Utc>, to: DateTime<Utc>) -> Duration {
    (to - from).to_std().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "5", "s", "-5s", "5 s", "5y", "99999999999999999999s", "9999999999999999w", "1.5h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_absolute_or_ago() {
        let now = DateTime::parse_from_rfc3339("2026-03-01T12:00:00Z").unwrap().to_utc();
        let told = |text| parse_time_at(text, now).map(stamp);
        assert_eq!(told("2h").unwrap(), "2026-03-01T10:00:00.000000Z");
        assert_eq!(told("2026-02-28").unwrap(), "2026-02-28T00:00:00.000000Z");
        assert_eq!(told("2026-02-28T01:02:03+01:00").unwrap(), "2026-02-28T00:02:03.000000Z");
        for bad in ["yesterday", "2026-13-01", "12:00", "999999999999d"] {
            assert!(told(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_are_told_in_one_unit() {
        let told: Vec<String> =
            [0.012, 1.0, 119.0, 120.0, 7_200.0, 200_000.0].map(|s| span(Duration::from_secs_f64(s))).into();
        assert_eq!(told, ["12 ms", "1 s", "119 s", "2 min", "2 h", "2 d"]);
    }
}
