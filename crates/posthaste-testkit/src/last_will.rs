//! What is still done when a test is killed before it could clean up. Nobody handles SIGKILL, but a shell that reads from a pipe
//! of ours notices when its other end is gone.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Does its work if this process ends without dropping it.
#[derive(Debug)]
pub(crate) struct LastWill {
    shell: Child,
}

impl LastWill {
    /// A shell script, with what it finds as `$1`, `$2` and so on.
    pub(crate) fn write(script: &str, arguments: &[&OsStr]) -> Result<Self, String> {
        let mut command = Command::new("sh");
        // Nobody ever writes to the pipe. A group of its own: whoever ends ours must not end this.
        command.arg("-c").arg(format!("read -r nothing\n{script}")).arg("last-will").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let shell = command.spawn().map_err(|error| format!("a shell cannot be started: {error}"))?;
        Ok(Self { shell })
    }
}

impl Drop for LastWill {
    fn drop(&mut self) {
        // Killed before the pipe is closed, so that it does nothing.
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_is_done_when_its_owner_is_gone_and_not_when_it_was_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = folder.path().join("done");
        drop(LastWill::write("touch \"$1\"", &[done.as_os_str()]).expect("a shell"));
        assert!(!done.exists());
        let mut will = LastWill::write("touch \"$1\"", &[done.as_os_str()]).expect("a shell");
        assert!(!done.exists());
        // As it happens when the process ends.
        drop(will.shell.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done.exists() {
            assert!(Instant::now() < deadline, "nothing was done");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
