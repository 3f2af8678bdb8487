//! The embedded default: a backlog, and enqueuing, in one file.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use posthaste::{ClaimBy, Posthaste, sqlite_options};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Row, SqlitePool};

use crate::bench::Bench;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::rows::drain::rate;
use crate::work::{event, events, key, payload};

/// The same bytes into a table with nothing but a number as its key.
const BARE: &str = "create table bare (id integer primary key, topic text not null, key text, \
                    content_type text not null, payload blob not null)";

/// Rows per transaction when single events are enqueued: every commit waits for the disk, so one is enough.
const SINGLE: u64 = 1;
const BULK: u64 = 1000;

pub(crate) async fn sqlite(bench: &Bench) -> Result<Vec<Figure>> {
    let (count, few) = (bench.events(500_000), bench.events(10_000));
    let folder = tempfile::tempdir()?;
    let options = sqlite_options(folder.path().join("bench.db"));
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
    let posthaste = Posthaste::sqlite(pool.clone());
    posthaste.migrate().await?;
    sqlx::query(BARE).execute(&pool).await?;
    let (pool, posthaste, turn, next) = (&pool, &posthaste, &AtomicU32::new(0), &AtomicU64::new(0));
    enqueue(pool, posthaste, next, count, BULK).await?;
    let drain =
        Figure::timed("sqlite drain", format!("SQLite: drain of {count} events"), "events/s", Better::More)
            .demand("posthaste", Some("paging SELECT"), 0.6);
    let drain = drain.measure(
        bench.rounds,
        vec![
            Contender::new("paging SELECT", Role::Limit, move || page_through(pool, count)),
            Contender::new("posthaste", Role::Ours, move || async move {
                let turn = turn.fetch_add(1, Ordering::Relaxed);
                let subscription = ours::subscription(&format!("drain-{turn}"), ClaimBy::Batch)?;
                Ok(rate(count, ours::drain(posthaste, subscription, count).await?.as_secs_f64()))
            }),
        ],
    );
    let drain = drain.await;
    let mut figures = vec![drain];
    for (name, title, count, per) in [
        ("sqlite enqueue", format!("SQLite: {few} events, one per transaction"), few, SINGLE),
        ("sqlite bulk", format!("SQLite: {count} events, {BULK} per transaction"), count, BULK),
    ] {
        let figure = Figure::timed(name, title, "events/s", Better::More).demand(
            "posthaste",
            Some("bare INSERT"),
            0.6,
        );
        let contenders = vec![
            Contender::new("bare INSERT", Role::Limit, move || bare(pool, count, per)),
            Contender::new("posthaste", Role::Ours, move || async move {
                let start = Instant::now();
                enqueue(pool, posthaste, next, count, per).await?;
                Ok(rate(count, start.elapsed().as_secs_f64()))
            }),
        ];
        figures.push(figure.measure(bench.rounds, contenders).await);
    }
    Ok(figures)
}

async fn enqueue(
    pool: &SqlitePool,
    posthaste: &Posthaste,
    next: &AtomicU64,
    count: u64,
    per: u64,
) -> Result<()> {
    for _ in 0..count / per {
        let first = next.fetch_add(per, Ordering::Relaxed);
        let mut tx = pool.begin_with("begin immediate").await?;
        match per {
            SINGLE => drop(posthaste.enqueue(&mut *tx, event(first)).await?),
            _ => drop(posthaste.enqueue_many(&mut *tx, events(first..first + per)).await?),
        }
        tx.commit().await?;
    }
    Ok(())
}

async fn bare(pool: &SqlitePool, count: u64, per: u64) -> Result<f64> {
    let start = Instant::now();
    for first in (0..count).step_by(usize::try_from(per)?) {
        let mut tx = pool.begin_with("begin immediate").await?;
        for number in first..first + per {
            sqlx::query("insert into bare (topic, key, content_type, payload) values (?, ?, ?, ?)")
                .bind("orders")
                .bind(key(number))
                .bind("application/json")
                .bind(payload(number).into_bytes())
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
    }
    Ok(rate(count, start.elapsed().as_secs_f64()))
}

async fn page_through(pool: &SqlitePool, count: u64) -> Result<f64> {
    let (start, mut after, mut seen) = (Instant::now(), 0_i64, 0_u64);
    while seen < count {
        let page = sqlx::query(
            "select seq, id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, dedupe_key, \
             headers, payload, content_type, created_at, available_at from posthaste_events \
             where seq > ? order by seq limit ?",
        )
        .bind(after)
        .bind(i64::from(ours::BATCH))
        .fetch_all(pool)
        .await?;
        let Some(last) = page.last() else { break };
        after = last.get("seq");
        seen += page.len() as u64;
    }
    Ok(rate(seen, start.elapsed().as_secs_f64()))
}
