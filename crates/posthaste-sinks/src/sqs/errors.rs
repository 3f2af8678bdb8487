//! From what SQS says to an outcome: the table of `sqs`, in code.

use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;
use posthaste::Outcome;

/// Why a call failed, apart from the client library's types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// SQS's word for it; none if there was no answer.
    code: Option<String>,
    /// The status of the answer, if there was one.
    status: Option<u16>,
    /// Nothing came back in time.
    silent: bool,
    text: String,
}

/// What a failed call says about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Queue,
    Contents,
    Receiver,
    Silence,
    Unknown,
}

impl Failure {
    /// Nothing came back in time.
    pub(super) fn silence(timeout: std::time::Duration) -> Self {
        Self { code: None, status: None, silent: true, text: format!("no answer within {timeout:?}") }
    }

    /// What the client library reports.
    pub(super) fn of<E>(error: &SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let code = error.code().map(str::to_owned);
        let text = match (&code, error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            _ => DisplayErrorContext(error).to_string(),
        };
        let silent = match error {
            SdkError::TimeoutError(_) => true,
            SdkError::DispatchFailure(failure) => failure.is_timeout(),
            _ => false,
        };
        Self { code, status: error.raw_response().map(|answer| answer.status().as_u16()), silent, text }
    }

    /// A sentence for people.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// We are known, but may not do this.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.code(), "AccessDenied" | "AccessDeniedException")
    }

    /// Whether another call without the message at fault could be accepted.
    pub(super) fn may_be_about_one(&self) -> bool {
        matches!(self.about(), About::Contents | About::Unknown)
    }

    /// Whether it says nothing, so that the receiver must be asked what it means.
    pub(super) fn is_silence(&self) -> bool {
        self.about() == About::Silence
    }

    /// What it means for a message that was sent alone. `fixed`: the queue is the same for all events.
    pub(super) fn outcome(&self, queue_url: &str, fixed: bool) -> Outcome {
        match self.about() {
            About::Queue => misdirected(fixed, format!("{queue_url}: {}", self.text)),
            About::Contents => Outcome::dead(format!("SQS refused the message: {}", self.text)),
            About::Receiver | About::Silence => Outcome::unavailable(&self.text),
            About::Unknown => Outcome::retry(&self.text),
        }
    }

    fn code(&self) -> &str {
        short(self.code.as_deref().unwrap_or(""))
    }

    fn about(&self) -> About {
        match self.code() {
            _ if self.silent => About::Silence,
            "BatchRequestTooLong" | "InvalidMessageContents" | "InvalidParameterValue" => About::Contents,
            code if is_about_receiver(code) => About::Receiver,
            code if is_about_queue(code) || self.status == Some(403) => About::Queue,
            _ if self.status.is_none_or(|status| status >= 500 || [401, 429].contains(&status)) => {
                About::Receiver
            }
            _ => About::Unknown,
        }
    }
}

/// Wrong for every event: wait until it is put right. Wrong for this queue: retry its events, and let the others go on.
fn misdirected(fixed: bool, reason: String) -> Outcome {
    if fixed { Outcome::unavailable(reason) } else { Outcome::retry(reason) }
}

fn short(code: &str) -> &str {
    code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code)
}

/// Missing, or not for us: rights and the key that encrypts are given queue by queue.
fn is_about_queue(code: &str) -> bool {
    let words =
        ["QueueDoesNotExist", "NonExistentQueue", "InvalidAddress", "AccessDenied", "AccessDeniedException"];
    words.contains(&code) || code.to_ascii_lowercase().starts_with("kms")
}

/// Throttling, credentials.
fn is_about_receiver(code: &str) -> bool {
    let credentials = [
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "OptInRequired",
        "OverLimit",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ];
    credentials.contains(&code) || code.contains("Throttl")
}

/// What became of a message that SQS lists as failed in a call that it took.
pub(super) fn of_entry(entry: &BatchResultErrorEntry, fixed: bool) -> Outcome {
    let reason = format!("SQS refused the message: {} {}", entry.code(), entry.message().unwrap_or(""));
    let (code, reason) = (short(entry.code()), reason.trim().to_owned());
    match entry.sender_fault() {
        _ if is_about_receiver(code) => Outcome::unavailable(reason),
        _ if is_about_queue(code) => misdirected(fixed, reason),
        true => Outcome::dead(reason),
        false => Outcome::retry(reason),
    }
}

