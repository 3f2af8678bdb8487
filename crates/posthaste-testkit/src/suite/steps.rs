//! Attempts and steps: what a sink learns about what was tried before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::admin::{DeliveryQuery, ReplayFrom};
use posthaste::{ClaimBy, EventId, Order, Outcome, Page, Sink, Start, Subscription, Worker};

use super::{Backend, event, quick, until};

/// Every way to claim, with a name for its subscription.
fn ways() -> impl Iterator<Item = Subscription> {
    let ways = [
        (Order::Key, ClaimBy::Batch),
        (Order::Key, ClaimBy::Event),
        (Order::None, ClaimBy::Batch),
        (Order::None, ClaimBy::Event),
        (Order::Strict, ClaimBy::Batch),
    ];
    ways.into_iter().map(|(order, claim_by)| {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        // On a slow machine one more attempt may fall due than a scenario waits for: that must not make a dead letter.
        let patient = quick(&name).settings(|s| s.max_attempts = 50);
        patient.order(order).claim_by(claim_by).start(Start::Now)
    })
}

/// The attempts that a sink saw, as (body, attempt, step).
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, u32, u32)>>>);

impl Seen {
    fn note(&self, page: &Page, index: usize) {
        let body = page.events()[index].text().unwrap_or_default().to_owned();
        let seen = (body, page.attempt(index), page.step(index));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// (attempt, step) of each attempt at the event with this body.
    fn of(&self, body: &str) -> Vec<(u32, u32)> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|seen| seen.0 == body).map(|(_, attempt, step)| (*attempt, *step)).collect()
    }

    async fn wait_for(&self, count: usize) {
        until(&format!("the sink saw {count} attempts"), async || self.len() >= count).await;
    }
}

/// Notes each attempt, then does with the event what it was told.
struct Noting<F> {
    seen: Seen,
    act: F,
}

#[async_trait]
impl<F: Fn(&mut Page, usize) + Send + Sync + 'static> Sink for Noting<F> {
    async fn deliver(&self, page: &mut Page) {
        for index in 0..page.events().len() {
            self.seen.note(page, index);
            (self.act)(page, index);
        }
    }
}

async fn work(
    db: &impl Backend,
    subscription: &Subscription,
    seen: &Seen,
    act: impl Fn(&mut Page, usize) + Send + Sync + 'static,
) -> Worker {
    let sink = Noting { seen: seen.clone(), act };
    db.another().await.sink(subscription.clone(), sink).start().await.expect("start")
}

async fn commit_one(db: &impl Backend, body: &str) -> EventId {
    db.commit(vec![event(body, body)]).await.remove(0).id
}

async fn dead(db: &impl Backend, subscription: &str) {
    until("it is dead", async || {
        let rows = db.deliveries(subscription).await;
        rows.first().is_some_and(|row| row.status == "dead")
    })
    .await;
}

/// 1, 2, 3 over two retries, however it is claimed.
pub async fn attempts_are_numbered_from_one(db: &impl Backend) {
    for subscription in ways() {
        let seen = Seen::default();
        let worker = work(db, &subscription, &seen, |page, index| match page.attempt(index) {
            1 | 2 => page.mark(index, Outcome::retry("not yet")),
            _ => page.delivered(index),
        })
        .await;
        commit_one(db, "e").await;
        seen.wait_for(3).await;
        worker.stop().await;
        assert_eq!(seen.of("e"), [(1, 0), (2, 0), (3, 0)], "{subscription:?}");
    }
}

/// One worker finishes a step and fails at the next; the worker that follows it sees that.
pub async fn the_next_worker_goes_on_at_the_step_that_was_reached(db: &impl Backend) {
    for subscription in ways() {
        let (before, after) = (Seen::default(), Seen::default());
        let worker = work(db, &subscription, &before, |page, index| {
            page.reached(index, 1);
            page.mark(index, Outcome::retry_after(Duration::from_millis(500), "step 2 failed"));
        })
        .await;
        commit_one(db, "e").await;
        before.wait_for(1).await;
        worker.stop().await;
        let worker = work(db, &subscription, &after, Page::delivered).await;
        after.wait_for(1).await;
        worker.stop().await;
        // Another attempt may have fallen due before the stop.
        let made = u32::try_from(before.len()).expect("few attempts");
        assert_eq!(before.of("e")[0], (1, 0), "{subscription:?}");
        assert_eq!(after.of("e"), [(made + 1, 1)], "{subscription:?}");
    }
}

