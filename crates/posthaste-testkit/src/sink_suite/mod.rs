//! What every sink must do, written once, against a real server. A sink's test file describes its server and gets one
//! test per scenario:
//!
//! ```text
//! posthaste_testkit::sink_suite!(Nats);
//! ```
//!
//! Every scenario enqueues on a SQLite log of its own and lets a worker deliver, so that what is tested is the sink as
//! the engine uses it. Facts go to the results folder, from which docs/reference/sinks.md is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::{NewEvent, Sink, Start, Subscription};

use crate::ledger::{Accepted, Committed, Ledger, Verdict};
use crate::sqlite::SqliteDatabase;

pub mod outages;
pub mod refusals;
pub mod results;
pub mod transport;

/// A server with one empty destination, and sinks that deliver to it.
#[async_trait]
pub trait SinkBench: Send + Sync + Sized + 'static {
    /// The sink's name, as in a configuration.
    const NAME: &'static str;

    /// What stands before the names of CloudEvents attributes in the binary form, such as `ce-`; `None` if the receiver
    /// gets no attributes in that form.
    const ATTRIBUTES: Option<&'static str>;

    /// Whether only text can be sent; other bytes must then end dead.
    const TEXT_ONLY: bool = false;

    /// Whether two events of one key, sent in order, are received in order. `false` only where the server promises none.
    const ORDERED: bool = true;

    /// Starts a server of its own with a fresh destination, or says why there is none.
    async fn start() -> Result<Self, String>;

    /// The server and its version, for the results.
    fn server(&self) -> String;

    /// Delivers to the destination.
    fn sink(&self) -> Arc<dyn Sink>;

    /// The same, with CloudEvents in structured form.
    fn structured(&self) -> Arc<dyn Sink>;

    /// Everything that has arrived at the destination since the start, in the order of arrival.
    async fn received(&self) -> Vec<Received>;

    /// Takes the server away in the middle of everything: kill -9 where the server keeps what it acknowledged.
    async fn take_away(&self);

    /// Brings it back.
    async fn bring_back(&self);

    /// The smallest payload that the destination refuses; `None` if it takes whatever the log takes (1 MiB).
    fn too_large(&self) -> Option<usize>;

    /// Delivers with a wrong password; `None` if the server knows none.
    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>>;

    /// Delivers to a destination that does not exist; `None` if every destination exists.
    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>>;
}

/// A message as the receiver sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The event's id, from wherever this sink carries it.
    pub id: String,
    /// The key, if this sink carries it.
    pub key: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Headers or attributes by name, values decoded.
    pub headers: BTreeMap<String, String>,
}

/// A log, and what was committed to it.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) log: SqliteDatabase,
    pub(crate) committed: Vec<Committed>,
    places: BTreeMap<String, u64>,
}

/// The subscription of every scenario.
pub(crate) const SUBSCRIPTION: &str = "sink-suite";

impl Trial {
    pub(crate) async fn new() -> Self {
        let mut log = SqliteDatabase::new().await;
        // Some servers take more than the log does by default.
        log.posthaste = log.posthaste.with_limits(|limits| limits.max_payload = usize::MAX);
        Self { log, committed: Vec::new(), places: BTreeMap::new() }
    }

    /// Retries soon, gives up late, and takes big pages.
    pub(crate) fn subscription() -> Subscription {
        let subscription = Subscription::new(SUBSCRIPTION).expect("a name");
        subscription.start(Start::Beginning).settings(|settings| {
            settings.batch_size = 500;
            settings.poll_interval = Duration::from_millis(50);
            settings.base_delay = Duration::from_millis(100);
            settings.max_delay = Duration::from_millis(500);
        })
    }

