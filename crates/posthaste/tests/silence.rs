//! The network to PostgreSQL is cut without a word: connections stay open, and nothing comes through them. A worker notices,
//! sends nothing once its lease may have run out, leaves its place to others, and works again when the network is back, on
//! the pool it was given, without a restart.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::{Event, EventId, Handler, NewEvent, Order, Outcome, Posthaste, Subscription};
use posthaste_testkit::suite::{Backend, Script, assert_key, event, numbered, quick, until};
use posthaste_testkit::{Committed, Gate, Ledger, TestDatabase, Verdict, servers};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

/// Connections of the pool behind the gate.
const CONNECTIONS: u32 = 6;
const BATCH: u32 = 10;

/// A database, and a way to it that can be cut.
struct Bench {
    db: TestDatabase,
    gate: Arc<Gate>,
    pool: PgPool,
    far: Posthaste,
}

impl Bench {
    async fn all() -> Vec<Self> {
        let mut benches = Vec::new();
        for server in servers() {
            benches.push(Self::of(TestDatabase::on(&server).await).await);
        }
        benches
    }

    async fn new() -> Self {
        Self::of(TestDatabase::new().await).await
    }

    async fn of(db: TestDatabase) -> Self {
        let gate = Gate::before(db.options.get_port()).await;
        let options = db.options.clone().host("127.0.0.1").port(gate.port());
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect_lazy_with(options);
        Self { far: Posthaste::postgres(pool.clone()), db, gate, pool }
    }

    /// Every connection of the pool can be had at the same time: none is missing.
    async fn pool_is_whole(&self) {
        let mut all = Vec::new();
        for n in 1..=CONNECTIONS {
            let given = tokio::time::timeout(Duration::from_secs(30), self.pool.acquire()).await;
            all.push(given.unwrap_or_else(|_| panic!("connection {n} is missing")).expect("a connection"));
        }
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.db.pool).await.expect("a number")
    }
}

