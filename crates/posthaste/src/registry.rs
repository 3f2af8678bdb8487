//! The registry: which event types there are, and what belongs to each: a topic, an aggregate type, a contract for the
//! payload. Checked when an event is enqueued and, by whoever delivers, once more before it is sent.
//!
//! What does not fit will never fit, so it is refused for good, with a reason that names the field.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::InvalidEvent;
use crate::event::{Event, NewEvent};

/// What a payload must look like.
pub trait Contract: Send + Sync + 'static {
    /// Says what does not fit, naming the field.
    fn check(&self, payload: &[u8]) -> Result<(), String>;
}

/// A payload that can be read as this Rust type.
struct Typed<T>(std::marker::PhantomData<fn() -> T>);

impl<T: DeserializeOwned + 'static> Contract for Typed<T> {
    fn check(&self, payload: &[u8]) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_slice(payload);
        serde_path_to_error::deserialize::<_, T>(&mut json).map_err(|error| describe(&error))?;
        json.end().map_err(|error| error.to_string())
    }
}

/// The path of the field and what is wrong with it. A payload that fails as a whole has no path.
fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().to_string() {
        path if path == "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    }
}

/// What belongs to one event type.
#[derive(Clone)]
struct Entry {
    topic: String,
    aggregate_type: String,
    contract: Arc<dyn Contract>,
    /// The Rust type of the payload, if it was registered by one.
    rust_type: Option<TypeId>,
}

/// Why an event does not fit the registry. It never will: dead at once, not retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Which field of the event.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for Misfit {}

/// The event types of an application. Cheap to clone.
#[derive(Clone, Default)]
pub struct Registry {
    entries: Arc<BTreeMap<String, Entry>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

/// The parts of an event that the registry looks at.
struct Parts<'e> {
    event_type: Option<&'e str>,
    topic: &'e str,
    aggregate_type: Option<&'e str>,
    aggregate_id: Option<&'e str>,
    payload: &'e [u8],
}

impl Registry {
    /// A registry without any type: it refuses every event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a type whose payload is `T`, written as JSON. Registering a type again replaces it.
    pub fn register<T: Serialize + DeserializeOwned + 'static>(
        self,
        event_type: impl Into<String>,
        topic: impl Into<String>,
        aggregate_type: impl Into<String>,
    ) -> Self {
        let contract = Arc::new(Typed::<T>(std::marker::PhantomData));
        self.insert(event_type.into(), topic.into(), aggregate_type.into(), contract, Some(TypeId::of::<T>()))
    }

    /// Registers a type with a contract of any other kind.
    pub fn register_contract(
        self,
        event_type: impl Into<String>,
        topic: impl Into<String>,
        aggregate_type: impl Into<String>,
        contract: impl Contract,
    ) -> Self {
        self.insert(event_type.into(), topic.into(), aggregate_type.into(), Arc::new(contract), None)
    }

    fn insert(
        mut self,
        event_type: String,
        topic: String,
        aggregate_type: String,
        contract: Arc<dyn Contract>,
        rust_type: Option<TypeId>,
    ) -> Self {
        let entry = Entry { topic, aggregate_type, contract, rust_type };
        Arc::make_mut(&mut self.entries).insert(event_type, entry);
        self
    }

    /// The registered event types.
    pub fn event_types(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// A new event of a registered type: topic and aggregate type come from here, and the payload must be the type that
    /// was registered.
    pub fn event<T: Serialize + 'static>(
        &self,
        event_type: &str,
        aggregate_id: impl Into<String>,
        payload: &T,
    ) -> Result<NewEvent, InvalidEvent> {
        let entry = self.entry(Some(event_type))?;
        if entry.rust_type.is_some_and(|registered| registered != TypeId::of::<T>()) {
            let problem = format!("`{event_type}` was registered with another Rust type");
            return Err(Misfit { field: "payload", problem }.into());
        }
        let event = NewEvent::json(entry.topic.clone(), payload)?;
        Ok(event.event_type(event_type).aggregate(entry.aggregate_type.clone(), aggregate_id))
    }

    /// Whether a new event fits.
    pub fn check_new(&self, event: &NewEvent) -> Result<(), Misfit> {
        self.check_parts(&Parts {
            event_type: event.event_type.as_deref(),
            topic: &event.topic,
            aggregate_type: event.aggregate_type.as_deref(),
            aggregate_id: event.aggregate_id.as_deref(),
            payload: &event.payload,
        })
    }

    /// Whether an event of the log fits.
    pub fn check(&self, event: &Event) -> Result<(), Misfit> {
        self.check_parts(&Parts {
            event_type: event.event_type.as_deref(),
            topic: &event.topic,
            aggregate_type: event.aggregate_type.as_deref(),
            aggregate_id: event.aggregate_id.as_deref(),
            payload: &event.payload,
        })
    }

    fn entry(&self, event_type: Option<&str>) -> Result<&Entry, Misfit> {
        let misfit = |problem| Misfit { field: "event_type", problem };
        let event_type = event_type.ok_or_else(|| misfit("is missing".to_owned()))?;
        self.entries.get(event_type).ok_or_else(|| misfit(format!("`{event_type}` is not in the registry")))
    }

    fn check_parts(&self, parts: &Parts<'_>) -> Result<(), Misfit> {
        let entry = self.entry(parts.event_type)?;
        expect("topic", Some(parts.topic), &entry.topic)?;
        expect("aggregate_type", parts.aggregate_type, &entry.aggregate_type)?;
        if parts.aggregate_id.is_none_or(str::is_empty) {
            return Err(Misfit { field: "aggregate_id", problem: "is missing".to_owned() });
        }
        if matches!(parts.payload.trim_ascii(), b"" | b"null") {
            return Err(Misfit { field: "payload", problem: "is null".to_owned() });
        }
        entry.contract.check(parts.payload).map_err(|problem| Misfit { field: "payload", problem })
    }
}

