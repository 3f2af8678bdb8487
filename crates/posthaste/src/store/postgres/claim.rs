//! Claims of fresh pages: look, fix the end of a window, read, and insert the next batch.

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Batch, ClaimedEvent, DeliveryClaim, Held, Holder, Lane, Reader};
use crate::store::rows::{as_deliveries, order_key};
use crate::store::{Cursor, Fresh};
use crate::subscription::{ClaimBy, Order};

use super::deadline::BEGIN;
use super::mark::Mark;
use super::read::{Most, Page, PgCursor};
use super::window::Window;
use super::{PgStore, micros};

pub(super) const DOING: &str = "claim";

/// A lane that wants nothing of what was enqueued still moves its mark after this many events...
const ADVANCE_EVENTS: i64 = 250;
/// ...or, if there were fewer, after this many seconds: an old mark holds retention back.
const ADVANCE_SECONDS: f64 = 60.0;

impl PgStore {
    pub(crate) async fn claim_page(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        holder: &Holder,
        cursor: &mut Cursor,
    ) -> Result<Fresh> {
        let mut known = std::mem::take(cursor);
        let most = Most::page_of(reader.settings.batch_size);
        // Before a connection is taken: reading ahead may be waiting for one.
        let ahead = match &mut known {
            Cursor::Postgres(place) => place.page_ahead(most).await,
            _ => None,
        };
        let mut conn = self.lend(DOING).await?;
        let place = match known {
            Cursor::Postgres(place) => place,
            _ => Box::new(self.load_cursor(&mut conn, reader, lane).await?),
        };
        let claim = Claim { reader, lane, owner, holder };
        let fresh = self.claim_at(&mut conn, &claim, place, ahead, cursor).await?;
        // Otherwise a transaction may still have to be rolled back.
        if matches!(fresh, Fresh::Batch(_) | Fresh::Deliveries(_) | Fresh::Nothing) {
            self.keep(conn);
        }
        Ok(fresh)
    }

    /// Claims at a place of the lane, and remembers it if it still is the lane's.
    async fn claim_at(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        mut place: Box<PgCursor>,
        ahead: Option<Page>,
        cursor: &mut Cursor,
    ) -> Result<Fresh> {
        let Claim { reader, lane, owner, .. } = *claim;
        self.forget_unfinished(reader, place.number);
        if place.stop.is_some_and(|stop| place.hi.is_none() && place.lo.id == stop) {
            return self.close_lane(conn, reader, lane, owner).await;
        }
        let began = place.hi.is_some();
        let opened = match self.claim_window(conn, claim, &mut place).await? {
            Window::Claimed(fresh) => {
                let fresh = unless_all_was_seen(fresh, began, &place);
                *cursor = Cursor::Postgres(place);
                return Ok(fresh);
            }
            Window::Refused => return self.refused(conn, claim).await,
            Window::Nothing => false,
            Window::Longer => place.hi.is_some() || self.open_window(conn, lane, &mut place).await?,
        };
        if !opened {
            let standing = self.where_it_stands(conn, reader, lane, owner, &place).await?;
            if matches!(standing, Fresh::Nothing) {
                *cursor = Cursor::Postgres(place);
            }
            return Ok(standing);
        }
        let fresh = self.claim_next_page(conn, claim, &mut place, ahead).await?;
        if let Some(fresh) = fresh {
            let fresh = unless_all_was_seen(fresh, began, &place);
            *cursor = Cursor::Postgres(place);
            return Ok(fresh);
        }
        self.refused(conn, claim).await
    }

    /// Nothing was inserted: a competitor claimed this page, the lanes were split, the filter was changed, or the lane has
    /// another owner.
    async fn refused(&self, conn: &mut PgConnection, claim: &Claim<'_>) -> Result<Fresh> {
        match claim.owner {
            Some(owner) if !self.still_owned(conn, claim.reader, claim.lane, owner).await? => {
                Ok(Fresh::LaneLost)
            }
            _ => Ok(Fresh::Again),
        }
    }

