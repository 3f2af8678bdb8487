//! Hostile events: whatever a producer hands over arrives as it was, to the byte, or is refused with a typed error before
//! any SQL was sent, and the producer's transaction commits all the same.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[macro_use]
#[path = "../admin_common/mod.rs"]
mod admin_common;
mod hostile;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use admin_common::{Database, quick};
use chrono::{DateTime, Utc};
use hostile::{Hostile, hostile};
use posthaste::admin::RetentionPolicy;
use posthaste::{
    Enqueued, Error, Event, EventId, InvalidEvent, Limits, NewEvent, Order, Posthaste, Result, Subscription,
};
use posthaste_testkit::{SqliteDatabase, TestDatabase};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use sqlx::Executor;

/// Events of one transaction, on average.
const PAGE: usize = 200;

/// However slow the machine: what was not delivered by then never is.
const PATIENCE: Duration = Duration::from_secs(60);

fn cases() -> usize {
    match std::env::var("POSTHASTE_FAULTS").as_deref() {
        Ok("full") => 100_000,
        Ok(_) => 6_000,
        Err(_) => 3_000,
    }
}

/// A producer's database.
trait Shop: Database + Send + Sync {
    /// One transaction of the producer: a row, these calls, another row, commit.
    async fn sell(&self, calls: Vec<Vec<NewEvent>>) -> Vec<Result<Vec<Enqueued>>>;
    /// The errors of calls on a connection that refuses whatever is sent.
    async fn on_a_dead_end(&self, events: Vec<NewEvent>) -> Vec<Error>;
    /// What people look at, read whole.
    const VIEW: &'static str;
    /// Other bytes than a test has written.
    const CHANGED_BYTES: &'static str;
}

macro_rules! shop {
    ($database:ty, $block:literal, $unblock:literal, $view:literal, $changed:literal) => {
        impl Shop for $database {
            async fn sell(&self, calls: Vec<Vec<NewEvent>>) -> Vec<Result<Vec<Enqueued>>> {
                let mut tx = self.pool.begin().await.expect("begin");
                tx.execute("insert into orders values (1)").await.expect("the producer's own row");
                let mut answers = Vec::new();
                for events in calls {
                    answers.push(self.posthaste.enqueue_many(&mut tx, events).await);
                }
                tx.execute("insert into orders values (2)").await.expect("the transaction is usable");
                tx.commit().await.expect("commit");
                answers
            }

            async fn on_a_dead_end(&self, events: Vec<NewEvent>) -> Vec<Error> {
                let mut tx = self.pool.begin().await.expect("begin");
                drop(tx.execute($block).await);
                let mut errors = Vec::new();
                for event in events {
                    let answer = self.posthaste.enqueue(&mut tx, event).await;
                    errors.push(answer.expect_err("nothing goes through"));
                }
                drop(tx.execute($unblock).await);
                tx.rollback().await.expect("rollback");
                errors
            }

            const VIEW: &'static str = $view;
            const CHANGED_BYTES: &'static str = $changed;
        }
    };
}
// A failed statement aborts a transaction of PostgreSQL: it answers nothing any more.
shop!(
    TestDatabase,
    "select 1/0",
    "",
    "select count(v::text) from posthaste.event_status v",
    "'\\x79'::bytea"
);
shop!(
    SqliteDatabase,
    "pragma query_only = on",
    "pragma query_only = off",
    "select count(length(payload) + length(coalesce(headers, ''))) from posthaste_event_status",
    "x'79'"
);

type Arrived = Arc<Mutex<HashMap<EventId, Vec<Arc<Event>>>>>;

/// What became of all cases.
#[derive(Debug, Default)]
struct Tally {
    pages: i64,
    arrived: usize,
    waiting: usize,
    refused: usize,
    duplicates: usize,
}

struct Trial<D> {
    db: D,
    arrived: Arrived,
    tally: Mutex<Tally>,
}

fn subscription() -> Subscription {
    quick("all").order(Order::None).settings(|s| s.batch_size = 500)
}

