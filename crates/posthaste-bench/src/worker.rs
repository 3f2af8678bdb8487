//! Posthaste in a process of its own, as it is used in production: what the bench starts besides itself.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use posthaste::{ClaimBy, Page, Posthaste, Sink, Start};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::process::{Child, ChildStdin, Command};

use crate::cluster::Cluster;
use crate::measure::Result;
use crate::ours;
use crate::work::number_of;

/// The word on the command line.
pub(crate) const COMMAND: &str = "worker";

/// What a worker tells when it ends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) delivered: u64,
    pub(crate) seconds: f64,
    /// The most memory it had, in bytes.
    pub(crate) memory: u64,
    /// Number of each event, and when it arrived in microseconds of the epoch.
    pub(crate) arrivals: Vec<(u64, u64)>,
}

/// Notes when each event came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<Vec<(u64, u64)>>>);

impl Arrivals {
    pub(crate) fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Sink for Arrivals {
    async fn deliver(&self, page: &mut Page) {
        let now = micros();
        let numbers: Vec<u64> = page.events().iter().filter_map(|event| number_of(&event.payload)).collect();
        let mut arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.extend(numbers.into_iter().map(|number| (number, now)));
        drop(arrivals);
        (0..page.events().len()).for_each(|index| page.delivered(index));
    }
}

/// Now, on a clock that all processes of the machine share.
pub(crate) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The other side: drains `count` events and ends, or follows the log until its standard input ends if `count` is 0.
pub(crate) async fn main(arguments: &[String]) -> Result<()> {
    let [url, database, subscription, topic, count] = arguments else {
        return Err("worker needs a URL, a database, a subscription, a topic and a count".into());
    };
    let count: u64 = count.parse()?;
    let posthaste = Posthaste::postgres(Cluster::at(url)?.open(database, 8).await?);
    let subscription = ours::subscription(subscription, ClaimBy::Batch)?.topic(topic);
    let told = match count {
        0 => follow(&posthaste, subscription.start(Start::Now)).await?,
        count => {
            let elapsed = ours::drain(&posthaste, subscription, count).await?;
            Told { delivered: count, seconds: elapsed.as_secs_f64(), memory: memory()?, arrivals: Vec::new() }
        }
    };
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}

async fn follow(posthaste: &Posthaste, subscription: posthaste::Subscription) -> Result<Told> {
    let arrivals = Arrivals::default();
    let worker = posthaste.sink(subscription, arrivals.clone()).start().await?;
    let (counters, start) = (Arc::clone(worker.counters()), std::time::Instant::now());
    // Somebody waits for this line before it enqueues.
    println!("ready");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    let seconds = start.elapsed().as_secs_f64();
    // What was committed before the end of the input still comes.
    let mut before = u64::MAX;
    while before != counters.delivered() {
        before = counters.delivered();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    worker.stop().await;
    Ok(Told { delivered: before, seconds, memory: memory()?, arrivals: arrivals.take() })
}

/// The most memory this process ever had, in bytes.
fn memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM here")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}

/// A worker that follows the log, in a process of its own.
pub(crate) struct Following {
    child: Child,
    input: Option<ChildStdin>,
    lines: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStdout>>,
}

impl Following {
    /// Starts it, and waits until it follows.
    pub(crate) async fn start(
        cluster: &Cluster,
        database: &str,
        subscription: &str,
        topic: &str,
    ) -> Result<Self> {
        let mut child = command(cluster, database, subscription, topic, 0)?.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("no output")?);
        let mut lines = tokio::io::BufReader::new(output).lines();
        match lines.next_line().await? {
            Some(line) if line == "ready" => Ok(Self { child, input, lines }),
            line => Err(format!("the worker said {line:?} instead of `ready`").into()),
        }
    }

    /// Ends it, and hears what it has seen.
    pub(crate) async fn end(mut self) -> Result<Told> {
        drop(self.input.take());
        let line = self.lines.next_line().await?.ok_or("the worker ended without a word")?;
        self.child.wait().await?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// Drains a backlog in a process of its own.
pub(crate) async fn drain_elsewhere(
    cluster: &Cluster,
    database: &str,
    subscription: &str,
    count: u64,
) -> Result<Told> {
    let output = command(cluster, database, subscription, "orders", count)?.output().await?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn command(
    cluster: &Cluster,
    database: &str,
    subscription: &str,
    topic: &str,
    count: u64,
) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, &cluster.url(), database, subscription, topic, &count.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}
