//! The database of a command: connected to, and its refusals put into sentences.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use posthaste::Posthaste;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{ConnectOptions, PgConnection, PgPool, SqlitePool};

use crate::config::{Address, DatabaseConfig, is_remote, says_ssl_mode};
use crate::failure::Failure;

mod refusal;
mod roles;
mod tables;

pub(crate) use refusal::{Refusal, refused};
pub(crate) use roles::creating;
pub(crate) use tables::Tables;

/// How long a connection or an answer may take before the database counts as away.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long a relay waits for another writer of a SQLite file before it begins anew.
const LONGEST_WRITE: Duration = Duration::from_secs(30);

/// How long a person is kept waiting for another writer of a SQLite file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections to it.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    /// PostgreSQL.
    Postgres(PgPool),
    /// SQLite.
    Sqlite(SqlitePool),
}

/// A database whose URL is known, connected or not.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) config: DatabaseConfig,
    pub(crate) posthaste: Posthaste,
    pub(crate) pool: Pool,
}

impl Database {
    /// Prepares connections; none is made yet.
    pub(crate) fn prepare(config: &DatabaseConfig) -> Result<Self, Failure> {
        // PostgreSQL is listened to on one connection beside the pool, unless a pooler stands in between.
        let listens = matches!(config.address, Address::Postgres(_)) && config.prepared_statements;
        let beside = u32::from(listens);
        let pooled = DatabaseConfig { connections: config.connections - beside, ..config.clone() };
        Ok(Self { config: config.clone(), ..Self::waiting(&pooled, LONGEST_WRITE)? })
    }

    /// The same for somebody who waits for an answer, and would rather hear that the database is locked.
    pub(crate) fn prepare_for_person(config: &DatabaseConfig) -> Result<Self, Failure> {
        Self::waiting(config, PATIENCE)
    }

    fn waiting(config: &DatabaseConfig, busy_timeout: Duration) -> Result<Self, Failure> {
        let (posthaste, pool) = match &config.address {
            Address::Postgres(url) => {
                let options = postgres_options(url.expose())?;
                let pool =
                    PgPoolOptions::new().max_connections(config.connections).acquire_timeout(ANSWER_WITHIN);
                let pool = match config.prepared_statements {
                    true => pool.after_connect(|conn, _| Box::pin(notice_a_cut(conn))),
                    // A pooler's connections to the server are not ours: what is set there is set for others.
                    false => pool,
                }
                .connect_lazy_with(options);
                let posthaste = Posthaste::postgres_in(pool.clone(), config.schema.clone());
                let posthaste = match config.prepared_statements {
                    true => posthaste,
                    false => posthaste.without_prepared_statements(),
                };
                (posthaste, Pool::Postgres(pool))
            }
            Address::Sqlite(path) => {
                let options =
                    posthaste::sqlite_options(path).busy_timeout(busy_timeout).disable_statement_logging();
                let pool =
                    SqlitePoolOptions::new().max_connections(config.connections).connect_lazy_with(options);
                (Posthaste::sqlite(pool.clone()), Pool::Sqlite(pool))
            }
        };
        Ok(Self { config: config.clone(), posthaste, pool })
    }

    /// Makes the first connection. Without it, a wrong password would only be seen as a timeout of the pool.
    pub(crate) async fn connect(&self) -> Result<(), Refusal> {
        let attempt = async {
            match (&self.config.address, &self.pool) {
                (Address::Postgres(url), _) => {
                    let options = postgres_options(url.expose()).map_err(|_| Refusal::url(&self.config))?;
                    let connected = options.connect().await;
                    connected.map(drop).map_err(|error| Refusal::of(&error, &self.config))
                }
                (Address::Sqlite(path), Pool::Sqlite(pool)) => open_file(path, pool, &self.config).await,
                (Address::Sqlite(_), Pool::Postgres(_)) => Ok(()),
            }
        };
        self.in_time(attempt).await
    }

