//! Events: what a producer gives ([`NewEvent`]) and what a reader gets ([`Event`]).
//!
//! All validation lives here and happens before any SQL, so that bad input never aborts the caller's transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::InvalidEvent;
use crate::id::EventId;

/// Header names and values, sorted by name. Names are lower case, so that every sink can carry them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// The value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All headers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn from_map(map: BTreeMap<String, String>) -> Self {
        Self(map)
    }
}

/// An event of the log, as stored. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its position in the log. For people and for order; never an identity (see [`EventId`]).
    pub seq: i64,
    /// Its identity, the same in every copy that is ever sent.
    pub id: EventId,
    /// The namespace, `default` unless the producer said otherwise.
    pub namespace: String,
    /// The topic.
    pub topic: String,
    /// The type, such as `order.created`.
    pub event_type: Option<String>,
    /// The ordering key. Events without a key have no order among each other.
    pub key: Option<String>,
    /// What kind of thing the event is about.
    pub aggregate_type: Option<String>,
    /// Which one of them.
    pub aggregate_id: Option<String>,
    /// The tenant, if the event belongs to one.
    pub tenant_id: Option<Uuid>,
    /// The producer's idempotency key.
    pub dedupe_key: Option<String>,
    /// The body, to the byte as it was enqueued.
    pub payload: Vec<u8>,
    /// The body's media type.
    pub content_type: String,
    /// Headers.
    pub headers: Headers,
    /// When it may be delivered at the earliest; `None` means at once.
    pub available_at: Option<DateTime<Utc>>,
    /// When it was enqueued, by the database's clock.
    pub created_at: DateTime<Utc>,
}

impl Event {
    /// The payload as JSON of the caller's type.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.payload)
    }

    /// The payload as text, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.payload).ok()
    }
}

/// An event to be enqueued. Build it flat: `NewEvent::json("orders", &order)?.key("order-1")`.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub(crate) namespace: String,
    pub(crate) topic: String,
    pub(crate) event_type: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) tenant_id: Option<Uuid>,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) dedupe_for: Option<Duration>,
    pub(crate) payload: Vec<u8>,
    pub(crate) content_type: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) repeated_header: Option<String>,
    pub(crate) available: Available,
}

/// When an event may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Available {
    Now,
    At(DateTime<Utc>),
    /// Measured from the insert, on the database's clock.
    After(Duration),
}

impl Available {
    /// The time it means for an event that was inserted at this one.
    fn after(self, created_at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::Now => None,
            Self::At(time) => Some(time),
            Self::After(delay) => {
                let time =
                    TimeDelta::from_std(delay).ok().and_then(|delay| created_at.checked_add_signed(delay));
                Some(time.unwrap_or(DateTime::<Utc>::MAX_UTC))
            }
        }
    }
}

impl NewEvent {
    /// An event whose body is `payload` written as JSON.
    pub fn json(topic: impl Into<String>, payload: &impl Serialize) -> Result<Self, InvalidEvent> {
        let body = serde_json::to_vec(payload)
            .map_err(|error| InvalidEvent::NotJson { reason: error.to_string() })?;
        Ok(Self::new(topic.into(), body, JSON))
    }

    /// An event whose body is these bytes, whatever they mean.
    pub fn bytes(topic: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self::new(topic.into(), payload.into(), "application/octet-stream")
    }

