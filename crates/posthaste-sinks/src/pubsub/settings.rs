//! What is configured: the project, the topic, and as whom.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::section::Section;
use crate::template::Template;
use crate::tls::is_this_machine;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PubsubSettings {
    pub(super) project: String,
    pub(super) topic: Template,
    /// `None` means Google's own.
    pub(super) endpoint: Option<String>,
    pub(super) credentials: Credentials,
    pub(crate) timeout: Duration,
}

/// As whom to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    /// As nobody: emulators want no more, and unencrypted connections get no more.
    Anonymous,
    /// With a service account's key.
    File(PathBuf),
    /// As Google's tools find them: GOOGLE_APPLICATION_CREDENTIALS, gcloud, the machine's own.
    Default,
}

const EMULATOR: &str = "PUBSUB_EMULATOR_HOST";

impl PubsubSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let timeouts = Duration::from_millis(500)..=Duration::from_secs(300);
        let (project, topic) = (project(section), topic(section));
        let endpoint = endpoint(section);
        let file = credentials_file(section);
        let timeout = section.duration("timeout", timeouts).unwrap_or(Duration::from_secs(10));
        let endpoint = endpoint.ok()?;
        let unencrypted = endpoint.as_ref().filter(|endpoint| endpoint.starts_with("http://"));
        if let (Some(endpoint), Ok(Some(_))) = (unencrypted, &file) {
            let remedy = format!("would travel unencrypted to {endpoint}; leave it out, or write https://");
            section.problem("credentials_file", remedy);
            return None;
        }
        let credentials = match (file.ok()?, &endpoint) {
            (Some(file), _) => Credentials::File(file),
            (None, Some(endpoint)) if unencrypted.is_some() || is_this_machine(host(endpoint)) => {
                Credentials::Anonymous
            }
            (None, _) => Credentials::Default,
        };
        Some(Self { project: project?, topic: topic?, endpoint, credentials, timeout })
    }

    /// The resource name of a topic; the error is a sentence.
    pub(super) fn topic_name(&self, id: &str) -> Result<String, String> {
        check_id(id)?;
        Ok(format!("projects/{}/topics/{id}", self.project))
    }
}

fn project(section: &Section<'_>) -> Option<String> {
    let project = section.required_text("project", "\"my-project\"")?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-:.".contains(c);
    if project.chars().all(legal) {
        return Some(project);
    }
    section.problem(
        "project",
        format!("expected the id of a project, such as \"my-project\", got \"{project}\""),
    );
    None
}

fn topic(section: &Section<'_>) -> Option<Template> {
    section.required("topic", "\"orders\"")?;
    let topic = section.template("topic")?;
    match topic.as_literal().map(check_id) {
        Some(Err(sentence)) => {
            section.problem("topic", sentence);
            None
        }
        _ => Some(topic),
    }
}

/// Google's rules for the ids of topics.
fn check_id(id: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~+%".contains(c);
    let fits = (3..=255).contains(&id.len()) && id.starts_with(|c: char| c.is_ascii_alphabetic());
    match fits && id.chars().all(legal) && !id.starts_with("goog") {
        true => Ok(()),
        false => Err(format!(
            "`{id}` cannot be the id of a topic: 3 to 255 letters, digits and -._~+%, a letter first, not goog"
        )),
    }
}

/// `Err` if what was written is wrong.
fn endpoint(section: &Section<'_>) -> Result<Option<String>, ()> {
    let emulator = section.surroundings().variables.get(EMULATOR).filter(|host| !host.is_empty());
    let written = match section.value("endpoint") {
        Some(_) => Some(section.text("endpoint").ok_or(())?),
        None => emulator.map(|host| format!("http://{host}")),
    };
    let Some(endpoint) = written else { return Ok(None) };
    let endpoint = endpoint.trim_end_matches('/').to_owned();
    let schemes = ["http://", "https://"];
    let rest = schemes.iter().find_map(|scheme| endpoint.strip_prefix(scheme)).unwrap_or_default();
    if rest.is_empty() || rest.contains(['@', '/', '?', ' ']) || host(&endpoint).is_empty() {
        let from = if section.has("endpoint") { String::new() } else { format!(" (from {EMULATOR})") };
        let example =
            "expected such as \"http://127.0.0.1:8085\" or \"https://europe-west3-pubsub.googleapis.com\"";
        section.problem("endpoint", format!("{example}, got \"{endpoint}\"{from}"));
        return Err(());
    }
    Ok(Some(endpoint))
}

/// Without the scheme and the port.
fn host(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    match rest.find(']') {
        Some(end) => &rest[..=end],
        None => rest.split(':').next().unwrap_or_default(),
    }
}

/// `Err` if what was written is wrong.
fn credentials_file(section: &Section<'_>) -> Result<Option<PathBuf>, ()> {
    if section.value("credentials_file").is_none() {
        return Ok(None);
    }
    let path = section.file("credentials_file").ok_or(())?;
    service_account(&path).map_err(|sentence| section.problem("credentials_file", sentence))?;
    Ok(Some(path))
}

