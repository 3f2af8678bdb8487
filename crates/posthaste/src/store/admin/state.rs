//! How a subscription stands, and what of it can be changed.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::subscription::{AfterDead, ClaimBy, Filter, Order, Settings};

/// A count that stops somewhere: counting ten million rows to show a number would cost more than the number is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    found: u64,
    cut: bool,
}

impl Count {
    /// A number from a count that looked no further than `limit + 1`.
    pub(crate) fn up_to(limit: u64, found: u64) -> Self {
        Self { found: found.min(limit), cut: found > limit }
    }

    /// At least this many: looking stopped before the end.
    pub(crate) fn at_least(self, cut: bool) -> Self {
        Self { cut: self.cut || cut, ..self }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { found: self.found + other.found, cut: self.cut || other.cut }
    }

    pub(crate) fn minus(self, known: u64) -> Self {
        Self { found: self.found.saturating_sub(known), ..self }
    }

    /// The number, if everything was counted.
    pub fn exact(&self) -> Option<u64> {
        (!self.cut).then_some(self.found)
    }

    /// The number that was reached when counting stopped.
    pub fn more_than(&self) -> Option<u64> {
        self.cut.then_some(self.found)
    }

    /// Whether there is nothing.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// Prints `17`, or `more than 10000`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cut {
            false => write!(f, "{}", self.found),
            true => write!(f, "more than {}", self.found),
        }
    }
}

/// How a subscription stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubscriptionState {
    /// Its name.
    pub name: String,
    /// The order it promises.
    pub order: Order,
    /// How fresh events are claimed.
    pub claim_by: ClaimBy,
    /// What a dead letter does to its key.
    pub after_dead: AfterDead,
    /// Over how many owners its keys are split.
    pub lane_count: u16,
    /// Which events it wants.
    pub filter: Filter,
    /// The settings in force: declared, then changed by operators.
    pub settings: Settings,
    /// Which of them an operator changed, by name.
    pub overridden: Vec<String>,
    /// Since when it is paused.
    pub paused_since: Option<DateTime<Utc>>,
    /// Events not delivered yet: not claimed, in flight, or pending. Dead letters are not part of it.
    pub lag: Count,
    /// How long the oldest of them whose time has come has been in the log.
    pub oldest_age: Option<Duration>,
    /// Events that a worker holds now.
    pub in_flight: Count,
    /// Pending deliveries that were tried before.
    pub retrying: Count,
    /// Events that wait behind an earlier one of their key.
    pub parked: Count,
    /// The keys they have.
    pub parked_keys: Count,
    /// Events whose time has not come.
    pub delayed: Count,
    /// Dead letters.
    pub dead: Count,
    /// When the newest of them died.
    pub newest_dead_at: Option<DateTime<Utc>>,
    /// When the next of the retried ones is due; in the past if nobody took it yet.
    pub oldest_retry_due: Option<DateTime<Utc>>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Workers that hold something now or said lately that they are alive.
    pub workers: Vec<String>,
    /// Its lanes, by generation and number.
    pub lanes: Vec<LaneState>,
}

/// Who holds a lane until when. In order `none` nobody does: workers compete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneState {
    /// Which split of the keys; while the lanes are split anew, two of them.
    pub generation: i32,
    /// Its number.
    pub lane: i32,
    /// Batches claimed so far.
    pub batches: i64,
    /// When the newest settled one was settled, as far as the journal is kept.
    pub moved_at: Option<DateTime<Utc>>,
    /// The worker, while its lease holds.
    pub held_by: Option<String>,
    /// Until when, without renewal.
    pub held_until: Option<DateTime<Utc>>,
}

/// Settings to put over the declared ones. What stays `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingsChange {
    /// Events per claim.
    pub batch_size: Option<u32>,
    /// Events handled at the same time by one worker.
    pub concurrency: Option<u32>,
    /// How long a lost wake-up may cost.
    pub poll_interval: Option<Duration>,
    /// How long a claim is held without renewal.
    pub lease: Option<Duration>,
    /// Total attempts.
    pub max_attempts: Option<u32>,
    /// First backoff.
    pub base_delay: Option<Duration>,
    /// Longest backoff.
    pub max_delay: Option<Duration>,
    /// How long one event may take.
    pub timeout: Option<Duration>,
    /// Events per second on one worker; 0 takes the limit away.
    pub rate: Option<u32>,
}

impl SettingsChange {
    /// The names of all settings, as they stand in the database, in configuration files and in
    /// [`SubscriptionState::overridden`].
    pub const NAMES: [&'static str; 9] = [
        "batch_size",
        "concurrency",
        "poll_interval",
        "lease",
        "max_attempts",
        "base_delay",
        "max_delay",
        "timeout",
        "rate",
    ];

    /// Nothing yet: `SettingsChange::new(|s| s.batch_size = Some(500))`.
    pub fn new(change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = Self::default();
        change(&mut changed);
        changed
    }

