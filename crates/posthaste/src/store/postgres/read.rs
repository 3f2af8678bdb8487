//! Reading the log: marks taken and stored, windows opened, pages read. Writes nothing but marks.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::lease::{ClaimedEvent, Lane, Reader};
use crate::subscription::Filter;

use super::ahead::Ahead;
use super::ask::{Ask, Together};
use super::declare::{filter_of, listed};
use super::mark::{Mark, Range, Snapshot};
use super::statements::MOST_EVENTS;
use super::window::NEAR;
use super::{PgStore, duration_of, event_of};

/// A page carries at most this many bytes of payload, however many events were asked for.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Claims of this many batches may be undone by a crash of the server: as many as a worker has in flight, two that are open and one that is
/// being settled.
pub(super) const MOST_UNFLUSHED: usize = 3;

/// What keeps a window from being claimed in one statement does not go away sooner, as a rule.
const LONGER_WAY: Duration = Duration::from_secs(2);

/// How much a page may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) events: i64,
    pub(super) bytes: usize,
}

impl Most {
    /// Whatever there is: for a page that was claimed before.
    pub(super) const ALL: Self = Self { events: MOST_EVENTS, bytes: usize::MAX };

    pub(super) fn page_of(events: u32) -> Self {
        Self { events: MOST_EVENTS.min(events.into()), bytes: PAGE_BYTES }
    }
}

/// Where a lane stands, remembered between claims.
#[derive(Debug)]
pub(crate) struct PgCursor {
    /// The newest batch's number.
    pub(super) number: i64,
    /// When that batch was inserted: tells it from one of the same number on another timeline.
    pub(super) inserted_at: Option<DateTime<Utc>>,
    pub(super) lo: Mark,
    /// The open window's end, if one is open, and how far it was claimed.
    pub(super) hi: Option<Mark>,
    pub(super) pos: i64,
    /// Set when the lanes were split anew: the last window of this lane ends here.
    pub(crate) stop: Option<i64>,
    pub(super) filter: Filter,
    pub(super) filter_version: i32,
    /// How old `lo` is, in seconds; idle lanes move it now and then so that they do not hold retention back.
    pub(super) lo_age: f64,
    pub(super) loaded: std::time::Instant,
    /// No crash of the server can undo what is visible in the open window's end.
    pub(super) durable: bool,
    /// Events claimed since a claim last waited for the disk.
    pub(crate) unflushed: usize,
    /// The open window's late branch is known to be empty from here on.
    pub(super) late_exhausted: bool,
    /// The next page of the open window, being read.
    pub(super) ahead: Option<Ahead>,
    /// When it last turned out that a window cannot be claimed in one statement.
    longer_way_since: Option<std::time::Instant>,
}

impl PgCursor {
    /// Windows are not to be claimed in one statement for a while.
    pub(super) fn longer_way(&mut self) {
        self.longer_way_since = Some(std::time::Instant::now());
    }

    pub(super) fn takes_longer_way(&self) -> bool {
        self.longer_way_since.is_some_and(|since| since.elapsed() < LONGER_WAY)
    }

    pub(crate) fn has_open_window(&self) -> bool {
        self.hi.is_some()
    }

    /// Whether the next claim must wait for the disk before anything is sent. It must if it could read what a crash of
    /// the server still undoes: a producer may commit without waiting. And now and then anyway: what a crash undoes of
    /// claims and settlements is delivered again, and that must stay within what is in flight.
    pub(super) fn must_flush(&self, events: usize, batch_size: u32) -> bool {
        !self.durable || self.unflushed + events > MOST_UNFLUSHED * batch_size as usize
    }

    /// A claim was made. One that waited has flushed all that it read.
    pub(super) fn note_flush(&mut self, flush: bool, events: usize) {
        self.durable |= flush;
        self.unflushed = if flush { 0 } else { self.unflushed + events };
    }
}

