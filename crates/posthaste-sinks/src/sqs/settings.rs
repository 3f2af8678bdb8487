//! What may be configured.

use std::time::Duration;

use crate::secret::Secret;
use crate::section::Section;
use crate::template::Template;
use crate::tls::is_this_machine;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqsSettings {
    pub(super) queue_url: Template,
    pub(super) region: String,
    pub(super) endpoint_url: Option<String>,
    /// Unsaid, the usual places of AWS are asked.
    pub(super) keys: Option<Keys>,
    pub(super) encoding: Encoding,
    pub(crate) timeout: Duration,
    pub(super) in_flight: usize,
    pub(super) max_batch_bytes: usize,
}

/// Who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) id: Secret,
    pub(super) secret: Secret,
    pub(super) session: Option<Secret>,
}

/// How a payload becomes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// It must be text.
    Text,
    /// Base64, every payload.
    Base64,
}

/// What SQS takes per message and per call. Queues can be set to less.
pub(super) const MAX_BATCH_BYTES: usize = 1024 * 1024;

impl SqsSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let queue_url = queue_url(section);
        let region = region(section, queue_url.as_ref());
        let endpoint_url = endpoint_url(section);
        let keys = keys(section);
        let encodings = [("text", Encoding::Text), ("base64", Encoding::Base64)];
        let encoding = section.choice("encoding", &encodings).unwrap_or(Encoding::Text);
        let seconds = Duration::from_secs(1)..=Duration::from_secs(300);
        let timeout = section.duration("timeout", seconds).unwrap_or(Duration::from_secs(15));
        let in_flight = section.number("in_flight", 1..=100).unwrap_or(8_usize);
        let max_batch_bytes =
            section.number("max_batch_bytes", 1024..=MAX_BATCH_BYTES).unwrap_or(MAX_BATCH_BYTES);
        Some(Self {
            queue_url: queue_url?,
            region: region?,
            endpoint_url,
            keys,
            encoding,
            timeout,
            in_flight,
            max_batch_bytes,
        })
    }
}

fn queue_url(section: &Section<'_>) -> Option<Template> {
    let example = "\"https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo\"";
    let text = section.required_text("queue_url", example)?;
    let template = section.template("queue_url")?;
    let path = text.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    match (text.starts_with("https://") || text.starts_with("http://"), path) {
        (true, Some((_, path))) if !path.is_empty() => Some(template),
        _ => {
            section
                .problem("queue_url", format!("expected the queue's URL, such as {example}, got `{text}`"));
            None
        }
    }
}

/// Said, or told by the queue's URL, or by the environment as AWS's own tools read it.
fn region(section: &Section<'_>, queue_url: Option<&Template>) -> Option<String> {
    if section.has("region") {
        return section.text("region");
    }
    let variables = &section.surroundings().variables;
    let of_url = queue_url.and_then(Template::as_literal).and_then(region_of);
    let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| variables.get(*name).cloned());
    let region = of_url.or(named);
    if region.is_none() && queue_url.is_some() {
        let sentence = "is missing, and neither queue_url nor AWS_REGION tells it; write for example region = \"eu-west-1\"";
        section.problem("region", sentence);
    }
    // Asked for only now, so that a misspelled field still finds its neighbour.
    section.value("region");
    region
}

fn region_of(url: &str) -> Option<String> {
    let host = url.split_once("://")?.1.split('/').next()?;
    host.strip_prefix("sqs.")?.split_once(".amazonaws.com").map(|(region, _)| region.to_owned())
}

/// For servers that are not Amazon's.
fn endpoint_url(section: &Section<'_>) -> Option<String> {
    let (url, tls) = (section.text("endpoint_url"), section.flag("tls"));
    let url = url?;
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))
    else {
        section
            .problem("endpoint_url", format!("expected http://HOST:PORT or https://HOST:PORT, got `{url}`"));
        return None;
    };
    let authority = rest.split('/').next().unwrap_or("");
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    if scheme == "http" && tls != Some(false) && !is_this_machine(host) {
        section.problem(
            "endpoint_url",
            "http:// is not encrypted; write https://, or tls = false if the way to the server is safe",
        );
    }
    Some(url)
}

