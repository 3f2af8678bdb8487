//! What an error of the client or the server means for the event.

use posthaste::Outcome;
use redis::{ErrorKind, RedisError};

/// Answers that are about the server, not about one event.
const AWAY: [&str; 16] = [
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "BUSY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "CROSSSLOT",
    "UNKILLABLE",
];

/// What an answer to one event means. `everywhere`: all events go to the same stream, so what is wrong with it is wrong
/// for all of them.
pub(super) fn refused(answer: &str, stream: &str, everywhere: bool) -> Outcome {
    let reason = format!("Redis, stream {stream}: {answer}");
    match answer.split_whitespace().next().unwrap_or("") {
        code if AWAY.contains(&code) => Outcome::unavailable(reason),
        "WRONGTYPE" if everywhere => Outcome::unavailable(reason),
        _ => Outcome::retry(reason),
    }
}

/// What the failure of a whole page means. Whatever it is, it is not about one event, because the script answers for
/// each of them.
pub(super) fn failed(error: &RedisError, what: &str) -> Outcome {
    Outcome::unavailable(format!("{what}: {}", explain(error)))
}

/// An error in words.
pub(super) fn explain(error: &RedisError) -> String {
    let hint = match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
            "the server does not accept these credentials: "
        }
        (_, Some("MOVED" | "ASK" | "CROSSSLOT")) => "this is a Redis Cluster, which is not supported: ",
        (_, Some("READONLY")) => "this is a replica; give the address of the primary: ",
        _ => "",
    };
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{hint}{code} {detail}"),
        _ => format!("{hint}{error}"),
    }
}

/// Whether the connection may be used again. A late answer to a question that was given up would not disturb, but a
/// server that does not answer in time may not answer at all.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error() || error.kind() == ErrorKind::Parse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        for code in AWAY {
            let outcome = refused(&format!("{code} some words"), "orders", false);
            assert!(matches!(outcome, Outcome::Unavailable { .. }), "{code}");
        }
        let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert!(matches!(refused(wrong_type, "orders", true), Outcome::Unavailable { .. }));
        assert!(matches!(refused(wrong_type, "orders", false), Outcome::Retry { .. }));
        assert!(matches!(refused("ERR from the future", "orders", true), Outcome::Retry { .. }));
    }

    #[test]
    fn a_lost_connection_is_away_and_not_used_again() {
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(breaks_connection(&lost));
        assert!(matches!(failed(&lost, "redis"), Outcome::Unavailable { .. }));
        let loading = redis::make_extension_error("LOADING".into(), None);
        assert!(!breaks_connection(&loading));
        let denied = redis::make_extension_error("WRONGPASS".into(), None);
        assert!(explain(&denied).contains("does not accept these credentials"));
    }
}
