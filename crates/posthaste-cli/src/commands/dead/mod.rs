//! `posthaste dead`: list, show, retry, edit and discard dead letters.

use posthaste::DeliveryStatus;
use posthaste::admin::{DeliveryQuery, EventState, EventStatus};
use serde_json::json;

use crate::cli::dead::{DeadCommand, EditOptions, ShowDead};
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::names::known;
use crate::talk::out::{self, clean, plural};
use crate::talk::time::stamp;

use super::events::{body, show};

mod act;
mod list;

use act::Deed;

pub(crate) async fn run(context: &Context, command: DeadCommand) -> Result<(), Failure> {
    match command {
        DeadCommand::List(options) => list::run(context, &options).await,
        DeadCommand::Show(options) => show_letter(context, &options).await,
        DeadCommand::Retry(options) => act::run(context, Deed::Retry, &options.choice).await,
        DeadCommand::Discard(options) => act::run(context, Deed::Discard, &options.choice).await,
        DeadCommand::Edit(options) => edit(context, &options).await,
    }
}

async fn show_letter(context: &Context, options: &ShowDead) -> Result<(), Failure> {
    let admin = context.admin();
    if let Some(name) = &options.subscription {
        known(&admin.clone().counting_to(1), name).await?;
    }
    let detail = admin.event(options.id).await?;
    let wanted = |state: &&EventState| {
        let here = options.subscription.as_ref().is_none_or(|name| *name == state.subscription);
        here && state.status == EventStatus::Dead
    };
    let dead: Vec<EventState> = detail.states.iter().filter(wanted).cloned().collect();
    if dead.is_empty() {
        return Err(act::not_dead(options.id, options.subscription.as_deref()));
    }
    if context.json {
        return out::line(show::detail_json(&detail, &dead));
    }
    let mut lines = show::fields(&detail.event);
    for state in &dead {
        lines.push(String::new());
        lines.push(format!(
            "Dead in {} after {}:",
            state.subscription,
            plural(state.attempts.into(), "attempt", "attempts")
        ));
        lines.push(format!("  {}", clean(state.last_error.as_deref().unwrap_or("no reason given"))));
        for attempt in &state.history {
            let error =
                attempt.error.as_deref().map(|error| format!(": {}", clean(error))).unwrap_or_default();
            lines.push(format!(
                "  attempt {}  {}  {}{error}",
                attempt.attempt,
                stamp(attempt.at),
                attempt.outcome
            ));
        }
    }
    lines.push(String::new());
    lines.extend(show::body(&detail.event));
    lines.push(String::new());
    lines.push(format!("-> posthaste dead retry {}", options.id));
    lines.push(format!("-> posthaste dead discard {}", options.id));
    out::lines(lines)
}

async fn edit(context: &Context, options: &EditOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let EditOptions { id, subscription, payload } = options;
    known(&admin.clone().counting_to(1), subscription).await?;
    admin.event(*id).await?;
    let dead =
        DeliveryQuery::event(subscription, *id).only(|query| query.status = Some(DeliveryStatus::Dead));
    if admin.count(&dead).await?.is_zero() {
        return Err(act::not_dead(*id, Some(subscription)));
    }
    let retried = admin.edit_and_retry(subscription, *id, body(Some(payload))?).await?;
    match context.json {
        true => out::line(
            json!({"id": id.to_string(), "subscription": subscription, "changed": retried}).to_string(),
        ),
        false => {
            out::line(format!("Tried again in {subscription} with the new body; the log keeps the old one."))
        }
    }
}
