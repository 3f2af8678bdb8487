//! The table most teams write themselves: a status column with a partial order by time, claimed by `FOR UPDATE SKIP
//! LOCKED`, settled row by row state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{AssertSqlSafe, PgPool};

use crate::measure::Result;
use crate::work::{key, payload};

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
        let claimed: Vec<(i64, String)> = sqlx::query_as(AssertSqlSafe(format!(
            "update outbox set status = 'processing', attempts = attempts + 1
             where id in (
               select id from outbox where status = 'pending' and next_attempt_at <= now()
               order by next_attempt_at limit {CLAIM} for update skip locked
             )
             returning id, payload::text"
        )))
        .fetch_all(&pool)
        .await?;
        let ids: Vec<i64> = claimed.iter().map(|(id, _)| *id).collect();
        sqlx::query("update outbox set status = 'delivered', delivered_at = now() where id = any ($1)")
            .bind(&ids)
            .execute(&pool)
            .await?;
        done.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}
