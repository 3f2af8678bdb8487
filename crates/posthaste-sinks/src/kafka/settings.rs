//! What is configured, checked without any I/O but looking at files.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use serde_json::Value;

use crate::secret::Secret;
use crate::section::Section;
use crate::template::Template;
use crate::tls::{Tls, is_this_machine};

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaSettings {
    /// Where to learn of the cluster, as `host:port`.
    pub brokers: Vec<String>,
    /// The topic of an event.
    pub topic: Template,
    /// Who we are, if the cluster asks.
    pub login: Option<Login>,
    /// How to encrypt.
    pub tls: Tls,
    /// How long one record may take.
    pub timeout: Duration,
    /// The largest record, as the topic has it.
    pub max_message_bytes: usize,
    /// Further settings of librdkafka.
    pub extra: BTreeMap<String, String>,
}

/// A name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password.
    pub password: Secret,
    /// How to prove it.
    pub mechanism: Mechanism,
}

/// SASL mechanisms with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The password itself.
    Plain,
    /// A challenge, with SHA-256.
    ScramSha256,
    /// A challenge, with SHA-512.
    ScramSha512,
}

impl Mechanism {
    const WORDS: [(&'static str, Self); 3] =
        [("PLAIN", Self::Plain), ("SCRAM-SHA-256", Self::ScramSha256), ("SCRAM-SHA-512", Self::ScramSha512)];

    /// The word that Kafka uses.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, mechanism)| *mechanism == self).map_or("PLAIN", |(word, _)| word)
    }
}

/// What decides about delivery guarantees, addresses, secrets and deadlines is set by the sink and by nobody else.
const OURS: [&str; 26] = [
    "acks",
    "bootstrap.servers",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.ssl.certificate.verification",
    "log.queue",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.max.bytes",
    "message.send.max.retries",
    "message.timeout.ms",
    "metadata.broker.list",
    "opaque",
    "plugin.library.paths",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "security.protocol",
    "socket.timeout.ms",
    "topic.metadata.propagation.max.ms",
    "transactional.id",
    "transaction.timeout.ms",
];
const OUR_FAMILIES: [&str; 4] = ["sasl.", "ssl.", "test.mock.", "enable.sasl."];

const TIMEOUT: Duration = Duration::from_secs(8);
const MAX_MESSAGE_BYTES: usize = 1_000_000;

impl KafkaSettings {
    /// The usual settings for these brokers.
    pub fn new(brokers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let brokers: Vec<String> = brokers.into_iter().map(Into::into).collect();
        let on = brokers.iter().any(|broker| !is_this_machine(host(broker)));
        Self {
            brokers,
            topic: Template::parse("{topic}").unwrap_or_else(|_| unreachable!()),
            login: None,
            tls: Tls { on, ..Tls::default() },
            timeout: TIMEOUT,
            max_message_bytes: MAX_MESSAGE_BYTES,
            extra: BTreeMap::new(),
        }
    }

    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let brokers = brokers(section);
        let usual = Self::new(brokers.iter().flatten().cloned());
        let topic = topic(section).unwrap_or(usual.topic);
        let tls = Tls::validate(section, usual.brokers.iter().map(|broker| host(broker)));
        let login = login(section);
        let timeout = section.duration("timeout", Duration::from_secs(1)..=Duration::from_secs(50));
        let max_message_bytes = section.number("max_message_bytes", 1_000..=1_000_000_000);
        let extra = extra(section);
        brokers.map(|brokers| Self {
            brokers,
            topic,
            login,
            tls,
            timeout: timeout.unwrap_or(TIMEOUT),
            max_message_bytes: max_message_bytes.unwrap_or(MAX_MESSAGE_BYTES),
            extra,
        })
    }
}