/// Steps belong to events, not to pages; what never counts steps stays at 0.
pub async fn each_event_of_a_page_has_its_own_step(db: &impl Backend) {
    for subscription in ways() {
        let seen = Seen::default();
        let worker = work(db, &subscription, &seen, |page, index| {
            let body = page.events()[index].text().unwrap_or_default().to_owned();
            match (body.as_str(), page.attempt(index)) {
                ("twice", attempt @ 1..=2) => page.reached(index, attempt),
                ("once", 1) => page.reached(index, 7),
                ("never", 1) => {}
                _ => return page.delivered(index),
            }
            page.mark(index, Outcome::retry("not yet"));
        })
        .await;
        db.commit(["twice", "once", "never"].map(|body| event(body, body)).into()).await;
        seen.wait_for(7).await;
        worker.stop().await;
        assert_eq!(seen.of("twice"), [(1, 0), (2, 1), (3, 2)], "{subscription:?}");
        assert_eq!(seen.of("once"), [(1, 0), (2, 7)], "{subscription:?}");
        assert_eq!(seen.of("never"), [(1, 0), (2, 0)], "{subscription:?}");
    }
}

/// What was reached before the end came is known, whatever the end was.
pub async fn a_step_counts_although_the_attempt_panics_or_takes_too_long(db: &impl Backend) {
    struct Ending(Seen);
    #[async_trait]
    impl Sink for Ending {
        async fn deliver(&self, page: &mut Page) {
            self.0.note(page, 0);
            page.reached(0, page.attempt(0));
            match page.attempt(0) {
                1 => panic!("in step 2"),
                2 => std::future::pending().await,
                _ => page.delivered(0),
            }
        }
    }
    for subscription in ways() {
        let seen = Seen::default();
        let subscription = subscription.settings(|s| s.timeout = Duration::from_millis(200));
        let worker = db.posthaste().sink(subscription.clone(), Ending(seen.clone())).start();
        let worker = worker.await.expect("start");
        commit_one(db, "e").await;
        seen.wait_for(3).await;
        worker.stop().await;
        assert_eq!(seen.of("e"), [(1, 0), (2, 1), (3, 2)], "{subscription:?}");
    }
}

/// While the receiver is away nothing is written; the stop writes what the worker remembers. No attempt is counted.
pub async fn a_step_reached_before_the_receiver_went_away_survives_a_stop(db: &impl Backend) {
    for subscription in ways() {
        let (before, after) = (Seen::default(), Seen::default());
        let worker = work(db, &subscription, &before, |page, index| {
            page.reached(index, 1);
            page.mark(index, Outcome::unavailable("connection refused"));
        })
        .await;
        commit_one(db, "e").await;
        before.wait_for(2).await;
        worker.stop().await;
        let worker = work(db, &subscription, &after, Page::delivered).await;
        after.wait_for(1).await;
        worker.stop().await;
        assert_eq!(before.of("e")[..2], [(1, 0), (1, 1)], "{subscription:?}");
        assert_eq!(after.of("e"), [(1, 1)], "{subscription:?}");
    }
}

/// A person's retry counts attempts anew and keeps the step; another body has no finished steps.
pub async fn a_revived_dead_letter_goes_on_at_its_step_unless_it_was_edited(db: &impl Backend) {
    for subscription in ways() {
        let (seen, admin) = (Seen::default(), db.posthaste().admin());
        let name = subscription.name().as_str();
        let worker = work(db, &subscription, &seen, |page, index| {
            page.reached(index, page.step(index) + 1);
            page.mark(index, Outcome::dead("rejected"));
        })
        .await;
        let id = commit_one(db, "e").await;
        dead(db, name).await;
        assert_eq!(admin.retry(&DeliveryQuery::event(name, id)).await.expect("retry"), 1);
        seen.wait_for(2).await;
        dead(db, name).await;
        assert_eq!(admin.edit_and_retry(name, id, "edited").await.expect("edit"), 1);
        seen.wait_for(3).await;
        dead(db, name).await;
        worker.stop().await;
        assert_eq!(seen.of("e"), [(1, 0), (1, 1)], "{subscription:?}");
        assert_eq!(seen.of("edited"), [(1, 0)], "{subscription:?}");
    }
}

/// A replay means everything again, also for what has a delivery from before; below its place nothing changes.
pub async fn a_replay_begins_with_the_first_step_again(db: &impl Backend) {
    for subscription in ways() {
        let (seen, admin) = (Seen::default(), db.posthaste().admin());
        let name = subscription.name().as_str();
        let worker = work(db, &subscription, &seen, |page, index| {
            page.reached(index, 1);
            page.mark(index, Outcome::dead("rejected"));
        })
        .await;
        commit_one(db, "below").await;
        let from = commit_one(db, "above").await;
        until("both are dead", async || {
            db.deliveries(name).await.iter().filter(|r| r.status == "dead").count() == 2
        })
        .await;
        admin.replay(name, ReplayFrom::Event(from)).await.expect("replay");
        assert_eq!(admin.retry(&DeliveryQuery::dead(name)).await.expect("retry"), 2);
        seen.wait_for(4).await;
        worker.stop().await;
        assert_eq!(seen.of("below"), [(1, 0), (1, 1)], "{subscription:?}");
        assert_eq!(seen.of("above"), [(1, 0), (1, 0)], "{subscription:?}");
    }
}
