//! Where each way of delivery puts the event id.
//!
//! By way, not by one list of names for all: a producer's headers travel too, and a header `webhook-id` that a producer set
//! means nothing in a Kafka record. Each list holds only names that the way keeps for itself.

use serde::Deserialize;

/// The way a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Headers of a Kafka or Redpanda record.
    Kafka,
    /// Headers of a NATS message.
    Nats,
    /// The property `message_id` as the first pair, under that name; then the headers of a RabbitMQ message.
    Rabbitmq,
    /// Fields of an entry of a Redis stream.
    Redis,
    /// Message attributes of SQS.
    Sqs,
    /// Attributes of a Pub/Sub message.
    Pubsub,
    /// Headers of a webhook's request. Verify its signature first.
    Webhook,
}

impl Source {
    /// The names that hold the id, best first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Kafka => &["ce_id"],
            Self::Nats => &["nats-msg-id", "ce-id"],
            Self::Rabbitmq => &["cloudevents_id", "message_id"],
            Self::Redis => &["id"],
            Self::Sqs => &["ce-id"],
            Self::Pubsub => &["event_id", "ce-id"],
            Self::Webhook => &["webhook-id", "ce-id"],
        }
    }
}

/// The event id among the headers, attributes or fields of a message, whatever the case of their names.
///
/// `None` if there is none: SQS carries a CloudEvent in structured form without attributes of its own; look into its body
/// with [`event_id_in`] then.
///
/// ```
/// use posthaste::inbox::{Source, event_id_of};
///
/// let headers = [("x-trace", "7"), ("ce_id", "0197c1d2-7b1a-7c3e-9a55-6d1f4be0a001")];
/// let id = event_id_of(Source::Kafka, headers);
/// assert_eq!(id.as_deref(), Some("0197c1d2-7b1a-7c3e-9a55-6d1f4be0a001"));
/// ```
pub fn event_id_of<N, V>(source: Source, pairs: impl IntoIterator<Item = (N, V)>) -> Option<String>
where
    N: AsRef<str>,
    V: AsRef<[u8]>,
{
    let names = source.names();
    let rank = |name: &str| names.iter().position(|known| name.eq_ignore_ascii_case(known));
    let ranked = pairs.into_iter().filter_map(|(name, value)| Some((rank(name.as_ref())?, value)));
    // The first of those with the best name: RabbitMQ's property stands before a header of the same name.
    let (_, value) = ranked.min_by_key(|(rank, _)| *rank)?;
    let text = std::str::from_utf8(value.as_ref()).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// The event id in a body: a CloudEvent in structured form, or a line of the sinks `stdout` and `file`.
///
/// Only for bodies that are one of these. In binary form the body is the producer's own, and an `id` in it is not the
/// event's.
pub fn event_id_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    let found: Identified = serde_json::from_slice(body).ok()?;
    (!found.id.is_empty()).then_some(found.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_name_wins_and_of_equals_the_first() {
        let pairs = [("ce-id", "second"), ("Nats-Msg-Id", "first")];
        assert_eq!(event_id_of(Source::Nats, pairs).as_deref(), Some("first"));
        let pairs = [("message_id", "property"), ("message_id", "a producer's header")];
        assert_eq!(event_id_of(Source::Rabbitmq, pairs).as_deref(), Some("property"));
    }

    #[test]
    fn names_of_another_way_mean_nothing() {
        let forged = [("webhook-id", "x"), ("nats-msg-id", "x"), ("event_id", "x"), ("id", "x")];
        assert_eq!(event_id_of(Source::Kafka, forged), None);
        assert_eq!(event_id_of(Source::Redis, [("h_id", "x"), ("ce_id", "x")]), None);
    }

    #[test]
    fn what_is_no_text_is_no_id() {
        assert_eq!(event_id_of(Source::Kafka, [("ce_id", &b"\xff"[..])]), None);
        assert_eq!(event_id_of(Source::Kafka, [("ce_id", "")]), None);
        for bad in ["", "[]", "{}", "{\"id\":7}", "{\"id\":\"\"}", "{\"id\":\"a\",\"id\":\"b\"}", "{\"id\":"]
        {
            assert_eq!(event_id_in(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(event_id_in(b"{\"data\":{\"id\":\"inner\"},\"id\":\"outer\"}").as_deref(), Some("outer"));
    }
}
