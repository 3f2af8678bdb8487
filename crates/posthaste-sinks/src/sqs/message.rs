//! An event as SQS carries it: one text and at most ten attributes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use posthaste::Event;
use serde_json::{Map, Value};

use super::settings::{Encoding, SqsSettings};
use super::text;
use crate::endpoint::Route;
use crate::envelope::{Form, Message};

/// What stands before the names of CloudEvents attributes. There is no binding for SQS; this is HTTP's.
const PREFIX: &str = "ce-";
/// The attribute that holds, as a JSON object, whatever found no place of its own.
pub(super) const MORE: &str = "posthaste-more";
const CONTENT_TYPE: &str = "content-type";
const TRANSFER_ENCODING: &str = "content-transfer-encoding";
/// SQS takes ten.
const MAX_ATTRIBUTES: usize = 10;
/// Who gets a place first; the producer's headers follow, then the other attributes.
const FIRST: [&str; 9] = [
    CONTENT_TYPE,
    TRANSFER_ENCODING,
    "ce-id",
    "ce-type",
    "ce-specversion",
    "ce-source",
    "ce-time",
    "traceparent",
    "ce-partitionkey",
];

/// A message with its address, and which event of the page it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) index: usize,
    pub(super) queue_url: String,
    pub(super) body: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) fifo: Option<Fifo>,
}

/// What a FIFO queue wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fifo {
    pub(super) group: String,
    pub(super) dedupe_id: String,
}

impl Entry {
    /// The error says why this event can never be sent.
    pub(super) fn of(
        index: usize,
        event: &Event,
        settings: &SqsSettings,
        route: &Route,
    ) -> Result<Self, String> {
        let message = route.envelope.message(event)?;
        let coded = settings.encoding == Encoding::Base64 && route.envelope.form() == Form::Binary;
        let body = body(&message, coded)?;
        let attributes = fit(attributes(&message, coded));
        attributes
            .iter()
            .try_for_each(|(name, value)| text::check(&format!("the attribute {name}"), value))?;
        let queue_url = settings.queue_url.render(event)?;
        let fifo = queue_url.ends_with(".fifo").then(|| fifo(event));
        let entry = Self { index, queue_url, body, attributes, fifo };
        match (entry.size(), settings.max_batch_bytes) {
            (size, max) if size > max => {
                Err(format!("the message has {size} bytes with its attributes, and max_batch_bytes is {max}"))
            }
            _ => Ok(entry),
        }
    }

    /// As SQS counts: the body, and of each attribute its name, its type and its value.
    pub(super) fn size(&self) -> usize {
        let attribute = |(name, value): &(String, String)| name.len() + "String".len() + value.len();
        self.body.len() + self.attributes.iter().map(attribute).sum::<usize>()
    }
}

/// Without a key an event is a group of its own: nothing waits for it.
fn fifo(event: &Event) -> Fifo {
    let id = event.id.to_string();
    Fifo { group: event.key.as_deref().map_or_else(|| id.clone(), text::group), dedupe_id: id }
}

fn body(message: &Message<'_>, coded: bool) -> Result<String, String> {
    if message.body.is_empty() {
        return Err("the payload is empty, and SQS takes no empty message".to_owned());
    }
    if coded {
        return Ok(BASE64_STANDARD.encode(&message.body));
    }
    let body = text::utf8(&message.body)?;
    text::check("the payload", body)?;
    Ok(body.to_owned())
}

/// Everything there is to say, most important first.
fn attributes(message: &Message<'_>, coded: bool) -> Vec<(String, String)> {
    let own = message.attributes.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.to_string()));
    let reserved =
        |name: &str| name.starts_with(PREFIX) || [CONTENT_TYPE, TRANSFER_ENCODING, MORE].contains(&name);
    let mut all = vec![(CONTENT_TYPE.to_owned(), message.content_type.to_string())];
    all.extend(coded.then(|| (TRANSFER_ENCODING.to_owned(), "base64".to_owned())));
    let free = message.headers.iter().filter(|(name, _)| !reserved(name));
    all.extend(free.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    all.extend(own);
    all.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    all
}

/// At most ten attributes: what is too much, or has a name or value that SQS does not take there, goes into one.
fn fit(all: Vec<(String, String)>) -> Vec<(String, String)> {
    let (mut fitting, mut more): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(name, value)| is_name(name) && !value.is_empty());
    if fitting.len() + usize::from(!more.is_empty()) > MAX_ATTRIBUTES {
        more.extend(fitting.split_off(MAX_ATTRIBUTES - 1));
    }
    if !more.is_empty() {
        let object: Map<String, Value> = more.into_iter().map(|(name, value)| (name, value.into())).collect();
        fitting.push((MORE.to_owned(), Value::Object(object).to_string()));
    }
    fitting
}

