//! Single-row transactions, as many and as fast as the connections allow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{Message, Result};

/// As many loops as there are connections, each with one transaction at a time; gives transactions per second.
pub async fn producers<S, F>(connections: u64, seconds: u64, send: S) -> Result<f64>
where
    S: Fn(Message) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let sent = Arc::new(AtomicU64::new(0));
    opened(connections, &send).await?;
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let mut loops = JoinSet::new();
    for _ in 0..connections {
        let (send, sent) = (send.clone(), sent.clone());
        loops.spawn(async move {
            while Instant::now() < end {
                send(Message::new(sent.load(Ordering::Relaxed))).await?;
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    all(loops).await?;
    Ok(sent.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// One message each, so that the clock does not see connections being opened.
async fn opened<S, F>(connections: u64, send: &S) -> Result<()>
where
    S: Fn(Message) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let mut first = JoinSet::new();
    for number in 0..connections {
        let send = send.clone();
        first.spawn(async move { send(Message::new(number)).await });
    }
    all(first).await
}

/// Waits for all of them; the first failure counts.
async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}
