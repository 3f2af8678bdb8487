//! Claims by hand: leases, tokens, attempts, and what happens when a claimer is lost.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use posthaste::{ClaimBy, Claimed, Error, EventId, Order, Outcome, Start, Subscription};

use super::{Backend, Process, Script, claim_some, event, numbered, quick, until};

fn leased(order: Order, millis: u64) -> Subscription {
    quick("s").order(order).settings(|s| {
        s.lease = Duration::from_millis(millis);
        s.max_attempts = 2;
    })
}

fn ids(claimed: &[Claimed]) -> Vec<EventId> {
    claimed.iter().map(|claimed| claimed.event().id).collect()
}

fn texts(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|claimed| claimed.event().text().unwrap_or_default()).collect()
}

/// Delivered goes away, retry comes again, dead stays.
pub async fn claimed_events_are_settled_by_hand(db: &impl Backend) {
    let enqueued = db.commit(vec![event("a", "1"), event("b", "2"), event("c", "3")]).await;
    let mut claims = db.posthaste().claims(&quick("s")).await.expect("claims");
    let claimed = claims.claim(10).await.expect("claim");
    assert_eq!(texts(&claimed), ["1", "2", "3"]);
    assert!(db.deliveries("s").await.iter().all(|row| row.status == "processing" && row.locked_by.is_some()));
    assert!(claims.claim(10).await.expect("claim").is_empty(), "all are held");
    let outcomes = [Outcome::Delivered, Outcome::retry("later"), Outcome::dead("never")];
    for (claimed, outcome) in claimed.into_iter().zip(outcomes) {
        claims.settle(claimed, outcome).await.expect("settle");
    }
    let rows = db.deliveries("s").await;
    assert_eq!(
        rows.iter().map(|row| (row.id, row.status.as_str())).collect::<Vec<_>>(),
        [(enqueued[1].id, "pending"), (enqueued[2].id, "dead")]
    );
    let again = claim_some(&mut claims, 10).await.remove(0);
    assert_eq!((again.event().id, again.attempts()), (enqueued[1].id, 2));
    claims.settle(again, Outcome::Delivered).await.expect("settle");
    assert_eq!(db.deliveries("s").await.len(), 1);
    let strict = db.posthaste().claims(&quick("strict").order(Order::Strict)).await;
    assert_eq!(strict.err().map(|error| error.kind()), Some(posthaste::ErrorKind::Invalid));
}

/// Four claimers in two processes, small pages: every event once.
pub async fn two_claimers_never_get_the_same_event(db: &impl Backend) {
    let (other, count) = (db.another().await, 120);
    db.commit(numbered("k", count)).await;
    let subscription = quick("s").order(Order::None);
    let claim_all = async |posthaste: &posthaste::Posthaste| {
        let mut claims = posthaste.claims(&subscription).await.expect("claims");
        let mut got = Vec::new();
        loop {
            let claimed = claims.claim(7).await.expect("claim");
            if claimed.is_empty() {
                return got;
            }
            for claimed in claimed {
                got.push(claimed.event().id);
                claims.settle(claimed, Outcome::Delivered).await.expect("settle");
            }
        }
    };
    let (a, b, c, d) = tokio::join!(
        claim_all(db.posthaste()),
        claim_all(&other),
        claim_all(db.posthaste()),
        claim_all(&other)
    );
    let all: Vec<EventId> = [a, b, c, d].concat();
    assert_eq!(all.len(), count);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), count);
    assert_eq!(db.deliveries("s").await, []);
}

/// The token is the fence: a late settle, retry or renewal gets an error and touches nothing.
pub async fn an_expired_lease_gives_the_event_to_the_other_and_the_late_settle_changes_nothing(
    db: &impl Backend,
) {
    db.commit(vec![event("k", "x"), event("l", "y"), event("m", "z")]).await;
    let other = db.another().await;
    let subscription = leased(Order::None, 300);
    let mut slow = db.posthaste().claims(&subscription).await.expect("claims");
    let held = claim_some(&mut slow, 10).await;
    let mut fast = other.claims(&subscription).await.expect("claims");
    let mut taken = Vec::new();
    while taken.len() < 3 {
        taken.extend(claim_some(&mut fast, 10).await);
        for claimed in &taken {
            fast.renew(claimed).await.expect("renew");
        }
    }
    let mut late = held.into_iter();
    let before = db.deliveries("s").await;
    for outcome in [Outcome::Delivered, Outcome::retry("late"), Outcome::dead("late")] {
        let claimed = late.next().expect("three were held");
        assert!(matches!(slow.renew(&claimed).await, Err(Error::LeaseLost)));
        assert!(matches!(slow.settle(claimed, outcome).await, Err(Error::LeaseLost)));
    }
    let unmoved = |rows: Vec<super::Delivery>| -> Vec<_> {
        rows.into_iter()
            .map(|row| (row.id, row.status, row.attempts, row.locked_by, row.last_error))
            .collect()
    };
    assert_eq!(unmoved(db.deliveries("s").await), unmoved(before));
    for claimed in taken {
        fast.settle(claimed, Outcome::Delivered).await.expect("the holder settles");
    }
    assert_eq!(db.deliveries("s").await, []);
}