/// A page of a window.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) events: Vec<ClaimedEvent>,
    /// Whether the window ends with it: decided here, by the query that read it, and never inferred later.
    pub(super) closes_window: bool,
    /// No event of a late transaction lies ahead in this window.
    pub(super) late_exhausted: bool,
}

impl PgStore {
    /// A mark, and whether no crash of the server can undo what is visible in it.
    pub(super) async fn take_mark(&self, conn: &mut PgConnection) -> Result<(Mark, bool)> {
        let row = self
            .query(self.sql.take_mark.clone())
            .fetch_one(conn)
            .await
            .map_err(Error::database("take a mark"))?;
        taken_mark(&row)
    }

    pub(super) async fn store_mark(&self, conn: &mut PgConnection, mark: &Mark) -> Result<i64> {
        self.query_scalar(self.sql.insert_mark.clone())
            .bind(mark.snapshot.as_str())
            .bind(mark.floor_seq)
            .bind(mark.floor_xid.to_string())
            .bind(mark.ceil_seq)
            .bind(mark.steps_as_pairs())
            .bind(mark.replay_from)
            .fetch_one(conn)
            .await
            .map_err(Error::database("store a mark"))
    }

    pub(super) async fn load_mark(&self, conn: &mut PgConnection, id: i64) -> Result<Mark> {
        let row = self
            .query(self.sql.load_mark.clone())
            .bind(id)
            .fetch_one(conn)
            .await
            .map_err(Error::database("read a mark"))?;
        mark_of(&row, "")
    }

