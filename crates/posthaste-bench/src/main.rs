//! Measures Posthaste side by side with what people would use instead. `cargo xtask bench` starts the server, builds the
//! peers and runs this.

mod measure;
mod work;
mod cluster;
mod bench;
mod ours;
mod peers;
mod rows;
mod report;

use std::process::ExitCode;

use clap::Parser;

use crate::bench::Bench;
use crate::cluster::Cluster;
use crate::measure::Result;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "posthaste-bench", about = "Measures Posthaste side by side with what people would use instead")]
struct Options {
    /// A PostgreSQL that nobody else uses; the user must be a superuser.
    #[arg(long, env = "POSTHASTE_BENCH_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// Small numbers: asserts counts, says nothing about time.
    #[arg(long)]
    quick: bool,
    /// Only these rows; `--list` names them.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How often everybody is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("posthaste-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<ExitCode> {
    let cluster = Cluster::at(&options.postgres)?;
    report::settings(&cluster.settings().await?);
    let bench = Bench { cluster, rounds: options.rounds, quick: options.quick };
    for row in rows::ROWS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == row.name) {
            continue;
        }
        eprintln!("{}: {}", row.name, row.about);
        for figure in (row.run)(&bench).await? {
            report::print(&figure);
        }
    }
    Ok(ExitCode::SUCCESS)
}
