//! Splitting a subscription's keys over another number of lanes, without losing the order of any key.
//!
//! A mark H is fixed; the old lanes read exactly up to H, and only when all of them have finished does the new
//! generation start there. Deliveries survive and go on parking their keys. Under the write lock H is simply the end of
//! the log: no lane can have read past it.

use sqlx::SqliteConnection;

use crate::error::{Error, Result};

use super::read::last_seq;
use super::statements::SQL;

const DOING: &str = "split lanes";

pub(super) async fn split_lanes(conn: &mut SqliteConnection, subscription: i64, lanes: u16) -> Result<()> {
    let mark = last_seq(conn).await?;
    let newest: i32 = sqlx::query_scalar(SQL.newest_generation.clone())
        .bind(subscription)
        .fetch_one(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    sqlx::query(SQL.stop_lanes.clone())
        .bind(subscription)
        .bind(mark)
        .execute(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    sqlx::query(SQL.record_lanes.clone())
        .bind(subscription)
        .bind(i32::from(lanes))
        .execute(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    open_generation(conn, subscription, newest + 1, lanes, mark).await
}

pub(super) async fn open_generation(
    conn: &mut SqliteConnection,
    subscription: i64,
    generation: i32,
    lanes: u16,
    mark: i64,
) -> Result<()> {
    sqlx::query(SQL.insert_lanes.clone())
        .bind(subscription)
        .bind(generation)
        .bind(i32::from(lanes))
        .bind(mark)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(Error::database(DOING))
}
