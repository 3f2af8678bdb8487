//! The pace of a subscription on one worker: at most so many events a second, however many lanes it owns.
//!
//! What is claimed is charged, and nothing more is claimed until that is paid off. Settlements, renewals and the events
//! already claimed are never held up: a pace must not cost leases.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lease::Reader;

use super::LOOK_EVERY;

/// Claims under a limit take this part of a second's events at most: an even flow instead of one burst a second.
const PARTS: u32 = 5;

/// How soon to ask again while another runner of the worker is claiming.
const ANOTHER_CLAIMS: Duration = Duration::from_millis(10);

/// When the next claim may be. Shared by all runners of a worker.
#[derive(Debug, Default)]
pub(super) struct Pace {
    state: Arc<Mutex<State>>,
}

/// What was claimed and is not paid off, in events: so a changed rate holds for the rest of it, too.
#[derive(Debug, Default)]
struct State {
    owed: f64,
    at: Option<Instant>,
    /// Under a limit one runner claims at a time; otherwise all would pass before the first is charged.
    claiming: bool,
}

/// The right to claim, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Option<Arc<Mutex<State>>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            lock(state).claiming = false;
        }
    }
}

impl Pace {
    /// The right to claim, or how long to wait. Never longer than it takes to hear of a changed rate.
    pub(super) fn begin(&self, reader: &Reader) -> Result<Turn, Duration> {
        self.begin_at(Instant::now(), reader.settings.rate).map_err(|wait| wait.min(LOOK_EVERY))
    }

    /// How long to wait before the next claim; `None`: go on.
    pub(super) fn wait(&self, reader: &Reader) -> Option<Duration> {
        self.wait_at(Instant::now(), reader.settings.rate).map(|wait| wait.min(LOOK_EVERY))
    }

    /// These events were claimed.
    pub(super) fn charge(&self, reader: &Reader, events: usize) {
        self.charge_at(Instant::now(), reader.settings.rate, events);
    }

    fn begin_at(&self, now: Instant, rate: u32) -> Result<Turn, Duration> {
        if rate == 0 {
            return Ok(Turn(None));
        }
        let mut state = lock(&self.state);
        match state.wait(now, rate) {
            Some(wait) => Err(wait),
            None if state.claiming => Err(ANOTHER_CLAIMS),
            None => {
                state.claiming = true;
                Ok(Turn(Some(self.state.clone())))
            }
        }
    }

    fn wait_at(&self, now: Instant, rate: u32) -> Option<Duration> {
        lock(&self.state).wait(now, rate)
    }

    fn charge_at(&self, now: Instant, rate: u32, events: usize) {
        let mut state = lock(&self.state);
        state.pay_off(now, rate);
        if rate > 0 {
            state.owed += events as f64;
        }
    }
}

impl State {
    fn wait(&mut self, now: Instant, rate: u32) -> Option<Duration> {
        self.pay_off(now, rate);
        let wait = Duration::from_secs_f64(self.owed / f64::from(rate.max(1)));
        (!wait.is_zero()).then_some(wait)
    }

    /// Without a limit nothing is owed; with one, nothing is saved up.
    fn pay_off(&mut self, now: Instant, rate: u32) {
        let since = self.at.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let paid = if rate == 0 { f64::INFINITY } else { since.as_secs_f64() * f64::from(rate) };
        self.owed = (self.owed - paid).max(0.0);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_changed_rate_holds_for_what_is_owed_already() {
        let (pace, now) = (Pace::default(), Instant::now());
        pace.charge_at(now, 1, 60);
        let later = now + Duration::from_secs(10);
        assert_eq!(pace.wait_at(later, 1), Some(Duration::from_secs(50)));
        assert_eq!(pace.wait_at(later, 100), Some(Duration::from_millis(500)));
    }

    #[test]
    fn one_runner_claims_at_a_time_and_all_without_a_limit() {
        let (pace, now) = (Pace::default(), Instant::now());
        let first = pace.begin_at(now, 5).expect("nothing is owed");
        assert_eq!(pace.begin_at(now, 5).expect_err("another claims"), ANOTHER_CLAIMS);
        assert!(pace.begin_at(now, 0).is_ok());
        pace.charge_at(now, 5, 5);
        drop(first);
        assert_eq!(pace.begin_at(now, 5).expect_err("five are owed"), Duration::from_secs(1));
        assert!(pace.begin_at(now + Duration::from_secs(1), 5).is_ok());
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
