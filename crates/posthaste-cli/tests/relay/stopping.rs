//! Stopping while the database does not answer, or while a reload is under way: the signal is heard, nothing is left
//! behind, and the last sentence is true.

use std::fs::File;
use std::sync::Arc;

use posthaste_testkit::{Gate, servers};
use rustix::process::Signal;
use sqlx::{PgPool, SqliteConnection};

use crate::delivering::until_it_hangs;
use crate::log::{Log, Pool};
use crate::support::{Folder, Relay, lines, until};

const ORDERS: &str = "[relay]\nlisten = \"off\"\nlog = \"pretty\"\ngrace = \"1s\"\n\
                      [subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n";

const CARTS: &str = "[subscriptions.carts.sink]\ntype = \"file\"\npath = \"carts.jsonl\"\n";

/// What is said when nothing was being delivered, but the database did not take leave.
const NOT_SETTLED: &str = "stopped after the grace time of 1s: the database did not answer in time";

/// A PostgreSQL behind a gate, and its URL through the gate.
async fn behind_a_gate() -> (Arc<Gate>, String) {
    let server = servers().remove(0);
    let log = Log::postgres(&server).await;
    let real = server.url.split(['@', '/']).nth(3).expect("an address").to_owned();
    let port = real.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let gate = Gate::before(port).await;
    let url = log.url.replace(&real, &format!("127.0.0.1:{}", gate.port()));
    (gate, url)
}

