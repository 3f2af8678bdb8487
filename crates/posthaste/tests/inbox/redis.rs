//! What is special about Redis: leases, tokens, fences, and a connection that breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::redis::FromRedisValue;
use posthaste::inbox::{Claim, Entered, Once, OnceError, RedisInbox};
use posthaste::{Error, ErrorKind};
use posthaste_testkit::Gate;

use super::bench::{Act, Bench, LEASE, Pause, RedisBench, bounded};

const KEY: &str = "posthaste:evt:processed:billing:e-1";

/// Enters, waiting for whoever is inside.
async fn enter(inbox: &RedisInbox, id: &str) -> Option<Claim> {
    let entering = async {
        loop {
            match inbox.enter(id).await.unwrap() {
                Entered::First(claim) => return Some(claim),
                Entered::Duplicate => return None,
                Entered::Busy { retry_after } => tokio::time::sleep(retry_after.min(LEASE)).await,
            }
        }
    };
    bounded(entering).await
}

#[tokio::test]
async fn the_key_is_the_documented_one_and_lives_for_720_hours_once_it_is_done() {
    let bench = RedisBench::new().await;
    bench.once("billing", "e-1", Act::Succeed).await.unwrap().is_handled();
    let keys: Vec<String> = bench.run(&["KEYS", "*"]).await;
    assert_eq!(keys, [KEY]);
    let left: i64 = bench.run(&["TTL", KEY]).await;
    assert!((719 * 3600..=720 * 3600).contains(&left), "{left}");
    let elsewhere = bench.inbox("billing").prefix("shop:eu").unwrap();
    assert_eq!(elsewhere.once("e-1", async |_| Ok::<_, ()>(())).await.unwrap(), Once::Done(()));
    let found: i64 = bench.run(&["EXISTS", "shop:eu:evt:processed:billing:e-1"]).await;
    assert_eq!(found, 1);
    for bad in ["", "a b", "a\n", "ä", "*"] {
        assert!(bench.inbox("billing").prefix(bad).is_err(), "{bad:?}");
    }
    for bad in ["", "a:b", "a b", "a*"] {
        assert!(bench.inbox("billing").for_consumer(bad).is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn a_copy_beside_a_running_one_is_told_when_to_come_again() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(Duration::from_secs(60));
    let Entered::First(claim) = inbox.enter("e-1").await.unwrap() else { panic!("the first") };
    let Entered::Busy { retry_after } = inbox.enter("e-1").await.unwrap() else { panic!("busy") };
    assert!(retry_after > Duration::ZERO && retry_after <= Duration::from_secs(60), "{retry_after:?}");
    claim.finish().await.unwrap();
    assert!(matches!(inbox.enter("e-1").await.unwrap(), Entered::Duplicate));
}

#[tokio::test]
async fn a_late_owner_changes_nothing_and_is_told() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(Duration::from_millis(100));
    for verb in ["renew", "finish", "release"] {
        let late = enter(&inbox, verb).await.expect("the first");
        let newer =
            enter(&inbox.clone().lease(Duration::from_secs(60)), verb).await.expect("after the lease");
        assert!(newer.fence() > late.fence(), "{verb}");
        let told = match verb {
            "renew" => late.renew().await,
            "finish" => late.finish().await,
            _ => late.release().await,
        };
        assert!(matches!(told, Err(Error::LeaseLost)), "{verb}");
        assert!(
            matches!(inbox.enter(verb).await.unwrap(), Entered::Busy { .. }),
            "{verb}: the newer one holds it"
        );
        newer.finish().await.unwrap();
        assert!(matches!(inbox.enter(verb).await.unwrap(), Entered::Duplicate), "{verb}");
    }
}

#[tokio::test]
async fn a_late_owner_cannot_touch_what_a_newer_one_has_released_or_done() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(Duration::from_millis(100));
    let late = enter(&inbox, "released").await.unwrap();
    enter(&inbox, "released").await.unwrap().release().await.unwrap();
    assert!(matches!(late.finish().await, Err(Error::LeaseLost)));
    let third = enter(&inbox, "released").await.expect("still to be done");
    third.finish().await.unwrap();
    let late = enter(&inbox, "done").await.unwrap();
    enter(&inbox, "done").await.unwrap().finish().await.unwrap();
    assert!(matches!(late.release().await, Err(Error::LeaseLost)));
    assert!(enter(&inbox, "done").await.is_none(), "a duplicate");
}

/// Nobody else has entered, so the effect happened once, and saying so is right.
#[tokio::test]
async fn a_lease_that_ran_out_unnoticed_can_still_be_finished() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(Duration::from_millis(100));
    let Entered::First(claim) = inbox.enter("e-1").await.unwrap() else { panic!("the first") };
    while lease_end(&bench).await > server_millis(&bench).await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    claim.finish().await.unwrap();
    assert!(matches!(inbox.enter("e-1").await.unwrap(), Entered::Duplicate));
}

