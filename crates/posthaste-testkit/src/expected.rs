//! What events a test expects, told in matchers, and what was enqueued, with assertions that show the difference.

use std::fmt;
use std::ops::Deref;

use posthaste::Event;
use serde_json::Value;

use crate::difference::{self, Row};

type Holds = dyn Fn(&Event) -> bool + Send + Sync;
type Shows = dyn Fn(&Event) -> String + Send + Sync;

/// One event that a test expects. What is not said may be anything.
///
/// `Expected::topic("orders").event_type("order.placed").key("order-1").json(json!({ "total": 12 }))`
pub struct Expected {
    checks: Vec<Check>,
}

/// One thing that is said about the event.
struct Check {
    /// `key`.
    field: String,
    /// `"order-1"`.
    wanted: String,
    holds: Box<Holds>,
    shows: Box<Shows>,
}

impl Expected {
    /// Any event.
    pub fn any() -> Self {
        Self { checks: Vec::new() }
    }

    /// An event of this topic.
    pub fn topic(topic: impl Into<String>) -> Self {
        Self::any().text("topic", topic.into(), |event| Some(&event.topic))
    }

    /// Of this type.
    pub fn event_type(self, event_type: impl Into<String>) -> Self {
        self.text("type", event_type.into(), |event| event.event_type.as_deref())
    }

    /// With this ordering key, given as such or as the aggregate's id.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.text("key", key.into(), |event| event.key.as_deref())
    }

    /// Without an ordering key.
    pub fn without_key(self) -> Self {
        self.check("key", "none", |event| event.key.is_none(), |event| shown(event.key.as_deref()))
    }

    /// In this namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.text("namespace", namespace.into(), |event| Some(&event.namespace))
    }

    /// About this aggregate.
    pub fn aggregate(self, aggregate_type: impl Into<String>, aggregate_id: impl Into<String>) -> Self {
        self.text("aggregate type", aggregate_type.into(), |event| event.aggregate_type.as_deref()).text(
            "aggregate id",
            aggregate_id.into(),
            |event| event.aggregate_id.as_deref(),
        )
    }

    /// With this dedupe key.
    pub fn dedupe_key(self, dedupe_key: impl Into<String>) -> Self {
        self.text("dedupe key", dedupe_key.into(), |event| event.dedupe_key.as_deref())
    }

    /// With this header. Names are compared in lower case.
    pub fn header(self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        let name = name.as_ref().to_ascii_lowercase();
        let field = format!("header {name}");
        self.text(field, value.into(), move |event| event.headers.get(&name))
    }

    /// With this JSON as its body: the same value, however it is written.
    pub fn json(self, body: Value) -> Self {
        let wanted = body.to_string();
        let holds = move |event: &Event| event.json::<Value>().is_ok_and(|found| found == body);
        self.check("body", wanted, holds, difference::body)
    }

    /// With a body of JSON that has at least these members, and in them these values.
    pub fn json_with(self, part: Value) -> Self {
        let wanted = format!("with {part}");
        let holds = move |event: &Event| event.json::<Value>().is_ok_and(|found| has(&found, &part));
        self.check("body", wanted, holds, difference::body)
    }

    /// With exactly these bytes as its body.
    pub fn bytes(self, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let wanted = difference::bytes(&body);
        self.check("body", wanted, move |event| event.payload == body, difference::body)
    }

    /// Not to be delivered at once.
    pub fn delayed(self) -> Self {
        let shows = |event: &Event| event.available_at.map_or("none".into(), |at| at.to_rfc3339());
        self.check("delay", "some", |event| event.available_at.is_some(), shows)
    }

    /// Of which this holds; `what` says it in words.
    pub fn that(
        self,
        what: impl Into<String>,
        holds: impl Fn(&Event) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.check("that", what, holds, |_| "not so".to_owned())
    }

    fn text(
        self,
        field: impl Into<String>,
        wanted: String,
        of: impl for<'a> Fn(&'a Event) -> Option<&'a str> + Clone + Send + Sync + 'static,
    ) -> Self {
        let (read, words) = (of.clone(), format!("{wanted:?}"));
        self.check(field, words, move |event| read(event) == Some(&wanted), move |event| shown(of(event)))
    }

    fn check(
        mut self,
        field: impl Into<String>,
        wanted: impl Into<String>,
        holds: impl Fn(&Event) -> bool + Send + Sync + 'static,
        shows: impl Fn(&Event) -> String + Send + Sync + 'static,
    ) -> Self {
        let (holds, shows) = (Box::new(holds), Box::new(shows));
        self.checks.push(Check { field: field.into(), wanted: wanted.into(), holds, shows });
        self
    }

    /// Whether an event is as expected.
    pub fn matches(&self, event: &Event) -> bool {
        self.checks.iter().all(|check| (check.holds)(event))
    }

    /// What of an event is not as expected, a line each.
    pub(crate) fn complaints(&self, event: &Event) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !(check.holds)(event));
        let line = |check: &Check| {
            format!("{}: expected {}, found {}", check.field, check.wanted, (check.shows)(event))
        };
        failed.map(line).collect()
    }
}

