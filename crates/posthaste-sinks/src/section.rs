//! Reading one table of a configuration: every accessor notes what is wrong and goes on, so that one run reports all
//! mistakes. Pure: variables and files come from [`Surroundings`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::problems::Problems;
use crate::secret::Secret;
use crate::template::Template;

/// What a configuration may refer to: environment variables, and files next to it.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
    /// Relative paths begin here.
    pub folder: PathBuf,
}

impl Surroundings {
    /// A path of the configuration, from its folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }
}

/// A table of a configuration while it is being checked.
#[derive(Debug)]
pub struct Section<'c> {
    path: String,
    fields: &'c Map<String, Value>,
    problems: &'c Problems,
    surroundings: &'c Surroundings,
    asked: RefCell<BTreeSet<String>>,
}

impl<'c> Section<'c> {
    /// The table at this path.
    pub fn new(
        path: impl Into<String>,
        fields: &'c Map<String, Value>,
        problems: &'c Problems,
        surroundings: &'c Surroundings,
    ) -> Self {
        Self { path: path.into(), fields, problems, surroundings, asked: RefCell::default() }
    }

    /// Where this table is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What the configuration may refer to.
    pub fn surroundings(&self) -> &'c Surroundings {
        self.surroundings
    }

    /// The names of all fields that were written.
    pub fn names(&self) -> impl Iterator<Item = &'c str> {
        self.fields.keys().map(String::as_str)
    }

    /// Whether the field was written.
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Notes a problem with a field of this table; an empty name means the table itself.
    pub fn problem(&self, name: &str, sentence: impl Into<String>) {
        self.problems.note(self.path_of(name), sentence);
    }

    /// The value as it was written. The other accessors are built on it.
    pub fn value(&self, name: &str) -> Option<&'c Value> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.fields.get(name)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::String(text) if text.is_empty() => {
                self.wrong(name, "is empty; write a text, or leave it out")
            }
            Value::String(text) => Some(text.clone()),
            other => self.wrong(name, format!("expected a text, got {}", kind(other))),
        }
    }

    /// A text that must be there. `example` shows what to write.
    pub fn required_text(&self, name: &str, example: &str) -> Option<String> {
        self.required(name, example)?;
        self.text(name)
    }

    /// Notes that a field is missing, with an example of it.
    pub fn required(&self, name: &str, example: &str) -> Option<&'c Value> {
        let value = self.value(name);
        if value.is_none() {
            self.problem(name, format!("is missing; write for example {name} = {example}"));
        }
        value
    }

    /// A list of texts; empty if it is not there.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let Value::Array(items) = value else {
            return self
                .wrong(name, format!("expected a list of texts, got {}", kind(value)))
                .unwrap_or_default();
        };
        items.iter().enumerate().filter_map(|(index, item)| self.item(name, index, item)).collect()
    }

    fn item(&self, name: &str, index: usize, item: &Value) -> Option<String> {
        let name = format!("{name}[{index}]");
        match item {
            Value::String(text) if text.is_empty() => self.wrong(&name, "is empty"),
            Value::String(text) => Some(text.clone()),
            other => self.wrong(&name, format!("expected a text, got {}", kind(other))),
        }
    }

    /// A table of texts, such as labels; empty if it is not there.
    pub fn text_map(&self, name: &str) -> BTreeMap<String, String> {
        let Some(inner) = self.section(name) else { return BTreeMap::new() };
        inner.names().filter_map(|key| Some((key.to_owned(), inner.text(key)?))).collect()
    }

    /// `true` or `false`. Environment variables arrive as texts, so these are understood too.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) if text == "true" => Some(true),
            Value::String(text) if text == "false" => Some(false),
            other => self.wrong(name, format!("expected true or false, got {}", shown(other))),
        }
    }

    /// A whole number within a range.
    pub fn number<N>(&self, name: &str, range: RangeInclusive<N>) -> Option<N>
    where
        N: TryFrom<i64> + PartialOrd + Display,
    {
        let value = self.value(name)?;
        let number = match value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let fitting =
            number.and_then(|number| N::try_from(number).ok()).filter(|number| range.contains(number));
        fitting.or_else(|| {
            let (from, to) = (range.start(), range.end());
            self.wrong(name, format!("expected a whole number from {from} to {to}, got {}", shown(value)))
        })
    }

    /// A duration with its unit, such as `"500ms"`, `"30s"`, `"5m"`, `"720h"`, `"30d"`.
    pub fn duration(&self, name: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let value = self.value(name)?;
        let Some(duration) = value.as_str().and_then(parse_duration) else {
            let sentence =
                "expected a duration with its unit, such as \"500ms\", \"30s\", \"5m\" or \"720h\"";
            return self.wrong(name, format!("{sentence}, got {}", shown(value)));
        };
        match range.contains(&duration) {
            true => Some(duration),
            false => {
                let (from, to) = (spell_duration(*range.start()), spell_duration(*range.end()));
                self.wrong(name, format!("expected {from} to {to}, got {}", shown(value)))
            }
        }
    }

    /// One of several words.
    pub fn choice<T: Clone>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.value(name)?;
        let found = choices.iter().find(|(word, _)| value.as_str() == Some(*word));
        if let Some((_, choice)) = found {
            return Some(choice.clone());
        }
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.wrong(name, format!("expected {}, got {}", words.join(" or "), shown(value)))
    }

    /// A text with places to fill in from the event, as in `"shop.{topic}"`.
    pub fn template(&self, name: &str) -> Option<Template> {
        let text = self.text(name)?;
        Template::parse(&text).map_err(|sentence| self.problem(name, sentence)).ok()
    }

    /// A value that must not stand in the file: `{ env = "NAME" }` or `{ file = "path" }`.
    pub fn secret(&self, name: &str) -> Option<Secret> {
        match self.value(name)? {
            Value::Object(_) => self.section(name)?.elsewhere().map(Secret::new),
            _ => self.wrong(
                name,
                format!(
                    "secrets do not belong in the file; write {name} = {{ env = \"VARIABLE\" }} or {{ file = \"path\" }}"
                ),
            ),
        }
    }

    /// A text that may stand in the file or, because it may contain a password, elsewhere like a secret.
    pub fn text_or_secret(&self, name: &str) -> Option<Secret> {
        match self.value(name)? {
            Value::Object(_) => self.secret(name),
            _ => self.text(name).map(Secret::new),
        }
    }

    /// A list of values that must not stand in the file, each `{ env = "NAME" }` or `{ file = "path" }`, with the name
    /// of its place in the list, as in `secrets[0]`; empty if it is not there.
    #[cfg(feature = "webhook")]
    pub(crate) fn secrets(&self, name: &str) -> Vec<(String, Secret)> {
        let Some(value) = self.value(name) else { return Vec::new() };
        if !value.as_array().is_some_and(|places| places.iter().all(Value::is_object)) {
            let example = format!("{name} = [{{ env = \"VARIABLE\" }}]");
            let why = "expected a list of places, because secrets do not belong in the file";
            return self.wrong(name, format!("{why}: {example}")).unwrap_or_default();
        }
        let read = |(index, place): (usize, &Section<'_>)| {
            Some((format!("{name}[{index}]"), Secret::new(place.elsewhere()?)))
        };
        self.sections(name).iter().enumerate().filter_map(read).collect()
    }

    /// What stands in the place that this table names.
    fn elsewhere(&self) -> Option<String> {
        let (variable, file) = (self.text("env"), self.text("file"));
        self.finish();
        match (variable, file) {
            (Some(variable), None) => self.read_variable(&variable),
            (None, Some(file)) => self.read_file(&file),
            _ => self.wrong("", "write either { env = \"VARIABLE\" } or { file = \"path\" }"),
        }
    }

    fn read_variable(&self, variable: &str) -> Option<String> {
        match self.surroundings.variables.get(variable) {
            Some(value) if !value.is_empty() => Some(value.clone()),
            Some(_) => self.wrong("", format!("the environment variable {variable} is empty")),
            None => self.wrong("", format!("the environment variable {variable} is not set")),
        }
    }

    /// Files end with a line break that is not part of the secret.
    fn read_file(&self, file: &str) -> Option<String> {
        let path = self.surroundings.path(file);
        match std::fs::read_to_string(&path) {
            Ok(text) if text.trim_end().is_empty() => {
                self.wrong("", format!("the file {} is empty", path.display()))
            }
            Ok(text) => Some(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => self.wrong("", format!("cannot read the file {}: {error}", path.display())),
        }
    }

    /// A path of the configuration, relative to its file.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(|path| self.surroundings.path(&path))
    }

    /// A table inside this one.
    pub fn section(&self, name: &str) -> Option<Section<'c>> {
        match self.value(name)? {
            Value::Object(fields) => Some(self.inner(name, fields)),
            other => self.wrong(name, format!("expected a table, got {}", kind(other))),
        }
    }

    /// A list of tables inside this one; empty if it is not there.
    pub fn sections(&self, name: &str) -> Vec<Section<'c>> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let Value::Array(items) = value else {
            return self
                .wrong(name, format!("expected a list of tables, got {}", kind(value)))
                .unwrap_or_default();
        };
        let inner = |(index, item): (usize, &'c Value)| {
            let name = format!("{name}[{index}]");
            match item {
                Value::Object(fields) => Some(self.inner(&name, fields)),
                other => self.wrong(&name, format!("expected a table, got {}", kind(other))),
            }
        };
        items.iter().enumerate().filter_map(inner).collect()
    }

    fn inner(&self, name: &str, fields: &'c Map<String, Value>) -> Section<'c> {
        Section::new(self.path_of(name), fields, self.problems, self.surroundings)
    }

    /// The last call: whatever nobody asked for is a mistake, most likely of spelling.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for name in self.fields.keys().filter(|name| !asked.contains(*name)) {
            let known: Vec<&str> = asked.iter().map(String::as_str).collect();
            self.problem(name, unknown(name, &known));
        }
    }

    fn wrong<T>(&self, name: &str, sentence: impl Into<String>) -> Option<T> {
        self.problem(name, sentence);
        None
    }

    fn path_of(&self, name: &str) -> String {
        match (self.path.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (_, true) => self.path.clone(),
            _ => format!("{}.{name}", self.path),
        }
    }
}

