//! What every store must do, written once. A store's test file names its databases and gets one test per scenario:
//!
//! ```text
//! async fn backends() -> Vec<TestDatabase> { ... }
//! posthaste_testkit::store_suite!(backends);
//! ```
//!
//! Scenarios wait for facts, and assert no elapsed time. They panic when a promise is broken: they are tests.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use posthaste::{
    Claimed, Claims, Enqueued, Event, EventId, Handler, NewEvent, Outcome, Posthaste, Result, Subscription,
};

use crate::ledger::Ledger;

pub mod claims;
pub mod enqueue;
pub mod failures;
pub mod order;
pub mod reading;
pub mod registry;
pub mod sinks;
pub mod steps;
pub mod waking;
pub mod workers;

mod postgres;
mod sqlite;

/// A fresh log in some database, and what a test needs to see of it.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The log.
    fn posthaste(&self) -> &Posthaste;

    /// Another handle with connections of its own: another process.
    async fn another(&self) -> Posthaste;

    /// The same, to be called inside a runtime that will be killed.
    fn opener(&self) -> Box<dyn FnOnce() -> futures::future::BoxFuture<'static, Posthaste> + Send>;

    /// Makes each of these calls in one transaction and commits it, whatever they answered.
    async fn commit_calls(&self, calls: Vec<Vec<NewEvent>>) -> Vec<Result<Vec<Enqueued>>>;

    /// Enqueues in a transaction that is rolled back.
    async fn roll_back(&self, events: Vec<NewEvent>) -> Vec<Enqueued>;

    /// Enqueues in a committed transaction that rings no bell, where that can be had.
    async fn commit_silently(&self, events: Vec<NewEvent>);

    /// How many events there are.
    async fn count_events(&self) -> u64;

    /// The delivery rows of a subscription, in seq order.
    async fn deliveries(&self, subscription: &str) -> Vec<Delivery>;

    /// Parks every delivery of a subscription that waits, as a worker of an older declaration would.
    async fn park_all(&self, subscription: &str);

    /// Enqueues with a handle of the caller's in a transaction, and commits it whatever the answer was.
    async fn enqueue_with(&self, posthaste: &Posthaste, events: Vec<NewEvent>) -> Result<Vec<Enqueued>>;

    /// Enqueues in one transaction and commits it.
    async fn commit(&self, events: Vec<NewEvent>) -> Vec<Enqueued> {
        let mut answers = self.commit_calls(vec![events]).await;
        answers.remove(0).expect("enqueue")
    }
}

/// A delivery row, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The event.
    pub id: EventId,
    /// `pending`, `processing` or `dead`.
    pub status: String,
    /// Attempts counted.
    pub attempts: u32,
    /// Whether it waits behind an earlier event of its key.
    pub parked: bool,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it is due.
    pub next_attempt_at: DateTime<Utc>,
    /// Who holds it.
    pub locked_by: Option<String>,
}

