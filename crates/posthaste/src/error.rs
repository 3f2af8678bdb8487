//! Errors for whoever must act: a kind for programs, a sentence with the value and the remedy for people.

use thiserror::Error as ThisError;

/// What this crate's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong in Posthaste.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The event was refused before any SQL ran: the caller's transaction is untouched.
    #[error(transparent)]
    InvalidEvent(#[from] InvalidEvent),
    /// A setting, name or filter is not usable.
    #[error("{setting}: {problem}")]
    InvalidSetting {
        /// Which setting.
        setting: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// No subscription of that name was ever declared.
    #[error("there is no subscription `{0}`; declare it by starting a worker for it, or check the spelling")]
    NoSuchSubscription(String),
    /// No such event, or it was removed by retention.
    #[error("there is no event {0} (it may have been removed by retention)")]
    NoSuchEvent(String),
    /// The subscription has nothing to do with this event.
    #[error(
        "subscription `{subscription}` does not take event {event}: its filter leaves it out, or it began after it; name the \
         subscription that the consumer listens to"
    )]
    NotWanted {
        /// Which subscription.
        subscription: String,
        /// Which event.
        event: String,
    },
    /// The lease was lost: somebody else holds the claim now, or already settled it. Nothing was changed.
    #[error("the lease on this claim was lost; another worker holds it now, and nothing was changed")]
    LeaseLost,
    /// The tables are missing or belong to another version.
    #[error("{0}")]
    Schema(String),
    /// The database was restored or moved: transaction ids of the old cluster mean nothing here.
    #[error(
        "this database was restored or moved into another cluster (recorded system identifier {recorded}, found \
         {found}); nothing is delivered until you run `rebase` (after dump and restore or a logical move) or `keep` \
         (after pg_upgrade, which preserves transaction ids)"
    )]
    ClusterChanged {
        /// The identifier that was stored when the marks were taken.
        recorded: String,
        /// The identifier of the cluster we talk to.
        found: String,
    },
    /// A transaction conflicted with another one. Run the whole transaction again.
    #[error("{doing}: the transaction conflicted with another one; run it again ({source})")]
    Conflict {
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        source: sqlx::Error,
    },
    /// The database refused or could not be reached.
    #[error("{doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What the database or the connection said.
        source: sqlx::Error,
    },
    /// The database did not answer in time. What was asked may have happened, or may still happen.
    #[error(
        "{doing}: PostgreSQL did not answer within {within:?}; it is away or blocked, or the network before it is cut"
    )]
    Late {
        /// What was being done.
        doing: &'static str,
        /// How long was waited.
        within: std::time::Duration,
    },
    /// The pool had no connection to the database, and could make none. Nothing was asked.
    #[error(
        "{doing}: there was no connection to PostgreSQL within {within:?}; it is away, or all connections of the pool are in use"
    )]
    NoConnection {
        /// What was being done.
        doing: &'static str,
        /// How long was waited.
        within: std::time::Duration,
    },
    /// Redis refused or could not be reached.
    #[cfg(feature = "redis")]
    #[error("{doing}: {source}")]
    Redis {
        /// What was being done.
        doing: &'static str,
        /// What the server or the connection said.
        source: redis::RedisError,
    },
    /// The transaction that the effect was handed has ended before its time, and the mark of its event went with it. In
    /// SQLite that may be the database's doing: `INSERT OR ROLLBACK`, `RAISE(ROLLBACK)`, a full disk. What the effect wrote
    /// before is gone, what it wrote after that may stand.
    #[error(
        "event `{0}` is not done: the transaction of its effect was rolled back inside the effect, and the mark with it; what \
         it wrote after that may stand. Let the effect return every error of the database, and never end the transaction"
    )]
    MarkGone(String),
    /// Stored data cannot be read back: it was changed by hand or written by a newer version.
    #[error("stored data is not readable: {0}")]
    Corrupt(String),
}

/// What a program can decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bad input: repeating it will not help.
    Invalid,
    /// Named thing does not exist.
    NotFound,
    /// The lease was lost.
    LeaseLost,
    /// A person must act: migrate, rebase, repair.
    NeedsOperator,
    /// Repeat the whole transaction.
    Conflict,
    /// The database is away or failing: try again later.
    Unavailable,
}

