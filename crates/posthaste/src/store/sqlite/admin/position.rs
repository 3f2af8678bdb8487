//! Where the lanes of a subscription stand, and which of their batches are not settled.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::lease::{Lane, Reader};
use crate::store::sqlite::statements::SQL;
use crate::store::sqlite::takeover::lane_of;

/// A lane of the generation at work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) lane: Lane,
    /// The newest batch's number.
    pub(super) number: i64,
    /// Everything up to here was claimed.
    pub(super) pos: i64,
}

pub(super) async fn positions(conn: &mut SqliteConnection, reader: &Reader) -> Result<Vec<Position>> {
    let rows = sqlx::query(SQL.admin_positions.clone())
        .bind(reader.id)
        .fetch_all(conn)
        .await
        .map_err(Error::database("read the lanes' progress"))?;
    let position =
        |row: &SqliteRow| Position { lane: lane_of(row), number: row.get("number"), pos: row.get("pos") };
    Ok(rows.iter().map(position).collect())
}

/// The unfinished batches of a subscription, in order, in the columns that `reread_batch` takes.
pub(super) async fn open_batches(conn: &mut SqliteConnection, reader: &Reader) -> Result<Vec<SqliteRow>> {
    sqlx::query(SQL.admin_open_batches.clone())
        .bind(reader.id)
        .fetch_all(conn)
        .await
        .map_err(Error::database("read unfinished batches"))
}