/// Turns the scenarios into tests, each on every database that `$backends()` gives.
#[macro_export]
macro_rules! store_suite {
    ($backends:path) => {
        $crate::store_suite! { @tests $backends;
            enqueue: an_enqueue_answers_with_the_id_and_whether_it_is_a_duplicate,
            enqueue: racing_producers_enqueue_one_event_and_the_losers_learn_its_id,
            enqueue: duplicates_inside_one_call_share_the_first_id,
            enqueue: a_dedupe_key_belongs_to_its_namespace_and_topic,
            enqueue: a_dedupe_key_can_be_used_again_when_its_lifetime_has_passed,
            enqueue: a_rolled_back_enqueue_leaves_nothing_not_even_a_reserved_key,
            enqueue: bad_input_is_refused_with_a_typed_error_and_the_transaction_commits,
            enqueue: bytes_headers_and_content_type_arrive_as_enqueued,
            enqueue: many_events_of_one_call_keep_their_order,
            enqueue: large_events_arrive_although_a_page_carries_only_so_many_bytes,
            reading: a_filter_selects_by_namespace_topic_type_and_tenant,
            reading: a_changed_filter_decides_about_what_is_claimed_later,
            reading: a_filter_changed_by_another_process_holds_for_a_running_worker,
            reading: a_new_subscription_begins_where_it_says,
            reading: a_start_by_time_on_an_empty_log_misses_nothing,
            reading: subscriptions_are_independent,
            reading: delayed_events_are_not_early_and_do_not_hold_their_key,
            order: key_order_holds_through_failures,
            order: a_backlog_keeps_the_order_of_keys_that_fail,
            order: without_order_a_failing_event_holds_nobody,
            order: strict_order_holds_everything_behind_a_failing_event,
            order: strict_order_goes_on_after_a_dead_letter,
            order: strict_order_goes_on_where_another_worker_stopped,
            order: a_stop_while_strict_order_backs_off_keeps_the_time_and_the_error,
            order: a_slow_key_stops_no_other_key_and_is_not_kept_in_memory,
            failures: a_failure_is_recorded_and_the_next_attempt_is_later_each_time,
            failures: an_event_is_dead_after_its_last_attempt_and_its_key_goes_on,
            failures: a_dead_letter_holds_its_key_if_the_policy_says_block,
            failures: a_key_goes_on_when_the_policy_changes_to_skip,
            failures: nothing_stays_parked_when_the_order_of_keys_is_given_up,
            failures: a_slow_event_holds_no_retry_of_another_key,
            failures: an_attempt_that_outlives_a_pause_is_made_again,
            failures: a_rejected_event_is_dead_at_once,
            failures: a_panic_is_a_failure_of_its_event_only,
            failures: a_handler_that_takes_too_long_fails_its_event,
            failures: a_receiver_that_is_away_burns_no_attempts_whatever_is_restarted,
            failures: every_subscription_of_a_handle_retries_in_time,
            claims: claimed_events_are_settled_by_hand,
            claims: two_claimers_never_get_the_same_event,
            claims: an_expired_lease_gives_the_event_to_the_other_and_the_late_settle_changes_nothing,
            claims: a_claimer_that_claims_again_is_fenced_from_its_former_claim,
            claims: what_a_lost_claimer_held_can_be_claimed_after_its_lease,
            claims: attempts_are_counted_at_claim_and_given_back_by_release,
            claims: a_row_at_the_limit_whose_worker_died_becomes_dead_and_its_neighbours_do_not,
            claims: a_renewed_lease_is_not_given_away,
            claims: in_key_order_only_the_head_of_a_key_is_claimed,
            claims: claiming_by_hand_takes_up_what_a_lost_worker_left,
            sinks: a_page_is_settled_mark_by_mark,
            sinks: pages_keep_key_order_through_partial_failures,
            sinks: pages_overlap_and_no_key_is_in_two_of_them,
            sinks: pages_that_take_their_time_get_no_rows,
            sinks: what_comes_back_of_a_slow_page_keeps_the_order_of_its_key,
            sinks: an_unavailable_sink_that_leaves_the_rest_unmarked_keeps_key_order,
            sinks: a_sink_that_goes_away_after_a_failure_keeps_key_order,
            sinks: what_was_marked_before_a_sink_hung_or_panicked_counts,
            registry: a_misfit_is_refused_at_enqueue_and_the_transaction_commits,
            registry: a_misfit_is_dead_at_delivery_and_the_others_go_on,
            steps: attempts_are_numbered_from_one,
            steps: the_next_worker_goes_on_at_the_step_that_was_reached,
            steps: each_event_of_a_page_has_its_own_step,
            steps: a_step_counts_although_the_attempt_panics_or_takes_too_long,
            steps: a_step_reached_before_the_receiver_went_away_survives_a_stop,
            steps: a_revived_dead_letter_goes_on_at_its_step_unless_it_was_edited,
            steps: a_replay_begins_with_the_first_step_again,
            workers: a_graceful_stop_repeats_and_loses_nothing,
            workers: a_stop_does_not_wait_for_ever,
            workers: a_worker_tells_whether_it_was_stopped_or_its_subscription_deleted,
            workers: settings_take_effect_on_a_running_worker,
            workers: changing_the_lanes_loses_repeats_and_reorders_nothing,
            workers: changing_the_lanes_does_not_wait_for_events_in_every_lane,
            workers: two_workers_share_the_lanes,
            workers: a_killed_worker_is_succeeded_without_loss_or_reordering,
            workers: claimed_by_event_a_kill_repeats_only_what_was_running,
            workers: an_event_that_kills_its_worker_dies_alone,
            waking: an_enqueue_in_another_process_wakes_a_sleeping_worker,
            waking: polling_alone_finds_what_nobody_rang_for,
        }
    };
    (@tests $backends:path; $($module:ident: $scenario:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                for backend in $backends().await {
                    $crate::suite::$module::$scenario(&backend).await;
                }
            }
        )+
    };
}