/// The key in a file. No sentence repeats what the file contains.
pub(super) fn service_account(path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let key: Value = serde_json::from_str(&text).map_err(|_| format!("{shown} is not JSON"))?;
    match key["type"].as_str() {
        Some("service_account") => Ok(key),
        _ => Err(format!("{shown} is not the key of a service account (\"type\": \"service_account\")")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    fn check(value: Value, emulator: Option<&str>) -> (Option<PubsubSettings>, Vec<String>) {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.extend(emulator.map(|host| (EMULATOR.to_owned(), host.to_owned())));
        let Value::Object(fields) = value else { panic!("a table") };
        let section = Section::new("sink", &fields, &problems, &surroundings);
        let settings = PubsubSettings::validate(&section);
        section.finish();
        (settings, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    fn good(value: Value, emulator: Option<&str>) -> PubsubSettings {
        let (settings, problems) = check(value, emulator);
        assert_eq!(problems, Vec::<String>::new());
        settings.expect("good")
    }

    #[test]
    fn a_good_table() {
        let plain = json!({ "project": "shop", "topic": "orders" });
        let settings = good(plain.clone(), None);
        assert_eq!((&settings.endpoint, &settings.credentials), (&None, &Credentials::Default));
        assert_eq!(settings.topic_name("orders").as_deref(), Ok("projects/shop/topics/orders"));
        assert!(settings.topic_name("no spaces").is_err());
        let emulated = good(plain, Some("emulator:8085"));
        assert_eq!(emulated.endpoint.as_deref(), Some("http://emulator:8085"));
        assert_eq!(emulated.credentials, Credentials::Anonymous);
        let everything = json!({ "project": "shop", "topic": "shop.{topic}", "endpoint": "https://localhost:1/", "timeout": "3s" });
        let settings = good(everything, Some("emulator:8085"));
        assert_eq!(settings.endpoint.as_deref(), Some("https://localhost:1"), "what is written wins");
        assert_eq!(
            (settings.credentials, settings.timeout),
            (Credentials::Anonymous, Duration::from_secs(3))
        );
        let regional = json!({ "project": "shop", "topic": "orders", "endpoint": "https://europe-west3-pubsub.googleapis.com" });
        assert_eq!(good(regional, None).credentials, Credentials::Default);
    }

    #[test]
    fn a_key_file_is_read_and_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key.json");
        let table = |endpoint: Option<&str>| {
            let mut table = json!({ "project": "shop", "topic": "orders", "credentials_file": path });
            table
                .as_object_mut()
                .expect("a table")
                .extend(endpoint.map(|e| ("endpoint".to_owned(), json!(e))));
            table
        };
        let problem = |endpoint| check(table(endpoint), None).1.concat();
        assert!(problem(None).contains("cannot read"), "{}", problem(None));
        std::fs::write(&path, "t0ps3cret").expect("a file");
        assert!(problem(None).ends_with("key.json is not JSON"), "{}", problem(None));
        std::fs::write(&path, "{\"type\":\"authorized_user\"}").expect("a file");
        assert!(problem(None).contains("is not the key of a service account"), "{}", problem(None));
        std::fs::write(&path, "{\"type\":\"service_account\",\"private_key\":\"t0ps3cret\"}")
            .expect("a file");
        let settings = good(table(None), None);
        assert_eq!(settings.credentials, Credentials::File(path.clone()));
        assert!(!format!("{settings:?}").contains("t0ps3cret"));
        let refused = problem(Some("http://emulator:8085"));
        assert_eq!(
            refused,
            "sink.credentials_file: would travel unencrypted to http://emulator:8085; leave it out, or write https://"
        );
    }

    #[test]
    fn every_mistake_with_its_sentence() {
        let (settings, problems) = check(json!({}), None);
        assert_eq!(settings, None);
        assert_eq!(
            problems,
            [
                "sink.project: is missing; write for example project = \"my-project\"",
                "sink.topic: is missing; write for example topic = \"orders\"",
            ]
        );
        let wrong = json!({ "project": "My Project", "topic": "a/b", "endpoint": "localhost:8085", "timeout": "1ms", "tpoic": 1 });
        let (_, problems) = check(wrong, None);
        assert_eq!(problems.len(), 5, "{problems:#?}");
        assert!(problems[0].starts_with("sink.project: expected the id of a project"));
        assert!(problems[1].starts_with("sink.topic: `a/b` cannot be the id of a topic: 3 to 255 letters"));
        assert!(problems[2].starts_with("sink.endpoint: expected such as \"http://127.0.0.1:8085\""));
        assert_eq!(problems[3], "sink.timeout: expected 500ms to 5m, got \"1ms\"");
        assert_eq!(problems[4], "sink.tpoic: is not known here; did you mean `topic`?");
        let (_, problems) = check(json!({ "project": "shop", "topic": "orders" }), Some("a b"));
        assert!(problems[0].ends_with("got \"http://a b\" (from PUBSUB_EMULATOR_HOST)"), "{problems:?}");
        for bad in ["http://", "http://user@host", "http://host/path", "ftp://host"] {
            let (_, problems) = check(json!({ "project": "shop", "topic": "orders", "endpoint": bad }), None);
            assert_eq!(problems.len(), 1, "{bad}");
        }
        for bad in ["ab", "google-topic", "1abc", "a{nowhere}"] {
            let (_, problems) = check(json!({ "project": "shop", "topic": bad }), None);
            assert_eq!(problems.len(), 1, "{bad}: {problems:?}");
        }
    }
}
