//! A crash of the server can undo claims that did not wait for the disk: their events are claimed again, at once, and none
//! is lost, whatever the worker still has of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Event, Handler, Outcome};
use posthaste_testkit::suite::{Backend, event, quick, until};
use posthaste_testkit::{Ledger, TestDatabase};
use sqlx::Executor;

/// Accepts everything, but the first attempt at all never ends.
#[derive(Debug, Clone, Default)]
struct HangsOnce {
    hung: Arc<AtomicBool>,
    accepted: Ledger,
}

#[async_trait]
impl Handler for HangsOnce {
    async fn handle(&self, event: Arc<Event>) -> Outcome {
        if !self.hung.swap(true, Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.accepted.accept(&event);
        Outcome::Delivered
    }
}

#[tokio::test]
async fn events_of_a_claim_that_was_undone_are_claimed_again_with_those_that_came_late() {
    let db = TestDatabase::new().await;
    let handler = HangsOnce::default();
    let mut late = db.pool.begin().await.unwrap();
    db.posthaste.enqueue(&mut late, event("k", "late")).await.unwrap();
    db.commit(vec![event("k", "early")]).await;
    // Nobody can wait for that lease.
    let patient = quick("s").settings(|settings| settings.lease = Duration::from_secs(600));
    let worker = db.posthaste.handler(patient, handler.clone()).start().await.unwrap();
    until("the handler hangs", async || handler.hung.load(Ordering::SeqCst)).await;
    db.pool.execute("delete from posthaste.batches").await.unwrap();
    late.commit().await.unwrap();
    db.posthaste.wake();
    handler.accepted.wait_for(2).await;
    assert_eq!(handler.accepted.texts(), ["late", "early"], "in the order of the log");
    until("all is settled", async || {
        let open = "select count(*) from posthaste.batches where finished_at is null";
        sqlx::query_scalar::<_, i64>(open).fetch_one(&db.pool).await.unwrap() == 0
    })
    .await;
    worker.stop().await;
}
