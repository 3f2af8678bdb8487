//! Claiming by event: each event is settled alone, and a crash repeats only what was not settled.
//!
//! A page is claimed as a batch all the same. Most of it is delivered within milliseconds, and then its settlement is one
//! write. If it takes longer, the batch's row remembers which of its events were handled, and those that failed get their
//! delivery rows without waiting for the others.

use std::time::Duration;

use crate::error::Result;
use crate::failpoint::{Point, reached};
use crate::sink::Receiver;
use crate::store::Handled;
use crate::subscription::ClaimBy;

use super::{OpenBatch, RECORD_AFTER, Runner};

impl Runner {
    /// Whether batches remember which of their events were handled. A transactional handler settles each event itself, and
    /// needs delivery rows for that.
    pub(super) fn records(&self) -> bool {
        let transactional = matches!(self.context.receiver, Receiver::Transactional(_));
        self.context.reader().claim_by == ClaimBy::Event && !transactional
    }

    /// Records what was handled of open batches, some milliseconds after it was. Returns when to look again.
    pub(super) async fn record_handled(&mut self) -> Result<Duration> {
        let oldest = self.open.iter().filter_map(|open| open.unrecorded_since).min();
        let Some(oldest) = oldest else { return Ok(Duration::MAX) };
        let left = RECORD_AFTER.saturating_sub(oldest.elapsed());
        if !left.is_zero() {
            return Ok(left);
        }
        // In the order of their numbers: an event that waits for another of its key must not be written before that one.
        let mut index = 0;
        while index < self.open.len() && !self.lost {
            if self.record(index).await? {
                index += 1;
            }
        }
        Ok(Duration::MAX)
    }

    /// Records one batch; `false`: its lease was lost, and it is gone from the list.
    async fn record(&mut self, index: usize) -> Result<bool> {
        let Some(open) = self.open.get_mut(index).filter(|open| open.unrecorded_since.is_some()) else {
            return Ok(true);
        };
        open.troubles.sort_by_key(|trouble| trouble.seq);
        let open = &self.open[index];
        if !open.troubles.is_empty() {
            self.cursor.forget_ahead();
        }
        let (context, handled) = (self.context.clone(), open.progress());
        let (batch, troubles) = (open.batch, &open.troubles);
        let (reader, holder) = (context.reader(), context.holder());
        reached(Point::Recording);
        if !context.store.record_batch(&reader, batch, &handled, troubles, &holder).await? {
            self.batch_settled(index, false);
            return Ok(false);
        }
        reached(Point::Recorded);
        let open = &mut self.open[index];
        open.unrecorded_since = None;
        open.batch.records += 1;
        let written = std::mem::take(&mut open.troubles);
        self.troubles_written(&written);
        Ok(true)
    }
}

impl OpenBatch {
    fn progress(&self) -> Handled {
        let mut seqs = self.seqs.iter().copied().peekable();
        let mut to = 0;
        while let Some(seq) = seqs.next_if(|seq| self.handled.contains(seq)) {
            to = seq;
        }
        Handled { to, beyond: seqs.filter(|seq| self.handled.contains(seq)).collect() }
    }
}
