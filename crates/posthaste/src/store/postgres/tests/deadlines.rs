//! Deadlines: how long each question waits, and what becomes of connections.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor};

use super::{store, urls};
use crate::error::Error;
use crate::event::NewEvent;
use crate::id::WorkerName;
use crate::lease::Holder;
use crate::store::postgres::PgStore;
use crate::store::postgres::deadline::Question;
use crate::store::{Cursor, Fresh, Store};
use crate::subscription::{ClaimBy, Order, Subscription};

#[tokio::test]
async fn a_transaction_of_a_worker_that_fell_silent_ends() {
    for url in urls() {
        let store = store(&url).await;
        let mut conn = store.lend("test").await.unwrap();
        let mut tx = conn.begin("test").await.unwrap();
        let shown = "show idle_in_transaction_session_timeout";
        assert_eq!(sqlx::query_scalar::<_, String>(shown).fetch_one(&mut *tx).await.unwrap(), "15s");
        tx.commit().await.unwrap();
        let after: String = sqlx::query_scalar(shown).fetch_one(&mut *conn).await.unwrap();
        assert_eq!(after, "0", "the connection is the application's");
        // And where a handler has begun its own: from the last lock on.
        let name = Subscription::new(&format!("s{}", fastrand::u32(..))).unwrap();
        let reader = store.declare(&name).await.unwrap();
        let mut tx = Connection::begin(&mut *conn).await.unwrap();
        store.lock_subscription(&mut tx, &reader).await.unwrap();
        assert_eq!(sqlx::query_scalar::<_, String>(shown).fetch_one(&mut *tx).await.unwrap(), "15s");
    }
}

/// A claim by event writes a row for each event of its page, and locks no subscription if nobody asks for an order.
#[tokio::test]
async fn a_claim_by_event_ends_with_its_silent_worker_too() {
    let store = store(&urls()[0]).await;
    let mut conn = store.pool.acquire().await.unwrap();
    let watch = "create table {schema}.seen (timeout text);
        create function {schema}.see() returns trigger language plpgsql as $$ begin
          insert into {schema}.seen select current_setting('idle_in_transaction_session_timeout'); return null; end $$;
        create trigger see after insert on {schema}.batches for each row execute function {schema}.see()";
    conn.execute(AssertSqlSafe(watch.replace("{schema}", store.schema.as_str()))).await.unwrap();
    let subscription = Subscription::new("s").unwrap().order(Order::None).claim_by(ClaimBy::Event);
    let reader = store.declare(&subscription).await.unwrap();
    let lane = store.open_lane(&reader).await.unwrap();
    store.enqueue(&mut conn, &[NewEvent::bytes("t", "")]).await.unwrap();
    let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
    let fresh = store.claim_fresh(&reader, lane, None, &holder, &mut Cursor::Unknown).await.unwrap();
    assert!(matches!(fresh, Fresh::Deliveries(claims) if claims.len() == 1));
    let seen = format!("select timeout from {}.seen", store.schema.as_str());
    let seen: Vec<String> = sqlx::query_scalar(AssertSqlSafe(seen)).fetch_all(&mut *conn).await.unwrap();
    assert_eq!(seen, ["15s"]);
}

async fn sleep(store: &PgStore, millis: u32, within: Duration) -> crate::error::Result<()> {
    let sleeping = async {
        let sleep = sqlx::query("select pg_sleep($1::float8 / 1000)").bind(f64::from(millis));
        let mut conn = store.lend("sleep").await?;
        sleep.execute(&mut *conn).await.map(|_| ()).map_err(Error::database("sleep"))
    };
    store.within(Question::new("sleep").within(within), sleeping).await
}

#[tokio::test]
async fn what_overran_gets_twice_the_time() {
    let store = store(&urls()[0]).await;
    let usual = Duration::from_millis(500);
    let late = sleep(&store, 800, usual).await.unwrap_err();
    assert!(matches!(late, Error::Late { within, .. } if within == usual), "{late}");
    let late = sleep(&store, 60_000, usual).await.unwrap_err();
    assert!(matches!(late, Error::Late { within, .. } if within == 2 * usual), "{late}");
    sleep(&store, 0, usual).await.unwrap();
    let late = sleep(&store, 60_000, usual).await.unwrap_err();
    assert!(
        matches!(late, Error::Late { within, .. } if within == usual),
        "an answer has come since: {late}"
    );
}

#[tokio::test]
async fn the_pool_gets_a_place_back_whose_connection_never_answers() {
    let store = store(&urls()[0]).await;
    let places = store.pool.options().get_max_connections();
    let given_up = (0..places).map(|_| sleep(&store, 600_000, Duration::from_secs(2)));
    assert!(futures::future::join_all(given_up).await.iter().all(Result::is_err));
    for _ in 0..3 {
        // While they are asked for the rest of their answers, there is no place.
        if store.answers().await.is_ok() {
            return;
        }
    }
    panic!("no connection came back");
}

#[tokio::test]
async fn what_takes_long_is_waited_for_while_the_server_is_there() {
    let store = store(&urls()[0]).await;
    let waits = async {
        let mut conn = store.lend("sleep").await?;
        let sleep = sqlx::query("select pg_sleep(12)").execute(&mut *conn).await;
        sleep.map(|_| ()).map_err(Error::database("sleep"))
    };
    store.patiently("sleep", waits).await.unwrap();
}
