//! Who consumes, which event, and for how long it is remembered: checked at the door, before any I/O.

use std::time::Duration;

use crate::error::{Error, InvalidEvent, Result};

/// How long a mark is kept unless the consumer says otherwise: 30 days.
pub(super) const KEEP: Duration = Duration::from_secs(720 * 3600);

/// Longer than anybody keeps marks, and short enough that no clock overflows.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// An index entry holds the consumer and the id.
const LONGEST_ID: usize = 1024;

/// The name of a consumer: 1 to 100 characters of `a-z A-Z 0-9 . _ -`. Without colons, so that no two consumers can ever
/// make the same key of different events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Consumer(String);

impl Consumer {
    pub(super) fn parse(name: &str) -> Result<Self> {
        check_word("consumer name", name, "._-")?;
        Ok(Self(name.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Letters, digits and a few more, at most 100 of them.
pub(super) fn check_word(what: &'static str, word: &str, more: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    if (1..=100).contains(&word.len()) && word.chars().all(fits) {
        return Ok(());
    }
    let problem = format!("{word:?} is not usable; use 1 to 100 letters, digits and any of {more}");
    Err(Error::invalid_setting(what, problem))
}

/// Any text but control characters: PostgreSQL cannot store NUL, and a refused statement would abort the consumer's
/// transaction.
pub(super) fn check_id(event_id: &str) -> Result<()> {
    let (field, len, max) = ("event id", event_id.len(), LONGEST_ID);
    if event_id.is_empty() {
        return Err(InvalidEvent::Empty { field }.into());
    }
    if len > max {
        return Err(InvalidEvent::TooLong { field, len, max }.into());
    }
    match event_id.chars().find(|c| c.is_control()) {
        Some(found) => Err(InvalidEvent::ControlCharacter { field: field.to_owned(), found }.into()),
        None => Ok(()),
    }
}

/// A time to keep marks that every store can add to its clock.
pub(super) fn keep_of(asked: Duration) -> Duration {
    asked.min(LONGEST)
}

/// Microseconds, the unit in which databases are told durations.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_name_cannot_reach_into_anothers_keys() {
        for bad in ["", "a:b", "a b", "a\n", "ä", "*", "'; drop", &"x".repeat(101)] {
            assert!(Consumer::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Consumer::parse("billing.v2_eu-1").unwrap().as_str(), "billing.v2_eu-1");
    }

    #[test]
    fn an_event_id_is_any_text_without_control_characters() {
        for good in ["0190-7", "a:b", "'; drop table marks; --", "größe", &"x".repeat(1024)] {
            check_id(good).unwrap();
        }
        for bad in ["", "a\0b", "a\r\nDEL *", &"x".repeat(1025)] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_time_to_keep_overflows_a_clock() {
        assert_eq!(keep_of(Duration::from_secs(5)), Duration::from_secs(5));
        assert_eq!(keep_of(Duration::MAX), LONGEST);
    }
}
