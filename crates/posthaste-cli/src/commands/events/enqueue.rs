//! Enqueues one event in a transaction of its own.

use std::io::{IsTerminal, Read};

use posthaste::{Enqueued, ErrorKind, NewEvent};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::cli::events::EnqueueOptions;
use crate::context::{Context, Pool};
use crate::failure::Failure;
use crate::talk::out;

/// How often a transaction that met another one is run again.
const TRIES: u32 = 5;

pub(super) async fn run(context: &Context, options: EnqueueOptions) -> Result<(), Failure> {
    let event = event(&options)?;
    let enqueued = insisted(context, event).await?;
    let Enqueued { id, duplicate } = enqueued;
    match (context.json, duplicate) {
        (true, _) => out::line(json!({"id": id.to_string(), "duplicate": duplicate}).to_string()),
        (false, false) => out::line(format!("Enqueued {id}.")),
        (false, true) => out::line(format!("Nothing new: this dedupe key was enqueued before, as {id}.")),
    }
}

/// A body from the command line: text, `@file`, or stdin.
pub(crate) fn body(argument: Option<&str>) -> Result<Vec<u8>, Failure> {
    match argument {
        None | Some("-") => stdin(),
        Some(text) => match text.strip_prefix('@') {
            Some(path) => std::fs::read(path)
                .map_err(|error| Failure::sentence(format!("could not read {path}: {error}"))),
            None => Ok(text.as_bytes().to_vec()),
        },
    }
}

fn stdin() -> Result<Vec<u8>, Failure> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("Reading the body from the terminal; end it with Ctrl-D.");
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).map_err(Failure::while_doing("read the body from stdin"))?;
    Ok(bytes)
}

fn event(options: &EnqueueOptions) -> Result<NewEvent, Failure> {
    let payload = body(options.payload.as_deref())?;
    let content_type = options.content_type.clone().unwrap_or_else(|| guessed(&payload).to_owned());
    let mut event = NewEvent::bytes(options.topic.clone(), payload).content_type(content_type);
    if let Some(key) = &options.key {
        event = event.key(key);
    }
    if let Some(event_type) = &options.event_type {
        event = event.event_type(event_type);
    }
    if let Some(namespace) = &options.namespace {
        event = event.namespace(namespace);
    }
    if let Some(tenant) = options.tenant {
        event = event.tenant(tenant);
    }
    if let (Some(kind), Some(id)) = (&options.aggregate_type, &options.aggregate_id) {
        event = event.aggregate(kind, id);
    }
    if let Some(dedupe_key) = &options.dedupe_key {
        event = event.dedupe_key(dedupe_key);
    }
    if let Some(delay) = options.delay {
        event = event.delay(delay);
    }
    Ok(options.header.iter().fold(event, |event, (name, value)| event.header(name, value)))
}

fn guessed(payload: &[u8]) -> &'static str {
    match std::str::from_utf8(payload) {
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => "application/json",
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "application/octet-stream",
    }
}

async fn insisted(context: &Context, event: NewEvent) -> Result<Enqueued, Failure> {
    for _ in 1..TRIES {
        match enqueue(context, event.clone()).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            done => return Ok(done?),
        }
    }
    Ok(enqueue(context, event).await?)
}

async fn enqueue(context: &Context, event: NewEvent) -> posthaste::Result<Enqueued> {
    let doing = "enqueue an event";
    let failed = |source| posthaste::Error::Database { doing, source };
    match &context.pool {
        Pool::Postgres(pool) => {
            let mut transaction = pool.begin().await.map_err(failed)?;
            let enqueued = context.posthaste.enqueue(&mut transaction, event).await?;
            transaction.commit().await.map_err(failed)?;
            Ok(enqueued)
        }
        Pool::Sqlite(pool) => {
            let mut transaction = pool.begin_with("begin immediate").await.map_err(failed)?;
            let enqueued = context.posthaste.enqueue(&mut transaction, event).await?;
            transaction.commit().await.map_err(failed)?;
            Ok(enqueued)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_is_what_the_body_is() {
        assert_eq!(guessed(br#"{"a":1}"#), "application/json");
        assert_eq!(guessed(b"dear diary"), "text/plain; charset=utf-8");
        assert_eq!(guessed(b"\xff\x00"), "application/octet-stream");
    }
}
