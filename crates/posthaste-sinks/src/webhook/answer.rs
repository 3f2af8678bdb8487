//! What an answer means, and what it means that there was none. The table stands in the module's description.

use std::error::Error;
use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::Outcome;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use super::hidden::Hidden;

/// So much of a body is read, for the reason. A longer one costs the connection instead of our memory.
const READ: usize = 1024;

/// And so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// A receiver that asks for a longer pause is asked again after this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// How long a receiver that said 410 is left alone before one event asks again.
pub(super) const GONE: Duration = Duration::from_secs(15 * 60);

/// What the receiver said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    retry_after: Option<Duration>,
    abort: bool,
    text: String,
}

impl Answer {
    /// Reads the answer. Its body is read a little way also if it does not matter, so that the connection can be reused.
    pub(super) async fn read(response: Response, hidden: &Hidden) -> Self {
        let (status, headers) = (response.status(), response.headers());
        let abort = headers.get("webhook-delivery").is_some_and(|value| value == "abort-message");
        let retry_after = retry_after(headers, Utc::now());
        let text = match status.is_success() {
            // Nobody wants to know.
            true => {
                beginning(response).await;
                String::new()
            }
            false => hidden.masked(&on_one_line(&beginning(response).await)),
        };
        Self { status, retry_after, abort, text }
    }

    /// What becomes of the event.
    pub(super) fn outcome(&self) -> Outcome {
        if self.status.is_success() {
            return Outcome::Delivered;
        }
        let sentence = self.sentence();
        match self.status.as_u16() {
            _ if self.abort => {
                Outcome::dead(format!("{sentence} (and asked not to be sent this event again)"))
            }
            401 | 410 | 429 | 502..=504 => Outcome::unavailable(sentence),
            413 => Outcome::dead(sentence),
            _ => Outcome::Retry { after: self.retry_after, reason: sentence },
        }
    }

    /// How long nothing at all should be sent to the receiver.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self.status.as_u16() {
            _ if self.abort => None,
            410 => Some(GONE),
            429 | 502..=504 => self.retry_after,
            _ => None,
        }
    }

    /// The answer in words, with a remedy where there is one.
    pub(super) fn sentence(&self) -> String {
        let remedy = match self.status.as_u16() {
            300..=399 => " (redirects are not followed; write the new address in url)",
            401 => " (are the secrets the ones the receiver knows?)",
            410 => ": the endpoint asks to be disabled; pause or remove the subscription",
            _ => "",
        };
        let reason = self.status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let text = if self.text.is_empty() { String::new() } else { format!(": {}", self.text) };
        format!("the receiver answered {}{reason}{remedy}{text}", self.status.as_u16())
    }
}

/// Seconds or a date, as HTTP has it.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let until_date = || {
        let date = DateTime::parse_from_rfc2822(text).ok()?;
        Some((date.to_utc() - now).to_std().unwrap_or(Duration::ZERO))
    };
    let seconds = text.parse().ok().map(Duration::from_secs);
    seconds.or_else(until_date).map(|pause| pause.min(LONGEST_PAUSE))
}

/// The beginning of the body.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let reading = async {
        while bytes.len() < READ {
            let Ok(Some(chunk)) = response.chunk().await else { return };
            bytes.extend_from_slice(&chunk[..chunk.len().min(READ - bytes.len())]);
        }
    };
    // What has come within that time is enough.
    drop(tokio::time::timeout(PATIENCE, reading).await);
    bytes
}

fn on_one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace(char::is_control, " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error of the client, without its URL: the innermost causes say what happened.
pub(super) fn words(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next: Option<&dyn Error> = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    let inner = causes.pop().unwrap_or_else(|| "the request failed".to_owned());
    let text = match causes.pop() {
        Some(outer) if !outer.contains(&inner) && !inner.starts_with("not connected") => {
            format!("{outer}: {inner}")
        }
        _ => inner,
    };
    match text.contains("certificate") {
        true => format!(
            "{text} (if the receiver has an authority of its own, name it in tls = {{ ca_file = ... }})"
        ),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn answer(status: u16) -> Answer {
        let status = StatusCode::from_u16(status).expect("a status");
        Answer { status, retry_after: Some(Duration::from_secs(7)), abort: false, text: "why".to_owned() }
    }

    fn word(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Retry { .. } => "retry",
            Outcome::Dead { .. } => "dead",
            _ => "unavailable",
        }
    }

    #[test]
    fn every_status_has_its_outcome() {
        for status in 100..=999 {
            let expected = match status {
                200..=299 => "delivered",
                413 => "dead",
                401 | 410 | 429 | 502 | 503 | 504 => "unavailable",
                _ => "retry",
            };
            assert_eq!(word(&answer(status).outcome()), expected, "{status}");
        }
    }

    #[test]
    fn a_receiver_can_ask_not_to_see_an_event_again() {
        let aborted = |status| Answer { abort: true, ..answer(status) };
        assert_eq!(word(&aborted(500).outcome()), "dead");
        assert_eq!(word(&aborted(204).outcome()), "delivered");
        assert_eq!((word(&aborted(410).outcome()), aborted(410).pause()), ("dead", None));
    }

    #[test]
    fn pauses_are_for_the_receiver_or_for_the_event() {
        let asked = Some(Duration::from_secs(7));
        let pauses = [(429, asked), (502, asked), (503, asked), (504, asked), (410, Some(GONE)), (500, None)];
        for (status, pause) in pauses {
            assert_eq!(answer(status).pause(), pause, "{status}");
        }
        assert!(matches!(answer(500).outcome(), Outcome::Retry { after, .. } if after == asked));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_has_a_limit() {
        let now = DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").expect("a time").to_utc();
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, now).map(|pause| pause.as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Fri, 02 Jan 2026 03:05:05 GMT"), Some(60));
        assert_eq!(read("Thu, 01 Jan 2026 00:00:00 GMT"), Some(0));
        assert_eq!((read("999999999"), read("Fri, 02 Jan 2099 03:05:05 GMT")), (Some(3600), Some(3600)));
        assert_eq!((read("soon"), read("-5"), read("1.5")), (None, None, None));
    }

    #[test]
    fn an_answer_is_told_with_its_remedy() {
        assert_eq!(
            answer(410).sentence(),
            "the receiver answered 410 Gone: the endpoint asks to be disabled; pause or remove the subscription: why"
        );
        assert!(answer(308).sentence().contains("redirects are not followed"));
        assert!(answer(401).sentence().contains("secrets"));
        assert_eq!(answer(599).sentence(), "the receiver answered 599: why");
    }
}
