//! What every guard must do, whatever its store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::ErrorKind;
use posthaste::inbox::{Once, OnceError};

use super::bench::{
    Act, Bench, Pause, PlainSetnx, PostgresBench, RedisBench, SqliteBench, bounded, until_handled,
};

macro_rules! on_every_store {
    ($($scenario:ident),+ $(,)?) => { $(
        mod $scenario {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                super::$scenario(Arc::new(RedisBench::new().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$scenario(Arc::new(PostgresBench::new().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$scenario(Arc::new(SqliteBench::new().await)).await;
            }
        }
    )+ };
}

on_every_store! {
    a_second_copy_is_a_duplicate,
    fifty_copies_at_once_have_one_effect,
    a_failed_effect_leaves_nothing_and_the_next_copy_runs,
    a_panicking_effect_leaves_nothing_and_the_next_copy_runs,
    a_copy_whose_consumer_died_is_handled_by_the_next,
    a_copy_beside_a_failing_one_is_handled,
    consumers_do_not_see_each_other,
    odd_ids_are_told_apart_and_impossible_ones_refused,
    an_event_is_forgotten_after_its_time,
}

type Store = Arc<dyn Bench>;

async fn a_second_copy_is_a_duplicate(bench: Store) {
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
    for _ in 0..3 {
        assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Duplicate);
    }
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

async fn fifty_copies_at_once_have_one_effect(bench: Store) {
    let copies = (0..50).map(|_| {
        let bench = bench.clone();
        tokio::spawn(async move { until_handled(&*bench, "billing", "e-1").await })
    });
    let answers = futures::future::join_all(copies.collect::<Vec<_>>()).await;
    let answers: Vec<Once<()>> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Once::Done(())).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Once::Duplicate).count(), 49);
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

async fn a_failed_effect_leaves_nothing_and_the_next_copy_runs(bench: Store) {
    for _ in 0..3 {
        let failed = bench.once("billing", "e-1", Act::Fail).await;
        assert!(matches!(failed, Err(OnceError::Effect(why)) if why == "the effect failed"));
    }
    assert_eq!(bench.effects("billing", "e-1").await, 0);
    assert_eq!(bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()), "at once");
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

async fn a_panicking_effect_leaves_nothing_and_the_next_copy_runs(bench: Store) {
    let consumer = bench.clone();
    let panicked = tokio::spawn(async move { consumer.once("billing", "e-1", Act::Panic).await }).await;
    assert!(panicked.unwrap_err().is_panic(), "the panic goes on to the consumer");
    assert_eq!(bench.effects("billing", "e-1").await, 0);
    assert_eq!(until_handled(&*bench, "billing", "e-1").await, Once::Done(()));
    assert_eq!(bench.effects("billing", "e-1").await, 1);
}

/// How many effects stand after a consumer died inside the effect and the message came again.
async fn effects_after_a_death(bench: &Store) -> usize {
    let (pause, consumer) = (Pause::new(), bench.clone());
    let act = pause.then(Act::Succeed);
    let dying = tokio::spawn(async move { consumer.once("billing", "e-1", act).await });
    pause.entered().await;
    dying.abort();
    assert!(dying.await.unwrap_err().is_cancelled());
    assert!(until_handled(&**bench, "billing", "e-1").await.is_handled(), "now it may be acknowledged");
    bench.effects("billing", "e-1").await
}

async fn a_copy_whose_consumer_died_is_handled_by_the_next(bench: Store) {
    assert_eq!(effects_after_a_death(&bench).await, 1);
}

#[tokio::test]
async fn control_a_plain_setnx_loses_the_effect_of_a_consumer_that_died() {
    let bench: Store = Arc::new(PlainSetnx(RedisBench::new().await));
    assert_eq!(effects_after_a_death(&bench).await, 0, "acknowledged, and never done");
}

/// How many effects stand after the first copy failed while a second one was there. A message is not sent again once a
/// copy of it was acknowledged.
async fn effects_beside_a_failure(bench: &Store, acknowledges_at_once: bool) -> usize {
    let (pause, first) = (Pause::new(), bench.clone());
    let act = pause.then(Act::Fail);
    let failing = tokio::spawn(async move { first.once("billing", "e-1", act).await });
    pause.entered().await;
    let second = bench.clone();
    let second = tokio::spawn(async move { until_handled(&*second, "billing", "e-1").await });
    let answered = async {
        while !second.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if acknowledges_at_once {
        bounded(answered).await;
    } else {
        // A chance for the second copy to be acknowledged, if the guard is one that would do so.
        drop(tokio::time::timeout(Duration::from_millis(300), answered).await);
    }
    pause.go_on();
    assert!(matches!(failing.await.unwrap(), Err(OnceError::Effect(_))));
    assert!(bounded(second).await.unwrap().is_handled());
    bench.effects("billing", "e-1").await
}

async fn a_copy_beside_a_failing_one_is_handled(bench: Store) {
    assert_eq!(effects_beside_a_failure(&bench, false).await, 1);
}

#[tokio::test]
async fn control_a_plain_setnx_acknowledges_beside_a_copy_that_fails() {
    let bench: Store = Arc::new(PlainSetnx(RedisBench::new().await));
    assert_eq!(effects_beside_a_failure(&bench, true).await, 0, "acknowledged, and never done");
}

async fn consumers_do_not_see_each_other(bench: Store) {
    for consumer in ["billing", "Billing", "billing.", "shipping"] {
        assert_eq!(bench.once(consumer, "e-1", Act::Succeed).await.unwrap(), Once::Done(()), "{consumer}");
        assert_eq!(bench.once(consumer, "e-1", Act::Succeed).await.unwrap(), Once::Duplicate, "{consumer}");
        assert_eq!(bench.effects(consumer, "e-1").await, 1);
    }
}

async fn odd_ids_are_told_apart_and_impossible_ones_refused(bench: Store) {
    let long = "x".repeat(1024);
    let odd =
        ["e", "E", "e ", " e", "e:1", "*", "'; drop table effects; --", "{e}", "é", "e\u{301}", "%65", &long];
    for id in odd {
        assert_eq!(bench.once("billing", id, Act::Succeed).await.unwrap(), Once::Done(()), "{id:?}");
    }
    for id in odd {
        assert_eq!(bench.once("billing", id, Act::Succeed).await.unwrap(), Once::Duplicate, "{id:?}");
    }
    for id in ["", "a\0b", "a\r\nFLUSHALL\r\n", &"x".repeat(1025)] {
        let refused = bench.once("billing", id, Act::Panic).await;
        assert!(
            matches!(refused, Err(OnceError::Inbox(error)) if error.kind() == ErrorKind::Invalid),
            "{id:?}"
        );
    }
}

/// B25, said and shown: what comes again after that is new.
async fn an_event_is_forgotten_after_its_time(bench: Store) {
    let shortly = bench.keeping(Duration::from_millis(50));
    assert_eq!(bench.once("billing", "long", Act::Succeed).await.unwrap(), Once::Done(()));
    assert_eq!(shortly.once("billing", "short", Act::Succeed).await.unwrap(), Once::Done(()));
    let started = Instant::now();
    while bench.effects("billing", "short").await < 2 && started.elapsed() < Duration::from_secs(120) {
        bench.clean().await;
        assert!(bench.once("billing", "short", Act::Succeed).await.unwrap().is_handled());
    }
    assert_eq!(bench.effects("billing", "short").await, 2, "the second time it was new");
    assert_eq!(bench.once("billing", "long", Act::Succeed).await.unwrap(), Once::Duplicate);
}
