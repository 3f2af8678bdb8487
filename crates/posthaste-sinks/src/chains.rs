//! Sending one event at a time, many keys at once: a chain per key, so that no event overtakes an earlier one of its
//! key, not even when that one fails or its acknowledgement is lost.
//!
//! Pipelining within a key is what this refuses: a broker that rejects the first of two messages may well take the second.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{FuturesUnordered, StreamExt};
use posthaste::{Outcome, Page};
use tokio::time::Instant;

use crate::endpoint::too_late;

/// Sends the events of a page, at most `in_flight` at a time, and marks each as soon as its fate is known. Behind an event
/// that was not delivered the rest of its key stays unmarked; once the receiver is away, or after `last_start`, nothing
/// more is started.
pub(crate) async fn deliver<F, Fut>(
    page: &mut Page,
    in_key_order: bool,
    in_flight: usize,
    last_start: Instant,
    send: F,
) where
    F: Fn(usize) -> Fut + Sync,
    Fut: Future<Output = Outcome> + Send,
{
    let mut chains = chains(page, in_key_order).into_iter().map(Vec::into_iter);
    let (mut sending, mut unsent, away) = (FuturesUnordered::new(), None, &AtomicBool::new(false));
    loop {
        while sending.len() < in_flight.max(1) {
            // A chain that has begun goes on before another one begins.
            let Some(mut chain) = unsent.take().or_else(|| chains.next()) else { break };
            let Some(index) = chain.next() else { continue };
            if Instant::now() >= last_start && !away.load(Ordering::Relaxed) {
                page.mark(index, too_late());
                continue;
            }
            let send = &send;
            // Asked when it is its turn, not when it is put in line: many may be in line when the first finds nobody.
            sending.push(async move {
                if away.load(Ordering::Relaxed) {
                    return (chain, index, None);
                }
                let outcome = send(index).await;
                away.fetch_or(matches!(outcome, Outcome::Unavailable { .. }), Ordering::Relaxed);
                (chain, index, Some(outcome))
            });
        }
        let Some((chain, index, outcome)) = sending.next().await else { return };
        unsent = Some(chain).filter(|_| matches!(outcome, None | Some(Outcome::Delivered)));
        page.mark(index, outcome.unwrap_or_else(|| Outcome::unavailable("not sent: the receiver is away")));
    }
}

/// The places of a page, grouped by key, each group in order.
pub(crate) fn chains(page: &Page, in_key_order: bool) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut by_key: HashMap<&str, usize> = HashMap::new();
    for (index, event) in page.events().iter().enumerate() {
        let key = event.key.as_deref().filter(|_| in_key_order);
        let chain = key.map_or(chains.len(), |key| *by_key.entry(key).or_insert(chains.len()));
        match chains.get_mut(chain) {
            Some(chain) => chain.push(index),
            None => chains.push(vec![index]),
        }
    }
    chains
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use chrono::DateTime;
    use posthaste::NewEvent;

    use super::*;

    fn page(keys: &[&str]) -> Page {
        let event = |(seq, key): (usize, &&str)| {
            let new = NewEvent::bytes("t", vec![]);
            let new = if key.is_empty() { new } else { new.key(*key) };
            Arc::new(new.stored(i64::try_from(seq).expect("small"), DateTime::UNIX_EPOCH))
        };
        Page::new(keys.iter().enumerate().map(event).collect())
    }

    async fn sent(keys: &[&str], fail: Option<(usize, Outcome)>) -> (Vec<usize>, Page) {
        let (mut page, order) = (page(keys), Mutex::new(Vec::new()));
        let last_start = Instant::now() + Duration::from_secs(60);
        deliver(&mut page, true, 2, last_start, |index| {
            order.lock().expect("no panic").push(index);
            let outcome = fail
                .clone()
                .filter(|(at, _)| *at == index)
                .map_or(Outcome::Delivered, |(_, outcome)| outcome);
            async move { outcome }
        })
        .await;
        (order.into_inner().expect("no panic"), page)
    }

    #[tokio::test]
    async fn behind_a_failure_the_rest_of_the_key_is_not_sent_and_other_keys_go_on() {
        let (mut order, page) = sent(&["a", "b", "a", "b", "", "a"], Some((2, Outcome::retry("no")))).await;
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4]);
        assert_eq!(page.outcome(5), None);
        assert_eq!(page.outcome(3), Some(&Outcome::Delivered));
    }

    #[tokio::test]
    async fn once_the_receiver_is_away_nothing_more_is_started() {
        let (order, page) = sent(&["a", "b", "c", "d", "a"], Some((0, Outcome::unavailable("gone")))).await;
        assert!(order.len() <= 2, "two in flight at most: {order:?}");
        assert!(matches!(page.outcome(3), Some(Outcome::Unavailable { .. })));
        assert_eq!(page.outcome(4), None);
        let (order, page) = sent(&["a", "b", "a"], Some((1, Outcome::unavailable("gone")))).await;
        assert_eq!(order, [0, 1], "what was in line when that was found is not sent either");
        assert!(matches!(page.outcome(2), Some(Outcome::Unavailable { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_time_of_the_page_is_over_nothing_more_is_started() {
        let mut page = page(&["a", "a", "a", "b"]);
        let last_start = Instant::now() + Duration::from_secs(15);
        let slow = async |_| {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Outcome::Delivered
        };
        deliver(&mut page, true, 2, last_start, slow).await;
        for delivered in [0, 1, 3] {
            assert_eq!(page.outcome(delivered), Some(&Outcome::Delivered));
        }
        assert_eq!(page.outcome(2), Some(&too_late()));
    }
}
