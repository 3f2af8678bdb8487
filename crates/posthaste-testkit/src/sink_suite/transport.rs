//! What is enqueued arrives: bytes, headers, attributes, order.

use posthaste::{Event, NewEvent};
use serde_json::{Value, json};

use super::{Received, SinkBench, Trial, received_at_least, results, until};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Texts of many scripts, JSON, white space, and every byte there is.
fn payloads(text_only: bool) -> Vec<(&'static str, Vec<u8>)> {
    let mut payloads: Vec<(&str, Vec<u8>)> = vec![
        ("application/json", br#"{"n": 12345678901234567890, "b": 1, "a": [1.0]}"#.to_vec()),
        ("application/json", "\"grüße, κόσμε, 世界, 🎉\"".into()),
        ("text/plain; charset=utf-8", "  two lines\r\nand a tab\t.  ".into()),
        ("text/plain", b"x".to_vec()),
    ];
    if !text_only {
        payloads.push(("application/octet-stream", (0..=255).collect()));
        payloads.push(("application/octet-stream", vec![0; 1000]));
    }
    payloads
}

/// Each payload twice, in two keys, with headers that need care.
fn events(text_only: bool) -> Vec<(String, Vec<u8>, NewEvent)> {
    let with = |key: &str, content_type: &str, payload: Vec<u8>| {
        let event = NewEvent::bytes("orders", payload.clone()).content_type(content_type).key(key);
        let event = event.event_type("order.created").aggregate("order", "o-1").tenant(uuid::Uuid::nil());
        let event = event.header("traceparent", TRACE).header("x-note", "100% \"sure\", größer");
        (key.to_owned(), payload, event)
    };
    let keyed = |key: &'static str| {
        payloads(text_only).into_iter().map(move |(content_type, payload)| with(key, content_type, payload))
    };
    keyed("key one/ä").chain(keyed("b")).collect()
}

/// Bodies to the byte, headers and CloudEvents attributes by name and value.
pub async fn bytes_headers_and_attributes_arrive_as_enqueued<B: SinkBench>(bench: &B) {
    let mut trial = Trial::new().await;
    trial.commit(events(B::TEXT_ONLY)).await;
    let worker = trial.log.posthaste.sink(Trial::subscription(), bench.sink()).start().await.expect("start");
    let received = received_at_least(bench, trial.committed.len()).await;
    until("all are settled", async || worker.counters().delivered() as usize == trial.committed.len()).await;
    worker.stop().await;
    let verdict = trial.verdict(&received);
    assert!(verdict.is_perfect(), "{verdict}");
    for message in &received {
        assert_headers::<B>(&trial, message).await;
    }
    results::passed(bench, "bytes", json!({ "events": received.len(), "corrupted": verdict.corrupted }));
}

async fn assert_headers<B: SinkBench>(trial: &Trial, message: &Received) {
    let committed = trial.committed.iter().find(|c| c.id.to_string() == message.id).expect("committed");
    let detail = trial.log.posthaste.admin().event(committed.id).await.expect("the event");
    let header = |name: &str| message.headers.get(name).map(String::as_str);
    assert_eq!(header("x-note"), Some("100% \"sure\", größer"), "{message:?}");
    assert_eq!(header("traceparent"), Some(TRACE), "{message:?}");
    if let Some(prefix) = B::ATTRIBUTES {
        for (name, value) in attributes(&detail.event) {
            assert_eq!(header(&format!("{prefix}{name}")), Some(value.as_str()), "{name} of {message:?}");
        }
    }
    if let Some(key) = &message.key {
        assert_eq!(Some(key), detail.event.key.as_ref());
    }
}

fn attributes(event: &Event) -> [(&'static str, String); 6] {
    [
        ("specversion", "1.0".into()),
        ("id", event.id.to_string()),
        ("source", "/posthaste/default".into()),
        ("type", "order.created".into()),
        ("partitionkey", event.key.clone().unwrap_or_default()),
        ("traceparent", TRACE.into()),
    ]
}

/// The body is a CloudEvent in JSON, with the payload inside.
pub async fn the_structured_form_holds_everything<B: SinkBench>(bench: &B) {
    let mut trial = Trial::new().await;
    trial.commit(events(false)).await;
    let worker =
        trial.log.posthaste.sink(Trial::subscription(), bench.structured()).start().await.expect("start");
    let received = received_at_least(bench, trial.committed.len()).await;
    worker.stop().await;
    for message in &received {
        let body: Value = serde_json::from_slice(&message.body).expect("JSON");
        let committed =
            trial.committed.iter().find(|c| Some(c.id.to_string().as_str()) == body["id"].as_str());
        let committed = committed.unwrap_or_else(|| panic!("no such event: {body}"));
        assert_eq!((&body["specversion"], &body["type"]), (&json!("1.0"), &json!("order.created")));
        let expected =
            serde_json::from_slice::<Value>(&committed.payload).ok().filter(|_| body.get("data").is_some());
        match expected {
            Some(expected) => assert_eq!(body["data"], expected),
            None => assert!(body["data_base64"].is_string(), "{body}"),
        }
    }
    results::passed(bench, "structured", json!({ "events": received.len() }));
}

/// Ten thousand events of two hundred keys: none lost, none twice, none out of order.
pub async fn ten_thousand_events_arrive_once_in_order<B: SinkBench>(bench: &B) {
    let mut trial = Trial::new().await;
    trial.commit_numbered(10_000, 200).await;
    let worker = trial.log.posthaste.sink(Trial::subscription(), bench.sink()).start().await.expect("start");
    until("all are settled", async || worker.counters().delivered() >= 10_000).await;
    let received = received_at_least(bench, 10_000).await;
    let retried = worker.counters().retried();
    worker.stop().await;
    let verdict = trial.verdict(&received);
    let inversions = if B::ORDERED { verdict.inversions } else { 0 };
    assert_eq!(
        (verdict.lost, verdict.ghosts, verdict.duplicates, verdict.corrupted),
        (0, 0, 0, 0),
        "{verdict}"
    );
    assert_eq!((inversions, retried), (0, 0), "{verdict}");
    let facts = json!({ "events": received.len(), "lost": verdict.lost, "duplicates": verdict.duplicates,
        "inversions": if B::ORDERED { json!(verdict.inversions) } else { json!("no order promised") } });
    results::passed(bench, "ten thousand", facts);
}