impl Error {
    pub(crate) fn invalid_setting(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidSetting { setting: setting.into(), problem: problem.into() }
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidEvent(_)
            | Self::InvalidSetting { .. }
            | Self::NotWanted { .. }
            | Self::MarkGone(_) => ErrorKind::Invalid,
            Self::NoSuchSubscription(_) | Self::NoSuchEvent(_) => ErrorKind::NotFound,
            Self::LeaseLost => ErrorKind::LeaseLost,
            Self::Schema(_) | Self::ClusterChanged { .. } | Self::Corrupt(_) => ErrorKind::NeedsOperator,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Database { .. } | Self::Late { .. } | Self::NoConnection { .. } => ErrorKind::Unavailable,
            #[cfg(feature = "redis")]
            Self::Redis { .. } => ErrorKind::Unavailable,
        }
    }

    /// Whether the database could not be reached or did not answer: nobody's fault but its own.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_away(&self) -> bool {
        match self {
            Self::Late { .. } | Self::NoConnection { .. } => true,
            Self::Database { source, .. } => match source.as_database_error() {
                // Connection exceptions, and a server that shuts down or starts.
                Some(error) => {
                    error.code().is_some_and(|code| code.starts_with("08") || code.starts_with("57P"))
                }
                None => {
                    matches!(source, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)
                }
            },
            _ => false,
        }
    }

    /// Wraps a database error, telling conflicts (worth a new transaction) from the rest.
    pub(crate) fn database(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| {
            let code = source.as_database_error().and_then(|e| e.code().map(|c| c.into_owned()));
            match code.as_deref() {
                // serialization_failure, deadlock_detected
                Some("40001" | "40P01") => Self::Conflict { doing, source },
                // SQLite: busy and locked, with their extended codes
                Some("5" | "6" | "261" | "262" | "517" | "518" | "773") => Self::Conflict { doing, source },
                code if matches!(code, Some("42P01" | "3F000")) || no_such_table(&source) => Self::Schema(
                    format!("{doing}: Posthaste's tables are not there; run migrate first ({source})"),
                ),
                _ => Self::Database { doing, source },
            }
        }
    }
}

/// SQLite has one code for all it cannot prepare; only the text tells a missing table from the rest.
fn no_such_table(source: &sqlx::Error) -> bool {
    source.as_database_error().is_some_and(|e| e.message().starts_with("no such table: "))
}

/// Why enqueue refused an event. Every one of these is found before any SQL is sent.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum InvalidEvent {
    /// A required field is empty.
    #[error("{field} must not be empty")]
    Empty {
        /// Which field.
        field: &'static str,
    },
    /// A text field is longer than allowed.
    #[error("{field} is {len} bytes long, at most {max} are allowed")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// How long it is, in bytes.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// PostgreSQL cannot store NUL in text, and control characters have no place in names.
    #[error("{field} contains the control character {found:?}")]
    ControlCharacter {
        /// Which field.
        field: String,
        /// The character.
        found: char,
    },
    /// Bytes were given where text is due.
    #[error("{field} is not valid UTF-8")]
    NotUtf8 {
        /// Which field.
        field: &'static str,
    },
    /// A time that lies before our era: PostgreSQL's own reach is not much longer.
    #[error("{field}: {time} lies before the year 1")]
    TooEarly {
        /// Which field.
        field: &'static str,
        /// The time.
        time: chrono::DateTime<chrono::Utc>,
    },
    /// The payload exceeds the limit.
    #[error(
        "the payload is {len} bytes, at most {max} are allowed; store large bodies elsewhere and enqueue a reference, or \
         raise `max_payload`"
    )]
    PayloadTooLarge {
        /// Its size.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The payload could not be turned into JSON.
    #[error("the payload cannot be written as JSON: {reason}")]
    NotJson {
        /// What the serializer said.
        reason: String,
    },
    /// The event does not fit the registry.
    #[error("{field}: {problem}")]
    Registry {
        /// Which field of the event.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A header name or value cannot be carried by every sink.
    #[error("header `{name}`: {problem}")]
    Header {
        /// The header's name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Too many headers, or too many bytes of them.
    #[error("the headers take {len} {unit}, at most {max} are allowed")]
    HeadersTooLarge {
        /// How much there is.
        len: usize,
        /// Of what.
        unit: &'static str,
        /// How much may be.
        max: usize,
    },
    /// With a tenant, the dedupe key must begin with it: otherwise one tenant could block another's event.
    #[error("the dedupe key `{dedupe_key}` must begin with the tenant's id and a slash: `{expected}...`")]
    TenantPrefix {
        /// The key that was given.
        dedupe_key: String,
        /// What it must begin with.
        expected: String,
    },
}
