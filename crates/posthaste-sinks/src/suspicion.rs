//! Whom to blame for silence: the event, or the receiver although it answers a check.
//!
//! A check does not see everything: a queue without a majority, too few replicas, a trigger that fails for every row. So
//! what a sink has accepted counts more than what a check says. One bad event among good ones is blamed each time; where
//! nothing else is accepted, one event is blamed now and then, so that it does not stop the others for ever, and all the
//! rest waits without losing attempts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use posthaste::{Outcome, Page};
use tokio::time::Instant;

/// How long nobody is blamed after the first blame; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5 * 60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// What a sink remembers of silence, over all its pages.
#[derive(Debug, Default)]
pub struct Suspicion(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    accepted: Option<Instant>,
    /// The last one since something was accepted.
    blame: Option<Blame>,
}

#[derive(Debug, Clone, Copy)]
struct Blame {
    at: Instant,
    pause: Duration,
    /// For those who read of it.
    on_the_clock: DateTime<Utc>,
}

impl Suspicion {
    /// The receiver has accepted an event.
    pub fn accepted(&self) {
        *lock(&self.0) = Record { accepted: Some(Instant::now()), blame: None };
    }

    /// For a page that is delivered now.
    pub fn suspects(&self) -> Suspects<'_> {
        Suspects { suspicion: self, noted: Mutex::default() }
    }
}

impl Record {
    fn has_accepted_since(&self, moment: Instant) -> bool {
        self.accepted.is_some_and(|accepted| accepted > moment)
    }

    fn may_blame(&self, now: Instant) -> bool {
        self.blame.is_none_or(|blame| now >= blame.at + blame.pause)
    }

    fn blame(&mut self, now: Instant) {
        let longer = |blame: Blame| (blame.pause * 2).min(LONGEST_PAUSE);
        let pause = self.blame.map_or(FIRST_PAUSE, longer);
        self.blame = Some(Blame { at: now, pause, on_the_clock: Utc::now() });
    }

    fn words(&self) -> String {
        let since = self.blame.map(|blame| blame.on_the_clock.to_rfc3339_opts(SecondsFormat::Secs, true));
        let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
        format!("nor is anything else accepted{since}")
    }
}

/// Events of a page about which the receiver was silent, each alone, although it answered a check.
#[derive(Debug)]
pub struct Suspects<'s> {
    suspicion: &'s Suspicion,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// When the first sending began that nobody answered.
    silent_since: Option<Instant>,
    suspects: Vec<Suspect>,
}

#[derive(Debug)]
struct Suspect {
    /// Its place in the page.
    index: usize,
    since: Instant,
    reason: String,
}

