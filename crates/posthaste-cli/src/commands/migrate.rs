//! `posthaste migrate`: the tables and roles, created or brought up to date, or their SQL printed.

use std::io::Write;

use serde_json::json;

use crate::cli::{GlobalOptions, MigrateOptions};
use crate::config;
use crate::database::{Database, creating, refused};
use crate::failure::Failure;

pub(crate) async fn run(global: &GlobalOptions, options: &MigrateOptions) -> Result<(), Failure> {
    let database =
        Database::prepare_for_person(&config::load_database(&config::sources(global, Vec::new()))?)?;
    match options.print {
        true => print(&database, global.json),
        false => report(&database, &migrate(&database).await?, global.json),
    }
}

/// From which version to which, and which roles could not be created.
#[derive(Debug, Clone)]
pub(crate) struct Migrated {
    from: Option<usize>,
    to: usize,
    missing_roles: Vec<String>,
}

impl Migrated {
    pub(crate) fn in_words(&self) -> String {
        let Self { from, to, .. } = self;
        match from {
            None => format!("created Posthaste's tables, version {to}"),
            Some(from) if from == to => {
                format!("Posthaste's tables have version {to} already; nothing to do")
            }
            Some(from) => format!("brought Posthaste's tables from version {from} to {to}"),
        }
    }

    /// What is left to somebody who may create roles.
    pub(crate) fn advice(&self) -> Option<String> {
        let missing = &self.missing_roles;
        (!missing.is_empty()).then(|| {
            format!(
                "this user may not create the roles {}; who wants them lets an administrator run `{}`, and then migrates \
                 once more",
                missing.join(", "),
                creating(missing)
            )
        })
    }
}

/// Creates what is missing, the file of a SQLite database too.
pub(crate) async fn migrate(database: &Database) -> Result<Migrated, Failure> {
    database.create().await?;
    let before = database.tables().await?;
    if before.replica || before.version.is_some_and(|version| version > before.needed) {
        before.ready()?;
    }
    database.posthaste.migrate().await.map_err(|error| refused(&error, &database.config))?;
    let missing_roles = database.missing_roles().await?;
    Ok(Migrated { from: before.version, to: before.needed, missing_roles })
}

fn report(database: &Database, done: &Migrated, as_json: bool) -> Result<(), Failure> {
    let (mut out, shown) = (std::io::stdout(), database.config.shown());
    if as_json {
        let Migrated { from, to, missing_roles } = done;
        writeln!(out, "{}", json!({ "from": from, "to": to, "missing_roles": missing_roles }))?;
        return Ok(());
    }
    writeln!(out, "{shown}: {}", done.in_words())?;
    if let Some(advice) = done.advice() {
        writeln!(out, "{shown}: {advice}")?;
    }
    Ok(())
}

fn print(database: &Database, as_json: bool) -> Result<(), Failure> {
    let (mut out, texts) = (std::io::stdout(), database.posthaste.migration_sql());
    match as_json {
        true => writeln!(out, "{}", json!({ "migrations": texts }))?,
        false => texts.iter().try_for_each(|text| writeln!(out, "{}", text.trim_end()))?,
    }
    Ok(())
}
