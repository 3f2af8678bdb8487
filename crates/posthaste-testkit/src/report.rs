//! What a run did, and how it left the subscription.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::testing::{End, NotDelivered, Run, Why};

/// What a run did, and how it left the subscription.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Which subscription.
    pub subscription: String,
    /// Events delivered.
    pub delivered: u64,
    /// Attempts that failed and will be repeated, or were.
    pub retried: u64,
    /// Events that became dead.
    pub dead: u64,
    /// The receiver said that it is away, and the run ended for that.
    pub receiver_away: bool,
    /// What the subscription wants and has not delivered, in the order of the log: also from before this run.
    pub left: Vec<NotDelivered>,
}

impl Report {
    pub(crate) fn of(run: Run, bound: Duration) -> Self {
        let report = Self {
            subscription: run.subscription,
            delivered: run.delivered,
            retried: run.retried,
            dead: run.dead,
            receiver_away: run.end == End::ReceiverAway,
            left: run.left,
        };
        match run.end {
            End::OutOfTime => panic!("the subscription did not come to rest within {bound:?}:\n{report}"),
            End::Paused => panic!("the subscription is paused, so nothing would ever happen:\n{report}"),
            End::Idle | End::ReceiverAway => report,
        }
    }

    /// This run and then another one.
    pub(crate) fn and(self, next: Self) -> Self {
        Self {
            delivered: self.delivered + next.delivered,
            retried: self.retried + next.retried,
            dead: self.dead + next.dead,
            ..next
        }
    }

    /// What waits for its time: delayed events, and retries.
    pub fn waiting(&self) -> Vec<&NotDelivered> {
        self.left.iter().filter(|event| matches!(event.why, Why::Waiting { .. })).collect()
    }

    /// When the next of them is due.
    pub fn waiting_until(&self) -> Option<DateTime<Utc>> {
        let until = |event: &NotDelivered| match event.why {
            Why::Waiting { until, .. } => Some(until),
            _ => None,
        };
        self.left.iter().filter_map(until).min()
    }

    /// What waits behind an earlier event.
    pub fn behind(&self) -> Vec<&NotDelivered> {
        self.left.iter().filter(|event| event.why == Why::Behind).collect()
    }

    /// The dead letters.
    pub fn dead_letters(&self) -> Vec<&NotDelivered> {
        self.left.iter().filter(|event| event.why == Why::Dead).collect()
    }

    /// Nothing is left: everything the subscription wants is delivered.
    ///
    /// # Panics
    /// If something is left, with what and why.
    #[track_caller]
    pub fn assert_all_delivered(&self) {
        assert!(self.left.is_empty(), "not everything was delivered:\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscription, delivered, retried, dead, .. } = self;
        write!(f, "  {subscription}: delivered {delivered}, retried {retried}, dead {dead}")?;
        if self.receiver_away {
            f.write_str("; the receiver is away")?;
        }
        self.left.iter().try_for_each(|event| write!(f, "\n  {}", line(event)))
    }
}

fn line(event: &NotDelivered) -> String {
    let why = match event.why {
        Why::Due => "due".to_owned(),
        Why::InFlight => "in flight".to_owned(),
        Why::Waiting { until, .. } => format!("waiting until {}", until.format("%Y-%m-%dT%H:%M:%SZ")),
        Why::Behind => "waiting behind an earlier event".to_owned(),
        Why::Dead => "dead".to_owned(),
    };
    let named = [("type", &event.event_type), ("key", &event.key), ("error", &event.last_error)];
    let named = named.iter().filter_map(|(name, text)| Some(format!(", {name} {:?}", text.as_ref()?)));
    let attempts = event.attempts;
    format!("{why}: topic {:?}{}, attempts {attempts}", event.topic, named.collect::<String>())
}
