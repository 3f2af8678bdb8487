//! Waking up: promptly when somebody rings, in time when nobody does.

use std::time::Duration;

use posthaste::{Order, Start};

use super::{Backend, Script, event, quick};

/// Ten minutes between polls, and still every event arrives: somebody rang.
pub async fn an_enqueue_in_another_process_wakes_a_sleeping_worker(db: &impl Backend) {
    for order in [Order::Key, Order::None, Order::Strict] {
        let script = Script::accepting();
        let subscription = quick(order.as_str())
            .order(order)
            .start(Start::Now)
            .settings(|s| s.poll_interval = Duration::from_secs(600));
        // The worker belongs to another process than the producer.
        let worker = db.another().await.handler(subscription, script.clone()).start().await.expect("start");
        for n in 1..=4 {
            db.commit(vec![event("k", &n.to_string())]).await;
            script.accepted.wait_for(n).await;
            // Long enough to fall asleep between two of them.
            tokio::time::sleep(Duration::from_millis(150 * n as u64)).await;
        }
        worker.stop().await;
    }
}

/// Without any ring, polling is always underneath.
pub async fn polling_alone_finds_what_nobody_rang_for(db: &impl Backend) {
    for order in [Order::Key, Order::None, Order::Strict] {
        let script = Script::accepting();
        let subscription = quick(order.as_str()).order(order).start(Start::Now);
        let worker = db.another().await.handler(subscription, script.clone()).start().await.expect("start");
        for n in 1..=3 {
            db.commit_silently(vec![event("k", &n.to_string())]).await;
            script.accepted.wait_for(n).await;
        }
        worker.stop().await;
    }
}
