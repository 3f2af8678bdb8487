//! `posthaste migrate`: the tables, created or brought up to date, or their SQL printed.

use std::io::Write;

use serde_json::json;

use crate::cli::{GlobalOptions, MigrateOptions};
use crate::config;
use crate::database::{Database, refused};
use crate::failure::Failure;

pub(crate) async fn run(global: &GlobalOptions, options: &MigrateOptions) -> Result<(), Failure> {
    let database =
        Database::prepare_for_person(&config::load_database(&config::sources(global, Vec::new()))?)?;
    match options.print {
        true => print(&database, global.json),
        false => report(&database, migrate(&database).await?, global.json),
    }
}

/// From which version to which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migrated {
    from: Option<usize>,
    to: usize,
}

impl Migrated {
    pub(crate) fn in_words(self) -> String {
        let Self { from, to } = self;
        match from {
            None => format!("created Posthaste's tables, version {to}"),
            Some(from) if from == to => {
                format!("Posthaste's tables have version {to} already; nothing to do")
            }
            Some(from) => format!("brought Posthaste's tables from version {from} to {to}"),
        }
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
    Ok(Migrated { from: before.version, to: before.needed })
}

fn report(database: &Database, done: Migrated, as_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    match as_json {
        true => writeln!(out, "{}", json!({ "from": done.from, "to": done.to }))?,
        false => writeln!(out, "{}: {}", database.config.shown(), done.in_words())?,
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
