//! The row about a receiver that is away for long: nothing is spent on it, and it is asked with one event at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use posthaste_testkit::Gate;

use crate::collector::{Answer, Delivery};
use crate::finding::{Finding, Result};
use crate::log;
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer;

/// How long the first event after the outage waits for its answer: whatever else is sent meanwhile was not a probe.
const HOLD: Duration = Duration::from_millis(300);

/// A receiver that is away, and one that has a limit when it comes back.
pub(crate) async fn away(stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![for_long(stage).await?, back_to_a_backlog(stage).await?])
}

/// Half of the time nobody listens; then somebody answers 503 for the receiver, so that the questions can be counted.
async fn for_long(stage: &Stage) -> Result<Finding> {
    let half = Duration::from_secs(stage.size(5, 60));
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    log::note_attempts(&trial.pool).await?;
    let gate = Gate::before(trial.collector_port).await;
    trial.collector_port = gate.port();
    trial.begin().await?;
    let before = trial.collector.len();
    gate.shut().await;
    tokio::time::sleep(half).await;
    let arrived_while_away = trial.collector.len() - before;
    let asked = Asked::default();
    trial.collector.answer(asked.clone().refuses());
    gate.open().await;
    tokio::time::sleep(half).await;
    trial.collector.answer(asked.clone().accepts_the_first_late());
    let backlog = trial.committed().await?.len() - trial.collector.len();
    let recovery = trial.until_delivering().await?;
    // What was under way when the connections broke; the relays share the lanes.
    let finding = trial.finding("the receiver is away for long", trial.plan.duplicates_of(1)).await?;
    let finding = with_attempts(finding, &trial).await?;
    let asked = asked.lock();
    Ok(finding
        .fact("probes that were not alone", asked.not_alone, asked.not_alone == 0)
        .told("probes in the second half, by 2 relays", asked.refused)
        .told("events that waited when it came back", backlog)
        .told("answers that were under way when it went", arrived_while_away)
        .how(format!("connections refused for {half:?}, then 503 for {half:?}; 2 relays, writers go on"))
        .recovery(recovery))
}

/// Everything is written while it is away. The rate is each relay's own.
async fn back_to_a_backlog(stage: &Stage) -> Result<Finding> {
    let (backlog, rate) = stage.size((2_000, 250), (100_000, 500));
    let mut trial = Trial::prepare(stage, Plan { more: format!("rate = {rate}"), ..Plan::default() }).await?;
    log::note_attempts(&trial.pool).await?;
    let gate = Gate::before(trial.collector_port).await;
    trial.collector_port = gate.port();
    trial.start_relays(2)?;
    trial.until_delivering().await?;
    gate.shut().await;
    write_backlog(&trial, backlog).await?;
    let before = trial.collector.len();
    gate.open().await;
    let recovery = trial.until_delivering().await?;
    let finding = trial.finding("the receiver comes back to a backlog", trial.plan.duplicates_of(1)).await?;
    let finding = with_attempts(finding, &trial).await?;
    let mut times: Vec<_> = trial.collector.deliveries().iter().skip(before).map(|one| one.at).collect();
    times.sort();
    let (peak, most) = (most_in_a_second(&times), 2 * rate * 3 / 2);
    let (what, found) =
        ("most events in a second, of one and a half times the rate", format!("{peak} of {most}"));
    // A receiver that stands still for a moment finds a queue: a time, and so not judged in a hurry.
    let finding = match stage.quick {
        true => finding.told(what, found),
        false => finding.fact(what, found, peak <= most),
    };
    Ok(finding
        .how(format!("{backlog} events written meanwhile, 2 relays, each with a rate of {rate} a second"))
        .recovery(recovery))
}

async fn write_backlog(trial: &Trial, events: i64) -> Result<()> {
    const KEYS: i64 = 40;
    const AT_ONCE: i64 = 25;
    for written in (0..events).step_by(usize::try_from(KEYS * AT_ONCE)?) {
        let mut tx = trial.pool.begin().await?;
        for key in 0..KEYS.min((events - written) / AT_ONCE) {
            writer::write(&trial.posthaste(), &mut tx, &format!("key-{key}"), AT_ONCE).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

fn most_in_a_second(sorted: &[SystemTime]) -> usize {
    let mut from = 0;
    let within = |(to, time): (usize, &SystemTime)| {
        while *time > sorted[from] + Duration::from_secs(1) {
            from += 1;
        }
        to + 1 - from
    };
    sorted.iter().enumerate().map(within).max().unwrap_or(0)
}

/// Adds what was spent: an outage costs no attempt.
pub(super) async fn with_attempts(finding: Finding, trial: &Trial) -> Result<Finding> {
    let attempts = log::attempts(&trial.pool).await?;
    let found = match attempts.first() {
        Some(first) => format!("{}, the first: {}", attempts.len(), first.reason),
        None => "0".to_owned(),
    };
    Ok(finding.fact("attempts burned", found, attempts.is_empty()))
}

/// With what the receiver was asked while it was away.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Questions>>);

#[derive(Default)]
struct Questions {
    refused: usize,
    /// Sent while another one of the same relay had no answer, or at once after it.
    not_alone: usize,
    /// When a relay asked last, while the receiver is away.
    last: HashMap<String, Instant>,
    /// When a relay asked first, after it came back.
    first: HashMap<String, Instant>,
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuses(self) -> impl Fn(&Delivery) -> Answer {
        move |delivery| {
            let mut questions = self.lock();
            questions.refused += 1;
            let last = questions.last.insert(delivery.from.clone(), Instant::now());
            // By now there are seconds between two probes; events of one page come within milliseconds.
            questions.not_alone += usize::from(last.is_some_and(|last| last.elapsed() < HOLD));
            Answer::Refuse(503)
        }
    }

    fn accepts_the_first_late(self) -> impl Fn(&Delivery) -> Answer {
        move |delivery| {
            let mut questions = self.lock();
            let Some(first) = questions.first.get(&delivery.from) else {
                questions.first.insert(delivery.from.clone(), Instant::now());
                return Answer::AcceptLate(HOLD);
            };
            let unanswered = first.elapsed() < HOLD;
            questions.not_alone += usize::from(unanswered);
            Answer::Accept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_second_is_found() {
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(most_in_a_second(&[]), 0);
        assert_eq!(most_in_a_second(&[0, 900, 1_901, 2_000, 2_100, 2_901, 5_000].map(at)), 4);
    }
}
