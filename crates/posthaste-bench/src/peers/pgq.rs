//! PgQ, the queue of Skytools: a C extension with ticks and rotating tables.

use sqlx::{PgPool, Row};

use crate::measure::Result;
use crate::work::{key, payload};

const QUEUE: &str = "bench";
const CONSUMER: &str = "reader";

/// Installs it; fails where the extension is not there.
pub(crate) async fn create(pool: &PgPool) -> Result<()> {
    sqlx::query("create extension if not exists pgq").execute(pool).await?;
    for call in ["select pgq.create_queue($1)", "select pgq.register_consumer($1, 'reader')"] {
        sqlx::query(call).bind(QUEUE).execute(pool).await?;
    }
    Ok(())
}

/// Inserts events, a thousand per transaction, and ticks now and then as its daemon does.
pub(crate) async fn load(pool: &PgPool, count: u64) -> Result<()> {
    let mut first = 0;
    while first < count {
        let numbers = first..count.min(first + 1000);
        first = numbers.end;
        let (keys, payloads): (Vec<String>, Vec<String>) = numbers.map(|n| (key(n), payload(n))).unzip();
        let insert = "select pgq.insert_event($1, 'orders', p, k, null, null, null) from unnest($2::text[], $3::text[]) t (k, p)";
        sqlx::query(insert).bind(QUEUE).bind(keys).bind(payloads).execute(pool).await?;
        if first % 20_000 == 0 {
            tick(pool).await?;
        }
    }
    tick(pool).await
}

async fn tick(pool: &PgPool) -> Result<()> {
    sqlx::query("select pgq.force_tick($1)").bind(QUEUE).execute(pool).await?;
    sqlx::query("select pgq.ticker($1)").bind(QUEUE).execute(pool).await?;
    Ok(())
}

/// Reads batch after batch until all have come.
pub(crate) async fn drain(pool: &PgPool, count: u64) -> Result<()> {
    let mut seen = 0;
    while seen < count {
        let batch: Option<i64> = sqlx::query_scalar("select pgq.next_batch($1, $2)")
            .bind(QUEUE)
            .bind(CONSUMER)
            .fetch_one(pool)
            .await?;
        let Some(batch) = batch else {
            tick(pool).await?;
            continue;
        };
        let events =
            sqlx::query("select * from pgq.get_batch_events($1)").bind(batch).fetch_all(pool).await?;
        // What a consumer needs of an event: its id, type, body and key.
        for event in &events {
            let (_, _): (i64, String) = (event.get("ev_id"), event.get("ev_type"));
            let (_, _): (String, Option<String>) = (event.get("ev_data"), event.get("ev_extra1"));
        }
        seen += events.len() as u64;
        sqlx::query("select pgq.finish_batch($1)").bind(batch).execute(pool).await?;
    }
    Ok(())
}
