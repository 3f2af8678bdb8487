//! `posthaste why`: the life of one event, subscription by subscription, in sentences.

use chrono::Utc;
use posthaste::admin::{BlockedKey, EventDetail, Operation, Reading, SubscriptionState};
use posthaste::{Admin, Event};
use serde_json::{Value, json};

use crate::cli::operate::WhyOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::out::{self, clean, plural};
use crate::talk::shape;
use crate::talk::table::wrapped;
use crate::talk::time::{between, span, stamp};

mod sentences;

use sentences::{Facts, next_step, sentence};

pub(crate) async fn run(context: &Context, options: &WhyOptions) -> Result<(), Failure> {
    let story = Story::gather(&context.admin(), options).await?;
    match context.json {
        true => out::line(story.json().to_string()),
        false => out::lines(story.told()),
    }
}

/// All that the log knows about an event.
struct Story {
    detail: EventDetail,
    readings: Vec<Reading>,
    operations: Vec<Operation>,
    subscriptions: Vec<(SubscriptionState, Option<BlockedKey>)>,
}

/// How the event fares in one subscription.
struct Chapter<'a> {
    name: &'a str,
    sentence: String,
    next: Option<String>,
}

impl Story {
    async fn gather(admin: &Admin, options: &WhyOptions) -> Result<Self, Failure> {
        let detail = admin.event(options.id).await?;
        let readings = admin.readings(&detail.event).await?;
        let operations = admin.operations_on(options.id).await?;
        let mut subscriptions = Vec::new();
        for state in admin.subscriptions().await? {
            let blocked = blocked(admin, &state, &detail).await?;
            subscriptions.push((state, blocked));
        }
        Ok(Self { detail, readings, operations, subscriptions })
    }

    /// The last time a subscription read the event.
    fn reading(&self, name: &str) -> Option<&Reading> {
        self.readings.iter().rev().find(|reading| reading.subscription == name)
    }

    fn chapters(&self) -> Vec<Chapter<'_>> {
        let one = |(state, blocked): &'_ (SubscriptionState, Option<BlockedKey>)| {
            let facts = Facts {
                event: &self.detail.event,
                subscription: state,
                state: self.detail.states.iter().find(|other| other.subscription == state.name),
                reading: self.reading(&state.name),
                deed: self
                    .operations
                    .iter()
                    .rev()
                    .find(|deed| deed.subscription.as_ref() == Some(&state.name)),
                blocked: blocked.as_ref(),
                now: Utc::now(),
            };
            (sentence(&facts), next_step(&facts))
        };
        let chapter = |both| {
            let (sentence, next) = one(both);
            Chapter { name: &both.0.name, sentence, next }
        };
        self.subscriptions.iter().map(chapter).collect()
    }

    fn json(&self) -> Value {
        let event = &self.detail.event;
        let states: Vec<Value> = self
            .chapters()
            .into_iter()
            .map(|Chapter { name, sentence, next }| {
                let state = self.detail.states.iter().find(|state| state.subscription == name);
                json!({
                    "subscription": name,
                    "wanted": state.is_some(),
                    "sentence": sentence,
                    "next_step": next,
                    "state": state.map(shape::event_state),
                    "reading": self.reading(name).map(reading),
                })
            })
            .collect();
        json!({
            "id": event.id.to_string(),
            "seq": event.seq,
            "topic": event.topic,
            "event_type": event.event_type,
            "key": event.key,
            "created_at": stamp(event.created_at),
            "subscriptions": states,
            "operations": self.operations.iter().map(operation).collect::<Vec<_>>(),
        })
    }

    fn told(&self) -> Vec<String> {
        let mut lines = wrapped(&introduction(&self.detail.event), 0);
        lines.push(String::new());
        if self.subscriptions.is_empty() {
            lines.push("There are no subscriptions yet: nobody reads it.".to_owned());
        }
        for Chapter { name, sentence, next } in self.chapters() {
            let mut told = wrapped(&format!("{name}: {sentence}"), 2);
            told[0] = told[0].trim_start().to_owned();
            lines.extend(told);
            lines.extend(next.map(|next| format!("  -> {next}")));
        }
        if !self.operations.is_empty() {
            lines.push(String::new());
            lines.extend(self.operations.iter().map(deed_told));
        }
        lines
    }
}

/// What an event that waits behind another one waits for.
async fn blocked(
    admin: &Admin,
    state: &SubscriptionState,
    detail: &EventDetail,
) -> Result<Option<BlockedKey>, Failure> {
    let parked = detail.states.iter().any(|other| other.subscription == state.name && other.parked);
    let Some(key) = detail.event.key.as_ref().filter(|_| parked) else { return Ok(None) };
    let keys = admin.blocked_keys(&state.name, 500).await?;
    Ok(keys.into_iter().find(|blocked| blocked.key == *key))
}

fn introduction(event: &Event) -> String {
    let what = event.event_type.as_deref().map_or("An event".to_owned(), clean);
    let key = event.key.as_deref().map(|key| format!(" with key {}", clean(key))).unwrap_or_default();
    let ago = span(between(event.created_at, Utc::now()));
    let size = plural(event.payload.len() as u64, "byte", "bytes");
    format!(
        "{what} in topic {}{key}, {size}, enqueued {ago} ago ({}).",
        clean(&event.topic),
        stamp(event.created_at)
    )
}

fn reading(reading: &Reading) -> Value {
    json!({
        "claimed_at": stamp(reading.claimed_at),
        "settled_at": shape::time(reading.finished_at),
        "worker": reading.worker,
    })
}

fn operation(operation: &Operation) -> Value {
    json!({
        "at": stamp(operation.at),
        "who": operation.who,
        "verb": operation.verb,
        "subscription": operation.subscription,
    })
}

fn deed_told(deed: &Operation) -> String {
    let place = deed.subscription.as_deref().map(|name| format!(" in {name}")).unwrap_or_default();
    format!("{}  {}: {}{place}", stamp(deed.at), clean(&deed.who), clean(&deed.verb))
}
