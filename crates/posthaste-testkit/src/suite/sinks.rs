//! Sinks: pages, marks, and key order across partial failures.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{ClaimBy, Order, Outcome, Page, Sink, Start};
use tokio::sync::Notify;

use super::{Backend, Ledger, Script, assert_key, event, numbered, quick, until};

/// Obeys the contract: once an event of a key was not delivered, the later ones of that key are left unmarked.
struct Careful(Script);

#[async_trait]
impl Sink for Careful {
    async fn deliver(&self, page: &mut Page) {
        let mut failed: Vec<Option<String>> = Vec::new();
        for index in 0..page.events().len() {
            let event = page.events()[index].clone();
            if event.key.is_some() && failed.contains(&event.key) {
                continue;
            }
            let outcome = self.0.attempt(&event);
            if outcome != Outcome::Delivered {
                failed.push(event.key.clone());
            }
            page.mark(index, outcome);
        }
    }
}

/// Delivered, retry, dead and unmarked, each as it says.
pub async fn a_page_is_settled_mark_by_mark(db: &impl Backend) {
    struct ByText(Script);
    #[async_trait]
    impl Sink for ByText {
        async fn deliver(&self, page: &mut Page) {
            for index in 0..page.events().len() {
                let event = page.events()[index].clone();
                let outcome = self.0.attempt(&event);
                if !(event.text() == Some("unmarked") && outcome != Outcome::Delivered) {
                    page.mark(index, outcome);
                }
            }
        }
    }
    let script = Script::new(|event, attempt| match (event.text(), attempt) {
        (Some("retry" | "unmarked"), 1) => Outcome::retry("once"),
        (Some("dead"), _) => Outcome::dead("rejected"),
        _ => Outcome::Delivered,
    });
    let worker = db.posthaste().sink(quick("s"), ByText(script.clone())).start().await.expect("start");
    let texts = ["good", "retry", "dead", "unmarked", "fine"];
    db.commit(texts.map(|text| event(text, text)).into()).await;
    script.accepted.wait_for(4).await;
    worker.stop().await;
    assert_eq!(script.attempts.len(), 7);
    let rows = db.deliveries("s").await;
    assert_eq!(rows.iter().map(|row| row.last_error.as_deref()).collect::<Vec<_>>(), [Some("rejected")]);
}

/// Failures in the middle of pages reorder nothing and repeat nothing.
pub async fn pages_keep_key_order_through_partial_failures(db: &impl Backend) {
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let script = Script::new(|event, attempt| match event.seq % 5 {
            0 if attempt < 3 => Outcome::retry("not yet"),
            _ => Outcome::Delivered,
        });
        let subscription =
            quick(claim_by.as_str()).claim_by(claim_by).start(Start::Now).settings(|s| s.batch_size = 8);
        let worker = db.posthaste().sink(subscription, Careful(script.clone())).start().await.expect("start");
        for n in 0..25 {
            db.commit(["a", "b", "c"].map(|key| event(key, &format!("{key}-{n:05}"))).into()).await;
        }
        script.accepted.wait_for(75).await;
        worker.stop().await;
        for key in ["a", "b", "c"] {
            assert_key(&script.accepted, key, 25);
        }
        assert_eq!(db.deliveries(claim_by.as_str()).await, []);
    }
}

/// The first of a key meets a closed door and is marked so; the rest of the page is left unmarked, as the contract says.
pub async fn an_unavailable_sink_that_leaves_the_rest_unmarked_keeps_key_order(db: &impl Backend) {
    for (order, claim_by) in [(Order::Key, ClaimBy::Batch), (Order::Key, ClaimBy::Event)] {
        let outages = Arc::new(AtomicUsize::new(3));
        let left = outages.clone();
        let script = Script::new(move |event, _| {
            let fails = event.text() == Some("k-00002") && left.load(Ordering::SeqCst) > 0;
            if fails {
                left.fetch_sub(1, Ordering::SeqCst);
                return Outcome::unavailable("connection refused");
            }
            Outcome::Delivered
        });
        let subscription = quick(claim_by.as_str()).order(order).claim_by(claim_by).start(Start::Now);
        let worker = db.posthaste().sink(subscription, Careful(script.clone())).start().await.expect("start");
        db.commit(numbered("k", 10)).await;
        script.accepted.wait_for(10).await;
        worker.stop().await;
        assert_key(&script.accepted, "k", 10);
        assert_eq!(outages.load(Ordering::SeqCst), 0);
        until("nothing is left", async || db.deliveries(claim_by.as_str()).await.is_empty()).await;
    }
}

