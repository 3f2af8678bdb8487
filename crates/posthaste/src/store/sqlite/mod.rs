//! SQLite (placeholder until the branch is merged).

use crate::error::Result;
use crate::event::{Enqueued, NewEvent};

#[derive(Debug, Clone)]
pub(crate) struct SqliteStore;

impl SqliteStore {
    pub(crate) async fn enqueue(
        &self,
        _: &mut sqlx::SqliteConnection,
        _: &[NewEvent],
    ) -> Result<Vec<Enqueued>> {
        Ok(Vec::new())
    }
}
