//! obix: an append-only table read by a cursor.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use obix::out::{Outbox, Subscription};
use obix::{
    EventCtx, EventDelivery, Handled, InsertOrder, MailboxConfig, OutboxEventJobConfig, SingletonSubscriber,
};
use posthaste_bench_peers::{
    Counter, Handler, Latency, Message, Peer, Result, Stopwatch, TOPIC, bulks, producers,
};
use sqlx08::postgres::{PgPool, PgPoolOptions};

/// What obix keeps for itself: its listener, its notifier, its job poller, the subscriber.
const OWN_CONNECTIONS: u32 = 8;

/// How many events at most share one move of the cursor, ten times the default: it then waits less for the disk.
const BATCH: usize = 1000;

/// How long it gathers commits before other processes hear of them.
const NOTIFY_DEBOUNCE: Duration = Duration::from_millis(1);

struct Obix;

/// One subscriber for all events: handled events are collected, and the cursor moves once per batch.
struct Subscriber(Handler);

impl SingletonSubscriber<Message> for Subscriber {
    type Batch = Vec<()>;

    async fn handle_persistent<'inv>(
        &self,
        context: EventCtx<'inv, Self::Batch>,
        event: &EventDelivery<Message>,
    ) -> Result<Handled<'inv>> {
        if let Some(message) = &event.payload {
            self.0.handle(message);
        }
        Ok(context.collect(()))
    }
}

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    let pool = PgPoolOptions::new().max_connections(OWN_CONNECTIONS + connections).connect(url).await?;
    let there: bool = sqlx08::query_scalar("select to_regclass('persistent_outbox_events') is not null")
        .fetch_one(&pool)
        .await?;
    if !there {
        sqlx08::raw_sql(include_str!(env!("OBIX_TABLES"))).execute(&pool).await?;
    }
    Ok(pool)
}

async fn outbox(pool: &PgPool) -> Result<Outbox<Message>> {
    Ok(Outbox::init(pool, MailboxConfig::builder().notify_debounce(NOTIFY_DEBOUNCE).build()).await?)
}

async fn publish(outbox: Outbox<Message>, message: Message) -> Result<()> {
    let mut op = outbox.begin_op().await?;
    outbox.publish_persisted_in_op(&mut op, message).await?;
    Ok(op.commit().await?)
}

/// The subscriber, registered and not yet running.
async fn subscribe(
    pool: &PgPool,
    outbox: &Outbox<Message>,
    handler: Handler,
) -> Result<(job::Jobs, Subscription<Message, InsertOrder>)> {
    let config = job::JobSvcConfig::builder().pool(pool.clone()).exec_migrations(true).build()?;
    let mut jobs = job::Jobs::init(config).await?;
    let config = OutboxEventJobConfig::new(job::JobType::new(TOPIC)).with_max_batch_size(BATCH);
    let subscription = outbox.register_singleton_subscriber(&mut jobs, config, Subscriber(handler)).await?;
    Ok((jobs, subscription))
}

/// Returns once the cursor in the database has reached the end. Its own barrier looks ten times a second at most; that
/// would be measured too.
async fn caught_up(subscription: &Subscription<Message, InsertOrder>) -> Result<()> {
    while !subscription.load().await?.is_caught_up() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

impl Peer for Obix {
    async fn load(url: &str, count: u64) -> Result<()> {
        let pool = pool(url, 1).await?;
        let outbox = outbox(&pool).await?;
        for messages in bulks(count) {
            let mut op = outbox.begin_op().await?;
            outbox.publish_all_persisted(&mut op, messages).await?;
            op.commit().await?;
        }
        sqlx08::query("analyze").execute(&pool).await?;
        Ok(())
    }

    async fn drain(url: &str, count: u64) -> Result<Duration> {
        let pool = pool(url, 1).await?;
        let outbox = outbox(&pool).await?;
        let counter = Counter::new(count);
        let (mut jobs, subscription) = subscribe(&pool, &outbox, counter.handler()).await?;
        let start = Instant::now();
        jobs.start_poll().await?;
        counter.all().await?;
        caught_up(&subscription).await?;
        let taken = start.elapsed();
        jobs.shutdown().await?;
        Ok(taken)
    }

    async fn enqueue(url: &str, connections: u64, seconds: u64) -> Result<f64> {
        let pool = pool(url, u32::try_from(connections)?).await?;
        let outbox = outbox(&pool).await?;
        producers(connections, seconds, move |message| publish(outbox.clone(), message)).await
    }

    async fn latency(url: &str, rate: u64, seconds: u64) -> Result<Latency> {
        let pool = pool(url, 2).await?;
        let outbox = outbox(&pool).await?;
        let watch = Stopwatch::new(rate, seconds);
        let (mut jobs, subscription) = subscribe(&pool, &outbox, watch.handler()).await?;
        jobs.start_poll().await?;
        let latency = watch.run(move |message| publish(outbox.clone(), message)).await?;
        caught_up(&subscription).await?;
        jobs.shutdown().await?;
        Ok(latency)
    }
}

fn main() -> ExitCode {
    posthaste_bench_peers::main::<Obix>()
}
