//! Enqueue: atomic with the caller's transaction, once per dedupe key, to the byte, or refused before any SQL.

use std::collections::HashSet;
use std::time::Duration;

use posthaste::{Enqueued, Error, InvalidEvent, NewEvent};
use uuid::Uuid;

use super::{Backend, Script, assert_key, event, numbered, quick, until};

/// The answer names the event, and a second enqueue of its dedupe key gets the same name.
pub async fn an_enqueue_answers_with_the_id_and_whether_it_is_a_duplicate(db: &impl Backend) {
    let first = db.commit(vec![event("k", "1").dedupe_key("once")]).await[0];
    let second = db.commit(vec![event("k", "2").dedupe_key("once")]).await[0];
    let other = db.commit(vec![event("k", "3"), event("k", "4")]).await;
    assert!(!first.duplicate);
    assert_eq!(second, Enqueued { id: first.id, duplicate: true });
    assert!(other.iter().all(|enqueued| !enqueued.duplicate));
    let ids: HashSet<_> = other.iter().chain([&first]).map(|enqueued| enqueued.id).collect();
    assert_eq!((ids.len(), db.count_events().await), (3, 3));
    assert_eq!(first.id.0.get_version_num(), 7);
}

/// Exactly one row, every loser learns the winner's id, and nobody fails.
pub async fn racing_producers_enqueue_one_event_and_the_losers_learn_its_id(db: &impl Backend) {
    for round in 0..5 {
        let key = format!("race-{round}");
        let calls = (0..6).map(|n| db.commit(vec![event("k", &n.to_string()).dedupe_key(&key)]));
        let answers: Vec<Enqueued> = futures::future::join_all(calls).await.into_iter().flatten().collect();
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        let ids: HashSet<_> = answers.iter().map(|answer| answer.id).collect();
        assert_eq!((ids.len(), db.count_events().await), (1, round + 1));
    }
}

/// Within one call, the first event of a key stands for the others, also if it is itself a duplicate.
pub async fn duplicates_inside_one_call_share_the_first_id(db: &impl Backend) {
    let known = db.commit(vec![event("k", "0").dedupe_key("known")]).await[0];
    let answers = db
        .commit(vec![
            event("k", "1").dedupe_key("new"),
            event("k", "2").dedupe_key("known"),
            event("k", "3"),
            event("k", "4").dedupe_key("new"),
            event("k", "5").dedupe_key("known"),
        ])
        .await;
    let duplicates: Vec<bool> = answers.iter().map(|answer| answer.duplicate).collect();
    assert_eq!(duplicates, [false, true, false, true, true]);
    assert_eq!(answers[3].id, answers[0].id);
    assert_eq!((answers[1].id, answers[4].id), (known.id, known.id));
    assert_eq!(db.count_events().await, 3);
}

/// Two topics, or two namespaces, share no keys.
pub async fn a_dedupe_key_belongs_to_its_namespace_and_topic(db: &impl Backend) {
    let new = |topic: &str| NewEvent::bytes(topic, b"x".to_vec()).dedupe_key("same");
    let answers = db.commit(vec![new("a"), new("b"), new("a").namespace("other"), new("b")]).await;
    let duplicates: Vec<bool> = answers.iter().map(|answer| answer.duplicate).collect();
    assert_eq!(duplicates, [false, false, false, true]);
}

/// A key is remembered for its own time, and then it is free.
pub async fn a_dedupe_key_can_be_used_again_when_its_lifetime_has_passed(db: &impl Backend) {
    let brief = || event("k", "x").dedupe_key("brief").dedupe_for(Duration::from_millis(300));
    let first = db.commit(vec![brief()]).await[0];
    assert!(!first.duplicate);
    let mut last = first;
    until("the key is free again", async || {
        last = db.commit(vec![brief()]).await[0];
        !last.duplicate
    })
    .await;
    assert_ne!(last.id, first.id);
    let again = db.commit(vec![brief()]).await[0];
    assert_eq!(again, Enqueued { id: last.id, duplicate: true }, "the new event holds the key now");
}

/// Neither an event nor its key survives a rollback, and no reader ever sees it.
pub async fn a_rolled_back_enqueue_leaves_nothing_not_even_a_reserved_key(db: &impl Backend) {
    let script = Script::accepting();
    let worker = db.posthaste().handler(quick("s"), script.clone()).start().await.expect("start");
    let ghost = db.roll_back(vec![event("k", "ghost").dedupe_key("key"), event("k", "ghost")]).await[0];
    assert_eq!(db.count_events().await, 0);
    let real = db.commit(vec![event("k", "real").dedupe_key("key")]).await[0];
    assert!(!real.duplicate && real.id != ghost.id);
    script.accepted.wait_for(1).await;
    worker.stop().await;
    assert_eq!(script.attempts.texts(), ["real"]);
}

