//! `posthaste keys`: which keys wait for the event at their head, and letting one go on.

use chrono::{DateTime, Utc};
use posthaste::admin::BlockedKey;
use posthaste::{Admin, DeliveryStatus};
use serde_json::{Value, json};

use crate::cli::operate::{BlockedOptions, KeysCommand, ReleaseOptions};
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::out::{self, clean, counted, plural, typed};
use crate::talk::table::Table;
use crate::talk::time::{between, span, stamp};
use crate::talk::{names, shape};

pub(crate) async fn run(context: &Context, command: KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Blocked(options) => blocked(context, &options).await,
        KeysCommand::Release(options) => release(context, &options).await,
    }
}

async fn blocked(context: &Context, options: &BlockedOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let mut found: Vec<(String, BlockedKey)> = Vec::new();
    for name in chosen(&admin, options.subscription.as_deref()).await? {
        let keys = admin.blocked_keys(&name, options.limit).await?;
        found.extend(keys.into_iter().map(|key| (name.clone(), key)));
    }
    match context.json {
        true => out::line(json!({"keys": found.iter().map(key_json).collect::<Vec<_>>()}).to_string()),
        false => out::lines(told(&found, Utc::now())),
    }
}

async fn chosen(admin: &Admin, name: Option<&str>) -> Result<Vec<String>, Failure> {
    let few = admin.clone().counting_to(1);
    let states = names::chosen(&few, &name.map(str::to_owned).into_iter().collect::<Vec<_>>()).await?;
    Ok(states.into_iter().map(|state| state.name).collect())
}

fn key_json((subscription, key): &(String, BlockedKey)) -> Value {
    json!({
        "subscription": subscription,
        "key": key.key,
        "waiting": shape::count(key.waiting),
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
    if found.is_empty() {
        return vec!["No key waits.".to_owned()];
    }
    let mut table = Table::new(0, ["subscription", "key", "waiting", "behind", "because"]);
    for (subscription, key) in found {
        table.row([
            subscription.clone(),
            clean(&key.key),
            key.waiting.to_string(),
            key.head.to_string(),
            because(key, now),
        ]);
    }
    let mut lines = table.lines();
    let dead = found.iter().find(|(_, key)| key.status == DeliveryStatus::Dead);
    if let Some((subscription, key)) = dead {
        lines.push(String::new());
        lines.push("A key behind a dead letter waits for you. For each of them, one of:".to_owned());
        lines.push(format!("  posthaste dead retry {}", key.head));
        lines.push(format!("  posthaste dead discard {}", key.head));
        lines.push(format!("  posthaste keys release {subscription} {}", typed(&key.key)));
    }
    lines
}

fn because(key: &BlockedKey, now: DateTime<Utc>) -> String {
    let error = clean(key.last_error.as_deref().unwrap_or("no reason given"));
    match key.status {
        DeliveryStatus::Dead => format!("dead: {error}"),
        DeliveryStatus::Processing => "it is being handled".to_owned(),
        DeliveryStatus::Pending if key.next_attempt_at > now => {
            format!("next attempt in {}: {error}", span(between(now, key.next_attempt_at)))
        }
        DeliveryStatus::Pending => format!("it is due: {error}"),
    }
}

async fn release(context: &Context, options: &ReleaseOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let ReleaseOptions { subscription, key } = options;
    let state = names::known(&admin, subscription).await?;
    let released = admin.release_key(subscription, key).await?;
    if released == 0 {
        let known = admin.blocked_keys(subscription, 500).await?;
        return Err(Failure::not_found(not_held(subscription, key, &known)));
    }
    if context.json {
        return out::line(
            json!({"subscription": subscription, "key": key, "released": released}).to_string(),
        );
    }
    let letters = plural(released, "dead letter no longer holds it", "dead letters no longer hold it");
    let parked = counted(state.parked, "event waited", "events waited");
    out::line(format!("Key {} of {subscription} goes on; {letters} ({parked} in all keys).", typed(key)))
}

fn not_held(subscription: &str, key: &str, known: &[BlockedKey]) -> String {
    let key = typed(key);
    match known.iter().find(|blocked| typed(&blocked.key) == key) {
        Some(_) => format!(
            "key {key} of {subscription} waits for a retry, not for a dead letter; `posthaste keys blocked {subscription}` \
             shows when"
        ),
        None => format!(
            "no dead letter holds key {key} of {subscription}; `posthaste keys blocked {subscription}` lists them"
        ),
    }
}
