//! When to try again. Pure: the delay is computed here, the clock it is added to is the database's.

use std::time::Duration;

/// Backoff and the limit of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Total attempts, the first included; at this many an event is dead.
    pub max_attempts: u32,
    /// The delay after the first failure, before jitter.
    pub base_delay: Duration,
    /// No delay is longer than this.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// `min(base * 2^(attempts - 1), max)`: clamped before jitter, so that jitter cannot exceed the bound.
    pub fn delay(&self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(63);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let nanos = self.base_delay.as_nanos().saturating_mul(u128::from(factor));
        let capped = nanos.min(self.max_delay.as_nanos());
        Duration::from_nanos(u64::try_from(capped).unwrap_or(u64::MAX))
    }

    /// The delay with equal jitter: uniform in `[delay / 2, delay]`.
    pub fn jittered(&self, attempts: u32) -> Duration {
        let delay = self.delay(attempts);
        delay / 2 + (delay / 2).mul_f64(fastrand::f64())
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 5, base_delay: Duration::from_secs(1), max_delay: Duration::from_secs(300) }
    }
}
