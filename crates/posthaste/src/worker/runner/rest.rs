//! Rests between looks at a busy log: a look costs as much for one event as for many, and producers pay for it too.

use std::time::{Duration, Instant};

use crate::event::Event;
use crate::observe::Bell;

/// Claims that found this many events or more, and left none: so many come that a few milliseconds later there are more of them.
const MANY: usize = 8;
/// If one came in less than this on average. With fewer than 400 events a second nobody waits.
const FOR_EACH: Duration = Duration::from_micros(2_500);
/// How long the runner rests after such claims, at least.
const GATHER: Duration = Duration::from_millis(20);
/// A claim that took long was made on a busy machine. Who is busy with claims for at most so small a part of the time leaves
/// the rest to the producers...
const SHARE: u32 = 20;
/// ...but nobody waits longer than this for it...
const LONGEST_GATHER: Duration = Duration::from_millis(50);
/// ...nor until more has come than one statement claims (`claim_window.sql` has 64 KiB), unless so much comes anyway...
const ONE_STATEMENT: usize = 48 << 10;
/// ...nor until so much of a page has come: a full one leaves some, which takes another claim at once.
const OF_A_PAGE: f64 = 0.75;
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
    gathered: Gathered,
}

/// What was found since the last claim that left nothing: all that has come since then, once there is such a claim again.
#[derive(Debug, Default)]
struct Gathered {
    since: Option<Instant>,
    events: usize,
    bytes: usize,
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
}

impl Gathered {
    /// How long to rest after it, if a claim takes so long and finds so many events at most. More comes during the next claim as well.
    fn rest(&self, now: Instant, took: Duration, page: usize) -> Option<Duration> {
        let within = now.duration_since(self.since?);
        if self.events < MANY || within.div_f64(self.events as f64) > FOR_EACH {
            return None;
        }
        let until = |share: f64| within.mul_f64(share).saturating_sub(took);
        let one_statement = until(ONE_STATEMENT as f64 / self.bytes.max(1) as f64);
        let a_page = until(OF_A_PAGE * page as f64 / self.events as f64);
        let fits = if one_statement < GATHER { LONGEST_GATHER } else { one_statement };
        // Where a page is full sooner there is a claim for each page, however long the rest.
        let longest = fits.min(a_page).min(LONGEST_GATHER).max(GATHER);
        Some((took * SHARE).clamp(GATHER, longest))
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

    /// A claim that began then and has just ended found these events, of a page of so many at most, and perhaps left some.
    pub(super) fn claimed(&mut self, began: Instant, found: &Found, page: usize, left_some: bool) {
        (self.in_vain, self.last, self.until) = (0, None, None);
        // In SQLite every claim may have left some, so that this is never begun anew and never used.
        self.gathered.events = self.gathered.events.saturating_add(found.events);
        self.gathered.bytes = self.gathered.bytes.saturating_add(found.bytes);
        if !left_some {
            let gathered =
                std::mem::replace(&mut self.gathered, Gathered { since: Some(began), ..Gathered::default() });
            self.until = gathered.rest(began, found.took, page).map(|rest| began + found.took + rest);
        }
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

    const PAGE: usize = 500;

    fn found(events: usize, bytes: usize, millis: u64) -> Found {
        Found { events, bytes, took: Duration::from_millis(millis) }
    }

    /// The rest after the last of some claims, in milliseconds. Each claim is how long after the one before it, what it found, and whether it
    /// left some. The first of them follows one that left nothing.
    fn rest_after(claims: &[(u64, Found, bool)]) -> Option<u128> {
        let (mut rest, mut began) = (Rest::default(), Instant::now());
        rest.claimed(began, &found(1, 0, 1), PAGE, false);
        for (after, found, left_some) in claims {
            began += Duration::from_millis(*after);
            rest.claimed(began, found, PAGE, *left_some);
        }
        let took = claims.last().map(|(_, found, _)| found.took).unwrap_or_default();
        rest.left_at(began + took).map(|left| left.as_millis())
    }

    #[test]
    fn only_claims_of_many_that_were_all_are_followed_by_a_rest() {
        let after = |events, left_some| rest_after(&[(20, found(events, 0, 1), left_some)]);
        assert_eq!(after(1, false), None);
        assert_eq!(after(7, false), None);
        assert_eq!(after(8, false), Some(20));
        assert_eq!(after(8, true), None, "a backlog");
    }

    #[test]
    fn with_fewer_than_400_events_a_second_nobody_waits() {
        let after = |millis, events| rest_after(&[(millis, found(events, 0, 5), false)]);
        assert_eq!((after(50, 20), after(51, 20)), (Some(50), None));
        assert_eq!(after(60_000, 100), None, "one large transaction a minute");
        let mut first = Rest::default();
        first.claimed(Instant::now(), &found(100, 0, 5), PAGE, false);
        assert_eq!(first.left(), None, "nobody knows how long it took to come");
    }

    #[test]
    fn a_claim_that_took_longer_is_followed_by_a_longer_rest_within_bounds() {
        let after = |millis| rest_after(&[(100, found(100, 4 << 10, millis), false)]);
        assert_eq!(after(1), Some(20));
        assert_eq!(after(2), Some(40), "a twentieth of the time is spent on claims");
        assert_eq!(after(10), Some(50));
    }

    #[test]
    fn no_more_gathers_in_a_rest_than_one_statement_claims() {
        let after = |bytes, millis| rest_after(&[(millis, found(100, bytes, 5), false)]);
        assert_eq!(after(ONE_STATEMENT, 35), Some(30), "that much came in 35 ms");
        assert_eq!(after(ONE_STATEMENT * 2, 70), Some(30));
        assert_eq!(after(ONE_STATEMENT, 25), Some(20), "just so much");
        assert_eq!(after(ONE_STATEMENT, 24), Some(50), "it never fits: then rather in few claims");
        assert_eq!(after(ONE_STATEMENT, 200), Some(50));
    }

    #[test]
    fn no_more_gathers_in_a_rest_than_a_page_holds() {
        let after = |events, millis| rest_after(&[(millis, found(events, 0, 5), false)]);
        assert_eq!(after(PAGE * 3 / 4, 35), Some(30));
        assert_eq!(after(PAGE, 60), Some(40), "a quarter of it remains for what comes in a hurry");
        assert_eq!(after(PAGE, 24), Some(20), "a page is full sooner than that: there is a claim for each");
    }

    #[test]
    fn what_never_fits_into_one_statement_still_fits_into_a_page() {
        let after = |events| rest_after(&[(24, found(events, ONE_STATEMENT, 5), false)]);
        assert_eq!((after(100), after(PAGE / 2), after(PAGE)), (Some(50), Some(31), Some(20)));
    }

    #[test]
    fn what_gathered_is_counted_over_all_claims_since_one_left_nothing() {
        let first = (50, found(PAGE / 2, ONE_STATEMENT, 5), true);
        let rest = rest_after(&[first, (5, found(10, 1 << 10, 5), false)]);
        assert_eq!(
            rest,
            Some(48),
            "in 55 ms came a little more than fits, and five of them are for the next claim"
        );
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
        rest.claimed(Instant::now(), &found(1, 0, 0), PAGE, false);
        assert_eq!(rest.left(), None);
    }
}
