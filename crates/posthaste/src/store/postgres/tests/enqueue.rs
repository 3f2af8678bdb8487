//! One event is written by one of two statements, many by a third: whichever it is, the row is the same.

use chrono::{DateTime, Utc};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{store, urls};
use crate::event::NewEvent;
use crate::store::postgres::PgStore;
use crate::store::postgres::enqueue::is_usual;

/// Everything in a row that does not differ from one insert to the next.
const LASTING: &str = "tenant_id, namespace, topic, event_type, key, aggregate_type, aggregate_id, dedupe_key, \
                       content_type, headers, payload, available_at is not null, available_at = 'epoch'";

fn event() -> NewEvent {
    NewEvent::bytes("orders", b"body".to_vec())
}

/// Enqueues these in one call, and gives what is in the log of them.
async fn stored(store: &PgStore, events: &[NewEvent]) -> Vec<String> {
    let mut conn = store.pool.acquire().await.unwrap();
    let enqueued = store.enqueue(&mut conn, events).await.unwrap();
    let ids: Vec<Uuid> = enqueued.iter().map(|enqueued| enqueued.id.0).collect();
    let schema = store.schema.as_str();
    let row = format!("select row({LASTING})::text from {schema}.events where id = any ($1) order by seq");
    sqlx::query_scalar(AssertSqlSafe(row)).bind(ids).fetch_all(&mut *conn).await.unwrap()
}

#[tokio::test]
async fn an_event_is_stored_the_same_alone_and_beside_another() {
    let tenant = Uuid::from_u128(7);
    let usual = [
        event(),
        event().event_type("order.created").key("k").content_type("text/plain").header("trace", "1"),
        event().aggregate("order", "o-1"),
        NewEvent::bytes("", Vec::new()),
    ];
    // Each has one thing that the shorter statement does not write.
    let others = [
        event().tenant(tenant),
        event().dedupe_key("once"),
        event().namespace("shop"),
        event().delay(std::time::Duration::from_secs(60)),
        event().available_at(DateTime::<Utc>::UNIX_EPOCH),
    ];
    assert!(usual.iter().all(is_usual) && !others.iter().any(is_usual));
    let store = store(&urls()[0]).await;
    let again = super::store(&urls()[0]).await;
    let events = [&usual[..], &others[..]].concat();
    let together = stored(&again, &events).await;
    assert_eq!(together.len(), events.len());
    for (event, expected) in events.iter().zip(together) {
        assert_eq!(stored(&store, std::slice::from_ref(event)).await, [expected], "{event:?}");
    }
}