    /// Whether the other one differs in no more than who logs in, and with what password. Then new connections are made that way
    /// from now on; open ones stay.
    pub(crate) fn takes_login_of(&mut self, other: &DatabaseConfig) -> bool {
        let (Address::Postgres(old), Address::Postgres(new)) = (&self.config.address, &other.address) else {
            return false;
        };
        let (Ok(old), Ok(new)) = (postgres_options(old.expose()), postgres_options(new.expose())) else {
            return false;
        };
        let place = |options: &PgConnectOptions| {
            let database = options.get_database().map(str::to_owned);
            (options.get_host().to_owned(), options.get_port(), options.get_socket().cloned(), database)
        };
        let rest = DatabaseConfig { address: self.config.address.clone(), ..other.clone() };
        let only_login = place(&old) == place(&new) && rest == self.config;
        if let (true, Pool::Postgres(pool)) = (only_login, &self.pool) {
            pool.set_connect_options(new);
            self.config = other.clone();
        }
        only_login
    }

    /// The answer, or that it is late. A connection that died without a word would be waited on for a quarter of an hour;
    /// a new one may do better.
    pub(crate) async fn in_time<T, E: From<Refusal>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let late = || Err(Refusal::late(&self.config, ANSWER_WITHIN).into());
        tokio::time::timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| late())
    }

    /// The same, but a SQLite file that is not there is created.
    pub(crate) async fn create(&self) -> Result<(), Refusal> {
        match &self.pool {
            Pool::Sqlite(pool) => {
                pool.acquire().await.map(drop).map_err(|error| Refusal::of(&error, &self.config))
            }
            Pool::Postgres(_) => self.connect().await,
        }
    }

    /// The tables, or why they cannot be looked at.
    pub(crate) async fn tables(&self) -> Result<Tables, Refusal> {
        let needed = self.posthaste.schema_version();
        let looking = Tables::look(&self.pool, self.config.schema.as_str(), needed);
        self.in_time(async { looking.await.map_err(|error| Refusal::of(&error, &self.config)) }).await
    }

    /// The roles that `migrate` could not create.
    pub(crate) async fn missing_roles(&self) -> Result<Vec<String>, Refusal> {
        let looking = roles::missing(&self.pool, self.config.schema.as_str());
        self.in_time(async { looking.await.map_err(|error| Refusal::of(&error, &self.config)) }).await
    }

    /// A sentence if the connection crosses a network without encryption.
    pub(crate) fn warning(&self) -> Option<String> {
        let Address::Postgres(url) = &self.config.address else { return None };
        let options = PgConnectOptions::from_str(url.expose()).ok()?;
        let plain = is_remote(&options) && !cfg!(feature = "tls");
        plain.then(|| {
            format!(
                "the connection to {} is not encrypted: this program was built without TLS (build it with --features tls)",
                options.get_host()
            )
        })
    }
}

/// Another machine is spoken to in secret, and must prove who it is, unless the URL or PGSSLMODE says otherwise.
fn postgres_options(url: &str) -> Result<PgConnectOptions, Failure> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| Failure::configuration("database.url: is not a usable URL"))?
        .disable_statement_logging();
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("posthaste"),
    };
    let said = says_ssl_mode(url) || std::env::var_os("PGSSLMODE").is_some();
    Ok(match cfg!(feature = "tls") && is_remote(&options) && !said {
        true => options.ssl_mode(PgSslMode::VerifyFull),
        false => options,
    })
}

/// Lets the server notice that the network to us is cut, within seconds instead of hours: until then it would keep the locks of
/// what we were doing, and others would wait for them. Not as parameters of the connection: a pooler refuses those it does
/// not know. What the server does not know is left out, and what it refuses is no reason not to work.
async fn notice_a_cut(conn: &mut PgConnection) -> sqlx::Result<()> {
    let settings = "select set_config(s.name, wanted.value, false) from pg_settings s join (values \
         ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'), \
         ('tcp_user_timeout', '20000'), ('client_connection_check_interval', '10000')) \
         as wanted (name, value) on wanted.name = s.name";
    match sqlx::raw_sql(settings).execute(conn).await {
        Err(error) if error.as_database_error().is_none() => Err(error),
        Err(error) => {
            tracing::debug!(%error, "the server does not let us say when a connection counts as dead");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// A misspelt path must not become an empty database.
async fn open_file(path: &Path, pool: &SqlitePool, config: &DatabaseConfig) -> Result<(), Refusal> {
    if !path.exists() {
        return Err(Refusal::no_file(path, config));
    }
    pool.acquire().await.map(drop).map_err(|error| Refusal::of(&error, config))
}
