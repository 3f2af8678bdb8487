//! Rests between looks at a busy log: a look costs as much for one event as for many, and producers pay for it too.

use std::time::{Duration, Instant};

use crate::event::Event;
use crate::observe::Bell;

/// A claim of this many events or more, and yet of less than a page: so many come that a few milliseconds later there
/// are more of them. With fewer than 400 events a second nobody waits.
const MANY: usize = 8;
/// How long the runner rests after such a claim, at least.
const GATHER: Duration = Duration::from_millis(20);
/// A claim that took long was made on a busy machine. Who is busy with claims for at most so small a part of the time leaves
/// the rest to the producers...
const SHARE: u32 = 20;
/// ...but nobody waits longer than this for it...
const LONGEST_GATHER: Duration = Duration::from_millis(50);
/// ...nor, so that it is `MANY` also then, longer than this for each event that was found...
const FOR_EACH: Duration = Duration::from_micros(2_500);
/// ...nor until more has come than one statement claims (`claim_window.sql` has 64 KiB), unless so much comes anyway.
const ONE_STATEMENT: usize = 48 << 10;
/// What an event adds to its payload there.
const AROUND_A_PAYLOAD: usize = 200;

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
    claimed: Option<Instant>,
}

/// What a claim found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) events: usize,
    pub(super) bytes: usize,
    pub(super) took: Duration,
}

impl Found {
    /// A claim that began then and ends now.
    pub(super) fn since<'a>(began: Instant, events: impl Iterator<Item = &'a Event>) -> Self {
        let sizes = events.map(|event| {
            let headers = event.headers.iter().map(|(name, value)| name.len() + value.len());
            event.payload.len() + headers.sum::<usize>() + AROUND_A_PAYLOAD
        });
        let (events, bytes) = sizes.fold((0, 0), |(events, bytes), size| (events + 1, bytes + size));
        Self { events, bytes, took: began.elapsed() }
    }

    /// How long to rest, if what was found has come in so long. More comes during the next claim as well.
    fn rest(&self, gathered: Duration) -> Duration {
        let fits = gathered.as_secs_f64() * ONE_STATEMENT as f64 / self.bytes.max(1) as f64;
        let fits = Duration::try_from_secs_f64(fits).unwrap_or(Duration::MAX).saturating_sub(self.took);
        let fits = if fits < GATHER { LONGEST_GATHER } else { fits };
        let many = FOR_EACH.saturating_mul(u32::try_from(self.events).unwrap_or(u32::MAX));
        (self.took * SHARE).clamp(GATHER, fits.min(many).clamp(GATHER, LONGEST_GATHER))
    }
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

    /// A claim that began then and has just ended found these events, and perhaps left some.
    pub(super) fn claimed(&mut self, began: Instant, found: &Found, left_some: bool) {
        let gathered = self.claimed.replace(began).map(|before| began.duration_since(before));
        (self.in_vain, self.last) = (0, None);
        let rest = found.rest(gathered.unwrap_or(Duration::MAX));
        self.until = (found.events >= MANY && !left_some).then(|| began + found.took + rest);
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

    /// The rest after a claim that took a millisecond.
    fn rest_after_claim_of(events: usize, left_some: bool) -> Option<Duration> {
        let (mut rest, began) = (Rest::default(), Instant::now());
        let found = Found { events, bytes: 0, took: Duration::from_millis(1) };
        rest.claimed(began, &found, left_some);
        rest.left_at(began + found.took)
    }

    #[test]
    fn only_a_claim_of_many_that_were_all_is_followed_by_a_rest() {
        assert_eq!(rest_after_claim_of(1, false), None);
        assert_eq!(rest_after_claim_of(7, false), None);
        assert_eq!(rest_after_claim_of(8, false), Some(GATHER));
        assert_eq!(rest_after_claim_of(8, true), None, "a backlog");
    }

    #[test]
    fn a_claim_that_took_longer_is_followed_by_a_longer_rest_within_bounds() {
        let after = |millis| {
            let found = Found { events: 100, bytes: 4 << 10, took: Duration::from_millis(millis) };
            found.rest(Duration::from_secs(10))
        };
        assert_eq!(after(1), GATHER);
        assert_eq!(after(2), Duration::from_millis(40), "a twentieth of the time is spent on claims");
        assert_eq!(after(1000), LONGEST_GATHER);
    }

    #[test]
    fn no_more_gathers_in_a_rest_than_one_statement_claims() {
        let after = |bytes, millis| {
            let found = Found { events: 100, bytes, took: Duration::from_millis(5) };
            found.rest(Duration::from_millis(millis))
        };
        assert_eq!(after(ONE_STATEMENT, 35), Duration::from_millis(30), "that much came in 35 ms");
        assert_eq!(after(ONE_STATEMENT * 2, 70), Duration::from_millis(30));
        assert_eq!(after(ONE_STATEMENT, 25), GATHER, "just so much");
        assert_eq!(after(ONE_STATEMENT, 24), LONGEST_GATHER, "it never fits: then rather in few claims");
        assert_eq!(after(ONE_STATEMENT, 10_000), LONGEST_GATHER);
    }

    #[test]
    fn where_fewer_come_the_rest_is_shorter() {
        let after = |events| {
            Found { events, bytes: 0, took: Duration::from_millis(5) }.rest(Duration::from_millis(50))
        };
        assert_eq!(after(MANY), GATHER);
        assert_eq!(after(16), Duration::from_millis(40));
        assert_eq!(after(20), LONGEST_GATHER);
    }

    #[test]
    fn what_gathered_is_counted_from_claim_to_claim() {
        let (mut rest, began) = (Rest::default(), Instant::now());
        let found = Found { events: 100, bytes: ONE_STATEMENT, took: Duration::from_millis(10) };
        rest.claimed(began, &found, false);
        assert_eq!(
            rest.left_at(began + found.took),
            Some(LONGEST_GATHER),
            "nobody knows how long it took to come"
        );
        let next = began + Duration::from_millis(30);
        rest.claimed(next, &found, false);
        assert_eq!(rest.left_at(next + found.took), Some(Duration::from_millis(20)));
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
        rest.claimed(Instant::now(), &Found { events: 1, bytes: 0, took: Duration::ZERO }, false);
        assert_eq!(rest.left(), None);
    }
}
