//! What may be configured.

use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri, SASLMechanism};

use crate::secret::Secret;
use crate::section::Section;
use crate::template::Template;
use crate::tls::{Tls, is_this_machine};

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RabbitmqSettings {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) vhost: String,
    pub(super) login: Login,
    pub(super) tls: Tls,
    pub(super) exchange: Template,
    pub(super) routing_key: Template,
    pub(crate) timeout: Duration,
    pub(super) heartbeat: Duration,
    pub(super) in_flight: usize,
    pub(super) max_message_size: usize,
}

/// Who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    Password {
        username: String,
        password: Secret,
    },
    /// The client certificate says it.
    Certificate,
}

/// What RabbitMQ 4 takes; older servers take 128 MiB.
const MAX_MESSAGE_SIZE: usize = 16 * 1024 * 1024;

impl RabbitmqSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let url = read_url(section);
        let (username, password, vhost) =
            (section.text("username"), section.secret("password"), section.text("vhost"));
        let mut tls = Tls::validate(section, url.as_ref().map(|url| url.authority.host.as_str()));
        let exchange = section.template("exchange").unwrap_or_else(|| Template::literal(""));
        let routing_key = section.template("routing_key").or_else(|| Template::parse("{topic}").ok());
        let seconds = |from, to| Duration::from_secs(from)..=Duration::from_secs(to);
        let timeout = section.duration("timeout", seconds(1, 300)).unwrap_or(Duration::from_secs(10));
        let heartbeat = section.duration("heartbeat", seconds(1, 600)).unwrap_or(Duration::from_secs(10));
        let in_flight = section.number("in_flight", 1..=2000).unwrap_or(128_usize);
        let max_message_size =
            section.number("max_message_size", 1024..=512 * 1024 * 1024).unwrap_or(MAX_MESSAGE_SIZE);

        let url = url?;
        // Whoever writes amqps means it, on this machine too: there may be a tunnel.
        tls.on |= url.scheme == AMQPScheme::AMQPS && !section.has("tls");
        check_encryption(section, &url, &tls);
        let login = login(section, &url, &tls, username, password);
        let scheme = if tls.on { AMQPScheme::AMQPS } else { AMQPScheme::AMQP };
        Some(Self {
            port: if url.authority.port == 0 { scheme.default_port() } else { url.authority.port },
            vhost: vhost.unwrap_or(url.vhost),
            host: url.authority.host,
            login,
            tls,
            exchange,
            routing_key: routing_key?,
            timeout,
            heartbeat,
            in_flight,
            max_message_size,
        })
    }

    /// For the client library. Encryption is ours (see `transport`), so the scheme is always the plain one.
    pub(super) fn uri(&self) -> AMQPUri {
        let mut uri = AMQPUri { vhost: self.vhost.clone(), ..AMQPUri::default() };
        uri.authority.host = self.host.clone();
        uri.authority.port = self.port;
        match &self.login {
            Login::Password { username, password } => {
                uri.authority.userinfo.username = username.clone();
                uri.authority.userinfo.password = password.expose().to_owned();
            }
            Login::Certificate => uri.query.auth_mechanism = Some(SASLMechanism::External),
        }
        uri.query.heartbeat = u16::try_from(self.heartbeat.as_secs()).ok();
        uri
    }
}

/// The address. A port that is not said is 0; a user that is not said is empty.
fn read_url(section: &Section<'_>) -> Option<AMQPUri> {
    let written = section.required("url", "\"amqps://rabbit.example.com\"")?;
    let text = section.text_or_secret("url")?;
    let text = text.expose();
    let wrong = |sentence: &str| {
        section.problem("url", sentence);
        None
    };
    // The sentence does not repeat the value, because it may contain a password.
    let Some((_, rest)) = text.split_once("://") else {
        return wrong("expected amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST");
    };
    if text.contains('?') {
        return wrong("takes no parameters; heartbeat, timeout and tls are settings of their own");
    }
    let authority = rest.split('/').next().unwrap_or("");
    let (user, place) =
        authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
    if written.is_string() && user.is_some_and(|user| user.contains(':')) {
        return wrong(
            "contains a password, which does not belong in the file; write url = { env = \"VARIABLE\" }, or username and password = { env = \"VARIABLE\" }",
        );
    }
    let Ok(mut uri) = text.parse::<AMQPUri>() else {
        return wrong("expected amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST");
    };
    let (host, port) = split_port(place);
    if host.is_empty() {
        return wrong("names no host; write for example amqps://rabbit.example.com");
    }
    uri.authority.host = host.trim_matches(['[', ']']).to_owned();
    if !port {
        uri.authority.port = 0;
    }
    if user.is_none() {
        uri.authority.userinfo.username.clear();
    }
    // A bare slash would mean the vhost without a name, which nobody has.
    if uri.vhost.is_empty() {
        uri.vhost = "/".to_owned();
    }
    Some(uri)
}

/// The host, and whether a port follows.
fn split_port(place: &str) -> (&str, bool) {
    match place.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, true)
        }
        _ => (place, false),
    }
}

