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
