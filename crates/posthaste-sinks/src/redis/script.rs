//! Part of a page, added by one script.

use redis::{RedisResult, Script};

use super::connection::Connection;
use super::fields::Entry;

/// What the script answers for one event.
#[derive(Debug, PartialEq, Eq)]
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
    let mut streams: Vec<&str> = Vec::new();
    let mut call = script.prepare_invoke();
    for (entry, chain) in entries.iter().zip(chains) {
        let known = streams.iter().position(|stream| *stream == entry.stream);
        let stream = known.unwrap_or_else(|| {
            streams.push(&entry.stream);
            streams.len() - 1
        });
        call.arg(stream + 1).arg(*chain).arg(entry.words.len()).arg(&entry.words);
    }
    for stream in streams {
        call.key(stream);
    }
    let answers: Vec<String> = call.invoke_async(&mut connection.handle()).await?;
    Ok(answers.iter().map(|text| Answer::read(text)).collect())
}

impl Answer {
    fn read(text: &str) -> Self {
        match text.strip_prefix('-') {
            // Older servers put a hyphen of their own before the code.
            Some(error) => Self::Refused(error.trim_start_matches('-').to_owned()),
            None if text.is_empty() => Self::LeftOut,
            None => Self::Added,
        }
    }
}
