//! Server programs started by tests: found on the machine, given a folder and a port of their own, ended with the test.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

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

    /// SIGSTOP: it stands still and keeps everything, as a machine that swaps or a container that was frozen.
    pub fn pause(&mut self) {
        self.send(Signal::STOP);
    }

    /// SIGCONT, after [`pause`](Self::pause).
    pub fn go_on(&mut self) {
        self.send(Signal::CONT);
    }

    /// SIGTERM: asks it to end. [`wait`](Self::wait) says how it did.
    pub fn terminate(&mut self) {
        self.send(Signal::TERM);
    }

    /// A signal, if it still runs: afterwards its id may be somebody else's.
    pub(crate) fn send(&mut self, signal: Signal) {
        if self.is_running() {
            kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
        }
    }

    /// Until it ends, for at most so long. `None` means that it still runs.
    pub async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.status() {
                None if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(10)).await,
                status => return status,
            }
        }
    }

    /// Whether it has not ended. A paused one runs.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// How it ended, if it did.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
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
    while !is_listening(port) {
        assert!(Instant::now() < deadline, "nobody listens on port {port} after a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether somebody listens on a port of this machine.
pub(crate) fn is_listening(port: u16) -> bool {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> (Process, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).current_dir(folder.path());
        (Process::start(command, &folder.path().join("log")), folder)
    }

    async fn until(fact: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !fact() {
            assert!(Instant::now() < deadline, "it never came true");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn state(process: &Process) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it is there");
        text.rsplit(") ").next().expect("a state")[..1].to_owned()
    }

    #[tokio::test]
    async fn a_paused_process_stands_still_until_it_goes_on() {
        let (mut process, _folder) = shell("while :; do sleep 0.01; done");
        process.pause();
        until(|| state(&process) == "T").await;
        assert!(process.is_running());
        process.go_on();
        until(|| state(&process) != "T").await;
        process.pause();
        process.kill();
        assert!(!process.is_running(), "a kill reaches it while it stands still");
    }

    #[tokio::test]
    async fn a_process_says_how_it_ended() {
        let (mut process, folder) = shell("trap 'exit 7' TERM; touch ready; while :; do sleep 0.01; done");
        assert_eq!(process.wait(Duration::ZERO).await, None);
        until(|| folder.path().join("ready").exists()).await;
        process.terminate();
        assert_eq!(process.wait(PATIENCE).await.and_then(|status| status.code()), Some(7));
        process.terminate();
        let (mut process, _folder) = shell("exec sleep 1000");
        process.terminate();
        assert_eq!(process.wait(PATIENCE).await.and_then(|status| status.signal()), Some(15));
    }
}
