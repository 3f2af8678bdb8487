//! What came of one fault: the figures of the trial, further facts, and the verdict over both.

use std::fmt::Display;
use std::time::Duration;

use posthaste_testkit::Verdict;
use serde::{Deserialize, Serialize};

/// How everything here may fail: with a sentence.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// One line of the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// The name of the row. Written by whoever runs the rows.
    pub(crate) row: String,
    /// Its numbers in the scorecard. Likewise.
    pub(crate) numbers: String,
    /// What was done.
    pub(crate) fault: String,
    /// How often, with what, for how long.
    pub(crate) how: String,
    /// What the checker found, if the trial ran.
    pub(crate) figures: Option<Figures>,
    /// From the end of the fault until new events arrived from every lane, in milliseconds.
    pub(crate) recovery: Option<u64>,
    /// What else was looked at.
    pub(crate) facts: Vec<Fact>,
    /// Why it could not be staged on this machine.
    pub(crate) skipped: Option<String>,
}

/// The checker's figures.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) accepted: usize,
    pub(crate) lost: usize,
    pub(crate) ghosts: usize,
    pub(crate) duplicates: usize,
    /// How many duplicates this fault may cause.
    pub(crate) duplicates_allowed: usize,
    pub(crate) inversions: usize,
    pub(crate) corrupted: usize,
}

/// Something else that must be so.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fact {
    pub(crate) what: String,
    pub(crate) found: String,
    pub(crate) good: bool,
}

impl Finding {
    pub(crate) fn new(fault: &str) -> Self {
        Self {
            row: String::new(),
            numbers: String::new(),
            fault: fault.to_owned(),
            how: String::new(),
            figures: None,
            recovery: None,
            facts: Vec::new(),
            skipped: None,
        }
    }

    pub(crate) fn how(mut self, how: impl Into<String>) -> Self {
        self.how = how.into();
        self
    }

    pub(crate) fn figures(mut self, verdict: &Verdict, duplicates_allowed: usize) -> Self {
        let Verdict { accepted, lost, ghosts, duplicates, inversions, corrupted } = *verdict;
        let figures =
            Figures { accepted, lost, ghosts, duplicates, duplicates_allowed, inversions, corrupted };
        self.figures = Some(figures);
        self
    }

    pub(crate) fn recovery(mut self, time: Duration) -> Self {
        self.recovery = u64::try_from(time.as_millis()).ok();
        self
    }

    pub(crate) fn fact(mut self, what: &str, found: impl Display, good: bool) -> Self {
        self.facts.push(Fact { what: what.to_owned(), found: found.to_string(), good });
        self
    }

    /// For what is told and not judged, such as times, which belong to the machine.
    pub(crate) fn told(self, what: &str, found: impl Display) -> Self {
        self.fact(what, found, true)
    }

    pub(crate) fn skipped(mut self, reason: &str) -> Self {
        self.skipped = Some(reason.to_owned());
        self
    }

    /// The trial itself broke off.
    pub(crate) fn broken(self, reason: &str) -> Self {
        self.fact("the trial could not be ended", reason, false)
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match (&self.skipped, self.is_good()) {
            (Some(_), _) => "skipped",
            (None, true) => "good",
            (None, false) => "BAD",
        }
    }

    /// Whether nothing bad was found. What was skipped has shown nothing, neither good nor bad.
    pub(crate) fn is_good(&self) -> bool {
        let shows_nothing = self.figures.is_none() && self.facts.is_empty() && self.skipped.is_none();
        !shows_nothing
            && self.figures.is_none_or(|figures| figures.are_good())
            && self.facts.iter().all(|fact| fact.good)
    }
}

impl Figures {
    /// A trial in which nothing arrived has tried nothing.
    fn are_good(&self) -> bool {
        let never = [self.lost, self.ghosts, self.inversions, self.corrupted];
        self.accepted > 0 && never == [0; 4] && self.duplicates <= self.duplicates_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Verdict)) -> Finding {
        let mut verdict = Verdict { accepted: 10, duplicates: 5, ..Verdict::default() };
        change(&mut verdict);
        Finding::new("test").figures(&verdict, 5)
    }

    #[test]
    fn every_figure_and_every_fact_can_make_it_bad() {
        assert_eq!(with(|_| {}).verdict(), "good");
        let changes: [fn(&mut Verdict); 6] = [
            |v| v.lost = 1,
            |v| v.ghosts = 1,
            |v| v.duplicates = 6,
            |v| v.inversions = 1,
            |v| v.corrupted = 1,
            |v| v.accepted = 0,
        ];
        for change in changes {
            assert_eq!(with(change).verdict(), "BAD");
        }
        assert_eq!(with(|_| {}).fact("control", 0, false).verdict(), "BAD");
        assert_eq!(Finding::new("nothing was looked at").verdict(), "BAD");
        assert_eq!(Finding::new("no such program").skipped("it is not there").verdict(), "skipped");
    }
}
