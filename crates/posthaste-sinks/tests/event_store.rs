//! The sink suite on an event store in PostgreSQL, and what PostgreSQL in particular can say.
#![cfg(feature = "event-store")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::DateTime;
use posthaste::{NewEvent, Outcome, Page, Sink, Start, Subscription};
use posthaste_sinks::event_store::{EventStoreSettings, EventStoreSink};
use posthaste_sinks::{Endpoint, Envelope, Form, Problems, Route, Section, Surroundings};
use posthaste_testkit::sink_suite::{Received, SinkBench};
use posthaste_testkit::{Gate, TestDatabase, servers};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool, Row};

struct Store {
    db: TestDatabase,
    gate: Arc<Gate>,
    server: String,
}

impl Store {
    /// The address through the gate, for this user.
    fn url(&self, user: &str) -> String {
        let database = self.db.options.get_database().expect("a database");
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.gate.port())
    }

    fn with(&self, envelope: Envelope, more: Value) -> EventStoreSink {
        let mut fields = json!({ "url": self.url("postgres"), "timeout": "5s" });
        fields.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        open(&fields, Route::new("s").envelope(envelope))
    }

    fn plain(&self, more: Value) -> EventStoreSink {
        self.with(Envelope::default(), more)
    }

    async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&self.db.pool)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// The bodies in the order of their positions.
    async fn texts(&self) -> Vec<String> {
        let bodies = self.received().await.into_iter().map(|message| message.body);
        bodies.map(|body| String::from_utf8(body).expect("text")).collect()
    }
}

fn open(fields: &Value, route: Route) -> EventStoreSink {
    let (problems, surroundings) = (Problems::default(), Surroundings::default());
    let section = Section::new("sink", fields.as_object().expect("a table"), &problems, &surroundings);
    let settings = EventStoreSettings::validate(&section);
    section.finish();
    let settings = settings.unwrap_or_else(|| panic!("{:?}", problems.into_vec()));
    EventStoreSink::new(settings, route).expect("a sink")
}

#[async_trait]
impl SinkBench for Store {
    const NAME: &'static str = "event_store";
    const ATTRIBUTES: Option<&'static str> = None;

    async fn start() -> Result<Self, String> {
        if std::env::var_os("POSTHASTE_TEST_POSTGRES").is_none() {
            return Err("no PostgreSQL; run `cargo xtask test` (Debian: postgresql)".to_owned());
        }
        let db = TestDatabase::empty_on(&servers()[0]).await;
        let gate = Gate::before(db.options.get_port()).await;
        let version: String =
            sqlx::query_scalar("show server_version").fetch_one(&db.pool).await.expect("ask");
        Ok(Self { db, gate, server: format!("PostgreSQL {version}") })
    }

    fn server(&self) -> String {
        self.server.clone()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.plain(json!({})))
    }

    fn structured(&self) -> Arc<dyn Sink> {
        Arc::new(self.with(Envelope::new(Form::Structured), json!({})))
    }

    async fn received(&self) -> Vec<Received> {
        let exists: bool = sqlx::query_scalar("select to_regclass('event_store') is not null")
            .fetch_one(&self.db.pool)
            .await
            .expect("ask");
        if !exists {
            return Vec::new();
        }
        let rows = sqlx::query("select id, key, payload, headers from event_store order by position");
        let rows = rows.fetch_all(&self.db.pool).await.expect("read");
        rows.iter()
            .map(|row| Received {
                id: row.get::<uuid::Uuid, _>("id").to_string(),
                key: row.get("key"),
                body: row.get("payload"),
                headers: row.get::<sqlx::types::Json<BTreeMap<String, String>>, _>("headers").0,
            })
            .collect()
    }

    /// The server is shared with other tests, so the way to it is taken away.
    async fn take_away(&self) {
        self.gate.shut().await;
    }

    async fn bring_back(&self) {
        self.gate.open().await;
    }

    fn too_large(&self) -> Option<usize> {
        None
    }

    /// The test server asks nobody for a password; a user that does not exist is refused all the same.
    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(Arc::new(open(&json!({ "url": self.url("nobody_we_know") }), Route::new("s"))))
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(Arc::new(self.plain(json!({ "table": "no_such_table", "create_table": false }))))
    }
}