/// The same claimer twice: the worker's name is no fence, the token is.
pub async fn a_claimer_that_claims_again_is_fenced_from_its_former_claim(db: &impl Backend) {
    for order in [Order::Key, Order::None] {
        let name = order.as_str();
        let id = db.commit(vec![event("k", "x")]).await[0].id;
        let subscription = quick(name)
            .order(order)
            .start(Start::Event(id))
            .settings(|s| s.lease = Duration::from_millis(300));
        let mut claims = db.posthaste().claims(&subscription).await.expect("claims");
        let former = claim_some(&mut claims, 1).await.remove(0);
        let newer = claim_some(&mut claims, 1).await.remove(0);
        assert_eq!(former.event().id, newer.event().id);
        assert!(matches!(claims.settle(former, Outcome::retry("late")).await, Err(Error::LeaseLost)));
        let row = db.deliveries(name).await.remove(0);
        assert_eq!((row.status.as_str(), row.last_error), ("processing", None), "the newer claim goes on");
        claims.settle(newer, Outcome::Delivered).await.expect("settle");
        // What is gone cannot be brought back.
        assert_eq!(db.deliveries(name).await, []);
    }
}

/// A crash is not reported by anybody: the lease runs out.
pub async fn what_a_lost_claimer_held_can_be_claimed_after_its_lease(db: &impl Backend) {
    for order in [Order::Key, Order::None] {
        let name = format!("lost-{}", order.as_str());
        let enqueued = db.commit(numbered(&name, 3)).await;
        let wanted: HashSet<EventId> = enqueued.iter().map(|enqueued| enqueued.id).collect();
        let subscription = quick(&name)
            .order(order)
            .start(Start::Event(enqueued[0].id))
            .settings(|s| s.lease = Duration::from_millis(400));
        let mut lost = db.posthaste().claims(&subscription).await.expect("claims");
        assert_eq!(claim_some(&mut lost, 10).await.len(), 3);
        drop(lost);
        let mut heir = db.another().await.claims(&subscription).await.expect("claims");
        let mut got = Vec::new();
        while got.len() < 3 {
            for claimed in claim_some(&mut heir, 10).await {
                assert_eq!(claimed.attempts(), 1, "the lost claim is held against nobody yet");
                got.push(claimed.event().id);
                heir.settle(claimed, Outcome::Delivered).await.expect("settle");
            }
        }
        assert_eq!(got.iter().copied().collect::<HashSet<_>>(), wanted);
        if order == Order::Key {
            assert_eq!(got, enqueued.iter().map(|enqueued| enqueued.id).collect::<Vec<_>>());
        }
        assert_eq!(db.deliveries(&name).await, []);
    }
}

/// Counted when claimed; a release is no attempt.
pub async fn attempts_are_counted_at_claim_and_given_back_by_release(db: &impl Backend) {
    db.commit(vec![event("k", "x")]).await;
    let mut claims = db.posthaste().claims(&quick("s")).await.expect("claims");
    for _ in 0..3 {
        let claimed = claim_some(&mut claims, 1).await.remove(0);
        assert_eq!(claimed.attempts(), 1);
        assert_eq!(db.deliveries("s").await[0].attempts, 1);
        claims.release(claimed).await.expect("release");
        let row = db.deliveries("s").await.remove(0);
        assert_eq!((row.status.as_str(), row.attempts), ("pending", 0));
    }
    for attempt in 1..=2 {
        let claimed = claim_some(&mut claims, 1).await.remove(0);
        assert_eq!(claimed.attempts(), attempt);
        claims.settle(claimed, Outcome::retry("x")).await.expect("settle");
    }
    let claimed = claim_some(&mut claims, 1).await.remove(0);
    claims.settle(claimed, Outcome::unavailable("away")).await.expect("settle");
    assert_eq!(db.deliveries("s").await[0].attempts, 2, "an outage is no attempt");
}

