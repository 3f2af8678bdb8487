//! Reading ahead: while a page of a backlog is claimed and delivered, the next one is read.
//!
//! The log grows at its end only, so the first events beyond a place stay what they are. What else the page depends on is looked
//! at again under the write lock, by the claim that uses it.

use tokio_util::task::AbortOnDropHandle;

use crate::error::{Error, Result};
use crate::lease::ClaimedEvent;

use super::SqliteStore;
use super::claim::Claim;
use super::plain::read_plain_page;
use super::read::{Place, Range};

/// What a claimer remembers between two claims: the next page, being read. Where a lane stands is one read away, and always
/// read under the lock.
#[derive(Debug)]
pub(crate) struct Ahead {
    place: Stand,
    page: AbortOnDropHandle<Result<Vec<ClaimedEvent>>>,
}

/// A page that was read ahead.
pub(super) struct PageAhead {
    place: Stand,
    events: Vec<ClaimedEvent>,
}

/// What a page depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stand {
    after: i64,
    most: u32,
    filter_version: i32,
}

impl Stand {
    /// Of the next page of a lane. A lane that is about to end, or a subscription with deliveries, has pages of another kind.
    fn of(claim: &Claim<'_>, place: &Place, after: i64) -> Option<Self> {
        let (most, filter_version) = (claim.reader.settings.batch_size, place.filter_version);
        (place.stop.is_none() && !place.deliveries).then_some(Self { after, most, filter_version })
    }
}

impl Ahead {
    /// The page, if it could be read and has anything.
    pub(super) async fn finish(self) -> Option<PageAhead> {
        let events = self.page.await.ok()?.ok()?;
        (!events.is_empty()).then_some(PageAhead { place: self.place, events })
    }
}

impl PageAhead {
    /// Its events, if they are what a claim at this place reads.
    pub(super) fn at(self, claim: &Claim<'_>, place: &Place) -> Option<Vec<ClaimedEvent>> {
        (Stand::of(claim, place, place.pos) == Some(self.place)).then_some(self.events)
    }
}

impl SqliteStore {
    /// Begins to read the page behind one that ends here.
    pub(super) fn read_ahead(&self, claim: &Claim<'_>, place: &Place, after: i64) -> Option<Ahead> {
        // Where claimers compete, somebody else has probably claimed it.
        claim.owner?;
        let stand = Stand::of(claim, place, after)?;
        let (pool, reader, lane) = (self.pool.clone(), claim.reader.clone(), claim.lane);
        let (filter, range) = (place.filter.clone(), Range { after, upto: i64::MAX });
        let page = tokio::spawn(async move {
            let mut conn = pool.acquire().await.map_err(Error::database("read ahead"))?;
            read_plain_page(&mut conn, &reader, lane, &filter, range, i64::from(stand.most)).await
        });
        Some(Ahead { place: stand, page: AbortOnDropHandle::new(page) })
    }
}
