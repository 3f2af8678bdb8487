//! While a receiver is away it is probed with one event at a time, and not always with the same one; an event that finds it
//! away although others reach it leaves its batch. So it holds up nobody.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Order, Outcome, Page, Sink};
use posthaste_testkit::SqliteDatabase;
use posthaste_testkit::suite::{numbered, quick};
use tokio::sync::Mutex;

/// Away for two keys, and well for all others. Remembers what it accepted.
#[derive(Default)]
struct AwayForSome(Mutex<Vec<(String, String)>>);

#[async_trait]
impl Sink for AwayForSome {
    async fn deliver(&self, page: &mut Page) {
        for (index, event) in page.events().to_vec().into_iter().enumerate() {
            let key = event.key.clone().unwrap_or_default();
            if ["bad", "worse"].contains(&key.as_str()) {
                return page.mark_rest(&Outcome::unavailable("not for these"));
            }
            self.0.lock().await.push((key, event.text().unwrap_or_default().to_owned()));
            page.delivered(index);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_alone_find_the_receiver_away_hold_up_nobody() {
    for order in [Order::Key, Order::None] {
        let db = SqliteDatabase::new().await;
        let keys = [("bad", 1), ("worse", 2), ("a", 20), ("b", 20)];
        let events: Vec<_> = keys.into_iter().flat_map(|(key, count)| numbered(key, count)).collect();
        let mut tx = db.pool.begin_with("begin immediate").await.expect("begin");
        db.posthaste.enqueue_many(&mut *tx, events).await.expect("enqueue");
        tx.commit().await.expect("commit");
        let sink = Arc::new(AwayForSome::default());
        // A page with it and the next one: if it were waited for, there would be no room for a third.
        let subscription = quick("s").order(order).settings(|settings| settings.batch_size = 5);
        let worker = db.posthaste.sink(subscription, sink.clone()).start().await.expect("start");
        // Each failed probe doubles the pause before the next.
        tokio::time::timeout(Duration::from_secs(120), async {
            while sink.0.lock().await.len() < 40 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("all others arrive");
        let counters = worker.counters().clone();
        worker.stop().await;
        assert_eq!((counters.retried(), counters.dead()), (0, 0), "{order:?}");
        if order == Order::Key {
            for key in ["a", "b"] {
                let accepted = sink.0.lock().await;
                let texts: Vec<&String> =
                    accepted.iter().filter(|(of, _)| of == key).map(|(_, text)| text).collect();
                assert!(texts.is_sorted() && texts.len() == 20, "{texts:?}");
            }
        }
    }
}