    /// Enqueues in one transaction. `key` and `payload` are what the receiver is to see.
    pub(crate) async fn commit(&mut self, events: Vec<(String, Vec<u8>, NewEvent)>) {
        let (meant, events): (Vec<_>, Vec<_>) =
            events.into_iter().map(|(key, payload, event)| ((key, payload), event)).unzip();
        let mut tx = self.log.pool.begin_with("begin immediate").await.expect("begin");
        let enqueued = self.log.posthaste.enqueue_many(&mut *tx, events).await.expect("enqueue");
        tx.commit().await.expect("commit");
        for ((key, payload), enqueued) in meant.into_iter().zip(enqueued) {
            let place = self.places.entry(key.clone()).or_insert(0);
            *place += 1;
            self.committed.push(Committed { id: enqueued.id, place: Some((key, *place)), payload });
        }
    }

    /// Text events of one topic, spread over keys.
    pub(crate) async fn commit_numbered(&mut self, count: usize, keys: usize) {
        for chunk in (0..count).collect::<Vec<_>>().chunks(1000) {
            let events = chunk.iter().map(|n| {
                let (key, text) =
                    (format!("key-{}", n % keys), format!("{{\"n\":{n},\"text\":\"grüße {n}\"}}"));
                let event =
                    NewEvent::bytes("orders", text.clone()).content_type("application/json").key(&key);
                (key, text.into_bytes(), event.event_type("order.created"))
            });
            self.commit(events.collect()).await;
        }
    }

    /// What the receiver has, compared with what was committed.
    pub(crate) fn verdict(&self, received: &[Received]) -> Verdict {
        let ledger = Ledger::default();
        for message in received {
            let id = message.id.parse().unwrap_or_else(|_| panic!("`{}` is no event id", message.id));
            let (key, payload) = (message.key.clone(), message.body.clone());
            ledger.accept_raw(Accepted { id: posthaste::EventId(id), key, payload });
        }
        ledger.check(&self.committed)
    }
}

/// Waits until at least this many messages have arrived, and returns all that have.
pub(crate) async fn received_at_least(bench: &impl SinkBench, count: usize) -> Vec<Received> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let received = bench.received().await;
        if received.len() >= count {
            return received;
        }
        assert!(Instant::now() < deadline, "only {} of {count} messages within two minutes", received.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The same, not counting what came twice: after an outage a receiver may get the last events behind duplicates.
pub(crate) async fn received_different(bench: &impl SinkBench, count: usize) -> Vec<Received> {
    let different =
        async || bench.received().await.into_iter().map(|message| message.id).collect::<BTreeSet<_>>();
    until("all events have arrived", async || different().await.len() >= count).await;
    bench.received().await
}

/// Waits for a fact.
pub(crate) async fn until(what: &str, mut fact: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !fact().await {
        assert!(Instant::now() < deadline, "two minutes passed, and still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Starts the bench, or notes the skip. In CI a server that cannot be had is a failure.
pub async fn bench<B: SinkBench>() -> Option<B> {
    match B::start().await {
        Ok(bench) => Some(bench),
        Err(reason) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{}: no server: {reason}", B::NAME);
            eprintln!("skipped: {} ({reason})", B::NAME);
            results::skipped(B::NAME, &reason);
            None
        }
    }
}

/// One test per scenario, for a [`SinkBench`].
#[macro_export]
macro_rules! sink_suite {
    ($bench:ty) => {
        $crate::sink_suite!(@all $bench;
            transport: bytes_headers_and_attributes_arrive_as_enqueued, the_structured_form_holds_everything,
                ten_thousand_events_arrive_once_in_order;
            refusals: a_refused_event_is_dead_and_the_others_go_on, wrong_credentials_lose_nothing,
                an_unknown_destination_loses_nothing;
            outages: a_server_taken_away_costs_no_event_and_no_attempt, a_server_that_is_away_at_the_start_is_waited_for;
        );
    };
    (@all $bench:ty; $($group:ident: $($scenario:ident),+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                if let Some(bench) = $crate::sink_suite::bench::<$bench>().await {
                    $crate::sink_suite::$group::$scenario(&bench).await;
                }
            }
        )+)+
    };
}
