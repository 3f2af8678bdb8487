//! An event as a message: its subject and its headers.

use std::borrow::Cow;
use std::sync::LazyLock;

use async_nats::header::{self, HeaderMap, HeaderName, IntoHeaderName};
use bytes::Bytes;
use posthaste::Event;

use crate::endpoint::Route;
use crate::envelope::{Form, header_names, percent_encode};
use crate::template::Template;

/// Far above any sensible subject, and below what the server closes the connection for (4,096 with all around it).
const LONGEST_SUBJECT: usize = 2048;

/// Whether a message can be published on this subject; the error is a sentence.
pub(super) fn check_subject(subject: &str) -> Result<(), String> {
    let bad = |what: &str| Err(format!("`{}` is no subject for messages: {what}", shown(subject)));
    if subject.len() > LONGEST_SUBJECT {
        return bad(&format!("it has {} bytes, and {LONGEST_SUBJECT} are allowed", subject.len()));
    }
    if subject.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return bad("it contains white space");
    }
    if subject.contains(['*', '>']) {
        return bad("it contains a wildcard (* or >)");
    }
    if subject.split('.').any(str::is_empty) {
        return bad("there is nothing before, after or between two dots");
    }
    if subject.starts_with('$') {
        return bad("subjects with a leading $ belong to the server");
    }
    Ok(())
}

fn shown(subject: &str) -> String {
    subject.chars().take(120).collect()
}

/// The subject of this event.
pub(super) fn subject(template: &Template, event: &Event) -> Result<String, String> {
    let subject = template.render(event)?;
    check_subject(&subject).map(|()| subject)
}

/// The headers and the body for this event.
pub(super) fn message(
    route: &Route,
    stream: Option<&str>,
    event: &Event,
) -> Result<(HeaderMap, Bytes), String> {
    let message = route.envelope.message(event)?;
    let mut headers = match route.envelope.form() {
        Form::Binary => BEGUN.clone(),
        Form::Structured => HeaderMap::new(),
    };
    for (name, value) in message.headers.iter().filter(|(name, _)| !is_reserved(name)) {
        let unfit = |_| format!("NATS cannot carry a header with the name `{name}`");
        headers.insert(name.parse::<HeaderName>().map_err(unfit)?, &*producers_value(name, value));
    }
    let mut known = ATTRIBUTES.iter();
    for (name, value) in message.attributes.into_iter().filter(|(name, _)| *name != SPECVERSION) {
        headers.insert(attribute_name(&mut known, name), encoded(value));
    }
    match route.envelope.form() {
        Form::Binary => headers.insert(CONTENT_TYPE, encoded(message.content_type)),
        Form::Structured => headers.insert("Content-Type", &*message.content_type),
    }
    headers.insert(header::NATS_MESSAGE_ID, event.id.to_string());
    if let Some(stream) = stream {
        headers.insert(header::NATS_EXPECTED_STREAM, stream);
    }
    Ok((headers, message.body.into_owned().into()))
}

/// The names of the attributes that there are, ready to be sent, in the order in which an event has them.
static ATTRIBUTES: LazyLock<Vec<(&str, HeaderName)>> =
    LazyLock::new(|| header_names(HeaderName::from_static));
const CONTENT_TYPE: HeaderName = HeaderName::from_static("ce-datacontenttype");

