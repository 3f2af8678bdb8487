//! The row about a receiver that is away for long: nothing is spent on it, and it is asked with one event at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_testkit::Gate;

use crate::collector::{Answer, Delivery};
use crate::finding::{Finding, Result};
use crate::log;
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;

/// How long the first event after the outage waits for its answer: whatever else is sent meanwhile was not a probe.
const HOLD: Duration = Duration::from_millis(300);

/// Half of the time nobody listens; then somebody answers 503 for the receiver, so that the questions can be counted.
pub(crate) async fn away(stage: &Stage) -> Result<Vec<Finding>> {
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
    Ok(vec![
        finding
            .fact("probes that were not alone", asked.not_alone, asked.not_alone == 0)
            .told("probes in the second half, by 2 relays", asked.refused)
            .told("events that waited when it came back", backlog)
            .told("answers that were under way when it went", arrived_while_away)
            .how(format!("connections refused for {half:?}, then 503 for {half:?}; 2 relays, writers go on"))
            .recovery(recovery),
    ])
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