/// Letters, digits, `_`, `-` and single dots inside; not Amazon's own.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let dots = name.starts_with('.') || name.ends_with('.') || name.contains("..");
    let amazons = ["aws.", "amazon."].iter().any(|theirs| name.to_ascii_lowercase().starts_with(theirs));
    name.len() <= 256 && name.bytes().all(plain) && !dots && !amazons
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_in, event_id_of};

    use super::*;
    use crate::envelope::Envelope;
    use crate::sqs::settings::tests::settings;

    const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/1/q.fifo";

    fn entry(event: NewEvent, encoding: &str, form: Form) -> Result<Entry, String> {
        let settings = settings(
            serde_json::json!({ "queue_url": QUEUE, "encoding": encoding, "max_batch_bytes": 2000 }),
        );
        let event = event.stored(1, DateTime::UNIX_EPOCH);
        Entry::of(0, &event, &settings, &Route::new("s").envelope(Envelope::new(form)))
    }

    fn text_event(payload: impl Into<Vec<u8>>) -> NewEvent {
        NewEvent::bytes("orders", payload).content_type("text/plain")
    }

    #[test]
    fn a_message_has_at_most_ten_attributes_and_loses_nothing() {
        let event = text_event("x").key("k k").aggregate("order", "o-1").tenant(uuid::Uuid::nil());
        let event =
            event.header("traceparent", "t").header("x-a", "1").header("x-b", "2").header("ce-id", "no");
        let entry =
            entry(event.header("we!rd", "3").header("empty", ""), "text", Form::Binary).expect("fits");
        assert_eq!(entry.attributes.len(), 10);
        let get =
            |name: &str| entry.attributes.iter().find(|(known, _)| known == name).map(|(_, v)| v.as_str());
        let fifo = entry.fifo.clone().expect("a FIFO queue");
        assert_eq!((get("ce-id"), fifo.group.as_str()), (Some(fifo.dedupe_id.as_str()), "k%20k"));
        assert_eq!(
            (get("content-type"), get("traceparent"), get("x-a")),
            (Some("text/plain"), Some("t"), Some("1"))
        );
        let more: Map<String, Value> = serde_json::from_str(get(MORE).expect("more")).expect("JSON");
        assert_eq!((&more["we!rd"], &more["empty"], &more["x-b"]), (&"3".into(), &"".into(), &"2".into()));
        assert_eq!(more["ce-aggregateid"], "o-1");
        assert!(!more.contains_key("ce-id"), "reserved names win");
    }

    #[test]
    fn without_a_key_an_event_is_its_own_group() {
        let fifo = entry(text_event("x"), "text", Form::Binary).expect("fits").fifo.expect("a FIFO queue");
        assert_eq!(fifo.group, fifo.dedupe_id);
    }

    #[test]
    fn what_cannot_be_carried_is_said_before_sending() {
        let refused = |event: NewEvent| entry(event, "text", Form::Binary).expect_err("refused");
        assert!(refused(text_event("")).contains("takes no empty message"));
        assert!(refused(text_event("a\u{1}")).contains("the payload contains U+0001 at character 2"));
        assert!(refused(text_event(vec![0xff])).contains("byte 0xFF at position 1"));
        assert!(refused(text_event("x").header("a", "\u{FFFE}")).contains("the attribute a contains U+FFFE"));
        let sentence = refused(text_event("x".repeat(2000)));
        assert!(sentence.ends_with("bytes with its attributes, and max_batch_bytes is 2000"), "{sentence}");
    }

    #[test]
    fn any_bytes_can_be_sent_in_base64_and_in_structured_form() {
        let coded = entry(text_event(vec![0, 255]), "base64", Form::Binary).expect("fits");
        assert_eq!(coded.body, "AP8=");
        assert!(coded.attributes.contains(&("content-transfer-encoding".to_owned(), "base64".to_owned())));
        let structured = entry(text_event(vec![0, 255]), "base64", Form::Structured).expect("fits");
        let body: Value = serde_json::from_str(&structured.body).expect("JSON, not coded again");
        assert_eq!(body["data_base64"], "AP8=");
        assert_eq!(structured.attributes.len(), 1, "{:?}", structured.attributes);
    }

    #[test]
    fn consumers_find_the_event_id_among_the_attributes_or_in_the_structured_body() {
        let binary = text_event("{\"id\":\"the payload's\"}").header("ce-id", "forged");
        let binary = entry(binary, "text", Form::Binary).expect("fits");
        let id = event_id_of(Source::Sqs, binary.attributes.iter().map(|(name, value)| (name, value)));
        assert_eq!(id, binary.fifo.map(|fifo| fifo.dedupe_id), "the event's, as the queue knows it");
        let structured =
            entry(text_event("x").header("ce-id", "forged"), "text", Form::Structured).expect("fits");
        let pairs = structured.attributes.iter().map(|(name, value)| (name, value));
        assert_eq!(event_id_of(Source::Sqs, pairs), None);
        assert_eq!(event_id_in(structured.body.as_bytes()), structured.fifo.map(|fifo| fifo.dedupe_id));
    }
}
