//! `[inbox]`: where consumers keep what they gave up on, if that is not the log's database.

use posthaste::SchemaName;
use posthaste_sinks::Section;

use super::database::{Address, DatabaseConfig, address, schema_if_said};
use super::written::Origins;

/// Where its URL is written.
pub(crate) const INBOX: &str = "inbox.url";

/// Two are enough for a person who looks.
const CONNECTIONS: u32 = 2;

/// The database of the letters, checked but not yet asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InboxConfig {
    pub(crate) database: DatabaseConfig,
    /// `None`: the usual one.
    pub(crate) schema: Option<SchemaName>,
}

impl InboxConfig {
    /// `log` says where the log is, and is asked only if nothing else is said.
    pub(super) fn check(
        section: &Section<'_>,
        origins: &Origins,
        log: impl FnOnce() -> Option<DatabaseConfig>,
    ) -> Option<Self> {
        let database = match section.has("url") {
            true => address(section, origins).map(of_its_own),
            false => {
                section.value("url");
                log()
            }
        };
        let place: Option<&Address> = database.as_ref().map(|database| &database.address);
        let schema = schema_if_said(section, place);
        section.finish();
        Some(Self { database: database?, schema })
    }
}

fn of_its_own(address: Address) -> DatabaseConfig {
    DatabaseConfig {
        address,
        schema: SchemaName::default(),
        connections: CONNECTIONS,
        prepared_statements: true,
        setting: INBOX,
    }
}
