//! What claiming costs: no sequential scan on a log of a million events, and no more buffers when the log is ten times
//! longer or when a snapshot is held open while a hundred thousand events pass. Buffers are counted, not time.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use super::{store, urls};
use crate::id::{Token, WorkerName};
use crate::lease::{Holder, Lane, Reader};
use crate::store::postgres::PgStore;
use crate::store::postgres::window::NEAR;
use crate::store::{BatchRef, Cursor, Fresh, Store};
use crate::subscription::Subscription;

/// Tables so large that reading them whole is never right.
const LARGE: [&str; 4] = ["events", "deliveries", "batches", "dedupe_keys"];

struct Bench {
    store: PgStore,
    conn: PgConnection,
    reader: Reader,
    owner: Token,
    lane: Lane,
    holder: Holder,
}

impl Bench {
    async fn new() -> Self {
        let url = &urls()[0];
        let store = store(url).await;
        let mut conn = PgConnection::connect(url).await.unwrap();
        // What a long-lived worker runs with: plans that do not know the parameters.
        conn.execute("set plan_cache_mode = force_generic_plan").await.unwrap();
        let subscription = Subscription::new("plans").unwrap().settings(|s| s.batch_size = 500);
        let reader = store.declare(&subscription).await.unwrap();
        let holder = Holder { worker: WorkerName::unique(), lease: std::time::Duration::from_secs(600) };
        let claim = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
        for (name, text) in store.sql.all().into_iter().filter(|(name, _)| *name != "lock_batches") {
            conn.execute(AssertSqlSafe(format!("prepare {name} as {text}"))).await.unwrap();
        }
        Self { store, conn, reader, owner: claim.token, lane: claim.lane, holder }
    }

    fn schema(&self) -> String {
        self.store.schema.as_str().to_owned()
    }

    async fn run(&mut self, sql: &str) {
        let sql = sql.replace("{schema}", &self.schema());
        self.conn.execute(AssertSqlSafe(sql)).await.unwrap();
    }

    async fn grow(&mut self, events: u32) {
        // Many events a transaction, as far as their xids tell: all long past, also in a cluster that is new.
        self.run(&format!(
            "insert into {{schema}}.events (xid, id, topic, key, payload) \
             select (10 + n / 2000)::text::xid8, gen_random_uuid(), 'topic-' || n % 10, 'key-' || n % 1000, \
             decode(repeat('ab', 210), 'hex') from generate_series(1, {events}) n"
        ))
        .await;
        self.run("vacuum (analyze) {schema}.events").await;
    }

