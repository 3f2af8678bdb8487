//! What travels with an event: CloudEvents 1.0 attributes, the producer's headers, W3C trace context.
//!
//! Which prefix an attribute gets, and how its value is encoded, is each sink's business: the bindings differ.

use std::borrow::Cow;

use chrono::SecondsFormat;
use posthaste::Event;
use serde_json::{Map, Value, json};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::section::Section;
use crate::template::Template;

/// How an event becomes a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The body is the payload, to the byte; the attributes travel beside it.
    Binary,
    /// The body is a JSON object with the attributes and the payload.
    Structured,
}

/// How the events of a subscription become messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    form: Form,
    source: Template,
}

/// An event ready to be sent. It borrows from the event what stands there word for word: a page of them costs little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'e> {
    /// CloudEvents attributes without prefix (`id`, `source`, ...), without `datacontenttype`; empty in structured form.
    pub attributes: Vec<(&'static str, Cow<'e, str>)>,
    /// The media type of the body.
    pub content_type: Cow<'e, str>,
    /// The body.
    pub body: Cow<'e, [u8]>,
    /// The producer's headers, trace context among them. Names are lower case.
    pub headers: Vec<(&'e str, &'e str)>,
}

/// The media type of the structured form.
pub(crate) const STRUCTURED: &str = "application/cloudevents+json; charset=UTF-8";

impl Default for Envelope {
    fn default() -> Self {
        Self {
            form: Form::Binary,
            source: Template::parse("/posthaste/{namespace}").unwrap_or_else(|_| unreachable!()),
        }
    }
}

impl Envelope {
    /// An envelope of this form with the usual source, `/posthaste/{namespace}`.
    pub fn new(form: Form) -> Self {
        Self { form, ..Self::default() }
    }

    /// Reads `cloudevents = "binary" | "structured"` and `source` from a subscription's table.
    pub fn validate(section: &Section<'_>) -> Self {
        Self::validate_over(section, &Self::default())
    }

    /// The same, with other values for what is not written.
    pub fn validate_over(section: &Section<'_>, usual: &Self) -> Self {
        let forms = [("binary", Form::Binary), ("structured", Form::Structured)];
        Self {
            form: section.choice("cloudevents", &forms).unwrap_or(usual.form),
            source: section.template("source").unwrap_or_else(|| usual.source.clone()),
        }
    }

    /// The form of the messages.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The message for an event; the error says what the event lacks.
    pub fn message<'e>(&self, event: &'e Event) -> Result<Message<'e>, String> {
        let attributes = attributes(event, self.source.render(event)?);
        let headers = event.headers.iter().collect();
        Ok(match self.form {
            Form::Binary => Message {
                attributes,
                content_type: Cow::Borrowed(&event.content_type),
                body: Cow::Borrowed(&event.payload),
                headers,
            },
            Form::Structured => Message {
                attributes: Vec::new(),
                content_type: Cow::Borrowed(STRUCTURED),
                body: structured(event, attributes).into(),
                headers,
            },
        })
    }
}

/// The names of all attributes there are, each with its name in headers of HTTP and NATS, which need not be put together
/// for every event.
#[cfg(any(feature = "nats", feature = "webhook"))]
pub(crate) fn header_names<N>(name_of: impl Fn(&'static str) -> N) -> Vec<(&'static str, N)> {
    let named = |name: &'static str| (name, name_of(String::leak(format!("ce-{name}"))));
    NAMES.into_iter().map(named).collect()
}

#[cfg(any(feature = "nats", feature = "webhook"))]
const NAMES: [&str; 14] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "namespace",
    "topic",
    "subject",
    "partitionkey",
    "aggregatetype",
    "aggregateid",
    "tenantid",
    "traceparent",
    "tracestate",
];

/// The attributes in a fixed order. Names of extensions are lower-case letters and digits, as the specification wants.
fn attributes(event: &Event, source: String) -> Vec<(&'static str, Cow<'_, str>)> {
    let required = [
        ("specversion", Cow::Borrowed("1.0")),
        ("id", event.id.to_string().into()),
        ("source", source.into()),
        ("type", event.event_type.as_ref().unwrap_or(&event.topic).into()),
        ("time", event.created_at.to_rfc3339_opts(SecondsFormat::Micros, true).into()),
        ("namespace", event.namespace.as_str().into()),
        ("topic", event.topic.as_str().into()),
    ];
    let header = |name: &str| event.headers.get(name).map(Cow::from);
    let optional = [
        ("subject", event.aggregate_id.as_ref().or(event.key.as_ref()).map(Cow::from)),
        ("partitionkey", event.key.as_ref().map(Cow::from)),
        ("aggregatetype", event.aggregate_type.as_ref().map(Cow::from)),
        ("aggregateid", event.aggregate_id.as_ref().map(Cow::from)),
        ("tenantid", event.tenant_id.map(|tenant| tenant.to_string().into())),
        ("traceparent", header("traceparent")),
        ("tracestate", header("tracestate")),
    ];
    let mut all = Vec::with_capacity(required.len() + optional.len());
    all.extend(required);
    all.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    all
}

