//! Waking up: ring only if somebody is asleep, and poll underneath, so that a lost ring costs at most one interval.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::observe::Bell;
use crate::store::{Sign, Store};

/// The sign of this process, shared by all its runners.
#[derive(Debug)]
pub(crate) struct Doorkeeper {
    pub(crate) bell: Arc<Bell>,
    sign: Mutex<Option<Raised>>,
}

#[derive(Debug, Clone)]
struct Raised {
    sign: Sign,
    until: Instant,
    /// Before the sign's xid was drawn.
    drawn: Instant,
    /// Every producer that may have missed the sign has ended.
    all_ended: bool,
}

const SIGN_LASTS: Duration = Duration::from_secs(20);

/// Producers keep quiet for at most 20 ms after a ring; this long after one was heard the next one rings again.
const RINGS_AGAIN: Duration = Duration::from_millis(30);

impl Doorkeeper {
    pub(crate) fn new() -> Self {
        Self { bell: Arc::new(Bell::default()), sign: Mutex::new(None) }
    }

    /// Makes sure the sign is up. `true`: it was not, so look once more before sleeping.
    async fn raise(&self, store: &dyn Store) -> Result<bool> {
        let now = Instant::now();
        let current = self.lock().clone();
        match current {
            Some(raised) if raised.until > now + SIGN_LASTS / 2 => Ok(false),
            Some(raised) if raised.until > now => {
                // Still up: extending it keeps the answer to who may have missed it.
                store.put_up_sign(SIGN_LASTS).await?;
                *self.lock() = Some(Raised { until: now + SIGN_LASTS, ..raised });
                Ok(false)
            }
            _ => {
                let sign = store.put_up_sign(SIGN_LASTS).await?;
                // A little less than the sign really lasts, so that we never believe in one that has come down.
                let until = now + SIGN_LASTS - Duration::from_secs(1);
                *self.lock() = Some(Raised { sign, until, drawn: now, all_ended: false });
                Ok(true)
            }
        }
    }

    /// Whether a ring is certain to come for whatever is enqueued from now on.
    async fn can_sleep(&self, store: &dyn Store) -> Result<bool> {
        if !self.bell.listening() {
            return Ok(false);
        }
        let now = Instant::now();
        let rings_again = self.bell.last_heard().map(|heard| heard + RINGS_AGAIN);
        if rings_again.is_some_and(|rings_again| rings_again > now) {
            return Ok(false);
        }
        let Some(mut raised) = self.lock().clone() else { return Ok(false) };
        if rings_again.is_some_and(|rings_again| rings_again > raised.drawn) {
            // Whoever kept quiet after that ring has its xid by now.
            raised = Raised { sign: store.draw_xid().await?, drawn: now, all_ended: false, ..raised };
            *self.lock() = Some(raised.clone());
        }
        if raised.all_ended {
            return Ok(true);
        }
        let ended = store.all_ended(&raised.sign).await?;
        if ended && let Some(current) = self.lock().as_mut() {
            current.all_ended = true;
        }
        Ok(ended)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Raised>> {
        self.sign.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// How long one runner sleeps when there is nothing to do: adaptive, never longer than the poll interval.
#[derive(Debug)]
pub(crate) struct Idle {
    pause: Duration,
    /// Whether it could have slept when it was last asked, and whether it has looked since.
    could_sleep: bool,
    looked: bool,
}

const SHORTEST: Duration = Duration::from_millis(2);
const WHILE_PRODUCERS_RUN: Duration = Duration::from_millis(250);

impl Idle {
    pub(crate) fn new() -> Self {
        Self { pause: SHORTEST, could_sleep: false, looked: false }
    }

    /// Something was found: be quick again. What could be relied on before that is to be asked anew: a ring may have kept
    /// others quiet.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// A look found nothing.
    pub(crate) fn found_nothing(&mut self) {
        self.looked = true;
    }

    /// Whether it may sleep long, if every producer rings from now on. Not before it has looked since that was first so: one that does
    /// not ring may have ended just before. A worker that settles without looking asks in between.
    fn may_sleep(&mut self, all_ring: bool) -> bool {
        let could_sleep = std::mem::replace(&mut self.could_sleep, all_ring);
        std::mem::take(&mut self.looked) && could_sleep && all_ring
    }

    /// How long to wait for the bell before looking again by oneself.
    pub(crate) async fn next_pause(
        &mut self,
        door: &Doorkeeper,
        store: &dyn Store,
        poll_interval: Duration,
    ) -> Result<Duration> {
        if door.raise(store).await? {
            self.could_sleep = false;
            return Ok(Duration::ZERO);
        }
        let all_ring = door.can_sleep(store).await?;
        let longest = match self.may_sleep(all_ring) {
            // Not past the sign's own end: nobody rings once it has come down.
            true => return Ok(poll_interval.min(SIGN_LASTS / 2)),
            false if door.bell.listening() => poll_interval.min(WHILE_PRODUCERS_RUN),
            false => poll_interval,
        };
        let pause = self.pause.min(longest);
        self.pause = (self.pause * 2).min(longest);
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sleeps_long_who_has_not_looked_since_all_ring() {
        let mut idle = Idle::new();
        idle.found_nothing();
        assert!(!idle.may_sleep(true), "what was committed before may not have rung");
        assert!(!idle.may_sleep(true), "nor was looked for since");
        idle.found_nothing();
        assert!(idle.may_sleep(true));
        idle.found_nothing();
        assert!(idle.may_sleep(true), "and again");
        idle.found_nothing();
        assert!(!idle.may_sleep(false), "somebody does not ring any more");
        idle.found_nothing();
        assert!(!idle.may_sleep(true), "and had not before the look");
        idle.reset();
        idle.found_nothing();
        assert!(!idle.may_sleep(true), "a ring may have kept others quiet");
    }
}
