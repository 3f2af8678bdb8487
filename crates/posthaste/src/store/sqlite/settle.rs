//! Settling, holding, renewing and giving back: every write checks the token, and zero rows means the lease was lost.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::SqliteConnection;
use uuid::fmt::Hyphenated;

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Holder, Lane, Reader, Trouble};
use crate::store::rows::small;
use crate::store::{BatchRef, Handled, Hold};

use super::SqliteStore;
use super::convert::{json, micros};
use super::deliveries::insert_troubles;
use super::statements::SQL;

const DOING: &str = "settle a batch";

impl SqliteStore {
    pub(crate) async fn finish_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        let mut tx = self.begin(DOING).await?;
        if !mark_finished(&mut tx, reader, batch).await? {
            return Ok(false);
        }
        reached(Point::BatchFinished);
        insert_troubles(&mut tx, reader, troubles, holder).await?;
        tx.commit(DOING).await?;
        Ok(true)
    }

    pub(crate) async fn record_progress(
        &self,
        reader: &Reader,
        batch: BatchRef,
        handled: &Handled,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        let doing = "record what was handled";
        let mut tx = self.begin(doing).await?;
        let beyond = if handled.beyond.is_empty() { None } else { Some(json(&handled.beyond)?) };
        let done = sqlx::query(SQL.record_batch.clone())
            .bind(reader.id)
            .bind(batch.lane.generation)
            .bind(batch.lane.number)
            .bind(batch.number)
            .bind(batch.token.text())
            .bind(handled.to)
            .bind(beyond)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        reached(Point::ProgressNoted);
        insert_troubles(&mut tx, reader, troubles, holder).await?;
        tx.commit(doing).await?;
        Ok(true)
    }

    pub(crate) async fn record_hold(
        &self,
        reader: &Reader,
        batch: BatchRef,
        hold: &Hold,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        let doing = "hold a batch";
        let mut tx = self.begin(doing).await?;
        let done = sqlx::query(SQL.hold_batch.clone())
            .bind(reader.id)
            .bind(batch.lane.generation)
            .bind(batch.lane.number)
            .bind(batch.number)
            .bind(batch.token.text())
            .bind(hold.done_to)
            .bind(i64::from(hold.attempts))
            .bind(micros(hold.delay))
            .bind(&hold.error)
            .bind(small(hold.steps))
            .execute(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        reached(Point::HoldNoted);
        insert_troubles(&mut tx, reader, troubles, holder).await?;
        tx.commit(doing).await?;
        Ok(true)
    }

    pub(crate) async fn renew_leases(
        &self,
        reader: &Reader,
        tokens: &[Token],
        lease: Duration,
    ) -> Result<Vec<Token>> {
        let doing = "renew leases";
        let list = json(&tokens.iter().map(|token| token.0).collect::<Vec<_>>())?;
        let mut tx = self.begin(doing).await?;
        let mut held = HashSet::new();
        for statement in [&SQL.renew_lanes, &SQL.renew_batches, &SQL.renew_deliveries] {
            let renewed: Vec<Hyphenated> = sqlx::query_scalar(statement.clone())
                .bind(reader.id)
                .bind(&list)
                .bind(micros(lease))
                .fetch_all(&mut *tx)
                .await
                .map_err(Error::database(doing))?;
            held.extend(renewed.into_iter().map(|token| Token(token.into_uuid())));
        }
        tx.commit(doing).await?;
        Ok(held.into_iter().collect())
    }

    pub(crate) async fn give_lane_back(&self, reader: &Reader, lane: Lane, token: Token) -> Result<()> {
        let doing = "release a lane";
        let mut tx = self.begin(doing).await?;
        // In this order: without the first nothing is the token's, and the second changes nothing either.
        for statement in [&SQL.release_lane, &SQL.release_lane_batches] {
            sqlx::query(statement.clone())
                .bind(reader.id)
                .bind(lane.generation)
                .bind(lane.number)
                .bind(token.text())
                .execute(&mut *tx)
                .await
                .map_err(Error::database(doing))?;
        }
        tx.commit(doing).await
    }

    pub(crate) async fn say_goodbye(&self, reader: &Reader, holder: &Holder) -> Result<()> {
        let doing = "dismiss a worker";
        let mut tx = self.begin(doing).await?;
        sqlx::query(SQL.dismiss_worker.clone())
            .bind(reader.id)
            .bind(holder.worker.as_str())
            .execute(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        tx.commit(doing).await
    }

    pub(crate) async fn say_alive(&self, reader: &Reader, holder: &Holder) -> Result<u32> {
        let doing = "announce a worker";
        let mut tx = self.begin(doing).await?;
        for statement in [&SQL.announce_worker, &SQL.forget_workers] {
            sqlx::query(statement.clone())
                .bind(reader.id)
                .bind(holder.worker.as_str())
                .bind(micros(holder.lease))
                .execute(&mut *tx)
                .await
                .map_err(Error::database(doing))?;
        }
        let alive: i64 = sqlx::query_scalar(SQL.count_workers.clone())
            .bind(reader.id)
            .bind(holder.worker.as_str())
            .fetch_one(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        tx.commit(doing).await?;
        Ok(u32::try_from(alive).unwrap_or(1))
    }
}

pub(super) async fn mark_finished(
    conn: &mut SqliteConnection,
    reader: &Reader,
    batch: BatchRef,
) -> Result<bool> {
    let done = sqlx::query(SQL.finish_batch.clone())
        .bind(reader.id)
        .bind(batch.lane.generation)
        .bind(batch.lane.number)
        .bind(batch.number)
        .bind(batch.token.text())
        .execute(conn)
        .await
        .map_err(Error::database(DOING))?;
    Ok(done.rows_affected() == 1)
}
