//! All of it in one process, on SQLite: the service, the subscription and the worker's notices in one file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste::inbox::{Letter, Once, OnceError, SqliteInbox};
use posthaste::{Event, Outcome, Posthaste, Subscription, Worker, sqlite_options};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{SqliteConnection, SqlitePool};
use uuid::Uuid;

use crate::Result;
use crate::change::{Status, StatusChanged, TOPIC};
use crate::notice::{INSERT, notice_of};
use crate::worker::CONSUMER;

const TABLES: [&str; 2] = [
    "create table if not exists licences (id text primary key, store_id text not null, status text not null)",
    "create table if not exists notifications (
       id integer primary key,
       event_id text not null,
       audience text not null,
       license_id text not null,
       store_id text not null,
       text text not null
     )",
];

/// Everything, on one file.
#[derive(Debug, Clone)]
pub struct Embedded {
    pool: SqlitePool,
    posthaste: Posthaste,
    inbox: SqliteInbox,
}

impl Embedded {
    /// Creates what is missing.
    pub async fn open(file: &Path) -> Result<Self> {
        let pool = SqlitePoolOptions::new().connect_with(sqlite_options(file)).await?;
        let posthaste = Posthaste::sqlite(pool.clone());
        posthaste.migrate().await?;
        let inbox = SqliteInbox::new(pool.clone(), CONSUMER)?;
        inbox.migrate().await?;
        for table in TABLES {
            sqlx::query(table).execute(&pool).await?;
        }
        Ok(Self { pool, posthaste, inbox })
    }

    /// The compliance worker as a subscription. Several of them share one guard, so that each notice still exists once.
    pub async fn start(&self, subscription: &str) -> Result<Worker> {
        // What a killed process had in hand is taken over after this time.
        let lease = Duration::from_secs(2);
        let subscription =
            Subscription::new(subscription)?.topic(TOPIC).settings(|settings| settings.lease = lease);
        let this = self.clone();
        let handler = move |event: Arc<Event>| {
            let this = this.clone();
            async move { this.handle(&event).await }
        };
        Ok(self.posthaste.handler(subscription, handler).start().await?)
    }

    /// A licence goes all the way.
    pub async fn run(&self, licences: usize) -> Result<()> {
        for number in 0..licences {
            let license_id = Uuid::now_v7().to_string();
            let store_id = format!("store-{}", number % 7);
            for status in [Status::Pending, if number % 3 == 0 { Status::Rejected } else { Status::Verified }]
            {
                let change = StatusChanged {
                    license_id: license_id.clone(),
                    store_id: store_id.clone(),
                    status,
                    reason: None,
                };
                self.change(&change).await?;
            }
        }
        Ok(())
    }

    /// Whether everything is delivered.
    pub async fn is_done(&self) -> Result<bool> {
        let subscriptions = self.posthaste.admin().subscriptions().await?;
        Ok(subscriptions.iter().all(|subscription| subscription.lag.is_zero()))
    }

    async fn change(&self, change: &StatusChanged) -> Result<()> {
        let mut tx = self.pool.begin_with("begin immediate").await?;
        sqlx::query("insert into licences (id, store_id, status) values ($1, $2, $3) on conflict (id) do update set status = $3")
            .bind(&change.license_id)
            .bind(&change.store_id)
            .bind(change.status.as_str())
            .execute(&mut *tx)
            .await?;
        self.posthaste.enqueue(&mut *tx, change.event()?).await?;
        tx.commit().await?;
        self.posthaste.wake();
        Ok(())
    }

    async fn handle(&self, event: &Event) -> Outcome {
        let event_id = event.id.to_string();
        let change: StatusChanged = match serde_json::from_slice(&event.payload) {
            Ok(change) => change,
            Err(error) => return self.give_up(event, &error.to_string()).await,
        };
        match self.inbox.once(&event_id, async |tx| notify(tx, &event_id, &change).await).await {
            Ok(Once::Done(()) | Once::Duplicate) => Outcome::Delivered,
            Ok(Once::Busy { .. }) => Outcome::retry("another copy is being handled"),
            Err(OnceError::Effect(error)) => Outcome::retry(error.to_string()),
            Err(OnceError::Inbox(error)) => Outcome::retry(error.to_string()),
        }
    }

    async fn give_up(&self, event: &Event, reason: &str) -> Outcome {
        let giving_up = async {
            let mut tx = self.pool.begin_with("begin immediate").await?;
            self.inbox.give_up(&mut tx, &Letter::of(event, reason)).await?;
            tx.commit().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        };
        match giving_up.await {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::retry(error.to_string()),
        }
    }
}

async fn notify(tx: &mut SqliteConnection, event_id: &str, change: &StatusChanged) -> sqlx::Result<()> {
    let notice = notice_of(change);
    sqlx::query(INSERT)
        .bind(event_id)
        .bind(notice.audience.as_str())
        .bind(&change.license_id)
        .bind(&change.store_id)
        .bind(&notice.text)
        .execute(tx)
        .await
        .map(drop)
}
