//! A run as a whole: when it was, how, and what came out. It is what `--json` writes and `--from` reads.

use std::path::{Path, PathBuf};

use chrono::Utc;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Result};
use crate::rows::ROWS;

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

    /// What several runs have written, which were done in the same way: of each row, what the last one found that tried it.
    pub(crate) fn read_all(first: &Path, others: &[PathBuf]) -> Result<Self> {
        let mut all = Self::read(first)?;
        for file in others {
            let next = Self::read(file)?;
            if (next.quick, next.cores) != (all.quick, all.cores) {
                return Err(format!(
                    "{} was run in another form, or on another machine, than {}",
                    file.display(),
                    first.display()
                )
                .into());
            }
            all.replace(next);
        }
        match ROWS.iter().find(|row| all.findings.iter().all(|finding| finding.row != row.name)) {
            Some(missing) => Err(format!("no file has the row `{}`; the page has all", missing.name).into()),
            None => Ok(all),
        }
    }

    fn replace(&mut self, next: Self) {
        self.date = self.date.clone().max(next.date);
        self.findings.retain(|old| next.findings.iter().all(|new| new.row != old.row));
        self.findings.extend(next.findings);
        let place = |finding: &Finding| ROWS.iter().position(|row| row.name == finding.row);
        self.findings.sort_by_key(place);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: &[(&str, &str)]) -> Run {
        let finding = |(row, fault): &(&str, &str)| Finding { row: (*row).to_owned(), ..Finding::new(fault) };
        let findings = rows.iter().map(finding).collect();
        Run { date: "2026-01-01".to_owned(), quick: false, cores: 2, findings }
    }

    #[test]
    fn a_row_that_was_tried_again_takes_the_place_of_the_old_one() {
        let [first, second] = [ROWS[0].name, ROWS[1].name];
        let mut all = run(&[(first, "a"), (first, "b"), (second, "c")]);
        all.replace(run(&[(first, "d")]));
        let faults: Vec<&str> = all.findings.iter().map(|finding| finding.fault.as_str()).collect();
        assert_eq!(faults, ["d", "c"]);
    }

    #[test]
    fn a_page_lacks_no_row_and_mixes_no_forms() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, run: Run| {
            let file = folder.path().join(name);
            run.write(&file).unwrap();
            file
        };
        let whole: Vec<(&str, &str)> = ROWS.iter().map(|row| (row.name, "a")).collect();
        let (whole, part) = (file("whole", run(&whole)), file("part", run(&whole[..1])));
        let quick = file("quick", Run { quick: true, ..run(&[]) });
        assert_eq!(Run::read_all(&whole, std::slice::from_ref(&part)).unwrap().findings.len(), ROWS.len());
        let missing = Run::read_all(&part, &[]).unwrap_err().to_string();
        assert!(missing.contains(ROWS[1].name), "{missing}");
        let mixed = Run::read_all(&whole, &[quick]).unwrap_err().to_string();
        assert!(mixed.contains("another form"), "{mixed}");
    }
}
