//! What one check found.

use serde_json::{Value, json};

use crate::failure::Code;

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
    /// What scripts are told if it is bad.
    pub(crate) code: Code,
}

impl Finding {
    pub(crate) fn good(check: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self::new(check, Verdict::Good, sentence, "")
    }

    pub(crate) fn warning(
        check: impl Into<String>,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Warning, sentence, remedy)
    }

    pub(crate) fn bad(
        check: impl Into<String>,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Bad, sentence, remedy)
    }

    /// Something that has a code of its own: the database is away, refuses, or is not prepared.
    pub(crate) fn coded(check: impl Into<String>, code: Code, sentence: impl Into<String>) -> Self {
        Self { code, ..Self::bad(check, sentence, "") }
    }

    fn new(
        check: impl Into<String>,
        verdict: Verdict,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (check, sentence, remedy) = (check.into(), sentence.into(), remedy.into());
        Self { check, verdict, sentence, remedy, code: Code::CheckFailed }
    }

    pub(crate) fn json(&self) -> Value {
        let verdict = self.verdict.word().to_lowercase();
        json!({ "check": self.check, "verdict": verdict, "sentence": self.sentence, "remedy": self.remedy })
    }
}
