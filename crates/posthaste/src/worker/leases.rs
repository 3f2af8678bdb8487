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

    /// Takes over the answer to a renewal that was asked at `since`. Those that were asked for and are missing in it are lost,
    /// or were settled at the same moment and are about to be let go: [`lost`](Self::lost) tells a little later.
    pub(super) fn renewed(&self, still: &[Token], since: Instant, length: Duration) {
        let mut held = self.lock();
        for token in still {
            if let Some(lease) = held.get_mut(token) {
                lease.clock = LeaseClock::started(since, length);
            }
        }
    }

    /// Forgets these, and says how many were held until now.
    pub(super) fn lost(&self, missing: &[Token]) -> usize {
        let mut held = self.lock();
        missing.iter().filter(|token| held.remove(token).is_some()).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Token, HeldLease>> {
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A renewal that comes after the settlement and before its answer is no reason to warn anybody.
    #[test]
    fn what_is_let_go_meanwhile_was_not_lost() {
        let (leases, now, length) = (Leases::default(), Instant::now(), Duration::from_secs(60));
        let [kept, settled, lost] = [Token::new(), Token::new(), Token::new()];
        for token in [kept, settled, lost] {
            leases.hold(token, 1, now, length);
        }
        leases.renewed(&[kept], now, length);
        assert!(leases.may_start(settled) && leases.may_start(lost), "their own time runs on");
        leases.let_go(settled);
        assert_eq!(leases.lost(&[settled, lost]), 1);
        assert!(leases.is_held(kept) && !leases.is_held(lost));
    }
}