fn check_encryption(section: &Section<'_>, url: &AMQPUri, tls: &Tls) {
    let elsewhere = !is_this_machine(&url.authority.host);
    match (&url.scheme, tls.on) {
        (AMQPScheme::AMQPS, false) if section.has("tls") => {
            section.problem("tls", "is off, but the url says amqps; write amqp:// or leave tls out");
        }
        (AMQPScheme::AMQP, true) if elsewhere && !section.has("tls") => section.problem(
            "url",
            "amqp:// is not encrypted; write amqps://, or tls = false if the way to the server is safe",
        ),
        _ => {}
    }
}

fn login(
    section: &Section<'_>,
    url: &AMQPUri,
    tls: &Tls,
    username: Option<String>,
    password: Option<Secret>,
) -> Login {
    let user = &url.authority.userinfo;
    let said = username.is_some() || !user.username.is_empty();
    if tls.identity.is_some() && !said {
        return Login::Certificate;
    }
    if username.is_some() && !section.has("password") {
        section.problem("password", "is missing; write password = { env = \"VARIABLE\" }");
    }
    let usual = |name: &str| if name.is_empty() { "guest".to_owned() } else { name.to_owned() };
    Login::Password {
        username: username.unwrap_or_else(|| usual(&user.username)),
        password: password.unwrap_or_else(|| Secret::new(user.password.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    fn check(value: Value) -> (Option<RabbitmqSettings>, Vec<String>) {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables.insert("PASSWORD".into(), "t0ps3cret".into());
        surroundings.variables.insert("URL".into(), "amqp://me:t0ps3cret@localhost:5673/sh%2Fop".into());
        let fields = value.as_object().expect("a table").clone();
        let section = Section::new("sink", &fields, &problems, &surroundings);
        let settings = RabbitmqSettings::validate(&section);
        section.finish();
        (settings, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_url_is_enough_and_secrets_are_not_shown() {
        let (settings, problems) = check(json!({ "url": "amqps://rabbit.example.com" }));
        assert_eq!(problems, [""; 0]);
        let settings = settings.expect("good");
        assert_eq!((settings.port, settings.vhost.as_str(), settings.tls.on), (5671, "/", true));
        assert_eq!((settings.exchange.as_literal(), settings.routing_key.as_literal()), (Some(""), None));
        let (settings, problems) =
            check(json!({ "url": { "env": "URL" }, "exchange": "shop", "routing_key": "all",
            "timeout": "5s", "heartbeat": "30s", "in_flight": 10, "max_message_size": 1_048_576 }));
        assert_eq!(problems, [""; 0]);
        let settings = settings.expect("good");
        assert_eq!((settings.port, settings.vhost.as_str(), settings.tls.on), (5673, "sh/op", false));
        assert!(!format!("{settings:?}").contains("t0ps3cret"));
        assert_eq!(settings.uri().authority.userinfo.password, "t0ps3cret");
        assert_eq!(settings.uri().query.heartbeat, Some(30));
    }

    #[test]
    fn fields_of_their_own_win_over_the_url() {
        let (settings, problems) = check(json!({ "url": "amqp://[::1]/a", "vhost": "b", "username": "me",
            "password": { "env": "PASSWORD" } }));
        assert_eq!(problems, [""; 0]);
        let uri = settings.expect("good").uri();
        assert_eq!((uri.vhost.as_str(), uri.authority.host.as_str(), uri.authority.port), ("b", "::1", 5672));
        assert_eq!(uri.authority.userinfo.username, "me");
    }

    #[test]
    fn every_mistake_has_its_sentence() {
        let table = [
            (json!({}), "sink.url: is missing; write for example url = \"amqps://rabbit.example.com\""),
            (json!({ "url": "rabbit:5672" }), "sink.url: expected amqp://HOST:PORT/VHOST"),
            (json!({ "url": "http://rabbit" }), "sink.url: expected amqp://HOST:PORT/VHOST"),
            (json!({ "url": "amqp:///shop" }), "sink.url: names no host"),
            (json!({ "url": "amqps://rabbit?heartbeat=3" }), "sink.url: takes no parameters"),
            (json!({ "url": "amqps://me:t0ps3cret@rabbit" }), "sink.url: contains a password"),
            (json!({ "url": "amqp://rabbit.example.com" }), "sink.url: amqp:// is not encrypted"),
            (json!({ "url": "amqps://localhost", "tls": false }), "sink.tls: is off, but the url says amqps"),
            (json!({ "url": "amqps://rabbit", "username": "me" }), "sink.password: is missing"),
            (
                json!({ "url": "amqps://rabbit", "password": "t0ps3cret" }),
                "sink.password: secrets do not belong",
            ),
            (
                json!({ "url": "amqps://rabbit", "routing_key": "{color}" }),
                "sink.routing_key: there is no place",
            ),
            (json!({ "url": "amqps://rabbit", "in_flight": 0 }), "sink.in_flight: expected a whole number"),
            (json!({ "url": "amqps://rabbit", "queue": "q" }), "sink.queue: is not known here"),
        ];
        for (value, sentence) in table {
            let (_, problems) = check(value.clone());
            assert!(problems.iter().any(|problem| problem.starts_with(sentence)), "{value}: {problems:?}");
            assert!(!problems.iter().any(|problem| problem.contains("t0ps3cret")), "{problems:?}");
        }
    }
}