posthaste_testkit::sink_suite!(Store);

/// Events with these bodies; the key is what stands before the first `-`.
fn page(bodies: &[&str]) -> Page {
    let event = |(seq, body): (usize, &&str)| {
        let key = body.split('-').next().unwrap_or_default();
        let new = NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key);
        Arc::new(new.stored(i64::try_from(seq).expect("small"), DateTime::UNIX_EPOCH))
    };
    Page::new(bodies.iter().enumerate().map(event).collect())
}

fn again(page: &Page) -> Page {
    page.select(&(0..page.events().len()).collect::<Vec<_>>())
}

/// What became of each event, in one word.
fn words(page: &Page) -> Vec<&'static str> {
    let word = |index| match page.outcome(index) {
        Some(Outcome::Delivered) => "delivered",
        Some(Outcome::Retry { .. }) => "retry",
        Some(Outcome::Dead { .. }) => "dead",
        Some(Outcome::Unavailable { .. }) => "unavailable",
        _ => "unmarked",
    };
    (0..page.events().len()).map(word).collect()
}

fn reason(page: &Page, index: usize) -> String {
    match page.outcome(index) {
        Some(Outcome::Dead { reason } | Outcome::Unavailable { reason } | Outcome::Retry { reason, .. }) => {
            reason.clone()
        }
        other => panic!("{other:?} has no reason"),
    }
}

async fn store() -> Option<Store> {
    posthaste_testkit::sink_suite::bench::<Store>().await
}

#[tokio::test]
async fn an_event_that_comes_twice_is_stored_once_and_delivered_twice() {
    let Some(store) = store().await else { return };
    let (sink, mut first) = (store.plain(json!({})), page(&["a-1", "b-1", "a-2"]));
    let mut second = again(&first);
    sink.deliver(&mut first).await;
    sink.deliver(&mut second).await;
    assert_eq!((words(&first), words(&second)), (vec!["delivered"; 3], vec!["delivered"; 3]));
    assert_eq!(store.texts().await, ["a-1", "b-1", "a-2"]);
}

#[tokio::test]
async fn every_field_has_its_column() {
    let Some(store) = store().await else { return };
    let tenant = uuid::Uuid::from_u128(7);
    let event = NewEvent::bytes("orders", "{\"n\":1}").namespace("shop").content_type("application/json");
    let event =
        event.event_type("order.created").aggregate("order", "o-1").key("k").tenant(tenant).header("A", "b");
    let event = Arc::new(event.stored(1, DateTime::from_timestamp(1_700_000_000, 5000).expect("a time")));
    let columns = async |sink: EventStoreSink, table: &str| -> Value {
        let mut page = Page::new(vec![event.clone()]);
        sink.deliver(&mut page).await;
        assert_eq!(words(&page), ["delivered"], "{:?}", page.outcome(0));
        let sql = format!(
            "select to_jsonb(e) - 'payload' - 'stored_at' || jsonb_build_object('payload', convert_from(payload, 'UTF8')) from {table} e"
        );
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&store.db.pool).await.expect("one row")
    };
    let row = columns(store.plain(json!({})), "event_store").await;
    let expected = json!({ "id": event.id, "position": 1, "namespace": "shop", "topic": "orders", "event_type": "order.created",
        "key": "k", "aggregate_type": "order", "aggregate_id": "o-1", "tenant_id": tenant, "content_type": "application/json",
        "headers": { "a": "b" }, "created_at": row["created_at"], "payload": "{\"n\":1}" });
    assert_eq!(row, expected);
    assert!(
        row["created_at"].as_str().is_some_and(|at| at.starts_with("2023-11-14T22:13:20.000005")),
        "{row}"
    );
    store.run("create schema archive").await;
    let structured = store.with(Envelope::new(Form::Structured), json!({ "table": "archive.events" }));
    let row = columns(structured, "archive.events").await;
    assert_eq!(row["content_type"], "application/cloudevents+json; charset=UTF-8");
    let body: Value = serde_json::from_str(row["payload"].as_str().expect("text")).expect("JSON");
    assert_eq!((&body["id"], &body["data"]), (&json!(event.id), &json!({ "n": 1 })));
}

