//! Smaller questions of people: which keys wait, how many deliveries a verb would be for, where an event was read.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::outcome::DeliveryStatus;
use crate::store::admin::{BlockedKey, Count, DeliveryQuery, Operation, Reading};
use crate::store::postgres::PgStore;

/// Batches of each lane that are searched for an event: a journal of a day may hold millions.
const JOURNAL_DEPTH: i64 = 10_000;

impl PgStore {
    pub(super) async fn readings_of(&self, event: &Event) -> Result<Vec<Reading>> {
        let rows = self
            .query(self.sql.admin_readings.clone())
            .bind(event.seq)
            .bind(JOURNAL_DEPTH)
            .fetch_all(&mut *self.lend("look into the journal").await?)
            .await
            .map_err(Error::database("look into the journal"))?;
        let reading = |row: &PgRow| Reading {
            subscription: row.get("subscription"),
            claimed_at: row.get("claimed_at"),
            finished_at: row.get("finished_at"),
            worker: row.get("worker"),
        };
        Ok(rows.iter().map(reading).collect())
    }

    pub(super) async fn list_blocked(&self, name: &str, look_at: u32, limit: u32) -> Result<Vec<BlockedKey>> {
        let reader = self.load_reader(name).await?;
        let rows = self
            .query(self.sql.admin_blocked_keys.clone())
            .bind(reader.id)
            .bind(i64::from(look_at))
            .bind(reader.dead_blocks())
            .bind(i64::from(limit))
            .fetch_all(&mut *self.lend("list blocked keys").await?)
            .await
            .map_err(Error::database("list blocked keys"))?;
        rows.iter().map(blocked_key).collect()
    }

    pub(super) async fn count_matching(&self, query: &DeliveryQuery, limit: u32) -> Result<Count> {
        let reader = self.load_reader(&query.subscription).await?;
        let ids: Vec<uuid::Uuid> = query.events.iter().map(|id| id.0).collect();
        let found: i64 = self
            .query_scalar(self.sql.admin_count_deliveries.clone())
            .bind(reader.id)
            .bind(0_i64)
            .bind(query.status.map(DeliveryStatus::as_str))
            .bind((!ids.is_empty()).then_some(ids))
            .bind(&query.error_contains)
            .bind(&query.key)
            .bind(&query.topic)
            .bind(&query.event_type)
            .bind(i64::from(limit) + 1)
            .fetch_one(&mut *self.lend("count deliveries").await?)
            .await
            .map_err(Error::database("count deliveries"))?;
        Ok(Count::up_to(u64::from(limit), found.unsigned_abs()))
    }

    pub(super) async fn list_operations(&self, limit: u32) -> Result<Vec<Operation>> {
        let rows = self
            .query(self.sql.admin_operations.clone())
            .bind(i64::from(limit))
            .fetch_all(&mut *self.lend("list operations").await?)
            .await
            .map_err(Error::database("list operations"))?;
        Ok(rows.iter().map(operation).collect())
    }

    pub(super) async fn list_operations_on(&self, id: EventId) -> Result<Vec<Operation>> {
        let rows = self
            .query(self.sql.admin_operations_on.clone())
            .bind(id.0)
            .fetch_all(&mut *self.lend("list operations").await?)
            .await
            .map_err(Error::database("list operations"))?;
        Ok(rows.iter().map(operation).collect())
    }
}

fn operation(row: &PgRow) -> Operation {
    Operation {
        at: row.get("at"),
        who: row.get("who"),
        verb: row.get("verb"),
        subscription: row.get("subscription"),
        event: row.get::<Option<uuid::Uuid>, _>("event_id").map(EventId),
        detail: row.get("detail"),
    }
}

fn blocked_key(row: &PgRow) -> Result<BlockedKey> {
    let word: String = row.get("status");
    let waiting = row.get::<i64, _>("waiting").unsigned_abs();
    Ok(BlockedKey {
        key: row.get("key"),
        waiting: Count::up_to(u64::MAX, waiting).at_least(row.get("cut")),
        head: EventId(row.get("event_id")),
        since: row.get("since"),
        status: DeliveryStatus::parse(&word)
            .ok_or_else(|| Error::Corrupt(format!("`{word}` is not a status")))?,
        attempts: u32::try_from(row.get::<i32, _>("attempts")).unwrap_or(0),
        next_attempt_at: row.get("next_attempt_at"),
        last_error: row.get("last_error"),
    })
}
