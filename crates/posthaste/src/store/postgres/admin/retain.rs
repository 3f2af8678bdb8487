//! Retention: what nobody needs any more goes, a chunk at a time, each in its own small transaction.
//!
//! An event may go when it is old enough, behind the oldest unfinished window of every lane of every subscription (not
//! merely below some seq: a long transaction commits an old seq late), and no delivery refers to it.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::{Error, Result};
use crate::store::admin::{HeldBack, RetentionPolicy, RetentionReport};
use crate::store::postgres::ask::Ask;
use crate::store::postgres::{PgStore, duration_of, micros};

const DOING: &str = "run retention";

/// Where events are looked at in a run.
struct Bounds {
    after: i64,
    /// Above this, some lane needs everything. `None`: there is no lane.
    upto: Option<i64>,
    /// Up to here every transaction has ended: nothing can appear any more.
    ended: i64,
}

impl PgStore {
    pub(super) async fn run_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        if policy.chunk == 0 {
            return Err(Error::invalid_setting("chunk", "0 is not at least 1"));
        }
        self.check_database().await?;
        let chunk = i64::from(policy.chunk);
        let events = self.retain_events(policy).await?;
        let query = |statement: &sqlx::SqlStr| self.query(statement.clone());
        let (journal, operations) = (micros(policy.journal_older_than), micros(policy.operations_older_than));
        Ok(RetentionReport {
            events,
            dedupe_keys: self
                .in_chunks(chunk, || query(&self.sql.admin_retain_dedupe_keys).bind(chunk))
                .await?,
            batches: self
                .in_chunks(chunk, || query(&self.sql.admin_retain_batches).bind(journal).bind(chunk))
                .await?,
            marks: self.in_chunks(chunk, || query(&self.sql.admin_retain_marks).bind(chunk)).await?,
            operations: self
                .in_chunks(chunk, || query(&self.sql.admin_retain_operations).bind(operations).bind(chunk))
                .await?,
            held_back: self.held_back(micros(policy.events_older_than)).await?,
        })
    }

    /// Repeats a delete until it finds less than a chunk.
    async fn in_chunks<'q>(&self, chunk: i64, delete: impl Fn() -> Ask<'q>) -> Result<u64> {
        let mut removed = 0;
        loop {
            let done = delete()
                .execute(&mut *self.lend(DOING).await?)
                .await
                .map_err(Error::database(DOING))?
                .rows_affected();
            removed += done;
            if i64::try_from(done).unwrap_or(i64::MAX) < chunk {
                return Ok(removed);
            }
        }
    }

    async fn retain_events(&self, policy: &RetentionPolicy) -> Result<u64> {
        let Bounds { mut after, upto, ended } = self.retention_bounds().await?;
        let (mut removed, mut kept) = (0, None);
        loop {
            let row = self.retain_chunk(after, upto, policy).await?;
            removed += u64::try_from(row.get::<i64, _>("removed")).unwrap_or(0);
            kept = kept.or(row.get::<Option<i64>, _>("first_kept"));
            let Some(last) = row.get::<Option<i64>, _>("last_seq") else { break };
            after = last;
            let full = row.get::<i64, _>("looked_at") >= i64::from(policy.chunk);
            if !full || !row.get::<bool, _>("all_old") {
                break;
            }
        }
        // Only over what is gone for good: a kept event, or one that may still be committed, is looked at again.
        let done = kept.map_or(after, |kept: i64| kept - 1).min(ended);
        self.query(self.sql.admin_set_retained_to.clone())
            .bind(done)
            .execute(&mut *self.lend(DOING).await?)
            .await
            .map_err(Error::database(DOING))?;
        Ok(removed)
    }

    /// Looks at the same events in the same chunks, and leaves them.
    pub(super) async fn preview(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.check_database().await?;
        let Bounds { mut after, upto, .. } = self.retention_bounds().await?;
        let mut events = 0;
        loop {
            let row = self
                .chunk_of(&self.sql.admin_preview_events, after, upto, policy)
                .fetch_one(&mut *self.lend(DOING).await?)
                .await
                .map_err(Error::database(DOING))?;
            events += row.get::<i64, _>("removed").unsigned_abs();
            let Some(last) = row.get::<Option<i64>, _>("last_seq") else { break };
            after = last;
            if row.get::<i64, _>("looked_at") < i64::from(policy.chunk) || !row.get::<bool, _>("all_old") {
                break;
            }
        }
        let held_back = self.held_back(micros(policy.events_older_than)).await?;
        Ok(RetentionReport { events, held_back, ..RetentionReport::default() })
    }

    async fn retention_bounds(&self) -> Result<Bounds> {
        let row = self
            .query(self.sql.admin_retention_bounds.clone())
            .fetch_one(&mut *self.lend(DOING).await?)
            .await
            .map_err(Error::database(DOING))?;
        let ended = row.get::<Option<i64>, _>("ended").unwrap_or(0);
        Ok(Bounds { after: row.get("retained_to"), upto: row.get("upto"), ended })
    }

    /// Under the lock that replays and new subscriptions take: their marks are seen, or they come after.
    async fn retain_chunk(&self, after: i64, upto: Option<i64>, policy: &RetentionPolicy) -> Result<PgRow> {
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.lock_meta(&mut tx).await?;
        let row = self
            .chunk_of(&self.sql.admin_retain_events, after, upto, policy)
            .fetch_one(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(row)
    }

    /// A statement about the next chunk of events.
    fn chunk_of<'q>(
        &self,
        statement: &sqlx::SqlStr,
        after: i64,
        upto: Option<i64>,
        policy: &RetentionPolicy,
    ) -> Ask<'q> {
        self.query(statement.clone())
            .bind(after)
            .bind(upto)
            .bind(micros(policy.events_older_than))
            .bind(i64::from(policy.chunk))
    }

    async fn held_back(&self, older_than: i64) -> Result<Vec<HeldBack>> {
        let fetch = async |statement: &sqlx::SqlStr| {
            let query = self.query(statement.clone()).bind(older_than);
            query.fetch_all(&mut *self.lend(DOING).await?).await.map_err(Error::database(DOING))
        };
        let lanes = fetch(&self.sql.admin_held_by_lanes).await?;
        let deliveries = fetch(&self.sql.admin_held_by_deliveries).await?;
        Ok(lanes.iter().map(held_by_lane).chain(deliveries.iter().map(held_by_deliveries)).collect())
    }
}

fn held_by_lane(row: &PgRow) -> HeldBack {
    HeldBack::Lane {
        subscription: row.get("name"),
        lane: row.get("lane"),
        oldest_seq: row.get("seq"),
        oldest_age: duration_of(row.get("age")).unwrap_or_default(),
        paused: row.get("paused"),
    }
}

fn held_by_deliveries(row: &PgRow) -> HeldBack {
    let count = |name: &str| u64::try_from(row.get::<i64, _>(name)).unwrap_or(0);
    HeldBack::Deliveries { subscription: row.get("name"), dead: count("dead"), waiting: count("waiting") }
}