/// One event is refused, then the connection breaks: what follows the refused one must not overtake it.
pub async fn a_sink_that_goes_away_after_a_failure_keeps_key_order(db: &impl Backend) {
    struct Breaks(Script);
    #[async_trait]
    impl Sink for Breaks {
        async fn deliver(&self, page: &mut Page) {
            for index in 0..page.events().len() {
                let outcome = self.0.attempt(&page.events()[index].clone());
                let failed = outcome != Outcome::Delivered;
                page.mark(index, outcome);
                if failed {
                    page.mark_rest(&Outcome::unavailable("the connection broke"));
                    return;
                }
            }
        }
    }
    for claim_by in [ClaimBy::Batch, ClaimBy::Event] {
        let script = Script::new(|event, attempt| match event.text() {
            Some("k-00003") if attempt < 3 => Outcome::retry_after(Duration::from_millis(700), "refused"),
            _ => Outcome::Delivered,
        });
        let subscription = quick(claim_by.as_str()).claim_by(claim_by).start(Start::Now);
        let worker = db.posthaste().sink(subscription, Breaks(script.clone())).start().await.expect("start");
        let mut events = numbered("k", 8);
        events.extend(numbered("other", 4));
        db.commit(events).await;
        script.accepted.wait_for(12).await;
        worker.stop().await;
        assert_key(&script.accepted, "k", 8);
        assert_key(&script.accepted, "other", 4);
    }
}

