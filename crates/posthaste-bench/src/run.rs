//! A run as a whole: when, where and how it was measured, and what came out. It is what `--json` writes and `--from` reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sqlx::types::chrono::Utc;

use crate::measure::{Figure, Result};

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The day it began, in UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// The settings of the server.
    pub(crate) settings: BTreeMap<String, String>,
    /// Small numbers that say nothing about time.
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    /// The rows that ran, by name.
    pub(crate) rows: Vec<String>,
    pub(crate) figures: Vec<Figure>,
    /// Peers that took part in no row, because their programs were not there.
    pub(crate) absent: Vec<String>,
}

impl Run {
    /// A run that begins now, on this machine.
    pub(crate) fn begin(settings: BTreeMap<String, String>, quick: bool, rounds: usize) -> Result<Self> {
        let (date, machine) = (Utc::now().date_naive().to_string(), Machine::here()?);
        let (rows, figures, absent) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { date, machine, settings, quick, rounds, rows, figures, absent })
    }

    /// What an earlier run has written.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let problem = |error: &dyn std::fmt::Display| {
            format!("{} is no file that `--json` wrote: {error}", file.display())
        };
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(serde_json::from_str(&text).map_err(|error| problem(&error))?)
    }

    /// Several runs of the same machine, each with other rows, as one. A row that was measured twice counts as it was last.
    pub(crate) fn read_all(files: &[PathBuf]) -> Result<Self> {
        let runs: Vec<Self> = files.iter().map(|file| Self::read(file)).collect::<Result<_>>()?;
        runs.into_iter().map(Ok).reduce(|all, next| all?.with(next?)).unwrap_or(Err("no file".into()))
    }

    fn with(mut self, later: Self) -> Result<Self> {
        if self.circumstances() != later.circumstances() {
            return Err(format!(
                "these runs cannot stand on one page: {:?} and {:?}",
                self.circumstances(),
                later.circumstances()
            )
            .into());
        }
        // In the place where it stood: the page has the same order, whatever was measured again.
        for figure in later.figures {
            match self.figures.iter_mut().find(|earlier| earlier.name == figure.name) {
                Some(earlier) => *earlier = figure,
                None => self.figures.push(figure),
            }
        }
        self.rows.retain(|row| !later.rows.contains(row));
        self.rows.extend(later.rows);
        self.absent.retain(|name| later.absent.contains(name));
        if later.date != self.date && !self.date.ends_with(&later.date) {
            self.date = format!("{} to {}", self.date, later.date);
        }
        Ok(self)
    }

    /// What must be the same for figures to be comparable at all.
    fn circumstances(&self) -> (&Machine, &BTreeMap<String, String>, bool, usize) {
        (&self.machine, &self.settings, self.quick, self.rounds)
    }

    /// For programs, and for [`Run::read`].
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))?)
    }

    /// Refuses a run that leaves something out: what is written from it would leave it out without a word.
    pub(crate) fn must_have(&self, rows: &[&str]) -> Result<()> {
        let missing: Vec<&str> =
            rows.iter().copied().filter(|row| !self.rows.iter().any(|ran| ran == row)).collect();
        match (self.quick, missing.is_empty()) {
            (true, _) => Err("a quick run asserts counts only; the page needs a run without --quick".into()),
            (false, true) => Ok(()),
            (false, false) => Err(format!(
                "the page needs every row, and this run has no {}; measure again without --only",
                missing.join(", ")
            )
            .into()),
        }
    }
}

/// What the figures depend on, without anything that names a host.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    /// In MiB.
    pub(crate) memory: u64,
    /// `6.1.0`
    pub(crate) kernel: String,
}

impl Machine {
    fn here() -> Result<Self> {
        let read = |file: &str| std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
        let (cpus, memory) = (read("/proc/cpuinfo")?, read("/proc/meminfo")?);
        Self::told_by(&cpus, &memory, &read("/proc/sys/kernel/osrelease")?)
    }

