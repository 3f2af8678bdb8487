//! The ledger of commits, the record of acceptances, and the checker that compares them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use posthaste::{Event, EventId};

/// One acceptance by a receiver, in the order in which they happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Which event.
    pub id: EventId,
    /// Its ordering key.
    pub key: Option<String>,
    /// Its body.
    pub payload: Vec<u8>,
}

/// Records what receivers accepted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    accepted: Arc<Mutex<Vec<Accepted>>>,
}

impl Ledger {
    /// Records an acceptance.
    pub fn accept(&self, event: &Event) {
        let accepted = Accepted { id: event.id, key: event.key.clone(), payload: event.payload.clone() };
        self.accept_raw(accepted);
    }

    /// Records an acceptance by a reader that has no [`Event`].
    pub fn accept_raw(&self, accepted: Accepted) {
        self.lock().push(accepted);
    }

    /// All acceptances so far.
    pub fn accepted(&self) -> Vec<Accepted> {
        self.lock().clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bodies in the order of acceptance, as text.
    pub fn texts(&self) -> Vec<String> {
        self.lock().iter().map(|accepted| String::from_utf8_lossy(&accepted.payload).into_owned()).collect()
    }

    /// Waits until this many were accepted.
    ///
    /// # Panics
    /// If they were not within a minute.
    pub async fn wait_for(&self, count: usize) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.len() < count {
            assert!(
                std::time::Instant::now() < deadline,
                "only {} of {count} accepted within a minute",
                self.len()
            );
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Compares with what was committed: `(id, key, place within the key, body)`.
    pub fn check(&self, committed: &[Committed]) -> Verdict {
        Verdict::of(committed, &self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Accepted>> {
        self.accepted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One committed event, as its writer knows it.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Which event.
    pub id: EventId,
    /// Its key and its place in that key's commit order, if it has one.
    pub place: Option<(String, u64)>,
    /// Its body.
    pub payload: Vec<u8>,
}

/// What the checker found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Committed events that were accepted.
    pub accepted: usize,
    /// Committed but never accepted.
    pub lost: usize,
    /// Accepted but never committed.
    pub ghosts: usize,
    /// Accepted again.
    pub duplicates: usize,
    /// First acceptances of a key out of commit order.
    pub inversions: usize,
    /// Accepted with other bytes.
    pub corrupted: usize,
}

impl Verdict {
    fn of(committed: &[Committed], accepted: &[Accepted]) -> Self {
        let known: HashMap<EventId, &Committed> = committed.iter().map(|c| (c.id, c)).collect();
        let mut verdict = Self::default();
        let mut seen: HashSet<EventId> = HashSet::new();
        let mut last: HashMap<&str, u64> = HashMap::new();
        for acceptance in accepted {
            let Some(event) = known.get(&acceptance.id) else {
                verdict.ghosts += 1;
                continue;
            };
            verdict.corrupted += usize::from(event.payload != acceptance.payload);
            if !seen.insert(acceptance.id) {
                verdict.duplicates += 1;
                continue;
            }
            if let Some((key, place)) = &event.place {
                let before = last.insert(key, *place).unwrap_or(0);
                verdict.inversions += usize::from(before > *place);
            }
        }
        verdict.accepted = seen.len();
        verdict.lost = known.len() - seen.len();
        verdict
    }

    /// Nothing lost, invented, repeated, reordered or changed.
    pub fn is_perfect(&self) -> bool {
        let Self { lost, ghosts, duplicates, inversions, corrupted, .. } = *self;
        [lost, ghosts, duplicates, inversions, corrupted] == [0; 5]
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, lost, ghosts, duplicates, inversions, corrupted } = self;
        write!(f, "accepted {accepted}, lost {lost}, ghosts {ghosts}, duplicates {duplicates}, ")?;
        write!(f, "inversions {inversions}, corrupted {corrupted}")
    }
}