/// What a sink had marked before it hung or panicked counts: what is known to be delivered is not sent again.
pub async fn what_was_marked_before_a_sink_hung_or_panicked_counts(db: &impl Backend) {
    struct Hanging(Script, &'static str);
    #[async_trait]
    impl Sink for Hanging {
        async fn deliver(&self, page: &mut Page) {
            for index in 0..page.events().len() {
                let event = page.events()[index].clone();
                let outcome = self.0.attempt(&event);
                match (outcome == Outcome::Delivered, self.1) {
                    (true, _) => page.mark(index, outcome),
                    (_, "panics") => panic!("on purpose"),
                    _ => std::future::pending().await,
                }
            }
        }
    }
    for way in ["panics", "hangs"] {
        let script = Script::new(|event, attempt| match (event.text(), attempt) {
            (Some("k-00002"), 1) => Outcome::retry("this time it does not return"),
            _ => Outcome::Delivered,
        });
        let subscription = quick(way).start(Start::Now).settings(|s| s.timeout = Duration::from_millis(300));
        let sink = Hanging(script.clone(), way);
        let worker = db.posthaste().sink(subscription, sink).start().await.expect("start");
        db.commit(numbered("k", 5)).await;
        script.accepted.wait_for(5).await;
        worker.stop().await;
        assert_key(&script.accepted, "k", 5);
        assert_eq!(script.accepted.len(), 5, "{way}: nothing is sent twice");
    }
}

/// Takes several pages at once, waits for company in each, and notes the keys that are in two of them.
#[derive(Clone)]
struct Several {
    script: Script,
    under_way: Arc<Mutex<Vec<String>>>,
    pages: Arc<AtomicUsize>,
    most_pages: Arc<AtomicUsize>,
    twice: Arc<AtomicUsize>,
}

impl Several {
    fn new(script: &Script) -> Self {
        let (under_way, script) = (Arc::default(), script.clone());
        Self { script, under_way, pages: Arc::default(), most_pages: Arc::default(), twice: Arc::default() }
    }

    fn enter(&self, keys: &[String]) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        self.twice.fetch_add(keys.iter().filter(|key| under_way.contains(key)).count(), Ordering::SeqCst);
        under_way.extend(keys.iter().cloned());
        let pages = self.pages.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_pages.fetch_max(pages, Ordering::SeqCst);
    }

    fn leave(&self, keys: &[String]) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            under_way.iter().position(|other| other == key).map(|place| under_way.swap_remove(place));
        }
        self.pages.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Sink for Several {
    async fn deliver(&self, page: &mut Page) {
        let keys: HashSet<String> = page.events().iter().filter_map(|event| event.key.clone()).collect();
        let keys: Vec<String> = keys.into_iter().collect();
        self.enter(&keys);
        // Longer than the next page needs, but the last page finds nobody.
        for _ in 0..50 {
            if self.pages.load(Ordering::SeqCst) > 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Careful(self.script.clone()).deliver(page).await;
        self.leave(&keys);
    }

    fn overlaps(&self) -> bool {
        true
    }
}

/// Two pages under way at once have no key in common, whatever fails in them, and every key keeps its order. Without an order
/// of keys the same sink sees keys in two pages.
pub async fn pages_overlap_and_no_key_is_in_two_of_them(db: &impl Backend) {
    for (order, claim_by) in
        [(Order::Key, ClaimBy::Batch), (Order::Key, ClaimBy::Event), (Order::None, ClaimBy::Batch)]
    {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let script = Script::new(|event, attempt| match event.seq % 23 {
            0 if attempt < 2 => Outcome::retry("not yet"),
            1 if attempt < 2 => Outcome::unavailable("away for a moment"),
            _ => Outcome::Delivered,
        });
        let (sink, keys) = (Several::new(&script), ["a", "b", "c", "d", "e", "f", "g"]);
        // Seven keys in turns, three at a time: a page and the next one have no key in common, the one after that has.
        let events: Vec<_> =
            (0..20).flat_map(|n| keys.map(|key| event(key, &format!("{key}-{n:05}")))).collect();
        let subscription =
            quick(&name).order(order).claim_by(claim_by).start(Start::Now).settings(|s| s.batch_size = 3);
        let worker = db.posthaste().sink(subscription, sink.clone()).start().await.expect("start");
        let count = events.len();
        db.commit(events).await;
        script.accepted.wait_for(count).await;
        worker.stop().await;
        let twice = sink.twice.load(Ordering::SeqCst);
        assert!(sink.most_pages.load(Ordering::SeqCst) > 1, "{name}: nothing overlapped");
        match order {
            Order::Key => {
                assert_eq!(twice, 0, "{name}: a key was in two pages");
                keys.into_iter().for_each(|key| assert_key(&script.accepted, key, 20));
            }
            _ => assert!(twice > 0, "{name}: the sink would not see it"),
        }
    }
}

/// A receiver that needs longer for every page than a batch waits for slow events is nothing unusual.
pub async fn pages_that_take_their_time_get_no_rows(db: &impl Backend) {
    struct Slow(Ledger);
    #[async_trait]
    impl Sink for Slow {
        async fn deliver(&self, page: &mut Page) {
            tokio::time::sleep(Duration::from_millis(800)).await;
            page.events().iter().for_each(|event| self.0.accept(event));
            (0..page.events().len()).for_each(|index| page.delivered(index));
        }

        fn overlaps(&self) -> bool {
            true
        }
    }
    let accepted = Ledger::default();
    let subscription = quick("s").start(Start::Now).settings(|s| s.batch_size = 3);
    let worker = db.posthaste().sink(subscription, Slow(accepted.clone())).start().await.expect("start");
    db.commit((0..12).map(|n| event(&format!("key-{n}"), "x")).collect()).await;
    while accepted.len() < 12 {
        assert_eq!(db.deliveries("s").await, []);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.stop().await;
}

/// A page lags behind and its batch is closed; then the receiver is away, and what comes back is tried one by one. If the first
/// of a key fails, the second must not overtake it.
pub async fn what_comes_back_of_a_slow_page_keeps_the_order_of_its_key(db: &impl Backend) {
    #[derive(Clone)]
    struct Lagging {
        script: Script,
        rows: Arc<Notify>,
        lagged: Arc<AtomicBool>,
    }
    #[async_trait]
    impl Sink for Lagging {
        async fn deliver(&self, page: &mut Page) {
            let first = page.events().iter().any(|event| event.text() == Some("a-00000"));
            if first && !self.lagged.swap(true, Ordering::SeqCst) {
                self.rows.notified().await;
                return page.mark_rest(&Outcome::unavailable("away"));
            }
            Careful(self.script.clone()).deliver(page).await;
        }

        fn overlaps(&self) -> bool {
            true
        }
    }
    let script = Script::new(|event, attempt| match (event.text(), attempt) {
        (Some("a-00000"), 1) => Outcome::retry("not yet"),
        _ => Outcome::Delivered,
    });
    let sink = Lagging { script: script.clone(), rows: Arc::default(), lagged: Arc::default() };
    let subscription = quick("s").start(Start::Beginning).settings(|s| s.batch_size = 2);
    let mut events = numbered("a", 2);
    events.extend([event("b", "b-00000"), event("c", "c-00000")]);
    db.commit(events).await;
    let worker = db.posthaste().sink(subscription, sink.clone()).start().await.expect("start");
    until("the slow page's events have rows", async || db.deliveries("s").await.len() == 2).await;
    sink.rows.notify_one();
    script.accepted.wait_for(4).await;
    worker.stop().await;
    assert_key(&script.accepted, "a", 2);
}