/// The attribute that is the same for every event...
const SPECVERSION: &str = "specversion";
/// ...in a table with room for the others. One that begins without room grows three times for every event, and hashes each name in
/// it anew. The library has no word for room, but makes as much as there are entries in a text that it reads, though they all be the same.
static BEGUN: LazyLock<HeaderMap> = LazyLock::new(|| {
    let entries = [r#""ce-specversion":["1.0"]"#; 14].join(",");
    let mut headers: HeaderMap = serde_json::from_str(&format!("{{{entries}}}")).unwrap_or_default();
    headers.insert("ce-specversion", "1.0");
    headers
});

/// Looks from the attribute before it on.
fn attribute_name(known: &mut std::slice::Iter<'_, (&str, HeaderName)>, name: &str) -> HeaderName {
    let known = known.find(|(known, _)| *known == name);
    known.map_or_else(|| format!("ce-{name}").into_header_name(), |(_, header)| header.clone())
}

/// What needs no encoding is not copied.
fn encoded(value: Cow<'_, str>) -> String {
    match percent_encode(&value) {
        Cow::Borrowed(_) => value.into_owned(),
        Cow::Owned(encoded) => encoded,
    }
}

/// `nats-` headers are commands: one of them empties a stream.
fn is_reserved(name: &str) -> bool {
    name.starts_with("ce-") || name.starts_with("nats-") || name == "content-type"
}

/// Encoded like attributes, except trace context: its readers expect it as it is, and baggage has its own encoding.
fn producers_value<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    let trace = matches!(name, "traceparent" | "tracestate" | "baggage");
    match trace && value.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        true => value.into(),
        false => percent_encode(value),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};

    use super::*;
    use crate::envelope::Envelope;

    fn headers(route: &Route, event: NewEvent) -> HeaderMap {
        message(route, None, &event.stored(1, DateTime::UNIX_EPOCH)).expect("a message").0
    }

    #[test]
    fn a_subject_has_no_spaces_wildcards_or_empty_tokens() {
        for good in ["a", "a.b-c_d", "größe.x"] {
            assert_eq!(check_subject(good), Ok(()), "{good}");
        }
        for bad in
            ["", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\r\nPUB", "a.*", "a.>", "$JS.API.STREAM.PURGE.X"]
        {
            assert!(check_subject(bad).is_err(), "{bad}");
        }
        assert!(check_subject(&"x".repeat(2049)).is_err());
    }

    #[test]
    fn producers_cannot_give_commands_or_forge_attributes() {
        let event = NewEvent::bytes("orders", "x").header("Nats-Rollup", "all").header("ce-id", "forged");
        let event = event.header("content-type", "text/evil").header("x-ok", "ja, schön");
        let headers = headers(&Route::new("s"), event);
        assert_eq!(headers.get("x-ok").map(|value| value.as_str()), Some("ja,%20sch%C3%B6n"));
        assert!(headers.get("nats-rollup").is_none() && headers.get("content-type").is_none());
        let id = headers.get("Nats-Msg-Id").map(ToString::to_string);
        assert_eq!(headers.get("ce-id").map(ToString::to_string), id);
    }

    #[test]
    fn trace_context_travels_as_it_is() {
        let event = NewEvent::bytes("orders", "x").header("baggage", "a=b%20c").header("tracestate", "k=v w");
        let headers = headers(&Route::new("s"), event);
        assert_eq!(headers.get("baggage").map(|value| value.as_str()), Some("a=b%20c"));
        assert_eq!(headers.get("tracestate").map(|value| value.as_str()), Some("k=v w"));
        assert_eq!(headers.get("ce-tracestate").map(|value| value.as_str()), Some("k=v%20w"));
    }

    #[test]
    fn every_attribute_has_its_header() {
        let event = NewEvent::bytes("orders", "x").key("k").event_type("paid").header("tracestate", "k=v");
        let event = event.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let event = event.stored(1, DateTime::UNIX_EPOCH);
        let route = Route::new("s");
        let attributes = route.envelope.message(&event).expect("a message").attributes;
        let (headers, _) = message(&route, None, &event).expect("a message");
        assert_eq!(headers.get("ce-specversion").map(|value| value.as_str()), Some("1.0"));
        for (name, value) in &attributes {
            let header = headers.get(format!("ce-{name}"));
            assert_eq!(header.map(|value| value.as_str()), Some(&*percent_encode(value)), "{name}");
        }
        // Besides them: the content type, the event's id, and the two headers of the producer.
        assert_eq!(headers.len(), attributes.len() + 4);
    }

    #[test]
    fn the_structured_form_says_so() {
        let route = Route::new("s").envelope(Envelope::new(Form::Structured));
        let headers = headers(&route, NewEvent::bytes("orders", "x"));
        let content_type = headers.get("Content-Type").map(|value| value.as_str());
        assert_eq!(content_type, Some("application/cloudevents+json; charset=UTF-8"));
        assert!(headers.get("ce-id").is_none() && headers.get("ce-datacontenttype").is_none());
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        for form in [Form::Binary, Form::Structured] {
            let event =
                NewEvent::bytes("orders", "x").header("nats-msg-id", "forged").header("ce-id", "forged");
            let event = event.stored(1, DateTime::UNIX_EPOCH);
            let route = Route::new("s").envelope(Envelope::new(form));
            let (headers, _) = message(&route, None, &event).expect("a message");
            let pairs = headers.iter().map(|(name, values)| (name.to_string(), values[0].to_string()));
            assert_eq!(event_id_of(Source::Nats, pairs), Some(event.id.to_string()), "{form:?}");
        }
    }
}
