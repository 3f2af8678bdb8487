//! The `posthaste` command: reads the command line, runs one command, turns its end into an exit code.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

mod failure;
mod talk;
mod cli;
mod signals;
mod registry;
mod config;
mod logs;
mod database;
mod context;
mod commands;

use cli::{Cli, Command};
use failure::Failure;

/// How long the end waits for writes that hang, in a pipe nobody reads or on a disk that is gone.
const HANGING: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::while_doing("start")(error).report(),
    };
    let done = runtime.block_on(run(cli));
    runtime.shutdown_timeout(HANGING);
    done.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    if !matches!(command, Command::Relay(_)) {
        logs::on_demand()?;
    }
    match command {
        Command::Relay(options) => commands::relay::run(&global, &options).await,
        Command::Dev(options) => commands::dev::run(options, global.json).await,
        Command::Init(options) => commands::init::run(&global, &options),
        Command::Check(options) => commands::check::run(&global, &options).await,
        Command::Doctor(_) => commands::doctor::run(&global).await,
        Command::Migrate(options) => commands::migrate::run(&global, &options).await,
        Command::Version(_) => commands::version::run(&global),
        Command::Operate(command) => commands::operate::run(*command, &global).await,
    }
}
