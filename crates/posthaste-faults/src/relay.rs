//! Relays of the standard trial: the program `posthaste relay` as it is shipped, one process each.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::finding::Result;

/// The subscription of every trial.
pub(crate) const SUBSCRIPTION: &str = "trial";

/// A secret as the standard wants it, which protects nothing.
const SECRET: &str = "whsec_cG9zdGhhc3RlLWZhdWx0cy10cmlhbC1zZWNyZXQtMDE=";

/// What a trial may set about its subscription.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) lanes: usize,
    pub(crate) batch: usize,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    /// Further lines of the database's section.
    pub(crate) database: String,
    /// Further lines of the subscription's section.
    pub(crate) more: String,
    /// The whole section of the sink, if it is not the collector's.
    pub(crate) sink: Option<String>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            lanes: 2,
            batch: 20,
            lease: Duration::from_secs(2),
            poll: Duration::from_millis(500),
            database: String::new(),
            more: String::new(),
            sink: None,
        }
    }
}

/// A lane claims its next batch while the last one is settled.
const BATCHES_IN_FLIGHT: usize = 2;

impl Plan {
    /// How many events so many incidents may repeat: what one relay can have in hand, each time.
    pub(crate) fn duplicates_of(&self, incidents: usize) -> usize {
        incidents * self.lanes * BATCHES_IN_FLIGHT * self.batch
    }

    fn configuration(&self, name: &str, port: u16) -> Result<String> {
        let Self { lanes, batch, lease, poll, database, more, sink } = self;
        let mut text = String::new();
        writeln!(
            text,
            "[database]\nurl = {{ file = \"{name}.url\" }}\n{database}\n[relay]\nname = {name:?}\nlisten = \"off\"\nlog = \"pretty\""
        )?;
        writeln!(text, "[subscriptions.{SUBSCRIPTION}]\nlanes = {lanes}\nbatch_size = {batch}")?;
        writeln!(text, "lease = \"{}ms\"\npoll_interval = \"{}ms\"", lease.as_millis(), poll.as_millis())?;
        writeln!(text, "{more}\n[subscriptions.{SUBSCRIPTION}.sink]")?;
        match sink {
            Some(sink) => writeln!(text, "{sink}")?,
            None => writeln!(
                text,
                "type = \"webhook\"\nurl = \"http://127.0.0.1:{port}/{name}\"\nallow_private = true\n\
                 secrets = [{{ env = \"FAULTS_SECRET\" }}]"
            )?,
        }
        Ok(text)
    }
}

/// A relay process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Relay {
    child: Child,
    log: PathBuf,
    /// The file with the URL of its database.
    url: PathBuf,
}

impl Relay {
    /// Starts one, with its configuration and log in `folder`. It does not wait for it to deliver.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        name: &str,
        plan: &Plan,
        database: &str,
        port: u16,
    ) -> Result<Self> {
        let (file, log) = (folder.join(format!("{name}.toml")), folder.join(format!("{name}.log")));
        fs::write(&file, plan.configuration(name, port)?)?;
        let url = folder.join(format!("{name}.url"));
        fs::write(&url, database)?;
        let out = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(program)
            .args(["relay", "--config"])
            .arg(&file)
            .env("FAULTS_SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()?;
        Ok(Self { child, log, url })
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGSTOP: it is there, holds everything, and does nothing.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Its URL is another one, and SIGHUP says so.
    pub(crate) fn log_in(&self, database: &str) -> Result<()> {
        fs::write(&self.url, database)?;
        self.signal(Signal::HUP)
    }

    /// SIGTERM, and waits until it has ended.
    pub(crate) async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() > deadline => {
                    return Err(format!("a relay goes on a minute after SIGTERM:\n{}", self.words()).into());
                }
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Whether it still runs: a relay must survive every fault by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// The end of its log.
    pub(crate) fn words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("no process id")?;
        Ok(kill_process(id, signal)?)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended by itself, which is what we want.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
