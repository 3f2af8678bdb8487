//! The servers a test run needs, as one thing: the machine's own PostgreSQL and a current one. Owns their environment
//! variables and the report on what was used and what was skipped.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use crate::machine::Account;
use crate::postgres::{self, Programs, Server, Skip};
use crate::{Result, without_arguments, workspace_root};

const DISTRIBUTION: &str = "POSTHASTE_TEST_POSTGRES";
const CURRENT: &str = "POSTHASTE_TEST_POSTGRES_CURRENT";

/// The servers of one run. Dropping them stops them.
pub(crate) struct Servers {
    distribution: Server,
    current: std::result::Result<Server, Skip>,
}

impl Servers {
    /// Gets what is missing and starts both. Only the machine's own PostgreSQL is indispensable.
    pub(crate) fn start() -> Result<Self> {
        let workspace = workspace_root()?;
        let folder = postgres::distribution()?;
        // Asked after the installation, which may have created the account.
        let account = Account::for_servers()?;
        let distribution = start(&Programs::probe(&folder, account)?, account)?;
        let current = postgres::current(&workspace, account)
            .and_then(|programs| start(&programs, account).map_err(Skip::unexpected));
        Ok(Self { distribution, current })
    }

    /// The variables by which tests find the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let current = self.current.iter().map(|server| (CURRENT, server.url()));
        std::iter::once((DISTRIBUTION, self.distribution.url())).chain(current).collect()
    }

    /// The variables that must not be set, because a test would talk to somebody else's server.
    pub(crate) fn absent(&self) -> Option<&'static str> {
        self.current.is_err().then_some(CURRENT)
    }

    /// Says which versions were used and what was skipped.
    pub(crate) fn report(&self) {
        let current = self.current.iter().map(|server| format!(" and {}", server.version));
        eprintln!("xtask: used PostgreSQL {}{}", self.distribution.version, current.collect::<String>());
        if let Err(skip) = &self.current {
            eprintln!("xtask: skipped: PostgreSQL 18 ({})", skip.reason);
        }
    }

    /// In CI, a skip that nobody planned would hide a gap for ever.
    pub(crate) fn skip_is_a_failure(&self) -> bool {
        let in_ci = env::var("CI").is_ok_and(|value| value == "true");
        in_ci && self.current.as_ref().is_err_and(|skip| skip.unexpected)
    }
}

fn start(programs: &Programs, account: Option<Account>) -> Result<Server> {
    let server = Server::start(programs, account)?;
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
