//! The registry of a relay: event types in the configuration, with a JSON Schema file each.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ReferencingError, Validator};
use posthaste::{Contract, Registry};
use posthaste_sinks::Section;
use serde_json::Value;

/// A payload that a JSON Schema accepts.
pub(crate) struct JsonSchema {
    validator: Validator,
}

/// How many things are named that do not fit: enough to act on, short enough for a reason.
const NAMED: usize = 3;

impl Contract for JsonSchema {
    fn check(&self, payload: &[u8]) -> Result<(), String> {
        let value: Value = serde_json::from_slice(payload).map_err(|error| format!("not JSON: {error}"))?;
        let misfits: Vec<String> =
            self.validator.iter_errors(&value).take(NAMED).map(|error| describe(&error)).collect();
        if misfits.is_empty() { Ok(()) } else { Err(misfits.join("; ")) }
    }
}

/// Where, and what. The value itself stays out: reasons are logged, payloads are not.
fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let sentence = error.masked().to_string();
    if path.is_empty() { sentence } else { format!("{path}: {sentence}") }
}

impl JsonSchema {
    /// Reads a schema file. References to other places are not followed: a schema stands on its own.
    fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let schema: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{} is not JSON: {error}", path.display()))?;
        let built = jsonschema::options().build(&schema);
        let validator = built.map_err(|error| format!("{} {}", path.display(), unusable(&error)))?;
        Ok(Self { validator })
    }
}

/// What a reference is resolved against in a schema that does not say where it lives.
const HERE: &str = "json-schema:///";

/// Why a schema cannot be used; the sentence goes on after the name of its file.
fn unusable(error: &jsonschema::ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => format!(
            "refers to {}; references outside of the file are not followed: put what is meant under $defs in the \
             same file, and refer to it as #/$defs/NAME",
            uri.strip_prefix(HERE).unwrap_or(uri)
        ),
        _ => format!("is not a JSON Schema: {error}"),
    }
}

/// The registry, and what it was made of: two are the same if they were made of the same.
#[derive(Debug, Clone)]
pub(crate) struct RegistryConfig {
    pub(crate) registry: Registry,
    made_of: String,
}

impl PartialEq for RegistryConfig {
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of
    }
}

/// Reads the table `registry`: one table per event type with `topic`, `aggregate_type`, `schema` and `samples`.
pub(crate) fn validate(section: &Section<'_>) -> RegistryConfig {
    let types: Vec<&str> = section.names().collect();
    if types.is_empty() {
        section.problem("", "has no event type; write for example [registry.order_created], or leave it out");
    }
    let mut read = RegistryConfig { registry: Registry::new(), made_of: String::new() };
    for name in types {
        if let Some(entry) = section.section(name) {
            read.registry = add(read.registry, name, &entry);
            read.made_of.push_str(&made_of(name, &entry));
        }
    }
    read
}

/// The table and its schema, so that a reload sees a changed file.
fn made_of(name: &str, entry: &Section<'_>) -> String {
    let schema = entry.file("schema").and_then(|path| fs::read_to_string(path).ok());
    format!("{name} {:?} {:?} {schema:?}\n", entry.text("topic"), entry.text("aggregate_type"))
}

fn add(registry: Registry, event_type: &str, entry: &Section<'_>) -> Registry {
    let topic = entry.required_text("topic", "\"orders\"");
    let aggregate_type = entry.required_text("aggregate_type", "\"order\"");
    entry.required("schema", "\"schemas/order_created.json\"");
    let schema = entry.file("schema").and_then(|path| read_schema(entry, &path));
    let samples: Vec<PathBuf> =
        entry.texts("samples").iter().map(|path| entry.surroundings().path(path)).collect();
    entry.finish();
    let (Some(topic), Some(aggregate_type), Some(schema)) = (topic, aggregate_type, schema) else {
        return registry;
    };
    check_samples(entry, &schema, &samples);
    registry.register_contract(event_type, topic, aggregate_type, schema)
}

fn read_schema(entry: &Section<'_>, path: &Path) -> Option<JsonSchema> {
    JsonSchema::read(path).map_err(|sentence| entry.problem("schema", sentence)).ok()
}

