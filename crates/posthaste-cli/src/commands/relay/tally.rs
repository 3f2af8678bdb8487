//! What the relay delivered, what is under way, and what was cut off: the last sentence of a stop must be true.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by all sinks of a relay, also by those that a reload took away.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Mutex<Counts>,
}

/// Numbers of events.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    delivered: u64,
    under_way: u64,
    cut_off: u64,
}

/// Events in the hands of a sink. Dropped before it has [ended](Self::end), their delivery was cut off.
#[derive(Debug)]
#[must_use]
pub(crate) struct UnderWay {
    tally: Arc<Tally>,
    events: u64,
    ended: bool,
}

impl Tally {
    pub(crate) fn begin(self: &Arc<Self>, events: usize) -> UnderWay {
        let events = events as u64;
        self.counts().under_way += events;
        UnderWay { tally: self.clone(), events, ended: false }
    }

    /// A worker that has ended had delivered so many.
    pub(crate) fn add_delivered(&self, events: u64) {
        self.counts().delivered += events;
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.counts().delivered
    }

    /// How many deliveries did not come to an end so far: they still run, or they were cut off.
    pub(crate) fn unfinished(&self) -> u64 {
        let counts = *self.counts();
        counts.under_way + counts.cut_off
    }

    pub(crate) fn cut_off(&self) -> u64 {
        self.counts().cut_off
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// The sink has said what became of them.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut counts = self.tally.counts();
        counts.under_way -= self.events;
        if !self.ended {
            counts.cut_off += self.events;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_that_is_dropped_counts_as_cut_off_and_one_that_ended_does_not() {
        let tally = Arc::new(Tally::default());
        let (ended, dropped) = (tally.begin(2), tally.begin(3));
        assert_eq!((tally.unfinished(), tally.cut_off()), (5, 0));
        ended.end();
        assert_eq!((tally.unfinished(), tally.cut_off()), (3, 0));
        drop(dropped);
        assert_eq!((tally.unfinished(), tally.cut_off()), (3, 3));
    }
}
