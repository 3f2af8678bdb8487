//! Delivering: which work may start now, and handing it to the receiver.

use crate::dispatch::{BusyKeys, Slot, Source, Work};
use crate::observe::add;
use crate::page::Page;
use crate::sink::DeliveryKey;

use super::{Job, PAGES_AT_ONCE, Reads, Runner};

impl Runner {
    pub(super) fn start(&mut self) {
        if self.context.receiver.takes_pages() {
            return self.start_page();
        }
        while self.queues.startable() > 0 {
            let Some(slot) = self.context.slots.take() else { return };
            let Some(work) = self.next_to_start(&BusyKeys::default()) else { return };
            self.spawn(vec![work], slot);
        }
    }

    /// Hands pages over. In `key` order one at a time, so that pages cannot overtake each other; a sink that allows it gets
    /// a second one, in which is no key of the first.
    pub(super) fn start_page(&mut self) {
        let size = self.context.reader().settings.batch_size as usize;
        while self.queues.startable() > 0 {
            let Some(busy) = self.busy_keys(size) else { return };
            let Some(slot) = self.context.slots.take() else { return };
            let works = self.next_page(size, &busy);
            if works.is_empty() {
                return;
            }
            self.spawn(works, slot);
        }
    }

    /// The keys that the next page must not have. `None`: it has to wait until another one has ended.
    fn busy_keys(&self, size: usize) -> Option<BusyKeys> {
        if !self.context.reader().keyed() || self.running.is_empty() {
            return Some(BusyKeys::default());
        }
        if self.running.len() >= PAGES_AT_ONCE || !self.context.receiver.overlaps() {
            return None;
        }
        let busy = BusyKeys::of(self.running.values().flat_map(|job| &job.works));
        // Less is not worth a page, and the rest of it would be a small one too. A probe is one event anyway.
        let least = match self.context.availability.is_away() {
            true => 1,
            false => size.min(self.queues.startable()).div_ceil(2),
        };
        (self.queues.free_of(&busy, size) >= least).then_some(busy)
    }

    pub(super) fn next_page(&mut self, size: usize, busy: &BusyKeys) -> Vec<Work> {
        let Some(first) = self.next_to_start(busy) else { return Vec::new() };
        let token = first.token;
        let mut works = vec![first];
        // A probe is one event: the receiver was away a moment ago.
        while works.len() < size && !self.context.availability.is_away() {
            // What is covered by the lease that was just looked at need not be looked at again.
            works.extend(self.queues.next_of(token, size - works.len(), busy));
            if works.len() < size {
                let Some(work) = self.next_to_start(busy) else { break };
                works.push(work);
            }
        }
        works
    }

    /// The next work whose lease is safe. One whose lease was lost is dropped: somebody else has it.
    pub(super) fn next_to_start(&mut self, busy: &BusyKeys) -> Option<Work> {
        while let Some(work) = self.queues.next(busy) {
            if !self.context.leases.is_held(work.token) {
                add(&self.context.counters.leases_lost, 1);
                self.drop_lost(&work);
                continue;
            }
            if !self.context.leases.may_start(work.token) || !self.context.availability.admit() {
                self.queues.put_back(work);
                return None;
            }
            return Some(work);
        }
        None
    }

    pub(super) fn drop_lost(&mut self, work: &Work) {
        // What came after a detached one does not wait for it.
        if !work.detached {
            let behind = self.queues.park(work.key.as_deref());
            add(&self.context.counters.leases_lost, behind.len() as u64);
        }
        if matches!(self.reads, Reads::Owned(..)) && work.source != Source::Delivery {
            self.lost = true;
        } else {
            self.open.retain(|open| !open.has(work));
        }
    }

    pub(super) fn spawn(&mut self, works: Vec<Work>, slot: Slot) {
        let id = self.next_job;
        self.next_job += 1;
        let context = self.context.clone();
        let page =
            Page::for_attempts(works.iter().map(|work| (work.event.clone(), work.attempts, work.steps)));
        let delivery = works.first().map(|work| self.delivery_key(work));
        self.running.insert(id, Job { works });
        self.jobs.spawn(async move {
            let reports = context.hand_over(page, delivery.as_ref()).await;
            drop(slot);
            (id, reports)
        });
    }

    pub(super) fn delivery_key(&self, work: &Work) -> DeliveryKey {
        let reader = self.context.reader();
        DeliveryKey {
            subscription: reader.id,
            keyed: reader.keyed(),
            dead_blocks: reader.dead_blocks(),
            seq: work.event.seq,
            token: work.token,
        }
    }
}
