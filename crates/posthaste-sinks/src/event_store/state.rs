//! What the server says about itself and the table.

use sqlx::{PgConnection, Row};

use super::settings::EventStoreSettings;
use super::table::{STATE, TableName};

/// Whether we can append, and whether what we appended survives a crash.
#[derive(Debug)]
pub(super) struct State {
    pub(super) exists: bool,
    read_only: bool,
    may_create: bool,
    may_insert: bool,
    may_number: bool,
    unlogged: bool,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
}

impl State {
    pub(super) async fn of(connection: &mut PgConnection, table: &TableName) -> Result<Self, sqlx::Error> {
        let asking = sqlx::query(STATE).persistent(false).bind(table.quoted()).bind(table.quoted_schema());
        let row = asking.fetch_one(connection).await?;
        Ok(Self {
            exists: row.try_get("exists")?,
            read_only: row.try_get("read_only")?,
            may_create: row.try_get("may_create")?,
            may_insert: row.try_get("may_insert")?,
            may_number: row.try_get("may_number")?,
            unlogged: row.try_get("unlogged")?,
            fsync: row.try_get("fsync")?,
            full_page_writes: row.try_get("full_page_writes")?,
            synchronous_commit: row.try_get("synchronous_commit")?,
        })
    }

    /// Why nothing can be appended, with the remedy.
    pub(super) fn problem(&self, settings: &EventStoreSettings) -> Option<String> {
        let table = settings.table();
        if self.read_only {
            return Some("the server is read-only; give the address of the primary".to_owned());
        }
        if !self.exists && !settings.creates_table() {
            return Some(format!("there is no table {table}; create it, or set create_table = true"));
        }
        if !self.exists && !self.may_create {
            return Some(format!(
                "cannot create {table}: its schema is missing, or this user may not create in it"
            ));
        }
        if !self.may_insert {
            return Some(format!("this user may not insert; grant select, insert on {table}"));
        }
        (!self.may_number).then(|| {
            format!("this user may not number the rows; grant usage on the sequence of {table}'s position")
        })
    }

    /// What is risky although it works.
    pub(super) fn warnings(&self, settings: &EventStoreSettings) -> Vec<String> {
        let table = settings.table();
        let warnings = [
            (self.fsync == "off", "fsync is off: a crash of the machine can lose or damage what was stored; set fsync = on".to_owned()),
            (
                self.full_page_writes == "off",
                "full_page_writes is off: a crash of the machine can damage the table; set full_page_writes = on".to_owned(),
            ),
            (
                self.synchronous_commit == "off",
                "synchronous_commit is off: a crash can lose events that were reported as stored; set it to on for this user".to_owned(),
            ),
            (self.unlogged, format!("{table} is unlogged: a crash empties it; alter table {table} set logged")),
        ];
        warnings.into_iter().filter_map(|(risky, warning)| risky.then_some(warning)).collect()
    }
}
