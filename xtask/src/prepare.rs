//! `cargo xtask prepare`: what builds and tests need from the distribution. Servers that cannot be had are skipped by name.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::packages::Packages;
use crate::{Result, apt, machine, without_arguments, workspace_root};

/// Something from a package of the distribution.
struct Need {
    /// What it is for, as people call it.
    name: &'static str,
    /// There if any of these files is.
    files: &'static [&'static str],
    package: &'static str,
}

/// Kafka's client is C code and is compiled with the machine's own OpenSSL and zlib.
const BUILD: [Need; 5] = [
    Need { name: "a C compiler", files: &["/usr/bin/cc", "/usr/bin/gcc"], package: "gcc" },
    Need { name: "make", files: &["/usr/bin/make"], package: "make" },
    Need { name: "pkg-config", files: &["/usr/bin/pkg-config", "/usr/bin/pkgconf"], package: "pkg-config" },
    Need { name: "OpenSSL's headers", files: &["/usr/include/openssl/ssl.h"], package: "libssl-dev" },
    Need { name: "zlib's headers", files: &["/usr/include/zlib.h"], package: "zlib1g-dev" },
];

const SERVERS: [Need; 4] = [
    Need { name: "NATS", files: &["/usr/sbin/nats-server", "/usr/bin/nats-server"], package: "nats-server" },
    Need { name: "RabbitMQ", files: &["/usr/lib/rabbitmq/bin/rabbitmq-server"], package: "rabbitmq-server" },
    Need {
        name: "Redis",
        files: &["/usr/bin/redis-server", "/usr/sbin/redis-server"],
        package: "redis-server",
    },
    Need { name: "PgBouncer", files: &["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"], package: "pgbouncer" },
];

/// Google's emulator where the machine has it; else Debian's Go sources of a smaller one.
const EMULATOR: &str = "/usr/lib/google-cloud-sdk/platform/pubsub-emulator/lib";
const PUBSUB: [Need; 2] = [
    Need { name: "Pub/Sub", files: &[EMULATOR, "/usr/bin/go"], package: "golang-go" },
    Need {
        name: "Pub/Sub",
        files: &[EMULATOR, "/usr/share/gocode/src/cloud.google.com/go/pubsub"],
        package: "golang-google-cloud-dev",
    },
];

/// What producers in other languages need and is too large to unpack.
const LANGUAGES: [Need; 1] =
    [Need { name: "Java", files: &["/usr/bin/javac"], package: "default-jdk-headless" }];

/// What moves the clock of a process, for the scorecard.
const FAULTS: [Need; 1] = [Need {
    name: "libfaketime",
    files: &[
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ],
    package: "libfaketime",
}];

impl Need {
    fn is_there(&self) -> bool {
        self.files.iter().any(|file| Path::new(file).exists())
            || machine::folder_with(&[self.package]).is_some()
    }
}

fn all() -> impl Iterator<Item = &'static Need> {
    BUILD.iter().chain(&SERVERS).chain(&PUBSUB).chain(&LANGUAGES).chain(&FAULTS)
}

fn missing() -> Vec<&'static str> {
    all().filter(|need| !need.is_there()).map(|need| need.package).collect()
}

/// Installs what is missing if we may. Without the means to build there is no way on; without a server there is.
pub(crate) fn prepare() -> Result<()> {
    if !missing().is_empty() && apt::may_install() {
        // What could not be installed is named below, or skipped by name at the end of the tests.
        apt::install(missing).unwrap_or_else(|sentence| eprintln!("xtask: {sentence}"));
    }
    match BUILD.iter().find(|need| !need.is_there()) {
        Some(need) => Err(format!(
            "there is no {} here; install it (on Debian and Ubuntu: `apt-get install {}` as root)",
            need.name, need.package
        )),
        None => Ok(()),
    }
}

/// The servers that are not there, with the package that has them.
pub(crate) fn absent_servers() -> Vec<(&'static str, String)> {
    let absent = SERVERS.iter().chain(&PUBSUB).filter(|need| !need.is_there());
    absent.map(|need| (need.name, format!("the package {} is not installed", need.package))).collect()
}

pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    without_arguments(args, || {
        prepare()?;
        let packages = Packages::get(&workspace_root()?);
        for (name, reason) in packages.absent().into_iter().chain(absent_servers()) {
            eprintln!("xtask: no {name}: {reason}");
        }
        Ok(ExitCode::SUCCESS)
    })
}