    async fn explain(&mut self, call: &str) -> serde_json::Value {
        // Rolled back, so that a statement that writes can be explained many times.
        self.conn.execute("begin").await.unwrap();
        let sql = format!("explain (analyze, buffers, format json) execute {call}");
        let plan: sqlx::types::Json<serde_json::Value> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.conn).await.unwrap();
        self.conn.execute("rollback").await.unwrap();
        plan.0[0]["Plan"].clone()
    }

    /// The calls of one claim and settle in the middle of the log, as the worker makes them.
    async fn hot_calls(&mut self) -> Vec<String> {
        let sql = format!(
            "select floor_seq, floor_xid::text, snapshot::text, ceil_seq from {}.take_mark()",
            self.schema()
        );
        let (last, xid, snapshot, _): (i64, String, String, i64) =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut self.conn).await.unwrap();
        let newest = format!("select coalesce(max(number), 0) from {}.batches", self.schema());
        let newest: i64 = sqlx::query_scalar(AssertSqlSafe(newest)).fetch_one(&mut self.conn).await.unwrap();
        let (id, middle, token) = (self.reader.id, last / 2, self.owner.0);
        let wanted = format!("{id}, null, null, null, null, 0, 1");
        vec![
            format!("progress({id}, 1, 0)"),
            format!("look({wanted}, {middle}, '0', '{{}}', 0, '{{}}', 999999999, 4000)"),
            format!(
                "look({wanted}, {last}, '{xid}', '{{{}}}', {last}, '{{{xid}}}', 999999999, 4000)",
                last - 1000
            ),
            format!(
                "claim_window({wanted}, {middle}, '0', '{{}}', 999999999, 4000, 500, 16000000, 1, '{token}', \
                 1000000, 1, 1, null, 'w', 0, 1000, '{{}}', '{{}}')"
            ),
            format!(
                "claim_window({wanted}, {last}, '{xid}', '{{{xid}}}', 999999999, 4000, 500, 16000000, 1, '{token}', 1000000, \
                 1, 1, null, 'w', 0, 1000, '{{1, 1}}', '{{{}}}')",
                last - 1000
            ),
            format!("page_plain({wanted}, {middle}, {last}, '0', '{snapshot}', 500)"),
            format!("page({wanted}, {middle}, {last}, '0', '{snapshot}', 0, 0, '{{}}', false, 500)"),
            format!(
                "page({wanted}, {middle}, {last}, '0', '{snapshot}', {}, {}, '{{{xid}}}', false, 500)",
                middle - 2000,
                middle + 2000
            ),
            format!(
                "insert_batch_owned({id}, 1, 0, '{token}', 1000000, 1, 1, 1, 2, 2, false, 1, false, null, null, null, null, \
                 null, 'w', 1000, null, null, false)"
            ),
            format!("finish_batch({id}, 1, 0, 1, '{token}', now(), 'off', 0)"),
            format!("next_due({id}, true, false)"),
            format!("renew({id}, '{{{token}}}', 1000, 1, {newest})"),
            format!("expired_batch({id}, 1, {newest})"),
        ]
    }

    /// Statements that are not part of every claim, but must not read whole tables either.
    fn other_calls(&self) -> Vec<String> {
        let (id, token) = (self.reader.id, self.owner.0);
        let wanted = format!("{id}, null, null, null, null, 0, 1");
        vec![
            format!("look_far({wanted}, 0, 999999999, '{{12345}}')"),
            format!("page_far({wanted}, 0, 999999999, '{{12345}}', false, 500)"),
            format!("take_over_batches({id}, 1, 0, '{token}', 'w')"),
            format!("reclaim_batch({id}, '{token}', 'w', 1000, 0, 0)"),
            format!("claim_deliveries({id}, '{token}', 'w', 1000, 100, true)"),
            format!("expire_deliveries({id}, 5, 1000, 1000, false)"),
            format!("bury_exhausted({id}, 5)"),
            format!("delete_deliveries({id}, '{{5}}', '{{{token}}}')"),
            format!("promote_keys({id}, '{{key-1}}', false)"),
            format!("blocked_keys({id}, '{{key-1}}', false)"),
            "dedupe_lookup('default', 't', 'k')".to_owned(),
        ]
    }

    async fn buffers_of_a_claim(&mut self) -> i64 {
        let mut total = 0;
        for call in self.hot_calls().await {
            total += buffers(&self.explain(&call).await);
        }
        total
    }

    /// Claims and settles this many batches through the store, as a worker would.
    async fn pass(&mut self, batches: usize) {
        let mut cursor = Cursor::Unknown;
        for _ in 0..batches {
            let fresh = self
                .store
                .claim_fresh(&self.reader, self.lane, Some(self.owner), &self.holder, &mut cursor)
                .await;
            let Fresh::Batch(batch) = fresh.unwrap() else { panic!("there must be a batch") };
            let batch = BatchRef::to(&batch);
            assert!(self.store.settle_batch(&self.reader, batch, &[], &self.holder).await.unwrap());
        }
    }
}

fn buffers(plan: &serde_json::Value) -> i64 {
    ["Shared Hit Blocks", "Shared Read Blocks"].iter().filter_map(|name| plan[*name].as_i64()).sum()
}

fn sequential_scans(plan: &serde_json::Value, found: &mut Vec<String>) {
    if let (Some("Seq Scan"), Some(table)) = (plan["Node Type"].as_str(), plan["Relation Name"].as_str())
        && LARGE.contains(&table)
    {
        found.push(table.to_owned());
    }
    for child in plan["Plans"].as_array().into_iter().flatten() {
        sequential_scans(child, found);
    }
}

