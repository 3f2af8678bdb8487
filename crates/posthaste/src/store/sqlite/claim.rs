//! Claims of fresh events: the next page of a lane, as one batch or event by event, under a new token.

use sqlx::SqliteConnection;

use crate::error::{Error, Result};
use crate::failpoint::{Point, reached};
use crate::id::Token;
use crate::lease::{Batch, ClaimedEvent, DeliveryClaim, Held, Holder, Lane, Reader};
use crate::store::rows::{as_deliveries, order_key};
use crate::store::{Cursor, Fresh};
use crate::subscription::{ClaimBy, Order};

use super::SqliteStore;
use super::ahead::PageAhead;
use super::convert::micros;
use super::deliveries::insert_troubles;
use super::plain::read_plain_page;
use super::read::{Place, Range, load_place, look, read_page};
use super::statements::SQL;

const DOING: &str = "claim";

/// Who claims what.
pub(super) struct Claim<'a> {
    pub(super) reader: &'a Reader,
    pub(super) lane: Lane,
    pub(super) owner: Option<Token>,
    pub(super) holder: &'a Holder,
}

impl SqliteStore {
    pub(crate) async fn claim_page(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        holder: &Holder,
        cursor: &mut Cursor,
    ) -> Result<Fresh> {
        let claim = Claim { reader, lane, owner, holder };
        let ahead = match std::mem::take(cursor) {
            Cursor::Sqlite(ahead) => ahead.finish().await,
            _ => None,
        };
        if ahead.is_none()
            && let Some(answer) = self.answer_without_writing(&claim).await?
        {
            return Ok(answer);
        }
        let mut tx = self.begin(DOING).await?;
        let place = load_place(&mut tx, reader, lane, owner).await?;
        let fresh = claim_under_lock(&mut tx, &claim, &place, ahead).await?;
        // Before the commit, which waits for the disk.
        let next = full_page_end(&fresh, reader).and_then(|end| self.read_ahead(&claim, &place, end));
        reached(Point::BatchInserted);
        tx.commit(DOING).await?;
        *cursor = next.map_or(Cursor::Unknown, |ahead| Cursor::Sqlite(Box::new(ahead)));
        Ok(fresh)
    }

    /// Looks first: an idle poll writes nothing and waits for nobody. `None`: it is worth taking the write lock.
    async fn answer_without_writing(&self, claim: &Claim<'_>) -> Result<Option<Fresh>> {
        let mut conn = self.pool.acquire().await.map_err(Error::database(DOING))?;
        let place = load_place(&mut conn, claim.reader, claim.lane, claim.owner).await?;
        if let Some(gone) = lane_gone(&place) {
            return Ok(Some(gone));
        }
        let worth = match place.stop {
            _ if look(&mut conn, claim.reader, claim.lane, &place).await? => true,
            Some(_) => !place.unfinished,
            None => place.is_stale(),
        };
        Ok((!worth).then_some(Fresh::Nothing))
    }
}

fn lane_gone(place: &Place) -> Option<Fresh> {
    match (place.owned, place.finished) {
        (false, _) => Some(Fresh::LaneLost),
        (true, true) => Some(Fresh::LaneFinished),
        (true, false) => None,
    }
}

/// Everything the look found is read again: only under the write lock does it stay true.
async fn claim_under_lock(
    tx: &mut SqliteConnection,
    claim: &Claim<'_>,
    place: &Place,
    ahead: Option<PageAhead>,
) -> Result<Fresh> {
    if let Some(gone) = lane_gone(place) {
        return Ok(gone);
    }
    let page = match ahead.and_then(|ahead| ahead.at(claim, place)) {
        Some(page) => page,
        None => next_page(tx, claim, place).await?,
    };
    reached(Point::PageRead);
    match claim.reader.claim_by {
        _ if page.is_empty() => pass_unwanted(tx, claim, place).await,
        ClaimBy::Batch => claim_as_batch(tx, claim, place, page).await,
        ClaimBy::Event => claim_by_event(tx, claim, place, page).await,
    }
}

async fn next_page(tx: &mut SqliteConnection, claim: &Claim<'_>, place: &Place) -> Result<Vec<ClaimedEvent>> {
    let Claim { reader, lane, .. } = *claim;
    let range = Range { after: place.pos, upto: place.upto() };
    let limit = i64::from(reader.settings.batch_size);
    match place.deliveries {
        true => read_page(tx, reader, lane, &place.filter, range, limit).await,
        false => read_plain_page(tx, reader, lane, &place.filter, range, limit).await,
    }
}

