//! Talking to Redis: one script, whose verbs may all be repeated when an answer is lost.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{RedisError, RedisResult, Script};

use crate::error::{Error, Result};

use super::link::Link;

static GUARD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("guard.lua")));

/// What is asked of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Enter,
    Renew,
    Finish,
    Release,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Renew => "renew",
            Self::Finish => "finish",
            Self::Release => "release",
        }
    }

    /// For errors.
    fn doing(self) -> &'static str {
        match self {
            Self::Enter => "ask Redis whether the event is new",
            Self::Renew => "renew the lease on an event in Redis",
            Self::Finish => "mark an event as done in Redis",
            Self::Release => "let go of an event in Redis",
        }
    }
}

/// What the script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    First(i64),
    Duplicate,
    Busy(Duration),
    Kept,
    Lost,
}

/// Everything the script is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'c> {
    pub(super) key: &'c str,
    pub(super) token: &'c str,
    pub(super) fence: i64,
    pub(super) lease: Duration,
    pub(super) keep: Duration,
}

/// Runs the script. A connection that broke or fell silent is opened anew and asked once more: the first call may have been heard or not,
/// and under its token the second one finds either.
pub(super) async fn call(link: &Link, verb: Verb, call: Call<'_>) -> Result<Answer> {
    let heard = match invoke(link, verb, call).await {
        Err(error) if error.is_io_error() => invoke(link, verb, call).await,
        heard => heard,
    };
    let (word, number) = heard.map_err(|source| Error::Redis { doing: verb.doing(), source })?;
    read(&word, number)
}

async fn invoke(link: &Link, verb: Verb, call: Call<'_>) -> RedisResult<(String, i64)> {
    let mut invocation = GUARD.key(call.key);
    invocation
        .arg(verb.word())
        .arg(call.token)
        .arg(millis(call.lease))
        .arg(millis(call.keep))
        .arg(call.fence);
    link.ask(async |connection| invocation.invoke_async(connection).await).await
}

fn read(word: &str, number: i64) -> Result<Answer> {
    Ok(match word {
        "first" => Answer::First(number),
        "duplicate" => Answer::Duplicate,
        "busy" => Answer::Busy(Duration::from_millis(number.unsigned_abs())),
        "kept" => Answer::Kept,
        "lost" => Answer::Lost,
        other => return Err(Error::Corrupt(format!("the inbox script answered `{other}`"))),
    })
}

/// No lease and no time to keep is shorter than one millisecond, or Redis would refuse it.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).max(1)
}

/// Whether asking again may help: the server was not there, did not answer in time, or said that it cannot serve yet, because
/// it loads its data or waits for its primary or its cluster.
pub(super) fn is_away(error: &Error) -> bool {
    let Error::Redis { source, .. } = error else { return false };
    RedisError::is_io_error(source)
        || source
            .code()
            .is_some_and(|code| ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the server says it.
    fn said(answer: &str) -> Error {
        let value = redis::parse_redis_value(answer.as_bytes()).unwrap();
        let source = value.extract_error().unwrap_err();
        Error::Redis { doing: "ask", source }
    }

    #[test]
    fn a_server_that_cannot_serve_yet_is_away() {
        for answer in [
            "-LOADING Redis is loading the dataset in memory\r\n",
            "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
            "-CLUSTERDOWN The cluster is down\r\n",
            "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        ] {
            assert!(is_away(&said(answer)), "{answer}");
        }
        for answer in ["-ERR unknown command\r\n", "-NOAUTH Authentication required.\r\n", "-NOPERM no\r\n"] {
            assert!(!is_away(&said(answer)), "{answer}");
        }
        assert!(!is_away(&Error::LeaseLost));
        let source = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert!(is_away(&Error::Redis { doing: "ask", source }));
    }
}
