//! Splitting a subscription's keys over another number of lanes, without losing the order of any key.
//!
//! A mark H is fixed; the old lanes read exactly up to H, and only when all of them have finished does the new
//! generation start there. Deliveries survive and go on parking their keys.

use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::error::{Error, Result};
use crate::id::Token;
use crate::lease::{Lane, Reader};

use super::PgStore;

const DOING: &str = "split lanes";

impl PgStore {
    pub(super) async fn split_lanes(&self, reader: &Reader, lanes: u16) -> Result<()> {
        // A lane that opened a window after H was taken would read past it: then H is thrown away and taken anew.
        while !self.try_split(reader, lanes).await? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn try_split(&self, reader: &Reader, lanes: u16) -> Result<bool> {
        let mut conn = self.lend(DOING).await?;
        let before = self.newest_batches(&mut conn, reader, false).await?;
        let (mark, _) = self.take_mark(&mut conn).await?;
        drop(conn);
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.lock_subscription(&mut tx, reader).await?;
        if self.newest_batches(&mut tx, reader, true).await? != before {
            return Ok(false);
        }
        let mark = self.store_mark(&mut tx, &mark).await?;
        let newest = before.iter().map(|(generation, ..)| *generation).max().unwrap_or(0);
        self.query(self.sql.stop_lanes.clone())
            .bind(reader.id)
            .bind(mark)
            .bind(i32::from(lanes))
            .execute(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        self.open_generation(&mut tx, reader.id, newest + 1, i32::from(lanes), mark).await?;
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(true)
    }

    /// (generation, lane, number of the newest batch) of every lane, locked if asked for.
    async fn newest_batches(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lock: bool,
    ) -> Result<Vec<(i32, i32, i64)>> {
        if lock {
            // The table before the rows, as a claim takes them: its statement locks the table first.
            self.query(self.sql.lock_batches.clone())
                .execute(&mut *conn)
                .await
                .map_err(Error::database(DOING))?;
            let lock = self.query(self.sql.lock_lanes.clone()).bind(reader.id);
            lock.execute(&mut *conn).await.map_err(Error::database(DOING))?;
        }
        let rows = self
            .query(self.sql.newest_batches.clone())
            .bind(reader.id)
            .fetch_all(conn)
            .await
            .map_err(Error::database(DOING))?;
        Ok(rows.iter().map(|row| (row.get("generation"), row.get("lane"), row.get("number"))).collect())
    }

    pub(super) async fn still_owned(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
        owner: Token,
    ) -> Result<bool> {
        self.query_scalar(self.sql.lane_owned.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .bind(owner.0)
            .fetch_one(conn)
            .await
            .map_err(Error::database("check a lane"))
    }
}