    /// The form in the database: only what is set, durations in milliseconds.
    pub(crate) fn to_json(self) -> Map<String, Value> {
        let millis = |duration: Option<Duration>| {
            duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
        };
        let values = [
            ("batch_size", self.batch_size.map(u64::from)),
            ("concurrency", self.concurrency.map(u64::from)),
            ("poll_interval", millis(self.poll_interval)),
            ("lease", millis(self.lease)),
            ("max_attempts", self.max_attempts.map(u64::from)),
            ("base_delay", millis(self.base_delay)),
            ("max_delay", millis(self.max_delay)),
            ("timeout", millis(self.timeout)),
            ("rate", self.rate.map(u64::from)),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
        given.collect()
    }
}

/// What is done to the settings that lie over the declared ones.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Override<'a> {
    /// These are put over them; the others stay.
    Put(SettingsChange),
    /// These are taken away; the others stay.
    Take(&'a [&'a str]),
    /// All are taken away.
    TakeAll,
}

impl Override<'_> {
    /// The words in the `operations` table.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Put(_) => "change settings",
            Self::Take(_) | Self::TakeAll => "reset settings",
        }
    }

    fn applied(&self, overrides: Value) -> Result<Map<String, Value>> {
        match self {
            Self::Put(change) => Ok(merged(overrides, change.to_json())),
            Self::Take(names) => without(merged(overrides, Map::new()), names),
            Self::TakeAll => Ok(Map::new()),
        }
    }
}

/// What lies over the declared settings afterwards. What comes out must be valid as a whole, not just each change by
/// itself.
pub(crate) fn overridden(declared: Value, overrides: Value, change: Override<'_>) -> Result<Value> {
    let overrides = change.applied(overrides)?;
    let settings: Settings = serde_json::from_value(Value::Object(merged(declared, overrides.clone())))
        .map_err(|error| Error::Corrupt(format!("the settings: {error}")))?;
    settings.validate()?;
    Ok(Value::Object(overrides))
}

/// Refuses names that no setting has: taking away what is not there would look like success.
fn without(mut overrides: Map<String, Value>, names: &[&str]) -> Result<Map<String, Value>> {
    for name in names {
        if !SettingsChange::NAMES.contains(name) {
            let problem = format!("is no setting; there are {}", SettingsChange::NAMES.join(", "));
            return Err(Error::invalid_setting(*name, problem));
        }
        overrides.remove(*name);
    }
    Ok(overrides)
}

fn merged(over: Value, change: Map<String, Value>) -> Map<String, Value> {
    let mut map = match over {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.extend(change);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_says_when_it_stopped() {
        assert_eq!(Count::up_to(10, 7).to_string(), "7");
        assert_eq!(Count::up_to(10, 10).to_string(), "10");
        let cut = Count::up_to(10, 11);
        assert_eq!(
            (cut.to_string().as_str(), cut.exact(), cut.more_than()),
            ("more than 10", None, Some(10))
        );
        assert_eq!(cut.plus(Count::up_to(10, 3)).to_string(), "more than 13");
    }

    #[test]
    fn every_setting_can_be_changed_under_the_name_it_has() {
        let all = SettingsChange {
            batch_size: Some(1),
            concurrency: Some(1),
            poll_interval: Some(Duration::from_millis(1)),
            lease: Some(Duration::from_millis(1)),
            max_attempts: Some(1),
            base_delay: Some(Duration::from_millis(1)),
            max_delay: Some(Duration::from_millis(1)),
            timeout: Some(Duration::from_millis(1)),
            rate: Some(1),
        };
        let declared = serde_json::to_value(Settings::default()).unwrap();
        let known: Vec<&String> = declared.as_object().unwrap().keys().collect();
        let changed = all.to_json();
        assert_eq!(changed.keys().collect::<Vec<_>>(), known);
        let mut names = SettingsChange::NAMES.to_vec();
        names.sort_unstable();
        assert_eq!(names, known);
        assert!(SettingsChange::default().to_json().is_empty());
    }

    #[test]
    fn a_setting_is_taken_away_and_what_is_left_must_be_valid() {
        let declared = serde_json::to_value(Settings::default()).unwrap();
        let over = serde_json::json!({"rate": 5, "base_delay": 400_000, "max_delay": 500_000});
        let left = overridden(declared.clone(), over.clone(), Override::Take(&["rate"])).unwrap();
        assert_eq!(left, serde_json::json!({"base_delay": 400_000, "max_delay": 500_000}));
        let refused = overridden(declared.clone(), over.clone(), Override::Take(&["max_delay"])).unwrap_err();
        assert!(refused.to_string().contains("base_delay is longer than max_delay"), "{refused}");
        let unknown = overridden(declared.clone(), over.clone(), Override::Take(&["rat"])).unwrap_err();
        assert!(unknown.to_string().starts_with("rat: is no setting; there are batch_size, "), "{unknown}");
        assert_eq!(overridden(declared, over, Override::TakeAll).unwrap(), serde_json::json!({}));
    }
}
