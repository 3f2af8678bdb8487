//! The leases this worker holds, on its own monotonic clock: what may still start, and what was lost.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::id::Token;
use crate::lease::LeaseClock;

#[derive(Debug, Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<Token, HeldLease>>,
}

#[derive(Debug)]
struct HeldLease {
    clock: LeaseClock,
    /// How many claims are covered by it.
    uses: usize,
}

impl Leases {
    /// A claim was made under this token. `since` was read before the claim was sent.
    pub(super) fn hold(&self, token: Token, uses: usize, since: Instant, length: Duration) {
        let clock = LeaseClock::started(since, length);
        let mut held = self.lock();
        held.entry(token).or_insert(HeldLease { clock, uses: 0 }).uses += uses;
    }

    /// One claim under this token has ended.
    pub(super) fn let_go(&self, token: Token) {
        let mut held = self.lock();
        if let Some(lease) = held.get_mut(&token) {
            lease.uses = lease.uses.saturating_sub(1);
            if lease.uses == 0 {
                held.remove(&token);
            }
        }
    }

    /// Whether a delivery under this token may start: the lease is held and cannot have run out.
    pub(super) fn may_start(&self, token: Token) -> bool {
        self.lock().get(&token).is_some_and(|lease| lease.clock.may_start())
    }

    pub(super) fn is_held(&self, token: Token) -> bool {
        self.lock().contains_key(&token)
    }

    pub(super) fn tokens(&self) -> Vec<Token> {
        self.lock().keys().copied().collect()
    }

    /// Takes over the answer to a renewal that was asked at `since` for `asked`.
    pub(super) fn renewed(
        &self,
        asked: &[Token],
        still: &[Token],
        since: Instant,
        length: Duration,
    ) -> usize {
        let mut held = self.lock();
        let mut lost = 0;
        for token in asked {
            match held.get_mut(token) {
                Some(lease) if still.contains(token) => lease.clock = LeaseClock::started(since, length),
                Some(_) => {
                    held.remove(token);
                    lost += 1;
                }
                None => {}
            }
        }
        lost
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Token, HeldLease>> {
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
