//! The `posthaste` command: reads the command line, runs one command, turns its end into an exit code.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod failure;
mod talk;
mod cli;
mod signals;
mod context;
mod commands;

use cli::{Cli, Command};
use failure::Failure;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn run(cli: Cli) -> Result<(), Failure> {
    write_logs()?;
    match cli.command {
        Command::Dev(options) => commands::dev::run(options).await,
        Command::Operate(command) => commands::operate::run(*command, &cli.global).await,
    }
}

/// Logs go to stderr, and only if `RUST_LOG` asks for them, as in `posthaste=debug`: a command speaks to people in
/// sentences of its own. Plain targets instead of the env-filter, whose regular expressions cost seconds of first build.
fn write_logs() -> Result<(), Failure> {
    let Ok(wanted) = std::env::var("RUST_LOG") else { return Ok(()) };
    let problem = |error| Failure::sentence(format!("RUST_LOG={wanted} is not understood: {error}"));
    let targets: Targets = wanted.parse().map_err(problem)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
    Ok(())
}
