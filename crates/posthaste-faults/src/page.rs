//! The scorecard as a part of docs/reference/faults.md.

use std::fmt::Write;
use std::path::Path;

use crate::finding::{Finding, Result};
use crate::run::Run;
use crate::table::cells;

const BEGIN: &str = "<!-- written by `cargo xtask faults`; do not edit below -->";

/// Refuses a page that has no place for it.
pub(crate) fn check(page: &Path) -> Result<()> {
    head(page).map(drop)
}

/// Replaces what the last run has written.
pub(crate) fn write(page: &Path, run: &Run) -> Result<()> {
    let text = format!("{}{BEGIN}\n\n{}", head(page)?, measured(run)?);
    std::fs::write(page, text).map_err(|error| format!("{}: {error}", page.display()))?;
    eprintln!("posthaste-faults: wrote {}", page.display());
    Ok(())
}

fn head(page: &Path) -> Result<String> {
    let text = std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let (head, _) =
        text.split_once(BEGIN).ok_or_else(|| format!("{} has no line {BEGIN}", page.display()))?;
    Ok(head.to_owned())
}

fn measured(run: &Run) -> Result<String> {
    let (good, bad, skipped) = (run.count("good"), run.count("BAD"), run.count("skipped"));
    let mut text = String::new();
    let form = if run.quick { "the quick form" } else { "in full" };
    writeln!(
        text,
        "{}, {form}, on {} cores: {good} good, {bad} bad, {skipped} skipped.\n",
        run.date, run.cores
    )?;
    writeln!(
        text,
        "| row | no. | fault | events | lost | ghosts | duplicates | allowed | inversions | corrupted | recovery | verdict |"
    )?;
    writeln!(text, "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")?;
    for finding in &run.findings {
        let cells: Vec<String> = cells(finding).iter().map(|cell| escaped(cell)).collect();
        writeln!(text, "| {} | {} | {} |", finding.row, finding.numbers, cells.join(" | "))?;
    }
    writeln!(text, "\n## How each was tried, and what else was found")?;
    for finding in &run.findings {
        write_facts(&mut text, finding)?;
    }
    Ok(text)
}

fn write_facts(text: &mut String, finding: &Finding) -> Result<()> {
    writeln!(text, "\n**{}** ({}). {}\n", escaped(&finding.fault), finding.row, escaped(&finding.how))?;
    if let Some(reason) = &finding.skipped {
        writeln!(text, "- skipped: {}", escaped(reason))?;
    }
    for fact in &finding.facts {
        let bad = if fact.good { "" } else { " **BAD**" };
        writeln!(text, "- {}: {}{bad}", escaped(&fact.what), escaped(&fact.found))?;
    }
    Ok(())
}

/// In a table, on one line.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
