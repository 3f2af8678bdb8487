//! What one check found.

use serde_json::{Value, json};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Good,
    /// It works, but somebody should know.
    Warning,
    /// Events are not delivered, or not safe.
    Bad,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warn",
            Self::Bad => "FAIL",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
    /// What was found.
    pub(crate) sentence: String,
    /// What to do about it; empty if nothing.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn good(check: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Good, sentence: sentence.into(), remedy: String::new() }
    }

    pub(crate) fn warning(
        check: impl Into<String>,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (check, sentence, remedy) = (check.into(), sentence.into(), remedy.into());
        Self { check, verdict: Verdict::Warning, sentence, remedy }
    }

    pub(crate) fn bad(
        check: impl Into<String>,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (check, sentence, remedy) = (check.into(), sentence.into(), remedy.into());
        Self { check, verdict: Verdict::Bad, sentence, remedy }
    }

    pub(crate) fn json(&self) -> Value {
        let verdict = self.verdict.word().to_lowercase();
        json!({ "check": self.check, "verdict": verdict, "sentence": self.sentence, "remedy": self.remedy })
    }
}
