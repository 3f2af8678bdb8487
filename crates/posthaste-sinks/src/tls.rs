//! Encryption: on for every host but this one, with certificates verified, unless somebody says otherwise in writing.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::section::Section;

/// How to encrypt a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Whether to.
    pub on: bool,
    /// Trust these authorities instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A certificate of our own, with its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Reads `tls = true | false` or `tls = { ca_file, certificate_file, key_file }`. Unsaid, it is on if any of the
    /// hosts is another machine.
    pub fn validate<'h>(section: &Section<'_>, hosts: impl IntoIterator<Item = &'h str>) -> Self {
        let elsewhere = hosts.into_iter().any(|host| !is_this_machine(host));
        match section.value("tls") {
            None => Self { on: elsewhere, ..Self::default() },
            Some(value) if value.is_object() => {
                section.section("tls").map_or_else(Self::default, |tls| Self::files(&tls))
            }
            Some(_) => Self { on: section.flag("tls").unwrap_or(elsewhere), ..Self::default() },
        }
    }

    fn files(section: &Section<'_>) -> Self {
        let existing = |name: &str| {
            let path = section.file(name)?;
            if !path.is_file() {
                section.problem(name, format!("there is no file {}", path.display()));
            }
            Some(path)
        };
        let (ca_file, certificate, key) =
            (existing("ca_file"), existing("certificate_file"), existing("key_file"));
        section.finish();
        if certificate.is_some() != key.is_some() {
            section.problem("", "certificate_file and key_file belong together; give both or neither");
        }
        Self { on: true, ca_file, identity: certificate.zip(key) }
    }
}

/// Whether a host is reached without leaving the machine.
pub fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::problems::Problems;
    use crate::section::Surroundings;

    fn tls(value: Value, hosts: &[&str]) -> (Tls, usize) {
        let (problems, surroundings) = (Problems::default(), Surroundings::default());
        let fields = value.as_object().expect("a table").clone();
        let tls =
            Tls::validate(&Section::new("sink", &fields, &problems, &surroundings), hosts.iter().copied());
        (tls, problems.count())
    }

    #[test]
    fn it_is_on_for_other_machines_unless_somebody_says_otherwise() {
        for (hosts, on) in [
            (&["localhost"][..], false),
            (&["127.0.0.9", "[::1]"], false),
            (&["10.0.0.1"], true),
            (&["localhost", "b"], true),
        ] {
            assert_eq!(tls(json!({}), hosts), (Tls { on, ..Tls::default() }, 0), "{hosts:?}");
        }
        assert!(!tls(json!({ "tls": false }), &["broker"]).0.on);
        assert!(tls(json!({ "tls": true }), &["localhost"]).0.on);
        assert_eq!(tls(json!({ "tls": "perhaps" }), &["broker"]).1, 1);
    }

    #[test]
    fn a_certificate_without_its_key_is_a_mistake() {
        let (tls, problems) = tls(json!({ "tls": { "certificate_file": "no/such/file" } }), &["localhost"]);
        assert_eq!((tls.on, tls.identity, problems), (true, None, 2));
    }
}
