//! Turns with and without trouble in one trial, and how long the events of others took in each: a machine's noise meets both.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use posthaste::EventId;
use sqlx::Row;

use crate::finding::{Finding, Result};
use crate::stage::Stage;
use crate::trial::Trial;

/// Between two turns, so that what is left of one is not measured in the next.
const PAUSE: Duration = Duration::from_secs(1);

/// How much slower others may be.
const BOUND: f64 = 1.2;

/// Whether there is trouble now. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble(Arc<AtomicBool>);

impl Trouble {
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

/// A time in which events were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    troubled: bool,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

/// Quiet and troubled turns, one after the other. What the row does at the beginning of a troubled one comes with it.
pub(super) async fn in_turns(
    stage: &Stage,
    trial: &Trial,
    trouble: &Trouble,
    mut begin: impl AsyncFnMut(&Trial) -> Result<()>,
) -> Result<Vec<Turn>> {
    let (length, mut turns) = (Duration::from_secs(stage.size(3, 10)), Vec::new());
    for number in 0..stage.size(2, 8) {
        let troubled = number % 2 == 1;
        trouble.set(troubled);
        tokio::time::sleep(PAUSE).await;
        let from = Utc::now();
        if troubled {
            begin(trial).await?;
        }
        tokio::time::sleep(length).await;
        turns.push(Turn { troubled, from, to: Utc::now() });
    }
    trouble.set(false);
    Ok(turns)
}

/// Adds how long it took from writing to arrival, for the events that the row names by key and id. Only a full run has
/// enough of them to judge.
pub(super) async fn with_latency(
    finding: Finding,
    stage: &Stage,
    trial: &Trial,
    turns: &[Turn],
    is_other: impl Fn(&str, EventId) -> bool,
) -> Result<Finding> {
    let mut arrivals: HashMap<EventId, SystemTime> = HashMap::new();
    for delivery in trial.collector.deliveries() {
        arrivals.entry(delivery.accepted.id).or_insert(delivery.at);
    }
    let mut times = vec![Vec::new(); turns.len()];
    for row in sqlx::query("select id, key, at from written").fetch_all(&trial.pool).await? {
        let (id, at) = (EventId(row.get("id")), row.get::<DateTime<Utc>, _>("at"));
        let Some(turn) = turns.iter().position(|turn| turn.from <= at && at < turn.to) else { continue };
        let Some(arrival) = arrivals.get(&id).filter(|_| is_other(row.get("key"), id)) else { continue };
        times[turn].push(arrival.duration_since(at.into()).unwrap_or_default());
    }
    let each: Vec<Duration> = times.iter_mut().map(|times| p99(times)).collect();
    let of = |troubled| {
        let turns = turns.iter().zip(&times).filter(|(turn, _)| turn.troubled == troubled);
        p99(&mut turns.flat_map(|(_, times)| times).copied().collect::<Vec<_>>())
    };
    let (quiet, troubled) = (of(false), of(true));
    let ratio = troubled.as_secs_f64() / quiet.as_secs_f64().max(f64::EPSILON);
    let found = format!("{troubled:.1?}, without trouble {quiet:.1?}, ratio {ratio:.2}");
    let finding = finding.told("p99 of each turn, without and with trouble", format!("{each:.1?}"));
    let what = "p99 of the others";
    Ok(match stage.quick {
        true => finding.told(what, found),
        false => finding.fact(what, found, ratio <= BOUND),
    })
}

fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_takes_longer() {
        let mut times: Vec<Duration> = (0..200).rev().map(Duration::from_millis).collect();
        assert_eq!(p99(&mut times), Duration::from_millis(198));
        assert_eq!(p99(&mut []), Duration::ZERO);
    }
}
