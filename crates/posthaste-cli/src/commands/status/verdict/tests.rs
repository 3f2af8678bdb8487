//! Each verdict, and what is just not yet one.

use super::*;

const fn some(number: u64) -> Amount {
    Amount { number, more: false }
}

fn minutes(minutes: u64) -> Option<Duration> {
    Some(Duration::from_secs(minutes * 60))
}

fn facts() -> Facts {
    Facts {
        name: "billing".to_owned(),
        workers: 1,
        moved_ago: Some(Duration::from_secs(1)),
        ..Facts::default()
    }
}

fn word(facts: &Facts) -> &'static str {
    judge(facts).verdict.as_str()
}

#[test]
fn nothing_to_do_is_healthy_with_or_without_a_worker() {
    assert_eq!(word(&facts()), "healthy");
    let idle = Facts { workers: 0, moved_ago: None, ..facts() };
    assert_eq!(
        judge(&idle),
        Judgement { verdict: Verdict::Healthy, reason: "nothing waits".to_owned(), next: None }
    );
}

#[test]
fn a_short_wait_and_a_young_retry_are_everyday_life() {
    let busy =
        Facts { lag: some(30), retrying: some(2), oldest_age: Some(Duration::from_secs(59)), ..facts() };
    assert_eq!(word(&busy), "healthy");
    assert!(judge(&busy).reason.contains("2 of them retried"));
    let delayed = Facts { lag: some(3), delayed: some(3), ..facts() };
    assert_eq!(word(&delayed), "healthy");
}

#[test]
fn a_long_wait_that_moves_is_behind() {
    let behind = Facts { lag: some(500), in_flight: some(100), oldest_age: minutes(3), ..facts() };
    assert_eq!(word(&behind), "behind");
    assert!(!judge(&behind).verdict.is_bad());
}

#[test]
fn a_long_wait_without_a_worker_is_stalled() {
    let alone = Facts { lag: some(500), oldest_age: minutes(3), workers: 0, ..facts() };
    assert_eq!(word(&alone), "stalled");
    assert!(judge(&alone).reason.ends_with("no worker is running"));
    let retry = Facts { lag: some(1), retrying: some(1), retry_overdue: minutes(2), workers: 0, ..facts() };
    assert_eq!(word(&retry), "stalled");
}

#[test]
fn a_long_wait_in_which_nothing_is_settled_is_stalled() {
    let error = Some("connection refused".to_owned());
    let away = Facts {
        lag: some(500),
        in_flight: some(200),
        oldest_age: minutes(3),
        moved_ago: minutes(2),
        last_error: error,
        ..facts()
    };
    assert_eq!(word(&away), "stalled");
    assert!(judge(&away).reason.ends_with("connection refused"));
    assert_eq!(word(&Facts { moved_ago: None, ..away }), "stalled");
}

#[test]
fn when_all_that_is_left_is_behind_dead_letters_it_is_stalled() {
    let blocked = Facts {
        lag: some(4),
        parked: some(4),
        parked_keys: some(2),
        dead: some(2),
        dead_blocks: true,
        ..facts()
    };
    assert_eq!(word(&blocked), "stalled");
    assert_eq!(judge(&blocked).next.as_deref(), Some("posthaste keys blocked billing"));
    let others_move = Facts { lag: some(9), ..blocked.clone() };
    assert_eq!(word(&others_move), "failing");
    let not_blocking = Facts { dead_blocks: false, newest_dead_ago: minutes(90), ..blocked };
    assert_eq!(word(&not_blocking), "healthy");
}

#[test]
fn a_recent_dead_letter_is_failing_and_an_old_one_is_a_remark() {
    let recent =
        Facts { dead: some(1), newest_dead_ago: minutes(59), last_error: Some("no".to_owned()), ..facts() };
    assert_eq!(word(&recent), "failing");
    assert_eq!(judge(&recent).reason, "1 dead letter, 59 min ago: no");
    let old = Facts { newest_dead_ago: minutes(61), ..recent };
    assert_eq!(word(&old), "healthy");
    assert_eq!(judge(&old).next.as_deref(), Some("posthaste dead list --subscription billing"));
}

#[test]
fn retries_that_go_on_are_failing() {
    let retried = Facts { lag: some(3), retrying: some(3), oldest_age: minutes(2), ..facts() };
    assert_eq!(word(&retried), "failing");
}

#[test]
fn a_pause_comes_before_everything() {
    let paused = Facts {
        paused_for: minutes(180),
        lag: some(5),
        dead: some(1),
        newest_dead_ago: minutes(1),
        workers: 0,
        ..facts()
    };
    assert_eq!(word(&paused), "paused");
    assert_eq!(judge(&paused).reason, "paused for 3 h; waiting: 5 events");
}

#[test]
fn a_count_that_stopped_still_means_that_something_waits() {
    let cut = Amount { number: 10_000, more: true };
    let facts = Facts { lag: cut, parked: cut, oldest_age: minutes(5), workers: 0, ..facts() };
    assert_eq!(word(&facts), "stalled");
    assert!(judge(&facts).reason.starts_with("more than 10000 events"));
}
