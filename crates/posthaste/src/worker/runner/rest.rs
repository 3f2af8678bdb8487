//! Rests between looks at a busy log: a look costs as much for one event as for many, and producers pay for it too.

use std::time::{Duration, Instant};

use crate::observe::Bell;

/// A claim of this many events or more, and yet of less than a page: so many come that a few milliseconds later there
/// are more of them. With fewer than 400 events a second nobody waits.
const MANY: usize = 8;
/// How long such a claim's successor waits.
const GATHER: Duration = Duration::from_millis(20);

/// Rings that follow each other within this time...
const SOON: Duration = Duration::from_millis(50);
/// ...and this often in vain are for others: the log is busy with what nobody here wants.
const IN_VAIN: u32 = 4;
/// The longest rest after that.
const LONGEST: Duration = Duration::from_millis(32);

/// Until when a runner does not look at the log, whoever rings.
#[derive(Debug, Default)]
pub(super) struct Rest {
    until: Option<Instant>,
    in_vain: u32,
    last: Option<Instant>,
}

impl Rest {
    /// How long it goes on.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left_at(Instant::now())
    }

    /// Waits until the rest is over and the bell has rung more often than `seen`. Who rings during the rest is heard at its
    /// end: the pause that a runner would make otherwise may be much longer.
    pub(super) async fn then_rung(&self, bell: &Bell, seen: u64) {
        tokio::time::sleep(self.left().unwrap_or_default()).await;
        bell.wait_past(seen).await;
    }

    fn left_at(&self, now: Instant) -> Option<Duration> {
        self.until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// A claim that began then found so many events, and perhaps left some.
    pub(super) fn claimed(&mut self, began: Instant, events: usize, left_some: bool) {
        (self.in_vain, self.last) = (0, None);
        self.until = (events >= MANY && !left_some).then(|| began + GATHER);
    }

    /// A look that began then found nothing.
    pub(super) fn found_nothing(&mut self, began: Instant) {
        let soon = self.last.replace(began).is_some_and(|last| began.duration_since(last) < SOON);
        self.in_vain = if soon { self.in_vain.saturating_add(1) } else { 0 };
        let over = self.in_vain.saturating_sub(IN_VAIN).min(8);
        self.until = (over > 0).then(|| began + LONGEST.min(Duration::from_millis(1 << over)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest_after_claim_of(events: usize, left_some: bool) -> Option<Duration> {
        let (mut rest, now) = (Rest::default(), Instant::now());
        rest.claimed(now, events, left_some);
        rest.left_at(now)
    }

    #[test]
    fn only_a_claim_of_many_that_were_all_is_followed_by_a_rest() {
        assert_eq!(rest_after_claim_of(1, false), None);
        assert_eq!(rest_after_claim_of(7, false), None);
        assert_eq!(rest_after_claim_of(8, false), Some(GATHER));
        assert_eq!(rest_after_claim_of(8, true), None, "a backlog");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ring_during_a_rest_is_heard_at_its_end() {
        let hour = Duration::from_secs(3600);
        let rest = Rest { until: Some(Instant::now() + hour), ..Rest::default() };
        let (bell, begin) = (Bell::default(), tokio::time::Instant::now());
        let seen = bell.count();
        bell.ring();
        tokio::time::timeout(hour * 2, rest.then_rung(&bell, seen)).await.expect("it is heard");
        assert!(begin.elapsed() > hour / 2, "but not during the rest: {:?}", begin.elapsed());
        let quiet = tokio::time::timeout(hour * 2, rest.then_rung(&bell, bell.count())).await;
        quiet.expect_err("nobody has rung since");
    }

    #[test]
    fn looks_in_vain_become_rarer_until_something_is_found_or_the_log_is_quiet() {
        let (mut rest, mut now) = (Rest::default(), Instant::now());
        let mut look = |rest: &mut Rest, after: u64| {
            now += Duration::from_millis(after);
            rest.found_nothing(now);
            rest.left_at(now).map(|left| left.as_millis())
        };
        let rests: Vec<_> = (0..12).map(|_| look(&mut rest, 5)).collect();
        let grows = [2, 4, 8, 16, 32, 32, 32].map(Some);
        assert_eq!(rests, [vec![None; 5], grows.to_vec()].concat());
        assert_eq!(look(&mut rest, 60), None, "it was quiet");
        let again = (0..7).filter_map(|_| look(&mut rest, 5));
        assert_eq!(again.count(), 3);
        rest.claimed(Instant::now(), 1, false);
        assert_eq!(rest.left(), None);
    }
}
