//! Enqueue: one INSERT in the caller's transaction. Validation has happened before this.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::postgres::PgConnection;
use sqlx::types::Json;

use crate::error::{Error, Result};
use crate::event::{Available, DEDUPE_LIFETIME, DEFAULT_NAMESPACE, Enqueued, Headers, NewEvent};
use crate::id::EventId;

use super::{PgStore, micros};

const DOING: &str = "enqueue";

impl PgStore {
    pub(crate) async fn enqueue(
        &self,
        conn: &mut PgConnection,
        events: &[NewEvent],
    ) -> Result<Vec<Enqueued>> {
        let mut results: Vec<Enqueued> =
            events.iter().map(|_| Enqueued { id: EventId::new(), duplicate: false }).collect();
        if events.iter().any(|event| event.dedupe_key.is_some()) {
            self.reserve_dedupe_keys(conn, events, &mut results).await?;
        }
        let fresh: Vec<(&NewEvent, EventId)> =
            events.iter().zip(&results).filter(|(_, r)| !r.duplicate).map(|(e, r)| (e, r.id)).collect();
        match fresh.as_slice() {
            [] => {}
            [(event, id)] if is_usual(event) => self.insert_usual(conn, event, *id).await?,
            [(event, id)] => self.insert_one(conn, event, *id).await?,
            many => self.insert_many(conn, many).await?,
        }
        Ok(results)
    }

    async fn insert_usual(&self, conn: &mut PgConnection, event: &NewEvent, id: EventId) -> Result<()> {
        self.query_for_caller(self.sql.enqueue_usual.clone())
            .bind(id.0)
            .bind(&event.topic)
            .bind(&event.event_type)
            .bind(event.ordering_key())
            .bind(&event.aggregate_type)
            .bind(&event.aggregate_id)
            .bind(&event.content_type)
            .bind(headers(event))
            .bind(&event.payload)
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database(DOING))
    }

    async fn insert_one(&self, conn: &mut PgConnection, event: &NewEvent, id: EventId) -> Result<()> {
        let (at, delay) = availability(event);
        self.query_for_caller(self.sql.enqueue_one.clone())
            .bind(at)
            .bind(delay)
            .bind(id.0)
            .bind(event.tenant_id)
            .bind(&event.namespace)
            .bind(&event.topic)
            .bind(&event.event_type)
            .bind(event.ordering_key())
            .bind(&event.aggregate_type)
            .bind(&event.aggregate_id)
            .bind(&event.dedupe_key)
            .bind(&event.content_type)
            .bind(headers(event))
            .bind(&event.payload)
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database(DOING))
    }

    async fn insert_many(&self, conn: &mut PgConnection, events: &[(&NewEvent, EventId)]) -> Result<()> {
        fn column<'a, T>(events: &'a [(&'a NewEvent, EventId)], of: impl Fn(&'a NewEvent) -> T) -> Vec<T> {
            events.iter().map(|(event, _)| of(event)).collect()
        }
        self.query_for_caller(self.sql.enqueue_many.clone())
            .bind(column(events, |e| availability(e).0))
            .bind(column(events, |e| availability(e).1))
            .bind(events.iter().map(|(_, id)| id.0).collect::<Vec<_>>())
            .bind(column(events, |e| e.tenant_id))
            .bind(column(events, |e| e.namespace.as_str()))
            .bind(column(events, |e| e.topic.as_str()))
            .bind(column(events, |e| e.event_type.as_deref()))
            .bind(column(events, |e| e.ordering_key()))
            .bind(column(events, |e| e.aggregate_type.as_deref()))
            .bind(column(events, |e| e.aggregate_id.as_deref()))
            .bind(column(events, |e| e.dedupe_key.as_deref()))
            .bind(column(events, |e| e.content_type.as_str()))
            .bind(column(events, headers))
            .bind(column(events, |e| e.payload.as_slice()))
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database(DOING))
    }

    /// Marks as duplicates those whose key was enqueued before, and gives them the id of the first.
    async fn reserve_dedupe_keys(
        &self,
        conn: &mut PgConnection,
        events: &[NewEvent],
        results: &mut [Enqueued],
    ) -> Result<()> {
        let mut first_of: HashMap<(&str, &str, &str), usize> = HashMap::new();
        let mut wanted = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let Some(key) = dedupe_of(event) else { continue };
            match first_of.get(&key) {
                Some(first) => results[index] = Enqueued { id: results[*first].id, duplicate: true },
                None => {
                    first_of.insert(key, index);
                    wanted.push(index);
                }
            }
        }
        let won = self.try_reserve(conn, events, results, &wanted).await?;
        // In sorted order, like the reservation: taking over an expired key locks its row.
        wanted.sort_by_key(|index| dedupe_of(&events[*index]));
        for index in wanted {
            let id = results[index].id;
            if !won.contains(&id) {
                results[index] = self.find_winner(conn, &events[index], id).await?;
            }
        }
        repeat_winners(events, &first_of, results);
        Ok(())
    }

    async fn try_reserve(
        &self,
        conn: &mut PgConnection,
        events: &[NewEvent],
        results: &[Enqueued],
        wanted: &[usize],
    ) -> Result<Vec<EventId>> {
        let text =
            |of: fn(&NewEvent) -> &str| -> Vec<&str> { wanted.iter().map(|i| of(&events[*i])).collect() };
        let rows = self
            .query_for_caller(self.sql.enqueue_deduped.clone())
            .bind(text(|e| &e.namespace))
            .bind(text(|e| &e.topic))
            .bind(text(|e| e.dedupe_key.as_deref().unwrap_or_default()))
            .bind(wanted.iter().map(|i| results[*i].id.0).collect::<Vec<_>>())
            .bind(wanted.iter().map(|i| lifetime(&events[*i])).collect::<Vec<_>>())
            .fetch_all(conn)
            .await
            .map_err(Error::database(DOING))?;
        Ok(rows.iter().map(|row| EventId(row.get("event_id"))).collect())
    }

    /// The reservation met an existing key: it is a duplicate, unless the key's lifetime has passed.
    async fn find_winner(&self, conn: &mut PgConnection, event: &NewEvent, id: EventId) -> Result<Enqueued> {
        loop {
            let found = self
                .query_for_caller(self.sql.dedupe_lookup.clone())
                .bind(&event.namespace)
                .bind(&event.topic)
                .bind(&event.dedupe_key)
                .fetch_optional(&mut *conn)
                .await
                .map_err(Error::database(DOING))?;
            match found {
                Some(row) if !row.get::<bool, _>("expired") => {
                    return Ok(Enqueued { id: EventId(row.get("event_id")), duplicate: true });
                }
                Some(_) if self.renew_key(conn, event, id).await? => {
                    return Ok(Enqueued { id, duplicate: false });
                }
                Some(_) => {}
                // Removed in between because it had expired: reserve it anew.
                None if !self
                    .try_reserve(
                        conn,
                        std::slice::from_ref(event),
                        &[Enqueued { id, duplicate: false }],
                        &[0],
                    )
                    .await?
                    .is_empty() =>
                {
                    return Ok(Enqueued { id, duplicate: false });
                }
                None => {}
            }
        }
    }

    async fn renew_key(&self, conn: &mut PgConnection, event: &NewEvent, id: EventId) -> Result<bool> {
        let done = self
            .query_for_caller(self.sql.dedupe_renew.clone())
            .bind(&event.namespace)
            .bind(&event.topic)
            .bind(&event.dedupe_key)
            .bind(id.0)
            .bind(lifetime(event))
            .execute(conn)
            .await
            .map_err(Error::database(DOING))?;
        Ok(done.rows_affected() == 1)
    }
}