    fn new(topic: String, payload: Vec<u8>, content_type: &str) -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            topic,
            event_type: None,
            key: None,
            aggregate_type: None,
            aggregate_id: None,
            tenant_id: None,
            dedupe_key: None,
            dedupe_for: None,
            payload,
            content_type: content_type.to_owned(),
            headers: BTreeMap::new(),
            repeated_header: None,
            available: Available::Now,
        }
    }

    /// Sets the namespace; `default` otherwise.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the event type.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Sets the ordering key; otherwise it is the aggregate id, if there is one.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets what the event is about.
    pub fn aggregate(mut self, aggregate_type: impl Into<String>, aggregate_id: impl Into<String>) -> Self {
        self.aggregate_type = Some(aggregate_type.into());
        self.aggregate_id = Some(aggregate_id.into());
        self
    }

    /// Sets the tenant. A dedupe key must then begin with the tenant's id and `/`.
    pub fn tenant(mut self, tenant_id: Uuid) -> Self {
        self.tenant_id = Some(tenant_id);
        self
    }

    /// Enqueues at most once per (namespace, topic, key), for as long as the key is remembered (30 days unless
    /// [`dedupe_for`](Self::dedupe_for) says otherwise).
    pub fn dedupe_key(mut self, dedupe_key: impl Into<String>) -> Self {
        self.dedupe_key = Some(dedupe_key.into());
        self
    }

    /// How long the dedupe key is remembered, independent of how long events are kept.
    pub fn dedupe_for(mut self, lifetime: Duration) -> Self {
        self.dedupe_for = Some(lifetime);
        self
    }

    /// Sets the media type of the body.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Adds a header. Names are compared and stored in lower case.
    pub fn header(mut self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        let name = name.as_ref().to_ascii_lowercase();
        if self.headers.insert(name.clone(), value.into()).is_some() {
            self.repeated_header = Some(name);
        }
        self
    }

    /// Adds a header whose value arrived as bytes, for example from a request.
    pub fn header_bytes(self, name: impl AsRef<str>, value: &[u8]) -> Result<Self, InvalidEvent> {
        let text = std::str::from_utf8(value).map_err(|_| InvalidEvent::NotUtf8 { field: "header value" })?;
        Ok(self.header(name, text))
    }

    /// Not to be delivered before this time. Delayed events leave the order of their key.
    pub fn available_at(mut self, time: DateTime<Utc>) -> Self {
        self.available = Available::At(time);
        self
    }

    /// Not to be delivered before this long after the insert, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.available = Available::After(delay);
        self
    }

    pub(crate) fn ordering_key(&self) -> Option<&str> {
        self.key.as_deref().or(self.aggregate_id.as_deref())
    }

    /// The event as the log would hold it, with a new id; for testing handlers and sinks without a database. Nothing is
    /// validated.
    pub fn stored(self, seq: i64, created_at: DateTime<Utc>) -> Event {
        Event {
            seq,
            id: EventId::new(),
            key: self.ordering_key().map(str::to_owned),
            available_at: self.available.after(created_at),
            namespace: self.namespace,
            topic: self.topic,
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            tenant_id: self.tenant_id,
            dedupe_key: self.dedupe_key,
            payload: self.payload,
            content_type: self.content_type,
            headers: Headers::from_map(self.headers),
            created_at,
        }
    }

    /// Checks everything that could make the insert fail or a sink choke. Pure.
    pub fn validate(&self, limits: &Limits) -> Result<(), InvalidEvent> {
        check_text("namespace", &self.namespace, 255)?;
        check_text("topic", &self.topic, 255)?;
        check_text("content type", &self.content_type, 255)?;
        check_optional("event type", self.event_type.as_deref(), 255)?;
        check_optional("key", self.key.as_deref(), 1024)?;
        check_optional("aggregate type", self.aggregate_type.as_deref(), 255)?;
        check_optional("aggregate id", self.aggregate_id.as_deref(), 1024)?;
        check_optional("dedupe key", self.dedupe_key.as_deref(), 1024)?;
        self.check_time()?;
        self.check_payload(limits)?;
        self.check_headers(limits)?;
        self.check_tenant_prefix()
    }

    /// A time that PostgreSQL cannot store would abort the caller's transaction.
    fn check_time(&self) -> Result<(), InvalidEvent> {
        match self.available {
            Available::At(time) if time.year() < 1 => {
                Err(InvalidEvent::TooEarly { field: "available at", time })
            }
            _ => Ok(()),
        }
    }

    fn check_payload(&self, limits: &Limits) -> Result<(), InvalidEvent> {
        match self.payload.len() {
            len if len > limits.max_payload => {
                Err(InvalidEvent::PayloadTooLarge { len, max: limits.max_payload })
            }
            _ => Ok(()),
        }
    }

    fn check_headers(&self, limits: &Limits) -> Result<(), InvalidEvent> {
        if self.headers.len() > limits.max_headers {
            let (len, max) = (self.headers.len(), limits.max_headers);
            return Err(InvalidEvent::HeadersTooLarge { len, unit: "headers", max });
        }
        let len: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if len > limits.max_header_bytes {
            return Err(InvalidEvent::HeadersTooLarge { len, unit: "bytes", max: limits.max_header_bytes });
        }
        if let Some(name) = &self.repeated_header {
            return Err(InvalidEvent::Header { name: name.clone(), problem: "is given twice".into() });
        }
        self.headers.iter().try_for_each(|(name, value)| check_header(name, value))
    }

    fn check_tenant_prefix(&self) -> Result<(), InvalidEvent> {
        let (Some(tenant), Some(dedupe_key)) = (self.tenant_id, &self.dedupe_key) else { return Ok(()) };
        let forms = [format!("{}/", tenant.simple()), format!("{}/", tenant.hyphenated())];
        if forms.iter().any(|form| dedupe_key.starts_with(form)) {
            return Ok(());
        }
        let [expected, _] = forms;
        Err(InvalidEvent::TenantPrefix { dedupe_key: dedupe_key.clone(), expected })
    }
}