/// Bad input is an answer, not an aborted transaction.
pub async fn bad_input_is_refused_with_a_typed_error_and_the_transaction_commits(db: &impl Backend) {
    let tenant = Uuid::now_v7();
    let bad = [
        event("k\0", "x"),
        NewEvent::bytes("", b"x".to_vec()),
        NewEvent::bytes("nul\0", b"x".to_vec()),
        event("k", "x").tenant(tenant).dedupe_key("not-the-tenant/1"),
        NewEvent::bytes("t", vec![b'x'; 10 * 1024 * 1024]),
        event("k", "x").header("trace", "a\r\nforged: 1"),
        event("k", "x").header("bad name", "x"),
        event("k", "x").namespace("").dedupe_key("never"),
        event("", "x"),
    ];
    let mut calls: Vec<Vec<NewEvent>> = vec![vec![event("k", "before")]];
    // Together with a good one: all or nothing.
    calls.extend(bad.into_iter().map(|bad| vec![event("k", "beside"), bad]));
    calls.push(vec![event("k", "after").tenant(tenant).dedupe_key(format!("{tenant}/1"))]);
    let answers = db.commit_calls(calls).await;
    let (refused, accepted): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_err);
    assert_eq!((refused.len(), accepted.len()), (9, 2));
    for answer in &refused {
        assert!(matches!(answer, Err(Error::InvalidEvent(_))), "{answer:?}");
    }
    let prefix = |answer: &&posthaste::Result<Vec<Enqueued>>| {
        matches!(answer, Err(Error::InvalidEvent(InvalidEvent::TenantPrefix { .. })))
    };
    assert_eq!(refused.iter().filter(prefix).count(), 1);
    assert_eq!(db.count_events().await, 2, "only what was accepted");
}

/// Fidelity: whatever the bytes are.
pub async fn bytes_headers_and_content_type_arrive_as_enqueued(db: &impl Backend) {
    let tenant = Uuid::now_v7();
    let all_bytes: Vec<u8> = (0..=255).collect();
    let json = br#"{ "b":1, "a":"\u0000", "a":2.50 }"#.to_vec();
    let events = vec![
        NewEvent::bytes("raw", all_bytes.clone())
            .namespace("shop")
            .event_type("order.created")
            .aggregate("order", "o-1")
            .tenant(tenant)
            .dedupe_key(format!("{}/1", tenant.simple()))
            .content_type("application/x-own; v=1")
            .header("Trace-Parent", "00-ab-cd-01")
            .header("empty", "")
            .header("greek", "λόγος\ttab"),
        NewEvent::bytes("raw", json.clone()).content_type("application/json").key("k"),
        NewEvent::bytes("raw", Vec::new()),
        NewEvent::json("raw", &serde_json::json!({"n": 1})).expect("json"),
    ];
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = seen.clone();
    let handler = move |event: std::sync::Arc<posthaste::Event>| {
        keep.lock().expect("unpoisoned").push(event);
        async {}
    };
    let ids = db.commit(events).await;
    // Through a batch and, the second time, through a delivery row.
    let worker = db.posthaste().handler(quick("s").order(posthaste::Order::Strict), handler).start().await;
    until("all have arrived", async || seen.lock().expect("unpoisoned").len() == 4).await;
    worker.expect("start").stop().await;
    let seen = seen.lock().expect("unpoisoned");
    assert_eq!(
        seen.iter().map(|event| event.id).collect::<Vec<_>>(),
        ids.iter().map(|e| e.id).collect::<Vec<_>>()
    );
    let first = &seen[0];
    assert_eq!(
        (first.payload.as_slice(), first.content_type.as_str()),
        (&all_bytes[..], "application/x-own; v=1")
    );
    assert_eq!((first.namespace.as_str(), first.topic.as_str()), ("shop", "raw"));
    assert_eq!(
        (first.event_type.as_deref(), first.aggregate_type.as_deref()),
        (Some("order.created"), Some("order"))
    );
    assert_eq!((first.aggregate_id.as_deref(), first.key.as_deref()), (Some("o-1"), Some("o-1")));
    assert_eq!(
        (first.tenant_id, first.dedupe_key.clone()),
        (Some(tenant), Some(format!("{}/1", tenant.simple())))
    );
    let headers: Vec<_> = first.headers.iter().collect();
    assert_eq!(headers, [("empty", ""), ("greek", "λόγος\ttab"), ("trace-parent", "00-ab-cd-01")]);
    assert_eq!(seen[1].payload, json, "not one space is lost");
    assert_eq!((seen[2].payload.len(), seen[2].content_type.as_str()), (0, "application/octet-stream"));
    assert_eq!(
        (seen[3].payload.as_slice(), seen[3].content_type.as_str()),
        (&b"{\"n\":1}"[..], "application/json")
    );
}

/// The place in the call is the place in the log.
pub async fn many_events_of_one_call_keep_their_order(db: &impl Backend) {
    let script = Script::accepting();
    let worker = db.posthaste().handler(quick("s"), script.clone()).start().await.expect("start");
    db.commit(numbered("k", 700)).await;
    script.accepted.wait_for(700).await;
    worker.stop().await;
    assert_key(&script.accepted, "k", 700);
}

/// Bodies that exceed what one page may carry are read in several.
pub async fn large_events_arrive_although_a_page_carries_only_so_many_bytes(db: &impl Backend) {
    let large = |n: usize| event("k", &format!("{n:02}{}", "x".repeat(1_000_000)));
    for half in 0..2 {
        db.commit((half * 10..half * 10 + 10).map(large).collect()).await;
    }
    let script = Script::accepting();
    let worker = db.posthaste().handler(quick("s"), script.clone()).start().await.expect("start");
    script.accepted.wait_for(20).await;
    worker.stop().await;
    let places: Vec<usize> =
        script.accepted.texts().iter().map(|text| text[..2].parse().expect("a number")).collect();
    assert_eq!(places, (0..20).collect::<Vec<_>>());
}
