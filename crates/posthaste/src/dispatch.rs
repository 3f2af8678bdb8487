//! Dispatch: which claimed event may start when. Order lives here, as queues in memory; leases and settling do not.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::event::Event;
use crate::id::Token;

/// One claimed event on its way through a worker.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) event: Arc<Event>,
    /// The key whose order it is part of.
    pub(crate) key: Option<String>,
    /// Attempts counted so far, the one that is made now included.
    pub(crate) attempts: u32,
    /// Steps finished so far.
    pub(crate) steps: u32,
    pub(crate) source: Source,
    /// The token whose lease covers it.
    pub(crate) token: Token,
    /// Claimed alone, because a worker was lost while holding it.
    pub(crate) solo: bool,
    /// When it first found the receiver away.
    pub(crate) away_since: Option<Instant>,
    /// All that waited behind it left for the database while it ran: its end moves no queue any more.
    pub(crate) detached: bool,
}

/// What has to be settled when a work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A place in the batch of this number.
    Batch(i64),
    /// A delivery row.
    Delivery,
}

/// Keys that are under way in another page.
#[derive(Debug, Default)]
pub(crate) struct BusyKeys(HashSet<String>);

impl BusyKeys {
    /// Those of these works.
    pub(crate) fn of<'w>(works: impl Iterator<Item = &'w Work>) -> Self {
        Self(works.filter_map(|work| work.key.clone()).collect())
    }

    /// Whether a work has not to wait for any of them.
    fn leave_free(&self, work: &Work) -> bool {
        self.0.is_empty() || !work.key.as_ref().is_some_and(|key| self.0.contains(key))
    }
}

/// The queues of one runner: per key one event at a time, in the order of intake.
///
/// A receiver of whole pages gets the followers of a key along with it, in order, and must not pass over one: then all
/// are ready, and no key is in two pages at once.
#[derive(Debug)]
pub(crate) struct KeyQueues {
    pages: bool,
    /// May start as soon as there is a slot.
    ready: VecDeque<Work>,
    /// Waits behind an event of its key that is ready or running.
    behind: HashMap<String, VecDeque<Work>>,
    waiting: usize,
}

impl KeyQueues {
    pub(crate) fn new(pages: bool) -> Self {
        Self { pages, ready: VecDeque::new(), behind: HashMap::new(), waiting: 0 }
    }

    /// Adds a work: ready at once, unless an earlier one of its key is still in here.
    pub(crate) fn add(&mut self, work: Work) {
        let Some(key) = work.key.clone().filter(|_| !self.pages) else { return self.ready.push_back(work) };
        match self.behind.get_mut(&key) {
            Some(queue) => {
                queue.push_back(work);
                self.waiting += 1;
            }
            None => {
                self.behind.insert(key, VecDeque::new());
                self.ready.push_back(work);
            }
        }
    }

    /// The next work to start, unless it has to wait for one of these keys.
    pub(crate) fn next(&mut self, busy: &BusyKeys) -> Option<Work> {
        self.ready.pop_front_if(|work| busy.leave_free(work))
    }

    /// The next works to start, for as long as they are covered by this lease and have not to wait for one of these keys.
    pub(crate) fn next_of(
        &mut self,
        token: Token,
        most: usize,
        busy: &BusyKeys,
    ) -> impl Iterator<Item = Work> + '_ {
        let covered = |work: &&Work| work.token == token && busy.leave_free(work);
        let same = self.ready.iter().take(most).take_while(covered).count();
        self.ready.drain(..same)
    }

    /// How many could start one after the other before one has to wait for one of these keys.
    pub(crate) fn free_of(&self, busy: &BusyKeys, most: usize) -> usize {
        self.ready.iter().take(most).take_while(|work| busy.leave_free(work)).count()
    }

    /// Puts a started work back in front: it was not tried after all.
    pub(crate) fn put_back(&mut self, work: Work) {
        self.ready.push_front(work);
    }

    /// The first key goes to the end with all that is ready of it, so that the next one to start is of another key.
    pub(crate) fn turn(&mut self) {
        let Some(first) = self.ready.pop_front() else { return };
        let key = first.key.clone();
        let (same, others): (VecDeque<Work>, VecDeque<Work>) =
            self.ready.drain(..).partition(|work| key.is_some() && work.key == key);
        self.ready = others;
        self.ready.push_back(first);
        self.ready.extend(same);
    }

    /// Whether works of at least two keys could start. One without a key is alone with itself.
    pub(crate) fn has_choice(&self) -> bool {
        let mut ready = self.ready.iter();
        let Some(first) = ready.next() else { return false };
        ready.any(|work| work.key.is_none() || work.key != first.key)
    }

    /// A work was delivered: the next one of its key is ready.
    pub(crate) fn release(&mut self, key: Option<&str>) {
        let Some(key) = key.filter(|_| !self.pages) else { return };
        match self.behind.get_mut(key).and_then(VecDeque::pop_front) {
            Some(next) => {
                self.waiting -= 1;
                self.ready.push_back(next);
            }
            None => {
                self.behind.remove(key);
            }
        }
    }

    /// A work was not delivered: all that wait behind it leave, in order.
    pub(crate) fn park(&mut self, key: Option<&str>) -> Vec<Work> {
        if self.pages && key.is_some() {
            let (left, ready): (VecDeque<Work>, VecDeque<Work>) =
                self.ready.drain(..).partition(|work| work.key.as_deref() == key);
            self.ready = ready;
            return left.into();
        }
        let left = key.and_then(|key| self.behind.remove(key)).unwrap_or_default();
        self.waiting -= left.len();
        left.into()
    }

    /// Everything that has not started leaves, in seq order.
    pub(crate) fn drain(&mut self) -> Vec<Work> {
        self.waiting = 0;
        let queued = self.behind.drain().flat_map(|(_, queue)| queue);
        let mut left: Vec<Work> = self.ready.drain(..).chain(queued).collect();
        left.sort_by_key(|work| work.event.seq);
        left
    }

    /// Whether one of them was claimed alone.
    pub(crate) fn any_solo(&self) -> bool {
        self.ready.iter().chain(self.behind.values().flatten()).any(|work| work.solo)
    }

    /// Works that wait behind others.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Works that could start.
    pub(crate) fn startable(&self) -> usize {
        self.ready.len()
    }
}

