//! Copies of a private server: a replica that follows it and can be promoted, and a dump restored into another one.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Executor};

use super::programs::run;
use super::{PATIENCE, PostgresSetup, PrivatePostgres};
use crate::gate::Gate;

impl PrivatePostgres {
    /// A streaming replica of what it has now and will have. It does not wait for the replica when it commits.
    pub async fn replica(&self) -> Result<Self, String> {
        let gate = Gate::before(self.port).await;
        let setup = PostgresSetup { place: None, wal_apart: false, ..self.setup.clone() };
        let mut replica =
            PostgresSetup { password: self.password(), ..setup }.prepare(self.programs.clone())?;
        let password = self.password().map(|password| format!(" password={password}")).unwrap_or_default();
        let source = format!("host=127.0.0.1 port={} user=postgres{password}", gate.port());
        let mut command = self.programs.command("pg_basebackup");
        command.arg("-D").arg(&replica.data).args(["-d", &source]);
        command.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        run(command).await?;
        replica.replication = Some(gate);
        replica.start_again().await?;
        Ok(replica)
    }

    /// The way on which a replica gets its changes, for everything a gate can do to it.
    pub fn replication(&self) -> Option<&Gate> {
        self.replication.as_deref()
    }

    /// This replica gets no changes any more.
    ///
    /// # Panics
    /// If it is no replica.
    pub async fn cut_replication(&self) {
        self.replication().expect("it is a replica").shut().await;
    }

    /// This replica gets changes again, and catches up.
    ///
    /// # Panics
    /// If it is no replica.
    pub async fn mend_replication(&self) {
        self.replication().expect("it is a replica").open().await;
    }

    /// Waits until this replica has everything that its primary has now.
    pub async fn until_caught_up(&self, primary: &Self) -> Result<(), String> {
        let wanted = primary.ask("select pg_current_wal_insert_lsn()::text").await?;
        let there = format!("select (pg_last_wal_replay_lsn() >= '{wanted}')::text");
        let deadline = Instant::now() + PATIENCE;
        while self.ask(&there).await? != "true" {
            if Instant::now() > deadline {
                return Err(format!("the replica did not get as far as {wanted}"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// This replica becomes a server of its own, with what it has. Its primary is not asked.
    pub async fn promote(&self) -> Result<(), String> {
        match self.ask("select pg_promote()::text").await?.as_str() {
            "true" => Ok(()),
            _ => Err("the replica was not promoted in time".to_owned()),
        }
    }

    /// Dumps one of its databases and restores it into another server, which gets a database and roles of the same names.
    pub async fn dump_to(&self, other: &Self, database: &str) -> Result<(), String> {
        let (roles, dump) = (other.path("roles.sql"), other.path("dump"));
        self.client("pg_dumpall", &["--roles-only", "--file"], &roles).await?;
        self.client("pg_dump", &["--format=custom", "--dbname", database, "--file"], &dump).await?;
        other.create_if_absent(database).await?;
        // That its owner is there already is no mistake, so psql goes on after errors.
        other.client("psql", &["--quiet", "--dbname=postgres", "--file"], &roles).await?;
        other.client("pg_restore", &["--exit-on-error", "--dbname", database], &dump).await
    }

    async fn create_if_absent(&self, database: &str) -> Result<(), String> {
        let known = format!("select count(*)::text from pg_database where datname = '{database}'");
        if self.ask(&known).await? == "0" {
            let create = AssertSqlSafe(format!("create database \"{database}\""));
            self.admin().await?.execute(create).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Runs a client program against it, with a file as its last argument.
    async fn client(&self, program: &str, arguments: &[&str], file: &Path) -> Result<(), String> {
        let mut command = self.programs.command(program);
        command.args(["--username=postgres", "--port", &self.port.to_string(), "--host"]);
        command.arg(self.folder.path()).args(arguments).arg(file);
        run(command).await
    }

    async fn ask(&self, question: &str) -> Result<String, String> {
        let mut conn = self.admin().await?;
        let asked = sqlx::query_scalar(AssertSqlSafe(question)).fetch_one(&mut conn).await;
        asked.map_err(|error| format!("{question}: {error}"))
    }
}
