//! Part of a page, added by one script.

use redis::{Cmd, ErrorKind, RedisResult, Script, ServerErrorKind};

use super::connection::Connection;
use super::fields::Entry;

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was added.
    Added,
    /// It was refused, with these words.
    Refused(String),
    /// It was left out because an earlier one of its chain was refused.
    LeftOut,
}

/// Adds the entries in order. `chains` says which of them must not be added behind a refused one.
pub(super) async fn add(
    connection: &Connection,
    script: &Script,
    entries: &[&Entry],
    chains: &[usize],
) -> RedisResult<Vec<Answer>> {
    let (call, mut handle) = (call(script, entries, chains), connection.handle());
    let mut answered: RedisResult<Answers> = call.query_async(&mut handle).await;
    let unknown = ErrorKind::Server(ServerErrorKind::NoScript);
    if answered.as_ref().is_err_and(|error| error.kind() == unknown) {
        script.prepare_invoke().load_async(&mut handle).await?;
        answered = call.query_async(&mut handle).await;
    }
    let (added, others) = answered?;
    if added + others.len() != entries.len() {
        let what = format!("{added} added and {} not, of {}", others.len(), entries.len());
        return Err((ErrorKind::UnexpectedReturnType, "answers that do not add up", what).into());
    }
    let mut answers = vec![Answer::Added; entries.len()];
    for (place, why) in others {
        if let Some(answer) = answers.get_mut(place.wrapping_sub(1)) {
            *answer = Answer::of(&why);
        }
    }
    Ok(answers)
}

/// How many were added; the places of the others, counted from 1, and why they were not.
type Answers = (usize, Vec<(usize, String)>);

fn call(script: &Script, entries: &[&Entry], chains: &[usize]) -> Cmd {
    let mut streams: Vec<&str> = Vec::new();
    let mut places = Vec::with_capacity(entries.len());
    for entry in entries {
        // Mostly the same as the last one, so from the end.
        let known = streams.iter().rposition(|stream| *stream == entry.stream);
        places.push(known.unwrap_or_else(|| {
            streams.push(&entry.stream);
            streams.len() - 1
        }));
    }
    let words = entries.iter().map(|entry| entry.words().len() + 3).sum::<usize>() + streams.len() + 3;
    let size = entries.iter().map(|entry| entry.size()).sum();
    let mut call = Cmd::with_capacity(words, size);
    call.arg("EVALSHA").arg(script.get_hash()).arg(streams.len()).arg(streams);
    for ((entry, chain), stream) in entries.iter().zip(chains).zip(places) {
        call.arg(stream + 1).arg(*chain).arg(entry.words().len());
        entry.words().for_each(|word| {
            call.arg(word);
        });
    }
    call
}

impl Answer {
    fn of(why: &str) -> Self {
        match why {
            "" => Self::LeftOut,
            // Older servers put a hyphen before the code.
            error => Self::Refused(error.trim_start_matches('-').to_owned()),
        }
    }
}
