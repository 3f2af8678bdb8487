//! The `posthaste` command: reads the command line, runs one command, turns its end into an exit code.

use std::process::ExitCode;

use clap::Parser;

mod failure;
mod cli;
mod signals;
mod commands;

use cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    write_logs();
    let done = match cli.command {
        Command::Dev(options) => commands::dev::run(options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Logs go to stderr, and only if `RUST_LOG` asks for them: a command speaks to people in sentences of its own.
fn write_logs() {
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}
