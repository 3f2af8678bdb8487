//! A subscription in words.

use std::time::Duration;

use posthaste::Filter;
use posthaste::admin::SubscriptionState;

use crate::talk::out::clean;
use crate::talk::table::{Table, wrapped};
use crate::talk::time::{short_stamp, span};

pub(super) fn list(states: &[SubscriptionState]) -> Vec<String> {
    if states.is_empty() {
        return vec!["No subscriptions yet. One appears when a worker starts for it.".to_owned()];
    }
    let mut table = Table::new(1, ["subscription", "order", "wants", "waiting", "dead", "workers", "paused"]);
    for state in states {
        table.row([
            state.name.clone(),
            state.order.as_str().to_owned(),
            wants(&state.filter),
            state.lag.to_string(),
            state.dead.to_string(),
            state.workers.len().to_string(),
            if state.paused_since.is_some() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.lines()
}

/// `topics orders, payments; types order.created`, or `everything`.
pub(crate) fn wants(filter: &Filter) -> String {
    let tenants: Vec<String> = filter.tenants.iter().map(ToString::to_string).collect();
    let parts = [
        ("namespaces", &filter.namespaces),
        ("topics", &filter.topics),
        ("types", &filter.event_types),
        ("tenants", &tenants),
    ];
    let said = |(what, names): &(&str, &Vec<String>)| format!("{what} {}", clean(&names.join(", ")));
    let parts: Vec<String> = parts.iter().filter(|(_, names)| !names.is_empty()).map(said).collect();
    if parts.is_empty() { "everything".to_owned() } else { parts.join("; ") }
}

pub(super) fn details(state: &SubscriptionState) -> Vec<String> {
    let field = |name: &str, value: String| {
        let mut lines = wrapped(&value, 14);
        lines[0].replace_range(..14, &format!("{name:<14}"));
        lines
    };
    let mut lines = Vec::new();
    lines.extend(field("subscription", state.name.clone()));
    lines.extend(field("wants", wants(&state.filter)));
    lines.extend(field("order", format!("{}, claimed by {}", state.order.as_str(), state.claim_by.as_str())));
    lines.extend(field("after dead", after_dead(state)));
    lines.extend(field(
        "paused",
        state.paused_since.map_or("no".to_owned(), |at| format!("since {} UTC", short_stamp(at))),
    ));
    lines.extend(field("waiting", waiting(state)));
    lines.extend(field("dead", dead(state)));
    lines.extend(field(
        "workers",
        if state.workers.is_empty() { "none".to_owned() } else { state.workers.join(", ") },
    ));
    if let Some(error) = &state.last_error {
        lines.extend(field("last error", clean(error)));
    }
    lines.push(String::new());
    lines.extend(settings(state));
    lines.push(String::new());
    lines.extend(lanes(state));
    lines
}

fn after_dead(state: &SubscriptionState) -> String {
    match state.after_dead.as_str() {
        "block" => "block: the key waits for a person".to_owned(),
        _ => "skip: the key goes on".to_owned(),
    }
}

fn waiting(state: &SubscriptionState) -> String {
    let oldest = state.oldest_age.map(|age| format!(", the oldest for {}", span(age))).unwrap_or_default();
    format!(
        "{}{oldest} ({} in flight, {} retrying, {} behind others of their key, {} not due)",
        state.lag, state.in_flight, state.retrying, state.parked, state.delayed
    )
}

fn dead(state: &SubscriptionState) -> String {
    let newest =
        state.newest_dead_at.map(|at| format!(", the newest at {} UTC", short_stamp(at))).unwrap_or_default();
    format!("{}{newest}", state.dead)
}

/// The settings in force, with a mark at those an operator changed.
pub(super) fn settings(state: &SubscriptionState) -> Vec<String> {
    let settings = &state.settings;
    let seconds = |duration: Duration| format!("{} s", duration.as_secs_f64());
    let rows = [
        ("batch_size", settings.batch_size.to_string()),
        ("concurrency", settings.concurrency.to_string()),
        ("poll_interval", seconds(settings.poll_interval)),
        ("lease", seconds(settings.lease)),
        ("max_attempts", settings.max_attempts.to_string()),
        ("base_delay", seconds(settings.base_delay)),
        ("max_delay", seconds(settings.max_delay)),
        ("timeout", seconds(settings.timeout)),
        (
            "rate",
            if settings.rate == 0 { "no limit".to_owned() } else { format!("{} events/s", settings.rate) },
        ),
    ];
    let mut table = Table::new(1, ["setting", "value", ""]);
    for (name, value) in rows {
        let changed = state.overridden.iter().any(|other| other == name);
        table.row([name.to_owned(), value, if changed { "changed by an operator" } else { "" }.to_owned()]);
    }
    table.lines()
}

fn lanes(state: &SubscriptionState) -> Vec<String> {
    let mut table = Table::new(0, ["lane", "batches", "last settled (UTC)", "held by", "until (UTC)"]);
    for lane in &state.lanes {
        let time = |at: Option<_>| at.map_or("-".to_owned(), short_stamp);
        table.row([
            format!("{}/{}", lane.generation, lane.lane),
            lane.batches.to_string(),
            time(lane.moved_at),
            lane.held_by.clone().unwrap_or_else(|| "-".to_owned()),
            time(lane.held_until),
        ]);
    }
    table.lines()
}