/// JSON stays JSON; any other payload is base64 in `data_base64`.
fn structured(event: &Event, attributes: Vec<(&'static str, Cow<'_, str>)>) -> Vec<u8> {
    let mut object: Map<String, Value> =
        attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    object.insert("datacontenttype".into(), json!(event.content_type));
    let json = is_json(&event.content_type).then(|| std::str::from_utf8(&event.payload).ok()).flatten();
    // The payload is spliced in as it is: parsing it would change large numbers and the order of fields.
    match json.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()) {
        Some(data) => {
            let mut text = Value::Object(object).to_string();
            text.truncate(text.len() - 1);
            format!("{text},\"data\":{data}}}").into_bytes()
        }
        None => {
            object.insert("data_base64".into(), json!(BASE64_STANDARD.encode(&event.payload)));
            Value::Object(object).to_string().into_bytes()
        }
    }
}

/// Whether a media type says JSON.
pub(crate) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case("application/json") || essence.to_ascii_lowercase().ends_with("+json")
}

/// Percent-encodes a value for headers of HTTP and NATS, as the CloudEvents bindings want it.
#[cfg(any(feature = "nats", feature = "webhook"))]
pub(crate) fn percent_encode(value: &str) -> Cow<'_, str> {
    let plain = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b'"' && byte != b'%';
    if value.bytes().all(plain) {
        return value.into();
    }
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match plain(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded.into()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;

    use super::*;

    fn event(payload: &str, content_type: &str) -> Event {
        let new = NewEvent::bytes("orders", payload).content_type(content_type).event_type("order.created");
        let new = new.aggregate("order", "o-1").header("traceparent", "00-ab-cd-01").header("a", "b");
        new.stored(7, DateTime::UNIX_EPOCH)
    }

    #[test]
    #[cfg(any(feature = "nats", feature = "webhook"))]
    fn every_attribute_has_its_name_in_headers() {
        let everything = NewEvent::bytes("t", "x").event_type("e").key("k").aggregate("a", "1");
        let everything = everything.header("traceparent", "00-ab-cd-01").header("tracestate", "a=b");
        let event = everything.tenant(uuid::Uuid::nil()).stored(7, DateTime::UNIX_EPOCH);
        let message = Envelope::default().message(&event).expect("a message");
        let (names, headers): (Vec<&str>, Vec<&str>) = header_names(|name| name).into_iter().unzip();
        assert_eq!(message.attributes.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        assert_eq!(headers[..2], ["ce-specversion", "ce-id"]);
    }

    #[test]
    fn the_binary_form_leaves_the_payload_alone() {
        let event = event("{ \"n\": 1 }", "application/json");
        let message = Envelope::default().message(&event).expect("a message");
        assert_eq!(&message.body[..], b"{ \"n\": 1 }");
        assert_eq!(message.content_type, "application/json");
        let attribute =
            |name: &str| message.attributes.iter().find(|(known, _)| *known == name).map(|(_, v)| &**v);
        assert_eq!(attribute("id"), Some(event.id.to_string().as_str()));
        assert_eq!(
            (attribute("type"), attribute("source")),
            (Some("order.created"), Some("/posthaste/default"))
        );
        assert_eq!((attribute("subject"), attribute("partitionkey")), (Some("o-1"), Some("o-1")));
        assert_eq!(
            (attribute("traceparent"), attribute("time")),
            (Some("00-ab-cd-01"), Some("1970-01-01T00:00:00.000000Z"))
        );
        assert_eq!(attribute("tenantid"), None);
        assert!(message.headers.contains(&("a", "b")));
        let named = |name: &str| {
            name.len() <= 20 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        assert!(
            message.attributes.iter().all(|(name, _)| named(name)),
            "names as the specification wants them"
        );
    }

    #[test]
    fn the_structured_form_keeps_json_to_the_letter_and_encodes_the_rest() {
        let body = |event: &Event| {
            Envelope::new(Form::Structured).message(event).expect("a message").body.into_owned()
        };
        let json = body(&event("{\"big\":12345678901234567890123}", "application/vnd.shop+json; v=1"));
        let json = std::str::from_utf8(&json).expect("text");
        assert!(json.ends_with(",\"data\":{\"big\":12345678901234567890123}}"), "{json}");
        for (payload, content_type) in [("{\"n\":1}", "text/plain"), ("{broken", "application/json")] {
            let other: Value = serde_json::from_slice(&body(&event(payload, content_type))).expect("JSON");
            assert_eq!(other["data_base64"], BASE64_STANDARD.encode(payload));
            assert_eq!(other["datacontenttype"], content_type);
        }
    }

    #[test]
    #[cfg(any(feature = "nats", feature = "webhook"))]
    fn values_are_percent_encoded_as_the_bindings_want() {
        assert_eq!(percent_encode("plain-text~!"), "plain-text~!");
        assert_eq!(percent_encode("100% \"ä\"\r\n"), "100%25%20%22%C3%A4%22%0D%0A");
    }

    #[test]
    fn consumers_find_the_event_id_in_the_structured_body() {
        for content_type in ["application/json", "text/plain"] {
            let event = event("{\"id\":\"the payload's\"}", content_type);
            let body = Envelope::new(Form::Structured).message(&event).expect("a message").body;
            assert_eq!(posthaste::inbox::event_id_in(&body), Some(event.id.to_string()));
        }
    }
}
