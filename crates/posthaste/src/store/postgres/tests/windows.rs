//! A window that was opened and claimed in one statement is the one its marks describe: what is read again by them is what
//! was claimed, and nothing falls between two windows.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Executor, Postgres, Transaction};

use super::{store, urls};
use crate::event::NewEvent;
use crate::id::WorkerName;
use crate::lease::{Batch, Holder, LaneClaim, Reader};
use crate::store::postgres::PgStore;
use crate::store::{BatchRef, Cursor, Fresh, Store};
use crate::subscription::Subscription;

/// A lane, and what was claimed of it.
struct Claimer {
    store: PgStore,
    reader: Reader,
    holder: Holder,
    lane: LaneClaim,
    cursor: Cursor,
    /// How often each body was claimed.
    claimed: BTreeMap<u32, u32>,
}

impl Claimer {
    async fn new(batch_size: u32) -> Self {
        let store = store(&urls()[0]).await;
        let subscription = Subscription::new("s").unwrap().settings(|s| s.batch_size = batch_size);
        let reader = store.declare(&subscription).await.unwrap();
        let holder = Holder { worker: WorkerName::unique(), lease: Duration::from_secs(60) };
        let lane = store.claim_lane(&reader, &holder).await.unwrap().unwrap();
        Self { store, reader, holder, lane, cursor: Cursor::Unknown, claimed: BTreeMap::new() }
    }