async fn lease_end(bench: &RedisBench) -> u64 {
    let value: String = bench.run(&["GET", KEY]).await;
    value.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn server_millis(bench: &RedisBench) -> u64 {
    let (seconds, micros): (u64, u64) = bench.run(&["TIME"]).await;
    seconds * 1000 + micros / 1000
}

#[tokio::test]
async fn the_lease_is_renewed_while_the_effect_runs() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(LEASE);
    let (pause, consumer) = (Pause::new(), inbox.clone());
    let act = pause.then(Act::Succeed);
    let running = tokio::spawn(async move { consumer.once("e-1", async |_| act.run().await).await });
    pause.entered().await;
    let (mut renewals, mut last) = (0, lease_end(&bench).await);
    // Four renewals are longer than the lease.
    while renewals < 4 {
        assert!(matches!(inbox.enter("e-1").await.unwrap(), Entered::Busy { .. }));
        let end = lease_end(&bench).await;
        renewals += usize::from(end > last);
        last = end;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pause.go_on();
    assert_eq!(running.await.unwrap().unwrap(), Once::Done(()));
}

/// A consumer's loop runs in a task: the future must be `Send`, also when the effect borrows.
#[tokio::test]
async fn an_effect_that_borrows_what_it_needs_runs_in_a_task() {
    let bench = RedisBench::new().await;
    let (inbox, body) = (bench.inbox("billing"), b"body".to_vec());
    let consuming = tokio::spawn(async move {
        inbox.once("e-1", async |fence| Ok::<_, ()>((fence.number() > 0, inbox.clone(), body.len()))).await
    });
    let Once::Done((fenced, _, length)) = consuming.await.unwrap().unwrap() else { panic!("done") };
    assert_eq!((fenced, length), (true, 4));
}

#[tokio::test]
async fn an_effect_that_lost_its_lease_is_dropped_and_told() {
    let bench = RedisBench::new().await;
    let (pause, consumer) = (Pause::new(), bench.clone());
    let act = pause.then(Act::Succeed);
    let running = tokio::spawn(async move { consumer.once("billing", "e-1", act).await });
    pause.entered().await;
    let _: String = bench.run(&["SET", KEY, "held 9000000000000000 somebody 9000000000000"]).await;
    let lost = bounded(running).await.unwrap();
    assert!(matches!(lost, Err(OnceError::Inbox(Error::LeaseLost))), "{lost:?}");
    assert_eq!(bench.effects("billing", "e-1").await, 0);
    let value: String = bench.run(&["GET", KEY]).await;
    assert_eq!(value, "held 9000000000000000 somebody 9000000000000", "untouched");
}

#[tokio::test]
async fn fences_grow_also_when_the_server_has_lost_the_key() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing");
    let mut last = 0;
    for round in 0..6 {
        let claim = enter(&inbox, "e-1").await.unwrap();
        assert!(claim.fence().number() > last, "round {round}");
        last = claim.fence().number();
        claim.release().await.unwrap();
        if round % 2 == 1 {
            let _: String = bench.run(&["FLUSHALL"]).await;
        }
    }
}

#[tokio::test]
async fn a_mark_that_the_server_lost_is_written_again_by_its_owner() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(Duration::from_secs(60));
    let claim = enter(&inbox, "e-1").await.unwrap();
    let _: String = bench.run(&["FLUSHALL"]).await;
    claim.renew().await.unwrap();
    assert!(matches!(inbox.enter("e-1").await.unwrap(), Entered::Busy { .. }));
    let _: String = bench.run(&["FLUSHALL"]).await;
    claim.finish().await.unwrap();
    assert!(matches!(inbox.enter("e-1").await.unwrap(), Entered::Duplicate));
}

#[tokio::test]
async fn what_a_plain_setnx_has_marked_is_a_duplicate_and_can_be_forgotten() {
    let bench = RedisBench::new().await;
    for value in ["1", "processed", "", "held", "2026-01-01T00:00:00Z x y z"] {
        let _: String = bench.run(&["SET", KEY, value]).await;
        assert!(
            matches!(bench.inbox("billing").enter("e-1").await.unwrap(), Entered::Duplicate),
            "{value:?}"
        );
    }
    bench.inbox("billing").forget("e-1").await.unwrap();
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
}

/// The first call may have been heard although its answer was lost: the second one, under the same token, finds that.
#[tokio::test]
async fn every_verb_may_be_repeated_under_its_token() {
    let bench = RedisBench::new().await;
    let first = say(&bench, "enter", "mine", 0).await;
    assert_eq!(first.0, "first");
    assert_eq!(say(&bench, "enter", "mine", 0).await, first, "with the same fence");
    for verb in ["renew", "renew", "release", "release"] {
        assert_eq!(say(&bench, verb, "mine", first.1).await, ("kept".to_owned(), 0), "{verb}");
    }
    let second = say(&bench, "enter", "mine", 0).await;
    assert!(second.1 > first.1);
    for verb in ["finish", "finish"] {
        assert_eq!(say(&bench, verb, "mine", second.1).await, ("kept".to_owned(), 0));
    }
    for verb in ["renew", "release"] {
        assert_eq!(say(&bench, verb, "mine", second.1).await.0, "lost", "{verb}: done stays done");
    }
    assert_eq!(say(&bench, "enter", "mine", 0).await.0, "duplicate");
}

