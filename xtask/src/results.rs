//! What the sink suite found, from its results folder into docs/reference/sinks.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Result, target_folder};

/// The scenarios, as columns.
const COLUMNS: [(&str, &str); 8] = [
    ("bytes", "bytes and headers"),
    ("structured", "structured"),
    ("ten thousand", "10,000 events"),
    ("refused", "refused events"),
    ("outages", "server taken away"),
    ("away at the start", "away at the start"),
    ("credentials", "wrong credentials"),
    ("unknown destination", "unknown destination"),
];

/// The sinks that must have every scenario. Other benches, such as one more kind of queue, try only some of them.
const SINKS: [&str; 9] =
    ["event_store", "file", "kafka", "nats", "pubsub", "rabbitmq", "redis", "sqs", "webhook"];

const BEGIN: &str = "<!-- written by `cargo xtask test`; do not edit below -->";

/// The results of one run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Sink, then scenario.
    passed: BTreeMap<String, BTreeMap<String, Value>>,
    pub(crate) skipped: BTreeMap<String, String>,
}

/// An empty folder for the run's results.
pub(crate) fn fresh_folder(workspace: &Path) -> Result<PathBuf> {
    let folder = target_folder(workspace);
    let folder = folder.join(format!("sink-results-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    Ok(folder)
}

impl Results {
    /// Reads the folder and removes it.
    pub(crate) fn collect(folder: &Path) -> Result<Self> {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
        let mut results = Self::default();
        for entry in fs::read_dir(folder).map_err(|error| problem(&error))? {
            let path = entry.map_err(|error| problem(&error))?.path();
            let text = fs::read_to_string(&path).map_err(|error| problem(&error))?;
            results.add(serde_json::from_str(&text).map_err(|error| problem(&error))?);
        }
        fs::remove_dir_all(folder).map_err(|error| problem(&error))?;
        Ok(results)
    }

    fn add(&mut self, result: Value) {
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        match result.get("skipped") {
            Some(_) => drop(self.skipped.insert(text("sink"), text("skipped"))),
            None => drop(self.passed.entry(text("sink")).or_default().insert(text("scenario"), result)),
        }
    }

    /// Whether every sink has every scenario: only then is the table worth writing.
    fn is_whole(&self) -> bool {
        let scenarios = |sink: &str| self.passed.get(sink).map_or(0, BTreeMap::len);
        SINKS.iter().all(|sink| scenarios(sink) == COLUMNS.len())
    }

    /// Replaces the generated part of the page.
    pub(crate) fn write(&self, workspace: &Path) -> Result<()> {
        let path = workspace.join("docs/reference/sinks.md");
        let Ok(page) = fs::read_to_string(&path) else { return Ok(()) };
        let Some((head, _)) = page.split_once(BEGIN).filter(|_| self.is_whole() && self.skipped.is_empty())
        else {
            return Ok(());
        };
        let page = format!("{head}{BEGIN}\n\n{}", self.table());
        fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn table(&self) -> String {
        let titles: String = COLUMNS.iter().map(|(_, title)| format!(" {title} |")).collect();
        let rows: String = self.passed.iter().map(|(sink, scenarios)| row(sink, scenarios)).collect();
        format!("| sink | server |{titles}\n|---|---|{}\n{rows}", "---|".repeat(COLUMNS.len()))
    }
}

fn row(sink: &str, scenarios: &BTreeMap<String, Value>) -> String {
    let server = scenarios.values().find_map(|result| result["server"].as_str()).unwrap_or_default();
    let cells = COLUMNS.iter().map(|(scenario, _)| format!(" {} |", cell(scenarios.get(*scenario))));
    format!("| {sink} | {server} |{}\n", cells.collect::<String>())
}

/// The facts in words: `events 10000, lost 0`.
fn cell(result: Option<&Value>) -> String {
    let Some(facts) = result.and_then(|result| result["facts"].as_object()) else { return String::new() };
    let words = facts.iter().map(|(name, value)| match value {
        Value::String(text) if name == "not applicable" => text.clone(),
        Value::String(text) => format!("{name}: {text}"),
        number => format!("{name} {number}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn add(results: &mut Results, sink: &str, scenario: &str) {
        let facts = json!({ "lost": 0, "events": 10 });
        results.add(json!({ "sink": sink, "server": "server 2", "scenario": scenario, "facts": facts }));
    }

    #[test]
    fn a_table_has_a_row_per_bench_and_is_written_when_every_sink_has_every_scenario() {
        let mut results = Results::default();
        for sink in SINKS.iter().filter(|sink| **sink != "nats") {
            COLUMNS.iter().for_each(|(scenario, _)| add(&mut results, sink, scenario));
        }
        assert!(!results.is_whole(), "one sink is missing");
        COLUMNS.iter().skip(1).for_each(|(scenario, _)| add(&mut results, "nats", scenario));
        assert!(!results.is_whole(), "one scenario is missing");
        add(&mut results, "nats", COLUMNS[0].0);
        add(&mut results, "sqs-standard", "bytes");
        assert!(results.is_whole(), "a bench beside them may try less");
        assert!(results.table().contains("| nats | server 2 | events 10, lost 0 |"), "{}", results.table());
    }
}
