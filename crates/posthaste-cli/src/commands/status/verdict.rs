//! What is healthy, behind, failing, stalled or paused: one pure function, and the only place that decides it.

use std::time::Duration;

use crate::talk::out::plural;
use crate::talk::paint::Colour;
use crate::talk::time::span;

use super::facts::{Amount, Facts, PATIENCE};

/// A letter that died longer ago is no news; it stays listed.
const RECENT: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Healthy,
    Behind,
    Failing,
    Stalled,
    Paused,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Behind => "behind",
            Self::Failing => "failing",
            Self::Stalled => "stalled",
            Self::Paused => "paused",
        }
    }

    /// Whether somebody should act now.
    pub(crate) fn is_bad(self) -> bool {
        matches!(self, Self::Failing | Self::Stalled)
    }

    pub(crate) fn colour(self) -> Colour {
        match self {
            Self::Healthy => Colour::Green,
            Self::Behind => Colour::Yellow,
            Self::Failing | Self::Stalled => Colour::Red,
            Self::Paused => Colour::Blue,
        }
    }
}

/// A verdict with its reason and what to type next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) next: Option<String>,
}

/// The verdict, the worst that applies; a pause comes before everything else.
///
/// - **stalled**: an event that could be delivered has waited for more than a minute, or a retry has been due for that
///   long, and either no worker is there or nothing was settled for a minute; or everything that is left waits behind
///   dead letters.
/// - **failing**: a letter died within the last hour, or dead letters hold keys, or events are retried and have waited
///   for more than a minute.
/// - **behind**: events have waited for more than a minute, and they move.
/// - **healthy**: everything else.
pub(crate) fn judge(facts: &Facts) -> Judgement {
    let rules = [paused, stalled, failing, behind];
    rules.iter().find_map(|rule| rule(facts)).unwrap_or_else(|| healthy(facts))
}

fn verdict(verdict: Verdict, reason: String, next: String) -> Option<Judgement> {
    Some(Judgement { verdict, reason, next: Some(next) })
}

/// `1 event`, `more than 10000 events`.
fn events(amount: Amount) -> String {
    match amount {
        Amount { number: 1, more: false } => "1 event".to_owned(),
        _ => format!("{amount} events"),
    }
}

fn paused(facts: &Facts) -> Option<Judgement> {
    let since = span(facts.paused_for?);
    let next = format!("posthaste subscriptions resume {}", facts.name);
    verdict(Verdict::Paused, format!("paused for {since}; waiting: {}", events(facts.lag)), next)
}

fn stalled(facts: &Facts) -> Option<Judgement> {
    let ready_waits = facts.ready() > 0 && facts.waits_long();
    let retry_waits = facts.retry_overdue.is_some_and(|overdue| overdue > PATIENCE);
    if (ready_waits || retry_waits) && facts.workers == 0 {
        let reason = format!(
            "{} waiting, the oldest for {}, and no worker is running",
            events(facts.lag),
            facts.oldest()
        );
        return verdict(Verdict::Stalled, reason, "start your application, or: posthaste relay".to_owned());
    }
    if ready_waits && !facts.moved_lately() {
        let since = facts
            .moved_ago
            .map_or("as far as the journal goes".to_owned(), |ago| format!("for {}", span(ago)));
        let reason = format!(
            "workers hold {} of {} that wait, and nothing was settled {since}; the receiver may be away{}",
            facts.in_flight,
            events(facts.lag),
            facts.error()
        );
        return verdict(Verdict::Stalled, reason, format!("posthaste subscriptions show {}", facts.name));
    }
    if all_blocked(facts) {
        let reason =
            format!("all that waits ({}) is behind dead letters{}", events(facts.lag), facts.error());
        return verdict(Verdict::Stalled, reason, format!("posthaste keys blocked {}", facts.name));
    }
    None
}

fn all_blocked(facts: &Facts) -> bool {
    let rest = facts.lag.number.saturating_sub(facts.parked.number + facts.delayed.number);
    facts.dead_blocks && facts.dead.number > 0 && facts.parked.number > 0 && rest == 0
}

fn failing(facts: &Facts) -> Option<Judgement> {
    let (name, dead) = (&facts.name, facts.dead);
    let letters = if dead.number == 1 { "letter" } else { "letters" };
    if facts.dead_blocks && dead.number > 0 && facts.parked.number > 0 {
        let keys = plural(facts.parked_keys.number, "key", "keys");
        let reason =
            format!("{dead} dead {letters}; {} of {keys} waiting{}", events(facts.parked), facts.error());
        return verdict(Verdict::Failing, reason, format!("posthaste keys blocked {name}"));
    }
    if let Some(ago) = facts.newest_dead_ago.filter(|ago| *ago <= RECENT) {
        let newest = if dead.number == 1 { "" } else { "the newest " };
        let reason = format!("{dead} dead {letters}, {newest}{} ago{}", span(ago), facts.error());
        return verdict(Verdict::Failing, reason, format!("posthaste dead list --subscription {name}"));
    }
    if facts.retrying.number > 0 && facts.waits_long() {
        let reason = format!(
            "{} retried, the oldest waiting for {}{}",
            events(facts.retrying),
            facts.oldest(),
            facts.error()
        );
        return verdict(
            Verdict::Failing,
            reason,
            format!("posthaste events list --subscription {name} --status pending --oldest-first"),
        );
    }
    None
}

fn behind(facts: &Facts) -> Option<Judgement> {
    if facts.ready() == 0 || !facts.waits_long() {
        return None;
    }
    let reason = format!("{} waiting, the oldest for {}, and they move", events(facts.lag), facts.oldest());
    verdict(Verdict::Behind, reason, format!("posthaste status {} --watch", facts.name))
}

fn healthy(facts: &Facts) -> Judgement {
    let mut said = match facts.lag.number {
        0 => vec!["nothing waits".to_owned()],
        _ => vec![format!("{} on their way", events(facts.lag))],
    };
    for (amount, what) in [(facts.retrying, "retried"), (facts.delayed, "not due yet")] {
        if amount.number > 0 {
            said.push(format!("{amount} of them {what}"));
        }
    }
    let old = facts.dead.number > 0;
    if old {
        said.push(format!("{} dead from before wait for a decision", facts.dead));
    }
    let next = old.then(|| format!("posthaste dead list --subscription {}", facts.name));
    Judgement { verdict: Verdict::Healthy, reason: said.join("; "), next }
}

#[cfg(test)]
mod tests;
