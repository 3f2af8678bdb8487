//! Rows that are tests of their own: a trial that needs another shape than the standard one, or none at all. Their programs run
//! here as they are, and what they print counts: tests that passed, and the figures of every checker in them.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use posthaste_testkit::Verdict;
use tokio::process::Command;

use crate::finding::{Finding, Result};
use crate::stage::Stage;

/// However slow the machine: a test program that takes longer hangs. In full, some try ten thousands of cases.
const PATIENCE: Duration = Duration::from_secs(600);
const PATIENCE_IN_FULL: Duration = Duration::from_secs(3600);

/// Some tests of one test program.
pub(crate) struct Program {
    /// The package it belongs to.
    pub(crate) package: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    /// What the names of its tests contain; all tests, if there is none.
    pub(crate) tests: &'static [&'static str],
}

/// What a test program said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    passed: usize,
    failed: usize,
    /// The tests it began.
    names: BTreeSet<String>,
    /// Every checker's figures together, but not those of controls.
    figures: Option<Verdict>,
    /// What the test allows, where it says so.
    allowed: Option<usize>,
    /// The lines of controls.
    controls: Vec<String>,
    /// What could not be staged.
    skipped: BTreeSet<String>,
}

/// Runs them one after the other.
pub(crate) async fn run(stage: &Stage, fault: &str, how: &str, programs: &[Program]) -> Result<Finding> {
    let mut finding = Finding::new(fault).how(how);
    let mut figures = Verdict::default();
    let (mut counted, mut allowed) = (false, 0);
    for program in programs {
        let (said, ending) = said_by(stage, program).await?;
        let absent = said.absent(program.tests);
        let good = ending.is_none() && said.failed == 0 && said.passed > 0 && absent.is_empty();
        let mut found = format!("{} passed, {} failed", said.passed, said.failed);
        for name in absent {
            found.push_str(&format!("; there is no test `{name}`"));
        }
        if let Some(ending) = &ending {
            found.push_str(&format!("; {ending}"));
        }
        finding = finding.fact(&format!("tests of {} / {}", program.package, program.name), found, good);
        for reason in said.skipped {
            finding = finding.told("skipped in it", reason);
        }
        for control in said.controls {
            finding = finding.told("control", control);
        }
        if let Some(more) = said.figures {
            (counted, figures) = (true, sum(figures, more));
            allowed += said.allowed.unwrap_or(0);
        }
    }
    Ok(if counted { finding.figures(&figures, allowed) } else { finding })
}

/// What it said, and how it ended if not well.
async fn said_by(stage: &Stage, program: &Program) -> Result<(Said, Option<String>)> {
    let mut command = Command::new(stage.test(program.package, program.name)?);
    command.args(program.tests).arg("--nocapture").stdin(Stdio::null()).kill_on_drop(true);
    // The end of what it says is told, and that is to be the sentence, not a backtrace.
    command.env("RUST_BACKTRACE", "0");
    if stage.quick {
        command.env("POSTHASTE_FAULTS", "quick");
    } else {
        command.env("POSTHASTE_FAULTS", "full");
    }
    let patience = stage.size(PATIENCE, PATIENCE_IN_FULL);
    let Ok(output) = tokio::time::timeout(patience, command.output()).await else {
        return Ok((Said::default(), Some(format!("it did not end within {patience:?}"))));
    };
    let output = output?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Some say there what they could not stage.
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let ending = (!output.status.success()).then(|| {
        let all: Vec<&str> = text.lines().collect();
        format!("{}:\n{}", output.status, all[all.len().saturating_sub(30)..].join("\n"))
    });
    Ok((heard(&text), ending))
}

impl Said {
    /// What was asked for and is not there: tests get other names, and then nothing would be tried.
    fn absent<'a>(&self, tests: &[&'a str]) -> Vec<&'a str> {
        let began = |part: &str| self.names.iter().any(|name| name.contains(part));
        // A program without the usual harness names nothing.
        let named = !self.names.is_empty();
        tests.iter().copied().filter(|part| named && !began(part)).collect()
    }
}

fn heard(text: &str) -> Said {
    let mut said = Said::default();
    for line in text.lines() {
        // With what the test printed behind it.
        let begins = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        said.names.extend(begins.map(|(name, _)| name.to_owned()));
        if let Some((passed, failed)) = result(line) {
            said.passed += passed;
            said.failed += failed;
        } else if line.trim_start().starts_with("control") {
            said.controls.push(line.trim().to_owned());
        } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
            said.skipped.insert(reason.to_owned());
        } else {
            if let Some(figures) = figures(line) {
                said.figures = Some(said.figures.map_or(figures, |before| sum(before, figures)));
            }
            if let Some(allowed) = number_after(line, "duplicates allowed: ") {
                *said.allowed.get_or_insert(0) += allowed;
            }
        }
    }
    said
}

/// `test result: ok. 3 passed; 0 failed; ...`, or `3 passed, 0 failed` of a program without the usual harness.
fn result(line: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = line.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
    let before = |what: &str| {
        let place = words.iter().position(|word| *word == what)?;
        words.get(place.checked_sub(1)?)?.parse().ok()
    };
    let own = line.starts_with("test result:") || line.ends_with(" failed");
    own.then(|| Some((before("passed")?, before("failed")?))).flatten()
}

/// The line that a checker prints.
fn figures(line: &str) -> Option<Verdict> {
    Some(Verdict {
        accepted: number_after(line, "accepted ")?,
        lost: number_after(line, "lost ")?,
        ghosts: number_after(line, "ghosts ")?,
        duplicates: number_after(line, "duplicates ")?,
        inversions: number_after(line, "inversions ")?,
        corrupted: number_after(line, "corrupted ")?,
    })
}

fn number_after(line: &str, word: &str) -> Option<usize> {
    // The last one: how many are allowed may stand before how many there were.
    let (_, rest) = line.rsplit_once(word)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn sum(left: Verdict, right: Verdict) -> Verdict {
    Verdict {
        accepted: left.accepted + right.accepted,
        lost: left.lost + right.lost,
        ghosts: left.ghosts + right.ghosts,
        duplicates: left.duplicates + right.duplicates,
        inversions: left.inversions + right.inversions,
        corrupted: left.corrupted + right.corrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_counted_once_and_controls_apart() {
        let verdict = Verdict { accepted: 7, duplicates: 2, ..Verdict::default() };
        let control = Verdict { lost: 3, ..verdict };
        let text = format!(
            "running 2 tests\n  key, batches: {verdict}\n  key, lanes: {verdict}\n  duplicates allowed: 40; takeover\n\
             \n  control `seq > last`: {control}\ntest orders::hold ... ok\n skipped: no broker\ntest result: ok. 2 passed; 1 failed; 0 ignored\n"
        );
        let said = heard(&text);
        assert_eq!((said.passed, said.failed, said.allowed), (2, 1, Some(40)));
        assert_eq!(said.figures, Some(sum(verdict, verdict)));
        assert_eq!(said.controls, [format!("control `seq > last`: {control}")]);
        assert_eq!(said.skipped.len(), 1);
        assert_eq!(said.absent(&["hold", "orders::", "gone"]), ["gone"]);
        assert_eq!(heard("\n1 passed, 0 failed").passed, 1, "a program without the harness");
        assert_eq!(heard("nothing of the kind").figures, None);
    }
}
