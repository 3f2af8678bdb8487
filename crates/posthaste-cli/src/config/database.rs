//! `[database]`: where the log is.

use std::path::PathBuf;

use posthaste::SchemaName;
use posthaste_sinks::{Secret, Section};

use super::url;
use super::written::Origins;

/// The database, checked but not yet asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatabaseConfig {
    pub(crate) address: Address,
    pub(crate) schema: SchemaName,
    pub(crate) connections: u32,
    /// False behind a pooler that gives each transaction to another connection.
    pub(crate) prepared_statements: bool,
    /// Where its URL is written, for those who must correct it.
    pub(crate) setting: &'static str,
}

/// Which kind, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A URL that may hold a password.
    Postgres(Secret),
    /// A file.
    Sqlite(PathBuf),
}

impl DatabaseConfig {
    pub(super) fn check(section: &Section<'_>, origins: &Origins) -> Option<Self> {
        let address = address(section, origins);
        let schema = schema(section, address.as_ref());
        let connections = section.number("connections", 2..=1000).unwrap_or(10);
        let prepared_statements = prepared_statements(section, address.as_ref());
        section.finish();
        Some(Self { address: address?, schema, connections, prepared_statements, setting: "database.url" })
    }

    /// Where it is, without a password.
    pub(crate) fn shown(&self) -> String {
        match &self.address {
            Address::Postgres(url) => url::masked(url.expose()),
            Address::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }
}

pub(super) fn address(section: &Section<'_>, origins: &Origins) -> Option<Address> {
    if !section.has("url") {
        let sentence = "is missing; write for example url = \"postgres://localhost/shop\" or url = \
                        \"sqlite:shop.db\", or set DATABASE_URL, or give --database";
        section.value("url");
        section.problem("url", sentence);
        return None;
    }
    let url = section.text_or_secret("url")?;
    let (scheme, rest) = url.expose().split_once(':').unwrap_or_default();
    match scheme {
        "postgres" | "postgresql" if rest.starts_with("//") => postgres(section, url),
        "sqlite" => sqlite(section, url.expose(), origins),
        _ => {
            let sentence = "expected a URL that begins with postgres:// or sqlite:, as in \
                            postgres://localhost/shop or sqlite:shop.db";
            section.problem("url", sentence);
            None
        }
    }
}

fn postgres(section: &Section<'_>, url: Secret) -> Option<Address> {
    match url::check_postgres(url.expose()) {
        Ok(()) => Some(Address::Postgres(url)),
        Err(sentence) => {
            section.problem("url", sentence);
            None
        }
    }
}

/// A relative path begins where it was written: at the file, or where the command runs.
fn sqlite(section: &Section<'_>, url: &str, origins: &Origins) -> Option<Address> {
    let path = url.trim_start_matches("sqlite:");
    let path = path.strip_prefix("//").unwrap_or(path);
    let refused = match path {
        "" => Some("names no file; write for example sqlite:shop.db"),
        _ if path.contains(":memory:") => {
            Some("a database in memory is gone with the process; name a file, as in sqlite:shop.db")
        }
        _ if path.contains('?') => Some("SQLite's URL takes no parameters; write for example sqlite:shop.db"),
        _ => None,
    };
    if let Some(sentence) = refused {
        section.problem("url", sentence);
        return None;
    }
    let elsewhere = origins.of(&format!("{}.url", section.path())).is_some();
    let path = if elsewhere { PathBuf::from(path) } else { section.surroundings().path(path) };
    match path.is_dir() {
        true => {
            section.problem("url", format!("{} is a folder; name a file in it", path.display()));
            None
        }
        false => Some(Address::Sqlite(path)),
    }
}

fn prepared_statements(section: &Section<'_>, address: Option<&Address>) -> bool {
    let Some(prepared) = section.flag("prepared_statements") else { return true };
    if matches!(address, Some(Address::Sqlite(_))) {
        section.problem("prepared_statements", "is about poolers before PostgreSQL; leave it out");
    }
    prepared
}

fn schema(section: &Section<'_>, address: Option<&Address>) -> SchemaName {
    schema_if_said(section, address).unwrap_or_default()
}

pub(super) fn schema_if_said(section: &Section<'_>, address: Option<&Address>) -> Option<SchemaName> {
    let name = section.text("schema")?;
    if matches!(address, Some(Address::Sqlite(_))) {
        section.problem("schema", "SQLite has no schemas; leave it out");
    }
    SchemaName::parse(&name).map_err(|error| section.problem("schema", without_prefix(&error))).ok()
}

/// The engine's errors begin with the setting's name, which the path says already.
pub(super) fn without_prefix(error: &posthaste::Error) -> String {
    match error {
        posthaste::Error::InvalidSetting { problem, .. } => problem.clone(),
        other => other.to_string(),
    }
}
