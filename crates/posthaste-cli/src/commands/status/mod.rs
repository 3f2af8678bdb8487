//! `posthaste status`: one verdict per subscription in words, with the reason and the next step.

use std::io::IsTerminal;

use chrono::Utc;
use posthaste::admin::SubscriptionState;
use serde_json::{Value, json};

use crate::cli::operate::StatusOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::signals::until_stopped;
use crate::talk::out;
use crate::talk::paint::painted;
use crate::talk::table::{Table, wrapped};
use crate::talk::time::span;
use crate::talk::{names, shape};

mod facts;
mod verdict;

use facts::Facts;
use verdict::{Judgement, Verdict, judge};

/// A subscription and what is to be said about it.
type Judged = (SubscriptionState, Judgement);

pub(crate) async fn run(context: &Context, options: StatusOptions) -> Result<(), Failure> {
    if options.watch {
        return until_stopped(watch(context.clone(), options)).await;
    }
    let judged = look(context, &options).await?;
    show(context, &judged)?;
    conclusion(&judged)
}

async fn watch(context: Context, options: StatusOptions) -> Result<(), Failure> {
    loop {
        let judged = look(&context, &options).await?;
        if !context.json && std::io::stdout().is_terminal() {
            // A clean screen for every look.
            out::bytes(b"\x1b[2J\x1b[H")?;
        }
        show(&context, &judged)?;
        tokio::time::sleep(options.every).await;
    }
}

fn show(context: &Context, judged: &[Judged]) -> Result<(), Failure> {
    match context.json {
        true => out::line(all_json(judged).to_string()),
        false => out::lines(told(judged)),
    }
}

async fn look(context: &Context, options: &StatusOptions) -> Result<Vec<Judged>, Failure> {
    let states = names::chosen(&context.admin(), &options.names).await?;
    let now = Utc::now();
    let judged = |state: SubscriptionState| {
        let judgement = judge(&Facts::of(&state, now));
        (state, judgement)
    };
    Ok(states.into_iter().map(judged).collect())
}

fn conclusion(judged: &[Judged]) -> Result<(), Failure> {
    match all_well(judged) {
        true => Ok(()),
        false => Err(Failure::Said(crate::failure::Code::CheckFailed)),
    }
}

fn all_well(judged: &[Judged]) -> bool {
    !judged.iter().any(|(_, judgement)| judgement.verdict.is_bad())
}

fn all_json(judged: &[Judged]) -> Value {
    let one = |(state, judgement): &Judged| {
        let verdict = json!({
            "verdict": judgement.verdict.as_str(),
            "reason": judgement.reason,
            "next_step": judgement.next,
        });
        shape::merged(shape::subscription(state), verdict)
    };
    json!({"ok": all_well(judged), "subscriptions": judged.iter().map(one).collect::<Vec<_>>()})
}

fn told(judged: &[Judged]) -> Vec<String> {
    if judged.is_empty() {
        return vec![
            "No subscriptions yet. One appears when a worker starts for it:".to_owned(),
            "  in your application, as the example in README.md shows".to_owned(),
            "  or beside it: posthaste relay".to_owned(),
            "To see some at work: posthaste dev".to_owned(),
        ];
    }
    let mut table =
        Table::new(2, ["verdict", "subscription", "waiting", "oldest", "retrying", "dead", "workers"]);
    for (state, judgement) in judged {
        table.row([
            judgement.verdict.as_str().to_owned(),
            state.name.clone(),
            state.lag.to_string(),
            state.oldest_age.map_or("-".to_owned(), span),
            state.retrying.to_string(),
            state.dead.to_string(),
            state.workers.len().to_string(),
        ]);
    }
    let mut rows = table.lines().into_iter();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, (_, judgement)) in rows.zip(judged) {
        lines.push(coloured(&row, judgement.verdict));
        lines.extend(wrapped(&judgement.reason, 9));
        lines.extend(judgement.next.iter().map(|next| format!("         -> {next}")));
    }
    lines
}

fn coloured(row: &str, verdict: Verdict) -> String {
    row.replacen(verdict.as_str(), &painted(verdict.as_str(), verdict.colour()), 1)
}
