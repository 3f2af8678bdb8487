//! Copies from a Redis stream, as a member of a consumer group.

use std::time::Duration;

use posthaste::inbox::{Source, event_id_of};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};
use redis::{Client, RedisResult, Value};

use crate::Result;
use crate::worker::{Answer, CONSUMER, Copy, Worker};

/// What a dead worker had in hand is taken over after this time.
const ABANDONED: Duration = Duration::from_millis(500);
const AT_ONCE: usize = 10;

/// Reads until the process ends.
pub async fn work(worker: Worker, url: &str, stream: &str, name: &str) -> Result<()> {
    let client = Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    create_group(&mut connection, stream).await?;
    loop {
        for entry in abandoned(&mut connection, stream, name).await? {
            handle(&worker, &mut connection, stream, &entry).await?;
        }
        for entry in fresh(&mut connection, stream, name).await? {
            handle(&worker, &mut connection, stream, &entry).await?;
        }
    }
}

/// The group begins with the first entry, and may be there already.
async fn create_group(connection: &mut MultiplexedConnection, stream: &str) -> Result<()> {
    let mut create = redis::cmd("XGROUP");
    create.arg(&["CREATE", stream, CONSUMER, "0", "MKSTREAM"]);
    let created: RedisResult<()> = create.query_async(connection).await;
    match created {
        Err(error) if error.code() != Some("BUSYGROUP") => Err(error.into()),
        _ => Ok(()),
    }
}

async fn abandoned(
    connection: &mut MultiplexedConnection,
    stream: &str,
    name: &str,
) -> Result<Vec<StreamId>> {
    let idle = ABANDONED.as_millis().to_string();
    let mut claim = redis::cmd("XAUTOCLAIM");
    claim.arg(&[stream, CONSUMER, name, &idle, "0", "COUNT"]).arg(AT_ONCE);
    let claimed: StreamAutoClaimReply = claim.query_async(connection).await?;
    Ok(claimed.claimed)
}

async fn fresh(connection: &mut MultiplexedConnection, stream: &str, name: &str) -> Result<Vec<StreamId>> {
    let mut read = redis::cmd("XREADGROUP");
    read.arg(&["GROUP", CONSUMER, name, "COUNT"]).arg(AT_ONCE).arg(&["BLOCK", "200", "STREAMS", stream, ">"]);
    let read: Option<StreamReadReply> = read.query_async(connection).await?;
    Ok(read.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids).collect())
}

/// What is not acknowledged stays pending, and is claimed again when its time has come.
async fn handle(
    worker: &Worker,
    connection: &mut MultiplexedConnection,
    stream: &str,
    entry: &StreamId,
) -> Result<()> {
    let answer = match copy_of(entry) {
        Some(copy) => worker.handle(&copy).await,
        None => {
            eprintln!("compliance: entry {} of {stream} has no event id; it is left out", entry.id);
            Answer::Acknowledge
        }
    };
    if answer == Answer::Acknowledge {
        let acknowledged: RedisResult<u64> =
            redis::cmd("XACK").arg(&[stream, CONSUMER, &entry.id]).query_async(connection).await;
        acknowledged?;
    }
    Ok(())
}

fn copy_of(entry: &StreamId) -> Option<Copy> {
    let bytes = |value: &Value| match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let fields = entry.map.iter().filter_map(|(name, value)| Some((name, bytes(value)?)));
    let event_id = event_id_of(Source::Redis, fields)?;
    Some(Copy { source: "redis", event_id, body: entry.map.get("data").and_then(bytes).unwrap_or_default() })
}