impl Suspects<'_> {
    /// The receiver has accepted an event.
    pub fn accepted(&self) {
        self.suspicion.accepted();
    }

    /// Several events were sent at this moment, and together they got no answer: what is sent alone from now on shows
    /// which of them it was.
    pub fn fell_silent(&self, sent: Instant) {
        lock(&self.noted).silent_since.get_or_insert(sent);
    }

    /// An event that was sent alone at this moment got no answer. What it is marked with for now: `retry`, or
    /// `unavailable` if it is in vain to send more of the page. What is no `retry` is no suspicion.
    #[must_use]
    pub fn suspect(&self, index: usize, sent: Instant, retry: Outcome) -> Outcome {
        let Outcome::Retry { reason, .. } = &retry else { return retry };
        let mut noted = lock(&self.noted);
        let since = noted.silent_since.map_or(sent, |silent| silent.min(sent));
        noted.suspects.push(Suspect { index, since, reason: reason.clone() });
        drop(noted);
        match self.are_innocent() {
            true => Outcome::unavailable(format!("{reason}, nor is anything else accepted")),
            false => retry,
        }
    }

    /// Silence about several events while nothing is accepted: that is the receiver, whatever its check says.
    pub fn are_innocent(&self) -> bool {
        let noted = lock(&self.noted);
        let first = noted.suspects.iter().map(|suspect| suspect.since).min();
        let in_vain = |first| !lock(&self.suspicion.0).has_accepted_since(first);
        noted.suspects.len() > 1 && first.is_some_and(in_vain)
    }

    /// Marks the suspects when the page is done, and gives back the attempts that were not their fault.
    ///
    /// All are to blame if others were accepted after their silence had begun, which says nothing against the receiver.
    /// Else it is the first one in the page, and only if nobody was blamed so for some time.
    pub fn judge(&self, page: &mut Page) {
        let (mut noted, mut record, now) = (lock(&self.noted), lock(&self.suspicion.0), Instant::now());
        noted.suspects.sort_by_key(|suspect| suspect.index);
        let proven = noted.suspects.iter().any(|suspect| record.has_accepted_since(suspect.since));
        let mut one_more = !proven && !noted.suspects.is_empty() && record.may_blame(now);
        if one_more {
            record.blame(now);
        }
        for Suspect { index, since, reason } in noted.suspects.drain(..) {
            let guilty = record.has_accepted_since(since) || std::mem::take(&mut one_more);
            page.mark(
                index,
                match guilty {
                    true => Outcome::retry(reason),
                    false => Outcome::unavailable(format!("{reason}, {}", record.words())),
                },
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste::NewEvent;
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn page(events: i64) -> Page {
        let event = |seq| Arc::new(NewEvent::bytes("t", "x").stored(seq, DateTime::UNIX_EPOCH));
        Page::new((0..events).map(event).collect())
    }

    fn blamed(page: &Page) -> Vec<usize> {
        let is_retry = |index: &usize| matches!(page.outcome(*index), Some(Outcome::Retry { .. }));
        (0..page.events().len()).filter(is_retry).collect()
    }

    /// A page of events that all are silent for ten seconds.
    async fn silence(suspicion: &Suspicion, events: i64) -> Page {
        let (mut page, suspects, sent) = (page(events), suspicion.suspects(), Instant::now());
        advance(Duration::from_secs(10)).await;
        for index in 0..page.events().len() {
            let outcome = suspects.suspect(index, sent, Outcome::retry("silence"));
            page.mark(index, outcome);
        }
        suspects.judge(&mut page);
        page
    }

    /// The minutes at which a lone event is blamed that is tried every ten seconds.
    async fn minutes_of_blame(suspicion: &Suspicion, minutes: u64) -> Vec<u64> {
        let (begun, mut blames) = (Instant::now(), Vec::new());
        while begun.elapsed() < MINUTE * u32::try_from(minutes).expect("small") {
            if blamed(&silence(suspicion, 1).await) == [0] {
                blames.push(begun.elapsed().as_secs() / 60);
            }
        }
        blames
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_is_accepted_one_event_is_blamed_ever_more_rarely() {
        let suspicion = Suspicion::default();
        assert_eq!(minutes_of_blame(&suspicion, 260).await, [0, 5, 15, 35, 75, 135, 195, 255]);
        suspicion.accepted();
        assert_eq!(minutes_of_blame(&suspicion, 30).await, [0, 5, 15], "it begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_blamed_reads_why() {
        let suspicion = Suspicion::default();
        let whole = silence(&suspicion, 3).await;
        assert_eq!(blamed(&whole), [0], "the first of the page and nobody else");
        let alone = silence(&suspicion, 1).await;
        let Some(Outcome::Unavailable { reason }) = alone.outcome(0) else { panic!("{alone:?}") };
        assert!(reason.starts_with("silence, nor is anything else accepted since 20"), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_bad_event_among_good_ones_is_blamed_each_time() {
        let suspicion = Suspicion::default();
        for _ in 0..5 {
            assert_eq!(blamed(&silence(&suspicion, 1).await), [0]);
            suspicion.accepted();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_suspects_are_blamed_if_others_were_accepted_after_their_silence_began() {
        let suspicion = Suspicion::default();
        for (accepted_at, expected) in [(1, vec![0]), (3, vec![0, 1])] {
            suspicion.accepted();
            let (mut page, suspects) = (page(2), suspicion.suspects());
            advance(Duration::from_secs(2)).await;
            let sent = Instant::now();
            advance(Duration::from_secs(accepted_at)).await;
            if accepted_at > 2 {
                suspects.accepted();
            }
            for index in [0, 1] {
                let outcome = suspects.suspect(index, sent, Outcome::retry("silence"));
                page.mark(index, outcome);
            }
            suspects.judge(&mut page);
            assert_eq!(blamed(&page), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_silence_of_a_group_begins_when_the_group_was_sent() {
        let (suspicion, mut page) = (Suspicion::default(), page(4));
        let suspects = suspicion.suspects();
        suspects.fell_silent(Instant::now());
        advance(MINUTE).await;
        suspects.accepted();
        for index in [2, 3] {
            advance(MINUTE).await;
            let outcome = suspects.suspect(index, Instant::now(), Outcome::retry("silence"));
            page.mark(index, outcome);
        }
        suspects.judge(&mut page);
        assert_eq!(blamed(&page), [2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_given_up_after_its_second_suspect_if_nothing_is_accepted() {
        let suspicion = Suspicion::default();
        let suspects = suspicion.suspects();
        let sent = Instant::now();
        assert_eq!(suspects.suspect(0, sent, Outcome::retry("silence")), Outcome::retry("silence"));
        assert!(!suspects.are_innocent(), "a lone one may well be the reason");
        let second = suspects.suspect(1, sent, Outcome::retry("silence"));
        assert!(matches!(second, Outcome::Unavailable { .. }));
    }
}
