//! While a receiver is away it is probed with one event at a time, and not always with the same one: an event that alone
//! finds it away, again and again, holds up nobody.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Order, Outcome, Page, Sink};
use posthaste_testkit::SqliteDatabase;
use posthaste_testkit::suite::{numbered, quick};
use tokio::sync::Mutex;

/// Away for one key, and well for all others. Remembers what it accepted.
#[derive(Default)]
struct AwayForOne(Mutex<Vec<(String, String)>>);

#[async_trait]
impl Sink for AwayForOne {
    async fn deliver(&self, page: &mut Page) {
        for (index, event) in page.events().to_vec().into_iter().enumerate() {
            let key = event.key.clone().unwrap_or_default();
            if key == "bad" {
                return page.mark_rest(&Outcome::unavailable("not for this one"));
            }
            self.0.lock().await.push((key, event.text().unwrap_or_default().to_owned()));
            page.delivered(index);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_alone_finds_the_receiver_away_holds_up_nobody() {
    for order in [Order::Key, Order::None] {
        let db = SqliteDatabase::new().await;
        let events: Vec<_> =
            numbered("bad", 1).into_iter().chain(numbered("a", 20)).chain(numbered("b", 20)).collect();
        let mut tx = db.pool.begin_with("begin immediate").await.expect("begin");
        db.posthaste.enqueue_many(&mut *tx, events).await.expect("enqueue");
        tx.commit().await.expect("commit");
        let sink = Arc::new(AwayForOne::default());
        let subscription = quick("s").order(order).settings(|settings| settings.batch_size = 10);
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
