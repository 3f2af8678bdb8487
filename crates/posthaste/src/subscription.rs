//! A subscription: a named, independent reader of the log with its own progress and policy. Here: what one declares.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::id::{EventId, SubscriptionName};
use crate::retry::RetryPolicy;

/// Which order a subscription promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// First deliveries of one key happen in commit order; different keys run in parallel.
    #[default]
    Key,
    /// No promise, most parallel.
    None,
    /// The whole subscription in order: a failing event holds everything behind it.
    Strict,
}

/// How fresh events are claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimBy {
    /// One small row for a whole page: cheapest; a crash redelivers the page.
    #[default]
    Batch,
    /// The row remembers which events were handled while others still run: a crash redelivers only those that ran. For
    /// slow or costly handlers.
    Event,
}

/// What a dead letter does to the later events of its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterDead {
    /// The key goes on.
    #[default]
    Skip,
    /// The key waits for a person.
    Block,
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ }) => {
        impl $type {
            /// The word used in the database and in front of people.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
            pub(crate) fn parse(word: &str) -> Result<Self> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(Error::Corrupt(format!("`{word}` is not one of {}", [$($word),+].join(", ")))),
                }
            }
        }
    };
}
words!(Order { Key = "key", None = "none", Strict = "strict" });
words!(ClaimBy { Batch = "batch", Event = "event" });
words!(AfterDead { Skip = "skip", Block = "block" });

/// Which events a subscription wants. An empty list means: all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// Topics.
    pub topics: Vec<String>,
    /// Event types.
    pub event_types: Vec<String>,
    /// Tenants.
    pub tenants: Vec<Uuid>,
}

/// Where a new subscription begins to read. Only looked at when the subscription is first declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest event that is still there.
    #[default]
    Beginning,
    /// With what commits from now on.
    Now,
    /// With events enqueued at or after this time.
    Time(DateTime<Utc>),
    /// With this event.
    Event(EventId),
}

/// What can be tuned while workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Settings {
    /// Events per claim, 1 to 10,000. Default 100.
    pub batch_size: u32,
    /// Events handled at the same time by one worker. Default 16.
    pub concurrency: u32,
    /// How long a lost wake-up may cost. Default 5 s.
    #[serde(with = "millis")]
    pub poll_interval: Duration,
    /// How long a claim is held without renewal. Default 30 s.
    #[serde(with = "millis")]
    pub lease: Duration,
    /// Total attempts. Default 5.
    pub max_attempts: u32,
    /// First backoff. Default 1 s.
    #[serde(with = "millis")]
    pub base_delay: Duration,
    /// Longest backoff. Default 300 s.
    #[serde(with = "millis")]
    pub max_delay: Duration,
    /// How long one event may take before the attempt counts as failed. Default 60 s.
    #[serde(with = "millis")]
    pub timeout: Duration,
    /// Events that one worker claims per second at most, up to 1,000,000; 0, the default, means no limit.
    pub rate: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let retry = RetryPolicy::default();
        Self {
            batch_size: 100,
            concurrency: 16,
            poll_interval: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            max_attempts: retry.max_attempts,
            base_delay: retry.base_delay,
            max_delay: retry.max_delay,
            timeout: Duration::from_secs(60),
            rate: 0,
        }
    }
}

impl Settings {
    /// The backoff these settings describe.
    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_attempts,
            base_delay: self.base_delay,
            max_delay: self.max_delay,
        }
    }

    /// Checks every value; reports all that is wrong at once.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let mut check = |good: bool, problem: String| {
            if !good {
                problems.push(problem);
            }
        };
        let day = Duration::from_secs(86_400);
        check(
            (1..=10_000).contains(&self.batch_size),
            format!("batch_size {} is not 1 to 10000", self.batch_size),
        );
        check(
            (1..=10_000).contains(&self.concurrency),
            format!("concurrency {} is not 1 to 10000", self.concurrency),
        );
        check(
            (1..=10_000).contains(&self.max_attempts),
            format!("max_attempts {} is not 1 to 10000", self.max_attempts),
        );
        check(self.rate <= 1_000_000, format!("rate {} is not 0 to 1000000", self.rate));
        for (name, value, least) in [
            ("poll_interval", self.poll_interval, 1),
            ("lease", self.lease, 100),
            ("base_delay", self.base_delay, 1),
            ("max_delay", self.max_delay, 1),
            ("timeout", self.timeout, 1),
        ] {
            let range = Duration::from_millis(least)..=day;
            check(range.contains(&value), format!("{name} {value:?} is not between {least} ms and a day"));
        }
        check(self.base_delay <= self.max_delay, "base_delay is longer than max_delay".to_owned());
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid_setting("settings", problems.join("; "))),
        }
    }
}

/// Durations as whole milliseconds, the form they have in the database.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// The declaration of a subscription. Flat: `Subscription::new("billing")?.topic("orders").max_attempts(3)`.
#[derive(Debug, Clone)]
pub struct Subscription {
    pub(crate) name: SubscriptionName,
    pub(crate) order: Order,
    pub(crate) claim_by: ClaimBy,
    pub(crate) after_dead: AfterDead,
    pub(crate) lanes: u16,
    pub(crate) filter: Filter,
    pub(crate) start: Start,
    pub(crate) settings: Settings,
}

impl Subscription {
    /// A subscription to everything, in key order, from the beginning of the log.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self {
            name: SubscriptionName::parse(name)?,
            order: Order::default(),
            claim_by: ClaimBy::default(),
            after_dead: AfterDead::default(),
            lanes: 1,
            filter: Filter::default(),
            start: Start::default(),
            settings: Settings::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &SubscriptionName {
        &self.name
    }

    /// Sets the order.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets how fresh events are claimed.
    pub fn claim_by(mut self, claim_by: ClaimBy) -> Self {
        self.claim_by = claim_by;
        self
    }

    /// Sets what a dead letter does to its key.
    pub fn after_dead(mut self, after_dead: AfterDead) -> Self {
        self.after_dead = after_dead;
        self
    }

    /// Splits a `key` subscription over this many owners, 1 to 256, for scale over machines.
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes;
        self
    }

    /// Wants this namespace (and others added the same way).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.filter.namespaces.push(namespace.into());
        self
    }

    /// Wants this topic (and others added the same way).
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.filter.topics.push(topic.into());
        self
    }

    /// Wants this event type (and others added the same way).
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.filter.event_types.push(event_type.into());
        self
    }

    /// Wants this tenant's events (and others added the same way).
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.filter.tenants.push(tenant);
        self
    }

    /// Sets where a new subscription begins.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Changes the tunable settings: `.settings(|s| s.batch_size = 500)`.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Checks the whole declaration.
    pub fn validate(&self) -> Result<()> {
        self.settings.validate()?;
        if !(1..=256).contains(&self.lanes) {
            return Err(Error::invalid_setting("lanes", format!("{} is not 1 to 256", self.lanes)));
        }
        if self.lanes > 1 && self.order != Order::Key {
            return Err(Error::invalid_setting("lanes", "more than one lane needs `key` order"));
        }
        if self.order == Order::Strict && self.claim_by == ClaimBy::Event {
            return Err(Error::invalid_setting(
                "claim_by",
                "`strict` order claims by batch; it settles each event anyway",
            ));
        }
        let named = [&self.filter.namespaces, &self.filter.topics, &self.filter.event_types];
        if named.iter().any(|list| list.iter().any(|word| word.is_empty() || word.contains('\0'))) {
            return Err(Error::invalid_setting("filter", "names must not be empty or contain NUL"));
        }
        Ok(())
    }
}