/// A subscription with short delays.
pub fn quick(name: &str) -> Subscription {
    Subscription::new(name).expect("a name").settings(|s| {
        s.base_delay = Duration::from_millis(20);
        s.max_delay = Duration::from_millis(200);
        s.poll_interval = Duration::from_millis(300);
    })
}

/// An event with a key and a body of text.
pub fn event(key: &str, body: &str) -> NewEvent {
    NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key)
}

/// `count` events of one key, numbered so that text order is their order.
pub fn numbered(key: &str, count: usize) -> Vec<NewEvent> {
    (0..count).map(|n| event(key, &format!("{key}-{n:05}"))).collect()
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not within half a minute.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "in half a minute it did not come true that {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Claims until something is claimed.
pub async fn claim_some(claims: &mut Claims, limit: u32) -> Vec<Claimed> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let claimed = claims.claim(limit).await.expect("claim");
        if !claimed.is_empty() {
            return claimed;
        }
        assert!(Instant::now() < deadline, "nothing could be claimed within half a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The bodies accepted for a key, in order.
pub fn of_key(ledger: &Ledger, key: &str) -> Vec<String> {
    let of_key = ledger.accepted().into_iter().filter(|accepted| accepted.key.as_deref() == Some(key));
    of_key.map(|accepted| String::from_utf8_lossy(&accepted.payload).into_owned()).collect()
}

/// Asserts that exactly these bodies were accepted for a key, each once, in order.
pub fn assert_key(ledger: &Ledger, key: &str, count: usize) {
    let expected: Vec<String> = (0..count).map(|n| format!("{key}-{n:05}")).collect();
    assert_eq!(of_key(ledger, key), expected, "key {key}");
}

type Decide = dyn Fn(&Event, u32) -> Outcome + Send + Sync;

/// A handler that decides by event and attempt, and records every attempt and every acceptance.
#[derive(Clone)]
pub struct Script {
    /// Every attempt.
    pub attempts: Ledger,
    /// Every attempt that ended in `Delivered`.
    pub accepted: Ledger,
    counts: Arc<Mutex<HashMap<EventId, u32>>>,
    decide: Arc<Decide>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    /// Decides by event and how-manieth attempt, counted from 1.
    pub fn new(decide: impl Fn(&Event, u32) -> Outcome + Send + Sync + 'static) -> Self {
        Self {
            attempts: Ledger::default(),
            accepted: Ledger::default(),
            counts: Arc::default(),
            decide: Arc::new(decide),
        }
    }

    /// Accepts everything.
    pub fn accepting() -> Self {
        Self::new(|_, _| Outcome::Delivered)
    }

    /// What becomes of this attempt.
    pub fn attempt(&self, event: &Event) -> Outcome {
        let attempt = {
            let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let count = counts.entry(event.id).or_default();
            *count += 1;
            *count
        };
        self.attempts.accept(event);
        let outcome = (self.decide)(event, attempt);
        if outcome == Outcome::Delivered {
            self.accepted.accept(event);
        }
        outcome
    }
}

#[async_trait]
impl Handler for Script {
    async fn handle(&self, event: Arc<Event>) -> Outcome {
        self.attempt(&event)
    }
}

/// A process that can be killed: a runtime of its own, whose tasks end where they stand.
#[derive(Debug)]
pub struct Process(Option<tokio::runtime::Runtime>);

impl Process {
    /// Starts one and waits until `beginning` has run in it.
    ///
    /// # Panics
    /// If there is no thread for it, or the beginning fails.
    pub async fn start(beginning: impl Future<Output = ()> + Send + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.spawn(beginning).await.expect("the process began");
        Self(Some(runtime))
    }

    /// Kills it: nothing is settled, nothing is given back.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
