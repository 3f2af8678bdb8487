//! Declaring, claiming fresh events, and settling batches.

use crate::store::Hold;
use crate::store::sqlite::read::{Range, StoredFilter, read_page};
use crate::subscription::{ClaimBy, Start};

use super::*;

#[tokio::test]
async fn a_subscription_starts_where_it_says() {
    let bench = Bench::new().await;
    let enqueued = bench.enqueue(&[event(), event()]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let between = chrono::Utc::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.enqueue(&[event()]).await;
    let unborn = chrono::Utc::now() + chrono::Duration::hours(1);
    let starts = [
        (Start::Beginning, vec![1, 2, 3, 4]),
        (Start::Now, vec![4]),
        (Start::Time(between), vec![3, 4]),
        (Start::Time(unborn), vec![4]),
        (Start::Event(enqueued[1].id), vec![2, 3, 4]),
    ];
    let mut readers = Vec::new();
    for (index, (start, wanted)) in starts.into_iter().enumerate() {
        let name = format!("s{index}");
        readers.push((bench.subscribe(Subscription::new(&name).unwrap().start(start)).await, wanted));
    }
    bench.enqueue(&[event()]).await;
    for (reader, wanted) in readers {
        assert_eq!(seqs(&bench.claim(&reader, &holder("w", LONG)).await.events), wanted, "{}", reader.name);
    }
}

#[tokio::test]
async fn a_start_at_an_unknown_event_creates_nothing() {
    let bench = Bench::new().await;
    let refused = bench.store.declare(&subscription().start(Start::Event(EventId::new()))).await;
    assert_eq!(refused.unwrap_err().kind(), crate::error::ErrorKind::NotFound);
    assert!(bench.store.reader("billing").await.is_err());
}

#[tokio::test]
async fn a_declaration_can_change_and_an_open_batch_keeps_its_filter() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().topic("orders")).await;
    bench.enqueue(&[event(), NewEvent::bytes("bills", b"".to_vec()), event()]).await;
    let first = bench.claim(&reader, &holder("a", SHORT)).await;
    assert_eq!(seqs(&first.events), [1, 3]);
    let changed = subscription().topic("bills").settings(|s| s.max_attempts = 9);
    let reader = bench.subscribe(changed).await;
    assert_eq!(reader.settings.max_attempts, 9);
    outlast(SHORT).await;
    let taken = bench.store.claim_lane(&reader, &holder("b", LONG)).await.unwrap().unwrap();
    assert_eq!(seqs(&taken.unfinished[0].events), [1, 3]);
    bench.enqueue(&[event(), NewEvent::bytes("bills", b"".to_vec())]).await;
    let next = batch(bench.fresh(&reader, taken.lane, Some(taken.token), &holder("b", LONG)).await);
    assert_eq!(seqs(&next.events), [5]);
}

#[tokio::test]
async fn a_filter_wants_namespace_topic_type_and_tenant() {
    let bench = Bench::new().await;
    let tenant = uuid::Uuid::now_v7();
    let wanted = || event().namespace("n").event_type("t").tenant(tenant);
    bench.enqueue(&[event(), wanted(), wanted().namespace("m"), wanted().event_type("u"), wanted()]).await;
    let filtered = subscription().namespace("n").topic("orders").topic("x").event_type("t").tenant(tenant);
    let reader = bench.subscribe(filtered).await;
    assert_eq!(seqs(&bench.claim(&reader, &holder("w", LONG)).await.events), [2, 5]);
}

#[tokio::test]
async fn pages_follow_each_other_and_an_idle_lane_gives_nothing() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().settings(|s| s.batch_size = 2)).await;
    bench.enqueue(&[event(), event(), event()]).await;
    let worker = holder("w", LONG);
    let lane = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    assert!(bench.store.claim_lane(&reader, &worker).await.unwrap().is_none(), "it has an owner");
    for wanted in [vec![1, 2], vec![3]] {
        let batch = batch(bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await);
        assert_eq!(seqs(&batch.events), wanted);
        assert!(bench.store.settle_batch(&reader, reference(&batch), &[], &worker).await.unwrap());
    }
    assert!(matches!(bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await, Fresh::Nothing));
    assert_eq!(bench.statuses("billing").await, ["delivered"; 3]);
    let stranger = bench.fresh(&reader, lane.lane, Some(Token::new()), &worker).await;
    assert!(matches!(stranger, Fresh::LaneLost));
}

#[tokio::test]
async fn an_idle_poll_writes_nothing() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    let worker = holder("w", LONG);
    let lane = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    let mut other = bench.again().await.pool.acquire().await.unwrap();
    let version = "pragma data_version";
    let before: i64 = sqlx::query_scalar(version).fetch_one(&mut *other).await.unwrap();
    bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await;
    assert!(bench.store.claim_lane(&reader, &worker).await.unwrap().is_none());
    assert!(bench.due(&reader, &worker).await.is_empty());
    assert!(bench.store.reclaim_batch(&reader, &worker).await.unwrap().is_none());
    assert_eq!(sqlx::query_scalar::<_, i64>(version).fetch_one(&mut *other).await.unwrap(), before);
}

