//! Measures Posthaste side by side with what people would use instead. `cargo xtask bench` starts the server, builds the
//! peers and runs this.

mod measure;
mod work;
mod cluster;
mod peers;
mod bench;
mod ours;
mod worker;
mod rows;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::bench::Bench;
use crate::cluster::Cluster;
use crate::measure::{Figure, Result};
use crate::peers::program;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "posthaste-bench",
    about = "Measures Posthaste side by side with what people would use instead"
)]
struct Options {
    /// A PostgreSQL that nobody else uses; the user must be a superuser.
    #[arg(long)]
    postgres: Option<String>,
    /// The program `posthaste`, to be measured as a relay.
    #[arg(long)]
    relay: Option<PathBuf>,
    /// The folder with the peers written in Rust.
    #[arg(long)]
    rust_peers: Option<PathBuf>,
    /// The folder with the peers written for Node.
    #[arg(long)]
    node_peers: Option<PathBuf>,
    /// Small numbers: asserts counts, says nothing about time.
    #[arg(long)]
    quick: bool,
    /// Only these rows.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Names the rows and ends.
    #[arg(long)]
    list: bool,
    /// How often everybody is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Writes all samples to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.split_first() {
        Some((first, rest)) if first == worker::COMMAND => {
            worker::main(rest).await.map(|()| ExitCode::SUCCESS)
        }
        _ => run(Options::parse()).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("posthaste-bench: {error}");
        ExitCode::FAILURE
    })
}

async fn run(options: Options) -> Result<ExitCode> {
    if options.list {
        rows::ROWS.iter().for_each(|row| println!("{:<12} {}", row.name, row.about));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = options.only.iter().find(|name| !rows::ROWS.iter().any(|row| row.name == **name)) {
        return Err(format!("there is no row `{unknown}`; --list names them").into());
    }
    let postgres =
        options.postgres.ok_or("no --postgres URL; `cargo xtask bench` starts a server and gives it")?;
    let bench = Bench {
        cluster: Cluster::at(&postgres)?,
        rounds: if options.quick { 1 } else { options.rounds.max(1) },
        quick: options.quick,
        relay: options.relay,
        programs: program::all(options.rust_peers.as_ref(), options.node_peers.as_ref()),
    };
    let settings = bench.cluster.settings().await?;
    report::print_settings(&settings);
    let mut figures: Vec<Figure> = Vec::new();
    for row in rows::ROWS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == row.name) {
            continue;
        }
        eprintln!("{}: {}", row.name, row.about);
        for figure in (row.run)(&bench).await? {
            report::print(&figure);
            figures.push(figure);
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, report::json(&settings, &figures)?)?;
    }
    Ok(judge(&figures))
}

/// Only counts decide about the exit code: times belong to the machine.
fn judge(figures: &[Figure]) -> ExitCode {
    let broken: Vec<String> = figures
        .iter()
        .flat_map(|figure| figure.broken_counts().into_iter().map(move |demand| (figure, demand)))
        .map(|(figure, demand)| format!("{} of {}", figure.name, demand.who))
        .collect();
    match broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!("posthaste-bench: not reached: {}", broken.join(", "));
            ExitCode::FAILURE
        }
    }
}
