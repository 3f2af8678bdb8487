//! Webhooks, on a receiver that records and answers by script: the sink suite, and what is special to HTTP.
#![cfg(feature = "webhook")]

mod receiver;
mod signing;
mod suite;
mod answers;
mod connections;
mod encryption;

use std::sync::Arc;

use chrono::DateTime;
use posthaste::{Event, NewEvent, Outcome, Page, Sink};
use posthaste_sinks::webhook::{WebhookSettings, WebhookSink};
use posthaste_sinks::{Problems, Route, Section, Surroundings};
use serde_json::{Value, json};

/// The secrets that tests may name: `{ "env": "CURRENT" }`.
const CURRENT: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PREVIOUS: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const WRONG: &str = "whsec_Dw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8=";

/// A sink for a receiver on this machine, with these fields changed.
fn open_with(url: &str, route: Route, changes: &Value) -> WebhookSink {
    let mut table = json!({ "url": url, "secrets": [{ "env": "CURRENT" }], "allow_private": true });
    for (name, value) in changes.as_object().expect("a table") {
        table[name] = value.clone();
    }
    let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
    let variables = [("CURRENT", CURRENT), ("PREVIOUS", PREVIOUS), ("WRONG", WRONG)];
    surroundings.variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let fields = table.as_object().expect("a table");
    let section = Section::new("sink", fields, &problems, &surroundings);
    let settings = WebhookSettings::validate(&section);
    section.finish();
    let settings = settings.unwrap_or_else(|| panic!("{problems:?}"));
    assert_eq!(problems.count(), 0, "{problems:?}");
    WebhookSink::new(settings, route).expect("a sink")
}

fn open(url: &str, changes: &Value) -> WebhookSink {
    open_with(url, Route::new("s"), changes)
}

fn event(key: &str) -> Arc<Event> {
    let event = NewEvent::bytes("orders", "{\"n\":1}").content_type("application/json").key(key);
    Arc::new(event.stored(1, DateTime::UNIX_EPOCH))
}

/// What becomes of one event.
async fn outcome(sink: &WebhookSink) -> Outcome {
    deliver(sink, vec![event("k")]).await.remove(0).expect("marked")
}

async fn deliver(sink: &WebhookSink, events: Vec<Arc<Event>>) -> Vec<Option<Outcome>> {
    let count = events.len();
    let mut page = Page::new(events);
    sink.deliver(&mut page).await;
    (0..count).map(|index| page.outcome(index).cloned()).collect()
}

/// The word and the reason.
fn told(outcome: Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Delivered => ("delivered", String::new()),
        Outcome::Retry { reason, .. } => ("retry", reason),
        Outcome::Dead { reason } => ("dead", reason),
        Outcome::Unavailable { reason } => ("unavailable", reason),
        other => panic!("{other:?}"),
    }
}
