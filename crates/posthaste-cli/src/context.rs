//! What a command works on: the log that the configuration names.

use posthaste::Posthaste;

use crate::cli::GlobalOptions;
use crate::config;
use crate::database::Database;
use crate::failure::Failure;

pub(crate) use crate::database::Pool;

/// An opened log.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) posthaste: Posthaste,
    pub(crate) pool: Pool,
    /// Print JSON instead of words.
    pub(crate) json: bool,
}

impl Context {
    /// Connects to the database of the configuration, whatever else is in it, and refuses tables of another version. A
    /// replica will do for looking.
    pub(crate) async fn open(global: &GlobalOptions) -> Result<Self, Failure> {
        let config = config::load_database(&config::sources(global, Vec::new()))?;
        let database = Database::prepare_for_person(&config)?;
        database.connect().await?;
        database.tables().await?.readable()?;
        if let Some(warning) = database.warning() {
            eprintln!("posthaste: {warning}");
        }
        Ok(Self { posthaste: database.posthaste, pool: database.pool, json: global.json })
    }
}