/// Whether neither the message nor its queue is said to be at fault.
pub(super) fn is_servers_fault(entry: &BatchResultErrorEntry) -> bool {
    let code = short(entry.code());
    !entry.sender_fault() && !is_about_receiver(code) && !is_about_queue(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Retry { .. } => "retry",
            Outcome::Dead { .. } => "dead",
            _ => "unavailable",
        }
    }

    #[test]
    fn every_row_of_the_table_for_calls() {
        let rows = [
            (Some("QueueDoesNotExist"), Some(400), "unavailable", "retry"),
            (Some("AWS.SimpleQueueService.NonExistentQueue"), Some(400), "unavailable", "retry"),
            (Some("AWS.SimpleQueueService.BatchRequestTooLong"), Some(400), "dead", "dead"),
            (Some("InvalidMessageContents"), Some(400), "dead", "dead"),
            (Some("InvalidParameterValue"), Some(400), "dead", "dead"),
            (Some("RequestThrottled"), Some(400), "unavailable", "unavailable"),
            (Some("ThrottlingException"), Some(400), "unavailable", "unavailable"),
            (Some("KmsThrottled"), Some(400), "unavailable", "unavailable"),
            (Some("KMS.DisabledException"), Some(400), "unavailable", "retry"),
            (Some("KmsAccessDenied"), Some(400), "unavailable", "retry"),
            (Some("AccessDenied"), Some(403), "unavailable", "retry"),
            (Some("AccessDeniedException"), Some(400), "unavailable", "retry"),
            (Some("InvalidClientTokenId"), Some(403), "unavailable", "unavailable"),
            (Some("ExpiredToken"), Some(400), "unavailable", "unavailable"),
            (Some("SomethingNew"), Some(403), "unavailable", "retry"),
            (Some("SomethingNew"), Some(401), "unavailable", "unavailable"),
            (Some("InternalError"), Some(500), "unavailable", "unavailable"),
            (None, Some(503), "unavailable", "unavailable"),
            (None, None, "unavailable", "unavailable"),
            (Some("UnsupportedOperation"), Some(400), "retry", "retry"),
            (Some("SomethingNew"), Some(400), "retry", "retry"),
            (None, Some(404), "retry", "retry"),
        ];
        for (code, status, fixed, made) in rows {
            let failure = Failure { code: code.map(str::to_owned), status, silent: false, text: "no".into() };
            assert_eq!(word(&failure.outcome("q", true)), fixed, "{failure:?}");
            assert_eq!(word(&failure.outcome("q", false)), made, "{failure:?}");
            let alone = ["dead", "retry"].contains(&fixed);
            assert_eq!((failure.may_be_about_one(), failure.is_silence()), (alone, false), "{failure:?}");
        }
        let silence = Failure::silence(std::time::Duration::from_secs(1));
        assert!(silence.is_silence() && !silence.may_be_about_one());
    }

    #[test]
    fn every_row_of_the_table_for_entries() {
        let rows = [
            ("InvalidMessageContents", true, "dead", "dead", false),
            ("InvalidParameterValue", true, "dead", "dead", false),
            ("InternalError", false, "retry", "retry", true),
            ("AWS.SimpleQueueService.RequestThrottled", true, "unavailable", "unavailable", false),
            ("ThrottlingException", false, "unavailable", "unavailable", false),
            ("KmsAccessDenied", true, "unavailable", "retry", false),
            ("AccessDenied", false, "unavailable", "retry", false),
        ];
        for (code, sender_fault, fixed, made, servers) in rows {
            let entry =
                BatchResultErrorEntry::builder().id("0").code(code).sender_fault(sender_fault).build();
            let entry = entry.expect("complete");
            assert_eq!(
                (word(&of_entry(&entry, true)), word(&of_entry(&entry, false))),
                (fixed, made),
                "{code}"
            );
            assert_eq!(is_servers_fault(&entry), servers, "{code}");
        }
    }
}
