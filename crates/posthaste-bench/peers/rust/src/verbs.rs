//! The command line: one verb, one line of JSON.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Latency, Result};

/// What a peer can do. Every verb connects for itself; all are run in a runtime with several threads.
pub trait Peer {
    /// Creates the tables if they are not there and inserts messages 0 to `count`, a thousand per transaction.
    fn load(url: &str, count: u64) -> impl Future<Output = Result<()>>;

    /// Consumes until `count` messages are handled and settled in the database; gives the time since just before the
    /// worker started.
    fn drain(url: &str, count: u64) -> impl Future<Output = Result<Duration>>;

    /// Single-row transactions without a consumer; gives transactions per second.
    fn enqueue(url: &str, connections: u64, seconds: u64) -> impl Future<Output = Result<f64>>;

    /// Producer and consumer in one process.
    fn latency(url: &str, rate: u64, seconds: u64) -> impl Future<Output = Result<Latency>>;
}

/// Runs the verb of the command line.
pub fn main<P: Peer>() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let verb = arguments.first().copied().unwrap_or_default();
    if !["load", "drain", "enqueue", "latency"].contains(&verb) {
        eprintln!("the verb `{verb}` is not known here: one of load, drain, enqueue, latency");
        return ExitCode::from(3);
    }
    let answer = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        let answer = runtime.block_on(run::<P>(&arguments));
        runtime.shutdown_background();
        answer
    });
    match answer {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run<P: Peer>(arguments: &[&str]) -> Result<Value> {
    match *arguments {
        ["load", url, count] => {
            let count = positive(count)?;
            P::load(url, count).await?;
            Ok(json!({ "count": count }))
        }
        ["drain", url, count] => {
            let count = positive(count)?;
            let taken = P::drain(url, count).await?;
            Ok(json!({ "rate": count as f64 / taken.as_secs_f64() }))
        }
        ["enqueue", url, connections, seconds] => {
            Ok(json!({ "rate": P::enqueue(url, positive(connections)?, positive(seconds)?).await? }))
        }
        ["latency", url, rate, seconds] => {
            Ok(serde_json::to_value(P::latency(url, positive(rate)?, positive(seconds)?).await?)?)
        }
        _ => Err("expected load URL COUNT, drain URL COUNT, enqueue URL CONNECTIONS SECONDS or latency URL RATE SECONDS".into()),
    }
}

fn positive(text: &str) -> Result<u64> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a positive number, got `{text}`").into())
}
