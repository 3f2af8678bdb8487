//! A receiver that answers every check and accepts nothing: its outage costs one attempt, not all of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::{EventId, NewEvent, Outcome, Page, Sink, Start, Subscription};
use posthaste_sinks::Suspicion;
use posthaste_testkit::SqliteDatabase;
use tokio::time::Instant as Moment;

const EVENTS: usize = 20;

/// Events about which it is silent before it is repaired.
const SILENCES: usize = 7;

#[derive(Default)]
struct State {
    answers: AtomicBool,
    silences: AtomicUsize,
    accepted: Mutex<HashSet<EventId>>,
    suspicion: Suspicion,
}

#[derive(Clone, Default)]
struct Silent(Arc<State>);

#[async_trait]
impl Sink for Silent {
    async fn deliver(&self, page: &mut Page) {
        let suspects = self.0.suspicion.suspects();
        for (index, event) in page.events().to_vec().iter().enumerate() {
            let sent = Moment::now();
            let outcome = match self.0.answers.load(Ordering::Relaxed) {
                true => Outcome::Delivered,
                false => suspects.suspect(index, sent, Outcome::retry("no answer")),
            };
            if outcome == Outcome::Delivered {
                suspects.accepted();
                self.0.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(event.id);
            } else {
                self.0.silences.fetch_add(1, Ordering::Relaxed);
            }
            let away = matches!(outcome, Outcome::Unavailable { .. });
            page.mark(index, outcome);
            if away {
                page.mark_rest(&Outcome::unavailable("not sent"));
                break;
            }
        }
        suspects.judge(page);
    }

    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !fact() {
        assert!(Instant::now() < deadline, "two minutes passed, and still not: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_behind_a_check_that_passes_costs_one_attempt_at_most() {
    let (database, sink) = (SqliteDatabase::new().await, Silent::default());
    let mut tx = database.pool.begin_with("begin immediate").await.expect("begin");
    let events: Vec<NewEvent> = (0..EVENTS).map(|n| NewEvent::bytes("orders", n.to_string())).collect();
    database.posthaste.enqueue_many(&mut *tx, events).await.expect("enqueue");
    tx.commit().await.expect("commit");
    let subscription = Subscription::new("s").expect("a name").start(Start::Beginning).settings(|settings| {
        settings.poll_interval = Duration::from_millis(50);
        settings.base_delay = Duration::from_millis(20);
        settings.max_delay = Duration::from_millis(100);
        settings.max_attempts = 2;
    });
    let worker = database.posthaste.sink(subscription, sink.clone()).start().await.expect("start");
    until("it was probed", || sink.0.silences.load(Ordering::Relaxed) >= SILENCES).await;
    assert_eq!(worker.counters().retried(), 1, "one event was blamed");
    sink.0.answers.store(true, Ordering::Relaxed);
    until("all are delivered", || worker.counters().delivered() == EVENTS as u64).await;
    assert_eq!((worker.counters().retried(), worker.counters().dead()), (1, 0));
    worker.stop().await;
    assert_eq!(sink.0.accepted.lock().unwrap_or_else(PoisonError::into_inner).len(), EVENTS);
}
