//! What a private server is to be like.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::PrivatePostgres;
use super::programs::{Programs, run};
use crate::account::{folder_for, give_to};
use crate::brokers::certificate::Certificate;
use crate::process::free_port;

/// What a private server is to be like; see [`PrivatePostgres::setup`].
#[derive(Debug, Clone, Default)]
pub struct PostgresSetup {
    pub(super) settings: Vec<String>,
    pub(super) place: Option<PathBuf>,
    pub(super) wal_apart: bool,
    pub(super) password: Option<String>,
    pub(super) certificate: Option<Certificate>,
}

impl PostgresSetup {
    /// Lines of its configuration, such as `max_connections=20`. They win over the usual ones.
    pub fn settings(mut self, settings: &[&str]) -> Self {
        self.settings.extend(settings.iter().map(ToString::to_string));
        self
    }

    /// Its data live in this folder instead of a temporary one: a file system that can be filled, for example.
    pub fn data_in(mut self, folder: &Path) -> Self {
        self.place = Some(folder.to_owned());
        self
    }

    /// Its write-ahead log does not live there. A full disk then refuses statements; where the write-ahead log cannot be
    /// written, the server ends.
    pub fn wal_apart(mut self) -> Self {
        self.wal_apart = true;
        self
    }

    /// Connections over TCP need this password (SCRAM), of letters and digits. Otherwise everybody is trusted.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// It offers TLS with this certificate.
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.certificate = Some(certificate.clone());
        self
    }

    /// Starts it, or says what is missing.
    pub async fn start(self) -> Result<PrivatePostgres, String> {
        let server = self.prepare(Programs::find()?)?;
        server.initialise().await?;
        server.start_again().await?;
        Ok(server)
    }

    /// A server that has an empty data folder.
    pub(super) fn prepare(self, programs: Programs) -> Result<PrivatePostgres, String> {
        let problem = |error: std::io::Error| format!("a folder for PostgreSQL: {error}");
        let folder = folder_for(programs.account).map_err(problem)?;
        let data = self.place.as_deref().unwrap_or(folder.path()).join("data");
        // A server refuses data that others may read.
        let made = DirBuilder::new().mode(0o700).create(&data);
        made.and_then(|()| give_to(programs.account, &data)).map_err(problem)?;
        let server = PrivatePostgres {
            running: Default::default(),
            programs,
            port: free_port(),
            password: self.password.clone().into(),
            data,
            replication: None,
            setup: self,
            folder,
        };
        if let Some(certificate) = &server.setup.certificate {
            server.copy(certificate)?;
        }
        Ok(server)
    }
}

impl PrivatePostgres {
    async fn initialise(&self) -> Result<(), String> {
        let mut command = self.programs.command("initdb");
        command.arg("-D").arg(&self.data);
        command.args(["-U", "postgres", "-E", "UTF8", "--locale=C", "-N", "--auth-local=trust"]);
        let file = self.path("password");
        match self.password() {
            None => command.arg("--auth-host=trust"),
            Some(password) => {
                std::fs::write(&file, password)
                    .and_then(|()| give_to(self.programs.account, &file))
                    .map_err(|error| format!("a file for the password: {error}"))?;
                command.arg("--auth-host=scram-sha-256").arg("--pwfile").arg(&file)
            }
        };
        if self.setup.wal_apart {
            command.arg("--waldir").arg(self.path("wal"));
        }
        run(command).await
    }
}
