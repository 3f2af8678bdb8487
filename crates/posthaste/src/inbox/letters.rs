//! Dead letters of consumers, for people and their tools: look, discard, let in again.

use crate::error::{Error, Result};
#[cfg(feature = "postgres")]
use crate::id::SchemaName;

use super::letter::{DeadLetter, LetIn, LetterFilter, LetterStatus};
#[cfg(feature = "postgres")]
use super::postgres::PgTables;
#[cfg(feature = "sqlite")]
use super::sqlite::SqliteTables;

/// What consumers gave up on, in one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DeadLetters(Tables);

#[derive(Debug, Clone)]
enum Tables {
    #[cfg(feature = "postgres")]
    Postgres(PgTables),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteTables),
}

/// The same for every database.
macro_rules! each {
    ($self:expr, $tables:ident => $do:expr) => {
        match &$self.0 {
            #[cfg(feature = "postgres")]
            Tables::Postgres($tables) => $do,
            #[cfg(feature = "sqlite")]
            Tables::Sqlite($tables) => $do,
        }
    };
}

impl DeadLetters {
    /// In PostgreSQL, in the schema `posthaste_inbox`.
    #[cfg(feature = "postgres")]
    pub fn postgres(pool: sqlx::PgPool) -> Result<Self> {
        PgTables::usual(pool).map(Self::of_postgres)
    }

    /// In PostgreSQL, in a schema of your choice.
    #[cfg(feature = "postgres")]
    pub fn postgres_in(pool: sqlx::PgPool, schema: SchemaName) -> Self {
        Self::of_postgres(PgTables::new(pool, schema))
    }

    /// In SQLite.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(pool: sqlx::SqlitePool) -> Self {
        Self::of_sqlite(SqliteTables::new(pool))
    }

    #[cfg(feature = "postgres")]
    pub(super) fn of_postgres(tables: PgTables) -> Self {
        Self(Tables::Postgres(tables))
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn of_sqlite(tables: SqliteTables) -> Self {
        Self(Tables::Sqlite(tables))
    }

    /// Letters that match, newest first. The next page begins before the number of the last one.
    pub async fn list(&self, filter: &LetterFilter) -> Result<Vec<DeadLetter>> {
        if !(1..=500).contains(&filter.limit) {
            return Err(Error::invalid_setting("limit", format!("{} is not 1 to 500", filter.limit)));
        }
        each!(self, tables => tables.list(filter).await)
    }

    /// One letter, if it is still kept.
    pub async fn get(&self, number: i64) -> Result<Option<DeadLetter>> {
        each!(self, tables => tables.get(number).await)
    }

    /// Decides that an open letter is not needed. It is kept for 720 h, and other copies of its event stay duplicates.
    /// `false`: there is no such letter, or somebody has decided already.
    pub async fn discard(&self, number: i64) -> Result<bool> {
        each!(self, tables => tables.discard(number).await)
    }

    /// Lets the event of a letter in again and notes nothing yet: the first of the three steps of sending it again, and safe
    /// to repeat. Only the mark that giving up left is forgotten, so that an event which the consumer has done since is not
    /// done again.
    ///
    /// Then send the event, then say [`note_resent`](Self::note_resent). Whoever dies in between leaves an open letter, and
    /// begins again.
    pub async fn let_in(&self, letter: &DeadLetter) -> Result<LetIn> {
        each!(self, tables => tables.let_in(letter).await)
    }

    /// Notes that a letter was sent again. `false`: it is gone, or its consumer has given up again since `letter` was read;
    /// then it stays open.
    pub async fn note_resent(&self, letter: &DeadLetter) -> Result<bool> {
        each!(self, tables => tables.note_resent(letter).await)
    }

    /// Lets the event of an open letter in again, and notes that it was sent again. Call it before you send the copy: the other
    /// way round the copy could arrive first and be taken for a duplicate. If the sending fails, the letter is still here.
    /// `false`: there is no such letter, or it was discarded; do not send it.
    ///
    /// It forgets the mark of the event, whatever that stands for: if somebody forgot the event by hand and a copy was done
    /// since, the effect runs again. A repeat, say after a crash before the sending, is `true` and forgets nothing: if the copy
    /// was sent and done after all, it stays done, and the second one is a duplicate.
    ///
    /// Only marks beside the letters are removed; a consumer that guards with Redis calls `forget` on its guard besides.
    pub async fn resent(&self, number: i64) -> Result<bool> {
        each!(self, tables => tables.resent(number).await)
    }
}

pub(super) fn headers_text(headers: &[(String, String)]) -> Result<String> {
    serde_json::to_string(headers).map_err(|error| Error::Corrupt(error.to_string()))
}

pub(super) fn headers_of(text: &str) -> Result<Vec<(String, String)>> {
    serde_json::from_str(text).map_err(|error| Error::Corrupt(format!("headers of a dead letter: {error}")))
}

pub(super) fn status_of(word: &str) -> Result<LetterStatus> {
    LetterStatus::parse(word).ok_or_else(|| Error::Corrupt(format!("status `{word}` of a dead letter")))
}
