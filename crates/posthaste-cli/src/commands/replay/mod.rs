//! `posthaste replay`: moves a subscription back and shows it catching up. The workers do the work; this only watches.

use std::time::{Duration, Instant};

use posthaste::Admin;
use posthaste::admin::{EventQuery, ReplayFrom, SubscriptionState};
use serde_json::{Value, json};

use crate::cli::operate::ReplayOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::talk::ask::confirm;
use crate::talk::names::known;
use crate::talk::out::{self, plural};
use crate::talk::shape::number;

mod limit;
mod progress;

use limit::Limit;
use progress::Progress;

const LOOK_EVERY: Duration = Duration::from_millis(300);
/// So long may a subscription be without a worker after its lanes were taken away.
const NOBODY_FOR: Duration = Duration::from_secs(5);
/// By then every running worker works with a changed setting; they look for one every 650 ms, and may hear
/// what another one heard 250 ms before.
const TAKEN_UP: Duration = Duration::from_millis(1500);
/// Counting events ahead stops here.
const COUNTED: u64 = 10_000;

/// How many events a replay would deliver once more.
pub(crate) struct Ahead {
    pub(crate) number: u64,
    more: bool,
}

impl Ahead {
    pub(crate) fn json(&self) -> Value {
        json!({"count": self.number, "exact": !self.more})
    }

    fn told(&self) -> String {
        let more = if self.more { "more than " } else { "" };
        format!("{more}{}", plural(self.number, "event", "events"))
    }
}

/// How the watching ended.
enum Ended {
    Done,
    Interrupted,
    Paused,
    Nobody,
}

pub(crate) async fn run(context: &Context, options: &ReplayOptions) -> Result<(), Failure> {
    let admin = context.admin();
    let name = &options.subscription;
    let before = known(&admin, name).await?;
    let ahead = ahead(&admin, name, options.from).await?;
    if options.consent.dry_run {
        return would(context, name, &ahead);
    }
    if ahead.number == 0 {
        return nothing(context, name);
    }
    confirm(&question(name, &ahead), options.consent.yes)?;
    let (signals, limit) = (Signals::listen()?, Limit::over(&before, options.rate));
    tokio::select! {
        replayed = replay(context, options, &ahead, limit.as_ref(), &signals) => replayed,
        () = signals.stop_at_once.cancelled() => {
            limit.iter().for_each(Limit::say_that_it_stays);
            Err(Failure::Interrupted)
        }
    }
}

async fn replay(
    context: &Context,
    options: &ReplayOptions,
    ahead: &Ahead,
    limit: Option<&Limit>,
    signals: &Signals,
) -> Result<(), Failure> {
    let (admin, name) = (context.admin(), &options.subscription);
    if let Some(limit) = limit {
        limit.set(&admin).await?;
        if !taken_up(signals).await {
            limit.take_away(&admin).await;
            return Err(Failure::sentence("stopped before anything was moved; nothing was changed"));
        }
    }
    let seq = match admin.replay(name, options.from).await {
        Ok(seq) => seq,
        Err(error) => {
            if let Some(limit) = limit {
                limit.take_away(&admin).await;
            }
            return Err(error.into());
        }
    };
    let ended = match options.no_watch {
        true => Ok(None),
        false => watch(&admin, name, ahead, signals).await.map(Some),
    };
    match (limit, &ended) {
        (Some(limit), Ok(Some(Ended::Done))) => limit.take_away(&admin).await,
        (Some(limit), _) => limit.say_that_it_stays(),
        (None, _) => {}
    }
    answer(context, name, seq, ahead, ended?.as_ref())
}

/// A worker that does not know the limit yet would deliver thousands before it hears of it. `false`: interrupted.
async fn taken_up(signals: &Signals) -> bool {
    tokio::select! {
        () = tokio::time::sleep(TAKEN_UP) => true,
        () = signals.stop.cancelled() => false,
    }
}

