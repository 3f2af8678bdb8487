//! cf-gears-toolkit-db's outbox: sequencers bring messages into the order of their partition, processors call the
//! handler and move a cursor per partition.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_bench_peers::{
    Counter, Handler, Latency, Message, Peer, Result, Stopwatch, TOPIC, bulks, producers,
};
use sqlx09::postgres::{PgPool, PgPoolOptions};
use toolkit_db::migration_runner::run_migrations_for_gear;
use toolkit_db::outbox::{
    LeasedMessageHandler, MessageResult, Outbox, OutboxBuilder, OutboxHandle, OutboxMessage, OutboxProfile,
    Partitions, Record, Records, in_transaction, outbox_migrations,
};
use toolkit_db::{ConnectOpts, Db, connect_db};

/// The shape of its own benchmark, for one queue.
const CONNECTIONS: u32 = 40;
const PARTITIONS: Partitions = Partitions::of(64);
const PROCESSORS: usize = 8;
const SEQUENCERS: usize = 2;
const SHARED_WITH_VACUUM: usize = 1;

/// Under what name it notes which of its migrations have run.
const GEAR: &str = "posthaste_bench";

const JSON: &str = "application/json";

struct Gears;

struct Consumer(Handler);

#[async_trait::async_trait]
impl LeasedMessageHandler for Consumer {
    async fn handle(&self, message: &OutboxMessage) -> MessageResult {
        match serde_json::from_slice(&message.payload) {
            Ok(message) => {
                self.0.handle(&message);
                MessageResult::Ok
            }
            Err(error) => MessageResult::Reject(error.to_string()),
        }
    }
}

async fn database(url: &str) -> Result<Db> {
    let options = ConnectOpts { max_conns: Some(CONNECTIONS), ..ConnectOpts::default() };
    let db = connect_db(url, options).await?;
    run_migrations_for_gear(&db, GEAR, outbox_migrations()).await?;
    Ok(db)
}

/// For what it does not answer itself: its own connections take no SQL.
async fn inspector(url: &str) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(1).connect(url).await?)
}

fn builder(db: &Db, profile: OutboxProfile) -> OutboxBuilder {
    let builder = Outbox::builder(db.clone()).profile(profile);
    builder.processors(PROCESSORS).maintenance(SEQUENCERS, SHARED_WITH_VACUUM)
}

/// Runs, and has no handler.
async fn producer(db: &Db) -> Result<OutboxHandle> {
    let producer = builder(db, OutboxProfile::relaxed()).start().await?;
    producer.outbox().register_queue(db, TOPIC, PARTITIONS.count()).await?;
    Ok(producer)
}

async fn consumer(db: &Db, profile: OutboxProfile, handler: Handler) -> Result<OutboxHandle> {
    Ok(builder(db, profile).queue(TOPIC, PARTITIONS).leased(Consumer(handler)).start().await?)
}

/// Waits for `done` and stops in any case: what a consumer still holds when its process ends is leased to nobody for
/// half a minute.
async fn run<T>(running: OutboxHandle, done: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = done.await;
    running.stop().await;
    answer
}

/// In turns, as in its own benchmark.
fn partition(message: &Message) -> u32 {
    (message.order % u64::from(PARTITIONS.count())) as u32
}

async fn add(db: Db, outbox: Arc<Outbox>, message: Message) -> Result<()> {
    let payload = serde_json::to_vec(&message)?;
    let enqueue = in_transaction(&db, |transaction| {
        Box::pin(async move {
            let record = Record::to(TOPIC, partition(&message)).payload(payload, JSON).build()?;
            Ok(((), outbox.enqueue(transaction, record).await?))
        })
    });
    enqueue.await
}

async fn add_all(db: &Db, outbox: Arc<Outbox>, messages: Vec<Message>) -> Result<()> {
    let mut records = Records::to(TOPIC).payload_type(JSON);
    for message in messages {
        records = records.push(partition(&message), serde_json::to_vec(&message)?);
    }
    let records = records.build()?;
    let enqueue = in_transaction(db, |transaction| {
        Box::pin(async move { Ok(((), outbox.enqueue_batch(transaction, records).await?)) })
    });
    enqueue.await
}

/// How many messages the cursors have passed: the numbers within a partition start with one and have no gaps.
async fn settled(inspector: &PgPool) -> Result<u64> {
    let settled: i64 =
        sqlx09::query_scalar("select coalesce(sum(processed_seq), 0)::bigint from toolkit_outbox_processor")
            .fetch_one(inspector)
            .await?;
    Ok(u64::try_from(settled)?)
}

/// Returns once the cursors have passed this many. A message that was handled twice counts once here.
async fn passed(inspector: &PgPool, count: u64) -> Result<()> {
    while settled(inspector).await? < count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Neither before the sequencers nor before the processors, nor put aside as dead.
async fn nothing_left(inspector: &PgPool) -> Result<()> {
    let left: i64 = sqlx09::query_scalar(
        "select ((select count(*) from toolkit_outbox_incoming)
               + (select sum(sequence) from toolkit_outbox_partitions)
               - (select sum(processed_seq) from toolkit_outbox_processor)
               + (select count(*) from toolkit_outbox_dead_letters))::bigint",
    )
    .fetch_one(inspector)
    .await?;
    if left == 0 { Ok(()) } else { Err(format!("{left} messages are left").into()) }
}

impl Peer for Gears {
    async fn load(url: &str, count: u64) -> Result<()> {
        let (db, inspector) = (database(url).await?, inspector(url).await?);
        let producer = producer(&db).await?;
        let outbox = producer.outbox().clone();
        // Its sequencers would do a part of what drain measures.
        producer.stop().await;
        for messages in bulks(count) {
            add_all(&db, outbox.clone(), messages).await?;
        }
        sqlx09::query("analyze").execute(&inspector).await?;
        Ok(())
    }

    async fn drain(url: &str, count: u64) -> Result<Duration> {
        let (db, inspector) = (database(url).await?, inspector(url).await?);
        let all = settled(&inspector).await? + count;
        let counter = Counter::new(count);
        let start = Instant::now();
        let consumer = consumer(&db, OutboxProfile::high_throughput(), counter.handler()).await?;
        let done = async {
            counter.all().await?;
            passed(&inspector, all).await?;
            Ok(start.elapsed())
        };
        let taken = run(consumer, done).await?;
        nothing_left(&inspector).await?;
        Ok(taken)
    }

    async fn enqueue(url: &str, connections: u64, seconds: u64) -> Result<f64> {
        let db = database(url).await?;
        let producer = producer(&db).await?;
        let outbox = producer.outbox().clone();
        let send = move |message| add(db.clone(), outbox.clone(), message);
        run(producer, producers(connections, seconds, send)).await
    }

    async fn latency(url: &str, rate: u64, seconds: u64) -> Result<Latency> {
        let (db, inspector) = (database(url).await?, inspector(url).await?);
        let watch = Stopwatch::new(rate, seconds);
        let consumer = consumer(&db, OutboxProfile::low_latency(), watch.handler()).await?;
        let outbox = consumer.outbox().clone();
        let latency =
            run(consumer, watch.run(move |message| add(db.clone(), outbox.clone(), message))).await?;
        nothing_left(&inspector).await?;
        Ok(latency)
    }
}

fn main() -> ExitCode {
    posthaste_bench_peers::main::<Gears>()
}
