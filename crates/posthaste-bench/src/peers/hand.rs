//! The table most teams write themselves: a status column with a partial order by time, claimed by `FOR UPDATE SKIP
//! LOCKED`, settled row by row state.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, PgPool};

use crate::measure::Result;
use crate::work::{key, number_of, payload};
use crate::worker::micros;

/// As many workers and rows per claim as served it best.
const WORKERS: usize = 4;
const CLAIM: i64 = 100;

/// Creates the table anew.
pub(crate) async fn create(pool: &PgPool) -> Result<()> {
    for statement in [
        "drop table if exists outbox",
        "create table outbox (
           id bigint generated always as identity primary key,
           topic text not null,
           key text,
           payload jsonb not null,
           status text not null default 'pending',
           attempts int not null default 0,
           next_attempt_at timestamptz not null default now(),
           created_at timestamptz not null default now(),
           delivered_at timestamptz
         )",
        "create index on outbox (status, next_attempt_at)",
    ] {
        sqlx::query(statement).execute(pool).await?;
    }
    Ok(())
}

/// Inserts events, a thousand per transaction.
pub(crate) async fn load(pool: &PgPool, count: u64) -> Result<()> {
    let mut first = 0;
    while first < count {
        let numbers = first..count.min(first + 1000);
        first = numbers.end;
        let (keys, payloads): (Vec<String>, Vec<String>) = numbers.map(|n| (key(n), payload(n))).unzip();
        sqlx::query("insert into outbox (topic, key, payload) select 'orders', k, p::jsonb from unnest($1::text[], $2::text[]) t (k, p)")
            .bind(keys)
            .bind(payloads)
            .execute(pool)
            .await?;
    }
    sqlx::query("analyze outbox").execute(pool).await?;
    Ok(())
}

/// Claims and settles until nothing is left.
pub(crate) async fn drain(pool: &PgPool, count: u64) -> Result<()> {
    let done = Arc::new(AtomicU64::new(0));
    let workers = (0..WORKERS).map(|_| tokio::spawn(work(pool.clone(), done.clone(), count)));
    for worker in futures::future::join_all(workers).await {
        worker??;
    }
    Ok(())
}

async fn work(pool: PgPool, done: Arc<AtomicU64>, count: u64) -> Result<()> {
    while done.load(Ordering::Relaxed) < count {
        let claimed = claim(&pool).await?;
        settle(&pool, &claimed).await?;
        done.fetch_add(claimed.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn claim(pool: &PgPool) -> Result<Vec<(i64, String)>> {
    let claim = sqlx::query_as(AssertSqlSafe(format!(
        "update outbox set status = 'processing', attempts = attempts + 1
         where id in (
           select id from outbox where status = 'pending' and next_attempt_at <= now()
           order by next_attempt_at limit {CLAIM} for update skip locked
         )
         returning id, payload::text"
    )));
    Ok(claim.fetch_all(pool).await?)
}

async fn settle(pool: &PgPool, claimed: &[(i64, String)]) -> Result<()> {
    let ids: Vec<i64> = claimed.iter().map(|(id, _)| *id).collect();
    if !ids.is_empty() {
        sqlx::query("update outbox set status = 'delivered', delivered_at = now() where id = any ($1)")
            .bind(&ids)
            .execute(pool)
            .await?;
    }
    Ok(())
}

/// Inserts one event in a transaction of its own.
pub(crate) async fn insert(pool: &PgPool, number: u64) -> Result<()> {
    let mut tx = pool.begin().await?;
    sqlx::query("insert into outbox (topic, key, payload) values ('orders', $1, $2::jsonb)")
        .bind(key(number))
        .bind(payload(number))
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}

/// Creates the table with the usual trigger that rings for every statement.
pub(crate) async fn add_bell(pool: &PgPool) -> Result<()> {
    create(pool).await?;
    for statement in [
        "create function ring() returns trigger language plpgsql as $$ begin perform pg_notify('outbox', ''); return null; end $$",
        "create trigger ring after insert on outbox for each statement execute function ring()",
    ] {
        sqlx::query(statement).execute(pool).await?;
    }
    Ok(())
}

/// From commit to handler, in milliseconds: one worker that polls every 50 ms, or listens.
pub(crate) async fn latency(pool: &PgPool, bell: bool, rate: u64, seconds: u64) -> Result<Vec<f64>> {
    match bell {
        true => add_bell(pool).await?,
        false => create(pool).await?,
    }
    let count = rate * seconds;
    let committed = Arc::new(std::sync::Mutex::new(HashMap::new()));
    let worker = tokio::spawn(follow(pool.clone(), bell, count));
    let start = Instant::now();
    for number in 0..count {
        let due = start + Duration::from_secs_f64(number as f64 / rate as f64);
        tokio::time::sleep_until(due.into()).await;
        insert(pool, number).await?;
        committed.lock().map_err(|_| "poisoned")?.insert(number, micros());
    }
    let arrivals = worker.await??;
    let committed = committed.lock().map_err(|_| "poisoned")?;
    let took = |(number, at): &(u64, u64)| {
        committed.get(number).map(|from| at.saturating_sub(*from) as f64 / 1000.0)
    };
    Ok(arrivals.iter().filter_map(took).collect())
}

async fn follow(pool: PgPool, bell: bool, count: u64) -> Result<Vec<(u64, u64)>> {
    let mut listener = PgListener::connect_with(&pool).await?;
    if bell {
        listener.listen("outbox").await?;
    }
    let mut arrivals = Vec::new();
    while (arrivals.len() as u64) < count {
        let claimed = claim(&pool).await?;
        let now = micros();
        arrivals
            .extend(claimed.iter().filter_map(|(_, payload)| Some((number_of(payload.as_bytes())?, now))));
        settle(&pool, &claimed).await?;
        if claimed.is_empty() {
            // A ring, or the next poll.
            drop(tokio::time::timeout(Duration::from_millis(50), listener.recv()).await);
        }
    }
    Ok(arrivals)
}
