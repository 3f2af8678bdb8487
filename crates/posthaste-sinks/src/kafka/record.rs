//! One event as one Kafka record: topic, key, time, headers, body.

use posthaste::Event;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use crate::endpoint::Route;
use crate::envelope::Message;

use super::settings::{KafkaSettings, topic_mistake};

/// What stands before the names of CloudEvents attributes.
const PREFIX: &str = "ce_";
const CONTENT_TYPE: &str = "content-type";

/// The most that a batch adds to its only record, and a record to one header.
const OVERHEAD: usize = 128;
const HEADER_OVERHEAD: usize = 10;

/// A record, ready to be sent as often as need be.
#[derive(Debug)]
pub(super) struct Record<'e> {
    pub(super) topic: String,
    key: Option<&'e str>,
    millis: i64,
    message: Message<'e>,
}

impl<'e> Record<'e> {
    /// The error says why the event cannot become a record; it is dead then.
    pub(super) fn of(event: &'e Event, settings: &KafkaSettings, route: &Route) -> Result<Self, String> {
        let topic = settings.topic.render(event)?;
        if let Some(mistake) = topic_mistake(&topic) {
            return Err(mistake);
        }
        let mut message = route.envelope.message(event)?;
        if message.attributes.is_empty() {
            // In the structured form too, so that consumers find the id in one place.
            message.attributes.push(("id", event.id.to_string().into()));
        }
        message.headers.retain(|(name, _)| *name != CONTENT_TYPE && !name.starts_with(PREFIX));
        let (key, millis) = (event.key.as_deref(), event.created_at.timestamp_millis());
        let record = Self { topic, key, millis, message };
        record.check_size(settings.max_message_bytes)?;
        Ok(record)
    }

    fn check_size(&self, most: usize) -> Result<(), String> {
        let size = self.size();
        match size <= most {
            true => Ok(()),
            false => Err(format!(
                "too large: the record has up to {size} bytes ({} of them payload), and max_message_bytes is {most}",
                self.message.body.len()
            )),
        }
    }

    /// At most this many bytes arrive at the broker, without compression.
    fn size(&self) -> usize {
        let Message { attributes, content_type, body, headers } = &self.message;
        let header = |name: usize, value: usize| name + value + HEADER_OVERHEAD;
        let own = attributes.iter().map(|(name, value)| header(PREFIX.len() + name.len(), value.len()));
        let producers = headers.iter().map(|(name, value)| header(name.len(), value.len()));
        let headers = own.chain(producers).sum::<usize>() + header(CONTENT_TYPE.len(), content_type.len());
        OVERHEAD + headers + self.key.map_or(0, str::len) + body.len()
    }

    /// As librdkafka wants it.
    pub(super) fn to_send(&self) -> FutureRecord<'_, str, [u8]> {
        let record = FutureRecord::to(&self.topic).payload(&*self.message.body).timestamp(self.millis);
        let record = record.headers(self.headers());
        match self.key {
            Some(key) => record.key(key),
            None => record,
        }
    }

    /// One name after the other in the same place: librdkafka copies it.
    fn headers(&self) -> OwnedHeaders {
        let Message { attributes, content_type, headers: producers, .. } = &self.message;
        let mut headers = OwnedHeaders::new_with_capacity(attributes.len() + 1 + producers.len());
        let mut prefixed = String::from(PREFIX);
        for (name, value) in attributes {
            prefixed.truncate(PREFIX.len());
            prefixed.push_str(name);
            headers = headers.insert(Header { key: &prefixed, value: Some(&**value) });
        }
        headers = headers.insert(Header { key: CONTENT_TYPE, value: Some(&**content_type) });
        producers
            .iter()
            .fold(headers, |headers, (name, value)| headers.insert(Header { key: name, value: Some(*value) }))
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};

    use rdkafka::message::Headers;

    use super::*;
    use crate::envelope::{Envelope, Form};
    use crate::template::Template;

    fn record(event: &Event, envelope: Envelope) -> Result<Record<'_>, String> {
        let settings = KafkaSettings::new(["localhost:9092"]);
        Record::of(event, &settings, &Route::new("s").envelope(envelope))
    }

    fn pairs(headers: &OwnedHeaders) -> Vec<(&str, &str)> {
        fn text(value: Option<&[u8]>) -> &str {
            std::str::from_utf8(value.expect("a value")).expect("text")
        }
        headers.iter().map(|header| (header.key, text(header.value))).collect()
    }

    fn header<'h>(headers: &'h OwnedHeaders, name: &str) -> Vec<&'h str> {
        let named = pairs(headers).into_iter().filter(|(header, _)| *header == name);
        named.map(|(_, value)| value).collect()
    }

    #[test]
    fn reserved_names_win_over_the_producers_headers() {
        let event = NewEvent::bytes("orders", "x").key("k").content_type("text/plain");
        let event = event.header("ce_id", "forged").header("content-type", "forged").header("x-a", "1");
        let event = event.stored(1, DateTime::UNIX_EPOCH);
        let record = record(&event, Envelope::default()).expect("a record");
        assert_eq!((record.topic.as_str(), record.key), ("orders", Some("k")));
        let headers = record.headers();
        assert_eq!(
            (header(&headers, "content-type"), header(&headers, "x-a")),
            (vec!["text/plain"], vec!["1"])
        );
        assert_eq!(header(&headers, "ce_id"), [event.id.to_string()]);
    }

    #[test]
    fn the_structured_form_has_its_media_type_and_the_id() {
        let event = NewEvent::bytes("orders", "{}").stored(1, DateTime::UNIX_EPOCH);
        let headers = record(&event, Envelope::new(Form::Structured)).expect("a record").headers();
        assert_eq!(header(&headers, "content-type"), ["application/cloudevents+json; charset=UTF-8"]);
        assert_eq!((header(&headers, "ce_id").len(), header(&headers, "ce_type").len()), (1, 0));
    }

    #[test]
    fn what_cannot_be_a_record_says_why() {
        let large = NewEvent::bytes("orders", vec![0; 1_000_000]).stored(1, DateTime::UNIX_EPOCH);
        let sentence = record(&large, Envelope::default()).expect_err("too large");
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
            let id = event_id_of(Source::Kafka, pairs(&record.headers()));
            assert_eq!(id, Some(event.id.to_string()), "{form:?}");
        }
    }
}