fn recorder(arrived: &Arrived) -> impl posthaste::Handler + use<> {
    let arrived = arrived.clone();
    move |event: Arc<Event>| {
        arrived.lock().expect("no panic").entry(event.id).or_default().push(event.clone());
        async {}
    }
}

impl<D: Shop> Trial<D> {
    async fn prepare() -> Self {
        let db = D::fresh().await;
        db.run("create table orders (n integer)").await;
        Self { db, arrived: Arc::default(), tally: Mutex::default() }
    }

    /// One transaction with all of these, and what must come of it.
    async fn page(&self, hostiles: Vec<Hostile>) -> std::result::Result<(), String> {
        let (mut good, mut bad, mut unbuilt) = (Vec::new(), Vec::new(), 0);
        for hostile in hostiles {
            match hostile.build().map(|event| (event.validate(&Limits::default()), event)) {
                Ok((Ok(()), event)) => good.push((hostile, event)),
                Ok((Err(reason), event)) => bad.push((event, reason)),
                Err(_) => unbuilt += 1,
            }
        }
        self.tally.lock().expect("no panic").refused += unbuilt + bad.len();
        self.refuses_without_sql(&bad).await?;
        let mut wanted = self.sells(good, bad).await?;
        self.deliver(&mut wanted).await
    }

    /// The refusal of each is the same where every statement would fail.
    async fn refuses_without_sql(&self, bad: &[(NewEvent, InvalidEvent)]) -> std::result::Result<(), String> {
        let errors = self.db.on_a_dead_end(bad.iter().map(|(event, _)| event.clone()).collect()).await;
        match errors.iter().zip(bad).find(|(error, (_, reason))| !is_refusal(error, reason)) {
            Some((error, (event, _))) => Err(format!("{event:?} was not refused before SQL: {error}")),
            None => Ok(()),
        }
    }

    /// Refused ones one by one, good ones one by one and many at a time, and a good one with a bad one: neither counts.
    async fn sells(
        &self,
        good: Vec<(Hostile, NewEvent)>,
        bad: Vec<(NewEvent, InvalidEvent)>,
    ) -> std::result::Result<HashMap<EventId, Hostile>, String> {
        let (alone, together): (Vec<_>, Vec<_>) =
            good.into_iter().enumerate().partition(|(n, _)| n % 10 == 0);
        let alone: Vec<_> = alone.into_iter().map(|(_, pair)| pair).collect();
        let together: Vec<_> = together.into_iter().map(|(_, pair)| pair).collect();
        let mut calls: Vec<Vec<NewEvent>> = bad.iter().map(|(event, _)| vec![event.clone()]).collect();
        if let (Some((_, one)), Some((other, _))) = (alone.first(), bad.first()) {
            calls.push(vec![one.clone(), other.clone()]);
        }
        let refused = calls.len();
        calls.extend(alone.iter().map(|(_, event)| vec![event.clone()]));
        calls.push(together.iter().map(|(_, event)| event.clone()).collect());
        let mut answers = self.db.sell(calls).await;
        self.db.posthaste().wake();
        self.tally.lock().expect("no panic").pages += 1;
        if let Some(answer) =
            answers.drain(..refused).find(|answer| !matches!(answer, Err(Error::InvalidEvent(_))))
        {
            return Err(format!("a bad event got the answer {answer:?}"));
        }
        let mut enqueued = Vec::new();
        for answer in answers {
            enqueued.extend(
                answer.map_err(|error| format!("a good event was refused by the database: {error}"))?,
            );
        }
        let asked = alone.into_iter().chain(together).map(|(hostile, _)| hostile);
        let (fresh, duplicates): (Vec<_>, Vec<_>) =
            enqueued.into_iter().zip(asked).partition(|(enqueued, _)| !enqueued.duplicate);
        self.tally.lock().expect("no panic").duplicates += duplicates.len();
        match duplicates.into_iter().find(|(_, hostile)| hostile.dedupe.is_none()) {
            Some((_, hostile)) => Err(format!("a duplicate without a dedupe key: {hostile:?}")),
            None => Ok(fresh.into_iter().map(|(enqueued, hostile)| (enqueued.id, hostile)).collect()),
        }
    }

