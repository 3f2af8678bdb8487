//! Enqueue: inserts in the caller's transaction. Validation has happened before this.

use std::collections::HashMap;

use sqlx::{Connection, SqliteConnection};
use uuid::fmt::Hyphenated;

use crate::error::{Error, Result};
use crate::event::{Available, DEDUPE_LIFETIME, Enqueued, NewEvent};
use crate::id::EventId;

use super::SqliteStore;
use super::convert::{json, key_hash, micros};
use super::statements::SQL;

const DOING: &str = "enqueue";

impl SqliteStore {
    /// All or nothing: an error in SQLite does not abort the caller's transaction, so what takes more than one
    /// statement gets a savepoint.
    pub(crate) async fn enqueue(
        &self,
        conn: &mut SqliteConnection,
        events: &[NewEvent],
    ) -> Result<Vec<Enqueued>> {
        if let [event] = events
            && event.dedupe_key.is_none()
        {
            return enqueue_all(conn, events).await;
        }
        let refused = match conn.begin().await {
            Ok(mut savepoint) => {
                let results = enqueue_all(&mut savepoint, events).await?;
                savepoint.commit().await.map_err(Error::database(DOING))?;
                return Ok(results);
            }
            Err(error) => error,
        };
        match begun_by_hand(&refused) {
            // A transaction begun by a plain `BEGIN` is the caller's alone to roll back.
            true => enqueue_all(conn, events).await,
            false => Err(Error::database(DOING)(refused)),
        }
    }
}

fn begun_by_hand(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.message().contains("within a transaction"))
}

async fn enqueue_all(conn: &mut SqliteConnection, events: &[NewEvent]) -> Result<Vec<Enqueued>> {
    let mut first_of: HashMap<(&str, &str, &str), EventId> = HashMap::new();
    let mut results = Vec::with_capacity(events.len());
    for event in events {
        let result = match dedupe_of(event) {
            None => Enqueued { id: EventId::new(), duplicate: false },
            Some(key) => match first_of.get(&key) {
                Some(first) => Enqueued { id: *first, duplicate: true },
                None => {
                    let won = reserve(conn, event).await?;
                    first_of.insert(key, won.id);
                    won
                }
            },
        };
        if !result.duplicate {
            insert(conn, event, result.id).await?;
        }
        results.push(result);
    }
    Ok(results)
}

async fn insert(conn: &mut SqliteConnection, event: &NewEvent, id: EventId) -> Result<()> {
    let (at, delay) = availability(event);
    let headers = (!event.headers.is_empty()).then(|| json(&event.headers)).transpose()?;
    sqlx::query(SQL.enqueue.clone())
        .bind(at)
        .bind(delay)
        .bind(event.ordering_key().map(key_hash))
        .bind(id.0.hyphenated())
        .bind(event.tenant_id.map(|tenant| tenant.hyphenated()))
        .bind(&event.namespace)
        .bind(&event.topic)
        .bind(&event.event_type)
        .bind(event.ordering_key())
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(&event.dedupe_key)
        .bind(&event.content_type)
        .bind(headers)
        .bind(&event.payload)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(Error::database(DOING))
}

/// Reserves the event's dedupe key; if it is taken, answers with the id of the event that was first.
async fn reserve(conn: &mut SqliteConnection, event: &NewEvent) -> Result<Enqueued> {
    let id = EventId::new();
    let won = sqlx::query(SQL.reserve_dedupe_key.clone())
        .bind(&event.namespace)
        .bind(&event.topic)
        .bind(&event.dedupe_key)
        .bind(id.0.hyphenated())
        .bind(micros(event.dedupe_for.unwrap_or(DEDUPE_LIFETIME)))
        .fetch_optional(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    match won {
        Some(_) => Ok(Enqueued { id, duplicate: false }),
        None => Ok(Enqueued { id: find_winner(conn, event).await?, duplicate: true }),
    }
}

async fn find_winner(conn: &mut SqliteConnection, event: &NewEvent) -> Result<EventId> {
    sqlx::query_scalar::<_, Hyphenated>(SQL.dedupe_lookup.clone())
        .bind(&event.namespace)
        .bind(&event.topic)
        .bind(&event.dedupe_key)
        .fetch_one(conn)
        .await
        .map(|id| EventId(id.into_uuid()))
        .map_err(Error::database(DOING))
}

fn dedupe_of(event: &NewEvent) -> Option<(&str, &str, &str)> {
    event.dedupe_key.as_deref().map(|key| (event.namespace.as_str(), event.topic.as_str(), key))
}

fn availability(event: &NewEvent) -> (Option<i64>, Option<i64>) {
    match event.available {
        Available::Now => (None, None),
        Available::At(time) => (Some(time.timestamp_micros()), None),
        Available::After(delay) => (None, Some(micros(delay))),
    }
}
