//! What an error of the client or the server means for the event.

use posthaste::Outcome;
use redis::{ErrorKind, RedisError};

/// Answers that are about the server, not about one event.
const AWAY: [&str; 15] = [
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "NOAUTH",
    "WRONGPASS",
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

/// Why a whole part of a page failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing was heard in time.
    Silence(String),
    /// The server's words, which may be about a single event.
    Doubtful(String),
    /// Not about the events.
    Away(Outcome),
}

/// What an answer to one event means. `everywhere`: all events go to the same stream, so what is wrong with it is wrong
/// for all of them.
pub(super) fn refused(answer: &str, stream: &str, everywhere: bool) -> Outcome {
    let reason = format!("Redis, stream {stream}: {answer}");
    match about_server(answer, everywhere) {
        true => Outcome::unavailable(reason),
        false => Outcome::retry(reason),
    }
}

fn about_server(answer: &str, everywhere: bool) -> bool {
    match answer.split_whitespace().next().unwrap_or("") {
        code if AWAY.contains(&code) => true,
        "WRONGTYPE" => everywhere,
        // Rights are given by the names of streams, so one may be forbidden and another not; a command is so for all.
        "NOPERM" => everywhere || !answer.contains(" key"),
        _ => false,
    }
}

/// What the failure of a whole part means.
pub(super) fn failed(error: &RedisError, what: &str, everywhere: bool) -> Failure {
    let sentence = format!("{what}: {}", explain(error));
    let words = error.code().map(|code| format!("{code} {}", error.detail().unwrap_or("")));
    match words {
        _ if error.is_timeout() => Failure::Silence(sentence),
        Some(words) if !about_server(&words, everywhere) => Failure::Doubtful(words),
        _ => Failure::Away(Outcome::unavailable(sentence)),
    }
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

    const KEY: &str = "NOPERM No permissions to access a key";
    const COMMAND: &str = "NOPERM User relay has no permissions to run the 'evalsha' command";
    const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

    fn word(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Retry { .. } => "retry",
            Outcome::Unavailable { .. } => "unavailable",
            _ => "something else",
        }
    }

    #[test]
    fn every_row_of_the_table() {
        for code in AWAY {
            assert_eq!(
                word(&refused(&format!("{code} some words"), "orders", false)),
                "unavailable",
                "{code}"
            );
        }
        let rows = [
            (WRONG_TYPE, "unavailable", "retry"),
            (KEY, "unavailable", "retry"),
            (COMMAND, "unavailable", "unavailable"),
            ("ERR from the future", "retry", "retry"),
        ];
        for (answer, everywhere, by_event) in rows {
            assert_eq!(word(&refused(answer, "orders", true)), everywhere, "{answer}");
            assert_eq!(word(&refused(answer, "orders", false)), by_event, "{answer}");
        }
    }

    #[test]
    fn what_fails_a_whole_part_may_still_be_about_one_event() {
        let said = |answer: &str| {
            let (code, detail) = answer.split_once(' ').expect("two parts");
            redis::make_extension_error(code.into(), Some(detail.into()))
        };
        assert_eq!(failed(&said(KEY), "redis", false), Failure::Doubtful(KEY.to_owned()));
        for (answer, everywhere) in [(KEY, true), (COMMAND, false), ("OOM no memory", false)] {
            let away = failed(&said(answer), "redis", everywhere);
            assert!(matches!(away, Failure::Away(Outcome::Unavailable { .. })), "{answer}");
        }
        let late = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert!(matches!(failed(&late, "redis", true), Failure::Silence(_)));
    }

    #[test]
    fn a_lost_connection_is_away_and_not_used_again() {
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(breaks_connection(&lost));
        assert!(matches!(failed(&lost, "redis", false), Failure::Away(Outcome::Unavailable { .. })));
        let loading = redis::make_extension_error("LOADING".into(), None);
        assert!(!breaks_connection(&loading));
        let denied = redis::make_extension_error("WRONGPASS".into(), None);
        assert!(explain(&denied).contains("does not accept these credentials"));
    }
}
