//! Environment variables over the file: `POSTHASTE_` and the path, `__` between its parts.

use std::collections::BTreeMap;

use posthaste_sinks::{Problems, nearest};
use serde_json::{Map, Value};

use super::file;
use super::written::Origins;

const PREFIX: &str = "POSTHASTE_";

/// What the tests of this project tell each other is no configuration.
const TESTS: &str = "POSTHASTE_TEST_";

/// The tables there are; a variable names one of them first.
const TABLES: [&str; 6] = ["database", "defaults", "inbox", "registry", "relay", "subscriptions"];

/// Lays all variables over the table and remembers which came from where.
pub(super) fn lay_over(
    table: &mut Map<String, Value>,
    variables: &BTreeMap<String, String>,
    origins: &mut Origins,
    problems: &Problems,
) {
    let configured: Vec<String> = subscriptions(table).map(str::to_owned).collect();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !name.starts_with(TESTS)) else { continue };
        let path = path(rest, table);
        if let Some(sentence) = misspelt(&path) {
            problems.note("", format!("{name} is not understood; {sentence}"));
            continue;
        }
        origins.remember(&path, name);
        insert(table, &path, parsed(value));
    }
    remove_misnamed(table, &configured, origins, problems);
}

/// The parts of the path; a subscription is found however its name is written.
fn path(rest: &str, table: &Map<String, Value>) -> Vec<String> {
    let mut parts: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
    if parts[0] == "subscriptions"
        && let Some(part) = parts.get_mut(1)
        && let Some(known) = subscriptions(table).find(|known| plain(known) == plain(part))
    {
        *part = known.to_owned();
    }
    parts
}

fn subscriptions(table: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let inner = table.get("subscriptions").and_then(Value::as_object);
    inner.into_iter().flat_map(|inner| inner.keys().map(String::as_str))
}

/// Variables have neither small letters nor dashes nor dots.
fn plain(name: &str) -> String {
    name.to_lowercase().replace(['-', '.'], "_")
}

/// A sentence if the path cannot mean anything.
fn misspelt(path: &[String]) -> Option<String> {
    if path.iter().any(String::is_empty) {
        return Some("a part of its path is empty; write for example POSTHASTE_RELAY__GRACE".to_owned());
    }
    if TABLES.contains(&path[0].as_str()) {
        return None;
    }
    // The usual mistake: one underscore where two are due.
    let joined = TABLES.iter().find_map(|table| {
        let rest = path[0].strip_prefix(table)?.strip_prefix('_')?;
        Some([&[(*table).to_owned(), rest.to_owned()], &path[1..]].concat())
    });
    let table = |table: &str| format!("{PREFIX}{}__...", table.to_uppercase());
    Some(match (joined, nearest(&path[0], &TABLES)) {
        (Some(path), _) => format!("did you mean {PREFIX}{}?", path.join("__").to_uppercase()),
        (None, Some(near)) => format!("did you mean {}?", table(near)),
        (None, None) => format!("there are {}", TABLES.map(table).join(", ")),
    })
}

/// Lists and tables in TOML, everything else as text: those who read it know what it should be.
fn parsed(value: &str) -> Value {
    let structured = value.starts_with('[') || value.starts_with('{');
    structured.then(|| file::value(value)).flatten().unwrap_or_else(|| Value::String(value.to_owned()))
}

/// Puts a value at its place; whatever is in the way was written by a weaker source.
pub(super) fn insert(table: &mut Map<String, Value>, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let place = table.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    if let Value::Object(inner) = place {
        insert(inner, rest, value);
    }
}

/// A subscription that only variables name must bring its sink; otherwise its name is misspelt.
fn remove_misnamed(
    table: &mut Map<String, Value>,
    configured: &[String],
    origins: &Origins,
    problems: &Problems,
) {
    let Some(Value::Object(inner)) = table.get_mut("subscriptions") else { return };
    let misnamed = |name: &String, value: &Value| !configured.contains(name) && value.get("sink").is_none();
    let names: Vec<String> =
        inner.iter().filter(|(name, value)| misnamed(name, value)).map(|(name, _)| name.clone()).collect();
    for name in names {
        inner.remove(&name);
        let variable = origins.of_table(&format!("subscriptions.{name}")).unwrap_or_default();
        let words: Vec<&str> = configured.iter().map(String::as_str).collect();
        let known = match (nearest(&name, &words), words.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, false) => format!("there are {}", words.join(", ")),
            (None, true) => "and none is configured".to_owned(),
        };
        problems
            .note("", format!("{variable} is not understood; there is no subscription `{name}`; {known}"));
    }
}