/// How many events a worker handles at the same time, over all its runners.
#[derive(Debug)]
pub(crate) struct Slots {
    used: AtomicUsize,
    limit: AtomicUsize,
    freed: Notify,
}

impl Slots {
    pub(crate) fn new(limit: u32) -> Arc<Self> {
        let limit = AtomicUsize::new(limit as usize);
        Arc::new(Self { used: AtomicUsize::new(0), limit, freed: Notify::new() })
    }

    pub(crate) fn resize(&self, limit: u32) {
        self.limit.store(limit as usize, Ordering::SeqCst);
        self.freed.notify_waiters();
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let limit = self.limit.load(Ordering::SeqCst);
        let more = |used: usize| (used < limit).then_some(used + 1);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| Slot(self.clone()))
    }

    #[cfg(feature = "testing")]
    pub(crate) fn all_free(&self) -> bool {
        self.used.load(Ordering::SeqCst) == 0
    }

    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

/// A taken slot; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        // Only a slot that somebody can have waited for: two runners that take and drop slots while the receiver is away
        // would otherwise wake each other for ever.
        if self.0.used.fetch_sub(1, Ordering::SeqCst) >= self.0.limit.load(Ordering::SeqCst) {
            self.0.freed.notify_waiters();
        }
    }
}

/// Whether the receiver is there. While it is away nothing starts but one probe at a time, with growing pauses.
#[derive(Debug, Default)]
pub(crate) struct Availability {
    away: Mutex<Option<Away>>,
    /// When somebody last reached it.
    reached: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, Copy)]
struct Away {
    until: Instant,
    pause: Duration,
    probing: bool,
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

impl Availability {
    /// Whether a delivery may start now. While the receiver is away this admits the probe, once per pause.
    pub(crate) fn admit(&self) -> bool {
        let mut away = self.lock();
        match away.as_mut() {
            None => true,
            Some(away) if !away.probing && away.until <= Instant::now() => {
                away.probing = true;
                true
            }
            Some(_) => false,
        }
    }

    /// How long until the next probe may start.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let away = *self.lock();
        away.filter(|away| !away.probing).map(|away| away.until.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn is_away(&self) -> bool {
        self.lock().is_some()
    }

    /// A probe ended without an answer: the next may start.
    pub(crate) fn probe_again(&self) {
        if let Some(away) = self.lock().as_mut() {
            away.probing = false;
        }
    }

    pub(crate) fn came_back(&self) {
        *self.lock() = None;
        *self.reached.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether somebody has reached the receiver after this moment.
    pub(crate) fn reached_since(&self, moment: Instant) -> bool {
        let reached = *self.reached.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        reached.is_some_and(|reached| reached > moment)
    }

    /// The receiver could not be reached. Only the first report and failed probes lengthen the pause: the other
    /// deliveries that were under way say nothing new.
    pub(crate) fn went_away(&self) {
        let mut away = self.lock();
        let pause = match *away {
            None => FIRST_PAUSE,
            Some(away) if away.probing => (away.pause * 2).min(LONGEST_PAUSE),
            Some(_) => return,
        };
        let jittered = pause / 2 + (pause / 2).mul_f64(fastrand::f64());
        *away = Some(Away { until: Instant::now() + jittered, pause, probing: false });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Away>> {
        self.away.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
