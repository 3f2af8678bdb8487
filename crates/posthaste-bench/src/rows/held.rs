//! A backlog while somebody holds a snapshot, or an open transaction that has written something unrelated: dead rows stay,
//! and whoever searches for work among them becomes slow.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use posthaste::ClaimBy;
use sqlx::{Connection, PgConnection};

use crate::bench::Bench;
use crate::cluster::calm_down;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::peers::hand;
use crate::rows::drain::rate;

/// Who is in the way.
#[derive(Debug, Clone, Copy)]
enum Holder {
    Nobody,
    Snapshot,
    Writer,
}

pub(crate) async fn held(bench: &Bench) -> Result<Vec<Figure>> {
    let (count, rounds) = (bench.events(500_000), bench.rounds_times(2));
    // It becomes slower with every event, and would take most of the time of the whole run.
    let fewer = count / 5;
    let title = format!(
        "Drain of {count} events ({fewer} of the SKIP LOCKED table) while somebody holds a snapshot or an unrelated transaction, \
         {rounds} rounds"
    );
    let figure = Figure::timed("held", title, "events/s", Better::More)
        .demand("posthaste, snapshot held", Some("posthaste"), 0.95)
        .demand("posthaste, idle writer", Some("posthaste"), 0.95);
    let contenders = vec![
        ours(bench, "posthaste", Holder::Nobody, count),
        ours(bench, "posthaste, snapshot held", Holder::Snapshot, count),
        ours(bench, "posthaste, idle writer", Holder::Writer, count),
        hand(bench, "SKIP LOCKED table", Holder::Nobody, fewer),
        hand(bench, "SKIP LOCKED table, snapshot held", Holder::Snapshot, fewer),
        hand(bench, "SKIP LOCKED table, idle writer", Holder::Writer, fewer),
    ];
    Ok(vec![figure.measure(rounds, contenders).await])
}

fn ours<'b>(bench: &'b Bench, name: &'static str, holder: Holder, count: u64) -> Contender<'b> {
    static TURN: AtomicU32 = AtomicU32::new(0);
    Contender::new(name, Role::Ours, move || async move {
        let (pool, posthaste) = ours::create(&bench.cluster, "held").await?;
        let holding = hold(bench, "held", holder).await?;
        ours::load(&pool, &posthaste, count).await?;
        calm_down(&pool).await?;
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let subscription = ours::subscription(&format!("held-{turn}"), ClaimBy::Batch)?;
        let elapsed = ours::drain(&posthaste, subscription, count).await?;
        drop(holding);
        Ok(rate(count, elapsed.as_secs_f64()))
    })
}

fn hand<'b>(bench: &'b Bench, name: &'static str, holder: Holder, count: u64) -> Contender<'b> {
    Contender::new(name, Role::Peer, move || async move {
        let pool = bench.cluster.database("held_hand", 8).await?;
        hand::create(&pool).await?;
        let holding = hold(bench, "held_hand", holder).await?;
        hand::load(&pool, count).await?;
        calm_down(&pool).await?;
        let start = Instant::now();
        hand::drain(&pool, count).await?;
        drop(holding);
        Ok(rate(count, start.elapsed().as_secs_f64()))
    })
}

/// Begins to hold, and holds until the connection is dropped.
async fn hold(bench: &Bench, database: &str, holder: Holder) -> Result<Option<PgConnection>> {
    let statements: &[&'static str] = match holder {
        Holder::Nobody => return Ok(None),
        Holder::Snapshot => &["begin isolation level repeatable read", "select count(*) from pg_class"],
        Holder::Writer => &["create table unrelated (n int)", "begin", "insert into unrelated values (1)"],
    };
    let mut connection = bench.cluster.connect(database).await?;
    for statement in statements {
        sqlx::query(*statement).execute(&mut connection).await?;
    }
    connection.ping().await?;
    Ok(Some(connection))
}
