//! What the tests use from package registries, in a private folder: a stand-in for SQS and a PostgreSQL client from PyPI,
//! a PostgreSQL client from npm, those for Java and Go (and Go itself) from Debian. An install is made under another name and renamed when it is complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::guard::{self, Ending, Guarded};
use crate::machine;
use crate::{Result, target_folder};

/// A set of packages, installed together.
struct Set {
    name: &'static str,
    /// The program that installs them.
    needs: &'static str,
    /// A file that is there after a complete install.
    proof: &'static str,
    /// `$1` is the folder to install into; what follows are the packages.
    script: &'static str,
    packages: &'static [&'static str],
}

/// A virtual environment cannot be moved, since its programs name their folder: this one is made in its final place and
/// a note is written last.
const PYTHON: Set = Set {
    name: "python",
    needs: "python3",
    proof: "complete",
    script: "rm -rf \"$1\" && python3 -m venv \"$1\" && folder=$1 && shift && \
        \"$folder/bin/pip\" install --quiet --disable-pip-version-check \"$@\" && touch \"$folder/complete\"",
    packages: &["moto==5.2.5", "flask", "flask-cors", "psycopg[binary]"],
};

const NODE: Set = Set {
    name: "node",
    needs: "npm",
    proof: "node_modules/pg/package.json",
    script: "mkdir -p \"$1\" && cd \"$1\" && shift && echo '{\"private\":true}' > package.json && \
        npm install --no-audit --no-fund --no-update-notifier --ignore-scripts --fetch-retries=1 --loglevel=error \"$@\"",
    packages: &["pg@8"],
};

/// Unpacked, not installed: that needs no root and changes nothing of the machine.
const JAVA: Set = Set {
    name: "java",
    needs: "javac",
    proof: "usr/share/java/postgresql.jar",
    script: UNPACK,
    packages: &["libpostgresql-jdbc-java"],
};

const UNPACK: &str = "rm -rf \"$1\" && mkdir -p \"$1\" && cd \"$1\" && shift && apt-get -qq download \"$@\" && \
    for package in *.deb; do dpkg -x \"$package\" .; done && rm *.deb";

/// The package `golang-go` has no files but names the ones that have.
const GO: Set = Set {
    name: "go",
    needs: "apt-get",
    proof: "root/bin/go",
    script: "rm -rf \"$1\" && mkdir -p \"$1\" && cd \"$1\" && \
        go=$(apt-cache depends golang-go | sed -n 's/.*Depends: \\(golang-[0-9.]*\\)-go$/\\1/p') && \
        apt-get -qq download \"$go-go\" \"$go-src\" golang-github-lib-pq-dev && \
        for package in *.deb; do dpkg -x \"$package\" .; done && rm *.deb && ln -s usr/lib/go-* root",
    packages: &["golang-go", "golang-github-lib-pq-dev"],
};

/// Where the private packages are; `None` and a reason where they could not be had.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) python: Result<PathBuf>,
    pub(crate) node: Result<PathBuf>,
    pub(crate) java: Result<PathBuf>,
    pub(crate) go: Result<PathBuf>,
}

impl Packages {
    /// What could not be had, with the reason.
    pub(crate) fn absent(&self) -> Vec<(&'static str, String)> {
        let named = [
            ("Python packages", &self.python),
            ("Node packages", &self.node),
            ("Java's PostgreSQL driver", &self.java),
            ("Go and its PostgreSQL driver", &self.go),
        ];
        named.into_iter().filter_map(|(name, found)| Some((name, found.clone().err()?))).collect()
    }

    pub(crate) fn get(workspace: &Path) -> Self {
        Self {
            python: install(workspace, &PYTHON),
            node: install(workspace, &NODE),
            java: install(workspace, &JAVA),
            go: install(workspace, &GO),
        }
    }
}

fn install(workspace: &Path, set: &Set) -> Result<PathBuf> {
    if machine::folder_with(&[set.needs]).is_none() {
        return Err(format!("{} not found", set.needs));
    }
    let folder = cache(workspace)?.join(set.name);
    let _lock = lock(&folder)?;
    if !folder.join(set.proof).exists() {
        eprintln!("xtask: fetching {}", set.packages.join(", "));
        fetch(set, &folder)?;
    }
    Ok(folder)
}

fn cache(workspace: &Path) -> Result<PathBuf> {
    let target = target_folder(workspace);
    let cache = target.join("packages");
    fs::create_dir_all(&cache).map_err(|error| format!("cannot create {}: {error}", cache.display()))?;
    Ok(cache)
}

/// One install at a time.
fn lock(folder: &Path) -> Result<fs::File> {
    let path = folder.with_extension("lock");
    let file = fs::File::create(&path).and_then(|file| file.lock().map(|()| file));
    file.map_err(|error| format!("cannot lock {}: {error}", path.display()))
}

fn fetch(set: &Set, folder: &Path) -> Result<()> {
    let mut command = guard::command("sh", Ending::Terminate, None, None);
    command.args(["-ec", set.script, "install"]).arg(folder).args(set.packages).stdout(Stdio::null());
    match Guarded::start(command)?.wait()?.success() && folder.join(set.proof).exists() {
        true => Ok(()),
        false => Err(format!("installing {} failed; its messages are above", set.packages.join(", "))),
    }
}
