//! Deliveries: written when an event leaves the happy path, claimed when due, settled under their token.

use std::collections::HashSet;

use serde_json::{Value, json as object};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{DeliveryClaim, DeliverySettlement, Holder, Reader, Settlement, Trouble};
use crate::store::rows::{Change, DeliveryRow, delivery_rows};

use super::SqliteStore;
use super::convert::{count_of, duration_of, event_of, json, micros};
use super::statements::SQL;

const DOING: &str = "claim deliveries";
const SETTLING: &str = "settle deliveries";

impl SqliteStore {
    pub(crate) async fn take_due_deliveries(
        &self,
        reader: &Reader,
        holder: &Holder,
        limit: u32,
        solo_allowed: bool,
    ) -> Result<Vec<DeliveryClaim>> {
        // Look first: an idle poll writes nothing.
        if self.time_to_next_due(reader, solo_allowed).await?.is_none_or(|wait| !wait.is_zero()) {
            return Ok(Vec::new());
        }
        let mut tx = self.begin(DOING).await?;
        if !reader.keyed() {
            let release = sqlx::query(SQL.release_parked.clone()).bind(reader.id);
            release.execute(&mut *tx).await.map_err(Error::database(DOING))?;
        }
        take_back_expired(&mut tx, reader).await?;
        reached(Point::DueExpired);
        let token = Token::new();
        let seqs: Vec<i64> = sqlx::query_scalar(SQL.claim_deliveries.clone())
            .bind(reader.id)
            .bind(token.text())
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .bind(i64::from(limit))
            .bind(solo_allowed)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let claims = read_claimed(&mut tx, reader, &seqs, token).await?;
        reached(Point::DueMarked);
        tx.commit(DOING).await?;
        reached(Point::DueClaimed);
        Ok(claims)
    }

    pub(crate) async fn write_settlements(
        &self,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<i64>> {
        let mut tx = self.begin(SETTLING).await?;
        let mut rows = delete_delivered(&mut tx, reader, settlements).await?;
        reached(Point::DueDeleted);
        rows.extend(update_others(&mut tx, reader, settlements).await?);
        promote(&mut tx, reader, keys_of(&rows)).await?;
        reached(Point::DuePromoted);
        tx.commit(SETTLING).await?;
        Ok(rows.iter().map(|row| row.get("seq")).collect())
    }

    pub(crate) async fn time_to_next_due(
        &self,
        reader: &Reader,
        solo_allowed: bool,
    ) -> Result<Option<std::time::Duration>> {
        let wait: Option<i64> = sqlx::query_scalar(SQL.next_due.clone())
            .bind(reader.id)
            .bind(solo_allowed)
            .bind(!reader.keyed())
            .fetch_one(&self.pool)
            .await
            .map_err(Error::database("look for due deliveries"))?;
        Ok(duration_of(wait))
    }
}

/// Expired leases and exhausted rows: none stays `processing` for ever, none at the limit is tried again.
async fn take_back_expired(tx: &mut SqliteConnection, reader: &Reader) -> Result<()> {
    let mut rows = sqlx::query(SQL.expire_deliveries.clone())
        .bind(reader.id)
        .bind(i64::from(reader.settings.max_attempts))
        .bind(micros(reader.settings.base_delay))
        .bind(micros(reader.settings.max_delay))
        .bind(reader.dead_blocks())
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::database(DOING))?;
    let buried = sqlx::query(SQL.bury_exhausted.clone())
        .bind(reader.id)
        .bind(i64::from(reader.settings.max_attempts))
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::database(DOING))?;
    rows.extend(buried);
    promote(tx, reader, keys_of(&rows)).await
}

async fn read_claimed(
    tx: &mut SqliteConnection,
    reader: &Reader,
    seqs: &[i64],
    token: Token,
) -> Result<Vec<DeliveryClaim>> {
    let rows = sqlx::query(SQL.claimed_deliveries.clone())
        .bind(reader.id)
        .bind(json(&seqs)?)
        .fetch_all(tx)
        .await
        .map_err(Error::database(DOING))?;
    rows.iter().map(|row| claim_of(row, token)).collect()
}

fn claim_of(row: &SqliteRow, token: Token) -> Result<DeliveryClaim> {
    let mut event = event_of(row)?;
    if let Some(edited) = row.get::<Option<Vec<u8>>, _>("edited_payload") {
        event.payload = edited;
    }
    let (attempts, steps) = (count_of(row, "attempts"), count_of(row, "steps"));
    Ok(DeliveryClaim { event, key: row.get("order_key"), attempts, steps, token, solo: row.get("solo") })
}

