//! Dead letters of one or all subscriptions, newest first.

use chrono::Utc;
use posthaste::Admin;
use posthaste::admin::{EventQuery, EventStatus, Found};
use serde_json::{Value, json};

use crate::cli::dead::{DeadFilter, ListDead};
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::names;
use crate::talk::out::{self, clean};
use crate::talk::shape;
use crate::talk::table::{Table, fit};
use crate::talk::time::{between, span};

/// A page over all subscriptions that were asked for.
struct Letters {
    found: Vec<Found>,
    next: Option<i64>,
}

pub(super) async fn run(context: &Context, options: &ListDead) -> Result<(), Failure> {
    let letters = gathered(&context.admin(), options).await?;
    if context.json {
        return out::line(letters_json(&letters));
    }
    if letters.found.is_empty() {
        return out::line("No dead letters.");
    }
    out::lines(told(&letters))?;
    if let Some(next) = letters.next {
        eprintln!("{} shown; for the next page add: --after {next}", letters.found.len());
    }
    Ok(())
}

async fn gathered(admin: &Admin, options: &ListDead) -> Result<Letters, Failure> {
    let few = admin.clone().counting_to(1);
    let names: Vec<String> = options.filter.subscription.clone().into_iter().collect();
    let mut found = Vec::new();
    for state in names::chosen(&few, &names).await? {
        // One more than is shown tells whether there is a next page.
        let query = query(&options.filter, state.name, (options.limit + 1).min(500), options.after);
        found.extend(admin.events(&query).await?.events);
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.event.seq));
    Ok(cut(found, options.limit as usize))
}

fn query(filter: &DeadFilter, subscription: String, limit: u32, after: Option<i64>) -> EventQuery {
    let filter = filter.clone();
    EventQuery::new(|query| {
        (query.subscription, query.status) = (Some(subscription), Some(EventStatus::Dead));
        (query.topic, query.event_type) = (filter.topic, filter.event_type);
        (query.key, query.error_contains) = (filter.key, filter.error);
        (query.limit, query.after) = (limit, after);
    })
}

/// A page ends between two events, never between two subscriptions of one event: the place of the next is an event.
fn cut(mut found: Vec<Found>, limit: usize) -> Letters {
    let full = found.len() > limit || found.len() >= 500;
    let mut end = found.len().min(limit);
    while end > 0 && end < found.len() && found[end].event.seq == found[end - 1].event.seq {
        end += 1;
    }
    found.truncate(end);
    let next = found.last().filter(|_| full).map(|last| last.event.seq);
    Letters { found, next }
}

fn letters_json(letters: &Letters) -> String {
    let one = |found: &Found| {
        let state = found.state.as_ref().map_or(Value::Null, shape::event_state);
        shape::event(&found.event, json!({"state": state}))
    };
    let all: Vec<String> = letters.found.iter().map(one).collect();
    let next = letters.next.map_or("null".to_owned(), |next| next.to_string());
    format!("{{\"dead\":[{}],\"next\":{next}}}", all.join(","))
}

/// A row per letter and its error below, which is what one looks for.
fn told(letters: &Letters) -> Vec<String> {
    let now = Utc::now();
    let mut table = Table::new(2, ["id", "subscription", "topic", "type", "died"]);
    let mut errors = Vec::new();
    for Found { event, state, .. } in &letters.found {
        let Some(state) = state else { continue };
        let died = state.history.last().map(|attempt| format!("{} ago", span(between(attempt.at, now))));
        table.row([
            event.id.to_string(),
            state.subscription.clone(),
            clean(&event.topic),
            event.event_type.as_deref().map_or("-".to_owned(), clean),
            died.unwrap_or_else(|| "-".to_owned()),
        ]);
        let error = clean(state.last_error.as_deref().unwrap_or("no reason given"));
        errors.push(format!("  {}", fit(&error, 98)).trim_end().to_owned());
    }
    let mut rows = table.lines().into_iter();
    let head = rows.next();
    head.into_iter().chain(rows.zip(errors).flat_map(|(row, error)| [row, error])).collect()
}
