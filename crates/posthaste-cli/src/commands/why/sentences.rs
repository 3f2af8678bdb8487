//! How an event stands in one subscription, in a sentence. Says only what the log knows.

use chrono::{DateTime, Utc};
use posthaste::admin::{BlockedKey, EventState, EventStatus, Operation, Reading, SubscriptionState};
use posthaste::{AfterDead, DeliveryStatus, Event, Order};

use crate::commands::subscriptions::show::wants;
use crate::talk::out::{clean, plural};
use crate::talk::time::{between, span};

/// What is known about an event and one subscription.
pub(super) struct Facts<'a> {
    pub(super) event: &'a Event,
    pub(super) subscription: &'a SubscriptionState,
    /// `None`: it does not want the event.
    pub(super) state: Option<&'a EventState>,
    /// The last time it read the event, as far as the journal is kept.
    pub(super) reading: Option<&'a Reading>,
    /// The last thing a person did to the event there.
    pub(super) deed: Option<&'a Operation>,
    /// What holds its key.
    pub(super) blocked: Option<&'a BlockedKey>,
    pub(super) now: DateTime<Utc>,
}

/// What to type next, if a person must act.
pub(super) fn next_step(facts: &Facts<'_>) -> Option<String> {
    let (name, state) = (&facts.subscription.name, facts.state?);
    let behind_dead = facts.blocked.is_some_and(|head| head.status == DeliveryStatus::Dead);
    match state.status {
        EventStatus::Dead => Some(format!("posthaste dead retry {}", facts.event.id)),
        EventStatus::Pending if behind_dead => Some(format!("posthaste keys blocked {name}")),
        EventStatus::Pending if facts.subscription.paused_since.is_some() => {
            Some(format!("posthaste subscriptions resume {name}"))
        }
        _ => None,
    }
}

pub(super) fn sentence(facts: &Facts<'_>) -> String {
    let Some(state) = facts.state else { return not_wanted(facts) };
    match state.status {
        EventStatus::Delivered => delivered(facts),
        EventStatus::Dead => dead(facts, state),
        EventStatus::Processing => processing(state),
        EventStatus::Pending => pending(facts, state),
    }
}

fn not_wanted(facts: &Facts<'_>) -> String {
    let (filter, event) = (&facts.subscription.filter, facts.event);
    let lets_in = |names: &[String], name: Option<&str>| {
        names.is_empty() || name.is_some_and(|name| names.iter().any(|other| other == name))
    };
    let fits = lets_in(&filter.namespaces, Some(&event.namespace))
        && lets_in(&filter.topics, Some(&event.topic))
        && lets_in(&filter.event_types, event.event_type.as_deref())
        && (filter.tenants.is_empty()
            || event.tenant_id.is_some_and(|tenant| filter.tenants.contains(&tenant)));
    match fits {
        true => "not for it: it began to read after this event".to_owned(),
        false => format!("not for it: it wants {}", wants(filter)),
    }
}

/// The journal knows when the event was read, not how many attempts followed if it left its batch.
fn delivered(facts: &Facts<'_>) -> String {
    if let Some(deed) = facts.deed.filter(|deed| matches!(deed.verb.as_str(), "skip" | "discard")) {
        let ago = span(between(deed.at, facts.now));
        let did = if deed.verb == "skip" { "skipped" } else { "given up" };
        return format!("{did} by {} {ago} ago", clean(&deed.who));
    }
    let again = match facts.deed.map(|deed| deed.verb.as_str()) {
        Some("retry" | "edit and retry") => ", after a person had it tried again",
        Some("redeliver") => ", after a person had it sent again",
        _ => "",
    };
    match facts.reading {
        Some(reading) => {
            let worker =
                reading.worker.as_deref().map(|name| format!(" by {}", clean(name))).unwrap_or_default();
            let after = span(between(facts.event.created_at, reading.claimed_at));
            format!("delivered{again}; read{worker} {after} after it was enqueued")
        }
        None => format!("delivered{again}; the journal no longer says when"),
    }
}

fn dead(facts: &Facts<'_>, state: &EventState) -> String {
    let since = state.history.last().map(|attempt| format!(" for {}", span(between(attempt.at, facts.now))));
    let blocks = facts.subscription.order == Order::Key && facts.subscription.after_dead == AfterDead::Block;
    let key = match blocks && facts.event.key.is_some() {
        true => "; the later events of its key wait for it",
        false => "",
    };
    format!(
        "dead{}, after {}{}{key}",
        since.unwrap_or_default(),
        plural(state.attempts.into(), "attempt", "attempts"),
        error(state.last_error.as_deref()),
    )
}

fn processing(state: &EventState) -> String {
    let holder = state.locked_by.as_deref().map_or("a worker".to_owned(), clean);
    let before = match state.attempts {
        0 | 1 => String::new(),
        attempts => format!(", attempt {attempts}{}", error(state.last_error.as_deref())),
    };
    format!("being handled by {holder}{before}")
}

fn pending(facts: &Facts<'_>, state: &EventState) -> String {
    let due = state.next_attempt_at.filter(|at| *at > facts.now);
    let next =
        due.map_or("due now".to_owned(), |at| format!("next attempt in {}", span(between(facts.now, at))));
    if state.parked {
        return behind(facts);
    }
    let unheard = unattended(facts.subscription, facts.now);
    if state.attempts > 0 {
        let times = plural(state.attempts.into(), "time", "times");
        return format!("failed {times}{}; {next}{unheard}", error(state.last_error.as_deref()));
    }
    match facts.event.available_at.filter(|at| *at > facts.now) {
        Some(at) => format!("its time comes in {}", span(between(facts.now, at))),
        None if !unheard.is_empty() => format!("waiting{unheard}"),
        None => format!("waiting to be read; {} events wait there", facts.subscription.lag),
    }
}

/// Why nobody takes an event that is due.
fn unattended(subscription: &SubscriptionState, now: DateTime<Utc>) -> String {
    match subscription.paused_since {
        Some(since) => format!(": paused for {}", span(between(since, now))),
        None if subscription.workers.is_empty() => ": no worker is running for it".to_owned(),
        None => String::new(),
    }
}

fn behind(facts: &Facts<'_>) -> String {
    let Some(head) = facts.blocked else {
        return "waiting behind an earlier event of the same key".to_owned();
    };
    let (id, failed) = (head.head, error(head.last_error.as_deref()));
    let times = plural(head.attempts.into(), "time", "times");
    let how = match head.status {
        DeliveryStatus::Dead => format!("which is dead{failed}"),
        DeliveryStatus::Processing => "which is being handled".to_owned(),
        DeliveryStatus::Pending => {
            let wait = span(between(facts.now, head.next_attempt_at));
            format!("which failed {times}{failed}; next attempt in {wait}")
        }
    };
    format!("waiting behind event {id} of the same key, {how}")
}

fn error(text: Option<&str>) -> String {
    text.map(|text| format!(": {}", clean(text))).unwrap_or_default()
}