fn expect(field: &'static str, found: Option<&str>, wanted: &str) -> Result<(), Misfit> {
    match found {
        Some(found) if found == wanted => Ok(()),
        Some(found) => Err(Misfit { field, problem: format!("expected `{wanted}`, got `{found}`") }),
        None => Err(Misfit { field, problem: format!("is missing, expected `{wanted}`") }),
    }
}

impl From<Misfit> for InvalidEvent {
    fn from(misfit: Misfit) -> Self {
        Self::Registry { field: misfit.field, problem: misfit.problem }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct StatusChanged {
        status: String,
        history: Vec<u32>,
    }

    fn registry() -> Registry {
        Registry::new().register::<StatusChanged>("status_changed", "licences", "licence")
    }

    fn good() -> NewEvent {
        let payload = StatusChanged { status: "verified".into(), history: vec![1] };
        registry().event("status_changed", "l-1", &payload).expect("it fits")
    }

    fn misfit(event: NewEvent) -> String {
        registry().check(&event.stored(1, DateTime::UNIX_EPOCH)).expect_err("it does not fit").to_string()
    }

    #[test]
    fn what_the_registry_makes_fits_it() {
        assert_eq!(registry().check_new(&good()), Ok(()));
        assert_eq!(registry().event_types().collect::<Vec<_>>(), ["status_changed"]);
    }

    #[test]
    fn every_misfit_names_its_field() {
        let with = |body: &str| {
            NewEvent::bytes("licences", body).event_type("status_changed").aggregate("licence", "l-1")
        };
        assert_eq!(misfit(good().event_type("other")), "event_type: `other` is not in the registry");
        assert_eq!(misfit(NewEvent::bytes("licences", "{}")), "event_type: is missing");
        assert_eq!(misfit(good().aggregate("order", "1")), "aggregate_type: expected `licence`, got `order`");
        let bare = NewEvent::bytes("licences", "{}").event_type("status_changed");
        assert_eq!(misfit(bare), "aggregate_type: is missing, expected `licence`");
        assert_eq!(misfit(good().aggregate("licence", "")), "aggregate_id: is missing");
        assert_eq!(misfit(with(" null ")), "payload: is null");
        assert_eq!(misfit(with("")), "payload: is null");
        let wrong = misfit(with(r#"{"status":"x","history":[1,"two"]}"#));
        assert!(wrong.starts_with("payload: history[1]: invalid type: string \"two\""), "{wrong}");
        assert!(misfit(with(r#"{"history":[]}"#)).starts_with("payload: missing field `status`"));
        assert!(misfit(with(r#"{"status":"x","history":[]} trailing"#)).starts_with("payload: trailing"));
        let elsewhere =
            NewEvent::bytes("orders", "{}").event_type("status_changed").aggregate("licence", "1");
        assert_eq!(misfit(elsewhere), "topic: expected `licences`, got `orders`");
    }

    #[test]
    fn a_payload_of_another_type_is_refused_before_it_is_written() {
        let refused = registry().event("status_changed", "l-1", &"text").expect_err("another type");
        assert_eq!(refused.to_string(), "payload: `status_changed` was registered with another Rust type");
    }
}
