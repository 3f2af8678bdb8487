//! Talking to Redis: one script, whose verbs may all be repeated when an answer is lost.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::{RedisError, RedisResult, Script};

use crate::error::{Error, Result};

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

/// Runs the script. A connection that broke is opened anew and asked once more: the first call may have been heard or not,
/// and under its token the second one finds either.
pub(super) async fn call(connection: &ConnectionManager, verb: Verb, call: Call<'_>) -> Result<Answer> {
    let heard = match invoke(connection, verb, call).await {
        Err(error) if error.is_io_error() => invoke(connection, verb, call).await,
        heard => heard,
    };
    let (word, number) = heard.map_err(|source| Error::Redis { doing: verb.doing(), source })?;
    read(&word, number)
}

async fn invoke(connection: &ConnectionManager, verb: Verb, call: Call<'_>) -> RedisResult<(String, i64)> {
    let mut invocation = GUARD.key(call.key);
    invocation
        .arg(verb.word())
        .arg(call.token)
        .arg(millis(call.lease))
        .arg(millis(call.keep))
        .arg(call.fence);
    invocation.invoke_async(&mut connection.clone()).await
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

/// Whether asking again may help: the server was not there, or did not answer in time.
pub(super) fn is_away(error: &Error) -> bool {
    matches!(error, Error::Redis { source, .. } if RedisError::is_io_error(source))
}
