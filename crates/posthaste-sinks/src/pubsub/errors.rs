//! What an error of the client means: the module's table as a function.

use std::error::Error as _;

use google_cloud_gax::error::rpc::Code;
use google_cloud_pubsub::Error;
use google_cloud_pubsub::error::PublishError;
use posthaste::Outcome;

use crate::endpoint::too_late;

/// Why a message was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Something in this request is refused; alone, it is dead for this reason.
    Refused(String),
    /// The topic is missing, not for us, or not ready.
    Topic(String),
    /// Nothing was heard in time.
    Silence(String),
    /// The time of the page is over.
    Late,
    /// Not about the message.
    Away(String),
}

impl Failure {
    /// What it means for a message that was sent alone; of silence, if a check fails too.
    pub(super) fn outcome(self, only_topic: bool) -> Outcome {
        match self {
            Self::Refused(reason) => Outcome::dead(reason),
            Self::Late => too_late(),
            Self::Topic(reason) if !only_topic => Outcome::retry(reason),
            Self::Topic(reason) | Self::Silence(reason) | Self::Away(reason) => Outcome::unavailable(reason),
        }
    }
}

pub(super) fn failure(error: &PublishError, topic: &str) -> Failure {
    match error {
        PublishError::Rpc(error) => of_rpc(error, topic),
        PublishError::OrderingKeyPaused => {
            Failure::Away("an earlier attempt of this key has just failed".to_owned())
        }
        other => Failure::Away(other.to_string()),
    }
}

fn of_rpc(error: &Error, topic: &str) -> Failure {
    let sentence = sentence(error);
    match code(error) {
        Some(Code::InvalidArgument) => Failure::Refused(sentence),
        Some(Code::NotFound) => Failure::Topic(format!("{sentence}; create the topic {topic}")),
        Some(Code::PermissionDenied) => {
            Failure::Topic(format!("{sentence}; grant roles/pubsub.publisher on {topic}"))
        }
        // Such as an encryption key that was disabled.
        Some(Code::FailedPrecondition) => Failure::Topic(format!("{sentence}; look at the topic {topic}")),
        _ if is_silence(error) => Failure::Silence(sentence),
        _ => Failure::Away(sentence),
    }
}

/// The code that the service gave, also when the client had tried several times.
pub(super) fn code(error: &Error) -> Option<Code> {
    status(error).map(|status| status.code)
}

fn status(error: &Error) -> Option<&google_cloud_gax::error::rpc::Status> {
    let inner = || error.source().and_then(|source| source.downcast_ref::<Error>()).and_then(status);
    error.status().or_else(inner)
}

/// Also when the client had tried several times.
fn is_silence(error: &Error) -> bool {
    let inner = || error.source().and_then(|source| source.downcast_ref::<Error>()).is_some_and(is_silence);
    error.is_timeout() || code(error) == Some(Code::DeadlineExceeded) || inner()
}

pub(super) fn sentence(error: &Error) -> String {
    match status(error) {
        Some(status) => format!("{} ({})", status.message, status.code.name()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use google_cloud_gax::error::CredentialsError;
    use google_cloud_gax::error::rpc::Status;

    use super::*;

    const TOPIC: &str = "projects/p/topics/orders";

    fn outcome(error: Error, only_topic: bool) -> Outcome {
        failure(&PublishError::Rpc(Arc::new(error)), TOPIC).outcome(only_topic)
    }

    fn service(code: Code) -> Error {
        Error::service(Status::default().set_code(code).set_message("said"))
    }

    fn away(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Unavailable { .. })
    }

    #[test]
    fn every_row_of_the_table() {
        assert_eq!(outcome(service(Code::InvalidArgument), true), Outcome::dead("said (INVALID_ARGUMENT)"));
        let missing = "said (NOT_FOUND); create the topic projects/p/topics/orders";
        assert_eq!(outcome(service(Code::NotFound), true), Outcome::unavailable(missing));
        assert_eq!(outcome(service(Code::NotFound), false), Outcome::retry(missing));
        let denied = "said (PERMISSION_DENIED); grant roles/pubsub.publisher on projects/p/topics/orders";
        assert_eq!(outcome(service(Code::PermissionDenied), true), Outcome::unavailable(denied));
        assert_eq!(outcome(service(Code::PermissionDenied), false), Outcome::retry(denied));
        let unready = "said (FAILED_PRECONDITION); look at the topic projects/p/topics/orders";
        assert_eq!(outcome(service(Code::FailedPrecondition), true), Outcome::unavailable(unready));
        assert_eq!(outcome(service(Code::FailedPrecondition), false), Outcome::retry(unready));
        let codes = [
            Code::Unauthenticated,
            Code::ResourceExhausted,
            Code::Unavailable,
            Code::Internal,
            Code::Unknown,
            Code::Aborted,
            Code::Cancelled,
            Code::Unimplemented,
        ];
        for code in codes {
            assert!(away(&outcome(service(code), false)), "{code:?}");
        }
    }

    #[test]
    fn silence_is_told_from_absence() {
        let failure = |error| failure(&PublishError::Rpc(Arc::new(error)), TOPIC);
        let silent = [
            service(Code::DeadlineExceeded),
            Error::timeout("too late"),
            Error::exhausted(service(Code::DeadlineExceeded)),
            Error::exhausted(Error::timeout("too late")),
        ];
        for error in silent {
            let shown = error.to_string();
            assert!(matches!(failure(error), Failure::Silence(_)), "{shown}");
        }
        for error in [Error::connect("refused"), Error::io("reset"), service(Code::Unavailable)] {
            let shown = error.to_string();
            assert!(matches!(failure(error), Failure::Away(_)), "{shown}");
        }
    }

    #[test]
    fn without_an_answer_of_the_service_it_is_away() {
        let errors = [
            Error::timeout("too late"),
            Error::io("reset"),
            Error::connect("refused"),
            Error::authentication(CredentialsError::from_msg(false, "no such account")),
            Error::exhausted(service(Code::Unavailable)),
        ];
        for error in errors {
            let shown = error.to_string();
            assert!(away(&outcome(error, true)), "{shown}");
        }
        let tried_often = Error::exhausted(service(Code::InvalidArgument));
        assert_eq!(outcome(tried_often, true), Outcome::dead("said (INVALID_ARGUMENT)"));
        assert!(away(&failure(&PublishError::OrderingKeyPaused, TOPIC).outcome(true)));
        assert!(away(&failure(&PublishError::Shutdown, TOPIC).outcome(true)));
    }
}
