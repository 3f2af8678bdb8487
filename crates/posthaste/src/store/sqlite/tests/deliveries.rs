//! Deliveries: due, claimed, settled, expired, buried.

use crate::subscription::AfterDead;

use super::*;

/// A batch of these keys, all of which failed at once and are due (or parked) now.
async fn failed(bench: &Bench, reader: &Reader, keys: &[&str]) {
    bench.enqueue_keys(keys).await;
    let worker = holder("first", LONG);
    let batch = bench.claim(reader, &worker).await;
    let troubles: Vec<Trouble> = (0..keys.len()).map(|i| trouble(&batch, i, retry(Duration::ZERO))).collect();
    assert!(bench.store.settle_batch(reader, reference(&batch), &troubles, &worker).await.unwrap());
    bench.store.release_lane(reader, batch.lane, batch.token).await.unwrap();
}

#[tokio::test]
async fn only_the_head_of_a_key_is_claimed_and_its_end_wakes_the_next() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    failed(&bench, &reader, &["a", "a", "b"]).await;
    let worker = holder("w", LONG);
    let claims = bench.due(&reader, &worker).await;
    assert_eq!(claimed_seqs(&claims), [1, 3]);
    assert_eq!((claims[0].attempts, claims[0].key.as_deref()), (2, Some("a")));
    assert!(bench.due(&reader, &worker).await.is_empty());
    assert_eq!(bench.settle(&reader, &claims[0], Settlement::Delivered).await, [1]);
    assert_eq!(claimed_seqs(&bench.due(&reader, &worker).await), [2]);
    assert_eq!(bench.statuses("billing").await, ["delivered", "processing", "processing"]);
}

#[tokio::test]
async fn a_late_settle_changes_nothing() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    failed(&bench, &reader, &["a"]).await;
    let late = bench.due(&reader, &holder("a", SHORT)).await.remove(0);
    outlast(SHORT).await;
    let now = bench.due(&reader, &holder("b", LONG)).await.remove(0);
    assert_eq!((now.attempts, now.solo), (2, true), "claimed together with others, it got its attempt back");
    for settlement in
        [Settlement::Delivered, retry(LONG), Settlement::Dead { error: "x".into() }, Settlement::Park]
    {
        assert!(bench.settle(&reader, &late, settlement).await.is_empty());
    }
    assert_eq!(
        (bench.delivery(1, "status").await, bench.delivery(1, "locked_by").await),
        ("processing".into(), "b".into())
    );
    assert_eq!(bench.settle(&reader, &now, Settlement::Delivered).await, [1]);
}

#[tokio::test]
async fn settlements_write_what_they_say() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    failed(&bench, &reader, &["a", "b", "c", "d"]).await;
    let claims = bench.due(&reader, &holder("w", LONG)).await;
    bench.settle(&reader, &claims[0], retry(LONG)).await;
    bench.settle(&reader, &claims[1], Settlement::Dead { error: "bad".into() }).await;
    bench.settle(&reader, &claims[2], Settlement::GiveBack { delay: LONG }).await;
    bench.settle(&reader, &claims[3], Settlement::Park).await;
    assert_eq!(bench.statuses("billing").await, ["pending", "dead", "pending", "pending"]);
    let mut attempts = Vec::new();
    for seq in 1..=4 {
        attempts.push(bench.delivery(seq, "attempts").await);
    }
    assert_eq!(attempts, ["2", "2", "1", "1"], "given back: the attempt is not counted");
    let history: Vec<crate::lease::Attempt> =
        serde_json::from_str(&bench.delivery(2, "history").await).unwrap();
    assert_eq!(history.iter().map(|line| line.outcome.as_str()).collect::<Vec<_>>(), ["retry", "dead"]);
    let wait = bench.store.next_due(&reader, true).await.unwrap();
    assert_eq!(wait, Some(Duration::ZERO), "the head of its key does not stay parked");
}

#[tokio::test]
async fn the_history_keeps_twenty_lines() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().settings(|s| s.max_attempts = 100)).await;
    failed(&bench, &reader, &["a"]).await;
    for _ in 0..22 {
        let claim = bench.next_due(&reader, &holder("w", LONG)).await.remove(0);
        bench.settle(&reader, &claim, retry(Duration::ZERO)).await;
    }
    let history: Vec<crate::lease::Attempt> =
        serde_json::from_str(&bench.delivery(1, "history").await).unwrap();
    assert_eq!((history.len(), history[0].attempt, history[19].attempt), (20, 4, 23));
}

