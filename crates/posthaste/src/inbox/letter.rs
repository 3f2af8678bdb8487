//! What a consumer gives up on, as it came, with the reason. Plain data; nothing here is refused for being odd: a message
//! that nobody can read is just what dead letters are for.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use crate::event::{Event, Limits, NewEvent};

/// The type of the event a letter becomes.
const EVENT_TYPE: &str = "dead_letter";

/// Of a reason in a header; the letter keeps it whole.
const LONGEST_REASON: usize = 2048;

/// A message to give up on. Build it flat: `Letter::new(id, body, "no such customer").attempts(5).topic("orders")`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Letter {
    /// The id of the event.
    pub event_id: String,
    /// The body, as it came.
    pub payload: Vec<u8>,
    /// Why it was given up.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// The topic, queue or subject it came from.
    pub topic: Option<String>,
    /// Its ordering key.
    pub key: Option<String>,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// Headers in the order in which they came, repeated names too.
    pub headers: Vec<(String, String)>,
}

impl Letter {
    /// A letter with what every letter has.
    pub fn new(event_id: impl Into<String>, payload: impl Into<Vec<u8>>, reason: impl Into<String>) -> Self {
        Self {
            event_id: event_id.into(),
            payload: payload.into(),
            reason: reason.into(),
            attempts: 1,
            topic: None,
            key: None,
            content_type: None,
            headers: Vec::new(),
        }
    }

    /// The letter of an event of the log, for handlers.
    pub fn of(event: &Event, reason: impl Into<String>) -> Self {
        let letter = Self::new(event.id.to_string(), event.payload.clone(), reason);
        let headers = event.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            topic: Some(event.topic.clone()),
            key: event.key.clone(),
            content_type: Some(event.content_type.clone()),
            headers: headers.collect(),
            ..letter
        }
    }

    /// Says how often it was tried.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Says where it came from.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Sets the ordering key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the media type of the body.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The letter as an event for a dead-letter topic: enqueue it in the transaction that gives up, and it is carried like
    /// any other event.
    ///
    /// The body is the letter's. Its type is `dead_letter`, and headers tell the rest: `dead-letter-consumer`,
    /// `dead-letter-event-id`, `dead-letter-reason`, `dead-letter-attempts` and `dead-letter-topic`. Of the letter's own
    /// headers those travel that an event can carry.
    pub fn event(&self, consumer: &str, topic: impl Into<String>) -> NewEvent {
        let event = NewEvent::bytes(topic, self.payload.clone()).event_type(EVENT_TYPE);
        let event =
            self.told(consumer).into_iter().fold(event, |event, (name, value)| event.header(name, value));
        let event = match &self.content_type {
            Some(content_type) => carried(event, |event| event.content_type(content_type.as_str())),
            None => event,
        };
        let event = match &self.key {
            Some(key) => carried(event, |event| event.key(key.as_str())),
            None => event,
        };
        self.headers
            .iter()
            .fold(event, |event, (name, value)| carried(event, |event| event.header(name, value)))
    }

    fn told(&self, consumer: &str) -> Vec<(&'static str, String)> {
        let reason = cut(&self.reason, LONGEST_REASON).replace(char::is_control, " ");
        let mut told = vec![
            ("dead-letter-consumer", consumer.to_owned()),
            ("dead-letter-event-id", self.event_id.clone()),
            ("dead-letter-reason", reason),
            ("dead-letter-attempts", self.attempts.to_string()),
        ];
        if let Some(topic) = &self.topic {
            told.push(("dead-letter-topic", topic.replace(char::is_control, " ")));
        }
        told
    }
}

/// With the change, if the event stays one that can be enqueued.
fn carried(event: NewEvent, change: impl FnOnce(NewEvent) -> NewEvent) -> NewEvent {
    let unlimited = Limits { max_payload: usize::MAX, ..Limits::default() };
    let changed = change(event.clone());
    if changed.validate(&unlimited).is_ok() { changed } else { event }
}

fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// PostgreSQL cannot store NUL in text.
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), expect(dead_code, reason = "for databases"))]
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// A letter as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Names it, and tells its place: later letters have higher numbers.
    pub number: i64,
    /// Who gave up.
    pub consumer: String,
    /// What was given up on.
    pub letter: Letter,
    /// How often this consumer gave up on it.
    pub times: u32,
    /// What a person has decided.
    pub status: LetterStatus,
    /// When it was given up last, by the database's clock.
    pub given_up_at: DateTime<Utc>,
    /// When a person decided.
    pub decided_at: Option<DateTime<Utc>>,
}

/// Where a letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LetterStatus {
    /// It waits for a person.
    Open,
    /// It is not needed any more.
    Discarded,
    /// It was let in again.
    Resent,
}

impl LetterStatus {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Discarded => "discarded",
            Self::Resent => "resent",
        }
    }

    /// The status of that name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Open, Self::Discarded, Self::Resent].into_iter().find(|status| status.as_str() == word)
    }
}

/// Whether the next copy of a letter's event has its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LetIn {
    /// Yes: the mark is forgotten.
    Forgotten,
    /// There is no mark beside the letter: it was forgotten before, or was removed in time, or the consumer guards with
    /// Redis.
    NoMark,
    /// No: the consumer has done the event since it gave up.
    Done,
}

/// Which letters to list. The default is the newest 50 of all consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LetterFilter {
    /// Only those of this consumer.
    pub consumer: Option<String>,
    /// Only those that stand there.
    pub status: Option<LetterStatus>,
    /// Only those from this topic.
    pub topic: Option<String>,
    /// Only those of this event.
    pub event_id: Option<String>,
    /// Only those whose reason contains this.
    pub reason_contains: Option<String>,
    /// Only those before this number: the last of the page before.
    pub before: Option<i64>,
    /// How many at most, 1 to 500.
    pub limit: u32,
}

impl Default for LetterFilter {
    fn default() -> Self {
        Self {
            consumer: None,
            status: None,
            topic: None,
            event_id: None,
            reason_contains: None,
            before: None,
            limit: 50,
        }
    }
}

impl LetterFilter {
    /// A filter, narrowed: `LetterFilter::new(|f| f.consumer = Some("billing".into()))`.
    pub fn new(narrow: impl FnOnce(&mut Self)) -> Self {
        let mut filter = Self::default();
        narrow(&mut filter);
        filter
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn a_letter_becomes_an_event_that_can_be_enqueued_whatever_it_holds() {
        let letter = Letter::new("e-1", b"\xff\0".to_vec(), format!("line\nbreak\0 {}", "ä".repeat(9000)))
            .attempts(5)
            .topic("or\tders")
            .key("k\0")
            .content_type("")
            .header("good", "v")
            .header("bad name", "v")
            .header("forged", "a\r\nb: c")
            .header("good", "again");
        let event = letter.event("billing", "orders.dead");
        event.validate(&Limits::default()).unwrap();
        let stored = event.stored(1, DateTime::UNIX_EPOCH);
        assert_eq!(
            (stored.topic.as_str(), stored.event_type.as_deref()),
            ("orders.dead", Some("dead_letter"))
        );
        assert_eq!((stored.payload.as_slice(), stored.key), (&b"\xff\0"[..], None));
        let header = |name: &str| stored.headers.get(name);
        assert_eq!(
            (header("dead-letter-consumer"), header("dead-letter-event-id")),
            (Some("billing"), Some("e-1"))
        );
        assert_eq!(
            (header("dead-letter-attempts"), header("dead-letter-topic")),
            (Some("5"), Some("or ders"))
        );
        assert!(header("dead-letter-reason").unwrap().starts_with("line break  ää"));
        assert_eq!((header("good"), header("forged"), stored.headers.len()), (Some("v"), None, 6));
    }

    #[test]
    fn the_letter_of_an_event_is_all_of_it() {
        let event = NewEvent::bytes("orders", "x").key("k").content_type("text/plain").header("a", "b");
        let event = event.stored(1, DateTime::UNIX_EPOCH);
        let letter = Letter::of(&event, "why");
        assert_eq!((letter.event_id, letter.payload), (event.id.to_string(), b"x".to_vec()));
        assert_eq!((letter.topic.as_deref(), letter.key.as_deref()), (Some("orders"), Some("k")));
        assert_eq!(letter.content_type.as_deref(), Some("text/plain"));
        assert_eq!(letter.headers, [("a".to_owned(), "b".to_owned())]);
    }
}
