//! What travels with an event: CloudEvents 1.0 attributes, the producer's headers, W3C trace context.
//!
//! Which prefix an attribute gets, and how its value is encoded, is each sink's business: the bindings differ.

use bytes::Bytes;
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

/// An event ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// CloudEvents attributes without prefix (`id`, `source`, ...), without `datacontenttype`; empty in structured form.
    pub attributes: Vec<(&'static str, String)>,
    /// The media type of the body.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
    /// The producer's headers, trace context among them. Names are lower case.
    pub headers: Vec<(String, String)>,
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
    pub fn message(&self, event: &Event) -> Result<Message, String> {
        let attributes = attributes(event, self.source.render(event)?);
        let headers = event.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(match self.form {
            Form::Binary => Message {
                attributes,
                content_type: event.content_type.clone(),
                body: Bytes::copy_from_slice(&event.payload),
                headers,
            },
            Form::Structured => Message {
                attributes: Vec::new(),
                content_type: STRUCTURED.to_owned(),
                body: structured(event, attributes).into(),
                headers,
            },
        })
    }
}

/// The attributes in a fixed order. Names of extensions are lower-case letters and digits, as the specification wants.
fn attributes(event: &Event, source: String) -> Vec<(&'static str, String)> {
    let required = [
        ("specversion", "1.0".to_owned()),
        ("id", event.id.to_string()),
        ("source", source),
        ("type", event.event_type.clone().unwrap_or_else(|| event.topic.clone())),
        ("time", event.created_at.to_rfc3339_opts(SecondsFormat::Micros, true)),
        ("namespace", event.namespace.clone()),
        ("topic", event.topic.clone()),
    ];
    let header = |name: &str| event.headers.get(name).map(str::to_owned);
    let optional = [
        ("subject", event.aggregate_id.clone().or_else(|| event.key.clone())),
        ("partitionkey", event.key.clone()),
        ("aggregatetype", event.aggregate_type.clone()),
        ("aggregateid", event.aggregate_id.clone()),
        ("tenantid", event.tenant_id.map(|tenant| tenant.to_string())),
        ("traceparent", header("traceparent")),
        ("tracestate", header("tracestate")),
    ];
    let present = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
    required.into_iter().chain(present).collect()
}

/// JSON stays JSON; any other payload is base64 in `data_base64`.
fn structured(event: &Event, attributes: Vec<(&'static str, String)>) -> Vec<u8> {
    let mut object: Map<String, Value> =
        attributes.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
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
pub(crate) fn percent_encode(value: &str) -> String {
    let plain = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b'"' && byte != b'%';
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match plain(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
