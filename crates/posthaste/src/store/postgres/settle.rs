//! Settling and holding: every write checks the token, and zero rows means the lease was lost.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Postgres, Row, Transaction};

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Holder, Lane, Reader, Trouble};
use crate::sink::DeliveryKey;
use crate::store::rows::small;
use crate::store::{BatchRef, Handled, Hold};
use crate::subscription::Order;

use super::{PgStore, Question, micros};

const DOING: &str = "settle a batch";

impl PgStore {
    pub(crate) async fn finish_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        if troubles.is_empty() {
            let mut conn = self.lend(DOING).await?;
            return self.mark_finished(&mut conn, reader, batch, Some("off")).await;
        }
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        if reader.keyed() {
            self.lock_subscription(&mut tx, reader).await?;
        }
        if !self.mark_finished(&mut tx, reader, batch, None).await? {
            return Ok(false);
        }
        reached(Point::BatchFinished);
        self.insert_troubles(&mut tx, reader, troubles, holder).await?;
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(true)
    }

    pub(super) async fn mark_finished(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        batch: BatchRef,
        waits: Option<&str>,
    ) -> Result<bool> {
        let done = self
            .query_batch(self.sql.finish_batch.clone(), batch.number)
            .bind(reader.id)
            .bind(batch.lane.generation)
            .bind(batch.lane.number)
            .bind(batch.number)
            .bind(batch.token.0)
            .bind(batch.inserted_at)
            .bind(waits)
            .bind(batch.records)
            .execute(conn)
            .await
            .map_err(Error::database(DOING))?;
        Ok(done.rows_affected() == 1)
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
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        if reader.keyed() && !troubles.is_empty() {
            self.lock_subscription(&mut tx, reader).await?;
        }
        let done = self
            .query(self.sql.record_batch.clone())
            .bind(reader.id)
            .bind(batch.lane.generation)
            .bind(batch.lane.number)
            .bind(batch.number)
            .bind(batch.token.0)
            .bind(batch.inserted_at)
            .bind(handled.to)
            .bind((!handled.beyond.is_empty()).then_some(&handled.beyond))
            .bind(!troubles.is_empty())
            .bind(batch.records)
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        reached(Point::ProgressNoted);
        self.insert_troubles(&mut tx, reader, troubles, holder).await?;
        tx.commit().await.map_err(Error::database(doing))?;
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
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        let done = self
            .query(self.sql.hold_batch.clone())
            .bind(reader.id)
            .bind(batch.lane.generation)
            .bind(batch.lane.number)
            .bind(batch.number)
            .bind(batch.token.0)
            .bind(hold.done_to)
            .bind(i32::try_from(hold.attempts).unwrap_or(i32::MAX))
            .bind(micros(hold.delay))
            .bind(&hold.error)
            .bind(small(hold.steps))
            .bind(batch.inserted_at)
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        reached(Point::HoldNoted);
        self.insert_troubles(&mut tx, reader, troubles, holder).await?;
        tx.commit().await.map_err(Error::database(doing))?;
        Ok(true)
    }

    pub(crate) async fn renew_leases(
        &self,
        reader: &Reader,
        tokens: &[Token],
        lease: Duration,
    ) -> Result<Vec<Token>> {
        // The batches of an owned lane live by the lane's lease.
        let (generation, number) = match reader.order {
            Order::None => self.oldest_unfinished(reader),
            _ => (i32::MAX, i64::MAX),
        };
        let rows = self
            .query_scalar(self.sql.renew.clone())
            .bind(reader.id)
            .bind(tokens.iter().map(|token| token.0).collect::<Vec<_>>())
            .bind(micros(lease))
            .bind(generation)
            .bind(number)
            .fetch_all(&mut *self.lend("renew leases").await?)
            .await
            .map_err(Error::database("renew leases"))?;
        Ok(rows.into_iter().map(Token).collect())
    }

    pub(crate) async fn give_lane_back(&self, reader: &Reader, lane: Lane, token: Token) -> Result<()> {
        self.query(self.sql.release_lane.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .bind(token.0)
            .execute(&mut *self.lend("release a lane").await?)
            .await
            .map(|_| ())
            .map_err(Error::database("release a lane"))
    }

    pub(crate) async fn say_goodbye(&self, reader: &Reader, holder: &Holder) -> Result<()> {
        self.query(self.sql.dismiss_worker.clone())
            .bind(reader.id)
            .bind(holder.worker.as_str())
            .execute(&mut *self.lend("dismiss a worker").await?)
            .await
            .map(|_| ())
            .map_err(Error::database("dismiss a worker"))
    }

    pub(crate) async fn say_alive(&self, reader: &Reader, holder: &Holder) -> Result<u32> {
        let alive: i64 = self
            .query_scalar(self.sql.announce_worker.clone())
            .bind(reader.id)
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .fetch_one(&mut *self.lend("announce a worker").await?)
            .await
            .map_err(Error::database("announce a worker"))?;
        Ok(u32::try_from(alive).unwrap_or(1))
    }
}

impl PgStore {
    /// Settles a delivery as delivered inside the handler's own transaction, and commits it.
    pub(crate) async fn settle_and_commit(
        &self,
        mut tx: Transaction<'_, Postgres>,
        delivery: &DeliveryKey,
    ) -> Result<()> {
        let doing = "settle in the handler's transaction";
        let settle = async {
            if !self.settle_within(&mut tx, delivery).await? {
                // Its writes are rolled back.
                return Err(Error::LeaseLost);
            }
            reached(Point::SettledWithin);
            tx.commit().await.map_err(Error::database(doing))
        };
        self.within(Question::new(doing), settle).await
    }

    /// At once, so that the next attempt need not wait for the pool to do it.
    pub(crate) async fn roll_back(&self, tx: Transaction<'_, Postgres>) -> Result<()> {
        let doing = "roll the handler's transaction back";
        self.within(Question::new(doing), async { tx.rollback().await.map_err(Error::database(doing)) }).await
    }

    /// Settles a delivery as delivered inside the handler's own transaction. `false`: the lease was lost.
    async fn settle_within(&self, tx: &mut PgConnection, delivery: &DeliveryKey) -> Result<bool> {
        let doing = "settle in the handler's transaction";
        if delivery.keyed {
            self.query(self.sql.lock_subscription.clone())
                .bind(delivery.subscription)
                .execute(&mut *tx)
                .await
                .map_err(Error::database(doing))?;
        }
        let key: Option<Option<String>> = self
            .query(self.sql.delete_deliveries.clone())
            .bind(delivery.subscription)
            .bind(vec![delivery.seq])
            .bind(vec![delivery.token.0])
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::database(doing))?
            .map(|row| row.get("key"));
        if let Some(Some(key)) = &key {
            self.query(self.sql.promote_keys.clone())
                .bind(delivery.subscription)
                .bind(vec![key.as_str()])
                .bind(delivery.dead_blocks)
                .execute(tx)
                .await
                .map_err(Error::database(doing))?;
        }
        Ok(key.is_some())
    }
}
