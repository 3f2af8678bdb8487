//! Deliveries: claimed when due, settled under their token.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{DeliveryClaim, DeliverySettlement, Holder, Reader, Settlement};
use crate::store::rows::Change;

use super::{PgStore, duration_of, event_of, micros, steps_of};

const DOING: &str = "claim deliveries";

impl PgStore {
    pub(crate) async fn take_due_deliveries(
        &self,
        reader: &Reader,
        holder: &Holder,
        limit: u32,
        solo_allowed: bool,
    ) -> Result<Vec<DeliveryClaim>> {
        // Look first: an idle poll burns no xid and writes nothing.
        if self.time_to_next_due(reader, solo_allowed).await?.is_none_or(|wait| !wait.is_zero()) {
            return Ok(Vec::new());
        }
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.query("set local synchronous_commit = on")
            .execute(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        if reader.keyed() {
            self.lock_subscription(&mut tx, reader).await?;
        } else {
            let release = self.query(self.sql.release_parked.clone()).bind(reader.id);
            release.execute(&mut tx).await.map_err(Error::database(DOING))?;
        }
        self.take_back_expired(&mut tx, reader).await?;
        reached(Point::DueExpired);
        let token = Token::new();
        let rows = self
            .query(self.sql.claim_deliveries.clone())
            .bind(reader.id)
            .bind(token.0)
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .bind(i64::from(limit))
            .bind(solo_allowed)
            .fetch_all(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        reached(Point::DueMarked);
        tx.commit().await.map_err(Error::database(DOING))?;
        reached(Point::DueClaimed);
        rows.iter().map(|row| claim_of(row, token)).collect()
    }

    /// Expired leases and exhausted rows: none stays `processing` for ever, none at the limit is tried again.
    async fn take_back_expired(&self, tx: &mut PgConnection, reader: &Reader) -> Result<()> {
        let limit = i32::try_from(reader.settings.max_attempts).unwrap_or(i32::MAX);
        let expired = self
            .query(self.sql.expire_deliveries.clone())
            .bind(reader.id)
            .bind(limit)
            .bind(reader.settings.base_delay.as_secs_f64() * 1e6)
            .bind(reader.settings.max_delay.as_secs_f64() * 1e6)
            .bind(reader.dead_blocks())
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let buried = self
            .query(self.sql.bury_exhausted.clone())
            .bind(reader.id)
            .bind(limit)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let keys: Vec<String> = expired.iter().chain(&buried).filter_map(|row| row.get("key")).collect();
        self.promote(tx, reader, keys).await
    }

    pub(crate) async fn write_settlements(
        &self,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<i64>> {
        let doing = "settle deliveries";
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        if reader.keyed() {
            self.lock_subscription(&mut tx, reader).await?;
        }
        let mut rows = self.delete_delivered(&mut tx, reader, settlements).await?;
        reached(Point::DueDeleted);
        rows.extend(self.update_others(&mut tx, reader, settlements).await?);
        let keys = rows.iter().filter_map(|row| row.get("key")).collect();
        self.promote(&mut tx, reader, keys).await?;
        reached(Point::DuePromoted);
        tx.commit().await.map_err(Error::database(doing))?;
        Ok(rows.iter().map(|row| row.get("seq")).collect())
    }

    pub(super) async fn delete_delivered(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<PgRow>> {
        let delivered = || settlements.iter().filter(|s| s.settlement == Settlement::Delivered);
        if delivered().next().is_none() {
            return Ok(Vec::new());
        }
        self.query(self.sql.delete_deliveries.clone())
            .bind(reader.id)
            .bind(delivered().map(|s| s.seq).collect::<Vec<_>>())
            .bind(delivered().map(|s| s.token.0).collect::<Vec<_>>())
            .fetch_all(tx)
            .await
            .map_err(Error::database("settle deliveries"))
    }

    async fn update_others(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<PgRow>> {
        let changes: Vec<Change<'_>> = settlements.iter().filter_map(Change::of).collect();
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        self.query(self.sql.update_deliveries.clone())
            .bind(reader.id)
            .bind(changes.iter().map(|c| c.seq).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| c.token.0).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| c.status.as_str()).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| c.parked).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| c.give_back).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| micros(c.delay)).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| c.error).collect::<Vec<_>>())
            .bind(changes.iter().map(|c| c.outcome).collect::<Vec<_>>())
            .bind(reader.dead_blocks())
            .bind(changes.iter().map(|c| c.steps).collect::<Vec<_>>())
            .fetch_all(tx)
            .await
            .map_err(Error::database("settle deliveries"))
    }

    /// Lets the next event of each key go on, if its head has gone.
    pub(super) async fn promote(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        keys: Vec<String>,
    ) -> Result<()> {
        if keys.is_empty() || !reader.keyed() {
            return Ok(());
        }
        self.query(self.sql.promote_keys.clone())
            .bind(reader.id)
            .bind(keys)
            .bind(reader.dead_blocks())
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("release keys"))
    }

    pub(crate) async fn time_to_next_due(
        &self,
        reader: &Reader,
        solo_allowed: bool,
    ) -> Result<Option<std::time::Duration>> {
        let wait: Option<i64> = self
            .query_scalar(self.sql.next_due.clone())
            .bind(reader.id)
            .bind(solo_allowed)
            .bind(!reader.keyed())
            .fetch_one(&mut *self.lend("look for due deliveries").await?)
            .await
            .map_err(Error::database("look for due deliveries"))?;
        Ok(duration_of(wait))
    }
}

fn claim_of(row: &PgRow, token: Token) -> Result<DeliveryClaim> {
    let mut event = event_of(row)?;
    if let Some(edited) = row.get::<Option<Vec<u8>>, _>("edited_payload") {
        event.payload = edited;
    }
    Ok(DeliveryClaim {
        event,
        key: row.get("order_key"),
        attempts: u32::try_from(row.get::<i32, _>("attempts")).unwrap_or(u32::MAX),
        steps: steps_of(row),
        token,
        solo: row.get("solo"),
    })
}
