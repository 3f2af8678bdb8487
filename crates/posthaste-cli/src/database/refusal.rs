//! Why a database cannot be used, in one sentence with the remedy. Whether waiting could help is told by its code.

use std::path::Path;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use crate::config::{Address, DatabaseConfig, INBOX};
use crate::failure::{Code, Failure, is_certificate};

/// A database that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) sentence: String,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Coded(refusal.code, refusal.sentence)
    }
}

/// What the engine could not do, as a failure with its exit code.
pub(crate) fn refused(error: &posthaste::Error, config: &DatabaseConfig) -> Failure {
    use posthaste::{Error, ErrorKind};
    match (error, error.kind()) {
        (Error::Database { source, .. } | Error::Conflict { source, .. }, _) => {
            Refusal::of(source, config).into()
        }
        (Error::Late { within, .. } | Error::NoConnection { within, .. }, _) => {
            Refusal::late(config, *within).into()
        }
        (Error::Schema(sentence), _) => {
            let sentence = sentence.replace("run migrate", "run `posthaste migrate`");
            Failure::configuration(sentence)
        }
        (_, ErrorKind::Invalid | ErrorKind::NeedsOperator) => Failure::configuration(error.to_string()),
        _ => Failure::sentence(error.to_string()),
    }
}

impl Refusal {
    fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into() }
    }

    pub(super) fn url(config: &DatabaseConfig) -> Self {
        Self::new(Code::Configuration, format!("{}: {} is not a usable URL", config.setting, config.shown()))
    }

    pub(super) fn late(config: &DatabaseConfig, limit: Duration) -> Self {
        let remedy = match config.address {
            Address::Postgres(_) => format!(
                "check host and port in {}, firewalls, and who holds locks on Posthaste's tables",
                config.setting
            ),
            Address::Sqlite(_) => "another program may hold its lock: let it commit or end".to_owned(),
        };
        let sentence =
            format!("the database {} did not answer within {} s; {remedy}", config.shown(), limit.as_secs());
        Self::new(Code::Unavailable, sentence)
    }

    pub(super) fn no_file(path: &Path, config: &DatabaseConfig) -> Self {
        let (path, setting) = (path.display(), config.setting);
        let sentence = match setting {
            INBOX => format!("there is no database {path}; check {setting}"),
            _ => {
                format!("there is no database {path}; check {setting}, or create it with `posthaste migrate`")
            }
        };
        Self::new(Code::Configuration, sentence)
    }

    /// Puts the driver's error into words.
    pub(crate) fn of(error: &sqlx::Error, config: &DatabaseConfig) -> Self {
        let (shown, setting) = (config.shown(), config.setting);
        let sentence = match error {
            sqlx::Error::Database(error) => by_code(error.as_ref(), config),
            sqlx::Error::Io(error) if is_certificate(&error.to_string()) => certificate(error, setting),
            sqlx::Error::Io(error) => format!(
                "the database {shown} cannot be reached: {error}; is it running, and are host and port right?"
            ),
            sqlx::Error::Tls(error) if error.to_string().contains("does not support") => format!(
                "{shown} offers no encryption; to connect without it, add sslmode=disable to {setting}"
            ),
            sqlx::Error::Tls(error) => certificate(error, setting),
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                format!("the database {shown} gives no connection: {error}")
            }
            sqlx::Error::Protocol(_) => {
                format!("{shown} does not speak PostgreSQL: {error}; check host and port in {setting}")
            }
            other => format!("the database {shown} refused: {other}"),
        };
        Self::new(Code::of(error), sentence)
    }
}

fn certificate(error: &dyn std::fmt::Display, setting: &str) -> String {
    let said = error.to_string();
    let remedy = match said.contains("not valid for name") {
        true => "connect by a name that is in it, or, to verify only who signed it, write sslmode=verify-ca"
            .to_owned(),
        false => format!(
            "name the authority that signed it with sslrootcert=/path/to/ca.pem in {setting}, or, to encrypt \
             without verifying, write sslmode=require"
        ),
    };
    format!("the server's certificate was not accepted: {said}; {remedy}")
}

fn by_code(error: &dyn sqlx::error::DatabaseError, config: &DatabaseConfig) -> String {
    let (code, shown, said) = (error.code().unwrap_or_default(), config.shown(), error.message());
    let ((role, database), setting) = (who_and_where(config), config.setting);
    match code.as_ref() {
        "28P01" | "28000" => {
            format!("{shown} does not let role `{role}` in: {said}; check user and password in {setting}")
        }
        "42501" => {
            format!("role `{role}` may not do this: {said}; grant it, or connect as the owner of the schema")
        }
        "3D000" => {
            format!("there is no database `{database}` on this server; create it, or correct {setting}")
        }
        "25006" => format!("{shown} takes no writes: {said}; name the primary in {setting}"),
        "42P05" | "26000" => format!(
            "a pooler in transaction mode stands before {shown}: {said}; set prepared_statements = false in [database], \
             or connect directly"
        ),
        "26" => format!("{shown} is not a SQLite database; check {setting}"),
        "14" => format!("{shown} cannot be opened; check its folder and its permissions"),
        "8" | "1032" => format!("{shown} cannot be written; check the file's permissions"),
        code if Code::said(code) == Code::Unavailable => {
            format!("the database {shown} is not available: {said}")
        }
        _ => format!("the database {shown} refused: {said}"),
    }
}

fn who_and_where(config: &DatabaseConfig) -> (String, String) {
    let Address::Postgres(url) = &config.address else { return (String::new(), String::new()) };
    let Ok(options) = url.expose().parse::<PgConnectOptions>() else { return (String::new(), String::new()) };
    let role = options.get_username().to_owned();
    let database = options.get_database().map_or_else(|| role.clone(), str::to_owned);
    (role, database)
}
