//! What the keys of a page know of each other while they are sent: how much time is left, and what a check has said.

use std::time::Duration;

use posthaste::{Outcome, Page, Sink};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::client::Batching;
use crate::endpoint::{Route, after_silence};
use crate::suspicion::{Suspects, Suspicion};

#[derive(Debug)]
pub(super) struct Course<'c> {
    /// Nothing else can be meant by silence.
    pub(super) is_one_event: bool,
    timeout: Duration,
    last_start: Instant,
    /// What was started in time is over by then.
    pub(super) end: Instant,
    checks: [OnceCell<Outcome>; 2],
    pub(super) suspects: Suspects<'c>,
}

impl<'c> Course<'c> {
    pub(super) fn new(page: &Page, route: &Route, timeout: Duration, suspicion: &'c Suspicion) -> Self {
        let last_start = route.last_start(page, timeout);
        Self {
            is_one_event: page.events().len() == 1,
            timeout,
            last_start,
            end: last_start + timeout,
            checks: Default::default(),
            suspects: suspicion.suspects(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.last_start
    }

    /// What silence means. A request holds messages of many events, so that one check serves all who ask.
    pub(super) async fn ask(&self, sink: &impl Sink, batching: Batching, silence: &str) -> Outcome {
        let check = match batching {
            Batching::Together => &self.checks[0],
            Batching::Alone => &self.checks[1],
        };
        check.get_or_init(|| after_silence(sink, silence, self.timeout)).await.clone()
    }
}