fn keys(section: &Section<'_>) -> Option<Keys> {
    let (id, secret) = (section.text_or_secret("access_key_id"), section.secret("secret_access_key"));
    let session = section.secret("session_token");
    if section.has("access_key_id") != section.has("secret_access_key") {
        section.problem("", "access_key_id and secret_access_key belong together; give both or neither");
    }
    Some(Keys { id: id?, secret: secret?, session })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    fn check(value: &Value, region: Option<&str>) -> (Option<SqsSettings>, Vec<String>) {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.insert("KEY".into(), "t0ps3cret".into());
        surroundings.variables.extend(region.map(|region| ("AWS_REGION".into(), region.into())));
        let section = Section::new("sink", value.as_object().expect("a table"), &problems, &surroundings);
        let settings = SqsSettings::validate(&section);
        section.finish();
        (settings, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    pub(in crate::sqs) fn settings(value: Value) -> SqsSettings {
        let (settings, problems) = check(&value, None);
        assert_eq!(problems, [""; 0]);
        settings.expect("good settings")
    }

    const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/1/q";

    #[test]
    fn a_queue_is_enough_and_secrets_are_not_shown() {
        let least = settings(json!({ "queue_url": QUEUE }));
        assert_eq!((least.region.as_str(), least.keys, least.encoding), ("eu-west-1", None, Encoding::Text));
        let full = settings(
            json!({ "queue_url": "http://localhost:5000/1/{topic}.fifo", "region": "us-east-1",
            "endpoint_url": "http://localhost:5000", "access_key_id": "AKIA1", "secret_access_key": { "env": "KEY" },
            "session_token": { "env": "KEY" }, "encoding": "base64", "timeout": "5s", "in_flight": 2,
            "max_batch_bytes": 262_144 }),
        );
        assert!(full.keys.is_some() && !format!("{full:?}").contains("t0ps3cret"));
        let (named, problems) =
            check(&json!({ "queue_url": "https://q.example.com/1/q" }), Some("us-west-2"));
        assert_eq!((named.expect("good").region.as_str(), problems.len()), ("us-west-2", 0));
    }

    #[test]
    fn every_mistake_has_its_sentence() {
        let with = |field: &str, value: Value| {
            let mut table = json!({ "queue_url": QUEUE });
            table[field] = value;
            table
        };
        let table = [
            (json!({}), "sink.queue_url: is missing; write for example queue_url = \"https://sqs."),
            (
                with("queue_url", json!("arn:aws:sqs:eu-west-1:1:q")),
                "sink.queue_url: expected the queue's URL",
            ),
            (with("queue_url", json!("https://x/{color}")), "sink.queue_url: there is no place `{color}`"),
            (with("queue_url", json!("https://x.example.com/1/q")), "sink.region: is missing, and neither"),
            (with("endpoint_url", json!("localhost:5000")), "sink.endpoint_url: expected http://HOST:PORT"),
            (with("endpoint_url", json!("http://moto:5000")), "sink.endpoint_url: http:// is not encrypted"),
            (with("access_key_id", json!("A")), "sink: access_key_id and secret_access_key belong together"),
            (with("secret_access_key", json!("t0ps3cret")), "sink.secret_access_key: secrets do not belong"),
            (with("encoding", json!("hex")), "sink.encoding: expected \"text\" or \"base64\""),
            (with("max_batch_bytes", json!(2_000_000)), "sink.max_batch_bytes: expected a whole number"),
            (with("in_flight", json!(0)), "sink.in_flight: expected a whole number"),
            (with("timeout", json!("1h")), "sink.timeout: expected 1s to 5m"),
            (with("regoin", json!("x")), "sink.regoin: is not known here; did you mean `region`?"),
        ];
        for (value, sentence) in table {
            let (_, problems) = check(&value, None);
            assert!(problems.iter().any(|problem| problem.starts_with(sentence)), "{value}: {problems:?}");
            assert!(!problems.iter().any(|problem| problem.contains("t0ps3cret")), "{problems:?}");
        }
    }
}