/// Who was handed what, in one row.
#[derive(Debug, Clone, Default)]
struct Sends(Arc<Mutex<Vec<(&'static str, EventId)>>>);

impl Sends {
    fn of(&self, who: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(by, _)| *by == who).count()
    }

    /// How many the one that was cut off has sent after the other one had begun with what it held.
    fn after_takeover(&self, held: &[Committed]) -> usize {
        let sends = self.0.lock().unwrap();
        let taken = |(who, id): &(&str, EventId)| *who == "near" && held.iter().any(|event| event.id == *id);
        let takeover = sends.iter().position(taken).expect("it was taken over");
        sends[takeover..].iter().filter(|(who, _)| *who == "far").count()
    }
}

/// Notes every event it is handed, and takes its time.
#[derive(Debug, Clone)]
struct Noting {
    who: &'static str,
    takes: Duration,
    sends: Sends,
    accepted: Ledger,
}

#[async_trait::async_trait]
impl Handler for Noting {
    async fn handle(&self, event: Arc<Event>) -> Outcome {
        self.sends.0.lock().unwrap().push((self.who, event.id));
        self.accepted.accept(&event);
        tokio::time::sleep(self.takes).await;
        Outcome::Delivered
    }
}

fn leased(order: Order) -> Subscription {
    quick("s").order(order).settings(|s| {
        s.lease = Duration::from_secs(3);
        s.batch_size = BATCH;
        s.concurrency = 1;
    })
}

/// Commits some events, and says so as the checker needs it.
async fn commit(db: &TestDatabase, keyed: bool, from: u64, count: u64) -> Vec<Committed> {
    let mut committed = Vec::new();
    for n in from..from + count {
        let (key, body) = (format!("k{}", n % 4), format!("{n:05}"));
        let written = db.commit(vec![NewEvent::bytes("orders", body.clone().into_bytes()).key(&key)]).await;
        let place = keyed.then_some((key, n));
        committed.push(Committed { id: written[0].id, place, payload: body.into_bytes() });
    }
    committed
}

/// A worker is cut off for longer than its lease while it has events that it did not send. Another one sends them.
async fn cut_off(order: Order) -> (Verdict, Sends) {
    let bench = Bench::new().await;
    let (sends, accepted) = (Sends::default(), Ledger::default());
    let noting = |who, takes| Noting { who, takes, sends: sends.clone(), accepted: accepted.clone() };
    let keyed = order != Order::None;
    let mut committed = commit(&bench.db, keyed, 0, 60).await;
    let slow = noting("far", Duration::from_millis(250));
    let far = bench.far.handler(leased(order), slow).start().await.unwrap();
    accepted.wait_for(5).await;

    bench.gate.fall_silent();
    let left = bench.count("select count(*) from posthaste.batches where finished_at is null").await;
    assert!(left > 0, "it holds what it has not sent; otherwise it would have nothing to send too late");
    let near = bench.db.posthaste.handler(leased(order), noting("near", Duration::ZERO));
    let near = near.start().await.unwrap();
    until("all was sent", async || accepted.check(&committed).lost == 0).await;
    let held = &committed[..2 * BATCH as usize];
    assert_eq!(sends.after_takeover(held), 0, "{sends:?}");
    near.stop().await;

    bench.gate.speak_again();
    let before = sends.of("far");
    committed.extend(commit(&bench.db, keyed, 60, 12).await);
    until("the rest was sent", async || accepted.check(&committed).lost == 0).await;
    assert!(sends.of("far") >= before + 12, "by the worker that is back");
    far.stop().await;
    bench.pool_is_whole().await;
    until("all is settled", async || {
        bench.count("select count(*) from posthaste.batches where finished_at is null").await == 0
    })
    .await;
    assert_eq!(bench.db.deliveries("s").await, [], "an outage of the database is no failure of an event");
    (accepted.check(&committed), sends)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_leaves_its_lane_and_comes_back() {
    let (verdict, sends) = cut_off(Order::Key).await;
    assert_eq!((verdict.lost, verdict.inversions, verdict.ghosts), (0, 0, 0), "{verdict}, {sends:?}");
    assert!(verdict.duplicates <= 2 * BATCH as usize, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_worker_that_is_cut_off_leaves_its_lane_and_comes_back() {
    let (verdict, sends) = cut_off(Order::Strict).await;
    assert_eq!((verdict.lost, verdict.inversions, verdict.ghosts), (0, 0, 0), "{verdict}, {sends:?}");
    assert!(verdict.duplicates <= 2 * BATCH as usize, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_an_order_that_is_cut_off_leaves_its_batches_and_comes_back() {
    let (verdict, sends) = cut_off(Order::None).await;
    assert_eq!((verdict.lost, verdict.ghosts), (0, 0), "{verdict}, {sends:?}");
    assert!(verdict.duplicates <= 2 * BATCH as usize, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_died_without_a_word_are_replaced() {
    for bench in Bench::all().await {
        let script = Script::accepting();
        let worker = bench.far.handler(quick("s"), script.clone()).start().await.unwrap();
        bench.db.commit(numbered("a", 50)).await;
        script.accepted.wait_for(50).await;
        let abandoned: chrono::DateTime<chrono::Utc> =
            sqlx::query_scalar("select clock_timestamp()").fetch_one(&bench.db.pool).await.unwrap();
        bench.gate.abandon_connections();
        bench.db.commit(numbered("b", 50)).await;
        script.accepted.wait_for(100).await;
        assert_key(&script.accepted, "b", 50);
        bench.pool_is_whole().await;
        // The one that listens looks at the end of the log twice a second.
        until("somebody listens again", async || {
            let looks = "select count(*) from pg_stat_activity where datname = current_database() \
                         and query like '%last_value%' and query_start > $1 + interval '1 second' \
                         and backend_start > $1";
            let looks = sqlx::query_scalar::<_, i64>(looks).bind(abandoned);
            looks.fetch_one(&bench.db.pool).await.unwrap() > 0
        })
        .await;
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_waits_for_any_more_gives_its_connection_back() {
    let bench = Bench::new().await;
    let admin = bench.far.admin();
    admin.subscriptions().await.expect("an answer");
    bench.gate.fall_silent();
    for _ in 0..CONNECTIONS {
        let asked = tokio::time::timeout(Duration::from_millis(50), admin.subscriptions()).await;
        assert!(asked.is_err(), "nothing comes through");
    }
    bench.gate.abandon_connections();
    bench.gate.speak_again();
    bench.pool_is_whole().await;
    admin.subscriptions().await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_says_so() {
    let bench = Bench::new().await;
    bench.gate.fall_silent();
    let start = bench.far.handler(quick("s"), Script::accepting()).start();
    let error = tokio::time::timeout(Duration::from_secs(60), start).await.expect("an answer").unwrap_err();
    assert_eq!(error.kind(), posthaste::ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("PostgreSQL within 5s"), "{error}");
}

/// Claims of the worker that wait for the lock.
const WAITING: &str = "select count(*) from pg_stat_activity where datname = current_database() \
                       and wait_event_type = 'Lock' \
                       and (query like '-- Opens a window%' or query like '-- Claims a page%')";

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_happens_after_it_was_given_up_is_found_by_its_owner() {
    for bench in Bench::all().await {
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.lease = Duration::from_secs(6));
        let worker = bench.db.posthaste.handler(patient, script.clone()).start().await.unwrap();
        bench.db.commit(numbered("a", 3)).await;
        script.accepted.wait_for(3).await;
        let mut lock = bench.db.pool.begin().await.unwrap();
        lock.execute("select 1 from posthaste.lanes for update").await.unwrap();
        bench.db.commit(numbered("b", 5)).await;
        // The first was given up: a worker has no two claims under way in one lane. It happens all the same, as soon as it can.
        until("a claim is made again", async || bench.count(WAITING).await >= 2).await;
        lock.rollback().await.unwrap();
        script.accepted.wait_for(8).await;
        bench.db.commit(numbered("c", 5)).await;
        script.accepted.wait_for(13).await;
        worker.stop().await;
        for (key, count) in [("a", 3), ("b", 5), ("c", 5)] {
            assert_key(&script.accepted, key, count);
        }
        assert_eq!(bench.count("select count(*) from posthaste.batches where claims > 1").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_never_comes_is_given_up_and_found() {
    let bench = Bench::new().await;
    let script = Script::accepting();
    let patient = quick("s").settings(|s| s.lease = Duration::from_secs(15));
    let worker = bench.far.handler(patient, script.clone()).start().await.unwrap();
    bench.db.commit(numbered("a", 3)).await;
    script.accepted.wait_for(3).await;
    let mut lock = bench.db.pool.begin().await.unwrap();
    lock.execute("select 1 from posthaste.lanes for update").await.unwrap();
    bench.db.commit(numbered("b", 5)).await;
    until("the server has the claim", async || bench.count(WAITING).await == 1).await;
    bench.gate.abandon_connections();
    lock.rollback().await.unwrap();
    until("it was made", async || {
        bench.count("select count(*) from posthaste.batches where finished_at is null").await == 1
    })
    .await;
    script.accepted.wait_for(8).await;
    worker.stop().await;
    assert_key(&script.accepted, "b", 5);
    bench.pool_is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_in_the_transaction_of_a_handler_burns_no_attempt() {
    let bench = Bench::new().await;
    bench.db.pool.execute("create table effects (body text)").await.unwrap();
    let (calls, gate) = (Arc::new(AtomicUsize::new(0)), bench.gate.clone());
    let counted = calls.clone();
    let once = quick("s").settings(|s| {
        s.max_attempts = 1;
        s.timeout = Duration::from_secs(1);
    });
    let worker = bench.far.transactional(once, move |tx, event: Arc<Event>| {
        let (calls, gate) = (counted.clone(), gate.clone());
        Box::pin(async move {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                gate.fall_silent();
            }
            let body = event.text().unwrap_or_default().to_owned();
            sqlx::query("insert into effects values ($1)").bind(body).execute(tx).await.map(|_| ())
        })
    });
    let worker = worker.unwrap().start().await.unwrap();
    bench.db.commit(vec![event("k", "one"), event("k", "two")]).await;
    until("the handler was called", async || calls.load(Ordering::SeqCst) > 0).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    bench.gate.speak_again();
    until("both had their effect", async || bench.count("select count(*) from effects").await == 2).await;
    worker.stop().await;
    assert!(calls.load(Ordering::SeqCst) > 2, "the first attempt came to nothing");
    let bodies: Vec<String> =
        sqlx::query_scalar("select body from effects").fetch_all(&bench.db.pool).await.unwrap();
    assert_eq!(bodies, ["one", "two"]);
    assert_eq!(bench.db.deliveries("s").await, [], "none is dead");
    bench.pool_is_whole().await;
}
