//! What a command works on: the log that the configuration names.

use posthaste::Posthaste;
use sqlx::{PgPool, SqlitePool};

use crate::cli::GlobalOptions;
use crate::failure::Failure;

/// The database of a command.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    /// PostgreSQL.
    Postgres(PgPool),
    /// SQLite.
    Sqlite(SqlitePool),
}

/// An opened log.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) posthaste: Posthaste,
    pub(crate) pool: Pool,
    /// Print JSON instead of words.
    pub(crate) json: bool,
}

impl Context {
    /// Connects to the database that `DATABASE_URL` names.
    pub(crate) async fn open(global: &GlobalOptions) -> Result<Self, Failure> {
        let url = std::env::var("DATABASE_URL").map_err(|_| Failure::sentence("DATABASE_URL is not set"))?;
        let failure = Failure::while_doing("connect to the database");
        let (posthaste, pool) = match url.strip_prefix("sqlite:") {
            Some(path) => {
                let pool =
                    SqlitePool::connect_with(posthaste::sqlite_options(path)).await.map_err(failure)?;
                (Posthaste::sqlite(pool.clone()), Pool::Sqlite(pool))
            }
            None => {
                let pool = PgPool::connect(&url).await.map_err(failure)?;
                (Posthaste::postgres(pool.clone()), Pool::Postgres(pool))
            }
        };
        Ok(Self { posthaste, pool, json: global.json })
    }
}
