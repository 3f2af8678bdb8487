//! RabbitMQ from the distribution's package, without its service: as whoever runs the test, in a temporary folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use crate::process::{Process, free_port, program, until_listening};

/// The package's own programs. Those in /usr/sbin change the user and insist on /var/lib.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// A broker. Dropping it ends it.
#[derive(Debug)]
pub struct RabbitMq {
    server: Mutex<Option<Process>>,
    /// The port mapper of Erlang: ours, in the foreground, or the broker would start one that outlives it.
    _mapper: Process,
    ports: Ports,
    folder: TempDir,
}

#[derive(Debug)]
struct Ports {
    amqp: u16,
    mapper: u16,
    distribution: u16,
}

/// The broker that the tests of a process share.
static SHARED: tokio::sync::Mutex<Weak<RabbitMq>> = tokio::sync::Mutex::const_new(Weak::new());

impl RabbitMq {
    /// One broker for all tests that run at the moment, because it takes seconds to start. It goes with the last of
    /// them. A test that takes it away needs one of its own.
    pub async fn shared() -> Result<Arc<Self>, String> {
        let mut shared = SHARED.lock().await;
        if let Some(broker) = shared.upgrade() {
            return Ok(broker);
        }
        let broker = Arc::new(Self::start("max_message_size = 1048576").await?);
        *shared = Arc::downgrade(&broker);
        Ok(broker)
    }

    /// A broker of its own, with more lines for its configuration file.
    pub async fn start(configuration: &str) -> Result<Self, String> {
        let mapper = program("epmd").filter(|_| Path::new(PROGRAMS).join("rabbitmq-server").is_file());
        let mapper = mapper.ok_or("there is no RabbitMQ; install the package rabbitmq-server")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let ports = Ports { amqp: free_port(), mapper: free_port(), distribution: free_port() };
        let base = format!(
            "listeners.tcp.default = 127.0.0.1:{}\nloopback_users = none\ndisk_free_limit.absolute = 50MB\n",
            ports.amqp
        );
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("rabbitmq.conf", &(base + configuration + "\n")).map_err(|error| error.to_string())?;
        write("enabled_plugins", "[].").map_err(|error| error.to_string())?;
        let mut command = Command::new(mapper);
        command.args(["-address", "127.0.0.1", "-port", &ports.mapper.to_string()]);
        let mapper = Process::start(&mut command, &folder.path().join("epmd.log"));
        until_listening(ports.mapper).await;
        let broker = Self { server: Mutex::default(), _mapper: mapper, ports, folder };
        broker.bring_back().await;
        Ok(broker)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    /// Its folder, with configuration, log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// SIGKILL. What it confirmed must still be there after [`bring_back`](Self::bring_back).
    pub fn kill(&self) {
        drop(self.running().take());
    }

    /// Starts it on the same port and folder, and waits until it listens.
    pub async fn bring_back(&self) {
        let mut command = self.command("rabbitmq-server");
        // So that the script becomes the broker instead of being its parent: a kill then reaches it.
        command.env("RABBITMQ_ALLOW_INPUT", "1").arg("-noinput");
        *self.running() = Some(Process::start(&mut command, &self.path("server.log")));
        until_listening(self.ports.amqp).await;
    }

    /// Runs `rabbitmqctl` and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.command("rabbitmqctl").args(arguments).output().expect("rabbitmqctl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Its version.
    pub fn version(&self) -> String {
        format!("RabbitMQ {}", self.ctl(&["version"]).trim())
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(Path::new(PROGRAMS).join(name));
        command
            .env("HOME", self.folder.path())
            .env("RABBITMQ_NODENAME", format!("test{}@localhost", self.ports.amqp))
            .env("RABBITMQ_CONFIG_FILE", self.path("rabbitmq.conf"))
            .env("RABBITMQ_MNESIA_BASE", self.path("mnesia"))
            .env("RABBITMQ_LOG_BASE", self.path("log"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.path("enabled_plugins"))
            .env("RABBITMQ_PID_FILE", self.path("pid"))
            .env("RABBITMQ_DIST_PORT", self.ports.distribution.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.ports.mapper.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            .env("LANG", "C.UTF-8");
        command
    }
}
