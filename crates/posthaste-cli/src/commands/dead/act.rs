//! Retry and discard: one, many, or all that match, with a count and a question before the big ones.

use std::collections::BTreeMap;

use posthaste::admin::{DeliveryQuery, EventStatus};
use posthaste::{Admin, EventId};
use serde_json::json;

use crate::cli::dead::Choice;
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::ask::confirm;
use crate::talk::names;
use crate::talk::out::{self, plural};
use crate::talk::shape::number;

#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    Retry,
    Discard,
}

impl Deed {
    fn verb(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Discard => "discard",
        }
    }

    fn question(self, what: &str) -> String {
        match self {
            Self::Retry => format!("Try {what} again?"),
            Self::Discard => format!("Give {what} up for good?"),
        }
    }

    fn would(self, what: &str) -> String {
        match self {
            Self::Retry => format!("{what} would be tried again. Nothing was changed."),
            Self::Discard => format!("{what} would be given up for good. Nothing was changed."),
        }
    }

    fn done(self, what: &str) -> String {
        match self {
            Self::Retry => format!("{what}: tried again."),
            Self::Discard => format!("{what}: given up for good."),
        }
    }
}

/// What was chosen, by subscription, with how many there are.
struct Chosen {
    queries: Vec<(DeliveryQuery, u64)>,
    /// Counting stopped somewhere.
    more: bool,
}

impl Chosen {
    fn total(&self) -> u64 {
        self.queries.iter().map(|(_, count)| count).sum()
    }

    /// `3 dead letters (billing 2, analytics 1)`.
    fn told(&self) -> String {
        let parts: Vec<String> =
            self.queries.iter().map(|(query, count)| format!("{} {count}", query.subscription)).collect();
        let more = if self.more { "more than " } else { "" };
        format!("{more}{} ({})", plural(self.total(), "dead letter", "dead letters"), parts.join(", "))
    }
}

pub(super) async fn run(context: &Context, deed: Deed, choice: &Choice) -> Result<(), Failure> {
    if choice.ids.is_empty() && choice.filter.is_empty() && !choice.all {
        return Err(Failure::usage(
            "say which: ids of events, a filter such as --subscription billing, or --all",
        ));
    }
    let admin = context.admin();
    let chosen = counted(&admin, queries(&admin, choice).await?).await?;
    if chosen.total() == 0 {
        return nothing(context, deed, choice);
    }
    if choice.consent.dry_run {
        return answer(context, deed, &chosen, None);
    }
    if chosen.total() > 1 {
        confirm(&deed.question(&chosen.told()), choice.consent.yes)?;
    }
    let mut changed = 0;
    for (query, _) in &chosen.queries {
        changed += match deed {
            Deed::Retry => admin.retry(query).await?,
            Deed::Discard => admin.discard(query).await?,
        };
    }
    answer(context, deed, &chosen, Some(changed))
}

fn nothing(context: &Context, deed: Deed, choice: &Choice) -> Result<(), Failure> {
    match choice.ids.first() {
        Some(id) => Err(not_dead(*id, choice.filter.subscription.as_deref())),
        None if context.json => {
            let dry_run = choice.consent.dry_run;
            out::line(json!({"verb": deed.verb(), "matched": 0, "exact": true, "changed": 0, "dry_run": dry_run, "subscriptions": {}}).to_string())
        }
        None => out::line("No dead letter matches; nothing to do."),
    }
}

fn answer(context: &Context, deed: Deed, chosen: &Chosen, changed: Option<u64>) -> Result<(), Failure> {
    if context.json {
        let by_subscription: BTreeMap<&str, u64> =
            chosen.queries.iter().map(|(query, count)| (query.subscription.as_str(), *count)).collect();
        let answer = json!({
            "verb": deed.verb(),
            "matched": chosen.total(),
            "exact": !chosen.more,
            "changed": changed.unwrap_or(0),
            "dry_run": changed.is_none(),
            "subscriptions": by_subscription,
        });
        return out::line(answer.to_string());
    }
    match changed {
        None => out::line(deed.would(&chosen.told())),
        Some(changed) => out::line(deed.done(&plural(changed, "dead letter", "dead letters"))),
    }
}

/// What the choice means in each subscription.
async fn queries(admin: &Admin, choice: &Choice) -> Result<Vec<DeliveryQuery>, Failure> {
    if let Some(name) = &choice.filter.subscription {
        names::known(&admin.clone().counting_to(1), name).await?;
        for id in &choice.ids {
            admin.event(*id).await?;
        }
        return Ok(vec![choice.filter.query(name, &choice.ids)]);
    }
    if choice.ids.is_empty() {
        let states = admin.clone().counting_to(1).subscriptions().await?;
        return Ok(states.iter().map(|state| choice.filter.query(&state.name, &[])).collect());
    }
    let mut by_subscription: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
    for id in &choice.ids {
        let states = admin.event(*id).await?.states;
        let dead: Vec<_> = states.into_iter().filter(|state| state.status == EventStatus::Dead).collect();
        if dead.is_empty() {
            return Err(not_dead(*id, None));
        }
        dead.into_iter().for_each(|state| by_subscription.entry(state.subscription).or_default().push(*id));
    }
    Ok(by_subscription.iter().map(|(name, ids)| choice.filter.query(name, ids)).collect())
}

async fn counted(admin: &Admin, queries: Vec<DeliveryQuery>) -> Result<Chosen, Failure> {
    let mut chosen = Chosen { queries: Vec::new(), more: false };
    for query in queries {
        let count = admin.count(&query).await?;
        chosen.more |= count.more_than().is_some();
        if !count.is_zero() {
            chosen.queries.push((query, number(count)));
        }
    }
    Ok(chosen)
}

pub(super) fn not_dead(id: EventId, subscription: Option<&str>) -> Failure {
    let place = subscription.unwrap_or("any subscription");
    Failure::not_found(format!(
        "event {id} is no dead letter in {place}; `posthaste why {id}` tells how it stands"
    ))
}
