//! Two sinks in a row: an event store, then one that fails in every way there is.
#![cfg(feature = "event-store")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::admin::DeliveryQuery;
use posthaste::{
    AfterDead, Event, EventId, NewEvent, Outcome, Page, Posthaste, Sink, Start, Subscription, Worker,
};
use posthaste_sinks::{Endpoint, Problems, Route, Section, SinkSettings, Steps, Surroundings};
use posthaste_testkit::{SqliteDatabase, TestDatabase, servers};
use serde_json::json;

/// What the second sink does with an event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Accept,
    Retry,
    Dead,
    Away,
    Panic,
    Hang,
}

/// By the body, and by how often it came.
type Mind = dyn Fn(&str, usize) -> Act + Send + Sync;

/// Knows what it was handed and what it accepted; what it does depends on the event and on how often it came.
#[derive(Clone)]
struct Flaky {
    seen: Arc<Mutex<Vec<String>>>,
    accepted: Arc<Mutex<Vec<String>>>,
    act: Arc<Mind>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flaky {
    fn new(act: impl Fn(&str, usize) -> Act + Send + Sync + 'static) -> Self {
        Self { seen: Arc::default(), accepted: Arc::default(), act: Arc::new(act) }
    }

    /// The same sink with another mind.
    fn but(&self, act: impl Fn(&str, usize) -> Act + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act), ..self.clone() }
    }

    fn note(&self, event: &Event) -> (String, Act) {
        let body = event.text().expect("text").to_owned();
        lock(&self.seen).push(body.clone());
        let times = lock(&self.seen).iter().filter(|seen| **seen == body).count();
        let act = (self.act)(&body, times);
        (body, act)
    }

    fn accepted(&self) -> Vec<String> {
        lock(&self.accepted).clone()
    }

    fn times(&self) -> HashMap<String, usize> {
        count(&lock(&self.seen))
    }
}

fn count(bodies: &[String]) -> HashMap<String, usize> {
    bodies.iter().fold(HashMap::new(), |mut times, body| {
        *times.entry(body.clone()).or_default() += 1;
        times
    })
}

#[async_trait]
impl Sink for Flaky {
    async fn deliver(&self, page: &mut Page) {
        let mut failed: Vec<String> = Vec::new();
        for index in 0..page.events().len() {
            let event = page.events()[index].clone();
            if event.key.as_ref().is_some_and(|key| failed.contains(key)) {
                continue;
            }
            let (body, act) = self.note(&event);
            match act {
                Act::Accept => {
                    lock(&self.accepted).push(body);
                    page.delivered(index);
                    continue;
                }
                Act::Retry => page.mark(index, Outcome::retry("not now")),
                Act::Dead => page.mark(index, Outcome::dead("never")),
                Act::Away => page.mark(index, Outcome::unavailable("away")),
                Act::Panic => panic!("in the second step"),
                Act::Hang => std::future::pending().await,
            }
            failed.extend(event.key.clone());
        }
    }
}

#[async_trait]
impl Endpoint for Flaky {
    fn describe(&self) -> String {
        "flaky".to_owned()
    }
}

/// Notes what the first step is handed, and passes it on.
struct Counted {
    seen: Arc<Mutex<Vec<String>>>,
    inner: Arc<dyn Endpoint>,
}

#[async_trait]
impl Sink for Counted {
    async fn deliver(&self, page: &mut Page) {
        lock(&self.seen).extend(page.events().iter().map(|event| event.text().expect("text").to_owned()));
        self.inner.deliver(page).await;
    }
}

#[async_trait]
impl Endpoint for Counted {
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A log in a file, a store in PostgreSQL.
struct Bench {
    log: SqliteDatabase,
    store: TestDatabase,
    first: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    async fn start() -> Option<Self> {
        if std::env::var_os("POSTHASTE_TEST_POSTGRES").is_none() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no PostgreSQL; run `cargo xtask test`");
            eprintln!("skipped: steps (no PostgreSQL; run `cargo xtask test`)");
            return None;
        }
        let store = TestDatabase::empty_on(&servers()[0]).await;
        Some(Self { log: SqliteDatabase::new().await, store, first: Arc::default() })
    }

    fn store_step(&self) -> Arc<dyn Endpoint> {
        let (problems, surroundings) = (Problems::default(), Surroundings::default());
        let database = self.store.options.get_database().expect("a database");
        let url = format!("postgres://postgres@127.0.0.1:{}/{database}", self.store.options.get_port());
        let table = json!({ "type": "event_store", "url": url });
        let section = Section::new("sink", table.as_object().expect("a table"), &problems, &surroundings);
        let settings =
            SinkSettings::validate(&section).unwrap_or_else(|| panic!("{:?}", problems.into_vec()));
        let inner = settings.open(Route::new("s")).expect("a sink");
        Arc::new(Counted { seen: self.first.clone(), inner })
    }

    /// A worker as in a process of its own: another handle on the log, another connection to the store.
    async fn work(&self, second: &Flaky) -> Worker {
        self.work_with(second, subscription()).await
    }

