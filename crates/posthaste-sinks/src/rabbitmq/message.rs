//! An event as RabbitMQ carries it. What the protocol cannot carry is found here, before anything is sent.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use posthaste::Event;

use super::settings::RabbitmqSettings;
use crate::endpoint::Route;
use crate::envelope::Message;

/// What stands before the names of CloudEvents attributes: the AMQP binding's form that JMS can read too.
const PREFIX: &str = "cloudEvents_";
/// On disk, in a queue that is.
const PERSISTENT: u8 = 2;
/// What the properties other than headers take at most: seven short texts, a time, numbers, the frame around them.
const OTHER_PROPERTIES: usize = 8 * 256;

/// A message with its address.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    /// About how many bytes the properties take. They travel in one frame.
    pub(super) properties_size: usize,
    pub(super) body: Bytes,
}

impl Outgoing {
    /// The error says why this event can never be sent.
    pub(super) fn of(event: &Event, settings: &RabbitmqSettings, route: &Route) -> Result<Self, String> {
        let message = route.envelope.message(event)?;
        let (size, max) = (message.body.len(), settings.max_message_size);
        if size > max {
            return Err(format!("the message has {size} bytes, and max_message_size is {max}"));
        }
        let headers = headers(&message)?;
        let table: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 6).sum();
        Ok(Self {
            exchange: short("the exchange", settings.exchange.render(event)?)?,
            routing_key: short("the routing key", settings.routing_key.render(event)?)?,
            properties: properties(event, &message, headers)?,
            properties_size: table + OTHER_PROPERTIES,
            body: message.body.into_owned().into(),
        })
    }

    /// Whether the properties fit into a frame of the connection; the error says why not.
    pub(super) fn check_frame(&self, frame_max: usize) -> Result<(), String> {
        match self.properties_size {
            size if size > frame_max => {
                Err(format!("the headers take {size} bytes, and a frame of this server takes {frame_max}"))
            }
            _ => Ok(()),
        }
    }
}

fn properties(
    event: &Event,
    message: &Message<'_>,
    headers: Vec<(ShortString, String)>,
) -> Result<BasicProperties, String> {
    let event_type = event.event_type.as_ref().unwrap_or(&event.topic);
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(name, AMQPValue::LongString(LongString::from(value)));
    }
    Ok(BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(short("the id", event.id.to_string())?)
        .with_type(short("the event type", event_type.clone())?)
        .with_content_type(short("the content type", message.content_type.to_string())?)
        .with_timestamp(u64::try_from(event.created_at.timestamp()).unwrap_or(0))
        .with_app_id("posthaste".into())
        .with_headers(table))
}

/// Attributes first; a producer's header that looks like one is left out.
fn headers(message: &Message<'_>) -> Result<Vec<(ShortString, String)>, String> {
    let attributes =
        message.attributes.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.to_string()));
    let reserved = |name: &str| name.to_ascii_lowercase().starts_with("cloudevents");
    let own = message.headers.iter().filter(|(name, _)| !reserved(name));
    let own = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    attributes.chain(own).map(|(name, value)| Ok((short("the header's name", name)?, value))).collect()
}

/// Names in AMQP have at most 255 bytes.
fn short(what: &str, text: String) -> Result<ShortString, String> {
    let len = text.len();
    ShortString::try_new(text).map_err(|_| format!("{what} has {len} bytes, and RabbitMQ takes 255"))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};
    use serde_json::json;

    use super::*;
    use crate::envelope::{Envelope, Form};
    use crate::problems::Problems;
    use crate::section::{Section, Surroundings};

    fn outgoing(event: NewEvent) -> Result<Outgoing, String> {
        let (problems, surroundings) = (Problems::default(), Surroundings::default());
        let value =
            json!({ "url": "amqp://localhost", "routing_key": "{topic}.{key}", "max_message_size": 2000 });
        let fields = value.as_object().expect("a table");
        let settings = RabbitmqSettings::validate(&Section::new("sink", fields, &problems, &surroundings));
        let event = event.stored(1, DateTime::from_timestamp(1_700_000_000, 5).expect("a time"));
        Outgoing::of(&event, &settings.expect("good"), &Route::new("s"))
    }

    #[test]
    fn properties_and_headers_tell_what_it_is() {
        let event =
            NewEvent::bytes("orders", "x").key("k").header("a", "ä").header("cloudevents_id", "forged");
        let message = outgoing(event.content_type("text/plain")).expect("fits");
        let properties = &message.properties;
        assert_eq!(message.routing_key.as_str(), "orders.k");
        assert_eq!(properties.delivery_mode(), &Some(2));
        assert_eq!(properties.timestamp(), &Some(1_700_000_000));
        assert_eq!(properties.content_type().as_ref().map(ShortString::as_str), Some("text/plain"));
        assert_eq!(properties.kind().as_ref().map(ShortString::as_str), Some("orders"));
        let headers = properties.headers().as_ref().expect("headers").inner();
        let id = AMQPValue::LongString(properties.message_id().as_ref().expect("an id").as_str().into());
        assert_eq!(headers.get("cloudEvents_id"), Some(&id));
        assert_eq!(headers.get("a"), Some(&AMQPValue::LongString("ä".into())));
        assert!(headers.get("cloudevents_id").is_none());
    }

    #[test]
    fn what_cannot_be_carried_is_said_with_numbers() {
        let refused = |event: NewEvent| outgoing(event).expect_err("refused");
        let sentence = refused(NewEvent::bytes("t", vec![0; 2001]).key("k"));
        assert_eq!(sentence, "the message has 2001 bytes, and max_message_size is 2000");
        let sentence = refused(NewEvent::bytes("t", "x").key("k".repeat(300)));
        assert_eq!(sentence, "the routing key has 302 bytes, and RabbitMQ takes 255");
        let sentence = refused(NewEvent::bytes("t", "x"));
        assert_eq!(sentence, "the address needs key, and the event has none");
        let large = outgoing(NewEvent::bytes("t", "x").key("k").header("h", "v".repeat(5000))).expect("made");
        assert!(
            large.check_frame(4096).expect_err("too large").contains("a frame of this server takes 4096")
        );
        assert_eq!(large.check_frame(131_072), Ok(()));
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        let settings = |json: serde_json::Value| {
            let (problems, surroundings) = (Problems::default(), Surroundings::default());
            let fields = json.as_object().expect("a table").clone();
            RabbitmqSettings::validate(&Section::new("sink", &fields, &problems, &surroundings))
                .expect("good")
        };
        let settings = settings(json!({ "url": "amqp://localhost", "routing_key": "{topic}" }));
        for form in [Form::Binary, Form::Structured] {
            let event = NewEvent::bytes("orders", "x").header("message_id", "forged");
            let event = event.header("cloudevents_id", "forged").stored(1, DateTime::UNIX_EPOCH);
            let route = Route::new("s").envelope(Envelope::new(form));
            let properties = Outgoing::of(&event, &settings, &route).expect("fits").properties;
            let property = properties.message_id().as_ref().map(|id| ("message_id", id.as_str().as_bytes()));
            let table = properties.headers().as_ref().expect("headers").inner();
            let headers = table.iter().filter_map(|(name, value)| match value {
                AMQPValue::LongString(text) => Some((name.as_str(), text.as_bytes())),
                _ => None,
            });
            let id = event_id_of(Source::Rabbitmq, property.into_iter().chain(headers));
            assert_eq!(id, Some(event.id.to_string()), "{form:?}");
        }
    }
}
