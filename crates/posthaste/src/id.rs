//! Names and numbers that identify things. Each is parsed once, at the door; inside, it cannot be wrong.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};

/// The public identity of an event: a UUID of version 7.
///
/// The position in the log is never used for this. After an asynchronous fail-over a sequence repeats values
/// that were already published, and a broker would swallow the new event as a duplicate of the lost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub Uuid);

impl EventId {
    /// A new id. Only enqueue calls this, and what stands in for it in tests.
    pub(crate) fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fence of a claim: new at every claim, checked by every write of its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub(crate) Uuid);

impl Token {
    pub(crate) fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

/// Who claims: shown to people in leases and in the delivery journal. It is not a fence; the token is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerName(String);

impl WorkerName {
    /// A name made of the process id and a random part, so that two workers never share one by accident.
    pub fn unique() -> Self {
        Self(format!("worker-{}-{:08x}", std::process::id(), fastrand::u32(..)))
    }

    /// A name of the caller's choice, for example the host's.
    pub fn parse(name: &str) -> Result<Self> {
        check_name("worker name", name, 200)?;
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a subscription: 1 to 100 characters of `a-z A-Z 0-9 . _ -`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SubscriptionName(String);

impl SubscriptionName {
    /// Parses a name.
    pub fn parse(name: &str) -> Result<Self> {
        check_name("subscription name", name, 100)?;
        if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c))) {
            return Err(Error::invalid_setting(
                "subscription name",
                format!("`{name}` contains {c:?}; use letters, digits, `.`, `_` and `-`"),
            ));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The PostgreSQL schema that holds Posthaste's tables: `[a-z_][a-z0-9_]*`, at most 48 characters.
///
/// It is the only text that is ever substituted into a statement, hence the narrow alphabet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SchemaName(String);

impl SchemaName {
    /// Parses a schema name.
    pub fn parse(name: &str) -> Result<Self> {
        let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let rest = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !first || !rest || name.len() > 48 || name.starts_with("pg_") {
            return Err(Error::invalid_setting(
                "schema",
                format!(
                    "`{name}` is not usable; use 1 to 48 of a-z, 0-9 and _, not starting with a digit or pg_"
                ),
            ));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("posthaste".to_owned())
    }
}

fn check_name(what: &'static str, name: &str, max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_setting(what, "must not be empty"));
    }
    if name.len() > max {
        return Err(Error::invalid_setting(
            what,
            format!("is {} bytes long, at most {max} are allowed", name.len()),
        ));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid_setting(what, "must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_that_needs_quoting_is_refused() {
        for bad in ["", "Posthaste", "a-b", "a b", "a\"b", "1a", "pg_x", "a;drop table x", "ä", "a\0"] {
            assert!(SchemaName::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(SchemaName::parse("posthaste_2").unwrap().as_str(), "posthaste_2");
    }

    #[test]
    fn a_subscription_name_is_plain_text() {
        for bad in ["", "a b", "a/b", "naïve", "a\n", "'; drop"] {
            assert!(SubscriptionName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(SubscriptionName::parse(&"x".repeat(101)).is_err());
        assert_eq!(SubscriptionName::parse("orders.to-kafka_1").unwrap().as_str(), "orders.to-kafka_1");
    }
}
