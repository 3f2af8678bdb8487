//! Rows about events and keys that fail while all others could go on.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste::EventId;

use super::turns::{Trouble, in_turns, with_latency};
use crate::collector::{Answer, Delivery};
use crate::finding::{Finding, Result};
use crate::log::{self, Dead};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::{self, Habits};

const ATTEMPTS: usize = 3;

/// So many that few events wait for another one of their key.
const KEYS: u32 = 1_000;

/// Every so many first attempts of the keys that have trouble.
const EVERY: usize = 7;

/// A key whose events are all refused.
const POISON: &str = "poison";

fn plan() -> Plan {
    let more = format!(
        "max_attempts = {ATTEMPTS}\nbase_delay = \"50ms\"\nmax_delay = \"200ms\"\nafter_dead = \"skip\""
    );
    Plan { more, ..Plan::default() }
}

async fn begin(stage: &Stage) -> Result<Trial> {
    let mut trial = Trial::prepare(stage, plan()).await?;
    log::note_attempts(&trial.pool).await?;
    trial.start_relays(2)?;
    trial.start_writers(2, Habits { keys: KEYS, ..Habits::default() }).await?;
    trial.until_delivering().await?;
    Ok(trial)
}

/// One key in four has trouble: a later event of it must wait for the one that failed, and nobody else must.
pub(crate) async fn first_attempts(stage: &Stage) -> Result<Vec<Finding>> {
    let mut trial = begin(stage).await?;
    let (trouble, failures) = (Trouble::default(), Failures::default());
    trial.collector.answer(failures.clone().answers(trouble.clone()));
    let turns = in_turns(stage, &trial, &trouble, async |_| Ok(())).await?;
    let finding = trial.finding("first attempts fail", 0).await?;
    let attempts = log::attempts(&trial.pool).await?.len();
    let failed = failures.lock().failed;
    let finding = finding
        .fact("first attempts that failed", failed, failed > 0)
        .fact("attempts that counted", attempts, attempts == failed)
        .how(format!("500 to every {EVERY}th first attempt of every fourth of {KEYS} keys, 2 relays"));
    let others = |key: &str, _| !has_trouble(key);
    Ok(vec![with_latency(finding, stage, &trial, &turns, others).await?])
}

/// Keys are `key-0`, `key-1` and so on.
fn has_trouble(key: &str) -> bool {
    key.rsplit('-').next().and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number % 4 == 0)
}

/// The key that the writer put before the body.
fn key_of(delivery: &Delivery) -> String {
    let key = delivery.accepted.payload.split(|byte| *byte == b':').next().unwrap_or_default();
    String::from_utf8_lossy(key).into_owned()
}

#[derive(Clone, Default)]
struct Failures(Arc<Mutex<FirstAttempts>>);

#[derive(Default)]
struct FirstAttempts {
    seen: HashSet<EventId>,
    failed: usize,
}

impl Failures {
    fn lock(&self) -> MutexGuard<'_, FirstAttempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(self, trouble: Trouble) -> impl Fn(&Delivery) -> Answer {
        move |delivery| {
            if !trouble.is_on() || !has_trouble(&key_of(delivery)) {
                return Answer::Accept;
            }
            let mut attempts = self.lock();
            if attempts.seen.insert(delivery.accepted.id) && attempts.seen.len().is_multiple_of(EVERY) {
                attempts.failed += 1;
                return Answer::Refuse(500);
            }
            Answer::Accept
        }
    }
}