/// A sample is a payload that must fit: it shows a mistake in the schema before an event does.
fn check_samples(entry: &Section<'_>, schema: &JsonSchema, samples: &[PathBuf]) {
    for (index, path) in samples.iter().enumerate() {
        let checked =
            fs::read(path).map_err(|error| error.to_string()).and_then(|payload| schema.check(&payload));
        if let Err(sentence) = checked {
            entry.problem(&format!("samples[{index}]"), format!("{}: {sentence}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_sinks::{Problems, Surroundings};
    use serde_json::json;

    use super::*;

    fn problems(folder: &Path, table: &Value) -> (Registry, Vec<String>) {
        let surroundings = Surroundings { folder: folder.to_owned(), ..Surroundings::default() };
        let problems = Problems::default();
        let registry = validate(&Section::new(
            "registry",
            table.as_object().expect("a table"),
            &problems,
            &surroundings,
        ));
        (registry.registry, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = json!({
            "type": "object",
            "required": ["status"],
            "properties": { "status": { "enum": ["pending", "verified"] }, "count": { "type": "integer" } },
        });
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
        write("schema.json", &schema.to_string());
        write("good.json", r#"{"status":"pending"}"#);
        write("bad.json", r#"{"status":"lost","count":"geheim"}"#);
        write("broken.json", r#"{"type": 12}"#);
        write("http.json", r##"{"$ref":"http://example.com/order.json#/$defs/a"}"##);
        write("file.json", r#"{"properties":{"a":{"$ref":"file:///etc/order.json"}}}"#);
        write("beside.json", r##"{"$defs":{"a":{"$ref":"schema.json"}},"$ref":"#/$defs/a"}"##);
        write("inside.json", r##"{"$defs":{"a":{"type":"object"}},"$ref":"#/$defs/a"}"##);
        folder
    }

    #[test]
    fn a_payload_that_does_not_fit_is_told_by_its_fields_and_not_by_its_values() {
        let folder = folder();
        let schema = JsonSchema::read(&folder.path().join("schema.json")).expect("a schema");
        assert_eq!(schema.check(br#"{"status":"verified","count":2}"#), Ok(()));
        let misfit = schema.check(br#"{"status":"lost","count":"geheim"}"#).expect_err("two misfits");
        assert!(misfit.contains("/status: ") && misfit.contains("/count: "), "{misfit}");
        assert!(!misfit.contains("geheim") && !misfit.contains("lost"), "{misfit}");
        assert!(
            schema
                .check(b"{}")
                .expect_err("a field is missing")
                .contains("\"status\" is a required property")
        );
        assert!(schema.check(b"{").expect_err("no JSON").starts_with("not JSON"));
    }

    #[test]
    fn schemas_and_samples_are_checked_with_the_configuration() {
        let folder = folder();
        let entry = |schema: &str, samples: &[&str]| json!({ "a": { "topic": "t", "aggregate_type": "x", "schema": schema, "samples": samples } });
        let (registry, none) = problems(folder.path(), &entry("schema.json", &["good.json"]));
        assert_eq!(none, Vec::<String>::new());
        assert_eq!(registry.event_types().collect::<Vec<_>>(), ["a"]);
        let of = |table: &Value| problems(folder.path(), table).1.join("\n");
        assert!(of(&entry("schema.json", &["good.json", "bad.json"])).starts_with("registry.a.samples[1]: "));
        assert!(of(&entry("absent.json", &[])).starts_with("registry.a.schema: cannot read "));
        assert!(of(&entry("broken.json", &[])).contains("is not a JSON Schema"));
        for (name, reference) in [
            ("http.json", "http://example.com/order.json"),
            ("file.json", "file:///etc/order.json"),
            ("beside.json", "schema.json"),
        ] {
            let told =
                format!("{name} refers to {reference}; references outside of the file are not followed");
            assert!(of(&entry(name, &[])).contains(&told), "{told}: {}", of(&entry(name, &[])));
        }
        assert_eq!(of(&entry("inside.json", &["good.json"])), "", "references inside are");
        assert!(of(&json!({ "a": {} })).contains("registry.a.topic: is missing"));
        assert!(of(&json!({})).starts_with("registry: has no event type"));
        assert!(of(&json!({ "a": { "topics": "t" } })).contains("did you mean `topic`?"));
    }
}
