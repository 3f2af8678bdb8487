//! Reading ahead: while a page of a backlog is claimed and delivered, the next ones are read.
//!
//! A page that was read ahead is claimed like any other, but what it says about keys is of the time when it was read. So
//! whoever has parked keys since then must forget it. And it is read only if no crash of the server can undo its events:
//! they are claimed on another connection than the one that saw them.

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Permit, Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;

use crate::error::Result;
use crate::lease::{Lane, Reader};
use crate::subscription::Filter;

use super::claim::Claim;
use super::deadline::Lent;
use super::mark::{Mark, Range};
use super::read::{Most, Page, PgCursor};
use super::{PgStore, Question};

/// So many pages are read, or being read, that nobody has claimed yet. With one, nobody reads between the end of a page and
/// the moment in which its claimer comes for it.
const PAGES_AHEAD: usize = 2;

const DOING: &str = "read ahead";

/// The next pages of a window, each with the place after which it begins. It ends with the window, or where reading failed.
#[derive(Debug)]
pub(crate) struct Ahead {
    most: Most,
    pages: Receiver<(i64, Page)>,
    _reading: AbortOnDropHandle<()>,
}

impl Ahead {
    /// How many are there to be claimed.
    #[cfg(test)]
    pub(super) fn ready(&self) -> usize {
        self.pages.len()
    }
}

impl PgCursor {
    /// The page that was read ahead, if it is the one that is wanted now and could be read.
    pub(super) async fn page_ahead(&mut self, most: Most) -> Option<Page> {
        let mut ahead = self.ahead.take()?;
        if self.hi.is_none() || ahead.most != most {
            return None;
        }
        let (after, page) = ahead.pages.recv().await?;
        if after != self.pos {
            return None;
        }
        self.ahead = Some(ahead).filter(|_| !page.closes_window);
        Some(page)
    }

    /// What was read ahead is not to be used.
    pub(crate) fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    /// What is left of the open window after a place.
    pub(super) fn rest(&self, hi: &Mark, after: i64) -> Range {
        rest(&self.lo, hi, after, self.late_exhausted)
    }
}

fn rest(lo: &Mark, hi: &Mark, after: i64, late_exhausted: bool) -> Range {
    let mut range = Range::window(lo, hi, after);
    if late_exhausted {
        range.late.clear();
    }
    range
}

impl PgStore {
    /// Begins to read the pages after this one, unless that is under way.
    pub(super) fn read_ahead(&self, claim: &Claim<'_>, place: &mut PgCursor, hi: &Mark, page: &Page) {
        let Some(last) = page.events.last() else { return };
        // Where claimers compete, somebody else has probably claimed it.
        if claim.owner.is_none() || page.closes_window || !place.durable || place.ahead.is_some() {
            return;
        }
        let most = Most::page_of(claim.reader.settings.batch_size);
        let reading = Reading {
            store: self.clone(),
            reader: claim.reader.clone(),
            lane: claim.lane,
            filter: place.filter.clone(),
            lo: place.lo.clone(),
            hi: hi.clone(),
            after: last.event.seq,
            late_exhausted: place.late_exhausted,
            most,
            conn: None,
        };
        let (sender, pages) = channel(PAGES_AHEAD);
        let reading = AbortOnDropHandle::new(tokio::spawn(reading.run(sender)));
        place.ahead = Some(Ahead { most, pages, _reading: reading });
    }
}

/// Who reads.
struct Reading {
    store: PgStore,
    reader: Reader,
    lane: Lane,
    filter: Filter,
    lo: Mark,
    hi: Mark,
    after: i64,
    late_exhausted: bool,
    most: Most,
    conn: Option<Lent>,
}

impl Reading {
    /// Page after page. Whoever wants a page that could not be read hears the reason when it reads that page itself.
    async fn run(mut self, pages: Sender<(i64, Page)>) {
        while let Some(room) = self.room(&pages).await {
            let question = Question::about(DOING, &self.reader);
            let Ok(page) = self.store.clone().within(question, self.next()).await else { return };
            let (after, ends) = (self.after, page.closes_window);
            self.after = page.events.last().map_or(after, |last| last.event.seq);
            self.late_exhausted |= page.late_exhausted;
            room.send((after, page));
            if ends {
                return;
            }
        }
    }

    /// Room for one more page. The connection is kept only if there is room at once: whoever makes room by a claim needs one.
    async fn room<'p>(&mut self, pages: &'p Sender<(i64, Page)>) -> Option<Permit<'p, (i64, Page)>> {
        match pages.try_reserve() {
            Ok(room) => Some(room),
            Err(TrySendError::Closed(())) => None,
            Err(TrySendError::Full(())) => {
                self.conn = None;
                pages.reserve().await.ok()
            }
        }
    }

    async fn next(&mut self) -> Result<Page> {
        let range = rest(&self.lo, &self.hi, self.after, self.late_exhausted);
        let conn = match &mut self.conn {
            Some(conn) => conn,
            none => none.insert(self.store.lend(DOING).await?),
        };
        let (reader, filter, hi) = (&self.reader, &self.filter, &self.hi);
        self.store.read_page(conn, reader, self.lane, filter, hi, &range, self.most).await
    }
}