#[tokio::test]
async fn a_lane_passes_unwanted_events_after_a_thousand_or_a_minute() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().topic("none")).await;
    let worker = holder("w", LONG);
    let lane = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    bench.enqueue(&vec![event(); 999]).await;
    assert!(matches!(bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await, Fresh::Nothing));
    bench.enqueue(&[event()]).await;
    assert!(matches!(bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await, Fresh::Again));
    bench.enqueue(&[event()]).await;
    assert!(matches!(bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await, Fresh::Nothing));
    let aged = "update posthaste_batches set claimed_at = claimed_at - 60000000";
    sqlx::query(aged).execute(&bench.store.pool).await.unwrap();
    assert!(matches!(bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await, Fresh::Again));
    let seq_to: i64 =
        sqlx::query_scalar("select max(seq_to) from posthaste_batches where finished_at is not null")
            .fetch_one(&bench.store.pool)
            .await
            .unwrap();
    assert_eq!(seq_to, 1001);
}

#[tokio::test]
async fn troubles_become_deliveries_and_the_rest_is_delivered() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    bench.enqueue_keys(&["a", "a", "b", "c", "d", "e"]).await;
    let worker = holder("w", LONG);
    let batch = bench.claim(&reader, &worker).await;
    let until = chrono::Utc::now() + chrono::Duration::hours(1);
    let token = Token::new();
    let troubles = [
        trouble(&batch, 0, retry(LONG)),
        trouble(&batch, 1, Settlement::Park),
        trouble(&batch, 2, Settlement::Dead { error: "bad".into() }),
        trouble(&batch, 3, Settlement::Delay { until }),
        trouble(&batch, 4, Settlement::Spill { token }),
    ];
    assert!(bench.store.settle_batch(&reader, reference(&batch), &troubles, &worker).await.unwrap());
    let statuses = ["pending", "pending", "dead", "pending", "processing", "delivered"];
    assert_eq!(bench.statuses("billing").await, statuses);
    assert_eq!(
        (bench.delivery(1, "parked").await, bench.delivery(2, "parked").await),
        ("0".into(), "1".into())
    );
    assert_eq!(
        (bench.delivery(3, "last_error").await, bench.delivery(4, "key").await),
        ("bad".into(), String::new())
    );
    assert_eq!(bench.delivery(4, "next_attempt_at").await, until.timestamp_micros().to_string());
    assert_eq!(bench.delivery(5, "locked_by").await, "w");
    let history: Vec<crate::lease::Attempt> =
        serde_json::from_str(&bench.delivery(3, "history").await).unwrap();
    assert_eq!((history[0].attempt, history[0].outcome.as_str()), (1, "dead"));
    assert_eq!((history[0].worker.as_deref(), history[0].error.as_deref()), (Some("w"), Some("bad")));
    assert!(bench.due(&reader, &worker).await.is_empty(), "nothing is due yet");
    let again = bench.store.settle_batch(&reader, reference(&batch), &troubles, &worker).await.unwrap();
    assert!(!again, "a batch is settled once");
}

#[tokio::test]
async fn a_wrong_token_settles_nothing() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    bench.enqueue_keys(&["a"]).await;
    let worker = holder("w", LONG);
    let batch = bench.claim(&reader, &worker).await;
    let forged = BatchRef { token: Token::new(), ..reference(&batch) };
    let troubles = [trouble(&batch, 0, retry(LONG))];
    assert!(!bench.store.settle_batch(&reader, forged, &troubles, &worker).await.unwrap());
    let hold = Hold { done_to: 1, attempts: 1, steps: 0, delay: LONG, error: None };
    assert!(!bench.store.hold_batch(&reader, forged, &hold, &[], &worker).await.unwrap());
    bench.store.release_lane(&reader, batch.lane, forged.token).await.unwrap();
    assert!(bench.store.renew(&reader, &[forged.token], LONG).await.unwrap().is_empty());
    assert_eq!(
        (bench.count("deliveries").await, bench.statuses("billing").await),
        (0, vec!["processing".into()])
    );
    assert_eq!(bench.store.renew(&reader, &[forged.token, batch.token], LONG).await.unwrap(), [batch.token]);
    assert!(bench.store.settle_batch(&reader, reference(&batch), &[], &worker).await.unwrap());
}

