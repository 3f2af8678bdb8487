//! Where events are posted: one receiver, with a path that may depend on the event.

use std::fmt;
use std::net::IpAddr;

use posthaste::Event;
use reqwest::Url;

use crate::template::Template;

/// A URL whose path may have places to fill in. Scheme, host, port and query are the same for every event: where events
/// go is the operator's decision, never the producer's.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Scheme, host and port.
    base: Url,
    path: Template,
    query: Option<String>,
    /// The whole, if it is the same for every event.
    fixed: Option<Url>,
    shown: String,
}

/// Without what may be secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.shown).finish()
    }
}

const PLACES_ELSEWHERE: &str =
    "places such as {topic} may stand only in the path; a receiver per event is not possible";

impl Target {
    /// Reads a URL; the error is a sentence that does not show it. Of a URL that was kept out of the file only the host
    /// is shown later, because paths and queries may hold tokens.
    pub(super) fn parse(text: &str, hidden: bool) -> Result<Self, String> {
        let bad = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if text.contains(bad) {
            return Err("a URL has no spaces, control characters or backslashes".to_owned());
        }
        let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| is_http(scheme)).ok_or(
            "expected a URL that begins with https://, such as \"https://example.com/hooks/orders\"",
        )?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let base = Self::base(scheme, authority)?;
        if rest.contains('#') {
            return Err("a fragment (#) is never sent; leave it out".to_owned());
        }
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let (path, query) = (Self::path(path)?, Self::query(query)?);
        let origin = base.origin().ascii_serialization();
        let shown = if hidden { origin } else { format!("{origin}{}", shown_path(rest)) };
        let mut target = Self { base, path, query, fixed: None, shown };
        target.fixed = target.path.as_literal().map(|path| target.with_path(path));
        Ok(target)
    }

    fn base(scheme: &str, authority: &str) -> Result<Url, String> {
        if authority.contains(['{', '}']) {
            return Err(PLACES_ELSEWHERE.to_owned());
        }
        if authority.contains('@') {
            return Err("user names and passwords do not belong in the URL; write headers = { authorization = { env = \
                        \"VARIABLE\" } }"
                .to_owned());
        }
        Url::parse(&format!("{scheme}://{authority}/")).map_err(|error| format!("is no URL: {error}"))
    }

    fn path(text: &str) -> Result<Template, String> {
        if has_dots(text) {
            return Err("`.` and `..` may not be parts of the path".to_owned());
        }
        Template::parse(if text.is_empty() { "/" } else { text })
    }

    fn query(text: Option<&str>) -> Result<Option<String>, String> {
        match text {
            Some(text) if text.contains(['{', '}']) => Err(PLACES_ELSEWHERE.to_owned()),
            other => Ok(other.map(str::to_owned)),
        }
    }

    /// Whether the connection is encrypted.
    pub(super) fn is_https(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// The host as the URL parser understood it: an address in its usual notation, whatever was written.
    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or("")
    }

    /// The address, if the host is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.host().trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    /// Where this event goes; the error says what the event lacks.
    pub(super) fn url(&self, event: &Event) -> Result<Url, String> {
        if let Some(url) = &self.fixed {
            return Ok(url.clone());
        }
        let path = self.path.render_with(event, |value| in_path(value).into())?;
        if has_dots(&path) {
            return Err(format!("the address would have `.` or `..` as part of its path: {path}"));
        }
        Ok(self.with_path(&path))
    }

    /// Where the health check goes: the receiver's own path if it is the same for all events.
    pub(super) fn check_url(&self) -> Url {
        self.fixed.clone().unwrap_or_else(|| self.with_path("/"))
    }

    fn with_path(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url.set_query(self.query.as_deref());
        url
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
}

/// Queries may hold tokens.
fn shown_path(rest: &str) -> &str {
    rest.split('?').next().unwrap_or("")
}

/// A value as part of a path: what is not a letter, a digit or one of `-._~` is percent-encoded, a slash too.
fn in_path(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// Whether a part of the path means "here" or "up": a producer must not climb out of the path that was configured.
fn has_dots(path: &str) -> bool {
    path.split('/').any(|part| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;

    use super::*;

    fn url(text: &str, event: NewEvent) -> Result<String, String> {
        let target = Target::parse(text, false).expect("a target");
        target.url(&event.stored(1, DateTime::UNIX_EPOCH)).map(String::from)
    }

    #[test]
    fn values_stay_within_their_part_of_the_path() {
        let text = "https://example.com/hooks/{topic}/{key}?v=1";
        let keyed = |key: &str| url(text, NewEvent::bytes("orders", "").key(key));
        assert_eq!(
            keyed("ä/b?c#d%").as_deref(),
            Ok("https://example.com/hooks/orders/%C3%A4%2Fb%3Fc%23d%25?v=1")
        );
        assert_eq!(
            keyed("@evil.example").as_deref(),
            Ok("https://example.com/hooks/orders/%40evil.example?v=1")
        );
        assert!(keyed("..").expect_err("climbs").contains("`..`"));
        assert!(keyed(".").is_err());
        let lacking = url(text, NewEvent::bytes("orders", "")).expect_err("no key");
        assert_eq!(lacking, "the address needs key, and the event has none");
    }

    #[test]
    fn only_the_path_may_have_places() {
        for (text, sentence) in [
            ("https://{topic}.example.com/", "only in the path"),
            ("https://example.com:{key}/", "only in the path"),
            ("https://example.com/?t={topic}", "only in the path"),
            ("https://example.com/{colour}", "no place `{colour}`"),
            ("https://user:pw@example.com/", "passwords do not belong"),
            ("https://user@example.com/", "passwords do not belong"),
            ("https://example.com/a/../b", "`..`"),
            ("https://example.com/a/%2E%2e/b", "`..`"),
            ("https://example.com/a#b", "fragment"),
            ("https://exa mple.com/", "no spaces"),
            ("https:\\\\example.com/", "backslashes"),
            ("ftp://example.com/", "begins with https://"),
            ("example.com/hook", "begins with https://"),
            ("https:///path", "is no URL"),
            ("https://example.com:99999/", "is no URL"),
            ("https://[fe80::1%25eth0]/", "is no URL"),
        ] {
            let error = Target::parse(text, false).expect_err(text);
            assert!(error.contains(sentence), "{text}: {error}");
        }
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let shown =
            |hidden| Target::parse("https://example.com/T0KEN?key=T0KEN", hidden).expect("one").to_string();
        assert_eq!(shown(false), "https://example.com/T0KEN");
        assert_eq!(shown(true), "https://example.com");
        let target = Target::parse("https://example.com/x?key=T0KEN", false).expect("one");
        assert!(!format!("{target:?}").contains("T0KEN"));
        assert_eq!(target.check_url().as_str(), "https://example.com/x?key=T0KEN");
    }
}