/// Where a claimed page ends that has as many events as it may have, so that there are probably more.
fn full_page_end(fresh: &Fresh, reader: &Reader) -> Option<i64> {
    let Fresh::Batch(batch) = fresh else { return None };
    let last = batch.events.last()?;
    (batch.events.len() >= reader.settings.batch_size as usize).then_some(last.event.seq)
}

/// Nothing is wanted up to the end of the log, or of the lane: close the lane, or move its mark if that is due.
async fn pass_unwanted(tx: &mut SqliteConnection, claim: &Claim<'_>, place: &Place) -> Result<Fresh> {
    if place.stop.is_some() {
        return close_lane(tx, claim).await;
    }
    if !place.is_stale() {
        return Ok(Fresh::Nothing);
    }
    let (from, to) = (place.pos, place.last_seq);
    insert_batch(tx, claim, place, Page { from, to, count: 0, token: None }).await?;
    Ok(Fresh::Again)
}

async fn claim_as_batch(
    tx: &mut SqliteConnection,
    claim: &Claim<'_>,
    place: &Place,
    events: Vec<ClaimedEvent>,
) -> Result<Fresh> {
    let token = claim.owner.unwrap_or_else(Token::new);
    insert_batch(tx, claim, place, Page::of(&events, place, Some(token))).await?;
    let held = (claim.reader.order == Order::Strict).then(Held::default);
    Ok(Fresh::Batch(Batch {
        lane: claim.lane,
        number: place.number + 1,
        token,
        inserted_at: None,
        records: 0,
        claims: 1,
        events,
        held,
    }))
}

/// Claims a page whose events each become a delivery row at once: the batch itself is finished as it is written.
async fn claim_by_event(
    tx: &mut SqliteConnection,
    claim: &Claim<'_>,
    place: &Place,
    events: Vec<ClaimedEvent>,
) -> Result<Fresh> {
    insert_batch(tx, claim, place, Page::of(&events, place, None)).await?;
    let token = Token::new();
    let (held, troubles) = as_deliveries(&events, claim.reader, token);
    let written = insert_troubles(tx, claim.reader, &troubles, claim.holder).await?;
    let claims: Vec<DeliveryClaim> = held
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
        .collect();
    Ok(Fresh::Deliveries(claims))
}

/// What of a page goes into its batch's row. Without a token the batch is finished as it is written.
struct Page {
    from: i64,
    to: i64,
    count: usize,
    token: Option<Token>,
}

impl Page {
    fn of(events: &[ClaimedEvent], place: &Place, token: Option<Token>) -> Self {
        let seq = |claimed: Option<&ClaimedEvent>| claimed.map_or(place.pos, |claimed| claimed.event.seq);
        Self { from: seq(events.first()), to: seq(events.last()), count: events.len(), token }
    }
}

async fn insert_batch(tx: &mut SqliteConnection, claim: &Claim<'_>, place: &Place, page: Page) -> Result<()> {
    sqlx::query(SQL.insert_batch.clone())
        .bind(claim.reader.id)
        .bind(claim.lane.generation)
        .bind(claim.lane.number)
        .bind(place.number + 1)
        .bind(page.from)
        .bind(page.to)
        .bind(i64::try_from(page.count).unwrap_or(i64::MAX))
        .bind(place.filter_version)
        .bind(page.token.map(Token::text))
        .bind(claim.holder.worker.as_str())
        .bind(micros(claim.holder.lease))
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database(DOING))
}

/// The lane has read up to its stop mark: close it, once nothing of it is unfinished.
async fn close_lane(tx: &mut SqliteConnection, claim: &Claim<'_>) -> Result<Fresh> {
    let done = sqlx::query(SQL.finish_lane.clone())
        .bind(claim.reader.id)
        .bind(claim.lane.generation)
        .bind(claim.lane.number)
        .bind(claim.owner.map(Token::text))
        .execute(tx)
        .await
        .map_err(Error::database(DOING))?;
    Ok(if done.rows_affected() == 1 { Fresh::LaneFinished } else { Fresh::Nothing })
}
