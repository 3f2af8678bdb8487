//! Counts what is handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::Handler;

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

    /// Returns once all have been handled.
    pub async fn all(&self) {
        self.shared.1.notified().await;
    }
}
