//! Connections that answered a moment ago, for whoever asks next.
//!
//! The pool asks a connection whether it is alive when it is given back, and once more when it is lent: two round trips around
//! each claim and each settlement. One that has just answered need not be asked; it could break just as well after having
//! said that it is alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::task::JoinHandle;

use super::deadline::Lent;
use super::{Memory, PgStore};

/// After this time it goes back to the pool. Longer than a worker rests between two claims.
const KEPT_FOR: Duration = Duration::from_millis(100);
/// So often it is asked whether somebody else may be waiting for it: then it goes back at once.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(5);
/// One that was lent so long ago is not kept, however often it is wanted: only where it is given back the pool sees that it is too old, and
/// does what the application asked it to do with each.
pub(super) const LENT_FOR: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Kept {
    shelf: Mutex<Shelf>,
    lasting: Duration,
}

impl Default for Kept {
    fn default() -> Self {
        Self::lasting(KEPT_FOR)
    }
}

#[derive(Debug, Default)]
struct Shelf {
    conns: Vec<(Instant, Lent)>,
    /// Gives back what nobody wants.
    watcher: Option<JoinHandle<()>>,
}

impl Shelf {
    /// A watcher ends early if its runtime does.
    fn is_watched(&self) -> bool {
        self.watcher.as_ref().is_some_and(|watcher| !watcher.is_finished())
    }
}

impl Kept {
    /// Keeps each for so long.
    pub(super) fn lasting(lasting: Duration) -> Self {
        Self { shelf: Mutex::default(), lasting }
    }

    /// The one that answered last.
    pub(super) fn take(&self) -> Option<Lent> {
        let (since, conn) = self.lock().conns.pop()?;
        (since.elapsed() < self.lasting).then_some(conn)
    }

    /// What nobody wanted for too long, or everything if the pool has no other. `None`: nothing is left to watch.
    pub(super) fn clear_away(&self, spare: bool) -> Option<Vec<(Instant, Lent)>> {
        let mut shelf = self.lock();
        if shelf.conns.is_empty() {
            shelf.watcher = None;
            return None;
        }
        let unwanted = |(since, _): &mut (Instant, Lent)| !spare || since.elapsed() >= self.lasting;
        Some(shelf.conns.extract_if(.., unwanted).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PgStore {
    /// Keeps a connection that has answered to the end, unless the pool has no other: then somebody may be waiting for it.
    pub(super) fn keep(&self, conn: Lent) {
        if !has_spare(&self.pool) || conn.since.elapsed() >= LENT_FOR {
            return;
        }
        let mut shelf = self.memory.kept.lock();
        shelf.conns.push((Instant::now(), conn));
        if !shelf.is_watched() {
            shelf.watcher = Some(tokio::spawn(give_back(self.memory.clone(), self.pool.clone())));
        }
    }
}

/// Whether nobody has to wait for a connection that is kept. Whoever closes a pool waits for all of them.
pub(super) fn has_spare(pool: &PgPool) -> bool {
    !pool.is_closed() && (pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections())
}

/// Whatever is dropped goes back to the pool.
async fn give_back(memory: Arc<Memory>, pool: PgPool) {
    loop {
        tokio::time::sleep(LOOKED_AT_EVERY).await;
        let Some(unwanted) = memory.kept.clear_away(has_spare(&pool)) else { return };
        drop(unwanted);
    }
}
