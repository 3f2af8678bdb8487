//! Reading ahead: while a page of a backlog is claimed and delivered, the next one is read.
//!
//! A page that was read ahead is claimed like any other, but what it says about keys is of the time when it was read. So
//! whoever has parked keys since then must forget it. And it is read only if no crash of the server can undo its events:
//! they are claimed on another connection than the one that saw them.

use tokio_util::task::AbortOnDropHandle;

use crate::error::Result;

use super::claim::Claim;
use super::mark::{Mark, Range};
use super::read::{Most, Page, PgCursor};
use super::{PgStore, Question};

/// A page that is being read.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// It begins after this place of the window.
    after: i64,
    most: Most,
    page: AbortOnDropHandle<Result<Page>>,
}

impl PgCursor {
    /// The page that was read ahead, if it is the one that is wanted now and could be read.
    pub(super) async fn page_ahead(&mut self, most: Most) -> Option<Page> {
        let ahead = self.ahead.take()?;
        if self.hi.is_none() || ahead.after != self.pos || ahead.most != most {
            return None;
        }
        ahead.page.await.ok()?.ok()
    }

    /// What was read ahead is not to be used.
    pub(crate) fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    /// What is left of the open window after a place.
    pub(super) fn rest(&self, hi: &Mark, after: i64) -> Range {
        let mut range = Range::window(&self.lo, hi, after);
        if self.late_exhausted {
            range.late.clear();
        }
        range
    }
}

impl PgStore {
    /// Begins to read the page after this one, unless that is under way.
    pub(super) fn read_ahead(&self, claim: &Claim<'_>, place: &mut PgCursor, hi: &Mark, page: &Page) {
        let Some(last) = page.events.last() else { return };
        // Where claimers compete, somebody else has probably claimed it.
        if claim.owner.is_none() || page.closes_window || !place.durable || place.ahead.is_some() {
            return;
        }
        let (store, reader, lane) = (self.clone(), claim.reader.clone(), claim.lane);
        let (after, most) = (last.event.seq, Most::page_of(reader.settings.batch_size));
        let (filter, hi, range) = (place.filter.clone(), hi.clone(), place.rest(hi, after));
        let page = tokio::spawn(async move {
            let reading = async {
                let mut conn = store.lend("read ahead").await?;
                store.read_page(&mut conn, &reader, lane, &filter, &hi, &range, most).await
            };
            store.within(Question::about("read ahead", &reader), reading).await
        });
        place.ahead = Some(Ahead { after, most, page: AbortOnDropHandle::new(page) });
    }
}
