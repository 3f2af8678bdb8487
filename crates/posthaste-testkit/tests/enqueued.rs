//! What a transaction enqueued: seen while it is open and after it, compared with what a test expects, and the words of a
//! test that fails.

mod common;

use common::{complaint, kit, postgres, sqlite};
use posthaste::{NewEvent, Posthaste, Producer};
use posthaste_testkit::{EnqueuedEvents, Expected, Kit};
use serde_json::json;

fn placed(order: u32) -> NewEvent {
    let event = NewEvent::json("orders", &json!({ "order": order, "total": 12 })).expect("JSON");
    event.event_type("order.placed").key(format!("order-{order}")).header("Trace", "t-1")
}

async fn enqueue(posthaste: &Posthaste, connection: &mut impl Producer, events: Vec<NewEvent>) {
    posthaste.enqueue_many(connection, events).await.expect("enqueue");
}

/// The same on every database; sqlx's pools and transactions have types of their own.
macro_rules! on_every_pool {
    (|$db:ident| $body:block) => {{
        {
            let $db = sqlite().await;
            $body
        }
        for $db in postgres().await {
            $body
        }
    }};
}

#[tokio::test]
async fn an_open_transaction_shows_what_it_enqueued_and_nothing_from_before_the_mark() {
    on_every_pool!(|db| {
        let kit = kit(&db);
        let mut tx = db.pool.begin().await.unwrap();
        enqueue(&db.posthaste, &mut tx, vec![placed(1)]).await;
        let mark = kit.mark(&mut tx).await;
        kit.enqueued_since(&mut tx, &mark).await.assert_none();
        enqueue(&db.posthaste, &mut tx, vec![placed(2), placed(3)]).await;
        let since = kit.enqueued_since(&mut tx, &mark).await;
        since.assert_exactly([Expected::any().key("order-2"), Expected::any().key("order-3")]);
        tx.commit().await.unwrap();
        // After the commit, and on another connection, it is the same.
        let mut conn = db.pool.acquire().await.unwrap();
        let since = kit.enqueued_since(&mut conn, &mark).await;
        since.assert_exactly([Expected::any().key("order-2"), Expected::any().key("order-3")]);
    });
}

#[tokio::test]
async fn what_is_rolled_back_was_never_enqueued() {
    on_every_pool!(|db| {
        let kit = kit(&db);
        let mark = kit.mark(&mut db.pool.acquire().await.unwrap()).await;
        let mut tx = db.pool.begin().await.unwrap();
        enqueue(&db.posthaste, &mut tx, vec![placed(1)]).await;
        assert_eq!(kit.enqueued_since(&mut tx, &mark).await.len(), 1);
        tx.rollback().await.unwrap();
        kit.enqueued_since(&mut db.pool.acquire().await.unwrap(), &mark).await.assert_none();
    });
}

#[tokio::test]
async fn a_transaction_is_asked_about_itself_alone_while_others_commit() {
    for db in postgres().await {
        let kit = kit(&db);
        let mut tx = db.pool.begin().await.unwrap();
        let mark = kit.mark(&mut tx).await;
        enqueue(&db.posthaste, &mut tx, vec![placed(1)]).await;
        enqueue(&db.posthaste, &mut db.pool.acquire().await.unwrap(), vec![placed(2)]).await;
        kit.enqueued_since(&mut tx, &mark).await.assert_exactly([Expected::any().key("order-1")]);
        tx.commit().await.unwrap();
        let both = kit.enqueued_since(&mut db.pool.acquire().await.unwrap(), &mark).await;
        both.assert_exactly([Expected::any().key("order-1"), Expected::any().key("order-2")]);
    }
}

/// A seq is drawn at insert, not at commit: a mark that was only a seq would miss the slower transaction.
#[tokio::test]
async fn a_transaction_that_was_open_at_the_mark_and_commits_later_is_not_missed() {
    for db in postgres().await {
        let kit = kit(&db);
        let mut slow = db.pool.begin().await.unwrap();
        enqueue(&db.posthaste, &mut slow, vec![placed(1)]).await;
        enqueue(&db.posthaste, &mut db.pool.acquire().await.unwrap(), vec![placed(2)]).await;
        let mark = kit.mark(&mut db.pool.acquire().await.unwrap()).await;
        slow.commit().await.unwrap();
        let since = kit.enqueued_since(&mut db.pool.acquire().await.unwrap(), &mark).await;
        since.assert_exactly([Expected::any().key("order-1")]);
    }
}

async fn three() -> EnqueuedEvents {
    let db = sqlite().await;
    let (kit, mut conn) = (Kit::of(&db.posthaste), db.pool.acquire().await.unwrap());
    let mark = kit.mark(&mut conn).await;
    let bytes = NewEvent::bytes("files", b"\x00\xff".to_vec()).namespace("n").dedupe_key("d");
    let late = placed(2).delay(std::time::Duration::from_secs(60));
    enqueue(&db.posthaste, &mut conn, vec![placed(1), late, bytes]).await;
    kit.enqueued_since(&mut conn, &mark).await
}