#[tokio::test]
async fn later_pages_know_which_keys_are_blocked_and_which_events_wait() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    bench.enqueue_keys(&["a"]).await;
    let worker = holder("w", LONG);
    let first = bench.claim(&reader, &worker).await;
    bench
        .store
        .settle_batch(&reader, reference(&first), &[trouble(&first, 0, retry(LONG))], &worker)
        .await
        .unwrap();
    bench.enqueue(&[event().key("a"), event().key("b"), event().key("b").delay(LONG)]).await;
    let second = batch(bench.fresh(&reader, first.lane, Some(first.token), &worker).await);
    let flags: Vec<_> = second.events.iter().map(|c| (c.blocked, c.elsewhere, c.wait.is_some())).collect();
    assert_eq!(flags, [(true, false, false), (false, false, false), (false, false, true)]);
}

#[tokio::test]
async fn claimed_by_event_every_event_is_a_delivery_at_once() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().claim_by(ClaimBy::Event)).await;
    bench.enqueue(&[event().key("a"), event().key("b"), event().key("c").delay(LONG)]).await;
    let worker = holder("w", LONG);
    let lane = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
    let Fresh::Deliveries(claims) = bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await else {
        panic!("expected deliveries")
    };
    assert_eq!((claimed_seqs(&claims), claims[0].attempts), (vec![1, 2], 1));
    assert_eq!(bench.statuses("billing").await, ["processing", "processing", "pending"]);
    assert_eq!(bench.settle(&reader, &claims[0], Settlement::Delivered).await, [1]);
    bench.settle(&reader, &claims[1], retry(LONG)).await;
    assert_eq!(bench.statuses("billing").await, ["delivered", "pending", "pending"]);
    bench.enqueue_keys(&["b"]).await;
    let next = bench.fresh(&reader, lane.lane, Some(lane.token), &worker).await;
    assert!(
        matches!(&next, Fresh::Deliveries(none) if none.is_empty()),
        "its only event is parked: {next:?}"
    );
    assert_eq!(bench.delivery(4, "parked").await, "1");
}

#[tokio::test]
async fn a_strict_batch_remembers_what_holds_it() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().order(Order::Strict)).await;
    bench.enqueue(&[event(), event(), event()]).await;
    let batch = bench.claim(&reader, &holder("a", SHORT)).await;
    assert_eq!(batch.held.unwrap().attempts, 0);
    let hold = Hold { done_to: 1, attempts: 2, steps: 1, delay: LONG, error: Some("no".into()) };
    assert!(
        bench.store.hold_batch(&reader, reference(&batch), &hold, &[], &holder("a", SHORT)).await.unwrap()
    );
    assert_eq!(bench.statuses("billing").await, ["delivered", "pending", "processing"]);
    let older = Hold { done_to: 0, attempts: 5, ..hold.clone() };
    let older =
        bench.store.hold_batch(&reader, reference(&batch), &older, &[], &holder("a", SHORT)).await.unwrap();
    assert!(!older, "what was tried with the first event is nothing to the second");
    for _ in 0..3 {
        outlast(SHORT).await;
        let taken = bench.store.claim_lane(&reader, &holder("b", SHORT)).await.unwrap().unwrap();
        let [again] = &taken.unfinished[..] else { panic!("strict order never materialises") };
        let held = again.held.unwrap();
        assert_eq!((seqs(&again.events), held.attempts, held.steps), (vec![2, 3], 2, 1));
        assert!(held.wait > LONG / 2 && held.wait <= LONG);
    }
    assert!(
        !bench.store.hold_batch(&reader, reference(&batch), &hold, &[], &holder("a", SHORT)).await.unwrap(),
        "fenced"
    );
}

/// A claimer that remembers what it read ahead, as workers do.
struct Following<'b> {
    bench: &'b Bench,
    reader: Reader,
    lane: LaneClaim,
    cursor: Cursor,
}

impl<'b> Following<'b> {
    async fn new(bench: &'b Bench, reader: Reader) -> Self {
        let lane = bench.store.claim_lane(&reader, &holder("w", LONG)).await.unwrap().unwrap();
        Self { bench, reader, lane, cursor: Cursor::Unknown }
    }

    async fn next(&mut self) -> Batch {
        let (store, owner) = (&self.bench.store, Some(self.lane.token));
        let holder = holder("w", LONG);
        batch(
            store.claim_fresh(&self.reader, self.lane.lane, owner, &holder, &mut self.cursor).await.unwrap(),
        )
    }

    fn reads_ahead(&self) -> bool {
        matches!(self.cursor, Cursor::Sqlite(_))
    }
}

fn by(batch_size: u32) -> Subscription {
    subscription().start(Start::Beginning).settings(|s| s.batch_size = batch_size)
}

