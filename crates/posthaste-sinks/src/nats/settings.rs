//! What can be configured.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;
use serde_json::Value;

use super::message::check_subject;
use crate::secret::Secret;
use crate::section::Section;
use crate::template::Template;
use crate::tls::Tls;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsSettings {
    /// Addresses without credentials, as in `nats://10.0.0.1:4222`.
    pub urls: Vec<String>,
    /// The subject of an event.
    pub subject: Template,
    /// The stream that has to take the messages, if somebody wants to be sure.
    pub stream: Option<String>,
    /// Who we are.
    pub login: NatsLogin,
    /// How to encrypt.
    pub tls: Tls,
    /// How long to wait for a connection, an acknowledgement or an answer.
    pub timeout: Duration,
    /// How many messages may be unacknowledged at a time.
    pub in_flight: usize,
}

/// How we prove who we are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NatsLogin {
    /// Not at all.
    #[default]
    None,
    /// A file with a JWT and a seed, read anew for every connection.
    CredentialsFile(PathBuf),
    /// A token.
    Token(Secret),
    /// A user with a password.
    Password {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// The seed of a user's NKey.
    Nkey(Secret),
}

impl NatsSettings {
    /// Settings for servers at these addresses, without a login and without TLS.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>, subject: Template) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            subject,
            stream: None,
            login: NatsLogin::None,
            tls: Tls::default(),
            timeout: Duration::from_secs(5),
            in_flight: 1024,
        }
    }

    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let addresses = addresses(section);
        let hosts: Vec<&str> = addresses.iter().map(|(_, address)| address.host()).collect();
        let tls = Tls::validate(section, hosts);
        let login = login(section, &addresses);
        let subject = subject(section);
        let stream = section.text("stream").filter(|name| stream_name(section, name));
        let timeout = section.duration("timeout", Duration::from_millis(100)..=Duration::from_secs(60));
        let in_flight = section.number("in_flight", 1..=4096_u32);
        for (name, address) in &addresses {
            if address.tls_required() && !tls.on {
                section.problem(name, "tls:// and tls = false contradict each other; leave one of them out");
            }
        }
        let urls: Vec<String> = addresses.iter().map(|(_, address)| bare(address)).collect();
        let usual = Self::new(urls, subject?);
        Some(Self {
            stream,
            login: login?,
            tls,
            timeout: timeout.unwrap_or(usual.timeout),
            in_flight: in_flight.map_or(usual.in_flight, |many| many as usize),
            ..usual
        })
        .filter(|settings| !settings.urls.is_empty())
    }
}

/// The addresses that could be read, each with the name of its field.
fn addresses(section: &Section<'_>) -> Vec<(String, ServerAddr)> {
    let several = section.texts("urls");
    match (section.has("url"), section.has("urls")) {
        (true, true) => {
            section.problem("urls", "write either url or urls, not both");
            section.value("url");
            Vec::new()
        }
        (true, false) => {
            let written = section.value("url").is_some_and(Value::is_string);
            let url = section.text_or_secret("url");
            let read = url.and_then(|url| address(section, "url", url.expose(), written));
            read.map(|address| ("url".to_owned(), address)).into_iter().collect()
        }
        (false, true) if several.is_empty() => {
            section.problem("urls", "names no server; write for example urls = [\"nats://10.0.0.1:4222\"]");
            Vec::new()
        }
        (false, true) => {
            let read = |(index, url): (usize, &String)| {
                let name = format!("urls[{index}]");
                address(section, &name, url, true).map(|address| (name, address))
            };
            several.iter().enumerate().filter_map(read).collect()
        }
        (false, false) => {
            section.required("url", "\"nats://localhost:4222\"");
            Vec::new()
        }
    }
}

