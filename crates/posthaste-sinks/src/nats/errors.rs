//! What an error of the client or the server means for the event.

use std::error::Error;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use posthaste::Outcome;

use super::connection::{answer, chain};

/// What a failed publish says about the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server, or all of its storage, is away or full.
    Away(String),
    /// The stream is full, sealed, or acknowledges nothing.
    Stream(String),
    /// The subject leads to no stream, or to a wrong one.
    NoDestination(String),
    /// This event, now.
    Refused(String),
    /// This event, for ever.
    Unfit(String),
}

impl Failure {
    /// What is wrong with a destination that all events have is wrong for all of them: they wait until it is put right.
    pub(super) fn outcome(self, all_go: Destination) -> Outcome {
        match self {
            Self::Away(reason) => Outcome::unavailable(reason),
            Self::Stream(reason) if all_go.to_one_stream => Outcome::unavailable(reason),
            Self::NoDestination(reason) if all_go.to_one_subject => Outcome::unavailable(reason),
            Self::Stream(reason) | Self::NoDestination(reason) | Self::Refused(reason) => {
                Outcome::retry(reason)
            }
            Self::Unfit(reason) => Outcome::dead(reason),
        }
    }
}

/// What is the same for every event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destination {
    pub(super) to_one_subject: bool,
    /// Which one subject implies.
    pub(super) to_one_stream: bool,
}

/// What a failed publish means.
pub(super) fn failure(error: &PublishError, subject: &str) -> Failure {
    let reason = || format!("NATS, subject {subject}: {}", chain(error));
    match error.kind() {
        PublishErrorKind::StreamNotFound => {
            Failure::NoDestination(format!("NATS: no stream takes the subject {subject}; create one for it"))
        }
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe | PublishErrorKind::MaxAckPending => {
            Failure::Away(reason())
        }
        PublishErrorKind::MaxPayloadExceeded => Failure::Unfit(reason()),
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            Failure::Refused(reason())
        }
        PublishErrorKind::Other => match answer(error) {
            Some(answer) => answered(answer.error_code(), answer.code(), reason()),
            None if is_gibberish(error) => Failure::Refused(reason()),
            None => Failure::Away(reason()),
        },
    }
}

fn answered(code: ErrorCode, status: usize, reason: String) -> Failure {
    match code {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Failure::Unfit(reason)
        }
        ErrorCode::STREAM_NOT_MATCH | ErrorCode::STREAM_NOT_FOUND => Failure::NoDestination(reason),
        // The only thing that tells a full stream from a full subject is the text.
        ErrorCode::STREAM_STORE_FAILED if reason.contains("per subject") => Failure::Refused(reason),
        ErrorCode::STREAM_STORE_FAILED | ErrorCode::STREAM_SEALED => Failure::Stream(reason),
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::JETSTREAM_NOT_ENABLED
        | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => Failure::Away(reason),
        _ if status == 503 => Failure::Away(reason),
        _ => Failure::Refused(reason),
    }
}

/// Somebody answered who is no stream.
fn is_gibberish(error: &PublishError) -> bool {
    let cause = error.source();
    cause.is_some_and(|cause| cause.downcast_ref::<serde_json::Error>().is_some())
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream;

    use super::*;

    fn of_kind(kind: PublishErrorKind) -> Failure {
        failure(&PublishError::new(kind), "orders")
    }

    fn of_answer(status: u32, code: u32, text: &str) -> Failure {
        let json = serde_json::json!({ "code": status, "err_code": code, "description": text });
        let answer: jetstream::Error = serde_json::from_value(json).expect("an error");
        failure(&PublishError::with_source(PublishErrorKind::Other, answer), "orders")
    }

    #[test]
    fn every_row_of_the_table() {
        for kind in
            [PublishErrorKind::TimedOut, PublishErrorKind::BrokenPipe, PublishErrorKind::MaxAckPending]
        {
            assert!(matches!(of_kind(kind), Failure::Away(_)), "{kind:?}");
        }
        assert!(matches!(of_kind(PublishErrorKind::StreamNotFound), Failure::NoDestination(_)));
        assert!(matches!(of_kind(PublishErrorKind::MaxPayloadExceeded), Failure::Unfit(_)));
        assert!(matches!(of_kind(PublishErrorKind::WrongLastSequence), Failure::Refused(_)));
        for (status, code, text) in [
            (500, 10023, "no space"),
            (500, 10028, "no memory"),
            (500, 10047, "no disk"),
            (503, 10076, "JetStream is off"),
            (503, 10039, "not for this account"),
            (503, 10008, "no leader"),
        ] {
            assert!(matches!(of_answer(status, code, text), Failure::Away(_)), "{code}");
        }
        let per_subject = "maximum messages per subject exceeded";
        assert!(matches!(of_answer(503, 10077, per_subject), Failure::Refused(_)));
        for (status, code, text) in [(503, 10077, "maximum messages exceeded"), (400, 10109, "sealed")] {
            assert!(matches!(of_answer(status, code, text), Failure::Stream(_)), "{code}");
        }
        for code in [10060, 10059] {
            assert!(matches!(of_answer(400, code, "wrong stream"), Failure::NoDestination(_)), "{code}");
        }
        for code in [10054, 10097] {
            assert!(matches!(of_answer(400, code, "too large"), Failure::Unfit(_)), "{code}");
        }
        assert!(matches!(of_answer(400, 99_999, "from the future"), Failure::Refused(_)));
    }

    #[test]
    fn what_does_not_come_from_a_stream_is_retried_and_a_lost_client_is_away() {
        let gibberish = serde_json::from_str::<u8>("hello").expect_err("no number");
        let error = PublishError::with_source(PublishErrorKind::Other, gibberish);
        assert!(matches!(failure(&error, "orders"), Failure::Refused(_)));
        let error = PublishError::with_source(PublishErrorKind::Other, "channel closed");
        assert!(matches!(failure(&error, "orders"), Failure::Away(_)));
    }

    #[test]
    fn a_missing_or_full_stream_stops_everything_only_if_all_events_go_there() {
        let one_subject = Destination { to_one_subject: true, to_one_stream: true };
        let one_stream = Destination { to_one_subject: false, ..one_subject };
        let anywhere = Destination { to_one_stream: false, ..one_stream };
        let missing = || of_kind(PublishErrorKind::StreamNotFound);
        let full = || of_answer(503, 10077, "maximum messages exceeded");
        assert!(matches!(missing().outcome(one_subject), Outcome::Unavailable { .. }));
        assert!(matches!(missing().outcome(one_stream), Outcome::Retry { .. }));
        assert!(matches!(full().outcome(one_subject), Outcome::Unavailable { .. }));
        assert!(matches!(full().outcome(one_stream), Outcome::Unavailable { .. }));
        assert!(matches!(full().outcome(anywhere), Outcome::Retry { .. }));
        assert!(matches!(Failure::Away("x".into()).outcome(anywhere), Outcome::Unavailable { .. }));
        assert!(matches!(Failure::Unfit("x".into()).outcome(one_subject), Outcome::Dead { .. }));
    }
}
