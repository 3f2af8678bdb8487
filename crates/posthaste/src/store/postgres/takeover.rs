//! Taking over: lanes and batches whose worker was lost, read again exactly as they were claimed.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Batch, Held, Holder, Lane, LaneClaim, Reader, Trouble};
use crate::store::rows::{isolated, leave_out};
use crate::store::{BatchRef, CLAIMS_BEFORE_MATERIALISING, Cursor};
use crate::subscription::Order;

use super::mark::Range;
use super::read::Most;
use super::{PgStore, duration_of, micros, steps_of};

const DOING: &str = "take over";

impl PgStore {
    pub(crate) async fn take_lane(&self, reader: &Reader, holder: &Holder) -> Result<Option<LaneClaim>> {
        let free: bool = self
            .query_scalar(self.sql.free_lane.clone())
            .bind(reader.id)
            .fetch_one(&mut *self.lend(DOING).await?)
            .await
            .map_err(Error::database(DOING))?;
        if !free {
            return Ok(None);
        }
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.lock_subscription(&mut tx, reader).await?;
        let token = Token::new();
        let taken = self
            .query(self.sql.claim_lane.clone())
            .bind(reader.id)
            .bind(token.0)
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .fetch_optional(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        let Some(row) = taken else { return Ok(None) };
        let lane = Lane { generation: row.get("generation"), number: row.get("lane"), of: row.get("lanes") };
        reached(Point::LaneMarked);
        let unfinished = self.take_over(&mut tx, reader, lane, token, holder).await?;
        reached(Point::LaneReread);
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(Some(LaneClaim { lane, token, unfinished }))
    }

    /// The unfinished batches of a lane, in number order. Those lost before are materialised here.
    async fn take_over(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
        token: Token,
        holder: &Holder,
    ) -> Result<Vec<Batch>> {
        let mut rows = self
            .query(self.sql.take_over_batches.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .bind(token.0)
            .bind(holder.worker.as_str())
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        rows.sort_by_key(|row| row.get::<i64, _>("number"));
        let mut unfinished = Vec::new();
        for row in &rows {
            let batch = self.reread_batch(tx, reader, lane, token, row).await?;
            match self.materialise_if_lost_before(tx, reader, batch, holder).await? {
                Some(batch) => unfinished.push(batch),
                None => continue,
            }
        }
        Ok(unfinished)
    }

    pub(crate) async fn batches_of(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Token,
        cursor: &mut Cursor,
    ) -> Result<Vec<Batch>> {
        let mut conn = self.lend(DOING).await?;
        // In this order: a batch that is inserted in between is seen by the second look, not stepped over by the first.
        *cursor = Cursor::Postgres(Box::new(self.load_cursor(&mut conn, reader, lane).await?));
        let rows = self
            .query(self.sql.held_batches.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .bind(owner.0)
            .fetch_all(&mut conn)
            .await
            .map_err(Error::database(DOING))?;
        let mut batches = Vec::new();
        for row in &rows {
            batches.push(self.reread_batch(&mut conn, reader, lane, owner, row).await?);
        }
        Ok(batches)
    }

    /// Reads the events of a claimed page again: the window, the page and the filter's version name them exactly.
    pub(super) async fn reread_batch(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
        token: Token,
        row: &PgRow,
    ) -> Result<Batch> {
        let lo = self.load_mark(conn, row.get("lo")).await?;
        let hi = self.load_mark(conn, row.get("hi")).await?;
        let filter = self.load_filter(conn, reader.id, row.get("filter_version")).await?;
        let after = row.get::<i64, _>("seq_from") - 1;
        let range = Range::window(&lo, &hi, after.max(row.get("done_to"))).limited_to(row.get("seq_to"));
        // Whole, however large: what was claimed as one page must come back as one.
        let mut page = self.read_page(conn, reader, lane, &filter, &hi, &range, Most::ALL).await?;
        let (count, done_to): (i32, i64) = (row.get("count"), row.get("done_to"));
        let count = usize::try_from(count).unwrap_or(0);
        if page.events.len() > count || (done_to == 0 && page.events.len() != count) {
            return Err(Error::Corrupt(format!(
                "batch {} of `{}` was claimed with {count} events and reads as {} now",
                row.get::<i64, _>("number"),
                reader.name,
                page.events.len()
            )));
        }
        leave_out(&mut page.events, &row.get::<Option<Vec<i64>>, _>("done").unwrap_or_default());
        let attempts = u32::try_from(row.get::<i32, _>("retry_count")).unwrap_or(0);
        let claims = u32::try_from(row.get::<i32, _>("claims")).unwrap_or(u32::MAX);
        let wait = duration_of(row.get("wait")).unwrap_or_default();
        let held = Held { done_to, attempts, steps: steps_of(row), wait };
        let held = (reader.order == Order::Strict).then_some(held);
        let (number, inserted_at, records) = (row.get("number"), row.get("inserted_at"), row.get("records"));
        Ok(Batch { lane, number, token, inserted_at, records, claims, events: page.events, held })
    }

    /// An event may have killed the last two workers: find it out one event at a time, so that the innocent ones beside
    /// it never die with it. `strict` order isolates within the batch instead.
    async fn materialise_if_lost_before(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        batch: Batch,
        holder: &Holder,
    ) -> Result<Option<Batch>> {
        if batch.claims <= CLAIMS_BEFORE_MATERIALISING || reader.order == Order::Strict {
            return Ok(Some(batch));
        }
        let troubles: Vec<Trouble> =
            batch.events.iter().filter(|c| !c.elsewhere).map(|c| isolated(c, reader)).collect();
        self.insert_troubles(tx, reader, &troubles, holder).await?;
        self.mark_finished(tx, reader, BatchRef::to(&batch), None).await?;
        Ok(None)
    }

    pub(crate) async fn take_expired_batch(&self, reader: &Reader, holder: &Holder) -> Result<Option<Batch>> {
        let (generation, number) = self.oldest_unfinished(reader);
        let row = self
            .query(self.sql.expired_batch.clone())
            .bind(reader.id)
            .bind(generation)
            .bind(number)
            .fetch_one(&mut *self.lend(DOING).await?)
            .await
            .map_err(Error::database(DOING))?;
        if let (Some(generation), Some(number)) = (row.get("generation"), row.get("number")) {
            self.note_unfinished(reader, (generation, number));
        }
        if !row.get::<bool, _>("expired") {
            return Ok(None);
        }
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        let token = Token::new();
        let taken = self
            .query(self.sql.reclaim_batch.clone())
            .bind(reader.id)
            .bind(token.0)
            .bind(holder.worker.as_str())
            .bind(micros(holder.lease))
            .bind(generation)
            .bind(number)
            .fetch_optional(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        let Some(row) = taken else { return Ok(None) };
        let lane = Lane { generation: row.get("generation"), number: row.get("lane"), of: row.get("lanes") };
        let batch = self.reread_batch(&mut tx, reader, lane, token, &row).await?;
        let batch = self.materialise_if_lost_before(&mut tx, reader, batch, holder).await?;
        reached(Point::BatchReread);
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(batch)
    }
}