/// `written`: it stands in the file itself, where a password must not be.
fn address(section: &Section<'_>, name: &str, url: &str, written: bool) -> Option<ServerAddr> {
    let example = "write for example \"nats://10.0.0.1:4222\"";
    let Ok(address) = url.parse::<ServerAddr>() else {
        section.problem(name, format!("is not the address of a NATS server; {example}"));
        return None;
    };
    if address.is_websocket() {
        section.problem(name, "WebSocket addresses are not supported; write nats:// or tls://");
    } else if address.host().is_empty() {
        section.problem(name, format!("has no host; {example}"));
    } else if written && address.username().is_some() {
        let remedy = "write url = { env = \"VARIABLE\" }, or username and password = { env = \"VARIABLE\" }";
        section.problem(name, format!("a password does not belong in the file; {remedy}"));
    } else {
        return Some(address);
    }
    None
}

/// Without user and password.
fn bare(address: &ServerAddr) -> String {
    let host = address.host();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("{}://{host}:{}", address.scheme(), address.port())
}

fn subject(section: &Section<'_>) -> Option<Template> {
    if !section.has("subject") {
        section.value("subject");
        return Template::parse("{topic}").ok();
    }
    let template = section.template("subject")?;
    match template.as_literal().map_or(Ok(()), check_subject) {
        Ok(()) => Some(template),
        Err(sentence) => {
            section.problem("subject", sentence);
            None
        }
    }
}

fn stream_name(section: &Section<'_>, name: &str) -> bool {
    let good = !name.chars().any(|c| c.is_whitespace() || c.is_control() || "./\\*>".contains(c));
    if !good {
        section
            .problem("stream", format!("`{name}` is no name of a stream: no spaces, dots, slashes, * or >"));
    }
    good
}

/// At most one way; a user in the address (from a variable or file) counts as one.
fn login(section: &Section<'_>, addresses: &[(String, ServerAddr)]) -> Option<NatsLogin> {
    let ways = ["credentials_file", "token", "username", "nkey"];
    let written: Vec<&str> = ways.into_iter().filter(|way| section.has(way)).collect();
    // All are read, so that every mistake is noted.
    let credentials = section.file("credentials_file").filter(|path| existing(section, path));
    let token = section.secret("token");
    let (username, password) = (section.text("username"), section.secret("password"));
    let nkey = section.secret("nkey").filter(|seed| is_seed(section, seed));
    if let [first, second, ..] = written[..] {
        section.problem(second, format!("{first} is there too; choose one way to log in"));
        return None;
    }
    match written.first() {
        None if section.has("password") => {
            section.problem("password", "needs a username");
            None
        }
        None => Some(addresses.iter().find_map(|(_, address)| in_address(address)).unwrap_or_default()),
        Some(&"username") if !section.has("password") => {
            section.problem("password", "is missing; write password = { env = \"VARIABLE\" }");
            None
        }
        Some(_) => credentials
            .map(NatsLogin::CredentialsFile)
            .or_else(|| token.map(NatsLogin::Token))
            .or_else(|| nkey.map(NatsLogin::Nkey))
            .or_else(|| Some(NatsLogin::Password { username: username?, password: password? })),
    }
}

fn existing(section: &Section<'_>, path: &std::path::Path) -> bool {
    if !path.is_file() {
        section.problem("credentials_file", format!("there is no file {}", path.display()));
    }
    path.is_file()
}

fn is_seed(section: &Section<'_>, seed: &Secret) -> bool {
    let good = seed.expose().starts_with("SU") && seed.expose().len() == 58;
    if !good {
        section.problem("nkey", "is not the seed of a user: 58 letters and digits that begin with SU");
    }
    good
}

/// A user without a password is a token, as everywhere in NATS.
fn in_address(address: &ServerAddr) -> Option<NatsLogin> {
    let username = percent_decode(address.username()?);
    Some(match address.password() {
        Some(password) => NatsLogin::Password { username, password: Secret::new(percent_decode(password)) },
        None => NatsLogin::Token(Secret::new(username)),
    })
}

fn percent_decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
