//! What tests ask SQLite.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::fmt::Hyphenated;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::store::testing::{EventMark, Found, Move, NotDelivered, TestStore};

use super::SqliteStore;
use super::convert::{count_of, event_of, micros, time_of};
use super::statements::SQL;

impl SqliteStore {
    pub(crate) async fn event_mark(&self, conn: &mut SqliteConnection) -> Result<EventMark> {
        let seq = sqlx::query_scalar(SQL.last_seq.clone()).fetch_one(conn).await;
        let seq = seq.map_err(Error::database("mark the log"))?;
        Ok(EventMark {
            seq,
            #[cfg(feature = "postgres")]
            snapshot: None,
        })
    }

    pub(crate) async fn enqueued_since(
        &self,
        conn: &mut SqliteConnection,
        mark: &EventMark,
    ) -> Result<Vec<Event>> {
        let rows = sqlx::query(SQL.testing_enqueued_since.clone()).bind(mark.seq).fetch_all(conn).await;
        rows.map_err(Error::database("read what was enqueued"))?.iter().map(event_of).collect()
    }

    async fn list_not_delivered(&self, subscription: &str) -> Result<Vec<NotDelivered>> {
        let doing = "see what is left";
        let query = sqlx::query(SQL.testing_not_delivered.clone()).bind(subscription);
        let rows = query.fetch_all(&self.pool).await.map_err(Error::database(doing))?;
        rows.iter().map(|row| not_delivered_of(row).map_err(Error::database(doing))).collect()
    }

    async fn move_due_times(&self, by: Duration, what: Move) -> Result<()> {
        let doing = "move due times";
        let mut tx = self.begin(doing).await?;
        let (subscription, later_than) = match what {
            Move::Everything => (None, None),
            Move::Retries { subscription, later_than } => (Some(subscription), Some(micros(later_than))),
        };
        for sql in [&SQL.testing_advance_deliveries, &SQL.testing_advance_batches] {
            let query = sqlx::query(sql.clone()).bind(micros(by)).bind(subscription).bind(later_than);
            query.execute(&mut *tx).await.map_err(Error::database(doing))?;
        }
        let others = [&SQL.testing_advance_events, &SQL.testing_advance_dedupe_keys];
        for sql in others.into_iter().filter(|_| matches!(what, Move::Everything)) {
            let query = sqlx::query(sql.clone()).bind(micros(by));
            query.execute(&mut *tx).await.map_err(Error::database(doing))?;
        }
        tx.commit(doing).await
    }
}

#[async_trait]
impl TestStore for SqliteStore {
    async fn not_delivered(&self, subscription: &str) -> Result<Vec<NotDelivered>> {
        patiently!(self.list_not_delivered(subscription))
    }

    async fn advance(&self, by: Duration, what: Move) -> Result<()> {
        patiently!(self.move_due_times(by, what))
    }
}

fn not_delivered_of(row: &SqliteRow) -> sqlx::Result<NotDelivered> {
    let found = Found {
        status: row.try_get("status")?,
        own: row.try_get("own")?,
        due_in: row.try_get("due_in")?,
        due_at: time_of(row, "due_at")?.unwrap_or_default(),
        parked: row.try_get("parked")?,
        held: row.try_get::<Option<i64>, _>("held_until")?.is_some(),
    };
    Ok(NotDelivered {
        id: EventId(row.try_get::<Hyphenated, _>("id")?.into_uuid()),
        topic: row.try_get("topic")?,
        event_type: row.try_get("event_type")?,
        key: row.try_get("key")?,
        attempts: count_of(row, "attempts"),
        last_error: row.try_get("last_error")?,
        why: found.why(),
    })
}
