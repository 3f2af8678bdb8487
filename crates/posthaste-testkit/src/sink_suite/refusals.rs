//! What the server refuses: single events, our password, the destination.

use std::sync::Arc;

use posthaste::admin::DeliveryQuery;
use posthaste::{AfterDead, NewEvent, Sink};
use serde_json::json;

use super::{SUBSCRIPTION, SinkBench, Trial, received_at_least, results, until};

/// Every tenth event is too large (or not text, where only text can be sent): dead at the first attempt, with a reason;
/// the others arrive, in order, and the connection survives.
pub async fn a_refused_event_is_dead_and_the_others_go_on<B: SinkBench>(bench: &B) {
    let Some(refused) = refused::<B>(bench) else {
        return results::not_applicable(bench, "refused", "takes whatever the log takes");
    };
    let mut trial = Trial::new().await;
    let mut good = Vec::new();
    for n in 0..50_u32 {
        let (key, text) = (format!("key-{}", n % 5), format!("good {n}"));
        let payload = if n % 10 == 3 { refused.clone() } else { text.into_bytes() };
        let event = NewEvent::bytes("orders", payload.clone()).content_type("text/plain").key(&key);
        trial.commit(vec![(key, payload, event)]).await;
        if n % 10 != 3 {
            good.extend(trial.committed.last().cloned());
        }
    }
    let subscription = Trial::subscription().after_dead(AfterDead::Skip);
    let worker = trial.log.posthaste.sink(subscription, bench.sink()).start().await.expect("start");
    until("five are dead", async || worker.counters().dead() == 5).await;
    let received = received_at_least(bench, 45).await;
    let retried = worker.counters().retried();
    worker.stop().await;
    trial.committed = good;
    let verdict = trial.verdict(&received);
    let inversions = if B::ORDERED { verdict.inversions } else { 0 };
    assert_eq!((verdict.lost, verdict.duplicates, verdict.corrupted, inversions), (0, 0, 0, 0), "{verdict}");
    assert_eq!(retried, 0, "a refusal is not tried again");
    results::passed(bench, "refused", json!({ "dead": 5, "delivered": received.len(), "retried": retried }));
}

fn refused<B: SinkBench>(bench: &B) -> Option<Vec<u8>> {
    match bench.too_large() {
        Some(size) => Some(vec![b'x'; size]),
        None => B::TEXT_ONLY.then(|| vec![0xff, 0xfe]),
    }
}

/// The subscription waits; nothing is dead, nothing is gone, and the right password delivers everything.
pub async fn wrong_credentials_lose_nothing<B: SinkBench>(bench: &B) {
    match bench.with_wrong_credentials() {
        Some(sink) => waits_until_it_is_put_right(bench, sink, "credentials").await,
        None => results::not_applicable(bench, "credentials", "this server knows no passwords"),
    }
}

async fn waits_until_it_is_put_right<B: SinkBench>(bench: &B, wrong: Arc<dyn Sink>, scenario: &str) {
    let mut trial = Trial::new().await;
    trial.commit_numbered(20, 4).await;
    assert!(wrong.check().await.is_err(), "the health check says so");
    let worker = trial.log.posthaste.sink(Trial::subscription(), wrong).start().await.expect("start");
    until("it was tried twice", async || worker.counters().unavailable() >= 2).await;
    let (delivered, dead) = (worker.counters().delivered(), worker.counters().dead());
    worker.stop().await;
    assert_eq!((delivered, dead), (0, 0));
    let worker = trial.log.posthaste.sink(Trial::subscription(), bench.sink()).start().await.expect("start");
    let received = received_at_least(bench, 20).await;
    worker.stop().await;
    let verdict = trial.verdict(&received);
    assert!(verdict.is_perfect(), "{verdict}");
    results::passed(bench, scenario, json!({ "dead": dead, "lost": verdict.lost }));
}

/// Whatever the sink says of it (its table tells), every event is still there for the right destination.
pub async fn an_unknown_destination_loses_nothing<B: SinkBench>(bench: &B) {
    let Some(wrong) = bench.to_unknown_destination() else {
        return results::not_applicable(bench, "unknown destination", "every destination exists");
    };
    let mut trial = Trial::new().await;
    trial.commit_numbered(20, 4).await;
    let worker = trial.log.posthaste.sink(Trial::subscription(), wrong).start().await.expect("start");
    let counters = worker.counters().clone();
    let said = async || counters.unavailable() + counters.retried() + counters.dead() >= 2;
    until("it was tried", said).await;
    worker.stop().await;
    assert_eq!(counters.delivered(), 0);
    trial.log.posthaste.admin().retry(&DeliveryQuery::all(SUBSCRIPTION)).await.expect("revive");
    let worker = trial.log.posthaste.sink(Trial::subscription(), bench.sink()).start().await.expect("start");
    let received = received_at_least(bench, 20).await;
    worker.stop().await;
    let verdict = trial.verdict(&received);
    assert!(verdict.is_perfect(), "{verdict}");
    let facts = json!({ "delivered": counters.delivered(), "dead": counters.dead(), "lost": verdict.lost });
    results::passed(bench, "unknown destination", facts);
}
