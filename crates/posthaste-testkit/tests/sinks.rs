//! The recording and the flaky sink, without a database.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use futures::FutureExt;
use posthaste::{Event, Handler, NewEvent, Outcome, Page, Sink};
use posthaste_testkit::{Fate, Flaky, Recorder};

fn event(key: &str, body: &str, seq: i64) -> Arc<Event> {
    let event = NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key);
    Arc::new(event.stored(seq, DateTime::UNIX_EPOCH))
}

async fn deliver(sink: &impl Sink, events: &[Arc<Event>]) -> Vec<Option<Outcome>> {
    let mut page = Page::new(events.to_vec());
    sink.deliver(&mut page).await;
    (0..events.len()).map(|index| page.outcome(index).cloned()).collect()
}

#[tokio::test]
async fn a_recorder_remembers_every_attempt_with_its_number_and_its_outcome() {
    let recorder = Recorder::around(Flaky::accepting().refuse_keys(["b"]));
    let (a, b) = (event("a", "1", 1), event("b", "2", 2));
    let mut page = Page::for_attempts([(a.clone(), 3, 0), (b.clone(), 1, 0)]);
    recorder.deliver(&mut page).await;
    let attempts = recorder.wait_for(2).await;
    assert_eq!((&attempts[0].event, attempts[0].attempt), (&a, 3));
    assert_eq!(attempts[0].outcome, Some(Outcome::Delivered));
    assert_eq!(attempts[1].outcome, Some(Outcome::dead("key b was made to be refused")));
    assert_eq!(recorder.delivered(), [a]);
    recorder.clear();
    assert!(recorder.attempts().is_empty());
}

#[tokio::test]
async fn a_recorder_is_a_handler_too_and_stands_around_one() {
    let recorder = Recorder::around_handler(|event: Arc<Event>| async move {
        if event.text() == Some("bad") { Err("no") } else { Ok(()) }
    });
    assert_eq!(recorder.handle(event("a", "good", 1)).await, Outcome::Delivered);
    let bad = event("a", "bad", 2);
    assert_eq!(recorder.handle(bad.clone()).await, Outcome::retry("no"));
    assert_eq!(recorder.handle(bad).await, Outcome::retry("no"));
    let numbers: Vec<u32> = recorder.attempts().iter().map(|recorded| recorded.attempt).collect();
    assert_eq!(numbers, [1, 1, 2]);
}

#[tokio::test]
async fn waiting_for_attempts_ends_with_the_last_of_them() {
    let recorder = Recorder::accepting();
    let waiting = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.wait_for(2).await.len() }
    });
    deliver(&recorder, &[event("a", "1", 1)]).await;
    deliver(&recorder, &[event("a", "2", 2)]).await;
    assert_eq!(waiting.await.unwrap(), 2);
}

#[tokio::test]
async fn waiting_in_vain_ends_with_a_sentence() {
    let recorder = Recorder::accepting().bound(Duration::from_millis(10));
    let waiting = tokio::spawn(async move { recorder.wait_for(2).await });
    let panic = waiting.await.unwrap_err().into_panic();
    let words = panic.downcast_ref::<String>().unwrap();
    assert_eq!(words, "only 0 of 2 attempts were made within 10ms");
}

#[tokio::test]
async fn the_first_attempts_fail_per_event() {
    let flaky = Flaky::accepting().fail_first(2);
    let (a, b) = (event("a", "1", 1), event("b", "2", 2));
    for attempt in 1..=2 {
        let failed = Some(Outcome::retry(format!("attempt {attempt} was made to fail")));
        assert_eq!(deliver(&flaky, &[a.clone(), b.clone()]).await, [failed.clone(), failed]);
    }
    assert_eq!(deliver(&flaky, &[a]).await, [Some(Outcome::Delivered)]);
    assert_eq!(flaky.handle(b).await, Outcome::Delivered);
}

#[tokio::test]
async fn a_later_event_of_a_failed_key_is_not_passed_on() {
    let recorder = Recorder::accepting();
    let flaky = Flaky::around(recorder.clone())
        .rule(|event, _| (event.text() == Some("1")).then(|| Fate::Outcome(Outcome::retry("no"))));
    let page = [event("a", "1", 1), event("a", "2", 2), event("b", "3", 3)];
    let outcomes = deliver(&flaky, &page).await;
    assert_eq!(outcomes, [Some(Outcome::retry("no")), None, Some(Outcome::Delivered)]);
    assert_eq!(recorder.delivered(), [page[2].clone()]);
}

#[tokio::test]
async fn away_is_away_for_the_whole_page_until_it_comes_back_and_counts_nothing() {
    let flaky = Flaky::accepting().fail_first(1);
    let page = [event("a", "1", 1), event("a", "2", 2), event("b", "3", 3)];
    flaky.go_away("cut");
    assert_eq!(deliver(&flaky, &page).await, vec![Some(Outcome::unavailable("cut")); 3]);
    assert_eq!(flaky.check().await, Err("cut".to_owned()));
    flaky.come_back();
    assert_eq!(flaky.check().await, Ok(()));
    assert_eq!(deliver(&flaky, &page[..1]).await, [Some(Outcome::retry("attempt 1 was made to fail"))]);
}

#[tokio::test]
async fn panics_and_what_was_recorded_of_them() {
    let recorder = Recorder::around(Flaky::accepting().panic_first(1));
    let a = event("a", "1", 1);
    let panicked =
        std::panic::AssertUnwindSafe(deliver(&recorder, std::slice::from_ref(&a))).catch_unwind().await;
    let panic = panicked.unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "attempt 1 was made to panic");
    assert_eq!(recorder.attempts()[0].outcome, Some(Outcome::retry("panicked")));
    assert_eq!(deliver(&recorder, &[a]).await, [Some(Outcome::Delivered)]);
}

#[tokio::test]
async fn an_attempt_that_was_cut_off_is_recorded_without_an_outcome() {
    let recorder = Recorder::around(Flaky::accepting().hang_keys(["b"]));
    let (a, b) = (event("a", "1", 1), event("b", "2", 2));
    let events = [a, b.clone()];
    let cut_off = tokio::time::timeout(Duration::from_millis(1), deliver(&recorder, &events));
    assert!(cut_off.await.is_err());
    let attempts = recorder.attempts();
    let outcomes: Vec<_> =
        attempts.iter().map(|recorded| (&recorded.event, recorded.outcome.as_ref())).collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert_eq!(outcomes[1], (&b, None));
    assert!(tokio::time::timeout(Duration::from_millis(1), Handler::handle(&recorder, b)).await.is_err());
    assert_eq!(recorder.attempts().len(), 3);
}

#[tokio::test]
async fn what_hangs_goes_on_when_it_is_released_and_is_no_longer_counted_when_given_up() {
    let flaky = Flaky::accepting().hang_keys(["a"]);
    let a = event("a", "1", 1);
    let given_up =
        tokio::time::timeout(Duration::from_millis(1), deliver(&flaky, std::slice::from_ref(&a))).await;
    assert!(given_up.is_err());
    flaky.until_hanging(0).await;
    assert_eq!(deliver(&flaky, &[event("b", "2", 2)]).await, [Some(Outcome::Delivered)]);
    let hanging = tokio::spawn({
        let (flaky, a) = (flaky.clone(), a.clone());
        async move { deliver(&flaky, &[a]).await }
    });
    flaky.until_hanging(1).await;
    flaky.release();
    assert_eq!(hanging.await.unwrap(), [Some(Outcome::Delivered)]);
    assert_eq!(flaky.handle(a).await, Outcome::Delivered);
}
