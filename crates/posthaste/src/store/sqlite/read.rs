//! Reading the log: where a lane stands, whether anything lies beyond, and the next page. Writes nothing.

use futures::TryStreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use crate::error::{Error, Result};
use crate::id::Token;
use crate::lease::{ClaimedEvent, Lane, Reader};
use crate::subscription::Filter;

use super::convert::{duration_of, event_of, json};
use super::statements::SQL;

/// A page carries at most this many bytes of payload, however many events were asked for.
pub(super) const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// A lane that wants nothing of what was enqueued still moves its mark after this many events...
const ADVANCE_EVENTS: i64 = 1_000;
/// ...or, if there were fewer, after this many microseconds: an old mark holds retention back.
const ADVANCE_MICROS: i64 = 60_000_000;

/// A filter in its stored form: each list as JSON, null for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredFilter {
    pub(super) namespaces: Option<String>,
    pub(super) topics: Option<String>,
    pub(super) event_types: Option<String>,
    pub(super) tenants: Option<String>,
}

impl StoredFilter {
    pub(super) fn of(filter: &Filter) -> Result<Self> {
        Ok(Self {
            namespaces: listed(&filter.namespaces)?,
            topics: listed(&filter.topics)?,
            event_types: listed(&filter.event_types)?,
            tenants: listed(&filter.tenants)?,
        })
    }

    pub(super) fn read(row: &SqliteRow) -> Self {
        Self {
            namespaces: row.get("namespaces"),
            topics: row.get("topics"),
            event_types: row.get("event_types"),
            tenants: row.get("tenants"),
        }
    }

    pub(super) fn parsed(&self) -> Result<Filter> {
        Ok(Filter {
            namespaces: unlisted(self.namespaces.as_deref())?,
            topics: unlisted(self.topics.as_deref())?,
            event_types: unlisted(self.event_types.as_deref())?,
            tenants: unlisted(self.tenants.as_deref())?,
        })
    }
}

fn unlisted<T: serde::de::DeserializeOwned>(list: Option<&str>) -> Result<Vec<T>> {
    let parse =
        |text| serde_json::from_str(text).map_err(|error| Error::Corrupt(format!("a filter: {error}")));
    list.map_or(Ok(Vec::new()), parse)
}

fn listed(list: &[impl serde::Serialize]) -> Result<Option<String>> {
    (!list.is_empty()).then(|| json(&list)).transpose()
}

/// Where a lane stands.
#[derive(Debug)]
pub(super) struct Place {
    /// The newest batch's number.
    pub(super) number: i64,
    /// Everything up to here was claimed.
    pub(super) pos: i64,
    /// Set when the lanes were split anew: this lane ends here.
    pub(super) stop: Option<i64>,
    /// Whether the given token owns it; true if none was given.
    pub(super) owned: bool,
    pub(super) finished: bool,
    /// Whether a batch of it is unfinished.
    pub(super) unfinished: bool,
    pub(super) filter: StoredFilter,
    pub(super) filter_version: i32,
    /// Whether the subscription has any.
    pub(super) deliveries: bool,
    /// The last seq of the log.
    pub(super) last_seq: i64,
    /// Microseconds since it moved.
    age: i64,
}

impl Place {
    /// A page reads up to here.
    pub(super) fn upto(&self) -> i64 {
        self.stop.unwrap_or(i64::MAX)
    }

    /// Whether the mark should move past events that nobody wants.
    pub(super) fn is_stale(&self) -> bool {
        let passed = self.last_seq - self.pos;
        passed >= ADVANCE_EVENTS || (passed > 0 && self.age >= ADVANCE_MICROS)
    }
}

/// Which part of the log to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) after: i64,
    pub(super) upto: i64,
}

pub(super) async fn last_seq(conn: &mut SqliteConnection) -> Result<i64> {
    sqlx::query_scalar(SQL.last_seq.clone())
        .fetch_one(conn)
        .await
        .map_err(Error::database("find the end of the log"))
}

pub(super) async fn load_filter(
    conn: &mut SqliteConnection,
    subscription: i64,
    version: i32,
) -> Result<StoredFilter> {
    let row = sqlx::query(SQL.filter.clone())
        .bind(subscription)
        .bind(version)
        .fetch_one(conn)
        .await
        .map_err(Error::database("read a filter"))?;
    Ok(StoredFilter::read(&row))
}

pub(super) async fn load_place(
    conn: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    owner: Option<Token>,
) -> Result<Place> {
    let row = sqlx::query(SQL.progress.clone())
        .bind(reader.id)
        .bind(lane.generation)
        .bind(lane.number)
        .bind(owner.map(Token::text))
        .fetch_one(conn)
        .await
        .map_err(Error::database("read a lane's progress"))?;
    Ok(Place {
        number: row.get("number"),
        pos: row.get("pos"),
        stop: row.get("stop_mark"),
        owned: row.get("owned"),
        finished: row.get("finished"),
        unfinished: row.get("unfinished"),
        filter: StoredFilter::read(&row),
        filter_version: row.get("version"),
        deliveries: row.get("deliveries"),
        last_seq: row.get("last_seq"),
        age: row.get("age"),
    })
}

/// Whether a lane wants anything beyond its place.
pub(super) async fn look(
    conn: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    place: &Place,
) -> Result<bool> {
    let range = Range { after: place.pos, upto: place.upto() };
    let row = bind_wanted(sqlx::query(SQL.look.clone()), reader, &place.filter, lane, range)
        .fetch_one(conn)
        .await
        .map_err(Error::database("look for events"))?;
    Ok(row.get("found"))
}

/// Reads up to `limit` events of a range that the filter wants in this lane, in seq order.
pub(super) async fn read_page(
    conn: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    filter: &StoredFilter,
    range: Range,
    limit: i64,
) -> Result<Vec<ClaimedEvent>> {
    let mut rows = bind_wanted(sqlx::query(SQL.page.clone()), reader, filter, lane, range)
        .bind(reader.dead_blocks())
        .bind(limit)
        .fetch(conn);
    let mut page = Vec::new();
    let mut bytes = 0;
    while bytes <= PAGE_BYTES
        && let Some(row) = rows.try_next().await.map_err(Error::database("read a page"))?
    {
        let claimed = claimed_of(&row, reader)?;
        bytes += claimed.event.payload.len();
        page.push(claimed);
    }
    Ok(page)
}

fn claimed_of(row: &SqliteRow, reader: &Reader) -> Result<ClaimedEvent> {
    Ok(ClaimedEvent {
        event: event_of(row)?,
        blocked: reader.keyed() && row.get::<bool, _>("blocked"),
        elsewhere: row.get("elsewhere"),
        wait: duration_of(row.get("wait")),
    })
}

pub(super) type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

/// Binds ?1 to ?9: the subscription, what fragments/wanted.sql needs, and the range.
pub(super) fn bind_wanted<'q>(
    query: Query<'q>,
    reader: &Reader,
    filter: &StoredFilter,
    lane: Lane,
    range: Range,
) -> Query<'q> {
    query
        .bind(reader.id)
        .bind(filter.namespaces.clone())
        .bind(filter.topics.clone())
        .bind(filter.event_types.clone())
        .bind(filter.tenants.clone())
        .bind(lane.number)
        .bind(lane.of)
        .bind(range.after)
        .bind(range.upto)
}
