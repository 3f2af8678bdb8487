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
    text: String,
}

/// What a failed call says about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Queue,
    Contents,
    Receiver,
    Unknown,
}

impl Failure {
    /// Nothing came back in time.
    pub(super) fn silence(timeout: std::time::Duration) -> Self {
        Self { code: None, status: None, text: format!("no answer within {timeout:?}") }
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
        Self { code, status: error.raw_response().map(|answer| answer.status().as_u16()), text }
    }

    /// A sentence for people.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// We are known, but may not do this.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.code(), "AccessDenied" | "AccessDeniedException")
    }

    /// Whether another call without the message at fault would be accepted.
    pub(super) fn is_about_contents(&self) -> bool {
        self.about() == About::Contents
    }

    /// What it means for every message of the call. `fixed`: the queue is the same for all events.
    pub(super) fn outcome(&self, queue_url: &str, fixed: bool) -> Outcome {
        match self.about() {
            About::Queue if fixed => Outcome::unavailable(format!("{queue_url}: {}", self.text)),
            About::Queue => Outcome::retry(format!("{queue_url}: {}", self.text)),
            About::Contents => Outcome::dead(format!("SQS refused the message: {}", self.text)),
            About::Receiver => Outcome::unavailable(&self.text),
            About::Unknown => Outcome::retry(&self.text),
        }
    }

    fn code(&self) -> &str {
        let code = self.code.as_deref().unwrap_or("");
        code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code)
    }

    fn about(&self) -> About {
        match self.code() {
            "QueueDoesNotExist" | "NonExistentQueue" | "InvalidAddress" => About::Queue,
            "BatchRequestTooLong" | "InvalidMessageContents" | "InvalidParameterValue" => About::Contents,
            code if is_about_receiver(code) => About::Receiver,
            _ if self.status.is_none_or(|status| status >= 500 || [401, 403, 429].contains(&status)) => {
                About::Receiver
            }
            _ => About::Unknown,
        }
    }
}

/// Throttling, credentials, the key that encrypts the queue.
fn is_about_receiver(code: &str) -> bool {
    let credentials = [
        "AccessDenied",
        "AccessDeniedException",
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
    credentials.contains(&code) || code.contains("Throttl") || code.to_ascii_lowercase().starts_with("kms")
}

/// What became of a message that SQS lists as failed in a call that it took.
pub(super) fn of_entry(entry: &BatchResultErrorEntry) -> Outcome {
    let reason = format!("SQS refused the message: {} {}", entry.code(), entry.message().unwrap_or(""));
    let code = entry.code().strip_prefix("AWS.SimpleQueueService.").unwrap_or(entry.code());
    match entry.sender_fault() {
        _ if is_about_receiver(code) => Outcome::unavailable(reason.trim()),
        true => Outcome::dead(reason.trim()),
        false => Outcome::retry(reason.trim()),
    }
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
            (Some("KMS.DisabledException"), Some(400), "unavailable", "unavailable"),
            (Some("AccessDenied"), Some(403), "unavailable", "unavailable"),
            (Some("InvalidClientTokenId"), Some(403), "unavailable", "unavailable"),
            (Some("ExpiredToken"), Some(400), "unavailable", "unavailable"),
            (Some("SomethingNew"), Some(403), "unavailable", "unavailable"),
            (Some("InternalError"), Some(500), "unavailable", "unavailable"),
            (None, Some(503), "unavailable", "unavailable"),
            (None, None, "unavailable", "unavailable"),
            (Some("UnsupportedOperation"), Some(400), "retry", "retry"),
            (Some("SomethingNew"), Some(400), "retry", "retry"),
            (None, Some(404), "retry", "retry"),
        ];
        for (code, status, fixed, made) in rows {
            let failure = Failure { code: code.map(str::to_owned), status, text: "no".into() };
            assert_eq!(word(&failure.outcome("q", true)), fixed, "{failure:?}");
            assert_eq!(word(&failure.outcome("q", false)), made, "{failure:?}");
        }
    }

    #[test]
    fn every_row_of_the_table_for_entries() {
        let rows = [
            ("InvalidMessageContents", true, "dead"),
            ("InvalidParameterValue", true, "dead"),
            ("InternalError", false, "retry"),
            ("AWS.SimpleQueueService.RequestThrottled", true, "unavailable"),
            ("ThrottlingException", false, "unavailable"),
            ("KmsAccessDenied", true, "unavailable"),
        ];
        for (code, sender_fault, expected) in rows {
            let entry =
                BatchResultErrorEntry::builder().id("0").code(code).sender_fault(sender_fault).build();
            assert_eq!(word(&of_entry(&entry.expect("complete"))), expected, "{code}");
        }
    }
}
