//! `posthaste dead`: list, show, retry, edit and discard dead letters.

use posthaste::admin::{DeliveryQuery, EventDetail, EventState, EventStatus};
use posthaste::{Attempt, DeliveryStatus};
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
pub(crate) mod letters;

use act::Deed;

pub(crate) async fn run(context: &Context, command: DeadCommand) -> Result<(), Failure> {
    match command {
        DeadCommand::List(options) => list::run(context, &options).await,
        DeadCommand::Show(options) => show_letter(context, &options).await,
        DeadCommand::Retry(options) => act::run(context, Deed::Retry, &options.choice).await,
        DeadCommand::Discard(options) => act::run(context, Deed::Discard, &options.choice).await,
        DeadCommand::Edit(options) => edit(context, &options).await,
        // Opens its database by itself.
        DeadCommand::Letters(_) => Ok(()),
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
    out::lines(told(&detail, &dead))
}

fn told(detail: &EventDetail, dead: &[EventState]) -> Vec<String> {
    let mut lines = show::fields(&detail.event);
    for state in dead {
        lines.push(String::new());
        lines.extend(attempts(state));
    }
    lines.push(String::new());
    lines.extend(show::body(&detail.event));
    lines.push(String::new());
    lines.extend(["retry", "discard"].map(|verb| format!("-> posthaste dead {verb} {}", detail.event.id)));
    lines
}

fn attempts(state: &EventState) -> Vec<String> {
    let times = plural(state.attempts.into(), "attempt", "attempts");
    let error = |text: Option<&str>| clean(text.unwrap_or("no reason given"));
    let mut lines = vec![
        format!("Dead in {} after {times}:", state.subscription),
        format!("  {}", error(state.last_error.as_deref())),
    ];
    for Attempt { attempt, at, outcome, error: text, .. } in &state.history {
        lines.push(format!("  attempt {attempt}  {}  {outcome}: {}", stamp(*at), error(text.as_deref())));
    }
    lines
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
