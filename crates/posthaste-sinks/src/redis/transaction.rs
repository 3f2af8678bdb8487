//! Part of a page in which every event is of another chain, added by one transaction. A transaction goes on behind a refused
//! command, which harms nobody here: nothing stands behind a refused event. It costs the server little more than half of what
//! the script costs.

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::connection::Connection;
use super::fields::Entry;
use super::script::Answer;

/// Adds the entries in order. The error may be [`nothing_done`]; then the script tells more.
pub(super) async fn add(connection: &Connection, entries: &[&Entry]) -> RedisResult<Vec<Answer>> {
    let mut transaction = Pipeline::with_capacity(entries.len());
    transaction.atomic().ignore_errors();
    entries.iter().for_each(|entry| {
        transaction.add_command(command(entry));
    });
    let answers: Vec<Value> = transaction.query_async(&mut connection.handle()).await?;
    if answers.len() != entries.len() {
        let what = format!("{} answers to {} commands", answers.len(), entries.len());
        return Err((ErrorKind::UnexpectedReturnType, "answers that do not add up", what).into());
    }
    Ok(answers.into_iter().map(answer_of).collect())
}

/// Whether a transaction failed as a whole because one of its commands was refused before it began.
pub(super) fn nothing_done(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ExecAbort)
}

fn command(entry: &Entry) -> Cmd {
    let mut command = Cmd::with_capacity(entry.words().len() + 2, entry.size());
    command.arg("XADD").arg(&entry.stream);
    entry.words().for_each(|word| {
        command.arg(word);
    });
    command
}

fn answer_of(answer: Value) -> Answer {
    match answer {
        Value::ServerError(error) => Answer::Refused(
            format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned(),
        ),
        Value::BulkString(_) | Value::SimpleString(_) => Answer::Added,
        other => Answer::Refused(format!("ERR no id but {other:?}")),
    }
}
