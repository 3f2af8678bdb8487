//! The sign of a sleeping worker and the time of the next ring, which producers read: two sequences that must agree.

use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Executor};

use super::{store, urls};
use crate::event::NewEvent;
use crate::store::postgres::PgStore;

const LONG: Duration = Duration::from_secs(20);
const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

async fn run(store: &PgStore, text: &str) {
    store.pool.execute(AssertSqlSafe(text.replace("{schema}", store.schema.as_str()))).await.unwrap();
}

async fn is_true(store: &PgStore, text: &str) -> bool {
    let text = format!("select {}", text.replace("{schema}", store.schema.as_str()));
    sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(&store.pool).await.unwrap()
}

async fn enqueue(store: &PgStore) {
    let mut conn = store.pool.acquire().await.unwrap();
    store.enqueue(&mut conn, &[NewEvent::bytes("orders", b"x".to_vec())]).await.unwrap();
}

/// Whether producers ring, now or in a moment.
async fn is_up(store: &PgStore) -> bool {
    is_true(store, &format!("pg_sequence_last_value('{{schema}}.next_ring') <= {NOW} + 60")).await
}

#[tokio::test]
async fn a_sign_that_has_come_down_is_no_reason_to_ring_and_the_next_one_is() {
    for url in urls() {
        let store = store(&url).await;
        let mut listener = PgListener::connect_with(&store.pool).await.unwrap();
        listener.listen(store.schema.as_str()).await.unwrap();
        assert!(!is_true(&store, "coalesce({schema}.ring_needed(), false)").await, "nobody ever slept");
        store.raise_sign(Duration::from_millis(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(is_true(&store, "{schema}.ring_needed()").await, "nobody has noticed it yet");
        enqueue(&store).await;
        assert!(!is_true(&store, "{schema}.ring_needed()").await, "whoever did told the others");
        store.raise_sign(LONG).await.unwrap();
        enqueue(&store).await;
        run(&store, "select pg_notify('{schema}', 'the end')").await;
        let heard = [listener.recv().await.unwrap(), listener.recv().await.unwrap()];
        assert_eq!(heard.map(|heard| heard.payload().to_owned()), ["", "the end"], "one ring");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_silences_producers_until_the_sign_is_put_up_anew() {
    let store = store(&urls()[0]).await;
    store.raise_sign(LONG).await.unwrap();
    run(&store, &format!("select setval('{{schema}}.next_ring', {NOW} + 3600000)")).await;
    assert!(!is_up(&store).await);
    store.raise_sign(LONG).await.unwrap();
    assert!(is_up(&store).await);
}

/// Producers that find the old sign come down, while a worker puts up a new one. Gives how often the new one was lost.
async fn lost_signs(store: &PgStore, rounds: usize) -> usize {
    let ring = "select {schema}.ring()";
    let mut lost = 0;
    for _ in 0..rounds {
        run(store, "select setval('{schema}.doorbell', 1), setval('{schema}.next_ring', 1)").await;
        let (sign, (), ()) = tokio::join!(store.raise_sign(LONG), run(store, ring), run(store, ring));
        sign.unwrap();
        lost += usize::from(!is_up(store).await);
    }
    lost
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_that_is_put_up_while_another_comes_down_is_not_lost() {
    let store = store(&urls()[0]).await;
    assert_eq!(lost_signs(&store, 300).await, 0);
    // Without the second look at the sign it would be.
    let ring: String = sqlx::query_scalar("select pg_get_functiondef($1::regproc)")
        .bind(format!("{}.ring", store.schema.as_str()))
        .fetch_one(&store.pool)
        .await
        .unwrap();
    let (before, rest) = ring.split_once("-- A worker that has put up its sign meanwhile").unwrap();
    let (_, after) = rest.split_once("end if;").unwrap();
    store.pool.execute(AssertSqlSafe(format!("{before} return null; {after}"))).await.unwrap();
    let mut rounds = 0;
    while lost_signs(&store, 1).await == 0 {
        rounds += 1;
        assert!(rounds < 20_000, "the control loses no sign: the test would see nothing");
    }
}