#[tokio::test]
async fn claiming_reads_no_table_whole_and_costs_the_same_whatever_lies_behind_and_before() {
    let mut bench = Bench::new().await;
    bench.grow(100_000).await;
    bench
        .run(
            "insert into {schema}.deliveries (subscription, seq, event_id, key, status, parked, next_attempt_at) \
             select 1, seq, id, 'other-' || seq % 5000, (array['pending', 'dead'])[1 + seq % 2], seq % 3 = 0, \
             clock_timestamp() + interval '1 hour' from {schema}.events",
        )
        .await;
    bench.run("vacuum (analyze)").await;
    let small = bench.buffers_of_a_claim().await;
    bench.grow(900_000).await;
    bench
        .run(
            "insert into {schema}.dedupe_keys (namespace, topic, dedupe_key, event_id, expires_at) \
             select 'default', 't', n::text, gen_random_uuid(), now() from generate_series(1, 50000) n",
        )
        .await;
    // A journal of some weeks.
    bench
        .run(
            "insert into {schema}.batches (subscription, generation, lane, number, lo, hi, seq_from, seq_to, count, \
             closes_window, filter_version, finished_at) \
             select 1, 0, 0, n, 1, 1, n, n, 1, true, 1, now() from generate_series(1, 50000) n",
        )
        .await;
    bench.pass(100).await;
    bench.run("vacuum (analyze)").await;

    let mut calls = bench.hot_calls().await;
    calls.extend(bench.other_calls());
    for call in calls {
        let mut scans = Vec::new();
        sequential_scans(&bench.explain(&call).await, &mut scans);
        assert!(scans.is_empty(), "{call} reads {scans:?} whole");
    }
    // The control: the check does see a sequential scan.
    bench.run("prepare whole as select count(*) from {schema}.events where payload is null").await;
    let mut scans = Vec::new();
    sequential_scans(&bench.explain("whole").await, &mut scans);
    assert_eq!(scans, ["events"]);

    let large = bench.buffers_of_a_claim().await;
    let mut snapshot = PgConnection::connect(&urls()[0]).await.unwrap();
    snapshot.execute("begin isolation level repeatable read").await.unwrap();
    snapshot.execute("select count(*) from pg_class").await.unwrap();
    bench.pass(200).await;
    let held = bench.buffers_of_a_claim().await;
    println!(
        "buffers of one claim and settle: {small} at 100 k events, {large} at 1 M, {held} after 100 k more under a held snapshot"
    );
    assert!(large <= small + small / 10 + 50, "ten times the events: {small} buffers became {large}");
    assert!(held <= large + large / 100 + 20, "a held snapshot: {large} buffers became {held}");
}

/// In a log of ten million events the planner likes parallel plans for a page, and starts processes for every one. Here it likes them
/// because they cost nothing.
#[tokio::test]
async fn no_page_is_read_by_several_processes() {
    let mut bench = Bench::new().await;
    bench.grow(50_000).await;
    for setting in [
        "parallel_setup_cost = 0",
        "parallel_tuple_cost = 0",
        "min_parallel_table_scan_size = 0",
        "min_parallel_index_scan_size = 0",
    ] {
        bench.run(&format!("set {setting}")).await;
    }
    // The control is the same statement without that function.
    const SERIAL: &str = "and (pg_current_xact_id_if_assigned() is null or true)";
    let statements = bench.store.sql.clone();
    for (name, text) in statements.all().into_iter().filter(|(name, _)| name.starts_with("page")) {
        let without = text.replace(SERIAL, "");
        bench.run(&format!("prepare parallel_{name} as {without}")).await;
    }
    let mut is_parallel = async |call: String| {
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!("explain execute {call}")))
            .fetch_all(&mut bench.conn)
            .await
            .unwrap();
        plan.iter().any(|line| line.contains("Gather"))
    };
    let page = "1, null, '{topic-1}', null, null, 0, 1, 0, 50000, '1', '1:9999999:'";
    for call in [format!("page_plain({page}, 500)"), format!("page({page}, 0, 0, '{{}}', false, 500)")] {
        assert!(!is_parallel(call.clone()).await, "{call}");
        assert!(
            is_parallel(format!("parallel_{call}")).await,
            "nothing keeps {call} from it, and it is not parallel"
        );
    }
}

