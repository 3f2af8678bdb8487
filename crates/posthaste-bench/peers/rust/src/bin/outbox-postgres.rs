//! outbox-core on outbox-postgres: a row per message, claimed with `FOR UPDATE SKIP LOCKED`, kept as sent.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_core::prelude::*;
use outbox_postgres::{PostgresOutbox, PostgresWriter};
use posthaste_bench_peers::{
    Counter, Handler, Latency, Message, Peer, Result, Stopwatch, TOPIC, bulks, producers,
};
use sqlx08::postgres::{PgPool, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// As many managers as served it best, and the batch of its own example.
const MANAGERS: u32 = 4;
const BATCH: u32 = 100;

struct OutboxPostgres;

type Service = OutboxService<PostgresWriter, NoIdempotency, Message>;

struct Publisher(Handler);

#[async_trait::async_trait]
impl Transport<Message> for Publisher {
    async fn publish(&self, event: Event<Message>) -> std::result::Result<(), OutboxError> {
        self.0.handle(event.payload.as_value());
        Ok(())
    }
}

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    let pool = PgPoolOptions::new().max_connections(connections).connect(url).await?;
    let there: bool =
        sqlx08::query_scalar("select to_regclass('outbox_events') is not null").fetch_one(&pool).await?;
    if !there {
        sqlx08::raw_sql(include_str!(env!("OUTBOX_POSTGRES_TABLES"))).execute(&pool).await?;
    }
    Ok(pool)
}

/// It listens; the poll is only its safety net.
fn config() -> Arc<OutboxConfig<Message>> {
    let mut config = OutboxConfig::default();
    config.batch_size = BATCH;
    config.poll_interval_secs = 1;
    config.idempotency_strategy = IdempotencyStrategy::None;
    Arc::new(config)
}

fn service() -> Arc<Service> {
    Arc::new(OutboxService::new(Arc::new(PostgresWriter), config()))
}

async fn add(pool: PgPool, service: Arc<Service>, message: Message) -> Result<()> {
    let mut transaction = pool.begin().await?;
    service.add_event(TOPIC, message, None, &mut *transaction).await?;
    Ok(transaction.commit().await?)
}

/// Managers that run.
struct Managers {
    tasks: JoinSet<std::result::Result<(), OutboxError>>,
    stop: watch::Sender<bool>,
}

impl Managers {
    fn start(pool: &PgPool, handler: &Handler) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for _ in 0..MANAGERS {
            let manager = OutboxManagerBuilder::new()
                .storage(Arc::new(PostgresOutbox::new(pool.clone(), config())))
                .publisher(Arc::new(Publisher(handler.clone())))
                .config(config())
                .shutdown_rx(stopped.clone())
                .build()?;
            tasks.spawn(manager.run());
        }
        Ok(Self { tasks, stop })
    }

    /// Returns once what they hold is settled.
    async fn stop(mut self) -> Result<()> {
        self.stop.send(true)?;
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn nothing_left(pool: &PgPool) -> Result<()> {
    let left: i64 = sqlx08::query_scalar("select count(*) from outbox_events where status <> 'Sent'")
        .fetch_one(pool)
        .await?;
    if left == 0 { Ok(()) } else { Err(format!("{left} events are left").into()) }
}

impl Peer for OutboxPostgres {
    async fn load(url: &str, count: u64) -> Result<()> {
        let pool = pool(url, 2).await?;
        let service = service();
        for messages in bulks(count) {
            let mut transaction = pool.begin().await?;
            for message in messages {
                service.add_event(TOPIC, message, None, &mut *transaction).await?;
            }
            transaction.commit().await?;
        }
        sqlx08::query("analyze").execute(&pool).await?;
        Ok(())
    }

    async fn drain(url: &str, count: u64) -> Result<Duration> {
        let pool = pool(url, 4 * MANAGERS).await?;
        let counter = Counter::new(count);
        let start = Instant::now();
        let managers = Managers::start(&pool, &counter.handler())?;
        counter.all().await?;
        managers.stop().await?;
        let taken = start.elapsed();
        nothing_left(&pool).await?;
        Ok(taken)
    }

    async fn enqueue(url: &str, connections: u64, seconds: u64) -> Result<f64> {
        let pool = pool(url, u32::try_from(connections)?).await?;
        let service = service();
        producers(connections, seconds, move |message| add(pool.clone(), service.clone(), message)).await
    }

    async fn latency(url: &str, rate: u64, seconds: u64) -> Result<Latency> {
        let (consuming, producing) = (pool(url, 4 * MANAGERS).await?, pool(url, 2).await?);
        let watch = Stopwatch::new(rate, seconds);
        let managers = Managers::start(&consuming, &watch.handler())?;
        let service = service();
        let (senders, left) = (producing.clone(), producing);
        let latency = watch.run(move |message| add(senders.clone(), service.clone(), message)).await?;
        managers.stop().await?;
        nothing_left(&left).await?;
        Ok(latency)
    }
}

fn main() -> ExitCode {
    posthaste_bench_peers::main::<OutboxPostgres>()
}
