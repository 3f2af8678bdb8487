//! The file as a table: TOML in, JSON values out, so that environment and flags can be laid over it.

use std::path::Path;

use posthaste_sinks::Problem;
use serde_json::{Map, Number, Value};

use crate::failure::{Mistakes, Place};

/// Larger than any configuration; a log file given by mistake is not read whole.
const LARGEST: u64 = 1 << 20;

/// Reads the file; the problem says which line.
pub(super) fn read(path: &Path) -> Result<Map<String, Value>, Mistakes> {
    let text = text_of(path).map_err(Mistakes::unreadable)?;
    parse(&text).map_err(|sentence| Mistakes {
        place: Place::Configuration(Some(path.to_owned())),
        problems: vec![Problem { path: String::new(), sentence }],
    })
}

fn text_of(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let about = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("there is no file {shown}; `posthaste init {shown}` writes one")
        }
        _ => format!("cannot read {shown}: {error}"),
    })?;
    if about.is_dir() {
        return Err(format!("{shown} is a folder; give the path of a file"));
    }
    if about.len() > LARGEST {
        return Err(format!("{shown} has {} bytes; that is no configuration", about.len()));
    }
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text; save it as UTF-8"))
}

/// Parses TOML. The sentence never quotes the line: it may hold a password.
fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let table: toml::Table = toml::from_str(text).map_err(|error| sentence(text, &error))?;
    Ok(table.into_iter().map(|(name, value)| (name, plain(value))).collect())
}

fn sentence(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    match error.span() {
        Some(span) => {
            let (line, column) = place(text, span.start);
            format!("line {line}, column {column}: this is not TOML: {message}")
        }
        None => format!("this is not TOML: {message}"),
    }
}

/// The line and column of a byte, counted from one.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// A value written in TOML, as environment variables may hold it: a list or a table.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut table: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    table.remove("value").filter(|_| table.is_empty()).map(plain)
}

fn plain(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::Number(number.into()),
        toml::Value::Float(number) => {
            Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
        }
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(name, value)| (name, plain(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mistakes_have_a_line_and_a_column_and_quote_nothing() {
        let sentence = parse("[database]\nurl = \"postgres://u:hunter2@h/d\n").expect_err("no closing quote");
        assert!(sentence.starts_with("line 2, column "), "{sentence}");
        assert!(!sentence.contains("hunter2"), "{sentence}");
    }

    #[test]
    fn values_of_variables_may_be_lists_and_tables() {
        assert_eq!(value(r#"["a", "b"]"#), Some(json!(["a", "b"])));
        assert_eq!(value(r#"{ env = "X" }"#), Some(json!({ "env": "X" })));
        assert_eq!(value("[::1]:9470"), None);
        assert_eq!(value("1\nother = 2"), None);
    }

    #[test]
    fn a_bare_date_is_the_text_it_was_written_as() {
        let table = parse("start = 2026-01-01T00:00:00Z").expect("TOML");
        assert_eq!(table["start"], json!("2026-01-01T00:00:00Z"));
    }
}
