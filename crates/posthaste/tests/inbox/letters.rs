//! Dead letters of consumers, in both databases.

use std::future::Future;
use std::pin::Pin;

use posthaste::inbox::{
    DeadLetter, DeadLetters, GivenUp, LetIn, Letter, LetterFilter, LetterStatus, Once, PostgresInbox,
};
use posthaste::{ErrorKind, Subscription};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::Executor;

use super::bench::{Act, Bench, PostgresBench, SqliteBench};

type Told = Pin<Box<dyn Future<Output = GivenUp> + Send>>;
type Given = Pin<Box<dyn Future<Output = posthaste::Result<i64>> + Send>>;

/// A store, its letters, and giving up in a transaction of its own that commits or not.
struct Post {
    bench: Box<dyn Bench>,
    letters: DeadLetters,
    give_up: Box<dyn Fn(&'static str, Letter, bool) -> Given + Send + Sync>,
    /// Gives up in a transaction that did not run the effect, and commits.
    unless_done: Box<dyn Fn(&'static str, Letter) -> Told + Send + Sync>,
    /// Makes decided letters and all marks old.
    age: Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>,
}

async fn postgres() -> Post {
    let bench = PostgresBench::new().await;
    let (giving, telling, aging) = (bench.clone(), bench.clone(), bench.pool.clone());
    Post {
        letters: bench.inbox("any").dead_letters(),
        bench: Box::new(bench),
        give_up: Box::new(move |consumer, letter, commit| {
            let bench = giving.clone();
            Box::pin(async move {
                let mut tx = bench.pool.begin().await.unwrap();
                let number = bench.inbox(consumer).give_up(&mut tx, &letter).await?;
                if commit {
                    tx.commit().await.unwrap()
                } else {
                    tx.rollback().await.unwrap()
                }
                Ok(number)
            })
        }),
        unless_done: Box::new(move |consumer, letter| {
            let bench = telling.clone();
            Box::pin(async move {
                let mut tx = bench.pool.begin().await.unwrap();
                let told = bench.inbox(consumer).give_up_unless_done(&mut tx, &letter).await.unwrap();
                tx.commit().await.unwrap();
                told
            })
        }),
        age: Box::new(move || {
            let pool = aging.clone();
            Box::pin(async move {
                let age = "update posthaste_inbox.dead_letters set decided_at = decided_at - interval '721 h'; \
                     update posthaste_inbox.handled set expires_at = expires_at - interval '721 h'";
                pool.execute(age).await.unwrap();
            })
        }),
    }
}

async fn sqlite() -> Post {
    let bench = SqliteBench::new().await;
    let (giving, telling, aging) = (bench.clone(), bench.clone(), bench.pool.clone());
    Post {
        letters: DeadLetters::sqlite(bench.pool.clone()),
        bench: Box::new(bench),
        give_up: Box::new(move |consumer, letter, commit| {
            let bench = giving.clone();
            Box::pin(async move {
                let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                let number = bench.inbox(consumer).give_up(&mut tx, &letter).await?;
                if commit {
                    tx.commit().await.unwrap()
                } else {
                    tx.rollback().await.unwrap()
                }
                Ok(number)
            })
        }),
        unless_done: Box::new(move |consumer, letter| {
            let bench = telling.clone();
            Box::pin(async move {
                let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                let told = bench.inbox(consumer).give_up_unless_done(&mut tx, &letter).await.unwrap();
                tx.commit().await.unwrap();
                told
            })
        }),
        age: Box::new(move || {
            let pool = aging.clone();
            Box::pin(async move {
                let age = "update posthaste_inbox_dead_letters set decided_at = decided_at - 721 * 3600000000; \
                     update posthaste_inbox_handled set expires_at = expires_at - 721 * 3600000000";
                pool.execute(age).await.unwrap();
            })
        }),
    }
}

async fn posts() -> [Post; 2] {
    [postgres().await, sqlite().await]
}

impl Post {
    async fn given(&self, consumer: &'static str, letter: Letter) -> i64 {
        (self.give_up)(consumer, letter, true).await.unwrap()
    }

    async fn list(&self, narrow: impl FnOnce(&mut LetterFilter)) -> Vec<DeadLetter> {
        self.letters.list(&LetterFilter::new(narrow)).await.unwrap()
    }
}

#[tokio::test]
async fn a_letter_is_kept_as_it_came_if_and_only_if_the_transaction_commits() {
    let letter = Letter::new("e-1", b"\0\xff{}".to_vec(), "no such customer\0")
        .attempts(5)
        .topic("orders")
        .key("k\0")
        .content_type("application/json")
        .header("b", "2")
        .header("a", "nul \0 \" ä")
        .header("b", "1");
    for post in posts().await {
        (post.give_up)("billing", letter.clone(), false).await.unwrap();
        assert!(post.list(|_| ()).await.is_empty(), "rolled back");
        assert_eq!(post.bench.once("billing", "e-1", Act::Fail).await.ok(), None, "and not marked");
        let number = post.given("billing", letter.clone()).await;
        let kept = post.letters.get(number).await.unwrap().expect("kept");
        assert_eq!((kept.consumer.as_str(), kept.times, kept.status), ("billing", 1, LetterStatus::Open));
        assert_eq!(kept.letter.headers, letter.headers, "order, repetition and odd characters");
        assert_eq!((&kept.letter.payload, kept.letter.attempts), (&letter.payload, 5));
        assert_eq!(kept.letter.reason, "no such customer\u{fffd}", "no database takes NUL in text");
        assert_eq!(
            (kept.letter.topic.as_deref(), kept.letter.key.as_deref()),
            (Some("orders"), Some("k\u{fffd}"))
        );
        assert_eq!(post.list(|_| ()).await, [kept]);
    }
}

#[tokio::test]
async fn giving_up_twice_keeps_one_letter_with_the_newer_reason() {
    for post in posts().await {
        let number = post.given("billing", Letter::new("e-1", "old", "first reason")).await;
        assert!(post.letters.discard(number).await.unwrap());
        assert_eq!(
            post.given("billing", Letter::new("e-1", "new", "second reason").attempts(7)).await,
            number
        );
        let kept = post.letters.get(number).await.unwrap().unwrap();
        assert_eq!((kept.letter.reason.as_str(), kept.letter.attempts, kept.times), ("second reason", 7, 2));
        assert_eq!((kept.letter.payload.as_slice(), kept.status), (&b"new"[..], LetterStatus::Open));
        assert_eq!(kept.decided_at, None);
        let other = post.given("shipping", Letter::new("e-1", "x", "another consumer's")).await;
        assert_ne!(other, number);
    }
}

#[tokio::test]
async fn sending_again_can_be_repeated_until_it_is_done_and_is_done_once() {
    for post in posts().await {
        let number = post.given("billing", Letter::new("e-1", "x", "why")).await;
        let read = async || post.letters.get(number).await.unwrap().unwrap();
        let first = read().await;
        assert_eq!(post.letters.let_in(&first).await.unwrap(), LetIn::Forgotten);
        assert_eq!(post.letters.let_in(&first).await.unwrap(), LetIn::NoMark);
        assert_eq!(read().await.status, LetterStatus::Open, "whoever dies here finds it again");
        assert_eq!(post.bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
        assert_eq!(post.letters.let_in(&first).await.unwrap(), LetIn::Done);
        assert_eq!(post.bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
        assert!(post.letters.note_resent(&first).await.unwrap());
        assert_eq!(read().await.status, LetterStatus::Resent);
        assert_eq!(post.bench.effects("billing", "e-1").await, 1);
    }
}

#[tokio::test]
async fn a_letter_that_was_given_up_again_meanwhile_stays_open() {
    for post in posts().await {
        let number = post.given("billing", Letter::new("e-1", "x", "why")).await;
        let first = post.letters.get(number).await.unwrap().unwrap();
        assert_eq!(post.letters.let_in(&first).await.unwrap(), LetIn::Forgotten);
        assert_eq!(post.given("billing", Letter::new("e-1", "x", "still")).await, number);
        assert!(!post.letters.note_resent(&first).await.unwrap());
        let second = post.letters.get(number).await.unwrap().unwrap();
        assert_eq!((second.status, second.times), (LetterStatus::Open, 2));
        assert_eq!(post.letters.let_in(&second).await.unwrap(), LetIn::Forgotten, "its own mark");
        assert!(post.letters.note_resent(&second).await.unwrap());
    }
}

#[tokio::test]
async fn other_copies_are_duplicates_until_the_letter_is_let_in_again() {
    for post in posts().await {
        let number = post.given("billing", Letter::new("e-1", "x", "why")).await;
        assert_eq!(post.bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
        assert_eq!(post.bench.once("shipping", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
        assert!(post.letters.resent(number).await.unwrap());
        assert!(post.letters.resent(number).await.unwrap(), "the sending failed, so once more");
        let kept = post.letters.get(number).await.unwrap().unwrap();
        assert_eq!((kept.status, kept.decided_at.is_some()), (LetterStatus::Resent, true));
        assert_eq!(post.bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
        assert!(post.letters.resent(number).await.unwrap(), "nobody knew that it was sent, so once more");
        assert_eq!(
            post.bench.once("billing", "e-1", Act::Panic).await.unwrap(),
            Once::Duplicate,
            "done stays"
        );
        assert_eq!(post.bench.once("shipping", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
        let nobody = number + 1000;
        assert!(!post.letters.resent(nobody).await.unwrap() && !post.letters.discard(nobody).await.unwrap());
        assert_eq!(post.letters.get(nobody).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_discarded_letter_is_not_let_in_again() {
    for post in posts().await {
        let number = post.given("billing", Letter::new("e-1", "x", "why")).await;
        assert!(post.letters.discard(number).await.unwrap());
        assert!(!post.letters.discard(number).await.unwrap(), "decided already");
        assert!(!post.letters.resent(number).await.unwrap(), "decided already");
        assert_eq!(post.letters.get(number).await.unwrap().unwrap().status, LetterStatus::Discarded);
        assert_eq!(post.bench.once("billing", "e-1", Act::Panic).await.unwrap(), Once::Duplicate);
    }
}

#[tokio::test]
async fn nothing_is_given_up_that_another_copy_has_done() {
    for post in posts().await {
        assert_eq!(post.bench.once("billing", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
        let letter = |reason| Letter::new("e-1", "x", reason);
        assert_eq!((post.unless_done)("billing", letter("late")).await, GivenUp::DoneBefore);
        assert!(post.list(|_| ()).await.is_empty());
        let GivenUp::Kept(number) = (post.unless_done)("shipping", letter("not done here")).await else {
            panic!("another consumer has not done it")
        };
        assert_eq!((post.unless_done)("shipping", letter("again")).await, GivenUp::Kept(number));
        assert!(post.letters.discard(number).await.unwrap());
        assert_eq!((post.unless_done)("shipping", letter("and again")).await, GivenUp::Kept(number));
        assert_eq!(post.letters.get(number).await.unwrap().unwrap().times, 3);
        assert!(post.letters.resent(number).await.unwrap());
        assert_eq!(post.bench.once("shipping", "e-1", Act::Succeed).await.unwrap(), Once::Done(()));
        assert_eq!((post.unless_done)("shipping", letter("a late copy")).await, GivenUp::DoneBefore);
        assert_eq!(post.letters.get(number).await.unwrap().unwrap().status, LetterStatus::Resent);
    }
}

/// Or a late copy of an event that was given up would run its effect, although a person has yet to decide.
#[tokio::test]
async fn a_mark_is_kept_as_long_as_its_letter() {
    for post in posts().await {
        let _open = post.given("billing", Letter::new("open", "x", "why")).await;
        let discarded = post.given("billing", Letter::new("discarded", "x", "why")).await;
        assert_eq!(post.bench.once("billing", "done", Act::Succeed).await.unwrap(), Once::Done(()));
        (post.age)().await;
        assert!(post.letters.discard(discarded).await.unwrap());
        post.bench.clean().await;
        for (id, expected) in
            [("open", Once::Duplicate), ("discarded", Once::Duplicate), ("done", Once::Done(()))]
        {
            assert_eq!(post.bench.once("billing", id, Act::Succeed).await.unwrap(), expected, "{id}");
        }
        (post.age)().await;
        post.bench.clean().await;
        post.bench.clean().await;
        assert_eq!(post.bench.once("billing", "discarded", Act::Succeed).await.unwrap(), Once::Done(()));
        assert_eq!(post.bench.once("billing", "open", Act::Panic).await.unwrap(), Once::Duplicate);
    }
}

#[tokio::test]
async fn letters_are_listed_newest_first_by_page_and_by_what_they_are() {
    for post in posts().await {
        for n in 0..7 {
            let letter = Letter::new(format!("e-{n}"), "x", format!("reason {n}"));
            let topic = if n % 2 == 0 { "even" } else { "odd" };
            post.given(if n < 5 { "billing" } else { "shipping" }, letter.topic(topic)).await;
        }
        let ids = |letters: &[DeadLetter]| -> Vec<String> {
            letters.iter().map(|dead| dead.letter.event_id.clone()).collect()
        };
        let first = post.list(|filter| filter.limit = 3).await;
        assert_eq!(ids(&first), ["e-6", "e-5", "e-4"]);
        let before = Some(first[2].number);
        assert_eq!(ids(&post.list(|filter| filter.before = before).await), ["e-3", "e-2", "e-1", "e-0"]);
        let billing = |filter: &mut LetterFilter| filter.consumer = Some("billing".into());
        assert_eq!(post.list(billing).await.len(), 5);
        assert_eq!(ids(&post.list(|f| f.topic = Some("odd".into())).await), ["e-5", "e-3", "e-1"]);
        assert_eq!(ids(&post.list(|f| f.event_id = Some("e-2".into())).await), ["e-2"]);
        assert_eq!(ids(&post.list(|f| f.reason_contains = Some("on 4".into())).await), ["e-4"]);
        assert!(post.list(|f| f.reason_contains = Some("%".into())).await.is_empty(), "no pattern");
        assert!(post.list(|f| f.consumer = Some("a\0b".into())).await.is_empty());
        assert!(post.letters.discard(first[0].number).await.unwrap());
        assert_eq!(ids(&post.list(|f| f.status = Some(LetterStatus::Discarded)).await), ["e-6"]);
        assert_eq!(post.list(|f| f.status = Some(LetterStatus::Open)).await.len(), 6);
        for limit in [0, 501] {
            let refused = post.letters.list(&LetterFilter::new(|filter| filter.limit = limit)).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}

#[tokio::test]
async fn decided_letters_are_cleaned_after_720_hours_and_open_ones_never() {
    for post in posts().await {
        let [discarded, resent, _open] = [1, 2, 3]
            .map(|n| Letter::new(format!("e-{n}"), "x", "why"))
            .map(|letter| post.given("billing", letter));
        let (discarded, resent) = (discarded.await, resent.await);
        let open = _open.await;
        assert!(post.letters.discard(discarded).await.unwrap() && post.letters.resent(resent).await.unwrap());
        post.bench.clean().await;
        assert_eq!(post.list(|_| ()).await.len(), 3);
        (post.age)().await;
        post.bench.clean().await;
        let left: Vec<i64> = post.list(|_| ()).await.iter().map(|dead| dead.number).collect();
        assert_eq!(left, [open]);
    }
}

#[tokio::test]
async fn an_impossible_id_is_refused_before_any_sql() {
    for post in posts().await {
        let refused = (post.give_up)("billing", Letter::new("a\0b", "x", "why"), true).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// A dead-letter topic: the letter, the mark and the event of the topic commit together.
#[tokio::test]
async fn a_letter_goes_to_a_topic_in_the_transaction_that_gives_up() {
    let db = TestDatabase::on(&servers()[0]).await;
    let inbox = PostgresInbox::new(db.pool.clone(), "billing").unwrap();
    inbox.migrate().await.unwrap();
    let letter =
        Letter::new("e-1", "{\"order\":17}", "no such customer").attempts(5).topic("orders").key("o-17");
    for commits in [false, true] {
        let given = inbox
            .once("e-1", async |tx| {
                inbox.give_up(tx, &letter).await?;
                db.posthaste.enqueue(tx, letter.event("billing", "orders.dead")).await?;
                if commits { Ok(()) } else { Err(posthaste::Error::LeaseLost) }
            })
            .await;
        assert_eq!(given.is_ok(), commits);
    }
    let mut claims =
        db.posthaste.claims(&Subscription::new("people").unwrap().topic("orders.dead")).await.unwrap();
    let page = claims.claim(10).await.unwrap();
    assert_eq!(page.len(), 1, "that of the transaction that committed");
    let event = page[0].event();
    assert_eq!((event.text(), event.key.as_deref()), (Some("{\"order\":17}"), Some("o-17")));
    assert_eq!(event.headers.get("dead-letter-reason"), Some("no such customer"));
    assert_eq!(event.headers.get("dead-letter-event-id"), Some("e-1"));
    assert_eq!(inbox.dead_letters().list(&LetterFilter::default()).await.unwrap().len(), 1);
}
