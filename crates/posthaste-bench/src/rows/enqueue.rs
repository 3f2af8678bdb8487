//! Producers alone: single rows on many connections, and a thousand at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use posthaste::Posthaste;
use sqlx::PgPool;

use crate::bench::Bench;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::peers::hand;
use crate::rows::drain::rate;
use crate::work::{event, events, key, payload};
use crate::worker::Following;

const CONNECTIONS: u64 = 8;

/// A worker first passes everything that was enqueued while it was not there.
const FALLS_ASLEEP: Duration = Duration::from_secs(1);

/// The same bytes into a table with nothing but a number as its key.
const BARE: &str = "create table bare (id bigint generated always as identity primary key, topic text not null, \
                    key text, content_type text not null, payload bytea not null)";

/// One event per transaction.
pub(crate) async fn single(bench: &Bench) -> Result<Vec<Figure>> {
    let (seconds, rounds) = (bench.seconds(4), bench.rounds_times(3));
    let (pool, posthaste) = ours::create(&bench.cluster, "enqueue").await?;
    sqlx::query(BARE).execute(&pool).await?;
    let title =
        format!("Single-row transactions on {CONNECTIONS} connections for {seconds} s, {rounds} rounds");
    let figure = Figure::timed("enqueue", title, "transactions/s", Better::More)
        .demand("posthaste", Some("bare INSERT"), 0.85)
        .demand("posthaste, a worker sleeps", Some("bare INSERT"), 0.85);
    let (pool, posthaste, cluster) = (&pool, &posthaste, &bench.cluster);
    let hand = &bench.cluster.database("enqueue_hand", 10).await?;
    hand::create(hand).await?;
    hand::add_bell(&bench.cluster.database("enqueue_bell", 10).await?).await?;
    let bell = &bench.cluster.open("enqueue_bell", 10).await?;
    let mut contenders = vec![
        Contender::new("bare INSERT", Role::Limit, move || bare(pool, CONNECTIONS, seconds)),
        Contender::new("posthaste", Role::Ours, move || produce(pool, posthaste, CONNECTIONS, seconds))
            .prepared_by(move || nobody_sleeps(pool)),
        // It wants nothing of what is enqueued, so it is always asleep, with its sign up.
        Contender::new("posthaste, a worker sleeps", Role::Ours, move || async move {
            let sleeper = Following::start(cluster, "enqueue", "sleeps", "nothing").await?;
            tokio::time::sleep(FALLS_ASLEEP).await;
            let rate = produce(pool, posthaste, CONNECTIONS, seconds).await?;
            sleeper.end().await?;
            Ok(rate)
        }),
        Contender::new("SKIP LOCKED table", Role::Peer, move || async move {
            hammer(CONNECTIONS, seconds, async |number| hand::insert(hand, number).await).await
        }),
        Contender::new("SKIP LOCKED table with NOTIFY", Role::Peer, move || async move {
            hammer(CONNECTIONS, seconds, async |number| hand::insert(bell, number).await).await
        }),
    ];
    for program in &bench.programs {
        let contender = Contender::new(program.name, Role::Peer, move || async move {
            let url = cluster.url_of("enqueue_peer")?;
            program.number("enqueue", &url, &[CONNECTIONS, seconds], "rate").await
        });
        contenders.push(contender.prepared_by(move || cluster.create("enqueue_peer")));
    }
    Ok(vec![figure.measure(rounds, contenders).await])
}

/// Takes down the sign of a worker that has ended: it would be up for many seconds more.
pub(crate) async fn nobody_sleeps(pool: &PgPool) -> Result<()> {
    sqlx::query("select setval('posthaste.doorbell', 0)").execute(pool).await?;
    Ok(())
}

/// Bare inserts, one per transaction.
async fn bare(pool: &PgPool, connections: u64, seconds: u64) -> Result<f64> {
    hammer(connections, seconds, async |number| {
        let mut tx = pool.begin().await?;
        sqlx::query("insert into bare (topic, key, content_type, payload) values ($1, $2, $3, $4)")
            .bind("orders")
            .bind(key(number))
            .bind("application/json")
            .bind(payload(number).into_bytes())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// Enqueues, one event per transaction.
pub(crate) async fn produce(
    pool: &PgPool,
    posthaste: &Posthaste,
    connections: u64,
    seconds: u64,
) -> Result<f64> {
    hammer(connections, seconds, async |number| {
        let mut tx = pool.begin().await?;
        posthaste.enqueue(&mut *tx, event(number)).await?;
        tx.commit().await?;
        Ok(())
    })
    .await
}

/// As many transactions as can be, side by side; gives how many a second.
async fn hammer(connections: u64, seconds: u64, one: impl AsyncFn(u64) -> Result<()>) -> Result<f64> {
    let (done, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let until = start + Duration::from_secs(seconds);
    let work = async || {
        while Instant::now() < until {
            one(done.fetch_add(1, Ordering::Relaxed)).await?;
        }
        Result::Ok(())
    };
    let mut working: FuturesUnordered<_> = (0..connections).map(|_| work()).collect();
    while let Some(ended) = working.next().await {
        ended?;
    }
    Ok(rate(done.load(Ordering::Relaxed), start.elapsed().as_secs_f64()))
}

/// A thousand events per call.
pub(crate) async fn bulk(bench: &Bench) -> Result<Vec<Figure>> {
    let count = bench.events(200_000);
    let (pool, posthaste) = ours::create(&bench.cluster, "bulk").await?;
    sqlx::query("create table copied (like posthaste.events including all)").execute(&pool).await?;
    let figure = Figure::timed(
        "bulk",
        format!("Enqueuing {count} events, 1000 per transaction"),
        "events/s",
        Better::More,
    )
    .demand("posthaste", Some("COPY"), 0.7);
    let (pool, posthaste) = (&pool, &posthaste);
    let contenders = vec![
        Contender::new("COPY", Role::Limit, move || copy(pool, count)),
        Contender::new("posthaste", Role::Ours, move || async move {
            let start = Instant::now();
            for first in (0..count).step_by(1000) {
                let mut tx = pool.begin().await?;
                posthaste.enqueue_many(&mut *tx, events(first..first + 1000)).await?;
                tx.commit().await?;
            }
            Ok(rate(count, start.elapsed().as_secs_f64()))
        }),
    ];
    Ok(vec![figure.measure(bench.rounds, contenders).await])
}

/// The same rows into a table of the same shape, by COPY.
async fn copy(pool: &PgPool, count: u64) -> Result<f64> {
    let start = Instant::now();
    let mut connection = pool.acquire().await?;
    for first in (0..count).step_by(1000) {
        let mut copy =
            connection.copy_in_raw("copy copied (id, topic, key, content_type, payload) from stdin").await?;
        let mut rows = String::new();
        for number in first..first + 1000 {
            let id = uuid::Uuid::now_v7();
            let body = payload(number).replace('\\', "\\\\");
            rows.push_str(&format!("{id}\torders\t{}\tapplication/json\t{body}\n", key(number)));
        }
        copy.send(rows.into_bytes()).await?;
        copy.finish().await?;
    }
    Ok(rate(count, start.elapsed().as_secs_f64()))
}