/// A list, or (from an environment variable) a text with commas.
fn brokers(section: &Section<'_>) -> Option<Vec<String>> {
    let brokers = match section.required("brokers", "[\"localhost:9092\"]")? {
        Value::String(text) => text.split(',').map(|broker| broker.trim().to_owned()).collect(),
        _ => section.texts("brokers"),
    };
    if brokers.is_empty() {
        section.problem("brokers", "is empty; write for example brokers = [\"localhost:9092\"]");
    }
    let mut good = !brokers.is_empty();
    for (index, broker) in brokers.iter().enumerate().filter(|(_, broker)| !is_address(broker)) {
        let name = format!("brokers[{index}]");
        match broker.contains('@') {
            // It might be a password.
            true => {
                section.problem(&name, "expected host:port; name and password are `username` and `password`")
            }
            false => section.problem(&name, format!("expected host:port, got `{broker}`")),
        }
        good = false;
    }
    good.then_some(brokers)
}

fn is_address(broker: &str) -> bool {
    let Some((host, port)) = broker.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let host_is_good = !host.is_empty() && (bracketed || host.chars().all(plain));
    host_is_good && port.parse::<u16>().is_ok_and(|port| port > 0)
}

pub(super) fn host(broker: &str) -> &str {
    broker.rsplit_once(':').map_or(broker, |(host, _)| host)
}

fn topic(section: &Section<'_>) -> Option<Template> {
    let topic = section.template("topic")?;
    if let Some(mistake) = topic.as_literal().and_then(topic_mistake) {
        section.problem("topic", mistake);
    }
    Some(topic)
}

/// Why a text is no name of a topic.
pub(super) fn topic_mistake(topic: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let good = (1..=249).contains(&topic.len()) && topic.bytes().all(plain) && topic != "." && topic != "..";
    (!good).then(|| {
        let shown: String = topic.chars().take(80).collect();
        format!("`{shown}` is no name of a topic; letters, digits, `.`, `_` and `-` are, up to 249 of them")
    })
}

fn login(section: &Section<'_>) -> Option<Login> {
    let (username, password) = (section.text("username"), section.secret("password"));
    let mechanism = section.choice("mechanism", &Mechanism::WORDS);
    let said = |name: &str| section.has(name);
    if said("username") != said("password") {
        section.problem("", "username and password belong together; give both or neither");
    } else if said("mechanism") && !said("username") {
        section.problem("mechanism", "is of no use without username and password");
    }
    let mechanism = mechanism.unwrap_or(Mechanism::Plain);
    username.zip(password).map(|(username, password)| Login { username, password, mechanism })
}

/// Asks librdkafka itself about names and values; that needs no connection.
fn extra(section: &Section<'_>) -> BTreeMap<String, String> {
    let Some(table) = section.section("extra") else { return BTreeMap::new() };
    let mut extra = BTreeMap::new();
    for name in table.names() {
        let value = match table.value(name) {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::Bool(flag)) => Some(flag.to_string()),
            _ => table.text(name),
        };
        let Some(value) = value else { continue };
        match mistake(name, &value) {
            Some(mistake) => table.problem(name, mistake),
            None => drop(extra.insert(name.to_owned(), value)),
        }
    }
    extra
}