#[tokio::test]
async fn a_refused_row_is_found_and_the_rest_of_the_page_is_stored() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    store.run("alter table event_store add constraint short check (length(payload) < 10)").await;
    let mut mixed = page(&["a-1", "b-1", "a-very long", "c-1", "a-3", "b-2", "c-very long", "c-2", "d-1"]);
    sink.deliver(&mut mixed).await;
    let expected = [
        "delivered",
        "delivered",
        "dead",
        "delivered",
        "unmarked",
        "delivered",
        "dead",
        "unmarked",
        "delivered",
    ];
    assert_eq!(words(&mixed), expected);
    assert!(reason(&mixed, 2).contains("violates check constraint \"short\""), "{}", reason(&mixed, 2));
    assert_eq!(store.texts().await, ["z-0", "a-1", "b-1", "c-1", "b-2", "d-1"]);
}

#[tokio::test]
async fn what_the_server_refuses_of_one_row_is_dead() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    // Enqueue refuses NUL in texts; if a log had one all the same, only that event suffers.
    let mut with_nul = Page::new(vec![
        Arc::new(NewEvent::bytes("orders", "x").key("a\0b").stored(1, DateTime::UNIX_EPOCH)),
        Arc::new(NewEvent::bytes("orders", "x").header("h", "a\0b").stored(2, DateTime::UNIX_EPOCH)),
        Arc::new(NewEvent::bytes("orders", "fine").stored(3, DateTime::UNIX_EPOCH)),
    ]);
    sink.deliver(&mut with_nul).await;
    assert_eq!(words(&with_nul), ["dead", "dead", "delivered"]);
    store
        .run(
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$;
             create trigger refuse before insert on event_store for each row when (new.key = 'r') execute function refuse()",
        )
        .await;
    let mut raised = page(&["r-1", "s-1"]);
    sink.deliver(&mut raised).await;
    assert_eq!(
        (words(&raised), reason(&raised, 0).as_str()),
        (vec!["dead", "delivered"], "not this one (P0001)")
    );
}

#[tokio::test]
async fn a_deadlock_or_a_serialization_failure_is_tried_again() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    for code in ["40001", "40P01"] {
        store
            .run(&format!(
                "create or replace function refuse() returns trigger language plpgsql as
                 $$ begin raise exception 'again' using errcode = '{code}'; end $$;
                 create or replace trigger refuse before insert on event_store for each row execute function refuse()"
            ))
            .await;
        let mut refused = page(&["a-1", "a-2", "b-1"]);
        sink.deliver(&mut refused).await;
        assert_eq!(words(&refused), ["retry", "unmarked", "retry"], "{code}");
    }
}

/// A trigger that runs this for the events whose body fits the pattern.
async fn trigger(store: &Store, pattern: &str, action: &str) {
    let sql = format!(
        "create or replace function act() returns trigger language plpgsql as $$ begin {action}; return new; end $$;
         create or replace trigger act before insert on event_store for each row
         when (convert_from(new.payload, 'UTF8') like '{pattern}') execute function act()"
    );
    store.run(&sql).await;
}

