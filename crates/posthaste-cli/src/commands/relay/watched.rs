//! A sink whose coming and going is noticed: said once when it goes away, once when it is back, and shown by `/readyz`.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Order, Outcome, Page, Sink, WorkerEnd};
use posthaste_sinks::{Endpoint, Route};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::tally::Tally;
use crate::config::SubscriptionConfig;

/// How long a sink's check may take.
pub(crate) const CHECK_WITHIN: Duration = Duration::from_secs(10);

/// How often a sink that is away is asked again while there is nothing to deliver.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// What the sink must know of its subscription.
pub(crate) fn route(config: &SubscriptionConfig) -> Route {
    let route =
        Route::new(&config.name).envelope(config.policy.envelope.clone()).settings(&config.settings());
    match config.policy.order {
        Order::None => route.without_order(),
        _ => route,
    }
}

/// A sink, whether it can be reached, and whether somebody still works for it.
pub(crate) struct Watched {
    pub(crate) subscription: String,
    endpoint: Arc<dyn Endpoint>,
    away: Mutex<Option<Away>>,
    went_away: Notify,
    /// Why nothing is delivered any more, although nobody stopped it.
    ended: OnceLock<&'static str>,
    tally: Arc<Tally>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Away {
    reason: String,
    found_by: FoundBy,
}

/// A delivery knows more than a check: a full disk takes an empty write. What a delivery found, only a delivery undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundBy {
    Check,
    Delivery,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("subscription", &self.subscription).finish_non_exhaustive()
    }
}

impl Watched {
    pub(crate) fn new(subscription: &str, endpoint: Arc<dyn Endpoint>, tally: Arc<Tally>) -> Self {
        let (subscription, ended) = (subscription.to_owned(), OnceLock::new());
        Self { subscription, endpoint, away: Mutex::default(), went_away: Notify::new(), ended, tally }
    }

    /// What it is and where.
    pub(crate) fn describe(&self) -> String {
        self.endpoint.describe()
    }

    /// Why it cannot be reached; `None`: it can, as far as anybody knows.
    pub(crate) fn away(&self) -> Option<String> {
        self.state().as_ref().map(|away| away.reason.clone())
    }

    /// Why its worker ended by itself; `None`: it works.
    pub(crate) fn ended(&self) -> Option<&'static str> {
        self.ended.get().copied()
    }

    /// Its worker ended although nobody stopped it. It is not declared again here: whoever removed it may have meant it.
    pub(crate) fn note_ended(&self, end: WorkerEnd) {
        let reason = match end {
            WorkerEnd::Deleted => {
                "its subscription was removed from the database; take it out of the configuration too, or declare it \
                 again, from its `start` on, with SIGHUP or a restart"
            }
            _ => "its worker broke down, which is a fault of Posthaste; SIGHUP or a restart starts it again",
        };
        if self.ended.set(reason).is_ok() {
            error!(subscription = self.subscription, "nothing is delivered any more: {reason}");
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Away>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the sink at the start, and again as long as it is away; says what an operator should know of it.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let watching = async {
            if self.ask().await.is_ok() {
                self.warn().await;
            }
            loop {
                self.went_away.notified().await;
                while self.found_away_by(FoundBy::Check) {
                    tokio::time::sleep(ASK_AGAIN).await;
                    drop(self.ask().await);
                }
            }
        };
        tokio::select! {
            () = watching => {}
            () = stop.cancelled() => {}
        }
    }

    /// Within a time of its own: who asks may give up sooner and would take the news along.
    async fn ask(&self) -> Result<(), String> {
        let answer = tokio::time::timeout(CHECK_WITHIN, self.endpoint.check()).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", CHECK_WITHIN.as_secs())));
        self.heard(answer.clone());
        answer
    }

    async fn warn(&self) {
        let asking = tokio::time::timeout(CHECK_WITHIN, self.endpoint.warnings());
        for warning in asking.await.unwrap_or_default() {
            warn!(subscription = self.subscription, "{warning}");
        }
    }

    fn found_away_by(&self, by: FoundBy) -> bool {
        self.state().as_ref().is_some_and(|away| away.found_by == by)
    }

    fn heard(&self, answer: Result<(), String>) {
        match answer {
            Err(reason) => self.note_away(reason, FoundBy::Check),
            Ok(()) if self.found_away_by(FoundBy::Delivery) => {}
            Ok(()) => self.note_back(),
        }
    }

    fn note_away(&self, reason: String, found_by: FoundBy) {
        let news = self.state().replace(Away { reason: reason.clone(), found_by }).is_none();
        if news {
            let (subscription, sink) = (&self.subscription, self.describe());
            warn!(subscription, sink, reason, "the sink is away; its events wait");
        }
        self.went_away.notify_one();
    }

    fn note_back(&self) {
        if self.state().take().is_some() {
            info!(subscription = self.subscription, sink = self.describe(), "the sink is back");
        }
    }
}

#[async_trait]
impl Sink for Watched {
    async fn deliver(&self, page: &mut Page) {
        let under_way = self.tally.begin(page.events().len());
        self.endpoint.deliver(page).await;
        under_way.end();
        let outcomes = || (0..page.events().len()).filter_map(|index| page.outcome(index));
        let reason = outcomes().find_map(|outcome| match outcome {
            Outcome::Unavailable { reason } => Some(reason.clone()),
            _ => None,
        });
        match reason {
            Some(reason) => self.note_away(reason, FoundBy::Delivery),
            None if outcomes().next().is_some() => self.note_back(),
            None => {}
        }
    }

    async fn check(&self) -> Result<(), String> {
        self.ask().await
    }

    fn overlaps(&self) -> bool {
        self.endpoint.overlaps()
    }
}