fn answer(
    context: &Context,
    name: &str,
    seq: i64,
    ahead: &Ahead,
    ended: Option<&Ended>,
) -> Result<(), Failure> {
    let done = matches!(ended, Some(Ended::Done));
    if context.json {
        let answer = json!({"subscription": name, "from_seq": seq, "events": ahead.json(), "done": done});
        return out::line(answer.to_string());
    }
    out::line(match ended {
        Some(Ended::Done) => format!("Done: {name} has caught up; {} once more.", ahead.told()),
        Some(Ended::Interrupted) => {
            format!(
                "Stopped watching. The replay of {name} goes on; to see it: posthaste status {name} --watch"
            )
        }
        Some(Ended::Paused) => {
            format!("{name} is paused: the replay begins with posthaste subscriptions resume {name}")
        }
        Some(Ended::Nobody) => format!("No worker is running for {name}: the replay begins when one starts."),
        None => {
            format!("{name} delivers {} once more; to see it: posthaste status {name} --watch", ahead.told())
        }
    })
}

/// Counts the events from a place on that the subscription wants, up to a limit.
pub(crate) async fn ahead(admin: &Admin, name: &str, from: ReplayFrom) -> Result<Ahead, Failure> {
    let mut query = EventQuery::new(|query| {
        (query.subscription, query.oldest_first, query.limit) = (Some(name.to_owned()), true, 500);
    });
    match from {
        ReplayFrom::Beginning => {}
        ReplayFrom::Time(time) => query.since = Some(time),
        ReplayFrom::Event(id) => query.after = Some(admin.event(id).await?.event.seq - 1),
    }
    let mut number = 0;
    loop {
        let page = admin.events(&query).await?;
        number += page.events.len() as u64;
        match page.next {
            Some(_) if number >= COUNTED => return Ok(Ahead { number, more: true }),
            Some(next) => query.after = Some(next),
            None => return Ok(Ahead { number, more: false }),
        }
    }
}

pub(crate) fn question(name: &str, ahead: &Ahead) -> String {
    format!("Deliver {} to {name} once more?", ahead.told())
}

/// The answer to a dry run.
pub(crate) fn would(context: &Context, name: &str, ahead: &Ahead) -> Result<(), Failure> {
    match context.json {
        true => out::line(json!({"subscription": name, "events": ahead.json(), "dry_run": true}).to_string()),
        false => out::line(format!(
            "{} would be delivered to {name} once more. Nothing was changed.",
            ahead.told()
        )),
    }
}

/// The answer when no event lies ahead.
pub(crate) fn nothing(context: &Context, name: &str) -> Result<(), Failure> {
    match context.json {
        true => out::line(
            json!({"subscription": name, "events": {"count": 0, "exact": true}, "done": true}).to_string(),
        ),
        false => out::line(format!("No event from there on is for {name}; nothing to do.")),
    }
}

/// Looks until the subscription has caught up. What is retried, delayed or blocked by then is not waited for.
async fn watch(admin: &Admin, name: &str, ahead: &Ahead, signals: &Signals) -> Result<Ended, Failure> {
    let mut progress = Progress::to_stderr();
    let (mut total, mut alone_since) = (ahead.number, None);
    loop {
        let state = tokio::select! {
            state = admin.subscription(name) => state?,
            () = signals.stop.cancelled() => return Ok(Ended::Interrupted),
        };
        let left = left(&state);
        total = total.max(left);
        progress.show(total - left, total)?;
        if left == 0 {
            return Ok(Ended::Done);
        }
        if state.paused_since.is_some() {
            return Ok(Ended::Paused);
        }
        alone_since = state.workers.is_empty().then(|| alone_since.unwrap_or_else(Instant::now));
        if alone_since.is_some_and(|since| since.elapsed() > NOBODY_FOR) {
            return Ok(Ended::Nobody);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = signals.stop.cancelled() => return Ok(Ended::Interrupted),
        }
    }
}

/// Events that have not been tried.
fn left(state: &SubscriptionState) -> u64 {
    let tried = number(state.retrying) + number(state.parked) + number(state.delayed);
    number(state.lag).saturating_sub(tried).max(u64::from(state.lag.more_than().is_some()))
}