/// PostgreSQL compiles a plan to machine code, which takes it 50 ms and more, each time it runs one that it believes to cost so much.
const COMPILED_ABOVE: f64 = 100_000.0;

/// In a long log the planner must not believe that a page is expensive: it reads a few hundred rows along an index. Here the log has a few
/// pages, and the planner is told that ten billion events are on them.
#[tokio::test]
async fn no_claim_is_compiled_however_long_the_log_is() {
    let mut bench = Bench::new().await;
    bench.grow(10_000).await;
    bench.run("update pg_class set reltuples = 1e10 where oid = '{schema}.events'::regclass").await;
    let calls = bench.hot_calls().await;
    // The control is a filter of which the planner believes that it lets hardly anything through.
    let refined = bench.store.sql.claim_window.as_str().replacen(
        "else true",
        "else e.topic = 'a' and e.namespace = 'b' and e.content_type = 'c' end and (e.topic = 'd' or e.topic = 'e') and case when true then true",
        1,
    );
    assert_ne!(refined, bench.store.sql.claim_window.as_str());
    bench.run(&format!("prepare refined_claim_window as {refined}")).await;
    let mut cost = async |call: &str| {
        let sql = AssertSqlSafe(format!("explain (format json) execute {call}"));
        let plan: sqlx::types::Json<serde_json::Value> =
            sqlx::query_scalar(sql).fetch_one(&mut bench.conn).await.unwrap();
        plan.0[0]["Plan"]["Total Cost"].as_f64().unwrap()
    };
    for call in &calls {
        let cost = cost(call).await;
        println!("{cost:>9.0} {}", call.split('(').next().unwrap_or_default());
        assert!(cost < COMPILED_ABOVE / 2.0, "{call} is believed to cost {cost}");
    }
    let claim = calls.iter().find(|call| call.starts_with("claim_window")).unwrap();
    let refined = cost(&format!("refined_{claim}")).await;
    assert!(refined > COMPILED_ABOVE, "nothing is believed to be expensive here: {refined}");
}

/// Somebody may leave a transaction open for hours. Its events may lie anywhere in what has come since, and are looked for once it has
/// ended, not with every look before.
#[tokio::test]
async fn a_transaction_that_stays_open_makes_no_look_longer() {
    let mut bench = Bench::new().await;
    bench.grow(50_000).await;
    let mut open = PgConnection::connect(&urls()[0]).await.unwrap();
    open.execute("begin").await.unwrap();
    let xid: String =
        sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(&mut open).await.unwrap();
    let (id, token, last, all) = (bench.reader.id, bench.owner.0, 50_000, 999_999_999);
    let beyond = format!("{id}, null, null, null, null, 0, 1, {last}, '{all}'");
    let looks = |near: i64| {
        [
            format!("look({beyond}, '{{0}}', {all}, '{{{xid}}}', {all}, {near})"),
            format!(
                "claim_window({beyond}, '{{{xid}}}', {all}, {near}, 500, 16000000, 1, '{token}', 1000000, 1, 1, null, 'w', 0, \
                 1000, '{{1, 1}}', '{{0}}')"
            ),
        ]
    };
    for look in &looks(all) {
        let while_open = buffers(&bench.explain(look).await);
        assert!(while_open < 50, "{look}: {while_open} buffers");
    }
    open.execute("commit").await.unwrap();
    for look in &looks(all) {
        let ended = buffers(&bench.explain(look).await);
        assert!(ended > 1_000, "the search would be seen, in {look}: {ended} buffers");
    }
    for look in &looks(NEAR) {
        let ended = buffers(&bench.explain(look).await);
        assert!(ended < 300, "no more than {NEAR} events are searched at once, in {look}: {ended} buffers");
    }
}