/// Ended without a word about deliveries that nobody made.
fn ended_idle(relay: Relay, code: i32, sentence: &str) {
    let (ended, words) = relay.stop();
    assert_eq!(ended, Some(code), "{words}");
    assert!(words.contains(sentence) && !words.contains("being delivered"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_waits_for_a_silent_database_can_be_stopped() {
    let (gate, url) = behind_a_gate().await;
    gate.fall_silent();
    let folder = Folder::with(ORDERS);
    let relay = folder.relay(&["--database", &url]);
    relay.says("did not answer within 10 s");
    let (code, words) = relay.stop();
    assert_eq!(code, Some(0), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_waits_for_a_lock_at_its_start_can_be_stopped() {
    for server in servers() {
        let log = Log::postgres(&server).await;
        let Pool::Postgres(pool) = &log.pool else { unreachable!("it is PostgreSQL") };
        for (lock, migrate) in [
            ("lock table posthaste.meta in access exclusive mode", false),
            // The lock that all who migrate take, for which there is no limit.
            ("select pg_advisory_xact_lock(8101821198467429236)", true),
            ("lock table posthaste.subscriptions in access exclusive mode", false),
        ] {
            let mut holding = pool.begin().await.expect("begin");
            sqlx::raw_sql(lock).execute(&mut *holding).await.expect("the lock");
            let folder = Folder::with(ORDERS);
            let relay =
                folder.relay(&[&["--database", &log.url], &["--migrate"][..usize::from(migrate)]].concat());
            until("it waits for the lock", async || waits_for_a_lock(pool).await.then_some(())).await;
            let (code, words) = relay.stop();
            assert_eq!(code, Some(0), "{lock}: {words}");
            assert!(!words.contains("did not answer"), "{lock}: stopped at once: {words}");
            holding.rollback().await.expect("rollback");
            until("nobody waits", async || (!waits_for_a_lock(pool).await).then_some(())).await;
        }
    }
}

async fn waits_for_a_lock(pool: &PgPool) -> bool {
    let waiting = "select exists (select 1 from pg_stat_activity where datname = current_database() \
                   and wait_event_type = 'Lock')";
    sqlx::query_scalar(waiting).fetch_one(pool).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_waits_for_a_silent_database_does_not_hold_up_the_stop() {
    let (gate, url) = behind_a_gate().await;
    let folder = Folder::with(ORDERS);
    let relay = folder.relay(&["--database", &url]);
    relay.says("Delivering.");
    gate.fall_silent();
    folder.write("posthaste.toml", [ORDERS, CARTS].concat());
    relay.send(Signal::HUP);
    relay.says("not started yet");
    // Clean or not depends on whether it got its lane before the silence, which it cannot give back then.
    let (code, words) = relay.stop();
    let clean = code == Some(0) && words.contains("stopped cleanly");
    assert!(clean || code == Some(1) && words.contains(NOT_SETTLED), "{code:?} {words}");
    assert!(!words.contains("being delivered"), "{words}");
}

/// Holds the only writer's place of a SQLite database.
async fn lock(log: &Log) -> sqlx::pool::PoolConnection<sqlx::Sqlite> {
    let Pool::Sqlite(pool) = &log.pool else { unreachable!("it is SQLite") };
    let mut connection = pool.acquire().await.expect("a connection");
    let locking: &mut SqliteConnection = &mut connection;
    sqlx::raw_sql("begin exclusive").execute(locking).await.expect("the lock");
    connection
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_is_named_and_does_not_hold_up_the_stop_at_the_start() {
    let folder = Folder::with(ORDERS);
    let log = Log::sqlite(&folder).await;
    let _locked = lock(&log).await;
    let relay = folder.relay(&["--database", &log.url]);
    let line = relay.says("not started yet");
    assert!(line.contains("another program may hold its lock"), "{line}");
    ended_idle(relay, 0, "stopped cleanly");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_relay_on_a_locked_file_does_not_speak_of_deliveries_when_it_stops() {
    let folder = Folder::with(ORDERS);
    let log = Log::sqlite(&folder).await;
    let relay = folder.relay(&["--database", &log.url]);
    relay.says("Delivering.");
    let locked = lock(&log).await;
    folder.write("posthaste.toml", [ORDERS, CARTS].concat());
    relay.send(Signal::HUP);
    relay.says("not started yet");
    ended_idle(relay, 1, NOT_SETTLED);
    locked.close().await.expect("unlocked");
    let relay = folder.relay(&["--database", &log.url]);
    relay.says("Delivering.");
    ended_idle(relay, 0, "stopped cleanly");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reload_was_stopping_is_finished_although_the_relay_is_stopped_meanwhile() {
    let patient = ORDERS.replace("\"1s\"", "\"5m\"");
    let folder = Folder::with(&patient);
    let log = Log::sqlite(&folder).await;
    // The sink waits for whoever else writes to its file.
    let file = File::create(folder.path("out.jsonl")).expect("a file");
    file.lock().expect("locked");
    log.enqueue("orders", 0, 5, 1).await;
    let mut relay = folder.relay(&["--database", &log.url]);
    until_it_hangs(&log).await;
    folder.write("posthaste.toml", format!("{patient}[subscriptions.orders]\nbatch_size = 7\n"));
    relay.send(Signal::HUP);
    relay.says("what they have under way is finished first");
    relay.send(Signal::TERM);
    relay.says("stopping: nothing new is started");
    file.unlock().expect("unlocked");
    let (code, words) = (relay.ends().code(), relay.words());
    let arrived = lines(&folder.path("out.jsonl")).len();
    assert!(code == Some(0) && arrived > 0, "{code:?} {arrived} {words}");
    assert!(words.contains(&format!("delivered={arrived}")), "{arrived} {words}");
    let state = log.posthaste.admin().subscription("orders").await.expect("its state");
    assert_eq!((state.lag.exact(), state.in_flight.is_zero()), (Some(5 - arrived as u64), true), "{words}");
}

#[tokio::test]
async fn a_subscription_that_cannot_be_started_does_not_cut_off_the_others() {
    let folder = Folder::with(&[ORDERS, CARTS].concat());
    let log = Log::sqlite(&folder).await;
    log.execute(
        "create trigger no before insert on posthaste_subscriptions when new.name = 'orders' \
         begin select raise(abort, 'not this one'); end",
    )
    .await;
    let ended = folder.run(&["relay", "--database", &log.url]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("stopped cleanly") && ended.stderr.contains("not this one"), "{ended:?}");
    let state = log.posthaste.admin().subscription("carts").await.expect("its state");
    assert!(state.lanes.iter().all(|lane| lane.held_by.is_none()), "{:?}", state.lanes);
}
