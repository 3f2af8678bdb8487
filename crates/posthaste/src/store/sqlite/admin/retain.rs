//! Retention: what nobody needs any more goes, a chunk at a time, each in its own small transaction.
//!
//! An event may go when it is old enough, behind the oldest unfinished batch of every lane of every subscription, and no
//! delivery refers to it.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::store::admin::{HeldBack, RetentionPolicy, RetentionReport};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::convert::{duration_of, json, micros};
use crate::store::sqlite::statements::SQL;

const DOING: &str = "run retention";

/// What a chunk of events came to.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    removed: u64,
    /// The last event that was looked at, and the first that stays.
    last: Option<i64>,
    kept: Option<i64>,
    /// Whether there may be more that is old enough.
    more: bool,
}

impl SqliteStore {
    pub(super) async fn run_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        if policy.chunk == 0 {
            return Err(Error::invalid_setting("chunk", "0 is not at least 1"));
        }
        self.check_database().await?;
        let (journal, operations) = (micros(policy.journal_older_than), micros(policy.operations_older_than));
        Ok(RetentionReport {
            events: self.retain_events(policy).await?,
            // The keys know themselves when they expire.
            dedupe_keys: self.in_chunks(&SQL.admin_retain_dedupe_keys, policy.chunk, None).await?,
            batches: self.in_chunks(&SQL.admin_retain_batches, policy.chunk, Some(journal)).await?,
            marks: 0,
            operations: self.in_chunks(&SQL.admin_retain_operations, policy.chunk, Some(operations)).await?,
            held_back: for_a_while!(self.held_back(micros(policy.events_older_than)))?,
        })
    }

    /// Repeats a delete until it finds less than a chunk.
    async fn in_chunks(&self, delete: &sqlx::SqlStr, chunk: u32, older_than: Option<i64>) -> Result<u64> {
        let mut removed = 0;
        loop {
            let done = for_a_while!(self.delete_chunk(delete, chunk, older_than))?;
            removed += done;
            if done < u64::from(chunk) {
                return Ok(removed);
            }
        }
    }

    async fn delete_chunk(&self, delete: &sqlx::SqlStr, chunk: u32, older_than: Option<i64>) -> Result<u64> {
        let mut tx = self.begin(DOING).await?;
        let mut query = sqlx::query(delete.clone()).bind(i64::from(chunk));
        if let Some(micros) = older_than {
            query = query.bind(micros);
        }
        let done = query.execute(&mut *tx).await.map_err(Error::database(DOING))?;
        tx.commit(DOING).await?;
        Ok(done.rows_affected())
    }

    async fn retain_events(&self, policy: &RetentionPolicy) -> Result<u64> {
        let (mut after, mut removed, mut kept) = (0, 0, None);
        loop {
            let chunk = for_a_while!(self.retain_chunk(after, kept, policy))?;
            removed += chunk.removed;
            kept = kept.or(chunk.kept);
            after = chunk.last.unwrap_or(after);
            if !chunk.more {
                return Ok(removed);
            }
        }
    }

    /// Looks at the same events in the same chunks, and leaves them.
    pub(super) async fn preview(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.check_database().await?;
        let mut conn = self.pool.acquire().await.map_err(Error::database(DOING))?;
        let (mut after, mut events) = (0, 0);
        loop {
            let rows = look_at_chunk(&mut conn, after, policy).await?;
            let chunk = chunk_of(&rows, policy.chunk);
            events += chunk.removed;
            after = chunk.last.unwrap_or(after);
            if !chunk.more {
                break;
            }
        }
        drop(conn);
        let held_back = self.held_back(micros(policy.events_older_than)).await?;
        Ok(RetentionReport { events, held_back, ..RetentionReport::default() })
    }

    async fn retain_chunk(&self, after: i64, kept: Option<i64>, policy: &RetentionPolicy) -> Result<Chunk> {
        let mut tx = self.begin(DOING).await?;
        let rows = look_at_chunk(&mut tx, after, policy).await?;
        let chunk = chunk_of(&rows, policy.chunk);
        sqlx::query(SQL.admin_remove_events.clone())
            .bind(json(&removable(&rows))?)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        // Only over what is gone for good: a kept event is looked at again.
        let gone_to = kept.or(chunk.kept).map_or(chunk.last, |kept| Some(kept - 1));
        sqlx::query(SQL.admin_set_retained_to.clone())
            .bind(gone_to.unwrap_or(0))
            .execute(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        tx.commit(DOING).await?;
        Ok(chunk)
    }

    async fn held_back(&self, older_than: i64) -> Result<Vec<HeldBack>> {
        let fetch = async |statement: &sqlx::SqlStr| {
            let query = sqlx::query(statement.clone()).bind(older_than);
            query.fetch_all(&self.pool).await.map_err(Error::database(DOING))
        };
        let lanes = fetch(&SQL.admin_held_by_lanes).await?;
        let deliveries = fetch(&SQL.admin_held_by_deliveries).await?;
        Ok(lanes.iter().map(held_by_lane).chain(deliveries.iter().map(held_by_deliveries)).collect())
    }
}

async fn look_at_chunk(
    conn: &mut SqliteConnection,
    after: i64,
    policy: &RetentionPolicy,
) -> Result<Vec<SqliteRow>> {
    let bounds = sqlx::query(SQL.admin_retention_bounds.clone())
        .fetch_one(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    sqlx::query(SQL.admin_look_at_events.clone())
        .bind(after.max(bounds.get("retained_to")))
        // No lane, no need: nobody reads this log.
        .bind(bounds.get::<Option<i64>, _>("upto").unwrap_or(i64::MAX))
        .bind(micros(policy.events_older_than))
        .bind(i64::from(policy.chunk))
        .fetch_all(conn)
        .await
        .map_err(Error::database(DOING))
}

fn goes(row: &SqliteRow) -> bool {
    row.get("old") && row.get("free")
}

fn removable(rows: &[SqliteRow]) -> Vec<i64> {
    rows.iter().filter(|row| goes(row)).map(|row| row.get("seq")).collect()
}

fn chunk_of(rows: &[SqliteRow], size: u32) -> Chunk {
    Chunk {
        removed: removable(rows).len() as u64,
        last: rows.last().map(|row| row.get("seq")),
        kept: rows.iter().find(|row| !goes(row)).map(|row| row.get("seq")),
        more: rows.len() >= size as usize && rows.iter().all(|row| row.get("old")),
    }
}

fn held_by_lane(row: &SqliteRow) -> HeldBack {
    HeldBack::Lane {
        subscription: row.get("name"),
        lane: row.get("lane"),
        oldest_seq: row.get("seq"),
        oldest_age: duration_of(row.get("age")).unwrap_or_default(),
        paused: row.get("paused"),
    }
}

fn held_by_deliveries(row: &SqliteRow) -> HeldBack {
    let count = |name: &str| row.get::<i64, _>(name).unsigned_abs();
    HeldBack::Deliveries { subscription: row.get("name"), dead: count("dead"), waiting: count("waiting") }
}