fn order(number: u32) -> Expected {
    Expected::topic("orders").key(format!("order-{number}"))
}

#[tokio::test]
async fn everything_that_can_be_said_about_an_event_passes_when_it_is_so() {
    let events = three().await;
    let first = Expected::topic("orders")
        .event_type("order.placed")
        .key("order-1")
        .namespace("default")
        .header("TRACE", "t-1")
        .json(json!({ "total": 12, "order": 1 }))
        .json_with(json!({ "total": 12 }))
        .that("it has a body", |event| !event.payload.is_empty());
    let third = Expected::topic("files").without_key().bytes(b"\x00\xff").namespace("n").dedupe_key("d");
    events.assert_exactly([first, order(2).delayed(), third]);
    events.assert_in_any_order([Expected::topic("files"), order(2), order(1)]);
    events.assert_contains(order(2));
}

#[tokio::test]
async fn everything_that_can_be_said_about_an_event_fails_when_it_is_not_so() {
    let events = three().await;
    let said = [
        (Expected::topic("bills"), r#"topic: expected "bills", found "orders""#),
        (Expected::any().event_type("x"), r#"type: expected "x", found "order.placed""#),
        (Expected::any().key("k"), r#"key: expected "k", found "order-1""#),
        (Expected::any().without_key(), r#"key: expected none, found "order-1""#),
        (Expected::any().namespace("n"), r#"namespace: expected "n", found "default""#),
        (Expected::any().aggregate("a", "b"), r#"aggregate type: expected "a", found none"#),
        (Expected::any().dedupe_key("d"), r#"dedupe key: expected "d", found none"#),
        (Expected::any().header("trace", "t-2"), r#"header trace: expected "t-2", found "t-1""#),
        (Expected::any().json(json!({})), r#"body: expected {}, found {"order":1,"total":12}"#),
        (
            Expected::any().json_with(json!({ "total": 13 })),
            r#"body: expected with {"total":13}, found {"order":1,"total":12}"#,
        ),
        (Expected::any().bytes(b"\x01\xfe"), r#"body: expected 0x01fe, found {"order":1,"total":12}"#),
        (Expected::any().delayed(), "delay: expected some, found none"),
        (
            Expected::any().that("it is empty", |event| event.payload.is_empty()),
            "that: expected it is empty, found not so",
        ),
    ];
    for (expected, sentence) in said {
        let rest = [order(2), Expected::topic("files")];
        let words = complaint(|| events.assert_exactly([expected].into_iter().chain(rest)));
        assert!(words.contains(sentence), "{sentence}\n{words}");
    }
}

#[tokio::test]
async fn the_difference_shows_what_agrees_what_is_missing_and_what_is_too_much() {
    let events = three().await;
    let expected =
        [order(1), order(2).json(json!({ "order": 2, "total": 13 })), order(9), Expected::topic("files")];
    let words = complaint(|| events.assert_exactly(expected));
    let one = r#"topic "orders", type "order.placed", key "order-1", header trace "t-1", body {"order":1,"total":12}"#;
    let two = one.replace("order-1", "order-2").replace("\"order\":1", "\"order\":2");
    assert_eq!(
        words,
        format!(
            "the enqueued events are not the expected ones (- expected, + enqueued):\n    {one}\n  \
             - topic \"orders\", key \"order-2\", body {{\"order\":2,\"total\":13}}\n  + {two}\n      \
             body: expected {{\"order\":2,\"total\":13}}, found {{\"order\":2,\"total\":12}}\n  \
             - topic \"orders\", key \"order-9\"\n    topic \"files\", body 0x00ff"
        )
    );
}

#[tokio::test]
async fn order_counts_unless_a_test_says_that_it_does_not() {
    let events = three().await;
    let words = complaint(|| events.assert_exactly([order(2), order(1), Expected::topic("files")]));
    assert!(words.contains("- topic \"orders\", key \"order-2\""), "{words}");
    let words = complaint(|| events.assert_in_any_order([order(2), Expected::topic("files")]));
    assert!(words.contains("+ topic \"orders\", type \"order.placed\", key \"order-1\""), "{words}");
    // The first could take the only one that the second has; it must be given another.
    events.assert_in_any_order([Expected::topic("orders"), order(1), Expected::topic("files")]);
}

#[tokio::test]
async fn what_is_not_there_and_what_should_not_be_there_are_named() {
    let events = three().await;
    let words = complaint(|| events.assert_none());
    assert!(
        words
            .starts_with("nothing should have been enqueued (- expected, + enqueued):\n  + topic \"orders\"")
    );
    assert_eq!(words.lines().count(), 4);
    let words = complaint(|| events.assert_contains(order(7)));
    assert!(words.starts_with("no enqueued event is as expected"), "{words}");
    assert!(words.contains("key: expected \"order-7\", found \"order-1\""), "{words}");
}