    /// Nothing lies beyond the remembered place. Is it still the lane's? An idle claimer would notice neither a replay nor
    /// a changed filter, nor a fail-over: then the pool just connects anew, to a server on which the last marks may never
    /// have existed.
    async fn where_it_stands(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        place: &PgCursor,
    ) -> Result<Fresh> {
        let row = self
            .query(self.sql.lane_stands.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .bind(owner.map(|token| token.0))
            .bind(place.number)
            .bind(place.inserted_at)
            .bind(place.stop)
            .bind(place.filter_version)
            .fetch_optional(conn)
            .await
            .map_err(Error::database(DOING))?;
        Ok(match row {
            Some(row) if row.get("owned") && row.get("same") => Fresh::Nothing,
            Some(row) if row.get("owned") => Fresh::Again,
            _ => Fresh::LaneLost,
        })
    }

    /// Fixes the end of the next window, if there is a reason to open one. Looks first: an idle poll writes nothing.
    async fn open_window(&self, conn: &mut PgConnection, lane: Lane, place: &mut PgCursor) -> Result<bool> {
        if let Some(stop) = place.stop {
            place.hi = Some(self.load_mark(conn, stop).await?);
            place.durable = false;
            place.late_exhausted = false;
            return Ok(true);
        }
        // After the newest batch was read, and on the connection that inserts the next one.
        let Some((mark, durable)) = self.look(conn, lane, place, advance_from(place)).await? else {
            return Ok(false);
        };
        reached(Point::WindowFixed);
        place.hi = Some(mark.following(&place.lo));
        place.durable = durable;
        place.late_exhausted = false;
        Ok(true)
    }

    /// Reads the next page and claims it. `None`: the insert found another owner, or another claimer's batch.
    async fn claim_next_page(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        place: &mut PgCursor,
        ahead: Option<Page>,
    ) -> Result<Option<Fresh>> {
        let Some(hi) = place.hi.clone() else { return Ok(None) };
        let page = match ahead {
            Some(page) => page,
            None => {
                let range = place.rest(&hi, place.pos);
                let most = Most::page_of(claim.reader.settings.batch_size);
                self.read_page(conn, claim.reader, claim.lane, &place.filter, &hi, &range, most).await?
            }
        };
        reached(Point::PageRead);
        match claim.reader.claim_by {
            ClaimBy::Batch => self.claim_as_batch(conn, claim, place, hi, page).await,
            ClaimBy::Event => self.claim_by_event(conn, claim, place, hi, page).await,
        }
    }

    async fn claim_as_batch(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        place: &mut PgCursor,
        hi: Mark,
        page: Page,
    ) -> Result<Option<Fresh>> {
        let token = claim.owner.unwrap_or_else(Token::new);
        let finished = page.events.is_empty();
        place.late_exhausted |= page.late_exhausted;
        self.read_ahead(claim, place, &hi, &page);
        let Some(inserted) = self.insert_batch(conn, claim, place, &hi, &page, token, finished).await? else {
            return Ok(None);
        };
        place.note_flush(inserted.flush, page.events.len());
        // If it had to wait until this claim was on disk.
        self.read_ahead(claim, place, &hi, &page);
        advance(place, hi, &inserted, &page);
        Ok(Some(claimed_batch(claim, place.number, token, &inserted, page)))
    }

    /// Claims a page whose events each become a delivery row at once: the batch itself is finished as it is written.
    async fn claim_by_event(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        place: &mut PgCursor,
        hi: Mark,
        page: Page,
    ) -> Result<Option<Fresh>> {
        use sqlx::Connection;
        let mut tx = conn.begin_with(BEGIN).await.map_err(Error::database(DOING))?;
        if claim.reader.keyed() && !page.events.is_empty() {
            self.lock_subscription(&mut tx, claim.reader).await?;
        }
        let owner = claim.owner.unwrap_or_else(Token::new);
        let Some(inserted) = self.insert_batch(&mut tx, claim, place, &hi, &page, owner, true).await? else {
            return Ok(None);
        };
        let token = Token::new();
        let (events, troubles) = as_deliveries(&page.events, claim.reader, token);
        let written = self.insert_troubles(&mut tx, claim.reader, &troubles, claim.holder).await?;
        tx.commit().await.map_err(Error::database(DOING))?;
        place.late_exhausted |= page.late_exhausted;
        place.note_flush(inserted.flush, page.events.len());
        advance(place, hi, &inserted, &page);
        let claims = events
            .into_iter()
            .filter(|(seq, _)| written.contains(seq))
            .map(|(_, claimed)| DeliveryClaim {
                key: order_key(claimed, claim.reader),
                event: claimed.event.clone(),
                attempts: 1,
                steps: 0,
                token,
                solo: false,
            })
            .collect::<Vec<_>>();
        Ok(Some(if page.events.is_empty() { Fresh::Again } else { Fresh::Deliveries(claims) }))
    }

    /// The compare-and-set of a claim. `None`: it failed.
    #[expect(clippy::too_many_arguments, reason = "the row it inserts has as many parts")]
    async fn insert_batch(
        &self,
        conn: &mut PgConnection,
        claim: &Claim<'_>,
        place: &PgCursor,
        hi: &Mark,
        page: &Page,
        token: Token,
        finished: bool,
    ) -> Result<Option<Inserted>> {
        let statement = match claim.owner {
            Some(_) => self.sql.insert_batch_owned.clone(),
            None => self.sql.insert_batch_free.clone(),
        };
        let flush = place.must_flush(page.events.len(), claim.reader.settings.batch_size);
        let seq = |claimed: Option<&ClaimedEvent>| claimed.map_or(place.pos, |claimed| claimed.event.seq);
        let row = self
            .query_batch(statement, place.number)
            .bind(claim.reader.id)
            .bind(claim.lane.generation)
            .bind(claim.lane.number)
            .bind(token.0)
            .bind(place.number + 1)
            .bind(place.lo.id)
            .bind((hi.id != 0).then_some(hi.id))
            .bind(seq(page.events.first()))
            .bind(seq(page.events.last()))
            .bind(i32::try_from(page.events.len()).unwrap_or(i32::MAX))
            .bind(page.closes_window)
            .bind(place.filter_version)
            .bind(finished)
            .bind(hi.snapshot.as_str())
            .bind(hi.floor_seq)
            .bind(hi.floor_xid.to_string())
            .bind(hi.ceil_seq)
            .bind(hi.steps_as_pairs())
            .bind(claim.holder.worker.as_str())
            .bind(micros(claim.holder.lease))
            .bind(place.stop)
            .bind(place.inserted_at)
            .bind(flush)
            .fetch_optional(conn)
            .await
            .map_err(Error::database(DOING))?;
        reached(Point::BatchInserted);
        Ok(row.map(|row| Inserted { hi: row.get("hi"), at: row.get("inserted_at"), flush }))
    }

    /// The lane has read up to its stop mark: close it, once nothing of it is unfinished.
    async fn close_lane(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
    ) -> Result<Fresh> {
        let done = self
            .query(self.sql.finish_lane.clone())
            .bind(reader.id)
            .bind(lane.generation)
            .bind(lane.number)
            .bind(owner.map(|token| token.0))
            .execute(&mut *conn)
            .await
            .map_err(Error::database(DOING))?;
        match owner {
            _ if done.rows_affected() == 1 => Ok(Fresh::LaneFinished),
            Some(owner) if !self.still_owned(conn, reader, lane, owner).await? => Ok(Fresh::LaneLost),
            _ => Ok(Fresh::Nothing),
        }
    }
}

/// A page that was claimed; one without events only moved the mark.
pub(super) fn claimed_batch(
    claim: &Claim<'_>,
    number: i64,
    token: Token,
    inserted: &Inserted,
    page: Page,
) -> Fresh {
    if page.events.is_empty() {
        return Fresh::Again;
    }
    Fresh::Batch(Batch {
        lane: claim.lane,
        number,
        token,
        inserted_at: Some(inserted.at),
        records: 0,
        claims: 1,
        events: page.events,
        held: (claim.reader.order == Order::Strict).then(Held::default),
    })
}

/// A claim that opened a window, found nothing in it and closed it has only moved the mark. It has seen all there is, like a look in vain,
/// and nobody need ask again at once; but what has come since a window was opened that `began` before is still to be seen.
fn unless_all_was_seen(fresh: Fresh, began: bool, place: &PgCursor) -> Fresh {
    match fresh {
        Fresh::Again if !began && place.hi.is_none() && place.stop.is_none() => Fresh::Nothing,
        fresh => fresh,
    }
}

/// Once the log has grown up to here the lane's mark moves, whether or not it wants anything of that.
pub(super) fn advance_from(place: &PgCursor) -> i64 {
    let age = place.lo_age + place.loaded.elapsed().as_secs_f64();
    place.lo.ceil_seq + if age >= ADVANCE_SECONDS { 1 } else { ADVANCE_EVENTS }
}

/// What the compare-and-set wrote.
pub(super) struct Inserted {
    /// The stored end of the window.
    pub(super) hi: i64,
    pub(super) at: DateTime<Utc>,
    /// Whether it waited for the disk.
    pub(super) flush: bool,
}

/// Who claims what.
pub(super) struct Claim<'a> {
    pub(super) reader: &'a Reader,
    pub(super) lane: Lane,
    pub(super) owner: Option<Token>,
    pub(super) holder: &'a Holder,
}

/// Moves the cursor past a claimed page.
pub(super) fn advance(place: &mut PgCursor, mut hi: Mark, inserted: &Inserted, page: &Page) {
    hi.id = inserted.hi;
    place.number += 1;
    place.inserted_at = Some(inserted.at);
    if page.closes_window {
        place.lo = hi;
        place.hi = None;
        place.pos = 0;
        place.lo_age = 0.0;
        place.loaded = std::time::Instant::now();
    } else {
        place.pos = page.events.last().map_or(place.pos, |claimed| claimed.event.seq);
        place.hi = Some(hi);
    }
}
