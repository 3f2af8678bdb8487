//! Stopping: without losing or repeating anything.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::dispatch::{Source, Work};
use crate::id::Token;
use crate::lease::Settlement;

use super::{Ended, Reads, Runner};

impl Runner {
    /// Stops without losing or repeating anything: what runs may finish, what has not started is given back.
    pub(super) async fn wind_up(mut self, stop: &CancellationToken) -> Ended {
        if self.lost {
            self.let_go_of_deliveries().await;
            // If it is ours after all, because the server has undone a claim, nobody needs to wait for the lease.
            self.release_lane().await;
            return Ended::LaneLost;
        }
        self.finish_running().await;
        self.give_back_queued();
        for attempt in 0..3_u32 {
            match self.settle().await {
                Ok(()) => break,
                Err(error) => {
                    self.context.trouble(&error);
                    tokio::time::sleep(Duration::from_millis(200) * (attempt + 1)).await;
                }
            }
        }
        self.let_go_of_the_rest();
        if !self.finished {
            self.release_lane().await;
        }
        if self.finished && !stop.is_cancelled() { Ended::LaneFinished } else { Ended::Stopped }
    }

    async fn release_lane(&self) {
        if let Reads::Owned(lane, token) = self.reads
            && let Err(error) = self.context.store.release_lane(&self.context.reader(), lane, token).await
        {
            self.context.trouble(&error);
        }
    }

    /// What could not be settled is left to others. A lease that is renewed with nobody behind it would hold its events
    /// for ever.
    pub(super) fn let_go_of_the_rest(&mut self) {
        for settlement in self.settlements.drain(..) {
            self.context.leases.let_go(settlement.token);
        }
        if matches!(self.reads, Reads::Shared(_)) {
            for open in self.open.drain(..) {
                self.context.leases.let_go(open.batch.token);
            }
        }
    }

    /// The lane is lost, but deliveries have leases of their own: what is done is settled, what has not started is given
    /// back, and what runs is let go of. A lease that is renewed with nobody behind it would hold its event for ever.
    pub(super) async fn let_go_of_deliveries(&mut self) {
        self.abort_jobs();
        self.open.clear();
        let running = self.running.drain().flat_map(|(_, job)| job.works);
        let running: Vec<Work> = running.filter(|work| work.source == Source::Delivery).collect();
        self.left.extend(running.iter().filter_map(|work| work.key.clone()));
        self.give_back_queued();
        if let Err(error) = self.settle_deliveries().await {
            self.context.trouble(&error);
        }
        let unsettled = self.settlements.drain(..).map(|settlement| settlement.token);
        for token in running.into_iter().map(|work| work.token).chain(unsettled) {
            self.context.leases.let_go(token);
        }
    }

    pub(super) async fn finish_running(&mut self) {
        let deadline = tokio::time::Instant::now() + self.context.grace;
        while !self.jobs.is_empty() {
            match tokio::time::timeout_at(deadline, self.jobs.join_next()).await {
                Ok(Some(done)) => self.job_done(done),
                Ok(None) => return,
                Err(_) => return self.leave_running(),
            }
        }
    }

    pub(super) fn abort_jobs(&mut self) {
        self.jobs.abort_all();
        // If one of them was the probe, another runner must be free to make it.
        self.context.availability.probe_again();
    }

    /// Out of patience: what still runs has an unknown effect, so nothing is said about it. Its lease runs out, and
    /// somebody tries it again.
    pub(super) fn leave_running(&mut self) {
        self.abort_jobs();
        let left: Vec<Work> = self.running.drain().flat_map(|(_, job)| job.works).collect();
        self.left.extend(left.iter().filter_map(|work| work.key.clone()));
        for work in &left {
            match work.source {
                Source::Delivery => self.context.leases.let_go(work.token),
                Source::Batch(_) => self.done(work, Settlement::Spill { token: Token::new() }),
            }
        }
    }

    pub(super) fn give_back_queued(&mut self) {
        let mut seen = std::mem::take(&mut self.left);
        for work in self.queues.drain() {
            let behind = work.key.as_ref().is_some_and(|key| seen.contains(key));
            seen.extend(work.key.clone());
            let settlement =
                if behind { Settlement::Park } else { Settlement::GiveBack { delay: Duration::ZERO } };
            self.done(&work, settlement);
        }
    }
}
