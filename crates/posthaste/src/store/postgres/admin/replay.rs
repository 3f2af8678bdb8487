//! Replay: a subscription reads again from a place on, and then on as usual.
//!
//! The events of a replay from `s` are those with `seq >= s`, and those not read yet: a transaction that was open all
//! the time may still commit an event below `s`.

use serde_json::json;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::id::{Token, WorkerName};
use crate::lease::{ClaimedEvent, Holder, Reader, Trouble};
use crate::store::admin::ReplayFrom;
use crate::store::postgres::PgStore;
use crate::store::postgres::mark::Mark;
use crate::store::rows::left_over;
use crate::subscription::Order;

use super::position::{Position, lane_of};

const DOING: &str = "replay";

impl PgStore {
    pub(super) async fn read_again(&self, name: &str, from: ReplayFrom, who: &str) -> Result<i64> {
        self.check_database().await?;
        // In order `none` claimers hold no lane: one that claims meanwhile is faster, and everything is read anew.
        loop {
            if let Some(seq) = self.try_to_read_again(name, from, who).await? {
                return Ok(seq);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn try_to_read_again(&self, name: &str, from: ReplayFrom, who: &str) -> Result<Option<i64>> {
        let reader = self.load_reader(name).await?;
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.lock_meta(&mut tx).await?;
        self.lock_subscription(&mut tx, &reader).await?;
        self.lock_lanes(&mut tx, &reader).await?;
        let seq = self.replay_place(&mut tx, from).await?;
        for position in self.take_back(&mut tx, &reader).await? {
            if !self.move_lane(&mut tx, &reader, &position, &position.rewound(seq)).await? {
                return Ok(None);
            }
        }
        for statement in [&self.sql.admin_move_start, &self.sql.admin_reset_steps] {
            let change = self.query(statement.clone()).bind(reader.id).bind(seq);
            change.execute(&mut tx).await.map_err(Error::database(DOING))?;
        }
        self.record(&mut tx, who, "replay", Some(name), json!({ "from_seq": seq })).await?;
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(Some(seq))
    }

    async fn replay_place(&self, tx: &mut PgConnection, from: ReplayFrom) -> Result<i64> {
        match from {
            ReplayFrom::Beginning => Ok(1),
            ReplayFrom::Time(time) => self.seq_at_time(tx, time).await,
            ReplayFrom::Event(id) => self.seq_of_event(tx, id).await,
        }
    }

    /// Takes every lane back from its owner, unfinished batches included, and says where each then stands.
    pub(super) async fn take_back(&self, tx: &mut PgConnection, reader: &Reader) -> Result<Vec<Position>> {
        // In this order: a batch that is claimed after the positions were read makes move_lane fail, so none is missed.
        let mut positions = self.positions(tx, reader).await?;
        self.query(self.sql.admin_lock_open_batches.clone())
            .bind(reader.id)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let open = self.open_batches(tx, reader).await?;
        match reader.order {
            // Batches are settled side by side: each becomes deliveries, so that what is done is not done again.
            Order::None => self.materialise(tx, reader, &open).await?,
            // Claimed by event: some of it may be handled out of order.
            Order::Key if open.iter().any(|row| row.get::<i32, _>("records") > 0) => {
                self.materialise(tx, reader, &open).await?;
            }
            // Batches are settled in order: the lane goes back to the first that is not, and keeps its order.
            Order::Key | Order::Strict => {
                for position in &mut positions {
                    self.step_back(tx, position, &open).await?;
                }
            }
        }
        self.query(self.sql.admin_finish_batches.clone())
            .bind(reader.id)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        if let Some(position) = positions.first() {
            self.query(self.sql.admin_free_lanes.clone())
                .bind(reader.id)
                .bind(position.lane.generation)
                .execute(&mut *tx)
                .await
                .map_err(Error::database(DOING))?;
        }
        Ok(positions)
    }

    async fn materialise(&self, tx: &mut PgConnection, reader: &Reader, open: &[PgRow]) -> Result<()> {
        for row in open {
            let batch = self.reread_batch(tx, reader, lane_of(row), Token::new(), row).await?;
            self.write_left_over(tx, reader, batch.events.iter().filter(|c| !c.elsewhere)).await?;
        }
        Ok(())
    }

    /// Events that nobody handles any more become deliveries, in the order of their keys; returns how many.
    pub(super) async fn write_left_over<'a>(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        events: impl Iterator<Item = &'a ClaimedEvent>,
    ) -> Result<u64> {
        let troubles: Vec<Trouble> = events.map(|claimed| left_over(claimed, reader)).collect();
        let holder = Holder { worker: WorkerName::unique(), lease: reader.settings.lease };
        let written = self.insert_troubles(tx, reader, &troubles, &holder).await?;
        let keys = troubles.into_iter().filter_map(|trouble| trouble.key).collect();
        self.repark(tx, reader, keys).await?;
        Ok(written.len() as u64)
    }

    async fn step_back(&self, tx: &mut PgConnection, position: &mut Position, open: &[PgRow]) -> Result<()> {
        let Some(first) = open.iter().find(|row| lane_of(row) == position.lane) else { return Ok(()) };
        position.lo = self.load_mark(tx, first.get("lo")).await?;
        position.hi = Some(self.load_mark(tx, first.get("hi")).await?);
        position.pos = (first.get::<i64, _>("seq_from") - 1).max(first.get("done_to"));
        Ok(())
    }

    /// Makes a mark the lane's progress. `false`: somebody claimed meanwhile; roll back and start over.
    pub(super) async fn move_lane(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        position: &Position,
        mark: &Mark,
    ) -> Result<bool> {
        let mark = self.store_mark(tx, mark).await?;
        let moved = self
            .query(self.sql.admin_move_lane.clone())
            .bind(reader.id)
            .bind(position.lane.generation)
            .bind(position.lane.number)
            .bind(position.number + 1)
            .bind(mark)
            .execute(tx)
            .await
            .map_err(Error::database(DOING))?;
        Ok(moved.rows_affected() == 1)
    }
}
