//! What was configured, checked.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Proxy, Url};

use crate::secret::Secret;
use crate::section::Section;
use crate::tls::{Tls, is_this_machine};

use super::address::refusal;
use super::hidden::Hidden;
use super::reserved::is_reserved;
use super::signature::SigningKey;
use super::target::Target;

/// What was configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    pub(super) target: Target,
    pub(super) keys: Vec<SigningKey>,
    pub(crate) timeout: Duration,
    pub(super) concurrency: usize,
    pub(super) allow_private: bool,
    pub(super) headers: HeaderMap,
    pub(super) tls: Tls,
    pub(super) proxy: Option<Secret>,
    pub(super) hidden: Hidden,
}

impl WebhookSettings {
    /// Reads the sink's table.
    pub fn validate(section: &Section<'_>) -> Option<Self> {
        let allow_private = section.flag("allow_private").unwrap_or(false);
        let allow_plain_http = section.flag("allow_plain_http").unwrap_or(false);
        let target = target(section);
        if let Some(target) = &target {
            check_host(section, target, allow_private);
            check_scheme(section, target, allow_plain_http);
        }
        let keys = keys(section);
        let headers = headers(section);
        let tls = Tls::validate(section, target.iter().map(Target::host));
        let times = Duration::from_millis(100)..=Duration::from_secs(30);
        let timeout = section.duration("timeout", times).unwrap_or(Duration::from_secs(20));
        let concurrency = section.number("concurrency", 1..=1000_u32).unwrap_or(10) as usize;
        let proxy = proxy(section);
        let kept_out = section.value("url").is_some_and(|url| url.is_object());
        let url = section.text_or_secret("url").filter(|_| kept_out);
        let hidden =
            Hidden::of(&headers, url.as_ref().map(Secret::expose), proxy.as_ref().map(Secret::expose));
        Some(Self { target: target?, keys, timeout, concurrency, allow_private, headers, tls, proxy, hidden })
            .filter(|settings| !settings.keys.is_empty())
    }
}

/// The URL may stand elsewhere like a secret: some receivers put a token in it.
fn target(section: &Section<'_>) -> Option<Target> {
    let hidden = section.required("url", "\"https://example.com/hooks/orders\"")?.is_object();
    let url = section.text_or_secret("url")?;
    Target::parse(url.expose(), hidden).map_err(|sentence| section.problem("url", sentence)).ok()
}

/// What an address means is known without asking anybody; names are checked when they are resolved.
fn check_host(section: &Section<'_>, target: &Target, allow_private: bool) {
    let host = target.host();
    let local = || (host == "localhost" || host.ends_with(".localhost")).then_some("this machine");
    let refused = target.address().map_or_else(local, refusal).filter(|_| !allow_private);
    if let Some(kind) = refused {
        section.problem("url", format!("{host} is {kind}; set allow_private = true if that is meant"));
    }
}

fn check_scheme(section: &Section<'_>, target: &Target, allow_plain_http: bool) {
    if !target.is_https() && !is_this_machine(target.host()) && !allow_plain_http {
        section.problem(
            "url",
            "events would travel unencrypted; write https://, or set allow_plain_http = true if that is meant",
        );
    }
    let wanted = section.value("tls").map(|tls| tls.is_object() || tls.as_bool() == Some(true));
    if wanted.is_some_and(|wanted| wanted != target.is_https()) {
        section.problem("tls", "contradicts the url, whose https:// or http:// decides; change one of them");
    }
}

fn keys(section: &Section<'_>) -> Vec<SigningKey> {
    let mut keys: Vec<SigningKey> = Vec::new();
    let written = section.required("secrets", "[{ env = \"WEBHOOK_SECRET\" }]");
    if written.and_then(|list| list.as_array()).is_some_and(Vec::is_empty) {
        section.problem("secrets", "is empty; nothing is sent without a signature");
    }
    for (name, secret) in section.secrets("secrets") {
        match SigningKey::parse(secret.expose()) {
            Ok(key) if keys.contains(&key) => section.problem(&name, "the same secret stands there twice"),
            Ok(key) => keys.push(key),
            Err(sentence) => section.problem(&name, sentence),
        }
    }
    keys
}

/// Headers that every request carries.
fn headers(section: &Section<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(inner) = section.section("headers") else { return headers };
    for name in inner.names() {
        let Some(value) = inner.text_or_secret(name) else { continue };
        match header(name, &value) {
            Ok((known, value)) => drop(headers.insert(known, value)),
            Err(sentence) => inner.problem(name, sentence),
        }
    }
    headers
}