fn mistake(name: &str, value: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) || OUR_FAMILIES.iter().any(|family| lower.starts_with(family)) {
        return Some("is set by the sink itself; use its own settings, or leave it out".to_owned());
    }
    if lower.ends_with("_cb") {
        return Some("is a function, not a setting; leave it out".to_owned());
    }
    let mut config = ClientConfig::new();
    match config.set(name, value).create_native_config() {
        Ok(_) => None,
        Err(KafkaError::ClientConfig(_, sentence, ..)) => Some(format!("librdkafka says: {sentence}")),
        Err(error) => Some(format!("librdkafka says: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    fn check(value: Value) -> (Option<KafkaSettings>, Vec<String>) {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.insert("KAFKA_PASSWORD".into(), "t0ps3cret".into());
        let Value::Object(fields) = value else { panic!("a table") };
        let section = Section::new("sink", &fields, &problems, &surroundings);
        let settings = KafkaSettings::validate(&section);
        section.finish();
        (settings, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_good_table_is_read_and_shows_no_secret() {
        let (settings, problems) = check(json!({
            "brokers": ["k1.example:9092", "[::1]:9093"], "topic": "shop.{topic}", "username": "relay",
            "password": { "env": "KAFKA_PASSWORD" }, "mechanism": "SCRAM-SHA-512", "timeout": "5s",
            "max_message_bytes": 2_000_000, "extra": { "linger.ms": 5, "compression.type": "lz4" }
        }));
        let settings = settings.expect("settings");
        assert_eq!(problems, [""; 0]);
        assert!(settings.tls.on, "another machine");
        let login = settings.login.as_ref().expect("a login");
        assert_eq!((login.mechanism.as_str(), login.password.expose()), ("SCRAM-SHA-512", "t0ps3cret"));
        assert_eq!(settings.extra.get("linger.ms").map(String::as_str), Some("5"));
        assert_eq!((settings.timeout, settings.max_message_bytes), (Duration::from_secs(5), 2_000_000));
        assert!(!format!("{settings:?}").contains("t0ps3cret"));
    }

    #[test]
    fn little_has_to_be_said() {
        let (settings, problems) = check(json!({ "brokers": "localhost:9092, 127.0.0.1:9093" }));
        assert_eq!(problems, [""; 0]);
        assert_eq!(settings, Some(KafkaSettings::new(["localhost:9092", "127.0.0.1:9093"])));
        assert!(!settings.expect("settings").tls.on, "this machine");
    }

    #[test]
    fn every_mistake_has_its_sentence() {
        let (settings, problems) = check(json!({
            "brokers": ["kafka", "me:pw@kafka:9092", "kafka:0"], "topic": "no blanks", "username": "relay",
            "mechanism": "KERBEROS", "timeout": "1h", "max_message_bytes": 1, "topci": "x",
            "extra": { "acks": "1", "ssl.key.password": "x", "linger.mss": "5", "linger.ms": "soon", "dr_cb": "x" }
        }));
        assert_eq!(settings, None);
        assert_eq!(
            problems,
            [
                "sink.brokers[0]: expected host:port, got `kafka`",
                "sink.brokers[1]: expected host:port; name and password are `username` and `password`",
                "sink.brokers[2]: expected host:port, got `kafka:0`",
                "sink.topic: `no blanks` is no name of a topic; letters, digits, `.`, `_` and `-` are, up to 249 of them",
                "sink.mechanism: expected \"PLAIN\" or \"SCRAM-SHA-256\" or \"SCRAM-SHA-512\", got \"KERBEROS\"",
                "sink: username and password belong together; give both or neither",
                "sink.timeout: expected 1s to 50s, got \"1h\"",
                "sink.max_message_bytes: expected a whole number from 1000 to 1000000000, got 1",
                "sink.extra.acks: is set by the sink itself; use its own settings, or leave it out",
                "sink.extra.dr_cb: is a function, not a setting; leave it out",
                "sink.extra.linger.ms: librdkafka says: Invalid value for configuration property \"queue.buffering.max.ms\"",
                "sink.extra.linger.mss: librdkafka says: No such configuration property: \"linger.mss\"",
                "sink.extra.ssl.key.password: is set by the sink itself; use its own settings, or leave it out",
                "sink.topci: is not known here; did you mean `topic`?",
            ]
        );
    }

    #[test]
    fn a_password_in_the_file_or_alone_is_refused() {
        let table = json!({ "brokers": ["localhost:9092"], "password": "t0ps3cret", "mechanism": "PLAIN" });
        let (_, problems) = check(table);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("write password = { env = \"VARIABLE\" }"), "{problems:?}");
        assert!(!problems.concat().contains("t0ps3cret"));
        let (_, problems) = check(json!({ "brokers": [], "mechanism": "PLAIN" }));
        assert_eq!(
            problems,
            [
                "sink.brokers: is empty; write for example brokers = [\"localhost:9092\"]",
                "sink.mechanism: is of no use without username and password",
            ]
        );
        assert_eq!(
            check(json!({})).1,
            ["sink.brokers: is missing; write for example brokers = [\"localhost:9092\"]"]
        );
    }
}