    pub(super) async fn load_cursor(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
    ) -> Result<PgCursor> {
        let row = self
            .query(self.sql.progress.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .fetch_one(conn)
            .await
            .map_err(Error::database("read a lane's progress"))?;
        let open = row.get::<Option<i64>, _>("hi_id").is_some();
        Ok(PgCursor {
            number: row.get("number"),
            inserted_at: row.get("inserted_at"),
            lo: mark_of(&row, "lo_")?,
            hi: open.then(|| mark_of(&row, "hi_")).transpose()?,
            pos: row.get("pos"),
            stop: row.get("stop_mark"),
            filter: filter_of(&row),
            filter_version: row.get("version"),
            lo_age: row.get("lo_age"),
            loaded: std::time::Instant::now(),
            durable: false,
            unflushed: 0,
            late_exhausted: false,
            ahead: None,
            longer_way_since: None,
        })
    }

    /// If anything lies beyond `lo`, or the log has grown up to `advance_from`: a mark to end a window with, and whether
    /// no crash of the server can undo what is visible in it. Otherwise it only reads.
    pub(super) async fn look(
        &self,
        conn: &mut PgConnection,
        lane: Lane,
        cursor: &PgCursor,
        advance_from: i64,
    ) -> Result<Option<(Mark, bool)>> {
        let doing = "look for events";
        let range = Range::beyond(&cursor.lo);
        let row = bind_wanted(self.query(self.sql.look.clone()), 0, &cursor.filter, lane)
            .bind(range.after)
            .bind(range.from_xid.to_string())
            .bind(cursor.lo.bounds_of(&range.late))
            .bind(range.late_upto)
            .bind(texts(&range.late))
            .bind(advance_from)
            .bind(NEAR)
            .fetch_one(&mut *conn)
            .await
            .map_err(Error::database(doing))?;
        if row.get::<Option<&str>, _>("snapshot").is_some() {
            return taken_mark(&row).map(Some);
        }
        // The end of the log is not known before that statement; far branches are rare and asked for afterwards.
        let near_upto: i64 = row.get("late_upto");
        if near_upto >= range.late_upto.min(row.get("last_seq")) {
            return Ok(None);
        }
        let found = bind_wanted(self.query(self.sql.look_far.clone()), 0, &cursor.filter, lane)
            .bind(near_upto)
            .bind(range.late_upto)
            .bind(row.get::<Vec<i64>, _>("late"))
            .fetch_one(&mut *conn)
            .await
            .map_err(Error::database(doing))?;
        match found.get("found") {
            true => self.take_mark(conn).await.map(Some),
            false => Ok(None),
        }
    }

    /// Reads up to `limit` events of a range that are visible in `hi`, merged from its branches in seq order.
    #[expect(clippy::too_many_arguments, reason = "a page is named by this many things")]
    pub(super) async fn read_page(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
        filter: &Filter,
        hi: &Mark,
        range: &Range,
        most: Most,
    ) -> Result<Page> {
        let doing = "read a page";
        let mut conn = self.together(conn).await.map_err(Error::database(doing))?;
        let page = self.read_branches(&mut conn, reader, lane, filter, hi, range, most).await?;
        conn.end().await.map_err(Error::database(doing))?;
        Ok(page)
    }

    #[expect(clippy::too_many_arguments, reason = "a page is named by this many things")]
    async fn read_branches(
        &self,
        conn: &mut Together<'_>,
        reader: &Reader,
        lane: Lane,
        filter: &Filter,
        hi: &Mark,
        range: &Range,
        most: Most,
    ) -> Result<Page> {
        if !range.has_late()
            && let Some(page) = self.read_plain_page(conn, reader, lane, filter, hi, range, most).await?
        {
            return Ok(page);
        }
        let far = range.has_late() && range.late_is_far(hi.ceil_seq);
        let near = range.has_late() && !far;
        let (late_after, late_upto) = if near { (range.late_after, range.late_upto) } else { (0, 0) };
        let late = if near { texts(&range.late) } else { Vec::new() };
        let query = bind_wanted(self.query(self.sql.page.clone()), reader.id, filter, lane)
            .bind(range.after)
            .bind(range.upto)
            .bind(range.from_xid.to_string())
            .bind(hi.snapshot.as_str())
            .bind(late_after)
            .bind(late_upto)
            .bind(late)
            .bind(reader.dead_blocks())
            .bind(most.events);
        let main = collect(query.fetch(conn), reader, most.bytes).await?;
        if !far {
            return Ok(cut(main, most.events, false));
        }
        let query = bind_wanted(self.query(self.sql.page_far.clone()), reader.id, filter, lane)
            .bind(range.late_after)
            .bind(range.late_upto)
            .bind(bigints(&range.late))
            .bind(reader.dead_blocks())
            .bind(most.events);
        let late = collect(query.fetch(conn), reader, most.bytes).await?;
        let exhausted = late.events.is_empty();
        Ok(cut(merge(main, late), most.events, exhausted))
    }
}

impl PgStore {
    /// The usual case: nobody is late, and the subscription has no deliveries. `None`: it has.
    #[expect(clippy::too_many_arguments, reason = "a page is named by this many things")]
    async fn read_plain_page(
        &self,
        conn: &mut Together<'_>,
        reader: &Reader,
        lane: Lane,
        filter: &Filter,
        hi: &Mark,
        range: &Range,
        most: Most,
    ) -> Result<Option<Page>> {
        let query = bind_wanted(self.query(self.sql.page_plain.clone()), reader.id, filter, lane)
            .bind(range.after)
            .bind(range.upto)
            .bind(range.from_xid.to_string())
            .bind(hi.snapshot.as_str())
            .bind(most.events);
        let mut collected = Rows { events: Vec::new(), cut_short: false };
        let (mut rows, mut bytes) = (query.fetch(conn), 0);
        while let Some(row) = rows.try_next().await.map_err(Error::database("read a page"))? {
            if bytes > most.bytes {
                collected.cut_short = true;
                break;
            }
            if row.get::<Option<bool>, _>(PRESENT).is_some() {
                return Ok(None);
            }
            let event = event_of(&row)?;
            bytes += event.payload.len();
            let wait = duration_of(row.get(WAIT));
            collected.events.push(ClaimedEvent { event, blocked: false, elsewhere: false, wait });
        }
        drop(rows);
        Ok(Some(cut(collected, most.events, false)))
    }
}

/// Places of columns in page_plain.sql, after those of the event.
const PRESENT: usize = 15;
const WAIT: usize = 16;

/// Events as they came, and whether reading stopped early because of their size.
struct Rows {
    events: Vec<ClaimedEvent>,
    cut_short: bool,
}

async fn collect(
    mut rows: impl futures::Stream<Item = sqlx::Result<PgRow>> + Unpin,
    reader: &Reader,
    most_bytes: usize,
) -> Result<Rows> {
    let mut collected = Rows { events: Vec::new(), cut_short: false };
    let mut bytes = 0;
    while let Some(row) = rows.try_next().await.map_err(Error::database("read a page"))? {
        if bytes > most_bytes {
            collected.cut_short = true;
            break;
        }
        let event = event_of(&row)?;
        bytes += event.payload.len();
        collected.events.push(ClaimedEvent {
            event,
            blocked: reader.keyed() && row.get::<bool, _>("blocked"),
            elsewhere: row.get("elsewhere"),
            wait: duration_of(row.get("wait")),
        });
    }
    Ok(collected)
}

fn merge(main: Rows, late: Rows) -> Rows {
    // A branch that was cut short is only known up to its last event; beyond that the other must not run ahead.
    let known =
        |rows: &Rows| rows.events.last().filter(|_| rows.cut_short).map_or(i64::MAX, |last| last.event.seq);
    let upto = known(&main).min(known(&late));
    let cut_short = main.cut_short || late.cut_short;
    let mut events = main.events;
    events.extend(late.events);
    events.sort_by_key(|claimed| claimed.event.seq);
    events.retain(|claimed| claimed.event.seq <= upto);
    Rows { events, cut_short }
}

fn cut(mut rows: Rows, limit: i64, late_exhausted: bool) -> Page {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let closes_window = !rows.cut_short && rows.events.len() < limit;
    rows.events.truncate(limit);
    Page { events: rows.events, closes_window, late_exhausted }
}

/// Binds $1 to $7: the subscription and what fragments/wanted.sql needs.
pub(super) fn bind_wanted<'q>(query: Ask<'q>, subscription: i64, filter: &Filter, lane: Lane) -> Ask<'q> {
    query
        .bind(subscription)
        .bind(listed(&filter.namespaces))
        .bind(listed(&filter.topics))
        .bind(listed(&filter.event_types))
        .bind(listed(&filter.tenants))
        .bind(lane.number)
        .bind(lane.of)
}

