//! From the return of a commit to the handler, at a steady 200 events a second.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use posthaste::{ClaimBy, Posthaste, Start};
use sqlx::PgPool;

use crate::bench::Bench;
use crate::measure::{Better, Figure, Result, Role, percentile};
use crate::ours;
use crate::peers::hand;
use crate::work::event;
use crate::worker::{Arrivals, Following, micros};

const RATE: u64 = 200;

/// The two figures, and what goes into both.
struct Latency {
    median: Figure,
    worst: Figure,
}

impl Latency {
    fn add(&mut self, name: &'static str, role: Role, millis: &[f64]) {
        self.median.add(name, role, percentile(millis, 0.5));
        self.worst.add(name, role, percentile(millis, 0.99));
    }

    fn skip(&mut self, name: &str, error: &str) {
        self.median.skip(name, error.to_owned());
        self.worst.skip(name, error.to_owned());
    }
}

pub(crate) async fn latency(bench: &Bench) -> Result<Vec<Figure>> {
    let seconds = bench.seconds(20);
    let title = |of: &str| format!("From commit to handler, {of}, {RATE} events/s for {seconds} s");
    let figure = |name, of| Figure::timed(name, title(of), "ms", Better::Less);
    let mut latency = Latency {
        median: figure("latency p50", "p50").demand("posthaste, two processes", None, 2.0).demand(
            "posthaste, one process",
            None,
            1.0,
        ),
        worst: figure("latency p99", "p99").demand("posthaste, two processes", None, 10.0).demand(
            "posthaste, one process",
            None,
            10.0,
        ),
    };
    let (pool, posthaste) = ours::create(&bench.cluster, "latency").await?;
    for round in 1..=bench.rounds {
        eprintln!("  latency round {round} of {}", bench.rounds);
        latency.median.begin(round);
        latency.worst.begin(round);
        let apart = apart(bench, &pool, &posthaste, seconds, round).await?;
        latency.add("posthaste, two processes", Role::Ours, &apart);
        let together = together(&pool, &posthaste, seconds, round).await?;
        latency.add("posthaste, one process", Role::Ours, &together);
        for (name, bell) in
            [("SKIP LOCKED table, polled every 50 ms", false), ("SKIP LOCKED table with NOTIFY", true)]
        {
            let pool = bench.cluster.database("latency_hand", 8).await?;
            latency.add(name, Role::Peer, &hand::latency(&pool, bell, RATE, seconds).await?);
        }
        for program in &bench.programs {
            bench.cluster.create("latency_peer").await?;
            let url = bench.cluster.url_of("latency_peer")?;
            match program.run("latency", &url, &[RATE, seconds]).await {
                Ok(told) => {
                    latency.median.add(program.name, Role::Peer, told["p50"].as_f64().unwrap_or(f64::NAN));
                    latency.worst.add(program.name, Role::Peer, told["p99"].as_f64().unwrap_or(f64::NAN));
                }
                Err(error) => latency.skip(program.name, &error.to_string()),
            }
        }
    }
    Ok(vec![latency.median, latency.worst])
}

/// The worker in a process of its own.
async fn apart(
    bench: &Bench,
    pool: &PgPool,
    posthaste: &Posthaste,
    seconds: u64,
    round: usize,
) -> Result<Vec<f64>> {
    // Each round has a new subscription: an older one would first deliver what came in between.
    let worker = Following::start(&bench.cluster, "latency", &format!("apart-{round}"), "orders").await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let committed = produce(pool, posthaste, seconds).await?;
    millis(&committed, &worker.end().await?.arrivals)
}

/// The worker in the process of the producer, on the same handle.
async fn together(pool: &PgPool, posthaste: &Posthaste, seconds: u64, round: usize) -> Result<Vec<f64>> {
    let (arrivals, name) = (Arrivals::default(), format!("together-{round}"));
    let subscription = ours::subscription(&name, ClaimBy::Batch)?.start(Start::Now);
    let worker = posthaste.sink(subscription, arrivals.clone()).start().await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let committed = produce(pool, posthaste, seconds).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    worker.stop().await;
    millis(&committed, &arrivals.take())
}

/// Commits one event at a time at the rate, and notes when each commit returned.
async fn produce(pool: &PgPool, posthaste: &Posthaste, seconds: u64) -> Result<HashMap<u64, u64>> {
    let (start, mut committed) = (Instant::now(), HashMap::new());
    for number in 0..RATE * seconds {
        let due = start + Duration::from_secs_f64(number as f64 / RATE as f64);
        tokio::time::sleep_until(due.into()).await;
        let mut tx = pool.begin().await?;
        posthaste.enqueue(&mut *tx, event(number)).await?;
        tx.commit().await?;
        committed.insert(number, micros());
        posthaste.wake();
    }
    Ok(committed)
}

/// How long each event took. One that arrived before its commit was heard of took nothing.
fn millis(committed: &HashMap<u64, u64>, arrivals: &[(u64, u64)]) -> Result<Vec<f64>> {
    let took = |(number, at): &(u64, u64)| {
        committed.get(number).map(|from| at.saturating_sub(*from) as f64 / 1000.0)
    };
    let took: Vec<f64> = arrivals.iter().filter_map(took).collect();
    match took.len() == committed.len() {
        true => Ok(took),
        false => Err(format!("{} of {} events arrived", took.len(), committed.len()).into()),
    }
}
