//! Claims of what somebody else left: free lanes with their unfinished batches, and batches whose lease ran out.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Batch, Held, Holder, Lane, LaneClaim, Reader, Trouble};
use crate::store::rows::{isolated, leave_out};
use crate::store::{BatchRef, CLAIMS_BEFORE_MATERIALISING};
use crate::subscription::Order;

use super::SqliteStore;
use super::convert::{count_of, duration_of, handled_beyond, micros};
use super::deliveries::insert_troubles;
use super::read::{Range, load_filter, read_page};
use super::settle::mark_finished;
use super::statements::SQL;

const DOING: &str = "claim";

impl SqliteStore {
    pub(crate) async fn take_lane(&self, reader: &Reader, holder: &Holder) -> Result<Option<LaneClaim>> {
        let free: bool = sqlx::query_scalar(SQL.free_lane.clone())
            .bind(reader.id)
            .fetch_one(&self.pool)
            .await
            .map_err(Error::database(DOING))?;
        if !free {
            return Ok(None);
        }
        let mut tx = self.begin(DOING).await?;
        let token = Token::new();
        let taken = sqlx::query(SQL.claim_lane.clone())
            .bind(reader.id)
            .bind(token.text())
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let Some(row) = taken else { return Ok(None) };
        let lane = lane_of(&row);
        reached(Point::LaneMarked);
        let unfinished = take_over(&mut tx, reader, lane, token, holder).await?;
        reached(Point::LaneReread);
        tx.commit(DOING).await?;
        Ok(Some(LaneClaim { lane, token, unfinished }))
    }

    pub(crate) async fn take_expired_batch(&self, reader: &Reader, holder: &Holder) -> Result<Option<Batch>> {
        let expired: bool = sqlx::query_scalar(SQL.expired_batch.clone())
            .bind(reader.id)
            .fetch_one(&self.pool)
            .await
            .map_err(Error::database(DOING))?;
        if !expired {
            return Ok(None);
        }
        let mut tx = self.begin(DOING).await?;
        let token = Token::new();
        let taken = sqlx::query(SQL.reclaim_batch.clone())
            .bind(reader.id)
            .bind(token.text())
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let Some(row) = taken else { return Ok(None) };
        let batch = reread_batch(&mut tx, reader, lane_of(&row), token, &row).await?;
        let batch = materialise_if_lost_before(&mut tx, reader, batch, holder).await?;
        reached(Point::BatchReread);
        tx.commit(DOING).await?;
        Ok(batch)
    }
}

pub(super) fn lane_of(row: &SqliteRow) -> Lane {
    Lane { generation: row.get("generation"), number: row.get("lane"), of: row.get("lanes") }
}

/// The unfinished batches of a lane, in number order. Those lost before are materialised here.
async fn take_over(
    tx: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    token: Token,
    holder: &Holder,
) -> Result<Vec<Batch>> {
    let mut rows = sqlx::query(SQL.take_over_batches.clone())
        .bind(reader.id)
        .bind(lane.generation)
        .bind(lane.number)
        .bind(token.text())
        .bind(holder.worker.as_str())
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::database(DOING))?;
    rows.sort_by_key(|row| row.get::<i64, _>("number"));
    let mut unfinished = Vec::new();
    for row in &rows {
        let batch = reread_batch(tx, reader, lane, token, row).await?;
        unfinished.extend(materialise_if_lost_before(tx, reader, batch, holder).await?);
    }
    Ok(unfinished)
}

/// Reads the events of a claimed page again: its ends and the filter's version name them exactly.
pub(super) async fn reread_batch(
    conn: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    token: Token,
    row: &SqliteRow,
) -> Result<Batch> {
    let filter = load_filter(conn, reader.id, row.get("filter_version")).await?;
    let after = row.get::<i64, _>("seq_from") - 1;
    let range = Range { after: after.max(row.get("done_to")), upto: row.get("seq_to") };
    let mut events = read_page(conn, reader, lane, &filter, range, i64::from(u16::MAX)).await?;
    leave_out(&mut events, &handled_beyond(row)?);
    let wait = duration_of(row.get("wait")).unwrap_or_default();
    let (attempts, steps) = (count_of(row, "retry_count"), count_of(row, "steps"));
    let held = Held { done_to: row.get("done_to"), attempts, steps, wait };
    let held = (reader.order == Order::Strict).then_some(held);
    let (number, claims) = (row.get("number"), count_of(row, "claims"));
    Ok(Batch { lane, number, token, inserted_at: None, records: 0, claims, events, held })
}

/// An event may have killed the last two workers: find it out one event at a time, so that the innocent ones beside it
/// never die with it. `strict` order isolates within the batch instead.
async fn materialise_if_lost_before(
    tx: &mut SqliteConnection,
    reader: &Reader,
    batch: Batch,
    holder: &Holder,
) -> Result<Option<Batch>> {
    if batch.claims <= CLAIMS_BEFORE_MATERIALISING || reader.order == Order::Strict {
        return Ok(Some(batch));
    }
    let troubles: Vec<Trouble> =
        batch.events.iter().filter(|c| !c.elsewhere).map(|c| isolated(c, reader)).collect();
    insert_troubles(tx, reader, &troubles, holder).await?;
    let batch = BatchRef::to(&batch);
    mark_finished(tx, reader, batch).await?;
    Ok(None)
}
