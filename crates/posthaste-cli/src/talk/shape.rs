//! The JSON that scripts read. Times are RFC 3339, durations seconds, ids text; a name that stands here stays.

use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::admin::{Count, EventState, SubscriptionState};
use posthaste::inbox::DeadLetter;
use posthaste::{Attempt, Event, Settings};
use serde_json::{Value, json};

use super::payload::json_value;
use super::time::stamp;

/// `{"count": 10000, "exact": false}`: counting stops somewhere.
pub(crate) fn count(count: Count) -> Value {
    json!({"count": number(count), "exact": count.exact().is_some()})
}

/// The number, or the one at which counting stopped.
pub(crate) fn number(count: Count) -> u64 {
    count.exact().or(count.more_than()).unwrap_or_default()
}

pub(crate) fn time(time: Option<DateTime<Utc>>) -> Value {
    time.map_or(Value::Null, |time| stamp(time).into())
}

/// Seconds, to the millisecond.
pub(crate) fn seconds(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, |duration| (duration.as_millis() as f64 / 1000.0).into())
}

/// An event with its body last, as text: parsing a body would change large numbers in it.
pub(crate) fn event(event: &Event, more: Value) -> String {
    let headers: Value =
        event.headers.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    let (payload, encoding) = json_value(&event.payload);
    let mut fields = json!({
        "id": event.id.to_string(),
        "seq": event.seq,
        "namespace": event.namespace,
        "topic": event.topic,
        "event_type": event.event_type,
        "key": event.key,
        "aggregate_type": event.aggregate_type,
        "aggregate_id": event.aggregate_id,
        "tenant_id": event.tenant_id.map(|tenant| tenant.to_string()),
        "dedupe_key": event.dedupe_key,
        "content_type": event.content_type,
        "headers": headers,
        "available_at": time(event.available_at),
        "created_at": stamp(event.created_at),
        "payload_encoding": encoding,
    });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    let text = fields.to_string();
    format!("{},\"payload\":{payload}}}", &text[..text.len() - 1])
}

/// A consumer's dead letter with its body last. Headers are pairs: names may come twice, and their order is kept.
pub(crate) fn letter(dead: &DeadLetter) -> String {
    let (payload, encoding) = json_value(&dead.letter.payload);
    let text = json!({
        "number": dead.number,
        "consumer": dead.consumer,
        "event_id": dead.letter.event_id,
        "topic": dead.letter.topic,
        "key": dead.letter.key,
        "content_type": dead.letter.content_type,
        "headers": dead.letter.headers,
        "reason": dead.letter.reason,
        "attempts": dead.letter.attempts,
        "times": dead.times,
        "status": dead.status.as_str(),
        "given_up_at": stamp(dead.given_up_at),
        "decided_at": time(dead.decided_at),
        "payload_encoding": encoding,
    })
    .to_string();
    format!("{},\"payload\":{payload}}}", &text[..text.len() - 1])
}

/// The state of an event in one subscription.
pub(crate) fn event_state(state: &EventState) -> Value {
    json!({
        "subscription": state.subscription,
        "status": state.status.as_str(),
        "attempts": state.attempts,
        "next_attempt_at": time(state.next_attempt_at),
        "parked": state.parked,
        "locked_by": state.locked_by,
        "locked_until": time(state.locked_until),
        "last_error": state.last_error,
        "edited": state.edited_payload.is_some(),
        "history": state.history.iter().map(attempt).collect::<Vec<_>>(),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "attempt": attempt.attempt,
        "at": stamp(attempt.at),
        "worker": attempt.worker,
        "outcome": attempt.outcome,
        "error": attempt.error,
    })
}

/// How a subscription stands.
pub(crate) fn subscription(state: &SubscriptionState) -> Value {
    json!({
        "name": state.name,
        "paused_since": time(state.paused_since),
        "lag": count(state.lag),
        "oldest_seconds": seconds(state.oldest_age),
        "in_flight": count(state.in_flight),
        "retrying": count(state.retrying),
        "parked": count(state.parked),
        "parked_keys": count(state.parked_keys),
        "delayed": count(state.delayed),
        "dead": count(state.dead),
        "newest_dead_at": time(state.newest_dead_at),
        "next_retry_at": time(state.oldest_retry_due),
        "last_error": state.last_error,
        "workers": state.workers,
    })
}

/// What was declared, the settings in force, and the lanes.
pub(crate) fn declaration(state: &SubscriptionState) -> Value {
    let lane = |lane: &posthaste::admin::LaneState| {
        json!({
            "generation": lane.generation,
            "lane": lane.lane,
            "batches": lane.batches,
            "moved_at": time(lane.moved_at),
            "held_by": lane.held_by,
            "held_until": time(lane.held_until),
        })
    };
    json!({
        "order": state.order.as_str(),
        "claim_by": state.claim_by.as_str(),
        "after_dead": state.after_dead.as_str(),
        "filter": {
            "namespaces": state.filter.namespaces,
            "topics": state.filter.topics,
            "event_types": state.filter.event_types,
            "tenants": state.filter.tenants.iter().map(ToString::to_string).collect::<Vec<_>>(),
        },
        "settings": settings(&state.settings),
        "overridden": state.overridden,
        "lanes": state.lanes.iter().map(lane).collect::<Vec<_>>(),
    })
}

fn settings(settings: &Settings) -> Value {
    json!({
        "batch_size": settings.batch_size,
        "concurrency": settings.concurrency,
        "poll_interval": seconds(Some(settings.poll_interval)),
        "lease": seconds(Some(settings.lease)),
        "max_attempts": settings.max_attempts,
        "base_delay": seconds(Some(settings.base_delay)),
        "max_delay": seconds(Some(settings.max_delay)),
        "timeout": seconds(Some(settings.timeout)),
        "rate": settings.rate,
    })
}

/// Both objects as one.
pub(crate) fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}
