//! Runs until idle: what they wait for, what they report, how the clock is moved, and the words of a run that cannot end.

mod common;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use posthaste::{Event, Handler, NewEvent, Subscription};
use posthaste_testkit::{Kit, Recorder, suite};

/// Makes a test for every database of a scenario.
macro_rules! on_every_database {
    ($($scenario:ident),+ $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $scenario() {
            scenarios::$scenario(&common::sqlite().await).await;
            for database in common::postgres().await {
                scenarios::$scenario(&database).await;
            }
        }
    )+ };
}

on_every_database! {
    a_run_delivers_what_is_there_and_reports_it,
    a_run_of_nothing_ends_at_once,
    a_failure_is_tried_once_a_run_however_short_its_backoff,
    minutes_of_backoff_pass_without_waiting,
    delayed_events_come_when_the_clock_says_so_and_in_order,
    a_strict_subscription_waits_with_all_behind_it,
    a_dead_letter_that_blocks_leaves_its_key_behind,
    a_receiver_that_is_away_ends_the_run_and_costs_no_attempt,
    a_run_does_not_end_while_an_event_is_in_flight,
    a_run_that_cannot_end_says_what_it_waits_for,
    a_run_that_was_dropped_leaves_everything_to_the_next,
    a_paused_subscription_is_named,
    a_moved_clock_lets_dedupe_keys_expire,
    a_running_worker_takes_up_what_a_moved_clock_makes_due,
    not_everything_delivered_is_a_failure_with_a_list,
    many_events_of_many_lanes_are_all_waited_for,
}

