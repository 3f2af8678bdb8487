//! `posthaste keys`: which keys wait for the event at their head, and letting one go on.

use chrono::{DateTime, Utc};
use posthaste::DeliveryStatus;
use posthaste::admin::{BlockedKey, SubscriptionState};
use serde_json::{Value, json};

use crate::cli::operate::{BlockedOptions, KeysCommand, ReleaseOptions};
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::out::{self, clean, counted, plural, typed};
use crate::talk::table::Table;
use crate::talk::time::{between, span, stamp};
use crate::talk::{names, shape};

/// Looked through for the key that is released.
const MOST_KEYS: u32 = 500;

pub(crate) async fn run(context: &Context, command: KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Blocked(options) => blocked(context, &options).await,
        KeysCommand::Release(options) => release(context, &options).await,
    }
}

async fn blocked(context: &Context, options: &BlockedOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let chosen: Vec<String> = options.subscription.iter().cloned().collect();
    let states = names::chosen(&admin.clone().counting_to(1), &chosen).await?;
    let mut found: Vec<(String, BlockedKey)> = Vec::new();
    for SubscriptionState { name, .. } in &states {
        let keys = admin.blocked_keys(name, options.limit).await?;
        found.extend(keys.into_iter().map(|key| (name.clone(), key)));
    }
    match context.json {
        true => out::line(json!({"keys": found.iter().map(key_json).collect::<Vec<_>>()}).to_string()),
        false if found.is_empty() => out::line(none(options.subscription.as_deref())),
        false => out::lines(told(&found, Utc::now())),
    }
}

fn none(subscription: Option<&str>) -> String {
    let of = subscription.map(|name| format!(" of {name}")).unwrap_or_default();
    format!("No key{of} is blocked: no event waits behind another one of its key.")
}

fn key_json((subscription, key): &(String, BlockedKey)) -> Value {
    json!({
        "subscription": subscription,
        "key": key.key,
        "waiting": shape::count(key.waiting),
        "since": stamp(key.since),
        "needs_person": key.status == DeliveryStatus::Dead,
        "head": {
            "id": key.head.to_string(),
            "status": key.status.as_str(),
            "attempts": key.attempts,
            "next_attempt_at": stamp(key.next_attempt_at),
            "last_error": key.last_error,
        },
    })
}

fn told(found: &[(String, BlockedKey)], now: DateTime<Utc>) -> Vec<String> {
    let mut table = Table::new(1, ["behind event", "subscription", "key", "waiting", "for", "which"]);
    for (subscription, key) in found {
        table.row([
            key.head.to_string(),
            subscription.clone(),
            clean(&key.key),
            key.waiting.to_string(),
            span(between(key.since, now)),
            which(key, now),
        ]);
    }
    [table.lines(), vec![String::new()], next_steps(found)].concat()
}

fn which(key: &BlockedKey, now: DateTime<Utc>) -> String {
    let error = clean(key.last_error.as_deref().unwrap_or("no reason given"));
    match key.status {
        DeliveryStatus::Dead => format!("is dead: {error}"),
        DeliveryStatus::Processing => format!("is being tried again: {error}"),
        DeliveryStatus::Pending if key.next_attempt_at > now => {
            format!("is tried again in {}: {error}", span(between(now, key.next_attempt_at)))
        }
        DeliveryStatus::Pending => format!("is due to be tried again: {error}"),
    }
}

/// What goes on by itself, and what to type for the rest, with the first of them as the example.
fn next_steps(found: &[(String, BlockedKey)]) -> Vec<String> {
    let is_dead = |(_, key): &&(String, BlockedKey)| key.status == DeliveryStatus::Dead;
    let dead = found.iter().filter(is_dead).count();
    let mut lines = Vec::new();
    if dead < found.len() {
        lines.push(
            "A key behind an event that is tried again goes on by itself when that succeeds.".to_owned(),
        );
    }
    if let Some((subscription, key)) = found.iter().find(is_dead) {
        let (head, typed) = (key.head, typed(&key.key));
        lines.push("A key behind a dead letter waits for you. For each of them, type one of:".to_owned());
        lines.push(format!("  posthaste dead retry {head} --subscription {subscription}"));
        lines.push("    tries the dead letter again; the key goes on when it is delivered".to_owned());
        lines.push(format!("  posthaste dead discard {head} --subscription {subscription}"));
        lines.push("    gives it up for good; the key goes on without it".to_owned());
        lines.push(format!("  posthaste keys release {subscription} {typed}"));
        lines.push("    keeps it as a dead letter; the key goes on without it".to_owned());
    }
    lines
}

async fn release(context: &Context, options: &ReleaseOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let ReleaseOptions { subscription, key } = options;
    names::known(&admin.clone().counting_to(1), subscription).await?;
    let known = admin.blocked_keys(subscription, MOST_KEYS).await?;
    let released = admin.release_key(subscription, key).await?;
    if released == 0 {
        return Err(Failure::not_found(not_held(subscription, key, &known)));
    }
    if context.json {
        return out::line(
            json!({"subscription": subscription, "key": key, "released": released}).to_string(),
        );
    }
    out::lines(gone_on(subscription, key, released, known.iter().find(|blocked| blocked.key == *key)))
}

fn gone_on(subscription: &str, key: &str, released: u64, blocked: Option<&BlockedKey>) -> [String; 2] {
    let waited = match blocked {
        Some(blocked) if !blocked.waiting.is_zero() => {
            format!("{} behind it", counted(blocked.waiting, "event waited", "events waited"))
        }
        _ => "nothing waited behind it".to_owned(),
    };
    let stays = plural(released, "dead letter stays", "dead letters stay");
    [
        format!("Key {} of {subscription} goes on; {waited}.", typed(key)),
        format!("{stays}, and no longer in its way: posthaste dead list --subscription {subscription}"),
    ]
}

fn not_held(subscription: &str, key: &str, known: &[BlockedKey]) -> String {
    let key = typed(key);
    match known.iter().find(|blocked| typed(&blocked.key) == key) {
        Some(_) => format!(
            "key {key} of {subscription} waits for a retry, not for a dead letter; `posthaste keys blocked {subscription}` \
             shows when"
        ),
        None => format!(
            "no dead letter holds key {key} of {subscription}; `posthaste keys blocked {subscription}` lists the keys that \
             wait"
        ),
    }
}
