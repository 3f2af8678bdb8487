//! Listing and finding events, bounded: a page says how far it looked and where the next goes on.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::id::EventId;
use crate::lease::Attempt;
use crate::store::admin::{EventDetail, EventPage, EventQuery, EventState, EventStatus, Found};
use crate::store::postgres::{PgStore, event_of};

const DOING: &str = "search events";

/// The part of the log a page may look at, both ends included.
struct Span {
    from: i64,
    to: i64,
    looked_at: u64,
    /// Whether nothing that could match lies beyond it.
    last: bool,
}

impl PgStore {
    pub(super) async fn search_events(&self, query: &EventQuery) -> Result<EventPage> {
        if let Some(name) = &query.subscription {
            self.load_reader(name).await?;
        }
        let mut conn = self.lend(DOING).await?;
        let Some(span) = self.span(&mut conn, query).await? else {
            return Ok(EventPage { events: Vec::new(), looked_at: 0, next: None });
        };
        let events = self.matches(&mut conn, query, &span).await?;
        let full = events.len() >= query.limit as usize;
        let end = if query.oldest_first { span.to } else { span.from };
        let next = match events.last() {
            Some(last) if full => Some(last.event.seq),
            _ => (!span.last).then_some(end),
        };
        Ok(EventPage { events, looked_at: span.looked_at, next })
    }

    /// `None`: there is nothing to look at.
    async fn span(&self, conn: &mut PgConnection, query: &EventQuery) -> Result<Option<Span>> {
        if let Some(id) = query.id {
            return match self.seq_of_event(conn, id).await {
                Ok(seq) => Ok(Some(Span { from: seq, to: seq, looked_at: 1, last: true })),
                Err(Error::NoSuchEvent(_)) => Ok(None),
                Err(error) => Err(error),
            };
        }
        let (above, below) = self.outer_bounds(conn, query).await?;
        if query.status == Some(EventStatus::Dead) {
            // Dead letters have an index of their own: no need to look at anything else.
            return Ok(Some(Span { from: above + 1, to: below - 1, looked_at: 0, last: true }));
        }
        let (statement, first, second) = match query.oldest_first {
            true => (self.sql.admin_oldest_span.clone(), above, below),
            false => (self.sql.admin_newest_span.clone(), below, above),
        };
        let row = self
            .query(statement)
            .bind(first)
            .bind(second)
            .bind(i64::from(query.look_at))
            .fetch_one(conn)
            .await
            .map_err(Error::database(DOING))?;
        let looked_at = u64::try_from(row.get::<i64, _>("looked_at")).unwrap_or(0);
        let Some(far_end) = row.get::<Option<i64>, _>("far_end") else { return Ok(None) };
        let (from, to) = if query.oldest_first { (above + 1, far_end) } else { (far_end, below - 1) };
        Ok(Some(Span { from, to, looked_at, last: looked_at < u64::from(query.look_at) }))
    }

    /// Seqs outside of which nothing can match, both ends excluded.
    async fn outer_bounds(&self, conn: &mut PgConnection, query: &EventQuery) -> Result<(i64, i64)> {
        let (mut above, mut below) = (0, i64::MAX);
        if let Some(since) = query.since {
            above = self.seq_at_time(conn, since).await? - 1;
        }
        match query.after {
            Some(after) if query.oldest_first => above = above.max(after),
            Some(after) => below = below.min(after),
            None => {}
        }
        Ok((above, below))
    }

    async fn matches(&self, conn: &mut PgConnection, query: &EventQuery, span: &Span) -> Result<Vec<Found>> {
        let statement = match (&query.subscription, query.status) {
            (None, _) => self.sql.admin_search.clone(),
            (Some(_), Some(EventStatus::Dead)) => self.sql.admin_search_dead.clone(),
            (Some(_), _) => self.sql.admin_search_status.clone(),
        };
        let mut bound = self
            .query(statement)
            .bind(span.from)
            .bind(span.to)
            .bind(query.id.map(|id| id.0))
            .bind(&query.topic)
            .bind(&query.event_type)
            .bind(&query.key)
            .bind(&query.aggregate_type)
            .bind(&query.aggregate_id)
            .bind(query.tenant_id)
            .bind(query.since)
            .bind(query.until)
            .bind(query.text.as_ref().map(|text| text.as_bytes().to_vec()))
            .bind(if query.oldest_first { 1_i64 } else { -1 })
            .bind(i64::from(query.limit))
            .bind(&query.namespace);
        if let Some(name) = &query.subscription {
            bound = bound.bind(name).bind(&query.error_contains);
            if query.status != Some(EventStatus::Dead) {
                bound = bound.bind(query.status.map(EventStatus::as_str));
            }
        }
        let rows = bound.fetch_all(conn).await.map_err(Error::database(DOING))?;
        let found = |row: &PgRow| {
            let state = query.subscription.is_some().then(|| state_of(row)).transpose()?;
            Ok(Found { event: event_of(row)?, state })
        };
        rows.iter().map(found).collect()
    }

    pub(super) async fn detail_of(&self, id: EventId) -> Result<EventDetail> {
        let doing = "show an event";
        let mut conn = self.lend(doing).await?;
        let row = self
            .query(self.sql.event_by_id.clone())
            .bind(id.0)
            .fetch_optional(&mut conn)
            .await
            .map_err(Error::database(doing))?
            .ok_or_else(|| Error::NoSuchEvent(id.to_string()))?;
        let event = event_of(&row)?;
        let rows = self
            .query(self.sql.admin_states_of.clone())
            .bind(event.seq)
            .fetch_all(&mut conn)
            .await
            .map_err(Error::database(doing))?;
        Ok(EventDetail { event, states: rows.iter().map(state_of).collect::<Result<_>>()? })
    }
}

pub(super) fn state_of(row: &PgRow) -> Result<EventState> {
    let word: String = row.get("status");
    let history: Option<sqlx::types::Json<Vec<Attempt>>> =
        row.try_get("history").map_err(Error::database("read a delivery's history"))?;
    Ok(EventState {
        subscription: row.get("subscription"),
        status: EventStatus::parse(&word)
            .ok_or_else(|| Error::Corrupt(format!("`{word}` is not a status")))?,
        attempts: u32::try_from(row.get::<i32, _>("attempts")).unwrap_or(0),
        next_attempt_at: row.get("next_attempt_at"),
        parked: row.get("parked"),
        locked_by: row.get("locked_by"),
        locked_until: row.get("locked_until"),
        last_error: row.get("last_error"),
        edited_payload: row.get("edited_payload"),
        history: history.map(|json| json.0).unwrap_or_default(),
    })
}
