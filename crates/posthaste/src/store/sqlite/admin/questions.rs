//! Smaller questions of people: which keys wait, how many deliveries a verb would be for, where an event was read.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::fmt::Hyphenated;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::outcome::DeliveryStatus;
use crate::store::admin::{BlockedKey, Count, DeliveryQuery, Operation, Reading};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::convert::{count_of, json, time_of};
use crate::store::sqlite::statements::SQL;

/// Batches of each lane that are searched for an event: a journal of a day may hold millions.
const JOURNAL_DEPTH: i64 = 10_000;

impl SqliteStore {
    pub(super) async fn readings_of(&self, event: &Event) -> Result<Vec<Reading>> {
        let doing = "look into the journal";
        let rows = sqlx::query(SQL.admin_readings.clone())
            .bind(event.seq)
            .bind(JOURNAL_DEPTH)
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database(doing))?;
        rows.iter().map(reading).collect::<sqlx::Result<_>>().map_err(Error::database(doing))
    }

    pub(super) async fn list_blocked(&self, name: &str, look_at: u32, limit: u32) -> Result<Vec<BlockedKey>> {
        let reader = self.load_reader(name).await?;
        let rows = sqlx::query(SQL.admin_blocked_keys.clone())
            .bind(reader.id)
            .bind(i64::from(look_at))
            .bind(reader.dead_blocks())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database("list blocked keys"))?;
        rows.iter().map(blocked_key).collect()
    }

    pub(super) async fn count_matching(&self, query: &DeliveryQuery, limit: u32) -> Result<Count> {
        let reader = self.load_reader(&query.subscription).await?;
        let ids: Vec<uuid::Uuid> = query.events.iter().map(|id| id.0).collect();
        let found: i64 = sqlx::query_scalar(SQL.admin_count_deliveries.clone())
            .bind(reader.id)
            .bind(0_i64)
            .bind(query.status.map(DeliveryStatus::as_str))
            .bind((!ids.is_empty()).then(|| json(&ids)).transpose()?)
            .bind(&query.error_contains)
            .bind(&query.key)
            .bind(&query.topic)
            .bind(&query.event_type)
            .bind(i64::from(limit) + 1)
            .fetch_one(&self.pool)
            .await
            .map_err(Error::database("count deliveries"))?;
        Ok(Count::up_to(u64::from(limit), found.unsigned_abs()))
    }

    pub(super) async fn list_operations(&self, limit: u32) -> Result<Vec<Operation>> {
        let rows = sqlx::query(SQL.admin_operations.clone())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database("list operations"))?;
        operations(&rows)
    }

    pub(super) async fn list_operations_on(&self, id: EventId) -> Result<Vec<Operation>> {
        let rows = sqlx::query(SQL.admin_operations_on.clone())
            .bind(id.0.hyphenated())
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database("list operations"))?;
        operations(&rows)
    }
}

fn reading(row: &SqliteRow) -> sqlx::Result<Reading> {
    Ok(Reading {
        subscription: row.try_get("subscription")?,
        claimed_at: time_of(row, "claimed_at")?.unwrap_or_default(),
        finished_at: time_of(row, "finished_at")?,
        worker: row.try_get("worker")?,
    })
}

fn operations(rows: &[SqliteRow]) -> Result<Vec<Operation>> {
    let operation = |row: &SqliteRow| {
        Ok(Operation {
            at: time_of(row, "at")?.unwrap_or_default(),
            who: row.try_get("who")?,
            verb: row.try_get("verb")?,
            subscription: row.try_get("subscription")?,
            event: row.try_get::<Option<Hyphenated>, _>("event_id")?.map(|id| EventId(id.into_uuid())),
            detail: row.try_get("detail")?,
        })
    };
    rows.iter().map(operation).collect::<sqlx::Result<_>>().map_err(Error::database("list operations"))
}

fn blocked_key(row: &SqliteRow) -> Result<BlockedKey> {
    let word: String = row.get("status");
    let waiting = row.get::<i64, _>("waiting").unsigned_abs();
    let time = |column| time_of(row, column).map_err(Error::database("list blocked keys"));
    Ok(BlockedKey {
        key: row.get("key"),
        waiting: Count::up_to(u64::MAX, waiting).at_least(row.get("cut")),
        head: EventId(row.get::<Hyphenated, _>("event_id").into_uuid()),
        since: time("since")?.unwrap_or_default(),
        status: DeliveryStatus::parse(&word)
            .ok_or_else(|| Error::Corrupt(format!("`{word}` is not a status")))?,
        attempts: count_of(row, "attempts"),
        next_attempt_at: time("next_attempt_at")?.unwrap_or_default(),
        last_error: row.get("last_error"),
    })
}
