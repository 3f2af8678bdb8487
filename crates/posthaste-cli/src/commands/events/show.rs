//! Everything about one event.

use posthaste::Event;
use posthaste::admin::{EventDetail, EventState};
use serde_json::json;

use crate::cli::events::ShowEvent;
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::out::{self, clean, plural};
use crate::talk::table::Table;
use crate::talk::time::{short_stamp, stamp};
use crate::talk::{payload, shape};

pub(super) async fn run(context: &Context, options: &ShowEvent) -> Result<(), Failure> {
    let detail = context.admin().event(options.id).await?;
    match (options.payload_only, context.json) {
        (true, _) => out::bytes(&detail.event.payload),
        (false, true) => out::line(detail_json(&detail, &detail.states)),
        (false, false) => out::lines(told(&detail)),
    }
}

/// The event with these of its states.
pub(crate) fn detail_json(detail: &EventDetail, states: &[EventState]) -> String {
    let states: Vec<_> = states.iter().map(shape::event_state).collect();
    shape::event(&detail.event, json!({"subscriptions": states}))
}

fn told(detail: &EventDetail) -> Vec<String> {
    let mut lines = fields(&detail.event);
    lines.push(String::new());
    lines.extend(body(&detail.event));
    lines.push(String::new());
    lines.extend(states(detail));
    lines
}

/// What the event says about itself; what it does not say is left out.
pub(crate) fn fields(event: &Event) -> Vec<String> {
    let aggregate = event.aggregate_type.as_ref().zip(event.aggregate_id.as_ref());
    let fields = [
        ("id", Some(event.id.to_string())),
        ("number", Some(event.seq.to_string())),
        ("namespace", Some(event.namespace.clone()).filter(|namespace| namespace != "default")),
        ("topic", Some(event.topic.clone())),
        ("type", event.event_type.clone()),
        ("key", event.key.clone()),
        ("about", aggregate.map(|(kind, id)| format!("{kind} {id}"))),
        ("tenant", event.tenant_id.map(|tenant| tenant.to_string())),
        ("dedupe key", event.dedupe_key.clone()),
        ("enqueued", Some(stamp(event.created_at))),
        ("not before", event.available_at.map(stamp)),
    ];
    let line =
        |(name, value): (&str, Option<String>)| value.map(|value| format!("{name:<12}{}", clean(&value)));
    let headers = event
        .headers
        .iter()
        .map(|(name, value)| format!("{:<12}{}: {}", "header", clean(name), clean(value)));
    fields.into_iter().filter_map(line).chain(headers).collect()
}

pub(crate) fn body(event: &Event) -> Vec<String> {
    let size = plural(event.payload.len() as u64, "byte", "bytes");
    let head = format!("body ({}, {size})", clean(&event.content_type));
    std::iter::once(head)
        .chain(payload::readable(&event.payload).iter().map(|line| format!("  {line}")))
        .collect()
}

fn states(detail: &EventDetail) -> Vec<String> {
    if detail.states.is_empty() {
        return vec!["No subscription wants it.".to_owned()];
    }
    let mut table = Table::new(1, ["subscription", "status", "attempts", "next attempt (UTC)", "last error"]);
    for state in &detail.states {
        let waits = state.status.as_str() == "pending";
        table.row([
            state.subscription.clone(),
            state.status.as_str().to_owned(),
            state.attempts.to_string(),
            state.next_attempt_at.filter(|_| waits).map_or("-".to_owned(), short_stamp),
            state.last_error.as_deref().map_or("-".to_owned(), clean),
        ]);
    }
    let mut lines = table.lines();
    lines.push(format!("For the whole story: posthaste why {}", detail.event.id));
    lines
}
