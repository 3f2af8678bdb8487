//! What the log says of a trial's events: which are delivered, which are dead and why, and which attempts counted.

use posthaste::EventId;
use sqlx::{Executor, PgPool, Row};

use crate::finding::Result;
use crate::relay::SUBSCRIPTION;

/// A dead letter as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) id: EventId,
    pub(crate) attempts: i32,
    pub(crate) reason: String,
}

/// An attempt that counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) id: EventId,
    pub(crate) reason: String,
}

/// Committed events that count as delivered.
pub(crate) async fn delivered(pool: &PgPool) -> Result<Vec<EventId>> {
    let ids = sqlx::query_scalar(
        "select id from written except \
         select id from posthaste.event_status where subscription = $1 and status <> 'delivered'",
    );
    let ids: Vec<uuid::Uuid> = ids.bind(SUBSCRIPTION).fetch_all(pool).await?;
    Ok(ids.into_iter().map(EventId).collect())
}

/// All dead letters.
pub(crate) async fn dead(pool: &PgPool) -> Result<Vec<Dead>> {
    let rows = sqlx::query(
        "select event_id, attempts, coalesce(last_error, '') as reason from posthaste.deliveries where status = 'dead'",
    );
    let of = |row: &sqlx::postgres::PgRow| Dead {
        id: EventId(row.get("event_id")),
        attempts: row.get("attempts"),
        reason: row.get("reason"),
    };
    Ok(rows.fetch_all(pool).await?.iter().map(of).collect())
}

/// Keeps every attempt that counts from now on. The log itself forgets them when the event is delivered.
pub(crate) async fn note_attempts(pool: &PgPool) -> Result<()> {
    pool.execute(
        "create table attempts (event_id uuid not null, reason text not null);
         create function note_attempt() returns trigger language plpgsql security definer set search_path = public as $$
         begin
           insert into attempts
           select new.event_id, concat_ws(': ', line ->> 'outcome', line ->> 'error') from (select new.history -> -1) as l (line);
           return null;
         end $$;
         create trigger note_first_attempt after insert on posthaste.deliveries
           for each row when (new.history <> '[]') execute function note_attempt();
         create trigger note_further_attempt after update on posthaste.deliveries
           for each row when (new.history is distinct from old.history) execute function note_attempt()",
    )
    .await?;
    Ok(())
}

/// The attempts that were noted, oldest first.
pub(crate) async fn attempts(pool: &PgPool) -> Result<Vec<Attempt>> {
    let rows = sqlx::query("select event_id, reason from attempts order by ctid").fetch_all(pool).await?;
    let of =
        |row: &sqlx::postgres::PgRow| Attempt { id: EventId(row.get("event_id")), reason: row.get("reason") };
    Ok(rows.iter().map(of).collect())
}
