//! Counts what is handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::{Handler, Result};

/// How long a peer may go without handling anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells when a number of messages has been handled.
#[derive(Debug, Clone)]
pub struct Counter {
    count: u64,
    shared: Arc<(AtomicU64, Notify)>,
}

impl Counter {
    /// Waits for this many.
    pub fn new(count: u64) -> Self {
        Self { count, shared: Arc::default() }
    }

    /// What the peer shall call.
    pub fn handler(&self) -> Handler {
        let Self { count, shared } = self.clone();
        Handler::new(move |_| {
            let (handled, all) = &*shared;
            if handled.fetch_add(1, Ordering::Relaxed) + 1 == count {
                all.notify_one();
            }
        })
    }

    /// Returns once all have been handled; fails when nothing more comes.
    pub async fn all(&self) -> Result<()> {
        let (handled, all) = &*self.shared;
        let mut before = 0;
        while tokio::time::timeout(PATIENCE, all.notified()).await.is_err() {
            let now = handled.load(Ordering::Relaxed);
            if now == before {
                return Err(format!("stopped after {now} of {} messages", self.count).into());
            }
            before = now;
        }
        Ok(())
    }
}
