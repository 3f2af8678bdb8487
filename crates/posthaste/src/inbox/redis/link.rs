//! The connection to Redis: one for all clones of a guard, and another one if it falls silent.
//!
//! A connection that breaks is opened again by its manager. One that hears nothing any more, because a firewall forgot it or its
//! peer went without a word, is not: to the manager a late answer is no reason. Here it is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult};

/// How long one attempt to connect, and one answer, may take.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Link {
    now: Arc<Mutex<Now>>,
    /// Nobody can open another one like that of the caller.
    client: Option<Arc<Client>>,
}

struct Now {
    connection: ConnectionManager,
    /// How many there were before.
    number: u64,
}

impl Link {
    pub(super) async fn open(url: &str) -> RedisResult<Self> {
        let client = Client::open(url)?;
        let connection = ConnectionManager::new_with_config(client.clone(), config()).await?;
        Ok(Self { client: Some(Arc::new(client)), ..Self::over(connection) })
    }

    pub(super) fn over(connection: ConnectionManager) -> Self {
        Self { now: Arc::new(Mutex::new(Now { connection, number: 0 })), client: None }
    }

    /// Asks something. If no answer came in time, the next question goes over a new connection.
    pub(super) async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&mut ConnectionManager) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let (mut connection, number) = self.with_now(|now| (now.connection.clone(), now.number));
        let answer = question(&mut connection).await;
        if answer.as_ref().is_err_and(redis::RedisError::is_timeout) {
            self.replace(number);
        }
        answer
    }

    /// Of many that waited for the same connection the first one replaces it.
    fn replace(&self, number: u64) {
        let Some(client) = &self.client else { return };
        // Connects when it is first used.
        let Ok(connection) = ConnectionManager::new_lazy_with_config(Client::clone(client), config()) else {
            return;
        };
        self.with_now(|now| {
            if now.number == number {
                *now = Now { connection, number: number + 1 };
            }
        });
    }

    fn with_now<T>(&self, look: impl FnOnce(&mut Now) -> T) -> T {
        look(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config() -> ConnectionManagerConfig {
    ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT))
}
