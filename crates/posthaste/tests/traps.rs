//! The traps of reading a log by snapshots, and of waking up only on demand: each test fails without the rule it names.
//! Commit order itself is tried in `torture.rs`, idle polls in `idle.rs`.

use std::sync::Arc;
use std::time::Duration;

use posthaste::{ClaimBy, ErrorKind, Event, NewEvent, Order, Outcome, Start};
use posthaste_testkit::suite::{Backend, Script, assert_key, event, numbered, quick, until};
use posthaste_testkit::{Ledger, TestDatabase, servers};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use tokio::sync::Semaphore;

async fn databases() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

async fn doorbell(db: &TestDatabase) -> i64 {
    sqlx::query_scalar("select last_value from posthaste.doorbell").fetch_one(&db.pool).await.unwrap()
}

/// Waits until a worker sleeps: its sign is up, and the producers that may have missed it have ended.
async fn asleep(db: &TestDatabase) {
    until("the sign is up", async || doorbell(db).await > 0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// A role that exists for one test, as a connection that acts in it.
async fn acting_as(db: &TestDatabase, grant: &str) -> (PgConnection, String) {
    let role = format!("producer_{:08x}", fastrand::u32(..));
    let mut conn = PgConnection::connect_with(&db.options).await.unwrap();
    conn.execute(AssertSqlSafe(format!("create role {role}"))).await.unwrap();
    conn.execute(AssertSqlSafe(format!("select posthaste.{grant}('{role}')"))).await.unwrap();
    conn.execute(AssertSqlSafe(format!("set role {role}"))).await.unwrap();
    (conn, role)
}

async fn drop_role(mut conn: PgConnection, role: String) {
    conn.execute(AssertSqlSafe(format!("reset role; drop owned by {role}; drop role {role}"))).await.unwrap();
}

async fn assert_denied(conn: &mut PgConnection, statements: &[&'static str]) {
    for statement in statements {
        let denied = conn.execute(*statement).await.expect_err(statement);
        let code = denied.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
        // insufficient_privilege, or "cannot insert a non-DEFAULT value" into an identity column
        assert!(matches!(code.as_deref(), Some("42501" | "428C9")), "{statement}: {denied}");
    }
}

#[tokio::test]
async fn the_xid_is_drawn_before_the_seq() {
    for db in databases().await {
        let columns = sqlx::query(
            "select a.attname::text as name, a.attidentity::text as identity, \
             pg_get_expr(d.adbin, d.adrelid) as value from pg_attribute a \
             left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum \
             where a.attrelid = 'posthaste.events'::regclass and a.attnum in (1, 2) order by a.attnum",
        )
        .fetch_all(&db.pool)
        .await
        .unwrap();
        let text =
            |row: usize, column: &str| columns[row].get::<Option<String>, _>(column).unwrap_or_default();
        assert_eq!((text(0, "name"), text(0, "value")), ("xid".into(), "pg_current_xact_id()".into()));
        assert_eq!((text(1, "name"), text(1, "identity")), ("seq".into(), "a".into()), "always an identity");
        let cache: i64 = sqlx::query_scalar(
            "select seqcache from pg_sequence where seqrelid = 'posthaste.event_seq'::regclass",
        )
        .fetch_one(&db.pool)
        .await
        .unwrap();
        assert_eq!(cache, 1);
    }
}

#[tokio::test]
async fn a_producer_role_can_call_enqueue_and_nothing_else() {
    for db in databases().await {
        let (mut conn, role) = acting_as(&db, "grant_producer").await;
        let row = sqlx::query(
            "select id, duplicate from posthaste.enqueue(topic => 't', payload => '{}', dedupe_key => 'd')",
        )
        .fetch_one(&mut conn)
        .await
        .unwrap();
        assert!(!row.get::<bool, _>("duplicate"));
        assert_denied(
            &mut conn,
            &[
                "select * from posthaste.events",
                "select * from posthaste.dedupe_keys",
                "select * from posthaste.event_status",
                "select * from posthaste.subscriptions",
                "select last_value from posthaste.doorbell",
                "insert into posthaste.events (id, topic, payload) values (gen_random_uuid(), 't', '')",
                "delete from posthaste.events",
                "select nextval('posthaste.event_seq')",
                "select setval('posthaste.doorbell', 1)",
                "select posthaste.take_mark()",
                "select posthaste.ring()",
                "select posthaste.grant_producer(current_user)",
                "create table posthaste.mine (n int)",
            ],
        )
        .await;
        drop_role(conn, role).await;
        assert_eq!(db.count_events().await, 1);
    }
}

#[tokio::test]
async fn a_library_producer_can_enqueue_but_writes_neither_xid_nor_seq() {
    for db in databases().await {
        let (mut conn, role) = acting_as(&db, "grant_library_producer").await;
        db.posthaste.enqueue(&mut conn, event("k", "1").dedupe_key("d").header("a", "b")).await.unwrap();
        let many = vec![
            event("k", "2"),
            event("k", "3").dedupe_key("d"),
            event("k", "4").delay(Duration::from_secs(1)),
        ];
        let enqueued = db.posthaste.enqueue_many(&mut conn, many).await.unwrap();
        assert_eq!(enqueued.iter().filter(|enqueued| enqueued.duplicate).count(), 1);
        let brief = || event("k", "5").dedupe_key("brief").dedupe_for(Duration::from_millis(1));
        db.posthaste.enqueue(&mut conn, brief()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(
            !db.posthaste.enqueue(&mut conn, brief()).await.unwrap().duplicate,
            "it renews a key whose time is over"
        );
        assert_denied(&mut conn, &[
            "insert into posthaste.events (xid, id, topic, payload) values ('1', gen_random_uuid(), 't', '')",
            "insert into posthaste.events (seq, id, topic, payload) overriding system value \
             values (1, gen_random_uuid(), 't', '')",
            "insert into posthaste.events (seq, id, topic, payload) values (default, gen_random_uuid(), 't', '')",
            "insert into posthaste.events (created_at, id, topic, payload) values (now(), gen_random_uuid(), 't', '')",
            "select nextval('posthaste.event_seq')",
            "select setval('posthaste.event_seq', 1)",
            "select setval('posthaste.doorbell', 1)",
            "select setval('posthaste.next_ring', 1)",
            "select setval('posthaste.last_ring_seq', 1)",
            "select * from posthaste.events",
            "update posthaste.events set topic = 'x'",
            "delete from posthaste.dedupe_keys",
            "select posthaste.take_mark()",
        ])
        .await;
        drop_role(conn, role).await;
    }
}

#[tokio::test]
async fn a_mark_is_refused_to_a_transaction_that_has_an_xid_or_an_old_snapshot() {
    for db in databases().await {
        db.pool.execute("create table other (n int)").await.unwrap();
        db.pool.execute("insert into other values (1)").await.unwrap();
        for (isolation, first, allowed) in [
            ("begin", "select 1", true),
            ("begin", "insert into other values (2)", false),
            ("begin", "select * from other for update", false),
            ("begin", "select pg_current_xact_id()", false),
            ("begin isolation level repeatable read", "select 1", false),
            ("begin isolation level serializable", "select 1", false),
        ] {
            let mut tx = db.pool.begin_with(isolation).await.unwrap();
            tx.execute(first).await.unwrap();
            let marked = tx.execute("select posthaste.take_mark()").await;
            assert_eq!(marked.is_ok(), allowed, "{isolation}; {first}");
        }
    }
}

#[tokio::test]
async fn the_very_first_event_is_not_below_the_mark_of_an_untouched_sequence() {
    for db in databases().await {
        let script = Script::accepting();
        let subscription = quick("s").start(Start::Now);
        let worker = db.posthaste.handler(subscription, script.clone()).start().await.unwrap();
        db.commit(numbered("k", 2)).await;
        script.accepted.wait_for(2).await;
        worker.stop().await;
        assert_key(&script.accepted, "k", 2);
    }
}

#[tokio::test]
async fn a_start_at_a_place_reads_what_was_open_when_it_was_declared() {
    for db in databases().await {
        let mut early = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut early, event("k", "open")).await.unwrap();
        let place = db.commit(vec![event("k", "place")]).await[0].id;
        let mut workers = Vec::new();
        for (name, start) in
            [("now", Start::Now), ("event", Start::Event(place)), ("time", Start::Time(chrono::Utc::now()))]
        {
            let script = Script::accepting();
            let worker =
                db.posthaste.handler(quick(name).start(start), script.clone()).start().await.unwrap();
            workers.push((name, worker, script));
        }
        early.commit().await.unwrap();
        for (name, worker, script) in workers {
            let expected = if name == "event" { 2 } else { 1 };
            until("the late one arrives", async || {
                script.accepted.texts().contains(&"open".to_owned()) && script.accepted.len() >= expected
            })
            .await;
            worker.stop().await;
            assert_eq!(script.accepted.len(), expected, "{name}");
        }
    }
}

#[derive(Clone)]
struct Chain(posthaste::Posthaste);

impl Chain {
    async fn handle(&self, tx: &mut PgConnection, event: Arc<Event>) -> Outcome {
        let n: i32 = event.text().and_then(|text| text.parse().ok()).unwrap_or(0);
        // An early xid, and sometimes a failure after everything was written.
        sqlx::query("insert into effects values ($1)").bind(n).execute(&mut *tx).await.unwrap();
        if n < 30 {
            let next = NewEvent::bytes("chain", (n + 1).to_string()).key(format!("k{}", n % 3));
            self.0.enqueue(tx, next).await.unwrap();
        }
        match n % 5 {
            0 if fastrand::bool() => Outcome::retry("rolled back"),
            _ => Outcome::Delivered,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transactional_handler_that_enqueues_further_events_has_each_effect_once() {
    for db in databases().await {
        db.pool.execute("create table effects (n int)").await.unwrap();
        for order in [Order::Key, Order::None] {
            let subscription =
                quick(order.as_str()).order(order).start(Start::Now).settings(|s| s.max_attempts = 50);
            let chain = Chain(db.posthaste.clone());
            let worker = db
                .posthaste
                .transactional(subscription, move |tx, event| {
                    let chain = chain.clone();
                    Box::pin(async move { chain.handle(tx, event).await })
                })
                .unwrap()
                .start()
                .await
                .unwrap();
            db.commit(vec![NewEvent::bytes("chain", b"1".to_vec())]).await;
            let effects = async || -> Vec<i32> {
                sqlx::query_scalar("select n from effects order by n").fetch_all(&db.pool).await.unwrap()
            };
            until("the chain has come to its end", async || effects().await.contains(&30)).await;
            worker.stop().await;
            assert_eq!(effects().await, (1..=30).collect::<Vec<_>>());
            db.pool.execute("truncate effects").await.unwrap();
            assert_eq!(db.deliveries(order.as_str()).await, []);
        }
    }
}

#[tokio::test]
async fn open_and_prepared_transactions_of_others_stall_nobody() {
    for db in databases().await {
        let elsewhere = TestDatabase::on(&servers()[0]).await;
        for database in [&db, &elsewhere] {
            database.pool.execute("create table other (n int)").await.unwrap();
        }
        let mut unrelated = db.pool.begin().await.unwrap();
        unrelated.execute("insert into other values (1)").await.unwrap();
        let mut far = elsewhere.pool.begin().await.unwrap();
        far.execute("insert into other values (1)").await.unwrap();
        let mut snapshot = db.pool.begin_with("begin isolation level repeatable read").await.unwrap();
        snapshot.execute("select * from other").await.unwrap();
        let prepared = format!("stall_{:08x}", fastrand::u32(..));
        let mut two_phase = PgConnection::connect_with(&db.options).await.unwrap();
        two_phase.execute("begin; set local posthaste.ring = off").await.unwrap();
        db.posthaste.enqueue(&mut two_phase, event("k", "prepared")).await.unwrap();
        two_phase.execute(AssertSqlSafe(format!("prepare transaction '{prepared}'"))).await.unwrap();

        let script = Script::accepting();
        let worker = db.posthaste.handler(quick("s"), script.clone()).start().await.unwrap();
        for n in 1..=5 {
            db.commit(vec![event("k", &n.to_string())]).await;
            script.accepted.wait_for(n).await;
        }
        two_phase.execute(AssertSqlSafe(format!("commit prepared '{prepared}'"))).await.unwrap();
        script.accepted.wait_for(6).await;
        worker.stop().await;
        assert_eq!(script.accepted.texts(), ["1", "2", "3", "4", "5", "prepared"]);
        for open in [unrelated, far, snapshot] {
            open.rollback().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_producer_whose_snapshot_is_older_than_the_sign_still_rings() {
    for db in databases().await {
        let mut old = db.pool.begin_with("begin isolation level repeatable read").await.unwrap();
        old.execute("select * from posthaste.subscriptions").await.unwrap();
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.poll_interval = Duration::from_secs(600));
        let other = TestDatabase::another(&db).await;
        let worker = other.handler(patient, script.clone()).start().await.unwrap();
        asleep(&db).await;
        let mut listener = sqlx::postgres::PgListener::connect_with(&db.pool).await.unwrap();
        listener.listen("posthaste").await.unwrap();
        db.posthaste.enqueue(&mut old, event("k", "x")).await.unwrap();
        old.commit().await.unwrap();
        let ring = tokio::time::timeout(Duration::from_secs(7), listener.recv());
        ring.await.expect("it rings").unwrap();
        let arrival = tokio::time::timeout(Duration::from_secs(7), script.accepted.wait_for(1));
        arrival.await.expect("it rang");
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_producer_that_read_no_sign_is_found_although_it_does_not_ring() {
    for db in databases().await {
        // Enqueued while nobody sleeps; committed when the worker has gone to sleep.
        let mut early = db.pool.begin().await.unwrap();
        db.posthaste.enqueue(&mut early, event("k", "x")).await.unwrap();
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.poll_interval = Duration::from_secs(600));
        let worker = db.posthaste.handler(patient, script.clone()).start().await.unwrap();
        asleep(&db).await;
        early.commit().await.unwrap();
        let arrival = tokio::time::timeout(Duration::from_secs(7), script.accepted.wait_for(1));
        arrival.await.expect("the worker polls until every producer without a sign has ended");
        worker.stop().await;
    }
}

/// A worker that puts up its sign waits for the transactions it sees running, and without an xid none is seen.
#[tokio::test]
async fn the_sign_is_read_when_the_transaction_has_its_xid() {
    for db in databases().await {
        db.pool
            .execute(
                "create or replace function posthaste.ring_needed() returns boolean language plpgsql as $$ begin \
                 assert pg_current_xact_id_if_assigned() is not null, 'read too early'; \
                 perform nextval('public.sign_read'); return false; end $$; create sequence public.sign_read",
            )
            .await
            .unwrap();
        let early = db.pool.execute("select posthaste.ring_needed()").await;
        assert!(early.unwrap_err().to_string().contains("read too early"));
        db.commit(vec![event("k", "one")]).await;
        db.commit(vec![event("k", "one"), event("k", "of two")]).await;
        db.pool.execute("select posthaste.enqueue(topic => 'orders', payload => '{}')").await.unwrap();
        let read: i64 =
            sqlx::query_scalar("select last_value from public.sign_read").fetch_one(&db.pool).await.unwrap();
        assert_eq!(read, 3, "once each time");
    }
}

/// A commit that rings waits for every other one that does, disk included.
#[tokio::test]
async fn however_many_producers_there_are_they_ring_two_hundred_times_a_second_at_most() {
    for db in databases().await {
        let sleeper = quick("s").topic("nothing").settings(|s| s.poll_interval = Duration::from_secs(600));
        let worker = db.posthaste.handler(sleeper, Script::accepting()).start().await.unwrap();
        asleep(&db).await;
        let mut listener = sqlx::postgres::PgListener::connect_with(&db.pool).await.unwrap();
        listener.listen("posthaste").await.unwrap();
        // One after the other, each has its ring.
        for _ in 0..30 {
            db.commit(vec![event("k", "x")]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(rings(&db, &mut listener).await, 30);
        let produce = async || {
            for _ in 0..100 {
                db.commit(vec![event("k", "x")]).await;
            }
        };
        let start = std::time::Instant::now();
        produce().await;
        let alone = rings(&db, &mut listener).await;
        let most = most_rings(start, 5);
        assert!((1..=most).contains(&alone), "{alone} rings, at most {most}");
        // Many events at a time, and the rings are rarer.
        let start = std::time::Instant::now();
        for _ in 0..100 {
            db.commit(vec![event("k", "x"); 17]).await;
        }
        let many = rings(&db, &mut listener).await;
        let most = most_rings(start, 20);
        assert!((1..=most).contains(&many), "{many} rings, at most {most}");
        let start = std::time::Instant::now();
        tokio::join!(produce(), produce(), produce(), produce());
        // Those that look at the same moment see the same, and use up the 5 ms together. It is rare; twice as many is not.
        let together = rings(&db, &mut listener).await;
        let most = 2 * most_rings(start, 5);
        assert!((1..=most).contains(&together), "{together} rings, at most {most}");
        worker.stop().await;
    }
}

/// One for each time that a ring uses up, and those that may come at once; the clock is cut to milliseconds at both ends.
fn most_rings(start: std::time::Instant, used_up: u128) -> u128 {
    start.elapsed().as_millis() / used_up + 40 / used_up + 2
}

/// How often it was rung since somebody asked last.
async fn rings(db: &TestDatabase, listener: &mut sqlx::postgres::PgListener) -> u128 {
    db.pool.execute("select pg_notify('posthaste', 'the end')").await.unwrap();
    let mut rings = 0;
    while listener.recv().await.unwrap().payload().is_empty() {
        rings += 1;
    }
    rings
}

/// Who enqueues just after another one relies on that one's ring. It may come late, or never.
#[tokio::test]
async fn an_event_is_found_whose_producer_relied_on_a_ring_that_never_came() {
    for db in databases().await {
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.poll_interval = Duration::from_secs(600));
        let worker = db.posthaste.handler(patient, script.clone()).start().await.unwrap();
        asleep(&db).await;
        let mut quiet = db.pool.begin().await.unwrap();
        quiet.execute("set local posthaste.ring = off").await.unwrap();
        db.posthaste.enqueue(&mut quiet, event("k", "quiet")).await.unwrap();
        // Long enough that a worker which has looked once has given up.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        quiet.commit().await.unwrap();
        let arrival = tokio::time::timeout(Duration::from_secs(7), script.accepted.wait_for(1));
        arrival.await.expect("the log was seen to grow, and its producers are waited for");
        worker.stop().await;
    }
}

#[tokio::test]
async fn the_sign_stays_up_however_long_the_worker_sleeps() {
    let db = TestDatabase::new().await;
    let patient = quick("s").settings(|s| s.poll_interval = Duration::from_secs(600));
    let worker = db.posthaste.handler(patient, Script::accepting()).start().await.unwrap();
    asleep(&db).await;
    let first = doorbell(&db).await;
    until("it is put up anew before it comes down", async || doorbell(&db).await > first).await;
    let still_up: bool =
        sqlx::query_scalar("select posthaste.ring_needed()").fetch_one(&db.pool).await.unwrap();
    assert!(still_up);
    worker.stop().await;
}

#[tokio::test]
async fn a_database_from_another_cluster_is_not_delivered_from() {
    for db in databases().await {
        db.commit(vec![event("k", "x")]).await;
        db.pool.execute("update posthaste.meta set system_identifier = system_identifier + 1").await.unwrap();
        let refused = db.posthaste.handler(quick("s"), Script::accepting()).start().await;
        assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::NeedsOperator));
        let claims = db.posthaste.claims(&quick("s")).await;
        assert_eq!(claims.err().map(|error| error.kind()), Some(ErrorKind::NeedsOperator));
        db.commit(vec![event("k", "enqueue never fails for it")]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_lane_does_not_hold_on_to_its_deliveries() {
    for db in databases().await {
        // Pages so small that there is no room beside the event that hangs: it gets a row, and what waits for it as well.
        let subscription = quick("s").claim_by(ClaimBy::Event).settings(|s| {
            s.lease = Duration::from_millis(600);
            s.batch_size = 1;
        });
        let (started, script) = (Script::accepting(), Script::accepting());
        let handler = {
            let (attempts, script) = (started.attempts.clone(), script.clone());
            move |event: Arc<Event>| {
                let (hangs, script) = (attempts.is_empty(), script.clone());
                attempts.accept(&event);
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    script.attempt(&event)
                }
            }
        };
        let hanging = db.posthaste.handler(subscription.clone(), handler).grace(Duration::from_millis(50));
        let hanging = hanging.start().await.unwrap();
        db.commit(numbered("k", 3)).await;
        until("they have rows of their own", async || db.deliveries("s").await.len() == 3).await;
        // Somebody else takes the lane, as after a long pause of this process.
        db.pool
            .execute("update posthaste.lanes set token = gen_random_uuid(), locked_until = now() + interval '1 day'")
            .await
            .unwrap();
        db.commit(vec![event("other", "makes it look")]).await;
        let heir =
            TestDatabase::another(&db).await.handler(subscription, script.clone()).start().await.unwrap();
        script.accepted.wait_for(3).await;
        assert_key(&script.accepted, "k", 3);
        heir.stop().await;
        hanging.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_is_cut_off_with_its_lane_does_not_keep_the_receiver_away() {
    for db in databases().await {
        let (started, script) = (Script::accepting(), Script::accepting());
        let handler = {
            let (calls, script) = (started.attempts.clone(), script.clone());
            move |event: Arc<Event>| {
                let (call, script) = (calls.len(), script.clone());
                calls.accept(&event);
                async move {
                    match call {
                        0 | 1 => Outcome::unavailable("connection refused"),
                        2 => std::future::pending().await,
                        _ => script.attempt(&event),
                    }
                }
            }
        };
        let subscription = quick("s").settings(|s| {
            s.lease = Duration::from_millis(300);
            s.concurrency = 2;
        });
        let worker = db
            .posthaste
            .handler(subscription, handler)
            .grace(Duration::from_millis(50))
            .start()
            .await
            .unwrap();
        db.commit(vec![event("a", "a-00000"), event("b", "b-00000"), event("c", "c-00000")]).await;
        // Two find the receiver away, at the same time; then comes the probe, and hangs.
        started.attempts.wait_for(3).await;
        db.pool
            .execute(
                "with taken as (update posthaste.lanes set token = gen_random_uuid(), \
                 locked_until = now() + interval '1 s' returning token) \
                 update posthaste.batches b set token = taken.token from taken where b.finished_at is null",
            )
            .await
            .unwrap();
        until("all have arrived", async || script.accepted.len() >= 3).await;
        worker.stop().await;
    }
}

/// Order `none`: a worker whose lease ran out may claim its own batch again. What then fails under both leases is still
/// tried again, although the first of them has nothing to say any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_its_own_worker_claims_again_forgets_no_failure() {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let db = TestDatabase::new().await;
        let (fail, finish) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (begun, accepted) = (Ledger::default(), Ledger::default());
        let handler = {
            let (fail, finish, begun, accepted) =
                (fail.clone(), finish.clone(), begun.clone(), accepted.clone());
            move |event: Arc<Event>| {
                let (fail, finish, accepted) = (fail.clone(), finish.clone(), accepted.clone());
                let earlier = begun.texts().iter().filter(|text| Some(text.as_str()) == event.text()).count();
                begun.accept(&event);
                async move {
                    match event.text() {
                        Some("fails twice") if earlier < 2 => {
                            fail.acquire().await.unwrap().forget();
                            return Outcome::retry("not yet");
                        }
                        Some("waits") => finish.acquire().await.unwrap().forget(),
                        _ => {}
                    }
                    accepted.accept(&event);
                    Outcome::Delivered
                }
            }
        };
        let subscription = quick("s").order(Order::None).claim_by(claim_by);
        let worker = db.posthaste.handler(subscription, handler).start().await.unwrap();
        db.commit(vec![event("a", "waits"), event("b", "fails twice")]).await;
        begun.wait_for(2).await;
        // As if the database had been away for longer than the lease.
        db.pool
            .execute("update posthaste.batches set locked_until = now() - interval '1 second'")
            .await
            .unwrap();
        begun.wait_for(4).await;
        fail.add_permits(2);
        until("both failures are known", async || fail.available_permits() == 0).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        finish.add_permits(2);
        until("it was tried again", async || accepted.texts().contains(&"fails twice".to_owned())).await;
        worker.stop().await;
        assert!(db.deliveries("s").await.is_empty());
    }
}
