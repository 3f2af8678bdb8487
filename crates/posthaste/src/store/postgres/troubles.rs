//! Delivery rows for events that left the happy path, and the lock under which keys are parked and released.

use std::collections::HashSet;

use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::lease::{Holder, Reader, Trouble};
use crate::store::rows::{DeliveryRow, delivery_rows};

use super::{PgStore, micros};

impl PgStore {
    /// Writes delivery rows, under the subscription's lock in `key` order; returns the seqs that were written.
    pub(super) async fn insert_troubles(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<HashSet<i64>> {
        if troubles.is_empty() {
            return Ok(HashSet::new());
        }
        let blocked = self.keys_blocked(tx, reader, troubles).await?;
        let rows = delivery_rows(troubles, blocked, reader.dead_blocks());
        let column = |of: fn(&DeliveryRow) -> i64| rows.iter().map(of).collect::<Vec<_>>();
        let written = self
            .query(self.sql.insert_deliveries.clone())
            .bind(reader.id)
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .bind(column(|row| row.seq))
            .bind(rows.iter().map(|row| row.event_id.0).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.key.as_deref()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.parked).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.solo).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| i32::try_from(row.attempts).unwrap_or(i32::MAX)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.due_at).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| micros(row.delay)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.token.map(|token| token.0)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.error.as_deref()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.outcome).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.steps).collect::<Vec<_>>())
            .fetch_all(tx)
            .await
            .map_err(Error::database("write deliveries"))?;
        reached(Point::TroublesWritten);
        Ok(written.iter().map(|row| row.get::<i64, _>("seq")).collect())
    }

    async fn keys_blocked(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        troubles: &[Trouble],
    ) -> Result<HashSet<String>> {
        let keys: Vec<&str> = troubles.iter().filter_map(|trouble| trouble.key.as_deref()).collect();
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let rows = self
            .query_scalar(self.sql.blocked_keys.clone())
            .bind(reader.id)
            .bind(keys)
            .bind(reader.dead_blocks())
            .fetch_all(tx)
            .await
            .map_err(Error::database("check keys"))?;
        Ok(rows.into_iter().collect())
    }

    /// The first lock of every transaction that parks or releases keys.
    pub(super) async fn lock_subscription(&self, tx: &mut PgConnection, reader: &Reader) -> Result<()> {
        self.query(self.sql.lock_subscription.clone())
            .bind(reader.id)
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("lock a subscription"))
    }
}
