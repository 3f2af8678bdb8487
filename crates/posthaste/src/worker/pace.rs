//! The pace of a subscription on one worker: at most so many events a second, however many lanes it owns.
//!
//! What is claimed is charged, and nothing more is claimed until that is paid off. Settlements, renewals and the events
//! already claimed are never held up: a pace must not cost leases.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lease::Reader;

use super::LOOK_EVERY;

/// Claims under a limit take this part of a second's events at most: an even flow instead of one burst a second.
const PARTS: u32 = 5;

/// When the next claim may be. Shared by all runners of a worker.
#[derive(Debug, Default)]
pub(super) struct Pace {
    paid_off: Mutex<Option<Instant>>,
}

impl Pace {
    /// How long to wait before the next claim; `None`: go on. Never longer than it takes to hear of a changed rate.
    pub(super) fn wait(&self, reader: &Reader) -> Option<Duration> {
        self.wait_at(Instant::now(), reader.settings.rate).map(|wait| wait.min(LOOK_EVERY))
    }

    /// These events were claimed.
    pub(super) fn charge(&self, reader: &Reader, events: usize) {
        self.charge_at(Instant::now(), reader.settings.rate, events);
    }

    fn wait_at(&self, now: Instant, rate: u32) -> Option<Duration> {
        let wait = (*self.lock())?.saturating_duration_since(now);
        (rate > 0 && !wait.is_zero()).then_some(wait)
    }

    fn charge_at(&self, now: Instant, rate: u32, events: usize) {
        let mut paid_off = self.lock();
        let from = paid_off.map_or(now, |at| at.max(now));
        *paid_off =
            (rate > 0).then(|| from + Duration::from_secs(1).mul_f64(events as f64 / f64::from(rate)));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paid_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader as claims should see it: with pages no larger than the pace allows.
pub(super) fn in_pace(reader: &Reader) -> Reader {
    let mut paced = reader.clone();
    if let rate @ 1.. = reader.settings.rate {
        paced.settings.batch_size = paced.settings.batch_size.min(rate.div_ceil(PARTS));
    }
    paced
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims whenever it may, for ten seconds of a clock that only this test moves.
    fn claimed_in_ten_seconds(rate: u32, batch: usize) -> usize {
        let (pace, begin) = (Pace::default(), Instant::now());
        let (mut now, mut claimed) = (begin, 0);
        while now < begin + Duration::from_secs(10) {
            match pace.wait_at(now, rate) {
                Some(wait) => now += wait,
                None => {
                    pace.charge_at(now, rate, batch);
                    claimed += batch;
                    now += Duration::from_millis(1);
                }
            }
        }
        claimed
    }

    #[test]
    fn never_more_than_the_rate_and_one_page() {
        for (rate, batch) in [(1, 1), (10, 2), (100, 20), (999, 200), (50_000, 10)] {
            let claimed = claimed_in_ten_seconds(rate, batch);
            assert!(claimed <= 10 * rate as usize + batch, "{claimed} at {rate} a second");
            assert!(claimed >= 10 * rate.min(9_000) as usize, "{claimed} at {rate} a second");
        }
    }

    #[test]
    fn without_a_rate_nobody_waits_and_a_lifted_one_holds_nobody() {
        let (pace, now) = (Pace::default(), Instant::now());
        pace.charge_at(now, 0, 1_000_000);
        assert_eq!(pace.wait_at(now, 0), None);
        pace.charge_at(now, 1, 60);
        assert_eq!(pace.wait_at(now, 1), Some(Duration::from_secs(60)));
        assert_eq!(pace.wait_at(now, 0), None);
    }

    #[test]
    fn a_pause_saves_nothing_up() {
        let (pace, now) = (Pace::default(), Instant::now());
        pace.charge_at(now, 10, 10);
        let later = now + Duration::from_secs(3600);
        assert_eq!(pace.wait_at(later, 10), None);
        pace.charge_at(later, 10, 10);
        assert_eq!(pace.wait_at(later, 10), Some(Duration::from_secs(1)));
    }
}
