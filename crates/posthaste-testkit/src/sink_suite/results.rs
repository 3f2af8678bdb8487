//! What the scenarios found, one small file each, for the table in docs/reference/sinks.md.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::SinkBench;

/// Where results go; unset when somebody runs one test by hand.
const FOLDER: &str = "POSTHASTE_TEST_RESULTS";

/// Notes the facts of a scenario that passed.
pub(crate) fn passed<B: SinkBench>(bench: &B, scenario: &str, facts: Value) {
    let result = json!({ "sink": B::NAME, "server": bench.server(), "scenario": scenario, "facts": facts });
    write(B::NAME, scenario, &result);
}

/// Notes that a scenario has nothing to try on this server.
pub(crate) fn not_applicable<B: SinkBench>(bench: &B, scenario: &str, why: &str) {
    passed(bench, scenario, json!({ "not applicable": why }));
}

/// Notes that there was no server.
pub(crate) fn skipped(sink: &str, reason: &str) {
    write(sink, "skipped", &json!({ "sink": sink, "skipped": reason }));
}

fn write(sink: &str, scenario: &str, result: &Value) {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(format!("{sink}-{scenario}.json")), result.to_string()));
    written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
}
