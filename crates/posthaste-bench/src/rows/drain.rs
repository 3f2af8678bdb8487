//! A backlog, and how fast it is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use posthaste::{ClaimBy, Settings};
use sqlx::{PgPool, Row};

use crate::bench::Bench;
use crate::cluster::calm_down;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::peers::{hand, pgq};

/// Events per claim, for us and for the paging SELECT: as many as serve best, as for the peers.
const BATCH: u32 = 2000;

/// Waiting events to a receiver that takes everything, one worker process. Peers that are programs of their own get a
/// fifth of the events: a rate is a rate.
pub(crate) async fn drain(bench: &Bench) -> Result<Vec<Figure>> {
    let count = bench.events(1_000_000);
    let (pool, posthaste) = ours::create(&bench.cluster, "drain").await?;
    ours::load(&pool, &posthaste, count).await?;
    calm_down(&pool).await?;
    let title =
        format!("Drain of {count} waiting events, one worker process, receiver that takes everything");
    let figure = Figure::timed("drain", title, "events/s", Better::More)
        .demand("posthaste", Some("paging SELECT"), 0.6)
        .demand("posthaste", Some("SKIP LOCKED table"), 10.0)
        .demand("posthaste", Some("PgQ"), 1.0)
        .demand("posthaste by event", Some("SKIP LOCKED table"), 3.0);
    let hand = bench.cluster.database("drain_hand", 8).await?;
    let pgq = bench.cluster.database("drain_pgq", 2).await?;
    let (turn, posthaste) = (&AtomicU32::new(0), &posthaste);
    let ours = |name, claim_by: ClaimBy, batch| {
        Contender::new(name, Role::Ours, move || async move {
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            let subscription = ours::subscription_by(&format!("drain-{turn}"), claim_by, batch)?;
            Ok(rate(count, ours::drain(posthaste, subscription, count).await?.as_secs_f64()))
        })
    };
    let (pool, hand, pgq) = (&pool, &hand, &pgq);
    let mut contenders = vec![
        Contender::new("paging SELECT", Role::Limit, move || page_through(pool)),
        ours("posthaste", ClaimBy::Batch, BATCH),
        ours("posthaste by event", ClaimBy::Event, BATCH),
        ours("posthaste, usual batch size", ClaimBy::Batch, Settings::default().batch_size),
        Contender::new("SKIP LOCKED table", Role::Peer, move || async move {
            let start = Instant::now();
            hand::drain(hand, count).await?;
            Ok(rate(count, start.elapsed().as_secs_f64()))
        })
        .prepared_by(move || async move {
            hand::create(hand).await?;
            hand::load(hand, count).await?;
            calm_down(hand).await
        }),
        Contender::new("PgQ", Role::Peer, move || async move {
            let start = Instant::now();
            pgq::drain(pgq, count).await?;
            Ok(rate(count, start.elapsed().as_secs_f64()))
        })
        .prepared_by(move || async move {
            pgq::create(pgq).await?;
            pgq::load(pgq, count).await?;
            calm_down(pgq).await
        }),
    ];
    let (cluster, fewer) = (&bench.cluster, count / 5);
    for program in &bench.programs {
        let contender = Contender::new(program.name, Role::Peer, move || async move {
            program.number("drain", &cluster.url_of("drain_peer")?, &[fewer], "rate").await
        });
        contenders.push(contender.prepared_by(move || async move {
            cluster.create("drain_peer").await?;
            program.run("load", &cluster.url_of("drain_peer")?, &[fewer]).await?;
            calm_down(&cluster.open("drain_peer", 1).await?).await
        }));
    }
    Ok(vec![figure.measure(bench.rounds, contenders).await])
}

/// Reads the whole log page by page, with the columns that a worker needs, and does nothing with it.
pub(crate) async fn page_through(pool: &PgPool) -> Result<f64> {
    let (start, mut after, mut seen) = (Instant::now(), 0_i64, 0_u64);
    loop {
        let page = sqlx::query(
            "select seq, id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, dedupe_key, \
             headers, payload, content_type, created_at, available_at from posthaste.events \
             where seq > $1 order by seq limit $2",
        )
        .bind(after)
        .bind(i64::from(BATCH))
        .fetch_all(pool)
        .await?;
        let Some(last) = page.last() else { break };
        after = last.get("seq");
        seen += page.len() as u64;
    }
    Ok(rate(seen, start.elapsed().as_secs_f64()))
}

/// Events a second.
pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}
