//! Posthaste as a contender: loading its log, and draining a fresh subscription of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::{ClaimBy, Order, Page, Posthaste, Sink, Start, Subscription};
use sqlx::PgPool;

use crate::cluster::Cluster;
use crate::measure::Result;
use crate::work::events;

/// A receiver that takes everything at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nothing;

#[async_trait::async_trait]
impl Sink for Nothing {
    async fn deliver(&self, page: &mut Page) {
        (0..page.events().len()).for_each(|index| page.delivered(index));
    }
}

/// A new database with Posthaste's tables.
pub(crate) async fn create(cluster: &Cluster, name: &str) -> Result<(PgPool, Posthaste)> {
    let pool = cluster.database(name, 12).await?;
    let posthaste = Posthaste::postgres(pool.clone());
    posthaste.migrate().await?;
    Ok((pool, posthaste))
}

/// Enqueues events, a thousand per transaction.
pub(crate) async fn load(pool: &PgPool, posthaste: &Posthaste, count: u64) -> Result<()> {
    let mut first = 0;
    while first < count {
        let numbers = first..count.min(first + 1000);
        first = numbers.end;
        let mut tx = pool.begin().await?;
        posthaste.enqueue_many(&mut *tx, events(numbers)).await?;
        tx.commit().await?;
    }
    sqlx::query("analyze posthaste.events").execute(pool).await?;
    Ok(())
}

/// A subscription from the beginning, by key, with [`BATCH`] events per claim.
pub(crate) fn subscription(name: &str, claim_by: ClaimBy) -> Result<Subscription> {
    subscription_by(name, claim_by, BATCH)
}

/// The same with so many events per claim.
pub(crate) fn subscription_by(name: &str, claim_by: ClaimBy, batch: u32) -> Result<Subscription> {
    let subscription = Subscription::new(name)?.order(Order::Key).claim_by(claim_by).start(Start::Beginning);
    Ok(subscription.settings(|settings| settings.batch_size = batch))
}

/// Events per claim where nothing else is said.
pub(crate) const BATCH: u32 = 500;

/// How often somebody looks whether all is done. Not more often: each look wakes a thread that the worker could use.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Whoever delivers nothing for so long does not come to an end.
const STANDSTILL: Duration = Duration::from_secs(60);

/// How long one worker needs for everything that waits, until it is settled.
pub(crate) async fn drain(posthaste: &Posthaste, subscription: Subscription, count: u64) -> Result<Duration> {
    drain_to(posthaste, subscription, Nothing, count).await
}

/// The same to this sink.
pub(crate) async fn drain_to(
    posthaste: &Posthaste,
    subscription: Subscription,
    sink: impl Sink,
    count: u64,
) -> Result<Duration> {
    let start = Instant::now();
    let worker = posthaste.sink(subscription, sink).start().await?;
    let counters = Arc::clone(worker.counters());
    let (mut delivered, mut moved) = (0, Instant::now());
    while delivered < count && moved.elapsed() < STANDSTILL {
        tokio::time::sleep(LOOK_EVERY).await;
        if counters.delivered() > delivered {
            (delivered, moved) = (counters.delivered(), Instant::now());
        }
    }
    // The last batch is settled by the stop.
    worker.stop().await;
    match delivered < count {
        true => {
            Err(format!("{delivered} of {count} events were delivered, then none for {STANDSTILL:?}").into())
        }
        false => Ok(start.elapsed()),
    }
}