/// The classes 42 and XX sound as if the whole table were wrong, and any function may raise them.
#[tokio::test]
async fn what_a_trigger_raises_for_one_row_is_about_that_row() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    for code in ["42501", "42883", "42P01", "XX000", "P0004", "55000", "SHOP1"] {
        trigger(&store, "r-%", &format!("raise exception 'not this one' using errcode = '{code}'")).await;
        let mut mixed = page(&["a-1", "r-1", "b-1", "r-2", "c-1"]);
        sink.deliver(&mut mixed).await;
        assert_eq!(words(&mixed), ["delivered", "retry", "delivered", "unmarked", "delivered"], "{code}");
        assert!(reason(&mixed, 1).starts_with(&format!("not this one ({code})")), "{}", reason(&mixed, 1));
        let mut alone = page(&["r-1"]);
        sink.deliver(&mut alone).await;
        assert_eq!(words(&alone), ["retry"], "{code}: nothing else waits for it");
    }
}

#[tokio::test]
async fn what_a_trigger_raises_for_every_row_costs_one_attempt() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    trigger(&store, "%", "perform no_such_function()").await;
    let mut refused = page(&["a-1", "b-1", "c-1", "d-1"]);
    sink.deliver(&mut refused).await;
    assert_eq!(words(&refused), ["retry", "unavailable", "unavailable", "unavailable"]);
    for _ in 0..5 {
        let mut probe = page(&["b-1"]);
        sink.deliver(&mut probe).await;
        assert_eq!(words(&probe), ["unavailable"]);
        assert!(reason(&probe, 0).contains("no_such_function"), "{}", reason(&probe, 0));
        assert!(reason(&probe, 0).contains("nor is anything else accepted since"), "{}", reason(&probe, 0));
    }
    sink.check().await.expect("the table itself is right");
}

/// A row that keeps the server busy for ever holds up neither the others nor the subscription, and ends dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_never_ends_is_retried_until_it_is_dead_and_the_others_arrive() {
    let Some(store) = store().await else { return };
    store.plain(json!({})).deliver(&mut page(&["z-0"])).await;
    let sink = store.plain(json!({ "timeout": "5s" }));
    trigger(&store, "slow", "perform pg_sleep(1000)").await;
    let log = posthaste_testkit::SqliteDatabase::new().await;
    let mut bodies: Vec<String> = (0..40).map(|n| format!("fast {n}")).collect();
    bodies[17] = "slow".to_owned();
    let events =
        bodies.iter().map(|body| NewEvent::bytes("orders", body.clone()).key(body)).collect::<Vec<_>>();
    let mut tx = log.pool.begin_with("begin immediate").await.expect("begin");
    log.posthaste.enqueue_many(&mut *tx, events).await.expect("enqueue");
    tx.commit().await.expect("commit");
    let subscription = Subscription::new("s").expect("a name").start(Start::Beginning);
    let subscription = subscription.settings(|settings| {
        settings.max_attempts = 2;
        settings.base_delay = Duration::from_millis(10);
    });
    let worker = log.posthaste.sink(subscription, Arc::new(sink)).start().await.expect("start");
    let deadline = Instant::now() + Duration::from_secs(120);
    while worker.counters().dead() == 0 || worker.counters().delivered() < 39 {
        assert!(Instant::now() < deadline, "{:?}", worker.counters());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counters = worker.counters().clone();
    worker.stop().await;
    assert_eq!((counters.delivered(), counters.dead(), counters.retried()), (39, 1, 1));
    let mut stored = store.texts().await;
    stored.retain(|body| body.starts_with("fast"));
    bodies.retain(|body| body != "slow");
    assert_eq!(stored, bodies);
}

#[tokio::test]
async fn rows_that_all_take_too_long_cost_one_attempt() {
    let Some(store) = store().await else { return };
    store.plain(json!({})).deliver(&mut page(&["z-0"])).await;
    let sink = store.plain(json!({ "timeout": "4s" }));
    trigger(&store, "%", "perform pg_sleep(1000)").await;
    let mut late = page(&["a-1", "b-1", "c-1", "d-1"]);
    sink.deliver(&mut late).await;
    assert_eq!(words(&late), ["retry", "unavailable", "unavailable", "unavailable"]);
    assert!(reason(&late, 3).contains("not sent"), "{}", reason(&late, 3));
}

