//! A file system that is small enough to be filled. It lives in memory and goes with the test.

use std::fs::{File, remove_file};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::last_will::LastWill;

/// A mounted tmpfs. Dropping it unmounts it: drop what lives in it before.
#[derive(Debug)]
pub struct Tmpfs {
    folder: TempDir,
    _will: LastWill,
}

impl Tmpfs {
    /// Mounts one that everybody may write to, or says why that is not allowed.
    pub fn mount(mebibytes: u32) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may mount a file system".to_owned());
        }
        let folder = tempfile::Builder::new().prefix("posthaste-tmpfs-").tempdir_in("/tmp");
        let folder = folder.map_err(|error| error.to_string())?;
        let script = "umount -l \"$1\"; rmdir \"$1\"";
        let will = LastWill::write(script, &[folder.path().as_os_str()])?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=1777"), "posthaste"]);
        let output = mount.arg(folder.path()).output().map_err(|error| format!("mount: {error}"))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!("a file system cannot be mounted here: {}", words.trim()));
        }
        Ok(Self { folder, _will: will })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the room that is left.
    ///
    /// # Panics
    /// If something else than the lack of room prevents that.
    pub fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.filler()).expect("a file");
        let page = [0; 4096];
        let full = loop {
            if let Err(error) = file.write_all(&page) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    }

    /// Gives it back.
    pub fn make_room(&self) {
        // Nothing was taken if there is no such file.
        remove_file(self.filler()).ok();
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Whatever is still open in it keeps it in memory until it is closed, but nobody sees it any more.
        let mut unmount = Command::new("umount");
        unmount.arg("-l").arg(self.path()).stdout(Stdio::null()).stderr(Stdio::null());
        if !unmount.status().is_ok_and(|status| status.success()) {
            eprintln!("the file system {} of a test could not be unmounted", self.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_system_takes_nothing_until_there_is_room() {
        let tmpfs = match Tmpfs::mount(1) {
            Err(reason) => return eprintln!("skipped: {reason}"),
            Ok(tmpfs) => tmpfs,
        };
        let file = tmpfs.path().join("file");
        std::fs::write(&file, "before").expect("there is room");
        tmpfs.fill();
        let refused = std::fs::write(&file, [1; 8192]).expect_err("there is no room");
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        tmpfs.make_room();
        std::fs::write(&file, [1; 8192]).expect("there is room again");
        let path = tmpfs.path().to_owned();
        drop(tmpfs);
        assert!(!path.exists());
    }
}