pub(super) fn texts(xids: &[u64]) -> Vec<String> {
    xids.iter().map(u64::to_string).collect()
}

pub(super) fn bigints(xids: &[u64]) -> Vec<i64> {
    xids.iter().map(|xid| i64::try_from(*xid).unwrap_or(i64::MAX)).collect()
}

fn parse_xid(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::Corrupt(format!("`{text}` is not a transaction id")))
}

/// A mark as `take_mark()` gives it.
pub(super) fn taken_mark(row: &PgRow) -> Result<(Mark, bool)> {
    let mark = Mark {
        id: 0,
        snapshot: Snapshot::parse(row.get("snapshot"))?,
        floor_seq: row.get("floor_seq"),
        floor_xid: parse_xid(row.get("floor_xid"))?,
        ceil_seq: row.get("ceil_seq"),
        steps: Vec::new(),
        replay_from: None,
    };
    Ok((mark, row.get("durable")))
}

pub(super) fn mark_of(row: &PgRow, prefix: &str) -> Result<Mark> {
    let column = |name: &str| format!("{prefix}{name}");
    Ok(Mark {
        id: row.get(column("id").as_str()),
        snapshot: Snapshot::parse(row.get(column("snapshot").as_str()))?,
        floor_seq: row.get(column("floor_seq").as_str()),
        floor_xid: parse_xid(row.get(column("floor_xid").as_str()))?,
        ceil_seq: row.get(column("ceil_seq").as_str()),
        steps: Mark::steps_from_pairs(&row.get::<Vec<i64>, _>(column("steps").as_str())),
        replay_from: row.get(column("replay_from").as_str()),
    })
}