    /// What follows the version of a kernel is its builder's, and may name a host: it is left out.
    fn told_by(cpus: &str, memory: &str, release: &str) -> Result<Self> {
        let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
        let line =
            memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).ok_or("no MemTotal here")?;
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        let kernel = release.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        Ok(Self { cores, memory: kibibytes / 1024, kernel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Better, Role};

    fn run(rows: &[&str], quick: bool) -> Run {
        let mut run = Run::begin(BTreeMap::from([("fsync".to_owned(), "on".to_owned())]), quick, 3).unwrap();
        run.rows = rows.iter().map(|row| (*row).to_owned()).collect();
        run
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.json");
        let mut run = run(&["drain"], false);
        let mut figure = Figure::timed("drain", "title", "1/s", Better::More).demand("a", Some("b"), 0.6);
        figure.add("a", Role::Ours, 0.1 + 0.2);
        figure.skip("b", "not there".to_owned());
        run.figures.push(figure);
        run.write(&file).unwrap();
        let read = Run::read(&file).unwrap();
        assert_eq!(format!("{read:?}"), format!("{run:?}"));
    }

    #[test]
    fn runs_with_different_rows_are_put_together_and_the_last_measurement_counts() {
        let folder = tempfile::tempdir().unwrap();
        let part = |file: &str, rows: &[(&str, f64)], rounds: usize| {
            let mut run = run(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>(), false);
            run.rounds = rounds;
            for (row, value) in rows {
                let mut figure = Figure::timed(row, "", "1/s", Better::More);
                figure.add("a", Role::Ours, *value);
                run.figures.push(figure);
            }
            let file = folder.path().join(file);
            run.write(&file).unwrap();
            file
        };
        let first = part("1.json", &[("drain", 1.0), ("held", 2.0)], 3);
        let second = part("2.json", &[("idle", 3.0), ("drain", 4.0)], 3);
        let whole = Run::read_all(&[first.clone(), second]).unwrap();
        let medians: Vec<_> =
            whole.figures.iter().map(|f| (f.name.as_str(), f.of("a").unwrap().median())).collect();
        assert_eq!(medians, [("drain", 4.0), ("held", 2.0), ("idle", 3.0)]);
        assert!(whole.must_have(&["drain", "held", "idle"]).is_ok());
        let other = part("3.json", &[("counts", 1.0)], 1);
        let sentence = Run::read_all(&[first, other]).unwrap_err().to_string();
        assert!(sentence.contains("cannot stand on one page"), "{sentence}");
    }

    #[test]
    fn a_file_that_is_something_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.json");
        std::fs::write(&file, "{}").unwrap();
        let sentence = Run::read(&file).unwrap_err().to_string();
        assert!(sentence.contains("other.json is no file that `--json` wrote"), "{sentence}");
        assert!(Run::read(&folder.path().join("gone.json")).unwrap_err().to_string().contains("gone.json"));
    }

    #[test]
    fn a_run_that_leaves_something_out_is_refused_by_name() {
        let needed = ["counts", "drain", "held"];
        assert!(run(&needed, false).must_have(&needed).is_ok());
        let sentence = run(&["drain"], false).must_have(&needed).unwrap_err().to_string();
        assert!(sentence.contains("counts, held") && sentence.contains("--only"), "{sentence}");
        assert!(run(&needed, true).must_have(&needed).unwrap_err().to_string().contains("--quick"));
    }

    #[test]
    fn a_machine_is_told_without_a_name() {
        let cpus = "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n";
        let machine = Machine::told_by(cpus, "MemFree: 1 kB\nMemTotal:  8192000 kB\n", "6.1.0-18-ada\n");
        let expected = Machine { cores: 2, memory: 8000, kernel: "6.1.0".to_owned() };
        assert_eq!(machine.unwrap(), expected);
        assert!(Machine::told_by("", "", "").is_err());
    }
}
