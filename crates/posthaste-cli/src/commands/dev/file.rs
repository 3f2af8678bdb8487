//! The database file of `posthaste dev`: temporary, or one that stays. Says in a sentence why a path cannot be used.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use posthaste::sqlite_options;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tempfile::TempDir;

use crate::failure::Failure;

/// What every SQLite database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the data is. A temporary folder goes away when this is dropped.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl DatabaseFile {
    pub(crate) fn choose(kept: Option<&Path>) -> Result<Self, Failure> {
        match kept {
            Some(path) => Self::kept(path),
            None => Self::temporary(),
        }
    }

    fn temporary() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("posthaste-dev-")
            .tempdir()
            .map_err(Failure::while_doing("make a temporary folder (give a file with --database instead)"))?;
        Ok(Self { path: folder.path().join("posthaste.db"), temporary: Some(folder) })
    }

    fn kept(path: &Path) -> Result<Self, Failure> {
        match problem_with(path) {
            None => Ok(Self { path: path.to_owned(), temporary: None }),
            Some(problem) => Err(Failure::sentence(format!("--database {}: {problem}", path.display()))),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    pub(crate) async fn open(&self) -> Result<SqlitePool, Failure> {
        let options = sqlite_options(&self.path);
        let pool = SqlitePoolOptions::new().max_connections(8).connect_with(options).await;
        pool.map_err(|error| self.unusable(&error))
    }

    /// For what only the database itself can find wrong with the file.
    pub(crate) fn unusable(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::sentence(format!("the database {} cannot be used: {error}", self.path.display()))
    }
}

/// What is wrong with a path, if anything. The file is created here if need be: trying is the only honest test of
/// whether one may write.
fn problem_with(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        return Some("this is a folder; give the path of a file, existing or new".to_owned());
    }
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Some(format!("there is no folder {}; create it first", folder.display()));
    }
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    match opened {
        Err(error) => Some(format!("this file cannot be written: {error}")),
        Ok(file) if !empty_or_sqlite(&file) => {
            Some("this file is not a SQLite database, and was left as it is".to_owned())
        }
        Ok(_) => None,
    }
}

fn empty_or_sqlite(file: &File) -> bool {
    let mut head = Vec::new();
    let read = file.take(MAGIC.len() as u64).read_to_end(&mut head);
    read.is_ok() && (head.is_empty() || head == MAGIC)
}