/// Three seconds for a group and as many for a check: nothing more is started in the eight of the page.
#[tokio::test]
async fn what_the_time_of_the_page_does_not_hold_is_not_started() {
    let Some(store) = store().await else { return };
    let mut route = Route::new("s");
    route.page_time = Duration::from_secs(8);
    let sink = open(&json!({ "url": store.url("postgres"), "timeout": "3s" }), route);
    store.plain(json!({})).deliver(&mut page(&["z-0"])).await;
    trigger(&store, "s-%", "perform pg_sleep(1000)").await;
    let mut late = page(&["a-1", "s-1", "b-1"]);
    sink.deliver(&mut late).await;
    assert_eq!(words(&late), ["unavailable"; 3]);
    assert!(reason(&late, 0).contains("the time of this page is over"), "{}", reason(&late, 0));
    // The engine tries one event now.
    for (body, word) in [("a-1", "delivered"), ("s-1", "retry"), ("b-1", "delivered")] {
        let mut probe = page(&[body]);
        sink.deliver(&mut probe).await;
        assert_eq!(words(&probe), [word], "{body}: {:?}", probe.outcome(0));
    }
}

/// Everything that is wrong with the server or with our rights: nothing is dead, and it goes on when it was put right.
#[tokio::test]
async fn what_is_wrong_with_the_server_is_waited_for() {
    let Some(store) = store().await else { return };
    let database = store.db.options.get_database().expect("a database").to_owned();
    let role = format!("r_{database}");
    store.plain(json!({})).deliver(&mut page(&["z-0"])).await;
    store.run(&format!("create role {role} login")).await;
    let cases = [
        (
            String::new(),
            "permission denied",
            format!(
                "grant insert, select on event_store to {role}; grant usage on sequence event_store_position_seq to {role}"
            ),
        ),
        (
            format!("revoke usage on sequence event_store_position_seq from {role}"),
            "permission denied for sequence",
            format!("grant usage on sequence event_store_position_seq to {role}"),
        ),
        (
            format!("alter role {role} set default_transaction_read_only = on"),
            "read-only",
            format!("alter role {role} reset default_transaction_read_only"),
        ),
        (
            format!("alter role {role} connection limit 0"),
            "too many connections",
            format!("alter role {role} connection limit -1"),
        ),
        (format!("alter role {role} nologin"), "not permitted to log in", format!("alter role {role} login")),
    ];
    for (harm, expected, remedy) in &cases {
        store.run(harm).await;
        let sink = open(&json!({ "url": store.url(&role), "timeout": "5s" }), Route::new("s"));
        let mut refused = page(&["a-1", "b-1"]);
        sink.deliver(&mut refused).await;
        assert_eq!(words(&refused), ["unavailable", "unavailable"], "{expected}");
        assert!(reason(&refused, 0).contains(expected), "{}", reason(&refused, 0));
        let check = sink.check().await.expect_err("the health check says so");
        assert!(!check.is_empty() && check.starts_with("event_store event_store in test_"), "{check}");
        store.run(remedy).await;
        let mut accepted = again(&refused);
        sink.deliver(&mut accepted).await;
        assert_eq!(words(&accepted), ["delivered"; 2], "{expected}: {:?}", accepted.outcome(0));
        sink.check().await.expect("the health check is content");
    }
    store.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn a_missing_table_schema_or_database_is_named_with_the_remedy() {
    let Some(store) = store().await else { return };
    let said = async |sink: EventStoreSink| {
        let mut page = page(&["a-1"]);
        sink.deliver(&mut page).await;
        assert_eq!(words(&page), ["unavailable"]);
        reason(&page, 0)
    };
    let table = said(store.plain(json!({ "table": "absent", "create_table": false }))).await;
    assert!(table.contains("create absent as in") && table.contains("create_table = true"), "{table}");
    let schema = said(store.plain(json!({ "table": "absent.events" }))).await;
    assert!(schema.contains("create the schema absent first"), "{schema}");
    store.run("create table other (id uuid primary key)").await;
    let columns = said(store.plain(json!({ "table": "other" }))).await;
    assert!(columns.contains("must have the columns"), "{columns}");
    let url = format!("postgres://postgres@127.0.0.1:{}/no_such_database", store.gate.port());
    let database = said(open(&json!({ "url": url }), Route::new("s"))).await;
    assert!(database.contains("does not exist (3D000)"), "{database}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_away_and_no_connection_is_stuck() {
    let Some(store) = store().await else { return };
    store.plain(json!({})).deliver(&mut page(&["z-0"])).await;
    let sink = store.plain(json!({ "timeout": "1s" }));
    let mut other = store.db.pool.begin().await.expect("begin");
    sqlx::query("lock table event_store in exclusive mode").execute(&mut *other).await.expect("lock");
    for _ in 0..3 {
        let mut late = page(&["a-1"]);
        sink.deliver(&mut late).await;
        assert_eq!(words(&late), ["unavailable"], "{:?}", late.outcome(0));
    }
    other.rollback().await.expect("let go");
    let mut in_time = page(&["a-1"]);
    sink.deliver(&mut in_time).await;
    assert_eq!(words(&in_time), ["delivered"], "{:?}", in_time.outcome(0));
}

#[tokio::test]
async fn a_session_that_is_ended_by_an_administrator_is_replaced() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'posthaste event_store' and datname = current_database()";
    let ended: i64 = sqlx::query_scalar(end).fetch_one(&store.db.pool).await.expect("ask");
    assert!(ended > 0);
    let mut page = page(&["a-1"]);
    sink.deliver(&mut page).await;
    if words(&page) != ["delivered"] {
        assert_eq!(words(&page), ["unavailable"]);
        page = again(&page);
        sink.deliver(&mut page).await;
    }
    assert_eq!(words(&page), ["delivered"]);
}

/// Two writers at once, also while the table is made; a reader that remembers the last position misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_become_visible_in_order() {
    let Some(store) = store().await else { return };
    let write = |name: &'static str| {
        let sink = store.plain(json!({ "timeout": "60s" }));
        tokio::spawn(async move {
            for n in 0..100 {
                let bodies: Vec<String> = (0..20).map(|place| format!("{name}-{n}-{place}")).collect();
                let mut page = page(&bodies.iter().map(String::as_str).collect::<Vec<_>>());
                sink.deliver(&mut page).await;
                assert_eq!(words(&page), ["delivered"; 20], "{:?}", page.outcome(0));
            }
        })
    };
    let writers = [write("a"), write("b")];
    let seen = follow(&store.db.pool, 4000).await;
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert_eq!(seen, store.texts().await, "nothing was passed over");
}

