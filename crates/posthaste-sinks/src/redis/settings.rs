//! What can be configured.

use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};
use serde_json::Value;

use crate::secret::Secret;
use crate::section::Section;
use crate::template::Template;
use crate::tls::Tls;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisSettings {
    /// The server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database.
    pub database: i64,
    /// Who we are; nobody means the default user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// How to encrypt.
    pub tls: Tls,
    /// The stream of an event.
    pub stream: Template,
    /// How long a stream may become.
    pub max_length: Option<RedisMaxLength>,
    /// How long to wait for a connection or an answer.
    pub timeout: Duration,
}

/// How many entries a stream keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedisMaxLength {
    /// So many.
    pub entries: u64,
    /// Not a few more, at some cost for the server.
    pub exact: bool,
}

impl RedisSettings {
    /// Settings for a server, without a login and without TLS.
    pub fn new(host: impl Into<String>, port: u16, stream: Template) -> Self {
        Self {
            host: host.into(),
            port,
            database: 0,
            username: None,
            password: None,
            tls: Tls::default(),
            stream,
            max_length: None,
            timeout: Duration::from_secs(5),
        }
    }

    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let address = address(section);
        let host = address.as_ref().map_or("localhost", |address| address.host.as_str());
        let tls = Tls::validate(section, [host]);
        let (username, password) = (section.text("username"), section.secret("password"));
        if section.has("username") && !section.has("password") {
            section.problem("password", "is missing; write password = { env = \"VARIABLE\" }");
        }
        let stream = stream(section);
        let max_length = max_length(section);
        let timeout = section.duration("timeout", Duration::from_millis(100)..=Duration::from_secs(60));
        let address = address?;
        if address.encrypted && section.has("tls") && !tls.on {
            section.problem("url", "rediss:// and tls = false contradict each other; leave one of them out");
        }
        let usual = Self::new(address.host, address.port, stream?);
        Some(Self {
            database: address.database,
            username: username.or(address.username),
            password: password.or(address.password),
            tls: Tls { on: tls.on || address.encrypted, ..tls },
            max_length,
            timeout: timeout.unwrap_or(usual.timeout),
            ..usual
        })
    }
}

/// What a URL says.
struct Address {
    host: String,
    port: u16,
    database: i64,
    encrypted: bool,
    username: Option<String>,
    password: Option<Secret>,
}

fn address(section: &Section<'_>) -> Option<Address> {
    section.required("url", "\"redis://localhost:6379\"")?;
    let written = section.value("url").is_some_and(Value::is_string);
    let url = section.text_or_secret("url")?;
    let example = "write for example \"redis://10.0.0.1:6379/0\" or \"rediss://...\" for TLS";
    let Some(address) = read(url.expose()) else {
        section.problem("url", format!("is not the address of a Redis server; {example}"));
        return None;
    };
    if written && address.password.is_some() {
        let remedy = "write url = { env = \"VARIABLE\" }, or username and password = { env = \"VARIABLE\" }";
        section.problem("url", format!("a password does not belong in the file; {remedy}"));
        return None;
    }
    Some(address)
}

fn read(url: &str) -> Option<Address> {
    let known = ["redis://", "rediss://", "valkey://", "valkeys://"];
    let info =
        known.iter().any(|scheme| url.starts_with(scheme)).then(|| url.into_connection_info().ok())??;
    let login = info.redis_settings();
    let (host, port, encrypted) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host.clone(), *port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port, true),
        _ => return None,
    };
    Some(Address {
        host,
        port,
        encrypted,
        database: login.db(),
        username: login.username().map(str::to_owned),
        password: login.password().map(Secret::new),
    })
}

fn stream(section: &Section<'_>) -> Option<Template> {
    match section.has("stream") {
        true => section.template("stream"),
        false => {
            section.value("stream");
            Template::parse("{topic}").ok()
        }
    }
}

fn max_length(section: &Section<'_>) -> Option<RedisMaxLength> {
    let entries = section.number("max_length", 1..=i64::MAX);
    let exact = section.flag("exact_length");
    if section.has("exact_length") && !section.has("max_length") {
        section.problem("exact_length", "needs max_length");
    }
    Some(RedisMaxLength { entries: entries?.unsigned_abs(), exact: exact.unwrap_or(false) })
}
