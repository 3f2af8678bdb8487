//! A page of events on its way to a sink: for each event which attempt this is, how far earlier ones came, and the mark.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::event::Event;
use crate::outcome::Outcome;

/// A page of events on its way to a sink, with a mark per event.
///
/// Events are named by their place in [`events`](Self::events). A place that the page does not have is nobody's: marking
/// it does nothing.
#[derive(Debug)]
pub struct Page {
    events: Vec<Arc<Event>>,
    states: Vec<State>,
    deadline: Option<Instant>,
}

/// What the page knows about one event.
#[derive(Debug, Clone)]
struct State {
    attempt: u32,
    step: u32,
    mark: Option<Outcome>,
}

/// What became of one event of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// Steps that are finished, by this attempt or by earlier ones.
    pub(crate) steps: u32,
}

impl Page {
    /// A page of events that were never tried before: attempt 1, step 0.
    pub fn new(events: Vec<Arc<Event>>) -> Self {
        Self::for_attempts(events.into_iter().map(|event| (event, 1, 0)))
    }

    /// A page of events, each with the number of this attempt and the steps that earlier ones have finished.
    pub fn for_attempts(events: impl IntoIterator<Item = (Arc<Event>, u32, u32)>) -> Self {
        let with_state = |(event, attempt, step)| (event, State { attempt, step, mark: None });
        let (events, states) = events.into_iter().map(with_state).unzip();
        Self { events, states, deadline: None }
    }

    /// A page of some of these events, in the order given, with the same attempts, steps and time left and without marks. For
    /// sinks that hand part of a page to another sink. Places that this page does not have are left out.
    #[must_use]
    pub fn select(&self, indexes: &[usize]) -> Self {
        let chosen = indexes.iter().filter_map(|&index| {
            let (event, state) = (self.events.get(index)?, self.states.get(index)?);
            Some((event.clone(), state.attempt, state.step))
        });
        Self { deadline: self.deadline, ..Self::for_attempts(chosen) }
    }

    /// The same page, which the engine gives up after this time from now on.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// How long the engine still waits for this page, by the subscription's `timeout` as it is now, which an operator may
    /// have changed. `None` if nobody waits: a page that was made by hand.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The events, in order.
    pub fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    /// The how-manieth attempt at this event this is, in this subscription, as the store counts: 1, then one more after
    /// each attempt that ended in a retry.
    ///
    /// A number can come twice, because some attempts are not counted: one that met a receiver that was away, one that
    /// was cut off when its worker stopped, and one whose worker was lost, whose batch or delivery is claimed again when
    /// the lease has run out. The latter two are counted only of an event that is tried alone because workers were lost
    /// with it before. After a retry by a person the count begins at 1 again.
    pub fn attempt(&self, index: usize) -> u32 {
        self.states.get(index).map_or(1, |state| state.attempt)
    }

    /// How many steps at this event are known to be finished: what earlier attempts have stored, or what
    /// [`reached`](Self::reached) has said since. 0 unless a sink counts steps.
    pub fn step(&self, index: usize) -> u32 {
        self.states.get(index).map_or(0, |state| state.step)
    }

    /// Says that this many steps at an event are finished, whatever its mark: the next attempt begins there. The last
    /// call counts.
    ///
    /// It is stored with the event's delivery if the event is not delivered in the end: retried, dead (so that a dead
    /// letter that a person revives goes on at its step), or given back. Also if the attempt panics or takes too long.
    /// While the receiver is away (`Unavailable`) no delivery is written: the worker remembers the step, and stores it if
    /// it stops meanwhile. A worker that is lost, or an attempt that is cut off because a stop has no more patience,
    /// stores nothing. So a step can be made again, and a sink that counts steps must bear that.
    ///
    /// Steps beyond 32,767 are stored as 32,767. An edited event and a replay begin at 0.
    pub fn reached(&mut self, index: usize, step: u32) {
        if let Some(state) = self.states.get_mut(index) {
            state.step = step;
        }
    }

    /// The mark so far.
    pub fn outcome(&self, index: usize) -> Option<&Outcome> {
        self.states.get(index)?.mark.as_ref()
    }

