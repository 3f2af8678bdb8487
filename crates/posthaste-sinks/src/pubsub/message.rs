//! An event as a message: the body as it is, everything else as attributes.

use std::collections::BTreeMap;

use chrono::SecondsFormat;
use google_cloud_pubsub::model::Message;
use posthaste::Event;

use crate::endpoint::Route;

/// Of a message with its attributes and its key, and of a request.
pub(super) const LARGEST: usize = 10_000_000;
const MOST_ATTRIBUTES: usize = 100;
const LONGEST_NAME: usize = 256;
const LONGEST_VALUE: usize = 1024;
const LONGEST_KEY: usize = 1024;

/// Headers that tell of the way and not of the event: one that does not fit is left behind.
const OF_THE_WAY: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// The message; the error is a sentence: Pub/Sub can never carry it.
pub(super) fn message(event: &Event, route: &Route) -> Result<Message, String> {
    let made = route.envelope.message(event)?;
    let mut attributes: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in made.headers {
        if name == "traceparent" {
            // What Google's client libraries look for.
            attributes.insert("googclient_traceparent".to_owned(), value.to_owned());
        }
        if !is_ours(name) {
            attributes.insert(name.to_owned(), value.to_owned());
        }
    }
    let prefixed =
        made.attributes.into_iter().map(|(name, value)| (format!("ce-{name}"), value.into_owned()));
    attributes.extend(prefixed);
    attributes.extend(own(event));
    attributes.insert("content-type".to_owned(), made.content_type.into_owned());
    attributes.retain(|name, value| value.len() <= LONGEST_VALUE || !tells_of_the_way(name));
    let key = event.key.as_ref().filter(|_| route.in_key_order).cloned().unwrap_or_default();
    check(made.body.len(), &attributes, &key)?;
    Ok(Message::new().set_data(made.body.into_owned()).set_attributes(attributes).set_ordering_key(key))
}

