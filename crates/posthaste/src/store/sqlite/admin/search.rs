//! Listing and finding events, bounded: a page says how far it looked and where the next goes on.

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::id::EventId;
use crate::lease::Attempt;
use crate::store::admin::{EventDetail, EventPage, EventQuery, EventState, EventStatus, Found};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::convert::{count_of, event_of, time_of};
use crate::store::sqlite::declare::seq_of_event;
use crate::store::sqlite::read::last_seq;
use crate::store::sqlite::statements::SQL;

const DOING: &str = "search events";

/// The part of the log a page may look at, both ends included.
struct Span {
    from: i64,
    to: i64,
    looked_at: u64,
    /// Whether nothing that could match lies beyond it.
    last: bool,
}

impl SqliteStore {
    pub(super) async fn search_events(&self, query: &EventQuery) -> Result<EventPage> {
        if let Some(name) = &query.subscription {
            self.load_reader(name).await?;
        }
        let mut conn = self.pool.acquire().await.map_err(Error::database(DOING))?;
        let Some(span) = span(&mut conn, query).await? else {
            return Ok(EventPage { events: Vec::new(), looked_at: 0, next: None });
        };
        let events = matches(&mut conn, query, &span).await?;
        let full = events.len() >= query.limit as usize;
        let end = if query.oldest_first { span.to } else { span.from };
        let next = match events.last() {
            Some(last) if full => Some(last.event.seq),
            _ => (!span.last).then_some(end),
        };
        Ok(EventPage { events, looked_at: span.looked_at, next })
    }

    pub(super) async fn detail_of(&self, id: EventId) -> Result<EventDetail> {
        let doing = "show an event";
        let mut conn = self.pool.acquire().await.map_err(Error::database(doing))?;
        let row = sqlx::query(SQL.event_by_id.clone())
            .bind(id.0.hyphenated())
            .fetch_optional(&mut *conn)
            .await
            .map_err(Error::database(doing))?
            .ok_or_else(|| Error::NoSuchEvent(id.to_string()))?;
        let event = event_of(&row)?;
        let rows = sqlx::query(SQL.admin_states_of.clone())
            .bind(event.seq)
            .fetch_all(&mut *conn)
            .await
            .map_err(Error::database(doing))?;
        Ok(EventDetail { event, states: rows.iter().map(state_of).collect::<Result<_>>()? })
    }
}

/// `None`: there is nothing to look at.
async fn span(conn: &mut SqliteConnection, query: &EventQuery) -> Result<Option<Span>> {
    if let Some(id) = query.id {
        return match seq_of_event(conn, id).await {
            Ok(seq) => Ok(Some(Span { from: seq, to: seq, looked_at: 1, last: true })),
            Err(Error::NoSuchEvent(_)) => Ok(None),
            Err(error) => Err(error),
        };
    }
    let (above, below) = outer_bounds(conn, query).await?;
    if query.status == Some(EventStatus::Dead) {
        // Dead letters have an index of their own: no need to look at anything else.
        return Ok(Some(Span { from: above + 1, to: below - 1, looked_at: 0, last: true }));
    }
    let (statement, first, second) = match query.oldest_first {
        true => (SQL.admin_oldest_span.clone(), above, below),
        false => (SQL.admin_newest_span.clone(), below, above),
    };
    let row = sqlx::query(statement)
        .bind(first)
        .bind(second)
        .bind(i64::from(query.look_at))
        .fetch_one(conn)
        .await
        .map_err(Error::database(DOING))?;
    let looked_at = row.get::<i64, _>("looked_at").unsigned_abs();
    let Some(far_end) = row.get::<Option<i64>, _>("far_end") else { return Ok(None) };
    let (from, to) = if query.oldest_first { (above + 1, far_end) } else { (far_end, below - 1) };
    Ok(Some(Span { from, to, looked_at, last: looked_at < u64::from(query.look_at) }))
}

/// Seqs outside of which nothing can match, both ends excluded.
async fn outer_bounds(conn: &mut SqliteConnection, query: &EventQuery) -> Result<(i64, i64)> {
    let (mut above, mut below) = (0, i64::MAX);
    if let Some(since) = query.since {
        above = last_before(conn, since).await?;
    }
    match query.after {
        Some(after) if query.oldest_first => above = above.max(after),
        Some(after) => below = below.min(after),
        None => {}
    }
    Ok((above, below))
}

/// A seq up to which every event is older than this, by halving: one writer at a time means that times rise with seqs,
/// unless somebody set the clock back. A walk from the head of the log would be exact, and would not be bounded.
async fn last_before(conn: &mut SqliteConnection, time: DateTime<Utc>) -> Result<i64> {
    let (mut before, mut after) = (0, last_seq(conn).await? + 1);
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        let found = sqlx::query(SQL.admin_event_from.clone())
            .bind(middle)
            .fetch_optional(&mut *conn)
            .await
            .map_err(Error::database(DOING))?;
        match found {
            Some(row) if row.get::<i64, _>("created_at") < time.timestamp_micros() => before = row.get("seq"),
            _ => after = middle,
        }
    }
    Ok(before)
}

async fn matches(conn: &mut SqliteConnection, query: &EventQuery, span: &Span) -> Result<Vec<Found>> {
    let statement = match (&query.subscription, query.status) {
        (None, _) => SQL.admin_search.clone(),
        (Some(_), Some(EventStatus::Dead)) => SQL.admin_search_dead.clone(),
        (Some(_), _) => SQL.admin_search_status.clone(),
    };
    let mut bound = sqlx::query(statement)
        .bind(span.from)
        .bind(span.to)
        .bind(query.id.map(|id| id.0.hyphenated()))
        .bind(&query.topic)
        .bind(&query.event_type)
        .bind(&query.key)
        .bind(&query.aggregate_type)
        .bind(&query.aggregate_id)
        .bind(query.tenant_id.map(|tenant| tenant.hyphenated()))
        .bind(query.since.map(|since| since.timestamp_micros()))
        .bind(query.until.map(|until| until.timestamp_micros()))
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
    let found = |row: &SqliteRow| {
        let state = query.subscription.is_some().then(|| state_of(row)).transpose()?;
        Ok(Found { event: event_of(row)?, state })
    };
    rows.iter().map(found).collect()
}

pub(super) fn state_of(row: &SqliteRow) -> Result<EventState> {
    let doing = Error::database("read a delivery");
    let word: String = row.get("status");
    let status =
        EventStatus::parse(&word).ok_or_else(|| Error::Corrupt(format!("`{word}` is not a status")))?;
    let read = || -> sqlx::Result<EventState> {
        let history: Option<sqlx::types::Json<Vec<Attempt>>> = row.try_get("history")?;
        Ok(EventState {
            subscription: row.try_get("subscription")?,
            status,
            attempts: count_of(row, "attempts"),
            next_attempt_at: time_of(row, "next_attempt_at")?,
            parked: row.try_get("parked")?,
            locked_by: row.try_get("locked_by")?,
            locked_until: time_of(row, "locked_until")?,
            last_error: row.try_get("last_error")?,
            edited_payload: row.try_get("edited_payload")?,
            history: history.map(|json| json.0).unwrap_or_default(),
        })
    };
    read().map_err(doing)
}
