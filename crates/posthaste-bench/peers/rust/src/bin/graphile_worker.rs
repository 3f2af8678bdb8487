//! graphile_worker, the Rust one: a job per message, deleted when it is done.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use posthaste_bench_peers::{
    Counter, Handler, Latency, Message, Peer, Result, Stopwatch, TOPIC, bulks, producers,
};
use serde::{Deserialize, Serialize};
use sqlx09::postgres::{PgPool, PgPoolOptions};

/// Jobs in flight.
const CONCURRENCY: usize = 24;

/// How many jobs are fetched at a time from a backlog. Without a local queue a worker takes one job per notification or
/// poll, and a backlog at the pace of its polls.
const LOCAL_QUEUE: usize = 500;

/// How long completions wait for others to be written with them.
const BATCH_DELAY: Duration = Duration::from_millis(5);

struct GraphileWorker;

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Order(Message);

impl TaskHandler for Order {
    const IDENTIFIER: &'static str = TOPIC;

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let handler = context.get_ext::<Handler>().ok_or("the worker has no handler")?;
        handler.handle(&self.0);
        Ok::<(), &'static str>(())
    }
}

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(connections).connect(url).await?)
}

/// What all workers have in common.
fn options(pool: &PgPool, handler: Handler) -> WorkerOptions {
    WorkerOptions::default()
        .pg_pool(pool.clone())
        .concurrency(CONCURRENCY)
        .complete_job_batch_delay(BATCH_DELAY)
        .fail_job_batch_delay(BATCH_DELAY)
        .listen_os_shutdown_signals(false)
        .add_extension(handler)
        .define_job::<Order>()
}

/// What producers use.
async fn utils(pool: &PgPool) -> Result<WorkerUtils> {
    let worker = WorkerOptions::default()
        .pg_pool(pool.clone())
        .listen_os_shutdown_signals(false)
        .define_job::<Order>();
    Ok(worker.init().await?.create_utils())
}

async fn add(utils: WorkerUtils, message: Message) -> Result<()> {
    utils.add_job(Order(message), JobSpec::default()).await?;
    Ok(())
}

async fn nothing_left(pool: &PgPool) -> Result<()> {
    let left: i64 =
        sqlx09::query_scalar("select count(*) from graphile_worker._private_jobs").fetch_one(pool).await?;
    if left == 0 { Ok(()) } else { Err(format!("{left} jobs are left").into()) }
}

/// Runs the worker until `done`, and then until its last completions are written.
async fn run<T>(worker: &Worker, done: impl Future<Output = Result<T>>) -> Result<T> {
    let done = async {
        let answer = done.await;
        worker.request_shutdown();
        answer
    };
    let (ended, answer) = tokio::join!(worker.run(), done);
    ended?;
    answer
}

impl Peer for GraphileWorker {
    async fn load(url: &str, count: u64) -> Result<()> {
        let pool = pool(url, 2).await?;
        let utils = utils(&pool).await?;
        let spec = JobSpec::default();
        for messages in bulks(count) {
            let jobs: Vec<_> = messages.into_iter().map(|message| (Order(message), &spec)).collect();
            utils.add_jobs(&jobs).await?;
        }
        sqlx09::query("analyze").execute(&pool).await?;
        Ok(())
    }

    async fn drain(url: &str, count: u64) -> Result<Duration> {
        let pool = pool(url, 10).await?;
        let counter = Counter::new(count);
        let queue = LocalQueueConfig::default().with_size(LOCAL_QUEUE);
        let worker = options(&pool, counter.handler()).local_queue(queue).init().await?;
        let start = Instant::now();
        run(&worker, counter.all()).await?;
        let taken = start.elapsed();
        nothing_left(&pool).await?;
        Ok(taken)
    }

    async fn enqueue(url: &str, connections: u64, seconds: u64) -> Result<f64> {
        let pool = pool(url, u32::try_from(connections)?).await?;
        let utils = utils(&pool).await?;
        producers(connections, seconds, move |message| add(utils.clone(), message)).await
    }

    async fn latency(url: &str, rate: u64, seconds: u64) -> Result<Latency> {
        let (consuming, producing) = (pool(url, 10).await?, pool(url, 2).await?);
        let watch = Stopwatch::new(rate, seconds);
        let worker = options(&consuming, watch.handler()).init().await?;
        let utils = utils(&producing).await?;
        let latency = run(&worker, watch.run(move |message| add(utils.clone(), message))).await?;
        nothing_left(&producing).await?;
        Ok(latency)
    }
}

fn main() -> ExitCode {
    posthaste_bench_peers::main::<GraphileWorker>()
}
