//! Part of a page in which every event is of another chain, added by one transaction. A transaction goes on behind a refused
//! command, which harms nobody here: nothing stands behind a refused event. It costs the server little more than half of what
//! the script costs, and waits for the disk once as well, where a plain pipeline would for every piece that is read.

use redis::{Cmd, ErrorKind, Pipeline, RedisResult, Value, cmd};

use super::connection::Connection;
use super::fields::Entry;
use super::script::Answer;

/// What became of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// One answer per entry.
    Answers(Vec<Answer>),
    /// A command was refused before the transaction could begin, so that nothing was executed. The script tells more.
    Nothing,
    /// It was begun and could not be ended: nothing was executed, and the connection can only be closed.
    Stuck,
}

/// Adds the entries in order. Not by the client's own transactions: they do not tell a server that begins none, and
/// executes each command at once, from one that executes nothing.
pub(super) async fn add(connection: &Connection, entries: &[&Entry]) -> RedisResult<Done> {
    let mut transaction = Pipeline::with_capacity(entries.len() + 2);
    transaction.ignore_errors().add_command(cmd("MULTI"));
    entries.iter().for_each(|entry| {
        transaction.add_command(command(entry));
    });
    transaction.add_command(cmd("EXEC"));
    let mut answers: Vec<Value> = transaction.query_async(&mut connection.handle()).await?;
    let (end, begin) = (answers.pop(), answers.first().cloned());
    if answers.len() != entries.len() + 1 {
        let what = format!("{} answers to {} commands", answers.len(), entries.len() + 1);
        return Err((ErrorKind::UnexpectedReturnType, "answers that do not add up", what).into());
    }
    Ok(match (begin, end) {
        // It was not begun, and each command executed by itself.
        (Some(Value::ServerError(_)), _) => {
            Done::Answers(answers.into_iter().skip(1).map(answer_of).collect())
        }
        (_, Some(Value::Array(answers))) if answers.len() == entries.len() => {
            Done::Answers(answers.into_iter().map(answer_of).collect())
        }
        (_, Some(Value::ServerError(error))) if error.code() == "EXECABORT" => Done::Nothing,
        _ => Done::Stuck,
    })
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
