//! A new window, opened and claimed up to the end of its first page in one statement: what a worker that keeps up does all
//! the time. What is less simple takes the longer way, step by step: lanes that many claim, a stop, a replay, deliveries of
//! the subscription, and late transactions with events far back.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::id::Token;
use crate::lease::ClaimedEvent;
use crate::store::Fresh;
use crate::subscription::ClaimBy;

use super::claim::{Claim, DOING, Inserted, advance, advance_from, claimed_batch};
use super::mark::{Mark, Range, as_pairs};
use super::read::{MOST_UNFLUSHED, Most, Page, PgCursor, bind_wanted, taken_mark, texts};
use super::{PgStore, duration_of, event_of, micros};

/// Late transactions are searched for in this many events by the primary key.
pub(super) const NEAR: i64 = 4_000;

/// More transactions than this are not compared with every event.
const MOST_LATE: usize = 1_000;

/// What became of a window.
pub(super) enum Window {
    Claimed(Fresh),
    /// Nothing to claim.
    Nothing,
    /// There is something, but the lane, its newest batch or the filter is not what the claimer remembers.
    Refused,
    /// It must be opened step by step.
    Longer,
}

impl PgStore {
    /// Opens the next window and claims its first page.
    pub(super) async fn claim_window(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        place: &mut PgCursor,
    ) -> Result<Window> {
        let Some(owner) = claim.owner.filter(|_| place.hi.is_none() && place.stop.is_none()) else {
            return Ok(Window::Longer);
        };
        // A replay reads two ranges of the log.
        if claim.reader.claim_by != ClaimBy::Batch
            || place.lo.replay_from.is_some()
            || place.takes_longer_way()
        {
            return Ok(Window::Longer);
        }
        let range = Range::beyond(&place.lo);
        if range.late.len() > MOST_LATE {
            place.longer_way();
            return Ok(Window::Longer);
        }
        let rows = self.open_and_claim(conn, claim, place, owner, &range).await?;
        let Some(first) = rows.first() else { return Ok(Window::Longer) };
        if first.get("longer") {
            place.longer_way();
            return Ok(Window::Longer);
        }
        let Some(hi) = first.get::<Option<i64>, _>("hi") else {
            return Ok(if first.get("claims") { Window::Refused } else { Window::Nothing });
        };
        let (mark, durable) = taken_mark(first)?;
        let mark = Mark { id: hi, steps: place.lo.known_steps(), ..mark };
        let inserted = Inserted { hi, at: first.get("inserted_at"), flush: first.get("flush") };
        let events = events(&rows)?;
        let page = Page { closes_window: first.get("closes_window"), events, late_exhausted: false };
        (place.durable, place.late_exhausted) = (durable, false);
        place.note_flush(inserted.flush, page.events.len());
        self.read_ahead(claim, place, &mark, &page);
        advance(place, mark, &inserted, &page);
        Ok(Window::Claimed(claimed_batch(claim, place.number, owner, &inserted, page)))
    }

    async fn open_and_claim(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        place: &PgCursor,
        owner: Token,
        range: &Range,
    ) -> Result<Vec<PgRow>> {
        let most = Most::page_of(claim.reader.settings.batch_size);
        let allowed = MOST_UNFLUSHED * claim.reader.settings.batch_size as usize;
        let query = self.query_batch(self.sql.claim_window.clone(), place.number);
        bind_wanted(query, claim.reader.id, &place.filter, claim.lane)
            .bind(range.after)
            .bind(range.from_xid.to_string())
            .bind(texts(&range.late))
            .bind(advance_from(place))
            .bind(NEAR)
            .bind(most.events)
            .bind(i64::try_from(most.bytes).unwrap_or(i64::MAX))
            .bind(claim.lane.generation)
            .bind(owner.0)
            .bind(place.number + 1)
            .bind(place.lo.id)
            .bind(place.filter_version)
            .bind(place.inserted_at)
            .bind(claim.holder.worker.as_str())
            .bind(i64::try_from(allowed.saturating_sub(place.unflushed)).unwrap_or(i64::MAX))
            .bind(micros(claim.holder.lease))
            .bind(as_pairs(&place.lo.known_steps()))
            .bind(place.lo.bounds_of(&range.late))
            .fetch_all(conn)
            .await
            .map_err(Error::database(DOING))
    }
}

/// The place of a column in claim_window.sql, after those of the event.
const WAIT: usize = 15;

/// The events of a page. One without any has a row all the same.
fn events(rows: &[PgRow]) -> Result<Vec<ClaimedEvent>> {
    let there = |row: &&PgRow| row.get::<Option<i64>, _>(0).is_some();
    let claimed = |row: &PgRow| {
        let (event, wait) = (event_of(row)?, duration_of(row.get(WAIT)));
        Ok(ClaimedEvent { event, blocked: false, elsewhere: false, wait })
    };
    rows.iter().filter(there).map(claimed).collect()
}