async fn say(bench: &RedisBench, verb: &str, token: &str, fence: i64) -> (String, i64) {
    let script = include_str!("../../src/inbox/redis/guard.lua");
    let words = ["EVAL", script, "1", KEY, verb, token, "60000", "60000", &fence.to_string()];
    let answer: ::redis::Value = bench.run(&words).await;
    FromRedisValue::from_redis_value(answer).unwrap()
}

/// A consumer whose connection goes through a gate, and a count of its effects.
async fn behind_a_gate(bench: &RedisBench, lease: Duration) -> (Arc<Gate>, RedisInbox) {
    let gate = Gate::before(bench.server.port()).await;
    let url = format!("redis://127.0.0.1:{}", gate.port());
    let inbox = RedisInbox::connect(&url, "billing").await.unwrap().lease(lease);
    (gate, inbox)
}

#[tokio::test]
async fn a_connection_that_breaks_during_the_effect_is_opened_again_to_finish() {
    let bench = RedisBench::new().await;
    let (gate, inbox) = behind_a_gate(&bench, Duration::from_secs(100)).await;
    let effects = AtomicUsize::new(0);
    let done = inbox
        .once("e-1", async |_| {
            gate.shut().await;
            effects.fetch_add(1, Ordering::SeqCst);
            let gate = gate.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                gate.open().await;
            });
            Ok::<_, ()>(())
        })
        .await;
    assert_eq!(done.unwrap(), Once::Done(()));
    assert!(matches!(inbox.enter("e-1").await.unwrap(), Entered::Duplicate));
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

/// As when a firewall forgot the connection: nothing breaks, and no answer ever comes on it.
#[tokio::test]
async fn a_connection_that_fell_silent_is_replaced() {
    let bench = RedisBench::new().await;
    let (gate, inbox) = behind_a_gate(&bench, Duration::from_secs(100)).await;
    let clone = inbox.clone();
    let effect = async |_| {
        gate.abandon_connections();
        Ok::<_, ()>(())
    };
    assert_eq!(bounded(inbox.once("e-1", effect)).await.unwrap(), Once::Done(()));
    assert!(matches!(bounded(clone.enter("e-1")).await.unwrap(), Entered::Duplicate));
}

/// What remains, and the guide says so: the effect has happened, the mark has not, and the next copy runs it again.
#[tokio::test]
async fn an_effect_whose_mark_cannot_be_written_is_not_acknowledged() {
    let bench = RedisBench::new().await;
    let (gate, inbox) = behind_a_gate(&bench, LEASE).await;
    let effects = AtomicUsize::new(0);
    let shutting = inbox.once("e-1", async |_| {
        gate.shut().await;
        effects.fetch_add(1, Ordering::SeqCst);
        Ok::<_, ()>(())
    });
    let failed = bounded(shutting).await;
    assert!(
        matches!(&failed, Err(OnceError::Inbox(error)) if error.kind() == ErrorKind::Unavailable),
        "{failed:?}"
    );
    let refused = inbox.once("e-2", async |_| Ok::<_, ()>(effects.fetch_add(1, Ordering::SeqCst))).await;
    assert!(matches!(refused, Err(OnceError::Inbox(_))), "no effect while nobody can be asked");
    assert_eq!(effects.load(Ordering::SeqCst), 1);
    gate.open().await;
    let again = async {
        loop {
            let answer =
                inbox.once("e-1", async |_| Ok::<_, ()>(effects.fetch_add(1, Ordering::SeqCst))).await;
            if matches!(answer, Ok(Once::Done(_))) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    bounded(again).await;
    assert_eq!(effects.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said() {
    let port = posthaste_testkit::free_port();
    let started = Instant::now();
    let refused = RedisInbox::connect(&format!("redis://127.0.0.1:{port}"), "billing").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().starts_with("connect to Redis: "), "{refused}");
    assert!(started.elapsed() < Duration::from_secs(120));
    let wrong = RedisInbox::connect("no address", "billing").await.unwrap_err();
    assert!(wrong.to_string().starts_with("connect to Redis: "), "{wrong}");
}

#[tokio::test]
async fn marks_survive_a_server_that_writes_them_to_disk_and_is_killed() {
    let bench = RedisBench::new().await;
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
    bench.server.kill();
    bench.server.bring_back().await;
    let answered = async {
        loop {
            match bench.once("billing", "e-1", Act::Succeed).await {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    assert_eq!(bounded(answered).await, Once::Duplicate);
}