fn header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), String> {
    let name =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is no name of an HTTP header".to_owned())?;
    if is_reserved(name.as_str()) {
        return Err("is set by the relay itself; leave it out".to_owned());
    }
    let value = HeaderValue::from_str(value.expose());
    let mut value = value.map_err(|_| "an HTTP header is visible ASCII on one line".to_owned())?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn proxy(section: &Section<'_>) -> Option<Secret> {
    let proxy = section.text_or_secret("proxy")?;
    if let Err(sentence) = parse_proxy(&proxy) {
        section.problem("proxy", sentence);
    } else if section.value("proxy").is_some_and(|written| written.is_string())
        && proxy.expose().contains('@')
    {
        section.problem("proxy", "passwords do not belong in the file; write proxy = { env = \"VARIABLE\" }");
    }
    Some(proxy)
}

/// All requests through this proxy.
pub(super) fn parse_proxy(url: &Secret) -> Result<Proxy, String> {
    let known = Url::parse(url.expose()).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    let proxy = known.then(|| Proxy::all(url.expose()).ok()).flatten();
    proxy.ok_or_else(|| {
        "expected the URL of an HTTP proxy, such as \"http://proxy.example.com:3128\"".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    const GOOD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn read(value: Value) -> (Option<WebhookSettings>, Vec<String>) {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        let variables =
            [("NEW", GOOD), ("OLD", OTHER), ("SHORT", "whsec_AAAA"), ("TOKEN", "Bearer t0ps3cret")];
        surroundings.variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let Value::Object(fields) = value else { panic!("a table") };
        let section = Section::new("sink", &fields, &problems, &surroundings);
        let settings = WebhookSettings::validate(&section);
        section.finish();
        (settings, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    /// The problems of a good table with these fields changed.
    fn problems(changes: Value) -> Vec<String> {
        let mut table = json!({ "url": "https://example.com/hook", "secrets": [{ "env": "NEW" }] });
        for (name, value) in changes.as_object().expect("a table") {
            table[name] = value.clone();
        }
        read(table).1
    }

    #[test]
    fn a_small_table_has_defaults() {
        let (settings, problems) =
            read(json!({ "url": "https://example.com/hook", "secrets": [{ "env": "NEW" }] }));
        assert_eq!(problems, [""; 0]);
        let settings = settings.expect("settings");
        assert_eq!((settings.timeout, settings.concurrency), (Duration::from_secs(20), 10));
        assert!(!settings.allow_private && settings.tls.on && settings.proxy.is_none());
    }

    #[test]
    fn a_full_table_is_understood_and_shows_no_secret() {
        let (settings, problems) = read(json!({
            "url": "https://10.1.2.3:8443/hooks/{topic}", "secrets": [{ "env": "NEW" }, { "env": "OLD" }],
            "timeout": "5s", "concurrency": 3, "allow_private": true,
            "headers": { "Authorization": { "env": "TOKEN" }, "x-team": "orders" },
            "proxy": "http://proxy.example.com:3128", "tls": true,
        }));
        assert_eq!(problems, [""; 0]);
        let settings = settings.expect("settings");
        assert_eq!((settings.keys.len(), settings.concurrency, settings.headers.len()), (2, 3, 2));
        let shown = format!("{settings:?}");
        assert!(!shown.contains("t0ps3cret") && !shown.contains("MfKQ9r8"), "{shown}");
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let (settings, problems) =
            read(json!({ "secrets": ["whsec_inthefile"], "timeout": "2m", "concurency": 3,
            "headers": { "webhook-id": "1", "bad name": "x", "x": "a\nb" }, "proxy": "socks5://x" }));
        assert_eq!(settings, None);
        let expected = [
            "sink.url: is missing; write for example url = \"https://example.com/hooks/orders\"",
            "sink.secrets: expected a list of places, because secrets do not belong in the file: secrets = [{ env = \"VARIABLE\" }]",
            "sink.headers.bad name: is no name of an HTTP header",
            "sink.headers.webhook-id: is set by the relay itself; leave it out",
            "sink.headers.x: an HTTP header is visible ASCII on one line",
            "sink.timeout: expected 100ms to 30s, got \"2m\"",
            "sink.proxy: expected the URL of an HTTP proxy, such as \"http://proxy.example.com:3128\"",
            "sink.concurency: is not known here; did you mean `concurrency`?",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn every_other_mistake_has_its_sentence() {
        for (changes, sentence) in [
            (json!({ "url": "http://example.com/hook" }), "sink.url: events would travel unencrypted"),
            (json!({ "url": "ftp://example.com" }), "sink.url: expected a URL that begins with https://"),
            (json!({ "url": "https://me:pw@example.com" }), "sink.url: user names and passwords"),
            (json!({ "url": "https://{key}.example.com" }), "sink.url: places such as {topic}"),
            (json!({ "url": { "env": "ABSENT" } }), "sink.url: the environment variable ABSENT is not set"),
            (
                json!({ "url": "https://localhost/" }),
                "sink.url: localhost is this machine; set allow_private",
            ),
            (json!({ "secrets": [] }), "sink.secrets: is empty"),
            (json!({ "secrets": { "env": "NEW" } }), "sink.secrets: expected a list"),
            (
                json!({ "secrets": [{ "env": "NEW" }, { "env": "SHORT" }] }),
                "sink.secrets[1]: expected a secret of 24",
            ),
            (json!({ "secrets": [{ "env": "NEW" }, { "env": "NEW" }] }), "sink.secrets[1]: the same secret"),
            (json!({ "secrets": [{ "env": "ABSENT" }] }), "sink.secrets[0]: the environment variable ABSENT"),
            (json!({ "secrets": [{ "enw": "NEW" }] }), "sink.secrets[0].enw: is not known here"),
            (json!({ "concurrency": 0 }), "sink.concurrency: expected a whole number from 1 to 1000"),
            (
                json!({ "proxy": "http://me:pw@proxy:3128" }),
                "sink.proxy: passwords do not belong in the file",
            ),
            (json!({ "tls": false }), "sink.tls: contradicts the url"),
            (json!({ "tls": { "ca_file": "no/such.pem" } }), "sink.tls.ca_file: there is no file"),
            (json!({ "headers": { "host": "x" } }), "sink.headers.host: is set by the relay itself"),
            (
                json!({ "headers": { "authorization": { "env": "ABSENT" } } }),
                "sink.headers.authorization: the environment",
            ),
        ] {
            let problems = problems(changes.clone());
            assert!(problems.iter().any(|problem| problem.starts_with(sentence)), "{changes}: {problems:?}");
        }
    }

    #[test]
    fn private_addresses_are_refused_in_every_notation() {
        let forms = "127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 127.0.0.1. 0 0.0.0.0 \
            0x7F.0x0.0x0.0x1 0X7F000001 00000177.0.0.1 0177.1 127.0.0x1 127.000000001 0x0 00 0.0 127.255.255.254 \
            10.0.0.1 10.1 0xa.0.0.1 012.0.0.1 167772161 172.16.0.1 172.31.255.255 0xac.16.0.1 2886729729 192.168.0.1 \
            192.168.1 3232235521 0xc0a80001 0300.0250.0.1 169.254.169.254 169.254.1 2852039166 0xa9fea9fe \
            0251.0376.0251.0376 0xa9.0xfe.0xa9.0xfe 168.63.129.16 100.64.0.1 100.100.100.200 192.0.0.192 192.0.2.1 \
            198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 4294967295 \
            １２７.0.0.1 127。0。0。1 127．0．0．1 ①②⑦.0.0.1 %31%32%37.0.0.1 127%2e0%2e0%2e1 [::1] [::] [0:0:0:0:0:0:0:1] \
            [::0001] [0000:0000:0000:0000:0000:0000:0000:0001] [::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:7F00:0001] \
            [0:0:0:0:0:ffff:a00:1] [::ffff:169.254.169.254] [::ffff:0.0.0.0] [::127.0.0.1] [::ffff:0:127.0.0.1] \
            [64:ff9b::7f00:1] [64:ff9b::10.0.0.1] [64:ff9b:1::1] [2002:7f00:1::] [2002:a9fe:a9fe::] [fe80::1] [febf::1] \
            [fec0::1] [fd00:ec2::254] [fc00::1] [ff02::1] [2001:db8::1] [2001::1] [100::1] localhost LOCALHOST \
            LocalHost app.localhost loc%61lhost ｌｏｃａｌｈｏｓｔ";
        let forms_tried = forms.split_whitespace().count();
        assert!(forms_tried >= 60, "{forms_tried}");
        for host in forms.split_whitespace() {
            let url = format!("https://{host}:8443/hook");
            let refused = problems(json!({ "url": url }));
            assert!(refused.iter().any(|problem| problem.contains("allow_private")), "{host}: {refused:?}");
            assert_eq!(problems(json!({ "url": url, "allow_private": true })), [""; 0], "{host}");
        }
        for host in ["8.8.8.8", "134744072", "[2606:4700::1111]", "example.com", "localhost.example.com"] {
            assert_eq!(problems(json!({ "url": format!("https://{host}/") })), [""; 0], "{host}");
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_or_for_those_who_say_so() {
        let local = json!({ "url": "http://127.0.0.1:8080/", "allow_private": true });
        assert_eq!(problems(local), [""; 0]);
        assert_eq!(problems(json!({ "url": "http://example.com/", "allow_plain_http": true })), [""; 0]);
    }
}
