//! A SQLite database of its own for every test: a file that goes away with it.

use posthaste::Posthaste;

use crate::kit::Kit;

/// A path for a SQLite file in a folder that goes away with the guard.
///
/// # Panics
/// If there is no temporary folder.
pub fn sqlite_file() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("posthaste.db");
    (folder, path)
}

/// A fresh SQLite file with Posthaste's tables in it.
#[derive(Debug)]
pub struct SqliteDatabase {
    /// A pool of connections to it.
    pub pool: sqlx::SqlitePool,
    /// The log in it.
    pub posthaste: Posthaste,
    /// Where it is.
    pub path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl SqliteDatabase {
    /// In a temporary folder that goes away with it.
    ///
    /// # Panics
    /// If the file cannot be created: a test cannot go on without it.
    pub async fn new() -> Self {
        let (folder, path) = sqlite_file();
        let pool = Self::connect(&path).await;
        let posthaste = Posthaste::sqlite(pool.clone());
        posthaste.migrate().await.expect("migrate");
        Self { pool, posthaste, path, _folder: folder }
    }

    /// The kit for what is in it.
    pub fn kit(&self) -> Kit {
        Kit::of(&self.posthaste)
    }

    /// Another handle with connections of its own, as another process would have.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub async fn open(path: &std::path::Path) -> Posthaste {
        Posthaste::sqlite(Self::connect(path).await)
    }

    async fn connect(path: &std::path::Path) -> sqlx::SqlitePool {
        sqlx::SqlitePool::connect_with(posthaste::sqlite_options(path)).await.expect("open the file")
    }
}