/// The sentence about a word that nobody knows.
fn unknown(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(word) => format!("is not known here; did you mean `{word}`?"),
        None => format!("is not known here; there are {}", known.join(", ")),
    }
}

/// The known word that was most likely meant.
pub fn nearest<'w>(name: &str, known: &[&'w str]) -> Option<&'w str> {
    let near = known.iter().map(|word| (distance(name, word), *word)).min();
    near.filter(|(distance, word)| *distance <= 2 || word.starts_with(name)).map(|(_, word)| word)
}

/// How many letters have to change to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, r) in right.iter().enumerate() {
            let cheapest = (diagonal + usize::from(l != *r)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], cheapest);
        }
    }
    row[right.len()]
}

/// `"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"30d"`; `None` for anything else.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// The shortest way to write a duration.
pub fn spell_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let fitting = units.iter().find(|(size, _)| millis >= *size && millis.is_multiple_of(*size));
    fitting.map_or_else(|| format!("{millis}ms"), |(size, unit)| format!("{}{unit}", millis / size))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// A wrong value as it was written, if it is short; a table or list only by its kind.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) | Value::Null => kind(value).to_owned(),
        other => other.to_string().chars().take(80).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value, read: impl FnOnce(&Section<'_>)) -> Vec<String> {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.insert("TOKEN".into(), "t0ps3cret".into());
        let Value::Object(fields) = value else { panic!("a table") };
        let section = Section::new("sink", &fields, &problems, &surroundings);
        read(&section);
        section.finish();
        problems.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_reported_with_their_path() {
        let value = json!({ "brokers": ["a:1", 2], "batch": "many", "lease": "3 weeks", "tls": "perhaps", "tpoic": 1 });
        let problems = check(value, |section| {
            assert_eq!(section.texts("brokers"), ["a:1"]);
            assert_eq!(section.number::<u32>("batch", 1..=500), None);
            assert_eq!(section.duration("lease", Duration::ZERO..=Duration::from_secs(60)), None);
            assert_eq!(section.flag("tls"), None);
            assert_eq!(section.required_text("topic", "\"orders\""), None);
        });
        assert_eq!(
            problems,
            [
                "sink.brokers[1]: expected a text, got a number",
                "sink.batch: expected a whole number from 1 to 500, got \"many\"",
                "sink.lease: expected a duration with its unit, such as \"500ms\", \"30s\", \"5m\" or \"720h\", got \"3 weeks\"",
                "sink.tls: expected true or false, got \"perhaps\"",
                "sink.topic: is missing; write for example topic = \"orders\"",
                "sink.tpoic: is not known here; did you mean `topic`?",
            ]
        );
    }

    #[test]
    fn secrets_come_from_elsewhere_and_are_never_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "from file\n").expect("a file");
        let value = json!({ "a": { "env": "TOKEN" }, "b": { "file": file }, "c": "t0ps3cret", "d": { "env": "ABSENT" } });
        let problems = check(value, |section| {
            assert_eq!(section.secret("a"), Some(Secret::new("t0ps3cret")));
            assert_eq!(section.secret("b"), Some(Secret::new("from file")));
            assert_eq!((section.secret("c"), section.secret("d")), (None, None));
        });
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].contains("write c = { env = \"VARIABLE\" }") && !problems[0].contains("t0ps3cret")
        );
        assert!(problems[1].contains("ABSENT is not set"));
    }

    #[test]
    fn durations_have_units() {
        let spelled = |text| parse_duration(text).map(spell_duration);
        assert_eq!(spelled("90s").as_deref(), Some("90s"));
        assert_eq!(spelled("48h").as_deref(), Some("2d"));
        assert_eq!(spelled("500ms").as_deref(), Some("500ms"));
        for bad in ["", "5", "s", "-1s", "1.5s", "1 s", "99999999999999999999s", "1w"] {
            assert_eq!(spelled(bad), None, "{bad}");
        }
    }
}