    /// Marks one event.
    pub fn mark(&mut self, index: usize, outcome: Outcome) {
        if let Some(state) = self.states.get_mut(index) {
            state.mark = Some(outcome);
        }
    }

    /// Marks one event delivered.
    pub fn delivered(&mut self, index: usize) {
        self.mark(index, Outcome::Delivered);
    }

    /// Marks all that are unmarked so far.
    pub fn mark_rest(&mut self, outcome: &Outcome) {
        for state in self.states.iter_mut().filter(|state| state.mark.is_none()) {
            state.mark = Some(outcome.clone());
        }
    }

    /// One report per event. What is unmarked is retried, so that forgetting a case never loses an event.
    pub(crate) fn into_reports(self) -> Vec<Report> {
        let unmarked = || Outcome::retry("the sink did not say what became of this event");
        let report =
            |state: State| Report { outcome: state.mark.unwrap_or_else(unmarked), steps: state.step };
        self.states.into_iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::event::NewEvent;

    fn event(seq: i64) -> Arc<Event> {
        Arc::new(NewEvent::bytes("orders", "{}").stored(seq, DateTime::UNIX_EPOCH))
    }

    fn three() -> Page {
        Page::for_attempts([(event(1), 1, 0), (event(2), 2, 1), (event(3), 3, 2)])
    }

    fn numbers(page: &Page) -> Vec<(i64, u32, u32)> {
        let of = |(index, event): (usize, &Arc<Event>)| (event.seq, page.attempt(index), page.step(index));
        page.events().iter().enumerate().map(of).collect()
    }

    #[test]
    fn a_new_page_is_a_first_attempt_without_steps_and_marks() {
        let page = Page::new(vec![event(1), event(2)]);
        assert_eq!(numbers(&page), [(1, 1, 0), (2, 1, 0)]);
        assert_eq!((page.outcome(0), page.outcome(1)), (None, None));
    }

    #[test]
    fn a_mark_can_be_read_and_the_rest_is_marked_without_touching_it() {
        let mut page = three();
        page.delivered(1);
        page.mark_rest(&Outcome::retry("later"));
        assert_eq!(page.outcome(0), Some(&Outcome::retry("later")));
        assert_eq!(page.outcome(1), Some(&Outcome::Delivered));
    }

    #[test]
    fn the_last_step_that_was_reached_is_reported_whatever_the_mark() {
        let mut page = three();
        page.reached(0, 2);
        page.reached(0, 1);
        page.mark(0, Outcome::retry("step 2 failed"));
        page.reached(1, 4);
        page.delivered(1);
        assert_eq!(page.step(0), 1);
        let reports = page.into_reports();
        assert_eq!(reports.iter().map(|report| report.steps).collect::<Vec<_>>(), [1, 4, 2]);
        assert_eq!(reports[0].outcome, Outcome::retry("step 2 failed"));
    }

    #[test]
    fn an_unmarked_event_is_retried() {
        let reports = three().into_reports();
        assert!(reports.iter().all(|report| matches!(report.outcome, Outcome::Retry { after: None, .. })));
    }

    #[test]
    fn a_selection_keeps_attempts_and_steps_and_drops_marks() {
        let mut page = three();
        page.reached(0, 5);
        page.delivered(0);
        let chosen = page.select(&[2, 0, 7]);
        assert_eq!(numbers(&chosen), [(3, 3, 2), (1, 1, 5)]);
        assert_eq!(chosen.outcome(1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_is_left_is_that_of_a_selection_too() {
        assert_eq!(three().time_left(), None, "nobody waits for it");
        let page = three().within(Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(4)).await;
        let left = Some(Duration::from_secs(6));
        assert_eq!((page.time_left(), page.select(&[1]).time_left()), (left, left));
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(page.time_left(), Some(Duration::ZERO));
    }

    #[test]
    fn a_place_outside_of_the_page_is_nobodys() {
        let mut page = three();
        page.reached(3, 9);
        page.delivered(3);
        assert_eq!((page.attempt(3), page.step(3), page.outcome(3)), (1, 0, None));
        assert_eq!(page.into_reports().len(), 3);
    }
}