/// Whether everything that `enqueue_usual.sql` leaves out is as the table has it by default.
pub(super) fn is_usual(event: &NewEvent) -> bool {
    event.tenant_id.is_none()
        && event.dedupe_key.is_none()
        && event.namespace == DEFAULT_NAMESPACE
        && event.available == Available::Now
}

/// Within one call the first event of a key stands for the later ones: they learn the id it ended up with.
fn repeat_winners(
    events: &[NewEvent],
    first_of: &HashMap<(&str, &str, &str), usize>,
    results: &mut [Enqueued],
) {
    for (index, event) in events.iter().enumerate() {
        let Some(first) = dedupe_of(event).and_then(|key| first_of.get(&key)) else { continue };
        if *first != index {
            results[index].id = results[*first].id;
        }
    }
}

fn dedupe_of(event: &NewEvent) -> Option<(&str, &str, &str)> {
    event.dedupe_key.as_deref().map(|key| (event.namespace.as_str(), event.topic.as_str(), key))
}

fn lifetime(event: &NewEvent) -> i64 {
    micros(event.dedupe_for.unwrap_or(DEDUPE_LIFETIME))
}

fn headers(event: &NewEvent) -> Option<Json<Headers>> {
    (!event.headers.is_empty()).then(|| Json(Headers::from_map(event.headers.clone())))
}

fn availability(event: &NewEvent) -> (Option<chrono::DateTime<chrono::Utc>>, Option<i64>) {
    match event.available {
        Available::Now => (None, None),
        Available::At(time) => (Some(time), None),
        Available::After(delay) => (None, Some(micros(delay))),
    }
}