    async fn work_with(&self, second: &Flaky, subscription: Subscription) -> Worker {
        let log: Posthaste = SqliteDatabase::open(&self.log.path).await;
        let steps = Steps::new(vec![self.store_step(), Arc::new(second.clone())], true);
        log.sink(subscription, steps).start().await.expect("start")
    }

    /// Bodies are `key-number`.
    async fn commit(&self, count: usize, keys: usize) -> Vec<EventId> {
        let events = (0..count).map(|n| {
            let key = format!("k{}", n % keys);
            NewEvent::bytes("orders", format!("{key}-{:04}", n / keys)).key(key)
        });
        let mut tx = self.log.pool.begin_with("begin immediate").await.expect("begin");
        let enqueued =
            self.log.posthaste.enqueue_many(&mut *tx, events.collect::<Vec<_>>()).await.expect("enqueue");
        tx.commit().await.expect("commit");
        enqueued.into_iter().map(|enqueued| enqueued.id).collect()
    }

    async fn stored(&self) -> Vec<String> {
        let sql = "select convert_from(payload, 'UTF8') from event_store order by position";
        sqlx::query_scalar(sql).fetch_all(&self.store.pool).await.expect("read")
    }

    /// The store has each event once, the first step saw each once, the second accepted each once, all in order.
    async fn assert_each_once(&self, second: &Flaky, count: usize) {
        let stored = self.stored().await;
        assert_eq!((stored.len(), count_of_distinct(&stored)), (count, count), "stored");
        let first = lock(&self.first).clone();
        assert_eq!((first.len(), count_of_distinct(&first)), (count, count), "handed to the first step");
        let accepted = second.accepted();
        assert_eq!(
            (accepted.len(), count_of_distinct(&accepted)),
            (count, count),
            "accepted by the second step"
        );
        for bodies in [stored, accepted] {
            assert_in_key_order(&bodies);
        }
    }
}

fn count_of_distinct(bodies: &[String]) -> usize {
    count(bodies).len()
}

fn assert_in_key_order(bodies: &[String]) {
    let mut last: HashMap<&str, &str> = HashMap::new();
    for body in bodies {
        let (key, number) = body.split_once('-').expect("key-number");
        assert!(
            last.insert(key, number).is_none_or(|before| before < number),
            "{body} comes too late: {bodies:?}"
        );
    }
}

fn subscription() -> Subscription {
    let subscription = Subscription::new("steps").expect("a name").start(Start::Beginning);
    subscription.after_dead(AfterDead::Block).settings(|settings| {
        settings.batch_size = 50;
        settings.poll_interval = Duration::from_millis(50);
        settings.base_delay = Duration::from_millis(20);
        settings.max_delay = Duration::from_millis(100);
        settings.max_attempts = 50;
    })
}

