//! A question before anything that cannot be undone or touches many.

use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

/// `--yes` and `--dry-run`, as the commands that change many things have them.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Consent {
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Say how many it would be, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Asks, unless consent was given. `Err`: no.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{question} There is no terminal to ask on; add --yes")));
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::while_doing("read the answer"))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::sentence("nothing was changed")),
    }
}
