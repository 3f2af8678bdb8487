//! The servers a test run needs, as one thing: the machine's own PostgreSQL and a current one run all the time; tests
//! start brokers and servers that they take away themselves, from programs that are made sure of here. Owns the environment variables by which tests find
//! everything, and the report on what was used and what was skipped.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use crate::machine::Account;
use crate::packages::Packages;
use crate::postgres::{self, Programs, Server, Skip};
use crate::{Result, prepare, without_arguments, workspace_root};

const DISTRIBUTION: &str = "POSTHASTE_TEST_POSTGRES";
const CURRENT: &str = "POSTHASTE_TEST_POSTGRES_CURRENT";
const PROGRAMS: &str = "POSTHASTE_TEST_POSTGRES_PROGRAMS";
const PYTHON: &str = "POSTHASTE_TEST_PYTHON";
const MOTO: &str = "POSTHASTE_TEST_MOTO";
const NODE: &str = "POSTHASTE_TEST_NODE_MODULES";
const JDBC: &str = "POSTHASTE_TEST_JDBC";
const GO: &str = "POSTHASTE_TEST_GO";

/// What the distribution's server must do besides: a test of the bench counts statements.
const COUNTING: &[&str] = &["shared_preload_libraries=pg_stat_statements"];

/// The servers of one run. Dropping them stops them.
pub(crate) struct Servers {
    distribution: Server,
    /// For tests that need a server of their own, to take it away.
    programs: Programs,
    current: std::result::Result<Server, Skip>,
    packages: Packages,
}

impl Servers {
    /// Gets what is missing and starts both. Only the machine's own PostgreSQL is indispensable.
    pub(crate) fn start() -> Result<Self> {
        let workspace = workspace_root()?;
        prepare::prepare()?;
        let packages = Packages::get(&workspace);
        let folder = postgres::distribution()?;
        // Asked after the installation, which may have created the account.
        let account = Account::for_servers()?;
        let programs = Programs::probe(&folder, account)?;
        let distribution = start(&programs, account, COUNTING)?;
        let current = postgres::current(&workspace, account)
            .and_then(|programs| start(&programs, account, &[]).map_err(Skip::unexpected));
        Ok(Self { distribution, programs, current, packages })
    }

    /// The variables by which tests find the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            (DISTRIBUTION, self.distribution.url()),
            (PROGRAMS, self.programs.folder.display().to_string()),
        ];
        variables.extend(self.current.iter().map(|server| (CURRENT, server.url())));
        if let Ok(folder) = &self.packages.python {
            variables.push((PYTHON, folder.join("bin/python").display().to_string()));
            variables.push((MOTO, folder.join("bin/moto_server").display().to_string()));
        }
        if let Ok(folder) = &self.packages.node {
            variables.push((NODE, folder.join("node_modules").display().to_string()));
        }
        if let Ok(folder) = &self.packages.java {
            variables.push((JDBC, folder.join("usr/share/java/postgresql.jar").display().to_string()));
        }
        if let Ok(folder) = &self.packages.go {
            variables.push((GO, folder.display().to_string()));
        }
        variables
    }

    /// What could not be had, with the reason.
    fn skipped(&self) -> Vec<(&'static str, String)> {
        let mut skipped = prepare::absent_servers();
        skipped.extend(self.current.as_ref().err().map(|skip| ("PostgreSQL 18", skip.reason.clone())));
        skipped.extend(self.packages.absent());
        skipped
    }

    /// The variables that must not be set, because a test would talk to somebody else's server.
    pub(crate) fn absent(&self) -> Option<&'static str> {
        self.current.is_err().then_some(CURRENT)
    }

    /// Says which versions were used and what was skipped.
    pub(crate) fn report(&self) {
        let current = self.current.iter().map(|server| format!(" and {}", server.version));
        eprintln!("xtask: used PostgreSQL {}{}", self.distribution.version, current.collect::<String>());
        for (name, reason) in self.skipped() {
            eprintln!("xtask: skipped: {name} ({reason})");
        }
    }

    /// In CI, a skip that nobody planned would hide a gap for ever.
    pub(crate) fn skip_is_a_failure(&self) -> bool {
        let in_ci = env::var("CI").is_ok_and(|value| value == "true");
        let expected = self.current.as_ref().err().filter(|skip| !skip.unexpected);
        in_ci && self.skipped().iter().any(|(_, reason)| expected.is_none_or(|skip| skip.reason != *reason))
    }
}

fn start(programs: &Programs, account: Option<Account>, settings: &[&str]) -> Result<Server> {
    let server = Server::start(programs, account, settings)?;
    eprintln!("xtask: PostgreSQL {} runs on port {}", server.version, server.port);
    Ok(server)
}

/// `cargo xtask servers`: for people who want to run `cargo test` by hand.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    without_arguments(args, || {
        let servers = Servers::start()?;
        for (name, value) in servers.variables() {
            println!("export {name}={value}");
        }
        servers.report();
        eprintln!("xtask: the servers stop at Ctrl-C or at the end of standard input");
        io::copy(&mut io::stdin().lock(), &mut io::sink())
            .map_err(|error| format!("standard input: {error}"))?;
        Ok(ExitCode::SUCCESS)
    })
}