fn tells_of_the_way(name: &str) -> bool {
    let bare = ["ce-", "googclient_"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    OF_THE_WAY.contains(&bare)
}

/// Always there, in both forms, under the names that consumers of the outbox tables of old know.
fn own(event: &Event) -> impl Iterator<Item = (String, String)> {
    let attributes = [
        ("event_id", Some(event.id.to_string())),
        ("event_type", event.event_type.clone()),
        ("aggregate_type", event.aggregate_type.clone()),
        ("aggregate_id", event.aggregate_id.clone()),
        ("created_at", Some(event.created_at.to_rfc3339_opts(SecondsFormat::Micros, true))),
    ];
    attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

/// Names whose meaning is fixed: a producer's header of that name is not sent.
fn is_ours(name: &str) -> bool {
    let own = ["event_id", "event_type", "aggregate_type", "aggregate_id", "created_at", "content-type"];
    own.contains(&name) || name.starts_with("ce-") || name.starts_with("googclient_")
}

fn check(body: usize, attributes: &BTreeMap<String, String>, key: &str) -> Result<(), String> {
    if attributes.len() > MOST_ATTRIBUTES {
        return Err(format!("{} attributes; Pub/Sub takes {MOST_ATTRIBUTES}", attributes.len()));
    }
    attributes.iter().try_for_each(|(name, value)| check_attribute(name, value))?;
    if key.len() > LONGEST_KEY {
        return Err(format!("the key has {} bytes; Pub/Sub takes {LONGEST_KEY}", key.len()));
    }
    // Each field has a tag and a length before it; the topic's name and the request around it are small.
    let beside: usize = attributes.iter().map(|(name, value)| name.len() + value.len() + 16).sum();
    match body + beside + key.len() + 512 {
        size if size > LARGEST => {
            Err(format!("the message has {size} bytes with its attributes; Pub/Sub takes {LARGEST}"))
        }
        _ => Ok(()),
    }
}

fn check_attribute(name: &str, value: &str) -> Result<(), String> {
    let shown: String = name.chars().take(60).collect();
    if name.len() > LONGEST_NAME {
        return Err(format!(
            "the name of the header {shown}... has {} bytes; Pub/Sub takes {LONGEST_NAME}",
            name.len()
        ));
    }
    if name.starts_with("goog") && name != "googclient_traceparent" {
        return Err(format!("the header {shown} begins with goog, which Google keeps for itself"));
    }
    if value.len() > LONGEST_VALUE {
        return Err(format!(
            "the attribute {shown} has {} bytes; Pub/Sub takes {LONGEST_VALUE}",
            value.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};

    use super::*;
    use crate::envelope::{Envelope, Form};

    fn made(event: NewEvent, route: &Route) -> Result<Message, String> {
        message(&event.stored(1, DateTime::UNIX_EPOCH), route)
    }

    fn refusal(event: NewEvent) -> String {
        made(event, &Route::new("s")).expect_err("cannot be carried")
    }

    fn event() -> NewEvent {
        NewEvent::bytes("orders", "x")
    }

    #[test]
    fn the_body_is_unchanged_and_everything_else_an_attribute() {
        let event =
            event().event_type("order.created").aggregate("order", "o-1").header("traceparent", "00-a-b-01");
        let message = made(event.header("x-note", "n"), &Route::new("s")).expect("fits");
        let attribute = |name: &str| message.attributes.get(name).map(String::as_str);
        assert_eq!((&message.data[..], message.ordering_key.as_str()), (&b"x"[..], "o-1"));
        assert_eq!(attribute("event_id"), attribute("ce-id"));
        assert_eq!(
            (attribute("event_type"), attribute("ce-type")),
            (Some("order.created"), Some("order.created"))
        );
        assert_eq!((attribute("aggregate_type"), attribute("aggregate_id")), (Some("order"), Some("o-1")));
        assert_eq!(attribute("created_at"), Some("1970-01-01T00:00:00.000000Z"));
        assert_eq!(attribute("content-type"), Some("application/octet-stream"));
        assert_eq!(
            (attribute("traceparent"), attribute("googclient_traceparent")),
            (Some("00-a-b-01"), Some("00-a-b-01"))
        );
        assert_eq!(attribute("x-note"), Some("n"));
    }

    #[test]
    fn the_structured_form_keeps_the_five_attributes() {
        let route = Route::new("s").without_order().envelope(Envelope::new(Form::Structured));
        let message = made(event().key("k"), &route).expect("fits");
        assert_eq!(message.ordering_key, "", "no order, no ordering key");
        assert!(message.attributes.contains_key("event_id") && !message.attributes.contains_key("ce-id"));
        assert!(!message.attributes.contains_key("event_type"), "the event has none");
        assert!(message.attributes["content-type"].starts_with("application/cloudevents+json"));
    }

    #[test]
    fn reserved_names_win() {
        let event = event().header("event_id", "mine").header("ce-id", "mine").header("content-type", "mine");
        let message = made(event.header("googclient_traceparent", "mine"), &Route::new("s")).expect("fits");
        assert!(!message.attributes.values().any(|value| value == "mine"), "{message:?}");
    }

    #[test]
    fn what_cannot_be_carried_is_said_with_the_numbers() {
        let refused = refusal(NewEvent::bytes("orders", vec![0; LARGEST]));
        assert!(
            refused.starts_with("the message has 10000") && refused.ends_with("Pub/Sub takes 10000000"),
            "{refused}"
        );
        assert_eq!(
            refusal(event().header("h", "x".repeat(1025))),
            "the attribute h has 1025 bytes; Pub/Sub takes 1024"
        );
        assert_eq!(
            refusal(event().header("goog-x", "y")),
            "the header goog-x begins with goog, which Google keeps for itself"
        );
        let long = refusal(event().header("h".repeat(257), "y"));
        assert!(long.ends_with("has 257 bytes; Pub/Sub takes 256"), "{long}");
        let many = (0..100).fold(event(), |event, n| event.header(format!("h{n}"), "v"));
        assert!(refusal(many).ends_with("attributes; Pub/Sub takes 100"));
        assert_eq!(
            refusal(event().key("k".repeat(1025))),
            "the attribute ce-partitionkey has 1025 bytes; Pub/Sub takes 1024"
        );
    }

    #[test]
    fn a_long_trace_does_not_kill_an_event() {
        let message = made(
            event().header("baggage", "x".repeat(2000)).header("tracestate", "x".repeat(2000)),
            &Route::new("s"),
        );
        let message = message.expect("fits without them");
        assert!(
            !message.attributes.keys().any(|name| name.contains("baggage") || name.contains("tracestate"))
        );
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        for form in [Form::Binary, Form::Structured] {
            let event = event().header("event_id", "forged").stored(1, DateTime::UNIX_EPOCH);
            let route = Route::new("s").envelope(Envelope::new(form));
            let attributes = message(&event, &route).expect("fits").attributes;
            assert_eq!(event_id_of(Source::Pubsub, attributes), Some(event.id.to_string()), "{form:?}");
        }
    }
}
