//! What stands for a duration, a time, a place or an event on the command line.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use posthaste::EventId;
use posthaste::admin::{EventStatus, ReplayFrom, SettingsChange};
use posthaste::inbox::LetterStatus;
use uuid::Uuid;

use crate::talk::time::{parse_duration, parse_time};

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

pub(crate) fn time(text: &str) -> Result<DateTime<Utc>, String> {
    parse_time(text)
}

pub(crate) fn event_id(text: &str) -> Result<EventId, String> {
    uuid(text).map(EventId)
}

pub(crate) fn uuid(text: &str) -> Result<Uuid, String> {
    let wanted = "give an id such as 0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
    text.parse().map_err(|_| wanted.to_owned())
}

/// `beginning`, an event's id, a time, or how long ago.
pub(crate) fn place(text: &str) -> Result<ReplayFrom, String> {
    if text == "beginning" {
        return Ok(ReplayFrom::Beginning);
    }
    let id = text.parse().map(|id| ReplayFrom::Event(EventId(id)));
    id.or_else(|_| parse_time(text).map(ReplayFrom::Time))
        .map_err(|wanted| format!("{wanted}, `beginning`, or an event's id"))
}

pub(crate) fn status(text: &str) -> Result<EventStatus, String> {
    EventStatus::parse(text).ok_or_else(|| "give pending, processing, delivered or dead".to_owned())
}

pub(crate) fn letter_status(text: &str) -> Result<LetterStatus, String> {
    LetterStatus::parse(text).ok_or_else(|| "give open, discarded or resent".to_owned())
}

pub(crate) fn limit(text: &str) -> Result<u32, String> {
    super::whole_number(text, 1..=500)
}

pub(crate) fn up_to_10000(text: &str) -> Result<u32, String> {
    super::whole_number(text, 1..=10_000)
}

/// `200` or `200/s`.
pub(crate) fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    super::whole_number(number, 1..=1_000_000)
        .map_err(|_| "give a whole number of events a second, from 1 to 1000000".to_owned())
}

/// The same, or `0` for no limit.
pub(crate) fn rate_or_none(text: &str) -> Result<u32, String> {
    match text {
        "0" | "0/s" => Ok(0),
        _ => rate(text).map_err(|wanted| format!("{wanted}, or 0 for no limit")),
    }
}

/// The settings as their flags are typed, in the order of [`SettingsChange::NAMES`].
const FLAGS: [&str; 9] = [
    "batch-size",
    "concurrency",
    "poll-interval",
    "lease",
    "max-attempts",
    "base-delay",
    "max-delay",
    "timeout",
    "rate",
];

/// The name of a setting, as its flag is typed (`batch-size`) or as it is shown (`batch_size`).
pub(crate) fn setting() -> impl TypedValueParser<Value = String> {
    let names = FLAGS.into_iter().zip(SettingsChange::NAMES);
    let values = names.map(|(flag, name)| PossibleValue::new(flag).alias(name));
    PossibleValuesParser::new(values.collect::<Vec<_>>()).map(|name| name.replace('-', "_"))
}

/// `name=value`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    split.ok_or_else(|| "give name=value".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_beginning_an_event_or_a_time() {
        assert_eq!(place("beginning"), Ok(ReplayFrom::Beginning));
        let id = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
        assert_eq!(place(id), Ok(ReplayFrom::Event(EventId(id.parse().unwrap()))));
        assert!(matches!(place("2h"), Ok(ReplayFrom::Time(_))));
        assert!(place("17").unwrap_err().contains("an event's id"));
    }

    #[test]
    fn every_setting_can_be_named_as_its_flag() {
        assert_eq!(FLAGS.map(|flag| flag.replace('-', "_")), SettingsChange::NAMES);
    }

    #[test]
    fn a_rate_may_carry_its_unit() {
        assert_eq!((rate("200"), rate("200/s")), (Ok(200), Ok(200)));
        assert!(rate("0").is_err() && rate("2/m").is_err());
        assert_eq!((rate_or_none("0"), rate_or_none("1000000/s")), (Ok(0), Ok(1_000_000)));
        for hostile in ["-1", "1e99", "1000001", "0x10", "NaN", "", "/s", "1.5", "99999999999999999999"] {
            let wanted = "give a whole number of events a second, from 1 to 1000000, or 0 for no limit";
            assert_eq!(rate_or_none(hostile), Err(wanted.to_owned()), "{hostile}");
        }
    }
}
