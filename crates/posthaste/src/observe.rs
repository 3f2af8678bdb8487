//! Seams for observation and for wake-ups inside one process. Steps hold no metric; they call these.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// A bell that wakes every waiting reader of this process.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicU64,
    notify: Notify,
    /// When it last rang for what another process did.
    heard: Mutex<Option<Instant>>,
    /// Whether somebody listens for other processes' rings; otherwise polling alone must do.
    listening: AtomicBool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Rings for what another process did.
    #[cfg(feature = "postgres")]
    pub(crate) fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.ring();
    }

    /// When another process was last heard of.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it rang so far. Read before looking, so that a ring during the look is not missed.
    pub(crate) fn count(&self) -> u64 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Waits until the bell has rung more often than `seen`.
    pub(crate) async fn wait_past(&self, seen: u64) {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.count() > seen {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::SeqCst);
    }

    pub(crate) fn listening(&self) -> bool {
        self.listening.load(Ordering::SeqCst)
    }
}

/// Counts of what a worker did, cheap to read at any time.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) delivered: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) parked: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    pub(crate) unavailable: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) errors: AtomicU64,
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        impl Counters {
            $($(#[$doc])* pub fn $name(&self) -> u64 { self.$name.load(Ordering::Relaxed) })+
        }
    };
}
readers! {
    /// Events delivered.
    delivered,
    /// Attempts that failed and will be repeated.
    retried,
    /// Events that became dead.
    dead,
    /// Events that queue behind an earlier one of their key.
    parked,
    /// Settlements that came too late and changed nothing.
    leases_lost,
    /// Times the receiver was away.
    unavailable,
    /// Batches settled.
    batches,
    /// Database errors met and survived.
    errors,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
