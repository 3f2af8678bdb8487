//! Who may connect to a private server: a password and a certificate that change while it runs.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Executor};

use super::{PATIENCE, PrivatePostgres};
use crate::brokers::certificate::Certificate;

impl PrivatePostgres {
    /// From now on new connections need this password, if the server was set up with one. Open ones stay.
    ///
    /// # Panics
    /// If the password is more than letters and digits: it is written into URLs.
    pub async fn change_password(&self, password: &str) -> Result<(), String> {
        assert!(password.chars().all(|c| c.is_ascii_alphanumeric()), "letters and digits only");
        let change = AssertSqlSafe(format!("alter role postgres password '{password}'"));
        self.admin().await?.execute(change).await.map_err(|error| error.to_string())?;
        *self.password.lock().unwrap_or_else(PoisonError::into_inner) = Some(password.to_owned());
        Ok(())
    }

    /// From now on new connections see this certificate, if the server was set up with one. Open ones stay.
    pub async fn change_certificate(&self, certificate: &Certificate) -> Result<(), String> {
        self.copy(certificate)?;
        let before = self.loaded().await?;
        if let Some(running) = self.running().as_mut() {
            running.process.send(Signal::HUP);
        }
        let deadline = Instant::now() + PATIENCE;
        while self.loaded().await? == before {
            if Instant::now() > deadline {
                return Err("PostgreSQL did not read its configuration again".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// When the server read its configuration, as a new connection sees it.
    async fn loaded(&self) -> Result<String, String> {
        let mut conn = self.admin().await?;
        let asked = sqlx::query_scalar("select pg_conf_load_time()::text").fetch_one(&mut conn).await;
        asked.map_err(|error| error.to_string())
    }
}