/// A key that is always refused, and single events that are refused for good: dead with their reasons, and nobody else is.
pub(crate) async fn poison(stage: &Stage) -> Result<Vec<Finding>> {
    let mut trial = begin(stage).await?;
    let (trouble, refusals) = (Trouble::default(), Refusals::default());
    trial.collector.answer(refusals.clone().answers(trouble.clone()));
    let turns = in_turns(stage, &trial, &trouble, async |trial| write_poison(trial).await).await?;
    trial.stop().await?;
    let (dead, refusals) = (log::dead(&trial.pool).await?, refusals.lock().clone());
    let ids: HashSet<EventId> = dead.iter().map(|dead| dead.id).collect();
    // Whoever is dead must not have been accepted: it would be a ghost here.
    let (verdict, committed) = (trial.check(&ids).await?, trial.committed().await?.len());
    let wrong = wrong_deaths(&dead, &refusals);
    let sum = format!("{} + {} = {committed}", verdict.accepted, dead.len());
    let finding = Finding::new("a key and single events that are always refused")
        .figures(&verdict, 0)
        .fact("accepted + dead = committed", sum, verdict.accepted + dead.len() == committed)
        .fact("dead", dead.len(), !dead.is_empty())
        .fact("dead without cause, after other attempts, or without the reason", wrong, wrong == 0)
        .how(format!(
            "500 to one key always ({ATTEMPTS} attempts), 413 to one event in 100, {KEYS} other keys, 2 relays"
        ));
    let others = |key: &str, _| key != POISON;
    Ok(vec![with_latency(finding, stage, &trial, &turns, others).await?])
}

/// Several events of the poisoned key, which die one after the other.
async fn write_poison(trial: &Trial) -> Result<()> {
    let mut tx = trial.pool.begin().await?;
    writer::write(&trial.posthaste(), &mut tx, POISON, 5).await?;
    Ok(tx.commit().await?)
}

/// How many are dead although they were not refused for good, or not although they were, or in another way.
fn wrong_deaths(dead: &[Dead], refusals: &HashMap<EventId, Vec<u16>>) -> usize {
    let for_good = |statuses: &Vec<u16>| statuses[..] == [413] || statuses[..] == [500; ATTEMPTS];
    let expected = refusals.values().filter(|statuses| for_good(statuses)).count();
    let as_expected = dead.iter().filter(|dead| {
        let Some(statuses) = refusals.get(&dead.id).filter(|statuses| for_good(statuses)) else {
            return false;
        };
        let attempts = usize::try_from(dead.attempts).unwrap_or(0);
        attempts == statuses.len() && dead.reason.contains(&format!("answered {}", statuses[0]))
    });
    let right = as_expected.count();
    (dead.len() - right) + (expected - right)
}

/// What was refused, and how often.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<HashMap<EventId, Vec<u16>>>>);

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<EventId, Vec<u16>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(self, trouble: Trouble) -> impl Fn(&Delivery) -> Answer {
        move |delivery| {
            let id = delivery.accepted.id;
            let status = match key_of(delivery).as_str() {
                POISON => 500,
                // The end of an id is random.
                _ if trouble.is_on() && id.0.as_u128() % 100 == 0 => 413,
                _ => return Answer::Accept,
            };
            self.lock().entry(id).or_default().push(status);
            Answer::Refuse(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_needs_its_cause_its_attempts_and_its_reason() {
        let ids: Vec<EventId> = (1..=3).map(|n| EventId(uuid::Uuid::from_u128(n))).collect();
        let refusals = HashMap::from([(ids[0], vec![413]), (ids[1], vec![500; 3]), (ids[2], vec![500])]);
        let dead = |index: usize, attempts, status: u16| Dead {
            id: ids[index],
            attempts,
            reason: format!("the receiver answered {status} X"),
        };
        assert_eq!(wrong_deaths(&[dead(0, 1, 413), dead(1, 3, 500)], &refusals), 0);
        assert_eq!(wrong_deaths(&[dead(0, 1, 413)], &refusals), 1, "one is missing");
        assert_eq!(
            wrong_deaths(&[dead(0, 1, 413), dead(1, 3, 500), dead(2, 1, 500)], &refusals),
            1,
            "too soon"
        );
        assert_eq!(wrong_deaths(&[dead(0, 2, 413), dead(1, 3, 413)], &refusals), 4, "in another way");
    }
}