    async fn claim(&mut self) -> Option<Batch> {
        let (lane, token) = (self.lane.lane, Some(self.lane.token));
        loop {
            let cursor = &mut self.cursor;
            match self.store.claim_fresh(&self.reader, lane, token, &self.holder, cursor).await.unwrap() {
                Fresh::Batch(batch) => return Some(batch),
                Fresh::Again => {}
                Fresh::Nothing => return None,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Claims a page, compares it and the place with what is stored, and settles it. `false`: there was none.
    async fn pass(&mut self, seed: u64) -> bool {
        let Some(batch) = self.claim().await else { return false };
        let held = self
            .store
            .held_batches(&self.reader, self.lane.lane, self.lane.token, &mut Cursor::Unknown)
            .await
            .unwrap();
        let seqs = |batch: &Batch| batch.events.iter().map(|c| c.event.seq).collect::<Vec<_>>();
        assert_eq!(held.iter().map(seqs).collect::<Vec<_>>(), [seqs(&batch)], "seed {seed}");
        let mut conn = self.store.pool.acquire().await.unwrap();
        let stored = self.store.load_cursor(&mut conn, &self.reader, self.lane.lane).await.unwrap();
        let Cursor::Postgres(known) = &self.cursor else { panic!("the place is remembered") };
        assert_eq!((&known.lo, &known.hi, known.pos), (&stored.lo, &stored.hi, stored.pos), "seed {seed}");
        assert_eq!((known.number, known.inserted_at), (stored.number, stored.inserted_at), "seed {seed}");
        for claimed in &batch.events {
            let body: [u8; 4] = claimed.event.payload[..].try_into().unwrap();
            *self.claimed.entry(u32::from_be_bytes(body)).or_default() += 1;
        }
        self.store.settle_batch(&self.reader, BatchRef::to(&batch), &[], &self.holder).await.unwrap()
    }
}

fn numbered(number: u32) -> NewEvent {
    NewEvent::bytes("t", number.to_be_bytes().to_vec())
}

/// Producers that begin, go on, come back to savepoints, commit and give up in any order, and a claimer in between.
#[tokio::test]
async fn what_is_claimed_in_one_statement_is_what_its_marks_describe() {
    for seed in 0..12 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut claimer = Claimer::new(dice.u32(1..6)).await;
        let pool = claimer.store.pool.clone();
        let mut producers: Vec<Option<(Transaction<'static, Postgres>, Vec<u32>)>> =
            vec![None, None, None, None];
        let (mut next, mut committed) = (0, Vec::new());
        for _ in 0..120 {
            let producer = dice.choice(&mut producers).unwrap();
            match (dice.u8(0..8), producer.take()) {
                (0..4, open) => {
                    let (mut tx, mut numbers) = match open {
                        Some(open) => open,
                        None => (pool.begin().await.unwrap(), Vec::new()),
                    };
                    if dice.u8(0..4) == 0 {
                        tx.execute("savepoint part").await.unwrap();
                    }
                    claimer.store.enqueue(&mut tx, &[numbered(next)]).await.unwrap();
                    numbers.push(next);
                    next += 1;
                    *producer = Some((tx, numbers));
                }
                (4, Some((tx, _))) => tx.rollback().await.unwrap(),
                (5, Some((tx, numbers))) => {
                    tx.commit().await.unwrap();
                    committed.extend(numbers);
                }
                (_, open) => {
                    *producer = open;
                    claimer.pass(seed).await;
                }
            }
        }
        for (tx, numbers) in producers.into_iter().flatten() {
            tx.commit().await.unwrap();
            committed.extend(numbers);
        }
        while claimer.pass(seed).await {}
        committed.sort_unstable();
        let expected: BTreeMap<u32, u32> = committed.into_iter().map(|number| (number, 1)).collect();
        assert!(expected.len() > 20, "seed {seed}: too little happened");
        assert_eq!(claimer.claimed, expected, "seed {seed}");
    }
}

/// The statement's snapshot is older than its xid. Whoever commits in between is neither visible in the mark nor begun after
/// it, and must be found as late.
#[tokio::test]
async fn what_commits_while_a_claim_waits_for_its_lane_is_in_the_next_window() {
    let mut claimer = Claimer::new(500).await;
    let store = claimer.store.clone();
    let mut conn = store.pool.acquire().await.unwrap();
    store.enqueue(&mut conn, &[numbered(0)]).await.unwrap();
    assert!(claimer.pass(0).await);
    let mut blocks = store.pool.begin().await.unwrap();
    let lock = format!("select 1 from {}.lanes for update", store.schema.as_str());
    blocks.execute(AssertSqlSafe(lock)).await.unwrap();
    store.enqueue(&mut conn, &[numbered(1)]).await.unwrap();
    let waits = tokio::spawn(async move {
        assert!(claimer.pass(0).await);
        claimer
    });
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%Opens a window%'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut *conn).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 2..5 {
        store.enqueue(&mut conn, &[numbered(number)]).await.unwrap();
    }
    blocks.rollback().await.unwrap();
    let mut claimer = waits.await.unwrap();
    assert_eq!(claimer.claimed.keys().copied().collect::<Vec<_>>(), [0, 1]);
    let Cursor::Postgres(place) = &claimer.cursor else { panic!("the place is remembered") };
    assert!(place.lo.running().len() >= 3, "they committed between the snapshot and the xid: {:?}", place.lo);
    assert!(claimer.pass(0).await);
    assert_eq!(claimer.claimed.into_iter().collect::<Vec<_>>(), (0..5).map(|n| (n, 1)).collect::<Vec<_>>());
}

/// One statement is for what is usual. Everything else is claimed all the same, step by step.
#[tokio::test]
async fn what_is_late_far_back_large_or_in_trouble_goes_the_longer_way() {
    let mut claimer = Claimer::new(500).await;
    let store = claimer.store.clone();
    let mut conn = store.pool.acquire().await.unwrap();
    let longer = |claimer: &Claimer| match &claimer.cursor {
        Cursor::Postgres(place) => place.takes_longer_way(),
        _ => panic!("the place is remembered"),
    };
    store.enqueue(&mut conn, &[numbered(0)]).await.unwrap();
    assert!(claimer.pass(0).await && !longer(&claimer));

    let (schema, id) = (store.schema.as_str(), claimer.reader.id);
    let trouble = format!(
        "insert into {schema}.deliveries (subscription, seq, event_id, status) select {id}, seq, id, 'dead' from {schema}.events"
    );
    conn.execute(AssertSqlSafe(trouble)).await.unwrap();
    store.enqueue(&mut conn, &[numbered(1)]).await.unwrap();
    assert!(claimer.pass(0).await && longer(&claimer), "events may be blocked");
    conn.execute(AssertSqlSafe(format!("delete from {schema}.deliveries"))).await.unwrap();
    claimer.cursor = Cursor::Unknown;
    store.enqueue(&mut conn, &[numbered(2)]).await.unwrap();
    assert!(claimer.pass(0).await && !longer(&claimer), "all is as usual again");

    let mut late = store.pool.begin().await.unwrap();
    store.enqueue(&mut late, &[numbered(3)]).await.unwrap();
    let many: Vec<NewEvent> = (4..5_004).map(numbered).collect();
    store.enqueue(&mut conn, &many).await.unwrap();
    assert!(claimer.pass(0).await && longer(&claimer), "a page of 500 is large");
    while claimer.pass(0).await {}
    claimer.cursor = Cursor::Unknown;
    assert!(!claimer.pass(0).await, "somebody is late, and goes on");
    late.commit().await.unwrap();
    assert!(claimer.pass(0).await && longer(&claimer), "it has ended after thousands of events");
    assert_eq!(
        claimer.claimed.into_iter().collect::<Vec<_>>(),
        (0..5_004).map(|n| (n, 1)).collect::<Vec<_>>()
    );
}

/// It saw all there was. To ask again at once would be a second look for each time that the mark moves.
#[tokio::test]
async fn a_claim_that_only_moved_the_mark_is_not_asked_for_again() {
    let mut claimer = Claimer::new(500).await;
    let store = claimer.store.clone();
    let wants_nothing = Subscription::new("s").unwrap().topic("nothing");
    claimer.reader = store.declare(&wants_nothing).await.unwrap();
    let mut conn = store.pool.acquire().await.unwrap();
    let many: Vec<NewEvent> = (0..300).map(numbered).collect();
    store.enqueue(&mut conn, &many).await.unwrap();
    let (lane, token) = (claimer.lane.lane, Some(claimer.lane.token));
    let mut cursor = Cursor::Unknown;
    let fresh = store.claim_fresh(&claimer.reader, lane, token, &claimer.holder, &mut cursor).await.unwrap();
    assert!(matches!(fresh, Fresh::Nothing), "{fresh:?}");
    let Cursor::Postgres(place) = &cursor else { panic!("the place is remembered") };
    assert_eq!((place.number, place.lo.ceil_seq), (1, 300), "the mark has moved");
}

/// The rest of a window that was opened before may be empty, and yet more may have come since.
#[tokio::test]
async fn a_window_that_ends_with_an_empty_page_is_not_the_end_of_the_log() {
    let mut claimer = Claimer::new(3).await;
    let store = claimer.store.clone();
    let mut conn = store.pool.acquire().await.unwrap();
    let three: Vec<NewEvent> = (0..3).map(numbered).collect();
    store.enqueue(&mut conn, &three).await.unwrap();
    assert_eq!(claimer.claim().await.unwrap().events.len(), 3, "a full page, so the window may go on");
    store.enqueue(&mut conn, &[numbered(3)]).await.unwrap();
    assert_eq!(claimer.claim().await.unwrap().events.len(), 1);
}

/// Statements have a limit of their own. A page that they cut must not seem to be the last one.
#[tokio::test]
async fn a_page_that_is_asked_to_be_larger_than_any_loses_nothing() {
    let mut claimer = Claimer::new(500).await;
    claimer.reader.settings.batch_size = 20_000;
    let store = claimer.store.clone();
    let mut conn = store.pool.acquire().await.unwrap();
    let many: Vec<NewEvent> = (0..10_050).map(numbered).collect();
    store.enqueue(&mut conn, &many).await.unwrap();
    while claimer.pass(0).await {}
    assert_eq!(
        claimer.claimed.into_iter().collect::<Vec<_>>(),
        (0..10_050).map(|n| (n, 1)).collect::<Vec<_>>()
    );
}

/// A transaction that sees more than its statement, or less, would end a window at the wrong place.
#[tokio::test]
async fn a_window_is_claimed_in_read_committed_only() {
    let mut claimer = Claimer::new(500).await;
    let url = &urls()[0];
    let strict = url
        .parse::<PgConnectOptions>()
        .unwrap()
        .options([("default_transaction_isolation", "repeatable read")]);
    let mut conn = claimer.store.pool.acquire().await.unwrap();
    claimer.store.enqueue(&mut conn, &[numbered(0)]).await.unwrap();
    let (mut other, lane) = (claimer.store.clone(), &claimer.lane);
    other.pool = sqlx::PgPool::connect_with(strict).await.unwrap();
    let cursor = &mut Cursor::Unknown;
    let refused =
        other.claim_fresh(&claimer.reader, lane.lane, Some(lane.token), &claimer.holder, cursor).await;
    let sentence = format!("{:?}", refused.expect_err("it must be refused"));
    assert!(sentence.contains("READ COMMITTED"), "{sentence}");
    assert!(claimer.pass(0).await);
}
