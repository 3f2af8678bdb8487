//! The programs of the example. `licences embedded` needs nothing but Rust; the others need PostgreSQL and a broker.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use licences::Result;
use licences::embedded::Embedded;
use licences::service::Service;
use licences::worker::Worker;
use sqlx::PgPool;

#[derive(Debug, Parser)]
#[command(about = "Licence compliance: every change is notified exactly once")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Service, subscription and worker in one process, on a SQLite file.
    Embedded {
        /// The file; it is created.
        #[arg(default_value = "licences.db")]
        file: PathBuf,
        /// How many licences to submit and decide on.
        #[arg(long, default_value_t = 20)]
        licences: usize,
        /// How many subscriptions get every event, to see that copies do no harm.
        #[arg(long, default_value_t = 1)]
        copies: usize,
    },
    /// Writes licences and their events.
    Service {
        /// The service's PostgreSQL.
        #[arg(long)]
        database: String,
        /// How many licences to submit and decide on.
        #[arg(long, default_value_t = 20)]
        licences: usize,
    },
    /// Receives the events and writes notices, until it is ended.
    Worker(WorkerOptions),
}

#[derive(Debug, Args)]
struct WorkerOptions {
    /// The worker's PostgreSQL. It may be another one than the service's.
    #[arg(long)]
    database: String,
    /// Redis, as in redis://localhost:6379.
    #[arg(long)]
    redis: Option<String>,
    /// The stream the relay writes to.
    #[arg(long, default_value = "licenses")]
    stream: String,
    /// The Pub/Sub subscription, as in projects/P/subscriptions/S.
    #[arg(long)]
    pubsub: Option<String>,
    /// The address of a Pub/Sub emulator.
    #[arg(long)]
    pubsub_endpoint: Option<String>,
    /// Does without the guard, to see what it is good for.
    #[arg(long)]
    without_guard: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Line::parse().command {
        Command::Embedded { file, licences, copies } => embedded(file, licences, copies).await,
        Command::Service { database, licences } => {
            Service::open(PgPool::connect(&database).await?).await?.run(licences).await
        }
        Command::Worker(options) => worker(options).await,
    }
}

/// Runs until everything is delivered, also what an earlier run left behind.
async fn embedded(file: PathBuf, licences: usize, copies: usize) -> Result<()> {
    let embedded = Embedded::open(&file).await?;
    let mut workers = Vec::new();
    for copy in 1..=copies {
        workers.push(embedded.start(&format!("compliance-{copy}")).await?);
    }
    embedded.run(licences).await?;
    while !embedded.is_done().await? {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let delivered: u64 = workers.iter().map(|worker| worker.counters().delivered()).sum();
    println!(
        "{delivered} deliveries; look at the notices: sqlite3 {} 'select text from notifications'",
        file.display()
    );
    for worker in workers {
        worker.stop().await;
    }
    Ok(())
}

async fn worker(options: WorkerOptions) -> Result<()> {
    let mut worker = Worker::open(PgPool::connect(&options.database).await?).await?;
    worker.guarded = !options.without_guard;
    println!("ready");
    let from_stream = from_stream(worker.clone(), &options);
    let from_topic = from_topic(worker, &options);
    tokio::try_join!(from_stream, from_topic).map(drop)
}

#[cfg(feature = "redis")]
async fn from_stream(worker: Worker, options: &WorkerOptions) -> Result<()> {
    let Some(url) = &options.redis else { return Ok(()) };
    let name = format!("worker-{}", std::process::id());
    licences::stream::work(worker, url, &options.stream, &name).await
}

#[cfg(not(feature = "redis"))]
async fn from_stream(_worker: Worker, options: &WorkerOptions) -> Result<()> {
    match &options.redis {
        Some(_) => Err("this build has no Redis; add --features redis".into()),
        None => Ok(()),
    }
}

#[cfg(feature = "pubsub")]
async fn from_topic(worker: Worker, options: &WorkerOptions) -> Result<()> {
    let Some(subscription) = &options.pubsub else { return Ok(()) };
    licences::topic::work(worker, options.pubsub_endpoint.as_deref(), subscription).await
}

#[cfg(not(feature = "pubsub"))]
async fn from_topic(_worker: Worker, options: &WorkerOptions) -> Result<()> {
    match &options.pubsub {
        Some(_) => Err("this build has no Pub/Sub; add --features pubsub".into()),
        None => Ok(()),
    }
}