/// What enqueue answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The event's id; for a duplicate, the id of the event that was enqueued first.
    pub id: EventId,
    /// The dedupe key was enqueued before: nothing was inserted, and that is fine.
    pub duplicate: bool,
}

/// How long a dedupe key is remembered unless the producer says otherwise.
pub(crate) const DEDUPE_LIFETIME: Duration = Duration::from_secs(30 * 86_400);

/// The namespace of producers that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
/// The content type of JSON payloads.
pub(crate) const JSON: &str = "application/json";

/// How large an event may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of payload, 1 MiB by default.
    pub max_payload: usize,
    /// Number of headers, 64 by default.
    pub max_headers: usize,
    /// Bytes of header names and values together, 16 KiB by default.
    pub max_header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_payload: 1024 * 1024, max_headers: 64, max_header_bytes: 16 * 1024 }
    }
}

fn check_text(field: &'static str, text: &str, max: usize) -> Result<(), InvalidEvent> {
    if text.is_empty() {
        return Err(InvalidEvent::Empty { field });
    }
    if text.len() > max {
        return Err(InvalidEvent::TooLong { field, len: text.len(), max });
    }
    match text.chars().find(|c| c.is_control()) {
        Some(found) => Err(InvalidEvent::ControlCharacter { field: field.to_owned(), found }),
        None => Ok(()),
    }
}

fn check_optional(field: &'static str, text: Option<&str>, max: usize) -> Result<(), InvalidEvent> {
    text.map_or(Ok(()), |text| check_text(field, text, max))
}

