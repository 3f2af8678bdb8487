//! One event as one Kafka record: topic, key, time, headers, body.

use bytes::Bytes;
use posthaste::Event;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use crate::endpoint::Route;

use super::settings::{KafkaSettings, topic_mistake};

/// What stands before the names of CloudEvents attributes.
const PREFIX: &str = "ce_";
const CONTENT_TYPE: &str = "content-type";

/// The most that a batch adds to its only record, and a record to one header.
const OVERHEAD: usize = 128;
const HEADER_OVERHEAD: usize = 10;

/// A record, ready to be sent as often as need be.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) topic: String,
    key: Option<String>,
    millis: i64,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Record {
    /// The error says why the event cannot become a record; it is dead then.
    pub(super) fn of(event: &Event, settings: &KafkaSettings, route: &Route) -> Result<Self, String> {
        let topic = settings.topic.render(event)?;
        if let Some(mistake) = topic_mistake(&topic) {
            return Err(mistake);
        }
        let message = route.envelope.message(event)?;
        let own = message.attributes.into_iter().map(|(name, value)| (format!("{PREFIX}{name}"), value));
        let mut headers: Vec<(String, String)> = own.collect();
        if headers.is_empty() {
            // In the structured form too, so that consumers find the id in one place.
            headers.push((format!("{PREFIX}id"), event.id.to_string()));
        }
        headers.push((CONTENT_TYPE.to_owned(), message.content_type));
        let free = |name: &str| name != CONTENT_TYPE && !name.starts_with(PREFIX);
        headers.extend(message.headers.into_iter().filter(|(name, _)| free(name)));
        let (key, millis) = (event.key.clone(), event.created_at.timestamp_millis());
        let record = Self { topic, key, millis, headers, body: message.body };
        record.check_size(settings.max_message_bytes)?;
        Ok(record)
    }

    fn check_size(&self, most: usize) -> Result<(), String> {
        let size = self.size();
        match size <= most {
            true => Ok(()),
            false => Err(format!(
                "too large: the record has up to {size} bytes ({} of them payload), and max_message_bytes is {most}",
                self.body.len()
            )),
        }
    }

    /// At most this many bytes arrive at the broker, without compression.
    fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER_OVERHEAD).sum();
        OVERHEAD + headers + self.key.as_ref().map_or(0, String::len) + self.body.len()
    }

    /// As librdkafka wants it.
    pub(super) fn to_send(&self) -> FutureRecord<'_, str, [u8]> {
        let with = |headers: OwnedHeaders, (name, value): &(String, String)| {
            headers.insert(Header { key: name, value: Some(value.as_bytes()) })
        };
        let headers = self.headers.iter().fold(OwnedHeaders::new_with_capacity(self.headers.len()), with);
        let record =
            FutureRecord::to(&self.topic).payload(&*self.body).timestamp(self.millis).headers(headers);
        match &self.key {
            Some(key) => record.key(key.as_str()),
            None => record,
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};

    use super::*;
    use crate::envelope::{Envelope, Form};
    use crate::template::Template;

    fn record(event: NewEvent, envelope: Envelope) -> Result<Record, String> {
        let settings = KafkaSettings::new(["localhost:9092"]);
        Record::of(&event.stored(1, DateTime::UNIX_EPOCH), &settings, &Route::new("s").envelope(envelope))
    }

    fn header<'r>(record: &'r Record, name: &str) -> Vec<&'r str> {
        let named = record.headers.iter().filter(|(header, _)| header == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn reserved_names_win_over_the_producers_headers() {
        let event = NewEvent::bytes("orders", "x").key("k").content_type("text/plain");
        let event = event.header("ce_id", "forged").header("content-type", "forged").header("x-a", "1");
        let record = record(event, Envelope::default()).expect("a record");
        assert_eq!((record.topic.as_str(), record.key.as_deref()), ("orders", Some("k")));
        assert_eq!(
            (header(&record, "content-type"), header(&record, "x-a")),
            (vec!["text/plain"], vec!["1"])
        );
        assert_eq!(header(&record, "ce_id").len(), 1);
        assert_ne!(header(&record, "ce_id"), ["forged"]);
    }

    #[test]
    fn the_structured_form_has_its_media_type_and_the_id() {
        let record =
            record(NewEvent::bytes("orders", "{}"), Envelope::new(Form::Structured)).expect("a record");
        assert_eq!(header(&record, "content-type"), ["application/cloudevents+json; charset=UTF-8"]);
        assert_eq!((header(&record, "ce_id").len(), header(&record, "ce_type").len()), (1, 0));
    }

    #[test]
    fn what_cannot_be_a_record_says_why() {
        let large = record(NewEvent::bytes("orders", vec![0; 1_000_000]), Envelope::default());
        let sentence = large.expect_err("too large");
        assert!(
            sentence.contains("1000000 of them payload") && sentence.contains("is 1000000"),
            "{sentence}"
        );
        let mut settings = KafkaSettings::new(["localhost:9092"]);
        settings.topic = Template::parse("{header:where}").expect("a template");
        let to = |place: &str| {
            let event = NewEvent::bytes("orders", "").header("where", place).stored(1, DateTime::UNIX_EPOCH);
            Record::of(&event, &settings, &Route::new("s")).map(|record| record.topic)
        };
        assert_eq!(to("a.b_c-1").as_deref(), Ok("a.b_c-1"));
        for bad in ["..", "a b", "grüße", &"x".repeat(250)] {
            assert!(to(bad).is_err_and(|sentence| sentence.contains("no name of a topic")), "{bad}");
        }
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        for form in [Form::Binary, Form::Structured] {
            let event =
                NewEvent::bytes("orders", "{\"id\":\"the payload's\"}").header("webhook-id", "forged");
            let event = event.header("ce_id", "forged").stored(1, DateTime::UNIX_EPOCH);
            let (settings, route) = (KafkaSettings::new(["localhost:9092"]), Route::new("s"));
            let record =
                Record::of(&event, &settings, &route.envelope(Envelope::new(form))).expect("a record");
            let id = event_id_of(Source::Kafka, record.headers.iter().map(|(name, value)| (name, value)));
            assert_eq!(id, Some(event.id.to_string()), "{form:?}");
        }
    }
}
