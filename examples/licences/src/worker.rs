//! The compliance worker: takes copies of events from wherever they come, and writes each notice once.

use std::time::Duration;

use posthaste::inbox::{Letter, LetterFilter, Once, OnceError, PostgresInbox};
use sqlx::{PgConnection, PgPool};

use crate::Result;
use crate::change::StatusChanged;
use crate::notice::{INSERT, notice_of};

/// The consumer's name. Other consumers of the same events have marks of their own.
pub const CONSUMER: &str = "compliance";

/// The worker's own table, in the worker's own database: the mark of the guard and the notice commit together.
const TABLE: &str = "create table if not exists notifications (
  id bigint generated always as identity primary key,
  event_id text not null,
  audience text not null,
  license_id text not null,
  store_id text not null,
  text text not null
)";

/// The worker.
#[derive(Debug, Clone)]
pub struct Worker {
    pool: PgPool,
    inbox: PostgresInbox,
    /// Off only to show what happens then.
    pub guarded: bool,
}

/// One copy of an event.
#[derive(Debug, Clone)]
pub struct Copy {
    /// Where it came from, for the log.
    pub source: &'static str,
    /// The event's id, the same for all copies.
    pub event_id: String,
    /// The payload.
    pub body: Vec<u8>,
}

/// What to do with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done, now or before.
    Acknowledge,
    /// Another worker has it in hand, or something failed that may pass.
    Later(Duration),
}

impl Worker {
    /// Creates what is missing.
    pub async fn open(pool: PgPool) -> Result<Self> {
        let inbox = PostgresInbox::new(pool.clone(), CONSUMER)?;
        inbox.migrate().await?;
        sqlx::query(TABLE).execute(&pool).await?;
        Ok(Self { pool, inbox, guarded: true })
    }

    /// Handles one copy, and says so.
    pub async fn handle(&self, copy: &self::Copy) -> Answer {
        let answer = self.answer(copy).await;
        println!("{} {} {answer:?}", copy.source, copy.event_id);
        answer
    }

    async fn answer(&self, copy: &self::Copy) -> Answer {
        let change: StatusChanged = match serde_json::from_slice(&copy.body) {
            Ok(change) => change,
            Err(error) => return answer(self.give_up(copy, &error.to_string()).await),
        };
        if !self.guarded {
            return answer(self.without_guard(&copy.event_id, &change).await);
        }
        let done =
            self.inbox.once(&copy.event_id, async |tx| notify(tx, &copy.event_id, &change).await).await;
        match done {
            Ok(Once::Done(()) | Once::Duplicate) => Answer::Acknowledge,
            Ok(Once::Busy { retry_after }) => Answer::Later(retry_after),
            Err(OnceError::Effect(error)) => answer(Err(error.into())),
            Err(OnceError::Inbox(error)) => answer(Err(error.into())),
        }
    }

    /// A message that nobody will ever understand is kept for a person, and the others go on.
    async fn give_up(&self, copy: &self::Copy, reason: &str) -> Result<()> {
        let letter = Letter::new(&copy.event_id, copy.body.clone(), reason).topic(crate::change::TOPIC);
        let mut tx = self.pool.begin().await?;
        self.inbox.give_up(&mut tx, &letter).await?;
        tx.commit().await?;
        Ok(())
    }

    /// How many messages it gave up.
    pub async fn dead_letters(&self) -> Result<usize> {
        Ok(self.inbox.dead_letters().list(&LetterFilter::default()).await?.len())
    }

    async fn without_guard(&self, event_id: &str, change: &StatusChanged) -> Result<()> {
        let mut connection = self.pool.acquire().await?;
        Ok(notify(&mut connection, event_id, change).await?)
    }
}

fn answer(done: Result<()>) -> Answer {
    match done {
        Ok(()) => Answer::Acknowledge,
        Err(error) => {
            eprintln!("compliance: {error}; the message comes again");
            Answer::Later(Duration::from_secs(1))
        }
    }
}

/// The effect, in the transaction it is given.
async fn notify(tx: &mut PgConnection, event_id: &str, change: &StatusChanged) -> sqlx::Result<()> {
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
