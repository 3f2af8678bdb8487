//! The suite's view of SQLite.

use async_trait::async_trait;
use chrono::DateTime;
use posthaste::{Enqueued, EventId, NewEvent, Posthaste, Result};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Backend, Delivery};
use crate::sqlite::SqliteDatabase;

#[async_trait]
impl Backend for SqliteDatabase {
    fn posthaste(&self) -> &Posthaste {
        &self.posthaste
    }

    async fn another(&self) -> Posthaste {
        SqliteDatabase::open(&self.path).await
    }

    fn opener(&self) -> Box<dyn FnOnce() -> futures::future::BoxFuture<'static, Posthaste> + Send> {
        let path = self.path.clone();
        Box::new(move || Box::pin(async move { SqliteDatabase::open(&path).await }))
    }

    async fn commit_calls(&self, calls: Vec<Vec<NewEvent>>) -> Vec<Result<Vec<Enqueued>>> {
        let mut tx = self.pool.begin_with("begin immediate").await.expect("begin");
        let mut answers = Vec::new();
        for events in calls {
            answers.push(self.posthaste.enqueue_many(&mut tx, events).await);
        }
        tx.commit().await.expect("commit");
        answers
    }

    async fn enqueue_with(&self, posthaste: &Posthaste, events: Vec<NewEvent>) -> Result<Vec<Enqueued>> {
        let mut tx = self.pool.begin_with("begin immediate").await.expect("begin");
        let answer = posthaste.enqueue_many(&mut tx, events).await;
        tx.commit().await.expect("commit");
        answer
    }

    async fn roll_back(&self, events: Vec<NewEvent>) -> Vec<Enqueued> {
        let mut tx = self.pool.begin_with("begin immediate").await.expect("begin");
        let enqueued = self.posthaste.enqueue_many(&mut tx, events).await.expect("enqueue");
        tx.rollback().await.expect("roll back");
        enqueued
    }

    /// SQLite has no bell to silence: other processes see that the file changed.
    async fn commit_silently(&self, events: Vec<NewEvent>) {
        self.commit(events).await;
    }

    async fn count_events(&self) -> u64 {
        let count: i64 = sqlx::query_scalar("select count(*) from posthaste_events")
            .fetch_one(&self.pool)
            .await
            .expect("count the events");
        count.unsigned_abs()
    }

    async fn park_all(&self, subscription: &str) {
        sqlx::query(
            "update posthaste_deliveries set parked = true where status = 'pending' \
             and subscription = (select id from posthaste_subscriptions where name = ?)",
        )
        .bind(subscription)
        .execute(&self.pool)
        .await
        .expect("park the deliveries");
    }

    async fn deliveries(&self, subscription: &str) -> Vec<Delivery> {
        let rows = sqlx::query(
            "select d.event_id, d.status, d.attempts, d.parked, d.last_error, d.next_attempt_at, d.locked_by \
             from posthaste_deliveries d join posthaste_subscriptions s on s.id = d.subscription \
             where s.name = ? order by d.seq",
        )
        .bind(subscription)
        .fetch_all(&self.pool)
        .await
        .expect("read the deliveries");
        rows.iter().map(delivery).collect()
    }
}

fn delivery(row: &SqliteRow) -> Delivery {
    Delivery {
        id: EventId(row.get::<String, _>("event_id").parse().expect("a uuid")),
        status: row.get("status"),
        attempts: u32::try_from(row.get::<i64, _>("attempts")).expect("a count"),
        parked: row.get("parked"),
        last_error: row.get("last_error"),
        next_attempt_at: DateTime::from_timestamp_micros(row.get("next_attempt_at")).expect("a time"),
        locked_by: row.get("locked_by"),
    }
}
