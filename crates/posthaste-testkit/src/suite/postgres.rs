//! The suite's view of PostgreSQL.

use async_trait::async_trait;
use posthaste::{Enqueued, EventId, NewEvent, Posthaste, Result};
use sqlx::{Executor, Row};

use super::{Backend, Delivery};
use crate::database::TestDatabase;

#[async_trait]
impl Backend for TestDatabase {
    fn posthaste(&self) -> &Posthaste {
        &self.posthaste
    }

    async fn another(&self) -> Posthaste {
        TestDatabase::another(self).await
    }

    fn opener(&self) -> Box<dyn FnOnce() -> futures::future::BoxFuture<'static, Posthaste> + Send> {
        let database = self.clone();
        Box::new(move || Box::pin(async move { database.another().await }))
    }

    async fn commit_calls(&self, calls: Vec<Vec<NewEvent>>) -> Vec<Result<Vec<Enqueued>>> {
        let mut tx = self.pool.begin().await.expect("begin");
        let mut answers = Vec::new();
        for events in calls {
            answers.push(self.posthaste.enqueue_many(&mut tx, events).await);
        }
        tx.commit().await.expect("commit");
        answers
    }

    async fn enqueue_with(&self, posthaste: &Posthaste, events: Vec<NewEvent>) -> Result<Vec<Enqueued>> {
        let mut tx = self.pool.begin().await.expect("begin");
        let answer = posthaste.enqueue_many(&mut tx, events).await;
        tx.commit().await.expect("commit");
        answer
    }

    async fn roll_back(&self, events: Vec<NewEvent>) -> Vec<Enqueued> {
        let mut tx = self.pool.begin().await.expect("begin");
        let enqueued = self.posthaste.enqueue_many(&mut tx, events).await.expect("enqueue");
        tx.rollback().await.expect("roll back");
        enqueued
    }

    async fn commit_silently(&self, events: Vec<NewEvent>) {
        let mut tx = self.pool.begin().await.expect("begin");
        tx.execute("set local posthaste.ring = off").await.expect("silence");
        self.posthaste.enqueue_many(&mut tx, events).await.expect("enqueue");
        tx.commit().await.expect("commit");
    }

    async fn count_events(&self) -> u64 {
        let count: i64 = sqlx::query_scalar("select count(*) from posthaste.events")
            .fetch_one(&self.pool)
            .await
            .expect("count the events");
        count.unsigned_abs()
    }

    async fn park_all(&self, subscription: &str) {
        sqlx::query(
            "update posthaste.deliveries set parked = true where status = 'pending' \
             and subscription = (select id from posthaste.subscriptions where name = $1)",
        )
        .bind(subscription)
        .execute(&self.pool)
        .await
        .expect("park the deliveries");
    }

    async fn deliveries(&self, subscription: &str) -> Vec<Delivery> {
        let rows = sqlx::query(
            "select d.event_id, d.status, d.attempts, d.parked, d.last_error, d.next_attempt_at, d.locked_by \
             from posthaste.deliveries d join posthaste.subscriptions s on s.id = d.subscription \
             where s.name = $1 order by d.seq",
        )
        .bind(subscription)
        .fetch_all(&self.pool)
        .await
        .expect("read the deliveries");
        let delivery = |row: &sqlx::postgres::PgRow| Delivery {
            id: EventId(row.get("event_id")),
            status: row.get("status"),
            attempts: row.get::<i32, _>("attempts").unsigned_abs(),
            parked: row.get("parked"),
            last_error: row.get("last_error"),
            next_attempt_at: row.get("next_attempt_at"),
            locked_by: row.get("locked_by"),
        };
        rows.iter().map(delivery).collect()
    }
}
