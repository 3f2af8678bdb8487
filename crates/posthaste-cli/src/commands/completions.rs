//! `posthaste completions`: what a shell needs to complete commands.

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::operate::CompletionsOptions;
use crate::failure::Failure;
use crate::talk::out;

pub(crate) fn run(options: &CompletionsOptions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "posthaste", &mut script);
    out::bytes(&script)
}