#[tokio::test]
async fn every_byte_of_an_event_arrives_with_and_without_deliveries() {
    let bench = Bench::new().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let large = bytes.repeat(100);
    let odd = "\u{0}\"'\\\n\u{7f}\u{1f600}";
    let events = [
        NewEvent::bytes("orders", bytes.clone()).key("k").header("a", "b\"c").content_type("application/x"),
        NewEvent::bytes("orders", large.clone()).key("größe \"quoted\" \\").aggregate("Order", "17"),
        NewEvent::bytes("orders", Vec::new()).event_type("order.created").tenant(uuid::Uuid::from_u128(7)),
        NewEvent::bytes("orders", odd.as_bytes().to_vec()).delay(Duration::from_secs(3600)),
    ];
    bench.enqueue(&events).await;
    let plain = Following::new(&bench, bench.subscribe(by(100)).await).await.next().await.events;
    let payloads: Vec<&[u8]> = plain.iter().map(|claimed| &claimed.event.payload[..]).collect();
    assert_eq!(payloads, [&bytes[..], &large[..], b"", odd.as_bytes()]);
    assert!(plain[3].wait.is_some() && plain[..3].iter().all(|claimed| claimed.wait.is_none()));
    // The other way of reading a page says the same.
    let other = bench.subscribe(Subscription::new("other").unwrap().start(Start::Beginning)).await;
    let mut conn = bench.store.pool.acquire().await.unwrap();
    let lane = plain_lane(&bench, &other).await;
    let filter = StoredFilter::of(&crate::subscription::Filter::default()).unwrap();
    let range = Range { after: 0, upto: i64::MAX };
    let full = read_page(&mut conn, &other, lane, &filter, range, 100).await.unwrap();
    let both = |page: &[ClaimedEvent]| page.iter().map(|claimed| claimed.event.clone()).collect::<Vec<_>>();
    assert_eq!(both(&plain), both(&full));
}

async fn plain_lane(bench: &Bench, reader: &Reader) -> Lane {
    bench.store.claim_lane(reader, &holder("x", LONG)).await.unwrap().unwrap().lane
}

#[tokio::test]
async fn more_events_than_travel_in_one_row_are_one_page() {
    let bench = Bench::new().await;
    bench.enqueue(&vec![event(); 2_500]).await;
    let mut following = Following::new(&bench, bench.subscribe(by(2_400)).await).await;
    let pages = [following.next().await, following.next().await];
    assert_eq!(pages.each_ref().map(|page| page.events.len()), [2_400, 100]);
    let claimed: Vec<i64> = pages.iter().flat_map(|page| seqs(&page.events)).collect();
    assert_eq!(claimed, (1..=2_500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_page_that_was_read_ahead_is_claimed_only_if_it_is_still_the_next_one() {
    let bench = Bench::new().await;
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    bench.enqueue_keys(&keys).await;
    let mut following = Following::new(&bench, bench.subscribe(by(2)).await).await;
    assert_eq!(seqs(&following.next().await.events), [1, 2]);
    assert!(following.reads_ahead());
    assert_eq!(seqs(&following.next().await.events), [3, 4]);
    // Another filter.
    following.reader = bench.subscribe(by(2).topic("bills")).await;
    bench.enqueue(&[NewEvent::bytes("bills", b"".to_vec())]).await;
    assert_eq!(seqs(&following.next().await.events), [11]);
    assert!(!following.reads_ahead(), "there was less than a page");
    // Another place: somebody moved the lane back.
    following.reader = bench.subscribe(by(2)).await;
    sqlx::query("delete from posthaste_batches where number > 1").execute(&bench.store.pool).await.unwrap();
    assert_eq!(seqs(&following.next().await.events), [3, 4]);
    sqlx::query("delete from posthaste_batches where number > 1").execute(&bench.store.pool).await.unwrap();
    assert_eq!(seqs(&following.next().await.events), [3, 4], "not what was read behind it");
}

#[tokio::test]
async fn what_was_read_ahead_is_read_again_once_there_are_deliveries() {
    let bench = Bench::new().await;
    bench.enqueue_keys(&["a", "b", "a", "b"]).await;
    let mut following = Following::new(&bench, bench.subscribe(by(2)).await).await;
    let first = following.next().await;
    assert!(following.reads_ahead());
    let retry = Settlement::Retry { delay: Duration::from_secs(3600), error: "not yet".to_owned() };
    let failed = &first.events[0].event;
    let trouble = Trouble {
        seq: failed.seq,
        event_id: failed.id,
        key: failed.key.clone(),
        settlement: retry,
        attempts: 1,
        steps: 0,
        solo: false,
    };
    let batch = BatchRef::to(&first);
    bench.store.settle_batch(&following.reader, batch, &[trouble], &holder("w", LONG)).await.unwrap();
    let next = following.next().await;
    let blocked: Vec<bool> = next.events.iter().map(|claimed| claimed.blocked).collect();
    assert_eq!((seqs(&next.events), blocked), (vec![3, 4], vec![true, false]));
}