/// Nothing stays `processing` for ever, and nobody dies for being claimed together with a killer.
pub async fn a_row_at_the_limit_whose_worker_died_becomes_dead_and_its_neighbours_do_not(db: &impl Backend) {
    for order in [Order::Key, Order::None] {
        let name = order.as_str();
        let events = db.commit(vec![event("a", "fine"), event("b", "kills"), event("c", "fine")]).await;
        let killer = events[1].id;
        let subscription = quick(name).order(order).start(Start::Event(events[0].id)).settings(|s| {
            s.lease = Duration::from_millis(200);
            s.max_attempts = 2;
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut delivered = Vec::new();
        // A claimer that dies whenever it holds the killer: whatever it holds besides is lost with it.
        'next: while !db.deliveries(name).await.iter().any(|row| row.status == "dead") || delivered.len() < 2
        {
            assert!(Instant::now() < deadline, "{name}: {:?}", db.deliveries(name).await);
            let mut claims = db.posthaste().claims(&subscription).await.expect("claims");
            while Instant::now() < deadline {
                let claimed = claims.claim(10).await.expect("claim");
                if ids(&claimed).contains(&killer) {
                    continue 'next;
                }
                if claimed.is_empty() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    if db.deliveries(name).await.iter().any(|row| row.status == "dead")
                        && delivered.len() >= 2
                    {
                        break;
                    }
                }
                for claimed in claimed {
                    delivered.push(claimed.event().id);
                    claims.settle(claimed, Outcome::Delivered).await.expect("settle");
                }
            }
        }
        let rows = db.deliveries(name).await;
        assert_eq!((rows.len(), rows[0].id, rows[0].attempts), (1, killer, 2), "{name}: {rows:?}");
        assert!(rows[0].last_error.as_deref().is_some_and(|error| error.contains("lost")), "{rows:?}");
        assert_eq!(delivered.len(), 2, "{name}");
    }
}

/// Renewal holds it for as long as it is needed.
pub async fn a_renewed_lease_is_not_given_away(db: &impl Backend) {
    db.commit(vec![event("k", "x")]).await;
    let subscription = leased(Order::None, 500);
    let mut holder = db.posthaste().claims(&subscription).await.expect("claims");
    let claimed = claim_some(&mut holder, 1).await.remove(0);
    let mut thief = db.another().await.claims(&subscription).await.expect("claims");
    let until = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < until {
        holder.renew(&claimed).await.expect("renew");
        assert!(thief.claim(1).await.expect("claim").is_empty());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    holder.settle(claimed, Outcome::Delivered).await.expect("settle");
    assert_eq!(db.deliveries("s").await, []);
}

/// The next event of a key waits until the one before it is settled.
pub async fn in_key_order_only_the_head_of_a_key_is_claimed(db: &impl Backend) {
    db.commit(vec![event("a", "a1"), event("a", "a2"), event("b", "b1"), event("a", "a3")]).await;
    let mut claims = db.posthaste().claims(&quick("s")).await.expect("claims");
    let first = claims.claim(1).await.expect("claim").remove(0);
    assert_eq!(first.event().text(), Some("a1"));
    let second = claims.claim(1).await.expect("claim");
    assert_eq!(texts(&second), ["b1"], "a2 waits for a1");
    assert!(claims.claim(10).await.expect("claim").is_empty(), "so does a3");
    claims.settle(first, Outcome::retry_after(Duration::from_millis(50), "not yet")).await.expect("settle");
    assert!(claims.claim(10).await.expect("claim").is_empty(), "a1 waits for its time, a2 for a1");
    for expected in ["a1", "a2", "a3"] {
        let claimed = claim_some(&mut claims, 10).await;
        assert_eq!(texts(&claimed), [expected]);
        for claimed in claimed {
            claims.settle(claimed, Outcome::Delivered).await.expect("settle");
        }
    }
    for claimed in second {
        claims.settle(claimed, Outcome::Delivered).await.expect("settle");
    }
    assert_eq!(db.deliveries("s").await, []);
}

/// A worker died in the middle of a batch; whoever claims by hand afterwards gets all of it, in order.
pub async fn claiming_by_hand_takes_up_what_a_lost_worker_left(db: &impl Backend) {
    for order in [Order::Key, Order::None] {
        let name = format!("left-{}", order.as_str());
        let enqueued = db.commit(numbered(&name, 4)).await;
        let subscription = quick(&name)
            .order(order)
            .start(Start::Event(enqueued[0].id))
            .settings(|s| s.lease = Duration::from_millis(400));
        let script = Script::accepting();
        let (open, by_batch, attempts) =
            (db.opener(), subscription.clone().claim_by(ClaimBy::Batch), script.attempts.clone());
        let process = Process::start(async move {
            let hang = move |event: std::sync::Arc<posthaste::Event>| {
                attempts.accept(&event);
                std::future::pending::<()>()
            };
            open().await.handler(by_batch, hang).start().await.expect("start");
        })
        .await;
        script.attempts.wait_for(1).await;
        process.kill();
        let later = db.commit(vec![event(&name, "later")]).await[0].id;
        let mut claims = db.posthaste().claims(&subscription).await.expect("claims");
        let mut got = Vec::new();
        until("all have been claimed", async || {
            for claimed in claims.claim(10).await.expect("claim") {
                got.push(claimed.event().id);
                claims.settle(claimed, Outcome::Delivered).await.expect("settle");
            }
            got.len() >= 5
        })
        .await;
        let mut expected: Vec<EventId> = enqueued.iter().map(|enqueued| enqueued.id).collect();
        expected.push(later);
        if order == Order::None {
            got.sort();
            expected.sort();
        }
        assert_eq!(got, expected, "{name}");
    }
}