fn check_header(name: &str, value: &str) -> Result<(), InvalidEvent> {
    let problem = |problem: &str| InvalidEvent::Header { name: name.to_owned(), problem: problem.to_owned() };
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(problem("the name must be letters, digits and -_. only"));
    }
    // CR and LF would let a value forge further headers; NUL cannot be stored; the rest cannot be carried.
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(problem("the value contains a control character such as a line break"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> NewEvent {
        NewEvent::bytes("orders", b"x".to_vec())
    }

    fn refused(event: NewEvent) -> InvalidEvent {
        event.validate(&Limits::default()).expect_err("the event must be refused")
    }

    #[test]
    fn a_plain_event_is_valid() {
        event().key("k").header("X-Trace", "a\tb").validate(&Limits::default()).unwrap();
    }

    #[test]
    fn bad_text_is_refused_by_field() {
        assert_eq!(refused(NewEvent::bytes("", b"")), InvalidEvent::Empty { field: "topic" });
        assert!(matches!(refused(event().key("a\0b")), InvalidEvent::ControlCharacter { found: '\0', .. }));
        assert!(matches!(refused(event().key("x".repeat(1025))), InvalidEvent::TooLong { field: "key", .. }));
        assert!(matches!(refused(event().event_type("a\nb")), InvalidEvent::ControlCharacter { .. }));
    }

    #[test]
    fn a_time_before_our_era_is_refused() {
        let at = |time| event().available_at(time).validate(&Limits::default());
        assert!(matches!(at(DateTime::<Utc>::MIN_UTC), Err(InvalidEvent::TooEarly { .. })));
        assert_eq!((at(DateTime::UNIX_EPOCH), at(DateTime::<Utc>::MAX_UTC)), (Ok(()), Ok(())));
    }

    #[test]
    fn oversize_is_refused() {
        let body = vec![0; 10 * 1024 * 1024];
        assert!(matches!(refused(NewEvent::bytes("t", body)), InvalidEvent::PayloadTooLarge { .. }));
        let many = (0..65).fold(event(), |e, i| e.header(format!("h{i}"), "v"));
        assert!(matches!(refused(many), InvalidEvent::HeadersTooLarge { unit: "headers", .. }));
        let big = event().header("h", "v".repeat(17 * 1024));
        assert!(matches!(refused(big), InvalidEvent::HeadersTooLarge { unit: "bytes", .. }));
    }

    #[test]
    fn a_header_cannot_smuggle_another_one() {
        for (name, value) in [("a", "x\r\ny: z"), ("a", "x\0"), ("a b", "x"), ("", "x"), ("a:", "x")] {
            assert!(
                matches!(refused(event().header(name, value)), InvalidEvent::Header { .. }),
                "{name:?} {value:?}"
            );
        }
        assert!(matches!(refused(event().header("A", "1").header("a", "2")), InvalidEvent::Header { .. }));
        assert!(event().header_bytes("a", b"\xff").is_err());
    }

    #[test]
    fn a_dedupe_key_must_begin_with_the_tenant() {
        let tenant = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let with = |key: String| event().tenant(tenant).dedupe_key(key);
        for good in [format!("{}/turn/1", tenant.simple()), format!("{tenant}/turn/1")] {
            with(good).validate(&Limits::default()).unwrap();
        }
        let upper = format!("{}/x", tenant.simple()).to_uppercase();
        for bad in ["turn/1".to_owned(), tenant.simple().to_string(), format!("{tenant}-x/"), upper] {
            assert!(matches!(refused(with(bad.clone())), InvalidEvent::TenantPrefix { .. }), "{bad}");
        }
    }

    #[test]
    fn a_stored_event_is_as_the_log_would_hold_it() {
        let stored = event().aggregate("order", "o-1").header("Trace", "t").stored(7, DateTime::UNIX_EPOCH);
        assert_eq!((stored.seq, stored.created_at), (7, DateTime::UNIX_EPOCH));
        assert_eq!((stored.namespace.as_str(), stored.topic.as_str()), ("default", "orders"));
        assert_eq!(stored.key.as_deref(), Some("o-1"), "the aggregate's id, unless there is a key");
        assert_eq!((stored.headers.get("trace"), stored.available_at), (Some("t"), None));
        let keyed = event().aggregate("order", "o-1").key("k").stored(8, DateTime::UNIX_EPOCH);
        assert_eq!(keyed.key.as_deref(), Some("k"));
        assert_ne!(stored.id, keyed.id);
    }

    #[test]
    fn a_stored_event_with_a_delay_is_available_that_long_after_its_insert() {
        let at = |delay| event().delay(delay).stored(1, DateTime::UNIX_EPOCH).available_at;
        assert_eq!(at(Duration::from_secs(90)), DateTime::from_timestamp(90, 0));
        assert_eq!(at(Duration::MAX), Some(DateTime::<Utc>::MAX_UTC));
        let time = DateTime::from_timestamp(5, 0).unwrap();
        assert_eq!(event().available_at(time).stored(1, DateTime::UNIX_EPOCH).available_at, Some(time));
    }
}
