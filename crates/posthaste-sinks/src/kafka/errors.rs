//! What librdkafka's errors mean for an event. The table in the module's overview, as code.

use posthaste::Outcome;
use rdkafka::types::RDKafkaErrorCode as Code;

/// Whose trouble an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The record's, or that of another one in its batch: only a record that was alone can be told.
    Batch,
    /// Another record's of the batch.
    Neighbour,
    /// The topic's.
    Topic,
    /// The producer's: its successor may do better.
    Producer,
    /// Somebody's who does not answer: the cluster's, or that of one partition, or the record's.
    Silence,
    /// The cluster's or the way to it.
    Cluster,
    /// Nobody knows.
    Unclear,
}

/// Whose trouble it is.
pub(super) fn trouble(code: Code) -> Trouble {
    match code {
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidMessage
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::InvalidTopic
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat => Trouble::Batch,

        Code::InvalidDifferentRecord => Trouble::Neighbour,

        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::UnknownTopicId
        | Code::TopicAuthorizationFailed => Trouble::Topic,

        Code::Fatal
        | Code::GaplessGuarantee
        | Code::PurgeQueue
        | Code::PurgeInflight
        | Code::Inconsistent
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerEpoch
        | Code::InvalidProducerIdMapping
        | Code::ProducerFenced
        | Code::Fenced => Trouble::Producer,

        // Also what is left when librdkafka has tried on by itself until the time was over.
        Code::MessageTimedOut => Trouble::Silence,

        Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::TimedOutQueue
        | Code::QueueFull
        | Code::BrokerTransportFailure
        | Code::NetworkException
        | Code::AllBrokersDown
        | Code::BrokerNotAvailable
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::ReplicaNotAvailable
        | Code::ISRInsufficient
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::KafkaStorageError
        | Code::ThrottlingQuotaExceeded
        | Code::Resolve
        | Code::SSL
        | Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::ClusterAuthorizationFailed
        | Code::SecurityDisabled
        | Code::UnsupportedFeature
        | Code::UnsupportedVersion
        | Code::DestroyBroker
        | Code::BrokerDestroy => Trouble::Cluster,

        _ => Trouble::Unclear,
    }
}

/// What becomes of an event that was not accepted, when the sink has done what it can: the last word.
pub(super) fn outcome(code: Code, topic: &str, topic_is_literal: bool, detail: Option<&str>) -> Outcome {
    let detail = detail.map(|detail| format!("; {detail}")).unwrap_or_default();
    let reason = format!("kafka topic {topic}: {code}{detail}");
    match trouble(code) {
        Trouble::Batch => Outcome::dead(reason),
        Trouble::Topic if topic_is_literal => Outcome::unavailable(format!("{reason}{}", remedy(code))),
        Trouble::Topic => Outcome::retry(format!("{reason}{}", remedy(code))),
        Trouble::Producer | Trouble::Cluster | Trouble::Silence => Outcome::unavailable(reason),
        Trouble::Neighbour | Trouble::Unclear => Outcome::retry(reason),
    }
}

fn remedy(code: Code) -> &'static str {
    match code {
        Code::TopicAuthorizationFailed => "; grant WRITE and DESCRIBE on it",
        _ => "; create it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: Code, literal: bool) -> &'static str {
        match outcome(code, "orders", literal, None) {
            Outcome::Dead { .. } => "dead",
            Outcome::Retry { .. } => "retry",
            Outcome::Unavailable { .. } => "unavailable",
            _ => "delivered",
        }
    }

    #[test]
    fn every_row_of_the_table_is_followed() {
        let rows: [(&[Code], &str, &str); 5] = [
            (
                &[
                    Code::MessageSizeTooLarge,
                    Code::MessageBatchTooLarge,
                    Code::InvalidMessage,
                    Code::InvalidRecord,
                    Code::InvalidTimestamp,
                    Code::PolicyViolation,
                ],
                "dead",
                "dead",
            ),
            (
                &[Code::UnknownTopic, Code::UnknownTopicOrPartition, Code::TopicAuthorizationFailed],
                "unavailable",
                "retry",
            ),
            (
                &[
                    Code::AllBrokersDown,
                    Code::BrokerTransportFailure,
                    Code::NotEnoughReplicas,
                    Code::LeaderNotAvailable,
                    Code::ThrottlingQuotaExceeded,
                    Code::Authentication,
                    Code::SaslAuthenticationFailed,
                    Code::ClusterAuthorizationFailed,
                    Code::SSL,
                    Code::QueueFull,
                ],
                "unavailable",
                "unavailable",
            ),
            (
                &[Code::Fatal, Code::PurgeQueue, Code::OutOfOrderSequenceNumber, Code::InvalidProducerEpoch],
                "unavailable",
                "unavailable",
            ),
            (&[Code::Unknown, Code::InvalidDifferentRecord, Code::InvalidArgument], "retry", "retry"),
        ];
        // Unless the cluster is asked: `after_silence` of the sink.
        assert_eq!(trouble(Code::MessageTimedOut), Trouble::Silence);
        assert_eq!(said(Code::MessageTimedOut, false), "unavailable");
        for (codes, literal, template) in rows {
            for code in codes {
                assert_eq!((said(*code, true), said(*code, false)), (literal, template), "{code:?}");
            }
        }
    }

    #[test]
    fn the_reason_says_what_to_do() {
        let Outcome::Unavailable { reason } =
            outcome(Code::UnknownTopicOrPartition, "orders", true, Some("x"))
        else {
            panic!("unavailable")
        };
        assert!(reason.starts_with("kafka topic orders: ") && reason.ends_with("; x; create it"), "{reason}");
    }
}
