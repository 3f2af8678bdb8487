//! Replay: a subscription reads again from a place on, and then on as usual. What it had not read yet, or not settled,
//! is never skipped.

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::id::{Token, WorkerName};
use crate::lease::{Holder, Reader, Trouble};
use crate::store::admin::ReplayFrom;
use crate::store::rows::left_over;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::declare::{seq_at_time, seq_of_event};
use crate::store::sqlite::deliveries::insert_troubles;
use crate::store::sqlite::statements::SQL;
use crate::store::sqlite::takeover::{lane_of, reread_batch};
use crate::subscription::Order;

use super::position::{Position, open_batches, positions};
use super::record;

const DOING: &str = "replay";

impl SqliteStore {
    pub(super) async fn read_again(&self, name: &str, from: ReplayFrom, who: &str) -> Result<i64> {
        let reader = self.load_reader(name).await?;
        let mut tx = self.begin(DOING).await?;
        let seq = match from {
            ReplayFrom::Beginning => 1,
            ReplayFrom::Time(time) => seq_at_time(&mut tx, time).await?,
            ReplayFrom::Event(id) => seq_of_event(&mut tx, id).await?,
        };
        for position in take_back(&mut tx, &reader).await? {
            move_lane(&mut tx, &reader, position, position.pos.min(seq - 1)).await?;
        }
        for (statement, place) in [(&SQL.admin_move_start, seq - 1), (&SQL.admin_reset_steps, seq)] {
            let change = sqlx::query(statement.clone()).bind(reader.id).bind(place);
            change.execute(&mut *tx).await.map_err(Error::database(DOING))?;
        }
        record(&mut tx, who, "replay", name, json!({ "from_seq": seq })).await?;
        tx.commit(DOING).await?;
        Ok(seq)
    }
}

/// Takes every lane back from its owner, unfinished batches included, and says where each then stands.
async fn take_back(tx: &mut SqliteConnection, reader: &Reader) -> Result<Vec<Position>> {
    let mut positions = positions(tx, reader).await?;
    let open = open_batches(tx, reader).await?;
    match reader.order {
        // Batches are settled side by side: each becomes deliveries, so that what is done is not done again.
        Order::None => materialise(tx, reader, &open).await?,
        // Claimed by event: some of it may be handled out of order.
        Order::Key
            if open.iter().any(|row| {
                row.get::<i64, _>("done_to") > 0 || row.get::<Option<&str>, _>("done").is_some()
            }) =>
        {
            materialise(tx, reader, &open).await?;
        }
        // Batches are settled in order: the lane goes back to the first that is not, and keeps its order.
        Order::Key | Order::Strict => positions.iter_mut().for_each(|position| step_back(position, &open)),
    }
    sqlx::query(SQL.admin_finish_batches.clone())
        .bind(reader.id)
        .execute(&mut *tx)
        .await
        .map_err(Error::database(DOING))?;
    if let Some(position) = positions.first() {
        sqlx::query(SQL.admin_free_lanes.clone())
            .bind(reader.id)
            .bind(position.lane.generation)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
    }
    Ok(positions)
}

/// Events that nobody handles any more become deliveries.
async fn materialise(tx: &mut SqliteConnection, reader: &Reader, open: &[SqliteRow]) -> Result<()> {
    let holder = Holder { worker: WorkerName::unique(), lease: reader.settings.lease };
    for row in open {
        let batch = reread_batch(tx, reader, lane_of(row), Token::new(), row).await?;
        let events = batch.events.iter().filter(|claimed| !claimed.elsewhere);
        let troubles: Vec<Trouble> = events.map(|claimed| left_over(claimed, reader)).collect();
        insert_troubles(tx, reader, &troubles, &holder).await?;
    }
    Ok(())
}

fn step_back(position: &mut Position, open: &[SqliteRow]) {
    let Some(first) = open.iter().find(|row| lane_of(row) == position.lane) else { return };
    position.pos = (first.get::<i64, _>("seq_from") - 1).max(first.get("done_to"));
}

/// Makes a seq the lane's progress.
async fn move_lane(
    tx: &mut SqliteConnection,
    reader: &Reader,
    position: Position,
    read_to: i64,
) -> Result<()> {
    sqlx::query(SQL.admin_move_lane.clone())
        .bind(reader.id)
        .bind(position.lane.generation)
        .bind(position.lane.number)
        .bind(position.number + 1)
        .bind(read_to)
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database(DOING))
}