fn shown(text: Option<&str>) -> String {
    text.map_or("none".to_owned(), |text| format!("{text:?}"))
}

/// Whether a value has all that a part has: objects may have more members, everything else is equal.
fn has(found: &Value, part: &Value) -> bool {
    match (found, part) {
        (Value::Object(found), Value::Object(part)) => {
            part.iter().all(|(name, value)| found.get(name).is_some_and(|found| has(found, value)))
        }
        _ => found == part,
    }
}

/// `topic "orders", key "order-1", body {"total":12}`
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.checks.is_empty() {
            return f.write_str("any event");
        }
        let said = self.checks.iter().map(|check| format!("{} {}", check.field, check.wanted));
        f.write_str(&said.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expected({self})")
    }
}

/// Events that were enqueued, in the order of the log. A slice of [`Event`] with assertions.
#[derive(Debug, Clone)]
pub struct EnqueuedEvents(pub(crate) Vec<Event>);

impl Deref for EnqueuedEvents {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.0
    }
}

impl EnqueuedEvents {
    /// Exactly these, in this order.
    ///
    /// # Panics
    /// If not, with the difference.
    #[track_caller]
    pub fn assert_exactly(&self, expected: impl IntoIterator<Item = Expected>) {
        let expected: Vec<Expected> = expected.into_iter().collect();
        let rows = difference::in_order(&expected, &self.0);
        complain("the enqueued events are not the expected ones", &rows);
    }

    /// Exactly these, in whatever order.
    ///
    /// # Panics
    /// If not, with the difference.
    #[track_caller]
    pub fn assert_in_any_order(&self, expected: impl IntoIterator<Item = Expected>) {
        let expected: Vec<Expected> = expected.into_iter().collect();
        let rows = difference::in_any_order(&expected, &self.0);
        complain("the enqueued events are not the expected ones, in whatever order", &rows);
    }

    /// One like this, and maybe others.
    ///
    /// # Panics
    /// If there is none, with what there is.
    #[track_caller]
    pub fn assert_contains(&self, expected: Expected) {
        if !self.iter().any(|event| expected.matches(event)) {
            let rows: Vec<Row> = difference::in_order(&[expected], &self.0);
            complain("no enqueued event is as expected", &rows);
        }
    }

    /// Nothing.
    ///
    /// # Panics
    /// If there is something, with what there is.
    #[track_caller]
    pub fn assert_none(&self) {
        complain("nothing should have been enqueued", &difference::in_order(&[], &self.0));
    }
}

#[track_caller]
fn complain(sentence: &str, rows: &[Row]) {
    if rows.iter().any(|row| !matches!(row, Row::Same(_))) {
        let lines: Vec<String> = rows.iter().map(Row::to_string).collect();
        panic!("{sentence} (- expected, + enqueued):\n{}", lines.join("\n"));
    }
}