/// A handler that enqueues the next lower number; sqlx's pools have types of their own.
macro_rules! count_down {
    ($db:expr) => {{
        let db = $db;
        let (pool, posthaste, recorder) = (db.pool.clone(), db.posthaste.clone(), Recorder::accepting());
        posthaste.enqueue(&mut pool.acquire().await.unwrap(), NewEvent::bytes("n", "4")).await.unwrap();
        let handler = {
            let (posthaste, recorder) = (posthaste.clone(), recorder.clone());
            move |event: Arc<Event>| {
                let (pool, posthaste, recorder) = (pool.clone(), posthaste.clone(), recorder.clone());
                async move {
                    let number: u32 = event.text().unwrap().parse().unwrap();
                    // Noted first: the next one may be delivered before this handler has returned.
                    let outcome = recorder.handle(event).await;
                    if let Some(next) = number.checked_sub(1) {
                        let next = NewEvent::bytes("n", next.to_string());
                        posthaste.enqueue(&mut pool.acquire().await.unwrap(), next).await.unwrap();
                    }
                    outcome
                }
            }
        };
        let subscription = Subscription::new("countdown").unwrap();
        let report = Kit::of(&posthaste).run_until_idle(posthaste.handler(subscription, handler)).await;
        assert_eq!(report.delivered, 5);
        let texts: Vec<String> = recorder.delivered().iter().map(|e| e.text().unwrap().to_owned()).collect();
        assert_eq!(texts, ["4", "3", "2", "1", "0"]);
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_enqueues_belongs_to_the_run() {
    count_down!(common::sqlite().await);
    for db in common::postgres().await {
        count_down!(db);
    }
}

/// The words of the panic in which it ends.
async fn awaited_complaint<T>(asserts: impl Future<Output = T>) -> String {
    common::words(AssertUnwindSafe(asserts).catch_unwind().await.err().expect("it must not pass"))
}

mod scenarios {
    use std::time::Duration;

    use posthaste::{AfterDead, NewEvent, Order, Outcome, Subscription};
    use posthaste_testkit::{Flaky, Recorder, Why};

    use super::awaited_complaint;
    use super::suite::{Backend, event, numbered};
    use crate::common::{complaint, kit};

    fn subscription() -> Subscription {
        Subscription::new("billing").expect("a name")
    }

    /// Minutes, as in earnest.
    fn slow() -> Subscription {
        subscription().settings(|s| {
            s.base_delay = Duration::from_secs(120);
            s.max_delay = Duration::from_secs(3600);
            s.max_attempts = 3;
        })
    }

    fn texts(recorder: &Recorder) -> Vec<String> {
        recorder.delivered().iter().map(|event| event.text().expect("text").to_owned()).collect()
    }

    pub(crate) async fn a_run_delivers_what_is_there_and_reports_it(db: &impl Backend) {
        db.commit(numbered("k", 5)).await;
        let recorder = Recorder::accepting();
        let report = kit(db).run_until_idle(db.posthaste().handler(subscription(), recorder.clone())).await;
        assert_eq!((report.delivered, report.retried, report.dead), (5, 0, 0));
        assert_eq!(texts(&recorder), ["k-00000", "k-00001", "k-00002", "k-00003", "k-00004"]);
        report.assert_all_delivered();
        let report = kit(db).run_until_idle(db.posthaste().sink(subscription(), recorder.clone())).await;
        assert_eq!((report.delivered, recorder.attempts().len()), (0, 5));
    }

    pub(crate) async fn a_run_of_nothing_ends_at_once(db: &impl Backend) {
        let report =
            kit(db).run_until_idle(db.posthaste().handler(subscription(), Recorder::accepting())).await;
        assert_eq!((report.delivered, report.left.len(), report.waiting_until()), (0, 0, None));
    }

    /// A backoff of a millisecond is over long before the run is; still one attempt a run.
    pub(crate) async fn a_failure_is_tried_once_a_run_however_short_its_backoff(db: &impl Backend) {
        for (name, order) in [("key", Order::Key), ("none", Order::None), ("strict", Order::Strict)] {
            let subscription = || {
                let named = Subscription::new(name).expect("a name").order(order).topic(name);
                named.settings(|s| {
                    s.base_delay = Duration::from_millis(1);
                    s.max_delay = Duration::from_millis(1);
                })
            };
            db.commit(vec![NewEvent::bytes(name, "x").key("k")]).await;
            let flaky = Flaky::accepting().fail_first(3);
            let mut runs = Vec::new();
            for _ in 0..4 {
                let recorder = Recorder::around(flaky.clone());
                kit(db).run_until_idle(db.posthaste().handler(subscription(), recorder.clone())).await;
                runs.push(recorder.attempts().len());
                kit(db).advance_to_next(name).await;
            }
            assert_eq!(runs, [1, 1, 1, 1], "{name}");
            kit(db)
                .run_until_idle(db.posthaste().handler(subscription(), flaky))
                .await
                .assert_all_delivered();
        }
    }

    pub(crate) async fn minutes_of_backoff_pass_without_waiting(db: &impl Backend) {
        let kit = kit(db);
        db.commit(vec![event("a", "a-1"), event("a", "a-2"), event("b", "b-1")]).await;
        let recorder = Recorder::around(Flaky::accepting().rule(|event, attempt| {
            let fails = event.text() == Some("a-1") && attempt <= 2;
            fails.then(|| posthaste_testkit::Fate::Outcome(Outcome::retry("not yet")))
        }));
        let worker = || db.posthaste().handler(slow(), recorder.clone());
        let first = kit.run_until_idle(worker()).await;
        assert_eq!(
            (first.delivered, first.retried, first.waiting().len(), first.behind().len()),
            (1, 1, 1, 1)
        );
        let Why::Waiting { due_in, .. } = first.waiting()[0].why else { panic!("it waits") };
        assert!((30..=120).contains(&due_in.as_secs()), "{due_in:?}");
        // Not yet.
        kit.advance(due_in - Duration::from_secs(20)).await;
        assert_eq!(kit.run_until_idle(worker()).await.retried, 0);
        kit.advance(Duration::from_secs(20)).await;
        let second = kit.run_until_idle(worker()).await;
        assert_eq!((second.delivered, second.retried, second.waiting()[0].attempts), (0, 1, 2));
        let moved = kit.advance_to_next("billing").await.expect("it waits");
        assert!((110..=240).contains(&moved.as_secs()), "{moved:?}");
        let third = kit.run_until_idle(worker()).await;
        assert_eq!((third.delivered, third.retried), (2, 0));
        assert_eq!(texts(&recorder), ["b-1", "a-1", "a-2"]);
        third.assert_all_delivered();
    }

    pub(crate) async fn delayed_events_come_when_the_clock_says_so_and_in_order(db: &impl Backend) {
        let kit = kit(db);
        let hours = |n: u64| Duration::from_secs(3600 * n);
        let after = |n, body| event("k", body).delay(hours(n));
        db.commit(vec![after(3, "third"), after(1, "first"), event("k", "now"), after(2, "second")]).await;
        let recorder = Recorder::accepting();
        let worker = || db.posthaste().handler(subscription(), recorder.clone());
        // Before a worker has seen them, and after: both are moved.
        kit.advance(hours(1) - Duration::from_secs(600)).await;
        let report = kit.run_until_idle(worker()).await;
        assert_eq!(
            (report.delivered, report.waiting().len(), texts(&recorder)),
            (1, 3, vec!["now".to_owned()])
        );
        kit.advance(Duration::from_secs(600)).await;
        assert_eq!(kit.run_until_idle(worker()).await.delivered, 1);
        let rest = kit.run_until_settled(worker).await;
        assert_eq!((rest.delivered, rest.left.len()), (2, 0));
        assert_eq!(texts(&recorder), ["now", "first", "second", "third"]);
    }

    pub(crate) async fn a_strict_subscription_waits_with_all_behind_it(db: &impl Backend) {
        let kit = kit(db);
        db.commit(numbered("k", 3)).await;
        db.commit(vec![event("other", "o-1")]).await;
        let recorder = Recorder::around(Flaky::accepting().rule(|event, attempt| {
            let fails = event.text() == Some("k-00001") && attempt == 1;
            fails.then(|| posthaste_testkit::Fate::Outcome(Outcome::retry("not yet")))
        }));
        let worker = || db.posthaste().handler(slow().order(Order::Strict), recorder.clone());
        let first = kit.run_until_idle(worker()).await;
        assert_eq!(
            (first.delivered, first.retried, first.waiting().len(), first.behind().len()),
            (1, 1, 1, 2)
        );
        assert_eq!(first.waiting()[0].last_error.as_deref(), Some("not yet"));
        let again = kit.run_until_idle(worker()).await;
        assert_eq!((again.delivered, again.retried), (0, 0));
        let rest = kit.run_until_settled(worker).await;
        assert_eq!((rest.delivered, rest.retried), (3, 0));
        assert_eq!(texts(&recorder), ["k-00000", "k-00001", "k-00002", "o-1"]);
        rest.assert_all_delivered();
    }

    pub(crate) async fn a_dead_letter_that_blocks_leaves_its_key_behind(db: &impl Backend) {
        db.commit(vec![event("a", "a-1"), event("a", "a-2"), event("b", "b-1")]).await;
        let flaky = Flaky::accepting().fail_keys(["a"]);
        let blocking = || db.posthaste().handler(slow().after_dead(AfterDead::Block), flaky.clone());
        let report = kit(db).run_until_settled(blocking).await;
        assert_eq!((report.delivered, report.retried, report.dead), (1, 2, 1));
        let dead = report.dead_letters();
        assert_eq!((dead.len(), dead[0].attempts, report.behind().len()), (1, 3, 1));
        assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("key a was made to fail")));
    }

    pub(crate) async fn a_receiver_that_is_away_ends_the_run_and_costs_no_attempt(db: &impl Backend) {
        db.commit(numbered("k", 3)).await;
        for (name, order) in [("key", Order::Key), ("none", Order::None), ("strict", Order::Strict)] {
            let subscription = || Subscription::new(name).expect("a name").order(order);
            let flaky = Flaky::accepting();
            flaky.go_away("the cable is cut");
            for _ in 0..2 {
                let report = kit(db).run_until_idle(db.posthaste().sink(subscription(), flaky.clone())).await;
                assert!(report.receiver_away, "{name}");
                assert_eq!((report.delivered, report.dead, report.left.len()), (0, 0, 3), "{name}\n{report}");
                assert!(report.left.iter().all(|event| event.attempts == 0), "{name}\n{report}");
            }
            flaky.come_back();
            let report = kit(db).run_until_idle(db.posthaste().sink(subscription(), flaky)).await;
            assert_eq!((report.delivered, report.receiver_away), (3, false), "{name}\n{report}");
        }
    }

    pub(crate) async fn a_run_does_not_end_while_an_event_is_in_flight(db: &impl Backend) {
        db.commit(vec![event("slow", "s"), event("quick", "q")]).await;
        let flaky = Flaky::accepting().hang_keys(["slow"]);
        let kit = kit(db);
        let run = kit.run_until_idle(db.posthaste().handler(subscription(), flaky.clone()));
        tokio::pin!(run);
        tokio::select! {
            report = &mut run => panic!("it ended while an event was in flight:\n{report}"),
            () = async {
                flaky.until_hanging(1).await;
                // It has looked many times by now, and found the other event settled or both in flight.
                let left = async || kit.not_delivered("billing").await;
                for _ in 0..20 {
                    assert!(left().await.iter().any(|event| event.why == Why::InFlight));
                }
            } => {}
        }
        flaky.release();
        assert_eq!(run.await.delivered, 2);
    }

    pub(crate) async fn a_run_that_cannot_end_says_what_it_waits_for(db: &impl Backend) {
        db.commit(vec![event("slow", "s")]).await;
        let flaky = Flaky::accepting().hang_keys(["slow"]);
        let kit = kit(db).bound(Duration::from_millis(300));
        let worker = || db.posthaste().handler(subscription(), flaky.clone());
        // In flight elsewhere before the time of the run begins: on a slow machine its own worker might not come that far.
        let elsewhere = worker().start().await.expect("start");
        flaky.until_hanging(1).await;
        let words = awaited_complaint(kit.run_until_idle(worker())).await;
        assert!(
            words.starts_with("the subscription did not come to rest within 300ms:\n  billing: delivered 0"),
            "{words}"
        );
        assert!(words.contains("in flight: topic \"orders\", key \"slow\""), "{words}");
        flaky.release();
        elsewhere.stop().await;
    }

    /// As in a test that gives a run a time of its own: its worker must not go on, and what it put off must come.
    pub(crate) async fn a_run_that_was_dropped_leaves_everything_to_the_next(db: &impl Backend) {
        db.commit(vec![event("bad", "b"), event("slow", "s")]).await;
        let kit = kit(db);
        let quick = || {
            subscription().settings(|s| {
                (s.base_delay, s.max_delay) = (Duration::from_millis(1), Duration::from_millis(1));
                s.lease = Duration::from_secs(2);
            })
        };
        let flaky = Flaky::accepting().fail_keys(["bad"]).hang_keys(["slow"]);
        {
            let run = kit.run_until_idle(db.posthaste().handler(quick(), flaky.clone()));
            tokio::select! {
                report = run => panic!("it ended while an event was in flight:\n{report}"),
                () = flaky.until_hanging(1) => {}
            }
        }
        // What failed was put off to the end of a run that did not come to its end. What hangs is let go when the lease of a
        // worker that has stopped is over.
        super::suite::until("what failed waits", async || {
            let left = kit.not_delivered("billing").await;
            left.iter().any(|event| matches!(event.why, Why::Waiting { .. }))
        })
        .await;
        let report = kit.run_until_idle(db.posthaste().handler(quick(), Recorder::accepting())).await;
        assert_eq!(report.delivered, 2, "{report}");
    }

    pub(crate) async fn a_paused_subscription_is_named(db: &impl Backend) {
        let kit = kit(db);
        let worker = || db.posthaste().handler(subscription(), Recorder::accepting());
        kit.run_until_idle(worker()).await;
        db.posthaste().admin().pause("billing").await.expect("pause");
        db.commit(vec![event("k", "x")]).await;
        let words = awaited_complaint(kit.run_until_idle(worker())).await;
        assert!(words.starts_with("the subscription is paused, so nothing would ever happen"), "{words}");
    }

    pub(crate) async fn a_moved_clock_lets_dedupe_keys_expire(db: &impl Backend) {
        let once = || vec![event("k", "x").dedupe_key("once").dedupe_for(Duration::from_secs(3600))];
        assert!(!db.commit(once()).await[0].duplicate);
        assert!(db.commit(once()).await[0].duplicate);
        kit(db).advance(Duration::from_secs(3600)).await;
        assert!(!db.commit(once()).await[0].duplicate);
    }

    pub(crate) async fn a_running_worker_takes_up_what_a_moved_clock_makes_due(db: &impl Backend) {
        db.commit(vec![event("k", "x")]).await;
        let recorder = Recorder::around(Flaky::accepting().fail_first(1));
        let worker = db.posthaste().handler(slow(), recorder.clone()).start().await.expect("start");
        recorder.wait_for(1).await;
        super::suite::until("the retry waits", async || {
            kit(db)
                .not_delivered("billing")
                .await
                .iter()
                .any(|event| matches!(event.why, Why::Waiting { .. }))
        })
        .await;
        kit(db).advance(Duration::from_secs(120)).await;
        assert_eq!(recorder.wait_for(2).await[1].outcome, Some(Outcome::Delivered));
        worker.stop().await;
    }

    pub(crate) async fn not_everything_delivered_is_a_failure_with_a_list(db: &impl Backend) {
        db.commit(vec![event("a", "x"), event("b", "y")]).await;
        let flaky = Flaky::accepting().refuse_keys(["a"]);
        let report = kit(db).run_until_idle(db.posthaste().handler(subscription(), flaky)).await;
        assert_eq!(
            complaint(|| report.assert_all_delivered()),
            "not everything was delivered:\n  billing: delivered 1, retried 0, dead 1\n  dead: topic \"orders\", key \
             \"a\", error \"key a was made to be refused\", attempts 1"
        );
    }

    pub(crate) async fn many_events_of_many_lanes_are_all_waited_for(db: &impl Backend) {
        let events = (0..40).map(|n| event(&format!("k{}", n % 17), &n.to_string())).collect();
        db.commit(events).await;
        let recorder = Recorder::around(Flaky::accepting().fail_first(1));
        let lanes = || db.posthaste().handler(slow().lanes(4), recorder.clone());
        let report = kit(db).run_until_settled(lanes).await;
        assert_eq!((report.delivered, report.retried, report.left.len()), (40, 40, 0), "{report}");
        assert_eq!(recorder.attempts().len(), 80);
    }
}
