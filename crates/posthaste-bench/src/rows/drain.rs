//! A backlog, and how fast it is gone.

use std::time::Instant;

use async_trait::async_trait;
use posthaste::{ClaimBy, Posthaste};
use sqlx::{PgPool, Row};

use crate::bench::Bench;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::peers::{hand, pgq};

/// Waiting events to a receiver that takes everything, one worker process.
pub(crate) async fn drain(bench: &Bench) -> Result<Figure> {
    let count = bench.events(1_000_000);
    let pool = bench.cluster.database("drain", 12).await?;
    let posthaste = Posthaste::postgres(pool.clone());
    posthaste.migrate().await?;
    ours::load(&pool, &posthaste, count).await?;
    let title = format!("Drain of {count} waiting events, one worker process, receiver that takes everything");
    let figure = Figure::new("drain", title, "events/s", Better::More)
        .demand("posthaste", Some("paging SELECT"), 0.6)
        .demand("posthaste", Some("SKIP LOCKED table"), 10.0)
        .demand("posthaste", Some("PgQ"), 1.0)
        .demand("posthaste by event", Some("SKIP LOCKED table"), 3.0);
    let hand = bench.cluster.database("drain_hand", 8).await?;
    let pgq = bench.cluster.database("drain_pgq", 2).await?;
    let ours = |name, claim_by| Box::new(Ours { name, claim_by, posthaste: posthaste.clone(), count, turn: 0 });
    let contenders: Vec<Box<dyn Contender>> = vec![
        Box::new(Paging { pool: pool.clone() }),
        ours("posthaste", ClaimBy::Batch),
        ours("posthaste by event", ClaimBy::Event),
        Box::new(Hand { pool: hand, count }),
        Box::new(Pgq { pool: pgq, count }),
    ];
    Ok(figure.measure(bench.rounds, contenders).await)
}

struct Paging {
    pool: PgPool,
}

#[async_trait]
impl Contender for Paging {
    fn name(&self) -> &'static str {
        "paging SELECT"
    }

    fn role(&self) -> Role {
        Role::Limit
    }

    async fn sample(&mut self) -> Result<f64> {
        let (start, mut after, mut seen) = (Instant::now(), 0_i64, 0_usize);
        loop {
            let page = sqlx::query(
                "select seq, id, namespace, topic, event_type, key, aggregate_type, aggregate_id, tenant_id, dedupe_key, \
                 headers, payload, content_type, created_at, available_at from posthaste.events \
                 where seq > $1 order by seq limit $2",
            )
            .bind(after)
            .bind(i64::from(ours::BATCH))
            .fetch_all(&self.pool)
            .await?;
            let Some(last) = page.last() else { break };
            after = last.get("seq");
            seen += page.len();
        }
        Ok(seen as f64 / start.elapsed().as_secs_f64())
    }
}

struct Ours {
    name: &'static str,
    claim_by: ClaimBy,
    posthaste: Posthaste,
    count: u64,
    turn: u32,
}

#[async_trait]
impl Contender for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    async fn sample(&mut self) -> Result<f64> {
        self.turn += 1;
        let subscription = ours::subscription(&format!("{}-{}", self.claim_by.as_str(), self.turn), self.claim_by)?;
        let elapsed = ours::drain(&self.posthaste, subscription, self.count).await?;
        Ok(self.count as f64 / elapsed.as_secs_f64())
    }
}

struct Hand {
    pool: PgPool,
    count: u64,
}

#[async_trait]
impl Contender for Hand {
    fn name(&self) -> &'static str {
        "SKIP LOCKED table"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    async fn prepare(&mut self) -> Result<()> {
        hand::create(&self.pool).await?;
        hand::load(&self.pool, self.count).await
    }

    async fn sample(&mut self) -> Result<f64> {
        let start = Instant::now();
        hand::drain(&self.pool, self.count).await?;
        Ok(self.count as f64 / start.elapsed().as_secs_f64())
    }
}

struct Pgq {
    pool: PgPool,
    count: u64,
}

#[async_trait]
impl Contender for Pgq {
    fn name(&self) -> &'static str {
        "PgQ"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    async fn prepare(&mut self) -> Result<()> {
        pgq::create(&self.pool).await?;
        pgq::load(&self.pool, self.count).await
    }

    async fn sample(&mut self) -> Result<f64> {
        let start = Instant::now();
        pgq::drain(&self.pool, self.count).await?;
        Ok(self.count as f64 / start.elapsed().as_secs_f64())
    }
}
