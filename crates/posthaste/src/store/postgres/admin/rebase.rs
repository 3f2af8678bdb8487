//! Rebase: after dump and restore the transaction ids of the old cluster mean nothing. Loses nothing, neither old events
//! nor those enqueued here before it ran.
//!
//! Which old event a lane had seen is arithmetic on stored numbers, done before anything is rewritten. Then every event
//! gets a transaction id that all snapshots of this cluster see, and every lane a mark of this cluster from which it
//! reads on by seq.

use serde_json::json;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::lease::{ClaimedEvent, Reader};
use crate::store::admin::RebaseReport;
use crate::store::postgres::mark::Mark;
use crate::store::postgres::read::bind_wanted;
use crate::store::postgres::{PgStore, duration_of, event_of};
use crate::subscription::Filter;

use super::position::Position;

const DOING: &str = "rebase";

impl PgStore {
    pub(super) async fn rebase_cluster(&self, who: &str) -> Result<RebaseReport> {
        let moved: bool = self
            .query_scalar(self.sql.admin_cluster_moved.clone())
            .fetch_one(&mut *self.lend(DOING).await?)
            .await
            .map_err(Error::database(DOING))?;
        if !moved {
            let problem =
                "this database is still in the cluster its marks were taken in; there is nothing to rebase";
            return Err(Error::invalid_setting("rebase", problem));
        }
        // Before the transaction that stores it draws an xid, as every mark.
        let mut conn = self.lend(DOING).await?;
        let (here, _) = self.take_mark(&mut conn).await?;
        drop(conn);
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        self.lock_meta(&mut tx).await?;
        let readers = self.lock_everything(&mut tx).await?;
        let mut report = RebaseReport::default();
        let mark = self.store_mark(&mut tx, &here).await?;
        for reader in &readers {
            self.rebase_subscription(&mut tx, reader, &here, mark, &mut report).await?;
        }
        let rewritten = self
            .query(self.sql.admin_rebase_events.clone())
            .execute(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        report.events = rewritten.rows_affected();
        self.record_cluster(&mut tx).await?;
        let detail =
            json!({ "events": report.events, "lanes": report.lanes, "deliveries": report.deliveries });
        self.record(&mut tx, who, "rebase", None, detail).await?;
        tx.commit().await.map_err(Error::database(DOING))?;
        Ok(report)
    }

    async fn lock_everything(&self, tx: &mut PgConnection) -> Result<Vec<Reader>> {
        let names: Vec<String> = self
            .query_scalar(self.sql.admin_names.clone())
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let mut readers = Vec::new();
        for name in names {
            let reader = self.load_reader(&name).await?;
            self.lock_subscription(tx, &reader).await?;
            self.lock_lanes(tx, &reader).await?;
            readers.push(reader);
        }
        Ok(readers)
    }

    async fn rebase_subscription(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        here: &Mark,
        mark: i64,
        report: &mut RebaseReport,
    ) -> Result<()> {
        let filter = self.filter_in_force(tx, reader).await?;
        let positions = self.take_back(tx, reader).await?;
        for position in &positions {
            let (place, unread) = position.place();
            let seen_to = unread.map_or(place.ceil_seq, |unread| place.ceil_seq.min(unread - 1));
            report.deliveries += self.keep_unseen(tx, reader, &filter, position, place, seen_to).await?;
            // Late ones below that are deliveries now: the search for them would begin where it ends.
            let steps = vec![(0, seen_to)];
            let moved = Mark { steps, replay_from: Some(seen_to + 1), ..here.clone() };
            if !self.move_lane(tx, reader, position, &moved).await? {
                let problem = format!("`{}` is being worked on; stop its workers first", reader.name);
                return Err(Error::invalid_setting("rebase", problem));
            }
            report.lanes += 1;
        }
        let generation = positions.first().map_or(1, |position| position.lane.generation);
        self.move_generations(tx, reader, generation, mark).await
    }

    async fn filter_in_force(&self, tx: &mut PgConnection, reader: &Reader) -> Result<Filter> {
        let row = self
            .query(self.sql.admin_subscription.clone())
            .bind(&reader.name)
            .fetch_one(tx)
            .await
            .map_err(Error::database(DOING))?;
        Ok(crate::store::postgres::declare::filter_of(&row))
    }

    /// Events below the place that a lane had not seen, because they committed late, become deliveries.
    async fn keep_unseen(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        filter: &Filter,
        position: &Position,
        place: &Mark,
        seen_to: i64,
    ) -> Result<u64> {
        let query = self.query(self.sql.admin_unseen_events.clone());
        let rows = bind_wanted(query, reader.id, filter, position.lane)
            .bind(seen_to)
            .bind(place.snapshot.as_str())
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        let events = rows.iter().map(claimed_of).collect::<Result<Vec<_>>>()?;
        self.write_left_over(tx, reader, events.iter()).await
    }

    async fn move_generations(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        generation: i32,
        mark: i64,
    ) -> Result<()> {
        self.query(self.sql.admin_rebase_lanes.clone())
            .bind(reader.id)
            .bind(generation)
            .bind(mark)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        self.query(self.sql.admin_rebase_start.clone())
            .bind(reader.id)
            .bind(mark)
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database(DOING))
    }

    async fn record_cluster(&self, tx: &mut PgConnection) -> Result<()> {
        self.query(self.sql.admin_keep_cluster.clone())
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("record the cluster"))
    }

    pub(super) async fn keep_cluster(&self, who: &str) -> Result<()> {
        let mut conn = self.lend("keep").await?;
        let mut tx = conn.begin("keep").await?;
        self.record_cluster(&mut tx).await?;
        self.record(&mut tx, who, "keep", None, json!({})).await?;
        tx.commit().await.map_err(Error::database("keep"))
    }
}

fn claimed_of(row: &PgRow) -> Result<ClaimedEvent> {
    Ok(ClaimedEvent {
        event: event_of(row)?,
        blocked: false,
        elsewhere: false,
        wait: duration_of(row.get("wait")),
    })
}
