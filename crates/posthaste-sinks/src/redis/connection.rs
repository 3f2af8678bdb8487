//! A connection, opened on demand and thrown away after the first failure.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo,
    RedisResult, TlsCertificates,
};

use super::errors::explain;
use super::settings::RedisSettings;

/// What a server takes that does not tell its limit.
const USUAL_LONGEST: usize = 512 * 1024 * 1024;

/// After so much silence the server is asked whether it is still there: it may have closed the connection.
const SILENCE: Duration = Duration::from_secs(1);

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    shared: MultiplexedConnection,
    /// The longest word the server takes.
    pub(super) longest: usize,
    used: Mutex<Instant>,
}

impl Connection {
    /// Connects; every wait ends by the timeout. The error is a sentence.
    pub(super) async fn open(client: &Client, timeout: Duration) -> Result<Self, String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let opened = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut shared = opened.map_err(|error| explain(&error))?;
        let longest = longest(&mut shared).await.unwrap_or(USUAL_LONGEST);
        Ok(Self { shared, longest, used: Mutex::new(Instant::now()) })
    }

    /// To send something on it.
    pub(super) fn handle(&self) -> MultiplexedConnection {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shared.clone()
    }

    /// Whether it still works, as far as can be known without asking all the time.
    pub(super) async fn is_alive(&self) -> bool {
        let silent = self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        silent < SILENCE || redis::cmd("PING").exec_async(&mut self.handle()).await.is_ok()
    }
}

/// Not every server tells, and then it is the usual one.
async fn longest(connection: &mut MultiplexedConnection) -> Option<usize> {
    let asked = redis::cmd("CONFIG").arg("GET").arg("proto-max-bulk-len").query_async(connection).await;
    let answer: (String, String) = asked.ok()?;
    answer.1.parse().ok()
}

/// Knows how to connect; reads certificates, opens nothing. The error is a sentence.
pub(super) fn client(settings: &RedisSettings) -> Result<Client, String> {
    let (host, port) = (settings.host.clone(), settings.port);
    let mut login = RedisConnectionInfo::default().set_db(settings.database);
    if let Some(username) = &settings.username {
        login = login.set_username(username);
    }
    if let Some(password) = &settings.password {
        login = login.set_password(password.expose());
    }
    let plain = ConnectionAddr::Tcp(host.clone(), port);
    let info = plain.into_connection_info().map_err(|error| error.to_string())?.set_redis_settings(login);
    let client = match settings.tls.on {
        false => Client::open(info),
        true => {
            let encrypted = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
            Client::build_with_tls(info.set_addr(encrypted), certificates(settings)?)
        }
    };
    client.map_err(|error: redis::RedisError| error.to_string())
}

fn certificates(settings: &RedisSettings) -> Result<TlsCertificates, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let identity = |(certificate, key): &(std::path::PathBuf, std::path::PathBuf)| {
        Ok::<_, String>(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
    };
    Ok(TlsCertificates {
        client_tls: settings.tls.identity.as_ref().map(identity).transpose()?,
        root_cert: settings.tls.ca_file.as_deref().map(read).transpose()?,
    })
}

/// Asks one question.
pub(super) async fn ask<T: redis::FromRedisValue>(connection: &Connection, words: &[&str]) -> RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.query_async(&mut connection.handle()).await
}