    async fn deliver(&self, wanted: &mut HashMap<EventId, Hostile>) -> std::result::Result<(), String> {
        let (due, later): (HashMap<_, _>, HashMap<_, _>) =
            wanted.drain().partition(|(_, hostile)| hostile.is_due());
        for (id, hostile) in &later {
            let stored = self.db.posthaste().admin().event(*id).await.map_err(|error| error.to_string())?;
            self.compare(hostile, &stored.event)?;
        }
        let deadline = Instant::now() + PATIENCE;
        while due.keys().any(|id| !self.arrived.lock().expect("no panic").contains_key(id)) {
            if Instant::now() > deadline {
                return Err("an event was not delivered".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for (id, hostile) in &due {
            let copies = self.arrived.lock().expect("no panic").remove(id).unwrap_or_default();
            copies.iter().try_for_each(|copy| self.compare(hostile, copy))?;
        }
        let mut tally = self.tally.lock().expect("no panic");
        tally.arrived += due.len();
        tally.waiting += later.len();
        Ok(())
    }

    fn compare(&self, hostile: &Hostile, event: &Event) -> std::result::Result<(), String> {
        hostile
            .difference(event)
            .map_or(Ok(()), |what| Err(format!("the {what} of {hostile:?} is {event:?}")))
    }

    /// What stands after all pages: the producer's rows are all there, and people can read what was stored.
    async fn end(&self, name: &str) {
        let tally = std::mem::take(&mut *self.tally.lock().expect("no panic"));
        let Tally { pages, arrived, waiting, refused, duplicates } = tally;
        assert_eq!(self.db.scalar("select count(*) from orders").await, 2 * pages, "a transaction was lost");
        let shown = self.db.scalar(D::VIEW).await;
        assert!(
            shown >= i64::try_from(waiting).expect("few"),
            "{shown} of {waiting} can be read in the view"
        );
        println!(
            "{name}: {} events, {arrived} delivered as they were, {waiting} stored as they were, {refused} refused, \
             {duplicates} enqueued before; {pages} transactions committed",
            arrived + waiting + refused + duplicates,
        );
        assert!(arrived > cases() / 10 && refused > cases() / 20, "the cases are too much alike: {tally:?}");
    }
}

fn is_refusal(error: &Error, reason: &InvalidEvent) -> bool {
    matches!(error, Error::InvalidEvent(found) if found == reason)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn hostile_events_arrive_as_they_are_or_are_refused<D: Shop>(name: &str) {
    let runtime = runtime();
    let trial = runtime.block_on(Trial::<D>::prepare());
    let handler = recorder(&trial.arrived);
    let posthaste = trial.db.posthaste();
    let started = runtime.block_on(async { posthaste.handler(subscription(), handler).start().await });
    let worker = started.expect("a worker");
    let pages = u32::try_from(cases() / PAGE).expect("few");
    // A page has half as many on average as it may have at most.
    let config =
        Config { cases: pages, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new(config)
        .run(&prop::collection::vec(hostile(), 1..2 * PAGE + 10), |hostiles| {
            runtime.block_on(trial.page(hostiles)).map_err(TestCaseError::fail)
        });
    found.unwrap_or_else(|error| panic!("{name}: {error}"));
    runtime.block_on(async {
        worker.stop().await;
        trial.end(name).await;
    });
}

#[test]
fn hostile_events_arrive_as_they_are_or_are_refused_on_postgres() {
    hostile_events_arrive_as_they_are_or_are_refused::<TestDatabase>("postgres");
}

#[test]
fn hostile_events_arrive_as_they_are_or_are_refused_on_sqlite() {
    hostile_events_arrive_as_they_are_or_are_refused::<SqliteDatabase>("sqlite");
}

on_every_database!(
    ten_mebibytes_and_nothing_at_all_arrive_where_the_limit_allows,
    times_out_of_reach_abort_no_transaction,
    the_comparison_sees_a_changed_event_and_a_refusal_by_the_database,
);

/// An endless delay once aborted the producer's transaction: PostgreSQL's clock does not reach so far.
async fn times_out_of_reach_abort_no_transaction<D: Shop>() {
    let trial = Trial::<D>::prepare().await;
    let event = |change: fn(NewEvent) -> NewEvent| vec![change(NewEvent::bytes("t", "x"))];
    let calls = vec![
        event(|event| event.delay(Duration::MAX)),
        event(|event| event.dedupe_key("k").dedupe_for(Duration::MAX)),
        event(|event| event.available_at(DateTime::<Utc>::MAX_UTC)),
        event(|event| event.available_at(DateTime::<Utc>::MIN_UTC)),
    ];
    let answers = trial.db.sell(calls).await;
    assert!(answers[..3].iter().all(|answer| answer.is_ok()), "{answers:?}");
    assert!(matches!(answers[3], Err(Error::InvalidEvent(InvalidEvent::TooEarly { .. }))), "{answers:?}");
    let for_ever = RetentionPolicy::new(|policy| {
        (policy.events_older_than, policy.journal_older_than) = (Duration::MAX, Duration::MAX);
        policy.operations_older_than = Duration::MAX;
    });
    assert_eq!(trial.db.posthaste().admin().retain(&for_ever).await.expect("all is kept").events, 0);
}

async fn ten_mebibytes_and_nothing_at_all_arrive_where_the_limit_allows<D: Shop>() {
    let trial = Trial::<D>::prepare().await;
    let allowing =
        |posthaste: &Posthaste| posthaste.clone().with_limits(|limits| limits.max_payload = 16 << 20);
    let posthaste = allowing(trial.db.posthaste());
    let worker = posthaste.handler(subscription(), recorder(&trial.arrived)).start().await.expect("a worker");
    let bytes: Vec<u8> = (0..10_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bodies =
        [Hostile::plain("large", &bytes), Hostile::plain("empty", b""), Hostile::plain("large", &bytes)];
    let mut wanted = HashMap::new();
    for hostile in bodies {
        let event = hostile.build().expect("it is valid");
        let answer = trial.db.enqueue_with(&posthaste, vec![event]).await.expect("it is within the limit");
        wanted.insert(answer[0].id, hostile);
    }
    posthaste.wake();
    trial.deliver(&mut wanted).await.expect("they arrive");
    worker.stop().await;
}

async fn the_comparison_sees_a_changed_event_and_a_refusal_by_the_database<D: Shop>() {
    let trial = Trial::<D>::prepare().await;
    let changes = [
        "payload = topic_bytes",
        "headers = '{\"a\": \"2\"}'",
        "content_type = 'text/html'",
        "key = 'other'",
    ];
    let mut seen = 0;
    for change in changes {
        let mut hostile = Hostile::plain("t", b"x");
        (hostile.headers, hostile.key) = (vec![("a".to_owned(), b"1".to_vec())], Some("k".to_owned()));
        let id = trial.db.commit(vec![hostile.build().expect("valid")]).await.remove(0).id;
        let change = change.replace("topic_bytes", D::CHANGED_BYTES);
        trial.db.run(&format!("update posthaste.events set {change}")).await;
        let stored = trial.db.posthaste().admin().event(id).await.expect("it is there").event;
        seen += usize::from(hostile.difference(&stored).is_some());
    }
    println!("control, an event changed in the database: seen {seen} of {}", changes.len());
    assert_eq!(seen, changes.len());
    let good = Hostile::plain("t", b"x").build().expect("valid");
    let [error] = &trial.db.on_a_dead_end(vec![good]).await[..] else { panic!("one answer") };
    println!("control, an event that is refused by the database: {error}");
    assert!(!matches!(error, Error::InvalidEvent(_)), "{error}");
}