pub(super) async fn delete_delivered(
    tx: &mut SqliteConnection,
    reader: &Reader,
    settlements: &[DeliverySettlement],
) -> Result<Vec<SqliteRow>> {
    let delivered: Vec<Value> = settlements
        .iter()
        .filter(|s| s.settlement == Settlement::Delivered)
        .map(|s| object!({ "seq": s.seq, "token": s.token.0 }))
        .collect();
    write_list(tx, SQL.delete_deliveries.clone(), reader, &delivered).await
}

async fn update_others(
    tx: &mut SqliteConnection,
    reader: &Reader,
    settlements: &[DeliverySettlement],
) -> Result<Vec<SqliteRow>> {
    let changes: Vec<Value> =
        settlements.iter().filter_map(Change::of).map(|change| change_json(&change, reader)).collect();
    write_list(tx, SQL.update_deliveries.clone(), reader, &changes).await
}

async fn write_list(
    tx: &mut SqliteConnection,
    statement: sqlx::SqlStr,
    reader: &Reader,
    list: &[Value],
) -> Result<Vec<SqliteRow>> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query(statement)
        .bind(reader.id)
        .bind(json(&list)?)
        .fetch_all(tx)
        .await
        .map_err(Error::database(SETTLING))
}

fn keys_of(rows: &[SqliteRow]) -> Vec<String> {
    rows.iter().filter_map(|row| row.get("key")).collect()
}

/// Lets the next event of each key go on, if its head has gone.
pub(super) async fn promote(tx: &mut SqliteConnection, reader: &Reader, keys: Vec<String>) -> Result<()> {
    if keys.is_empty() || !reader.keyed() {
        return Ok(());
    }
    sqlx::query(SQL.promote_keys.clone())
        .bind(reader.id)
        .bind(json(&keys)?)
        .bind(reader.dead_blocks())
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database("release keys"))
}

/// Writes delivery rows; returns the seqs that were written.
pub(super) async fn insert_troubles(
    tx: &mut SqliteConnection,
    reader: &Reader,
    troubles: &[Trouble],
    holder: &Holder,
) -> Result<HashSet<i64>> {
    if troubles.is_empty() {
        return Ok(HashSet::new());
    }
    let blocked = keys_blocked(tx, reader, troubles).await?;
    let rows: Vec<Value> =
        delivery_rows(troubles, blocked, reader.dead_blocks()).iter().map(row_json).collect();
    let written: Vec<i64> = sqlx::query_scalar(SQL.insert_deliveries.clone())
        .bind(reader.id)
        .bind(holder.worker.as_str())
        .bind(micros(holder.lease))
        .bind(json(&rows)?)
        .fetch_all(tx)
        .await
        .map_err(Error::database("write deliveries"))?;
    reached(Point::TroublesWritten);
    Ok(written.into_iter().collect())
}

async fn keys_blocked(
    tx: &mut SqliteConnection,
    reader: &Reader,
    troubles: &[Trouble],
) -> Result<HashSet<String>> {
    let keys: Vec<&str> = troubles.iter().filter_map(|trouble| trouble.key.as_deref()).collect();
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let blocked: Vec<String> = sqlx::query_scalar(SQL.blocked_keys.clone())
        .bind(reader.id)
        .bind(json(&keys)?)
        .bind(reader.dead_blocks())
        .fetch_all(tx)
        .await
        .map_err(Error::database("check keys"))?;
    Ok(blocked.into_iter().collect())
}

/// A row in the terms of insert_deliveries.sql.
fn row_json(row: &DeliveryRow) -> Value {
    object!({
        "seq": row.seq,
        "event_id": row.event_id,
        "key": row.key,
        "status": row.status.as_str(),
        "parked": row.parked,
        "solo": row.solo,
        "attempts": row.attempts,
        "steps": row.steps,
        "due_at": row.due_at.map(|time| time.timestamp_micros()),
        "delay": micros(row.delay),
        "token": row.token.map(|token| token.0),
        "error": row.error,
        "outcome": row.outcome,
    })
}

/// A change in the terms of update_deliveries.sql.
fn change_json(change: &Change<'_>, reader: &Reader) -> Value {
    object!({
        "seq": change.seq,
        "token": change.token.0,
        "status": change.status.as_str(),
        "parked": change.parked,
        "give_back": change.give_back,
        "steps": change.steps,
        "delay": micros(change.delay),
        "error": change.error,
        "outcome": change.outcome,
        "dead_blocks": reader.dead_blocks(),
    })
}