async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !fact() {
        assert!(Instant::now() < deadline, "a minute passed, and still not: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_second_step_fails_at_is_retried_from_there() {
    let Some(bench) = Bench::start().await else { return };
    bench.commit(200, 20).await;
    let second = Flaky::new(|_, times| if times == 1 { Act::Retry } else { Act::Accept });
    let worker = bench.work(&second).await;
    until("all are accepted", || second.accepted().len() >= 200).await;
    until("all are settled", || worker.counters().delivered() == 200).await;
    worker.stop().await;
    bench.assert_each_once(&second, 200).await;
    assert!(second.times().values().all(|times| *times == 2), "{:?}", second.times());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_worker_goes_on_at_the_second_step() {
    let Some(bench) = Bench::start().await else { return };
    bench.commit(40, 4).await;
    let failing = Flaky::new(|_, _| Act::Retry);
    let worker = bench.work(&failing).await;
    until("the first step has all", || lock(&bench.first).len() >= 40).await;
    until("the second step was tried", || worker.counters().retried() >= 4).await;
    worker.stop().await;
    assert_eq!(failing.accepted(), Vec::<String>::new());
    let second = failing.but(|_, _| Act::Accept);
    let worker = bench.work(&second).await;
    until("all are settled", || worker.counters().delivered() == 40).await;
    worker.stop().await;
    bench.assert_each_once(&second, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_second_step_repeats_no_first_step() {
    let Some(bench) = Bench::start().await else { return };
    bench.commit(100, 10).await;
    let away = Arc::new(AtomicBool::new(true));
    let gone = away.clone();
    let second = Flaky::new(move |_, _| if gone.load(Ordering::SeqCst) { Act::Away } else { Act::Accept });
    let worker = bench.work(&second).await;
    until("it was tried and tried again", || worker.counters().unavailable() >= 3).await;
    away.store(false, Ordering::SeqCst);
    until("all are settled", || worker.counters().delivered() == 100).await;
    assert_eq!((worker.counters().retried(), worker.counters().dead()), (0, 0), "attempts burned");
    worker.stop().await;
    bench.assert_each_once(&second, 100).await;
}

/// The stop comes while the second step is away; what the worker remembers is written then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_during_an_outage_repeats_no_first_step() {
    let Some(bench) = Bench::start().await else { return };
    bench.commit(40, 4).await;
    let gone = Flaky::new(|_, _| Act::Away);
    let worker = bench.work(&gone).await;
    until("the first step has all", || lock(&bench.first).len() >= 40).await;
    until("the second step was tried", || worker.counters().unavailable() >= 2).await;
    worker.stop().await;
    let second = gone.but(|_, _| Act::Accept);
    let worker = bench.work(&second).await;
    until("all are settled", || worker.counters().delivered() == 40).await;
    worker.stop().await;
    bench.assert_each_once(&second, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_panics_or_hangs_repeats_no_earlier_one() {
    let Some(bench) = Bench::start().await else { return };
    bench.commit(20, 2).await;
    let second = Flaky::new(|body, times| match (body, times) {
        ("k0-0003", 1) => Act::Panic,
        ("k1-0005", 1) => Act::Hang,
        _ => Act::Accept,
    });
    let impatient = subscription().settings(|settings| settings.timeout = Duration::from_millis(500));
    let worker = bench.work_with(&second, impatient).await;
    until("all are settled", || worker.counters().delivered() == 20).await;
    worker.stop().await;
    let first = lock(&bench.first).clone();
    assert_eq!((first.len(), count_of_distinct(&first)), (20, 20), "handed to the first step: {first:?}");
    assert_eq!(bench.stored().await.len(), 20);
    // What the second step had accepted before it panicked or was cut off is sent again: it never said so.
    assert_eq!(count_of_distinct(&second.accepted()), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_is_revived_goes_on_at_the_second_step() {
    let Some(bench) = Bench::start().await else { return };
    let ids = bench.commit(12, 3).await;
    let refusing = Flaky::new(|body, _| if body == "k1-0001" { Act::Dead } else { Act::Accept });
    let worker = bench.work(&refusing).await;
    until("one is dead and the other keys are through", || {
        worker.counters().dead() == 1 && worker.counters().delivered() == 9
    })
    .await;
    worker.stop().await;
    let second = refusing.but(|_, _| Act::Accept);
    let worker = bench.work(&second).await;
    let admin = bench.log.posthaste.admin();
    let detail = admin.event(ids[4]).await.expect("the event");
    assert_eq!(detail.event.text(), Some("k1-0001"));
    assert_eq!(admin.retry(&DeliveryQuery::event("steps", ids[4])).await.expect("revive"), 1);
    until("the rest is through", || worker.counters().delivered() == 3).await;
    worker.stop().await;
    bench.assert_each_once(&second, 12).await;
}

/// Another body means all steps again. The store keeps what it has under this id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_dead_letter_begins_with_the_first_step_in_the_same_process_too() {
    let Some(bench) = Bench::start().await else { return };
    let ids = bench.commit(1, 1).await;
    let second = Flaky::new(|body, _| if body == "edited" { Act::Accept } else { Act::Dead });
    let worker = bench.work(&second).await;
    until("it is dead", || worker.counters().dead() == 1).await;
    let admin = bench.log.posthaste.admin();
    let edited = async || admin.edit_and_retry("steps", ids[0], "edited").await.expect("edit");
    while edited().await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    until("it is settled", || worker.counters().delivered() == 1).await;
    worker.stop().await;
    assert_eq!(lock(&bench.first).clone(), ["k0-0000", "edited"]);
    assert_eq!(second.accepted(), ["edited"]);
    assert_eq!(bench.stored().await, ["k0-0000"]);
}

#[tokio::test]
async fn an_event_with_more_steps_behind_it_than_there_are_is_delivered() {
    let second = Flaky::new(|_, _| Act::Accept);
    let event =
        |seq| Arc::new(NewEvent::bytes("t", "k-1").key("k").stored(seq, chrono::DateTime::UNIX_EPOCH));
    let mut page = Page::for_attempts([(event(1), 2, 7), (event(2), 1, 0)]);
    Steps::new(vec![Arc::new(second.clone())], true).deliver(&mut page).await;
    assert_eq!((page.outcome(0), page.outcome(1)), (Some(&Outcome::Delivered), Some(&Outcome::Delivered)));
    assert_eq!(second.accepted().len(), 1);
}

#[tokio::test]
async fn a_refusal_says_which_step_spoke_and_the_key_waits() {
    let first = Flaky::new(|_, _| Act::Accept);
    let second = Flaky::new(|_, _| Act::Dead);
    let event = |seq| {
        Arc::new(NewEvent::bytes("t", format!("k-{seq}")).key("k").stored(seq, chrono::DateTime::UNIX_EPOCH))
    };
    let mut page = Page::new(vec![event(1), event(2)]);
    Steps::new(vec![Arc::new(first), Arc::new(second)], true).deliver(&mut page).await;
    assert_eq!(page.outcome(0), Some(&Outcome::dead("step 2: never")));
    assert_eq!((page.outcome(1), page.step(0), page.step(1)), (None, 1, 1));
}