async fn follow(pool: &PgPool, count: usize) -> Vec<String> {
    let (mut last, mut seen) = (0_i64, Vec::new());
    while seen.len() < count {
        let next = sqlx::query(
            "select position, convert_from(payload, 'UTF8') from event_store where position > $1 order by position",
        );
        // At first there is no table.
        for row in next.bind(last).fetch_all(pool).await.unwrap_or_default() {
            last = row.get(0);
            seen.push(row.get(1));
        }
    }
    seen
}

#[tokio::test]
async fn what_is_risky_is_said() {
    let Some(store) = store().await else { return };
    let sink = store.plain(json!({}));
    sink.deliver(&mut page(&["z-0"])).await;
    let usual = sink.warnings().await;
    assert!(
        !usual.iter().any(|warning| warning.contains("unlogged") || warning.contains("synchronous_commit")),
        "{usual:?}"
    );
    let database = store.db.options.get_database().expect("a database");
    store.run("alter table event_store set unlogged").await;
    store.run(&format!("alter database {database} set synchronous_commit = off")).await;
    let risky = store.plain(json!({})).warnings().await;
    assert!(risky.iter().any(|warning| warning.contains("alter table event_store set logged")), "{risky:?}");
    assert!(risky.iter().any(|warning| warning.contains("synchronous_commit is off")), "{risky:?}");
    assert!(store.plain(json!({})).describe().starts_with("event_store event_store in test_"));
}
