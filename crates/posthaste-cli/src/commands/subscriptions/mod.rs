//! `posthaste subscriptions`: see them, change them, pause, resume, rewind and remove them.

use posthaste::admin::{ReplayFrom, SubscriptionState};
use serde_json::json;

use crate::cli::subscriptions::{RemoveOptions, RewindOptions, SetOptions, SubscriptionsCommand};
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::ask::confirm;
use crate::talk::names::known;
use crate::talk::out::{self, counted};
use crate::talk::shape;

use super::replay;

pub(crate) mod show;

pub(crate) async fn run(context: &Context, command: SubscriptionsCommand) -> Result<(), Failure> {
    match command {
        SubscriptionsCommand::List(_) => list(context).await,
        SubscriptionsCommand::Show(options) => show(context, &options.name).await,
        SubscriptionsCommand::Set(options) => set(context, &options).await,
        SubscriptionsCommand::Pause(options) => pause(context, &options.names, true).await,
        SubscriptionsCommand::Resume(options) => pause(context, &options.names, false).await,
        SubscriptionsCommand::Rewind(options) => rewind(context, &options).await,
        SubscriptionsCommand::Remove(options) => remove(context, &options).await,
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let states = context.admin().subscriptions().await?;
    match context.json {
        true => {
            let all: Vec<_> = states.iter().map(shape::subscription).collect();
            out::line(json!({"subscriptions": all}).to_string())
        }
        false => out::lines(show::list(&states)),
    }
}

async fn show(context: &Context, name: &str) -> Result<(), Failure> {
    let state = known(&context.admin(), name).await?;
    print(context, &state)
}

fn print(context: &Context, state: &SubscriptionState) -> Result<(), Failure> {
    match context.json {
        true => {
            let all = shape::merged(shape::subscription(state), shape::declaration(state));
            out::line(all.to_string())
        }
        false => out::lines(show::details(state)),
    }
}

async fn set(context: &Context, options: &SetOptions) -> Result<(), Failure> {
    let admin = context.admin();
    known(&admin.clone().counting_to(1), &options.name).await?;
    match (options.reset.as_deref(), options.change.settings()) {
        (Some([]), _) => admin.reset_settings(&options.name).await?,
        (Some(settings), _) => {
            let names: Vec<&str> = settings.iter().map(String::as_str).collect();
            admin.reset_only(&options.name, &names).await?;
        }
        (None, Some(change)) => admin.change_settings(&options.name, change).await?,
        (None, None) => {
            return Err(Failure::usage(
                "nothing to set; give a setting such as --batch-size 200, or --reset",
            ));
        }
    }
    let state = admin.subscription(&options.name).await?;
    match context.json {
        true => print(context, &state),
        false => out::lines(show::settings(&state)),
    }
}

async fn pause(context: &Context, names: &[String], paused: bool) -> Result<(), Failure> {
    let admin = context.admin();
    for name in names {
        known(&admin.clone().counting_to(1), name).await?;
    }
    for name in names {
        let changed = match paused {
            true => admin.pause(name).await?,
            false => admin.resume(name).await?,
        };
        let word = if paused { "paused" } else { "running" };
        match (context.json, changed) {
            (true, _) => {
                out::line(json!({"subscription": name, "paused": paused, "changed": changed}).to_string())?
            }
            (false, true) if paused => {
                out::line(format!("{name} is paused; what is being handled is finished."))?
            }
            (false, true) => out::line(format!("{name} goes on."))?,
            (false, false) => out::line(format!("{name} was {word} already."))?,
        }
    }
    Ok(())
}

async fn rewind(context: &Context, options: &RewindOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let RewindOptions { name, to, consent } = options;
    known(&admin.clone().counting_to(1), name).await?;
    let ahead = replay::ahead(&admin, name, *to).await?;
    if consent.dry_run {
        return replay::would(context, name, &ahead);
    }
    if ahead.number == 0 {
        return replay::nothing(context, name);
    }
    confirm(&replay::question(name, &ahead), consent.yes)?;
    let seq = admin.replay(name, *to).await?;
    if context.json {
        return out::line(json!({"subscription": name, "from_seq": seq, "events": ahead.json()}).to_string());
    }
    let place = match to {
        ReplayFrom::Beginning => "the beginning of the log".to_owned(),
        _ => format!("event number {seq}"),
    };
    out::line(format!(
        "{name} reads again from {place} on. To see it catch up: posthaste status {name} --watch"
    ))
}

async fn remove(context: &Context, options: &RemoveOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let state = known(&admin, &options.name).await?;
    let loss = format!(
        "{} and {}",
        counted(state.lag, "waiting event", "waiting events"),
        counted(state.dead, "dead letter", "dead letters")
    );
    if options.consent.dry_run {
        return would_remove(context, &state, &loss);
    }
    let question = format!("Remove {} with its progress, {loss}? This cannot be undone.", state.name);
    confirm(&question, options.consent.yes)?;
    admin.delete_subscription(&state.name).await.map_err(refused)?;
    match context.json {
        true => out::line(json!({"subscription": state.name, "removed": true}).to_string()),
        false => out::line(format!("{} is removed.", state.name)),
    }
}

/// That a worker holds it is no mistake of whoever typed the command.
fn refused(error: posthaste::Error) -> Failure {
    match error {
        posthaste::Error::InvalidSetting { problem, .. } => Failure::sentence(problem),
        other => other.into(),
    }
}

fn would_remove(context: &Context, state: &SubscriptionState, loss: &str) -> Result<(), Failure> {
    let SubscriptionState { name, lag, dead, .. } = state;
    let facts = json!({"subscription": name, "removed": false, "lag": shape::count(*lag), "dead": shape::count(*dead)});
    match context.json {
        true => out::line(facts.to_string()),
        false => out::line(format!("{name} would go, with {loss}. Nothing was changed.")),
    }
}
