//! A run as a whole: when it was, how, and what came out. It is what `--json` writes and `--from` reads.

use std::path::Path;

use chrono::Utc;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Result};

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The day it began, in UTC.
    pub(crate) date: String,
    pub(crate) quick: bool,
    /// Cores of the machine.
    pub(crate) cores: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Run {
    pub(crate) fn begin(quick: bool) -> Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        Ok(Self { date: Utc::now().date_naive().to_string(), quick, cores, findings: Vec::new() })
    }

    /// What an earlier run has written.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| problem(&error))?;
        Ok(serde_json::from_str(&text).map_err(|error| problem(&error))?)
    }

    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))?)
    }

    /// Whether nothing bad was found in it.
    pub(crate) fn is_good(&self) -> bool {
        self.findings.iter().all(Finding::is_good)
    }

    /// How many findings have this verdict.
    pub(crate) fn count(&self, verdict: &str) -> usize {
        self.findings.iter().filter(|finding| finding.verdict() == verdict).count()
    }
}
