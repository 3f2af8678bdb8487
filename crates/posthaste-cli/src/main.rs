//! The `posthaste` command: reads the command line, runs one command, turns its end into an exit code.

use std::process::ExitCode;

use clap::Parser;

mod failure;
mod cli;
mod signals;
mod config;
mod logs;
mod database;
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
    let Cli { global, command } = cli;
    if !matches!(command, Command::Relay(_)) {
        logs::on_demand()?;
    }
    match command {
        Command::Relay(options) => commands::relay::run(&global, &options).await,
        Command::Dev(options) => commands::dev::run(options).await,
        Command::Init(options) => commands::init::run(&global, &options),
        Command::Check(options) => commands::check::run(&global, &options).await,
        Command::Migrate(options) => commands::migrate::run(&global, &options).await,
        Command::Version(_) => commands::version::run(&global),
    }
}
