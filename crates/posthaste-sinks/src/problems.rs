//! What is wrong with a configuration: all of it at once, each with its path and a remedy.

use std::cell::RefCell;
use std::fmt;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it is, as in `subscriptions.orders.sink.brokers[1]`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub sentence: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.sentence),
            false => write!(f, "{}: {}", self.path, self.sentence),
        }
    }
}

/// Collects problems while a configuration is checked. Checking goes on after each of them.
#[derive(Debug, Default)]
pub struct Problems {
    found: RefCell<Vec<Problem>>,
}

impl Problems {
    /// Notes one more.
    pub fn note(&self, path: impl Into<String>, sentence: impl Into<String>) {
        self.found.borrow_mut().push(Problem { path: path.into(), sentence: sentence.into() });
    }

    /// How many there are so far.
    pub fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// All of them, in the order in which they were found.
    pub fn into_vec(self) -> Vec<Problem> {
        self.found.into_inner()
    }
}