#[tokio::test]
async fn an_event_that_kills_its_worker_dies_alone() {
    let bench = Bench::new().await;
    let reader = bench
        .subscribe(subscription().settings(|s| {
            s.max_attempts = 3;
            s.base_delay = Duration::from_millis(1);
        }))
        .await;
    failed(&bench, &reader, &["a", "b"]).await;
    assert_eq!(bench.due(&reader, &holder("w1", SHORT)).await.len(), 2);
    let mut innocent = None;
    for worker in 0..20 {
        outlast(SHORT).await;
        let claims = bench.due(&reader, &holder(&format!("v{worker}"), SHORT)).await;
        assert!(claims.len() <= 1, "they are claimed alone now");
        for claim in claims.into_iter().filter(|claim| claim.event.seq == 2) {
            bench.settle(&reader, &claim, Settlement::Delivered).await;
            innocent = Some(claim.attempts);
        }
    }
    assert_eq!(innocent, Some(2));
    assert_eq!(bench.statuses("billing").await, ["dead", "delivered"]);
    assert_eq!(bench.delivery(1, "attempts").await, "3");
    assert!(bench.delivery(1, "last_error").await.contains("was lost during attempt 3"));
}

#[tokio::test]
async fn rows_at_a_lowered_limit_are_buried_and_their_key_goes_on() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    failed(&bench, &reader, &["a", "a"]).await;
    sqlx::query("update posthaste_deliveries set attempts = 0 where seq = 2")
        .execute(&bench.store.pool)
        .await
        .unwrap();
    let reader = bench.subscribe(subscription().settings(|s| s.max_attempts = 1)).await;
    assert_eq!(claimed_seqs(&bench.due(&reader, &holder("w", LONG)).await), [2]);
    assert_eq!(bench.statuses("billing").await, ["dead", "processing"]);
    assert_eq!(bench.delivery(1, "last_error").await, "no");
}

#[tokio::test]
async fn a_dead_letter_blocks_its_key_if_the_policy_says_so() {
    for (policy, next) in [(AfterDead::Skip, vec![2]), (AfterDead::Block, vec![])] {
        let bench = Bench::new().await;
        let reader = bench.subscribe(subscription().after_dead(policy)).await;
        failed(&bench, &reader, &["a", "a"]).await;
        let head = bench.due(&reader, &holder("w", LONG)).await.remove(0);
        bench.settle(&reader, &head, Settlement::Dead { error: "x".into() }).await;
        assert_eq!(claimed_seqs(&bench.due(&reader, &holder("w", LONG)).await), next, "{policy:?}");
        bench.enqueue_keys(&["a", "b"]).await;
        sqlx::query("delete from posthaste_deliveries where seq = 2")
            .execute(&bench.store.pool)
            .await
            .unwrap();
        let page = bench.claim(&reader, &holder("w", LONG)).await;
        let blocked: Vec<bool> = page.events.iter().map(|claimed| claimed.blocked).collect();
        assert_eq!(blocked, [policy == AfterDead::Block, false]);
    }
}

#[tokio::test]
async fn expired_rows_of_one_key_queue_up_again() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().claim_by(crate::subscription::ClaimBy::Event)).await;
    bench.enqueue_keys(&["a", "a", "a"]).await;
    let worker = holder("w", SHORT);
    let lane = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    let Fresh::Deliveries(claims) = bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await else {
        panic!("expected deliveries")
    };
    assert_eq!(claims.len(), 3);
    outlast(SHORT).await;
    for seq in 1..=3 {
        let claims = bench.due(&reader, &holder("v", LONG)).await;
        assert_eq!(claimed_seqs(&claims), [seq]);
        assert!(bench.due(&reader, &holder("v", LONG)).await.is_empty());
        bench.settle(&reader, &claims[0], Settlement::Delivered).await;
    }
}

#[tokio::test]
async fn a_renewed_lease_is_not_taken_back() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    failed(&bench, &reader, &["a"]).await;
    let claim = bench.due(&reader, &holder("w", Duration::from_millis(200))).await.remove(0);
    assert_eq!(bench.store.renew(&reader, &[claim.token, Token::new()], LONG).await.unwrap(), [claim.token]);
    outlast(Duration::from_millis(200)).await;
    assert!(bench.due(&reader, &holder("v", LONG)).await.is_empty());
    let wait = bench.store.next_due(&reader, true).await.unwrap().unwrap();
    assert!(wait > LONG / 2 && wait <= LONG);
}

#[tokio::test]
async fn an_edited_payload_is_what_is_sent() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    failed(&bench, &reader, &["a"]).await;
    sqlx::query("update posthaste_deliveries set edited_payload = x'0102'")
        .execute(&bench.store.pool)
        .await
        .unwrap();
    assert_eq!(bench.due(&reader, &holder("w", LONG)).await[0].event.payload, [1, 2]);
}

#[tokio::test]
async fn workers_are_counted_while_they_are_seen() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    let seen = Duration::from_millis(500);
    assert_eq!(bench.store.announce_worker(&reader, &holder("a", seen)).await.unwrap(), 1);
    assert_eq!(bench.store.announce_worker(&reader, &holder("b", LONG)).await.unwrap(), 2);
    outlast(seen).await;
    assert_eq!(bench.store.announce_worker(&reader, &holder("b", LONG)).await.unwrap(), 1);
}
