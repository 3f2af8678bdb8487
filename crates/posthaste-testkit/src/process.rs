//! Server programs started by tests: found on the machine, given a folder and a port of their own, ended with the test.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts it; what it prints goes to `log` in case somebody has to look.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let out = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let again = out.try_clone().expect("the same file");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(again).spawn();
        Self { child: child.unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program())) }
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait().map(drop)).expect("it could be killed");
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which is what we want.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A program of the machine, also where only an administrator's PATH leads.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/lib/rabbitmq/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A port that nobody listens on now. Not one of those that the system hands out by itself: until a server is ready to listen
/// on such a port, any connection of the machine may have got it as its own end.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| fastrand::u16(15_000..32_000)).take(1_000);
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a free port")
}

/// Waits until somebody listens on a port of this machine.
///
/// # Panics
/// If nobody does within a minute.
pub async fn until_listening(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while connect(port).is_err() {
        assert!(Instant::now() < deadline, "nobody listens on port {port} after a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1))
}
