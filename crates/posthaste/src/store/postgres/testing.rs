//! What tests ask PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row, SqlStr};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::store::testing::{EventMark, Found, Move, NotDelivered, TestStore};

use super::{PgStore, event_of, micros};

impl PgStore {
    pub(crate) async fn event_mark(&self, conn: &mut PgConnection) -> Result<EventMark> {
        let mark = self.query_for_caller(self.sql.testing_event_mark.clone()).fetch_one(conn).await;
        let mark = mark.map_err(Error::database("mark the log"))?;
        Ok(EventMark { seq: mark.get("seq"), snapshot: Some((mark.get("xid"), mark.get("snapshot"))) })
    }

    pub(crate) async fn enqueued_since(
        &self,
        conn: &mut PgConnection,
        mark: &EventMark,
    ) -> Result<Vec<Event>> {
        let Some((xid, snapshot)) = &mark.snapshot else {
            return Err(Error::invalid_setting("mark", "was taken in a database of another kind"));
        };
        let query = self.query_for_caller(self.sql.testing_enqueued_since.clone());
        let rows = query.bind(xid).bind(snapshot).bind(mark.seq).fetch_all(conn).await;
        rows.map_err(Error::database("read what was enqueued"))?.iter().map(event_of).collect()
    }
}

#[async_trait]
impl TestStore for PgStore {
    async fn not_delivered(&self, subscription: &str) -> Result<Vec<NotDelivered>> {
        let doing = "see what is left";
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        self.query(self.sql.testing_plan_quickly.clone())
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        let query = self.query(self.sql.testing_not_delivered.clone()).bind(subscription);
        let rows = query.fetch_all(&mut tx).await.map_err(Error::database(doing))?;
        tx.rollback().await.map_err(Error::database(doing))?;
        Ok(rows.iter().map(not_delivered_of).collect())
    }

    async fn advance(&self, by: Duration, what: Move) -> Result<()> {
        let doing = "move due times";
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        let (subscription, later_than) = match what {
            Move::Everything => (None, None),
            Move::Retries { subscription, later_than } => (Some(subscription), Some(micros(later_than))),
        };
        for sql in [&self.sql.testing_advance_deliveries, &self.sql.testing_advance_batches] {
            let query = self.query(sql.clone()).bind(micros(by)).bind(subscription).bind(later_than);
            query.execute(&mut tx).await.map_err(Error::database(doing))?;
        }
        let others: [&SqlStr; 2] = [&self.sql.testing_advance_events, &self.sql.testing_advance_dedupe_keys];
        for sql in others.into_iter().filter(|_| matches!(what, Move::Everything)) {
            let query = self.query(sql.clone()).bind(micros(by));
            query.execute(&mut tx).await.map_err(Error::database(doing))?;
        }
        tx.commit().await.map_err(Error::database(doing))
    }
}

fn not_delivered_of(row: &PgRow) -> NotDelivered {
    let found = Found {
        status: row.get("status"),
        own: row.get("own"),
        due_in: row.get("due_in"),
        due_at: row.get("due_at"),
        parked: row.get("parked"),
        held: row.get::<Option<chrono::DateTime<chrono::Utc>>, _>("held_until").is_some(),
    };
    NotDelivered {
        id: EventId(row.get("id")),
        topic: row.get("topic"),
        event_type: row.get("event_type"),
        key: row.get("key"),
        attempts: u32::try_from(row.get::<i32, _>("attempts")).unwrap_or(u32::MAX),
        last_error: row.get("last_error"),
        why: found.why(),
    }
}
