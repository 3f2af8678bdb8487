//! Measures Posthaste side by side with what people would use instead. `cargo xtask bench` starts the server, builds the
//! peers and runs this.

mod stolen;
mod measure;
mod work;
mod cluster;
mod peers;
mod bench;
mod ours;
mod worker;
mod rows;
mod report;
mod run;
mod docs;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::bench::Bench;
use crate::cluster::Cluster;
use crate::measure::{Figure, Result};
use crate::peers::program;
use crate::run::Run;

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
    /// Writes all samples to this file, after every row.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes charts, and the measured part of benchmarks.md, into this folder.
    #[arg(long, value_name = "FOLDER")]
    docs: Option<PathBuf>,
    /// Measures nothing: writes them from a file that --json has written, or from several with different rows of one machine.
    #[arg(long, value_name = "FILE", requires = "docs", conflicts_with = "json")]
    from: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.split_first() {
        Some((first, rest)) if first == worker::COMMAND => {
            worker::main(rest).await.map(|()| ExitCode::SUCCESS)
        }
        #[cfg(feature = "brokers")]
        Some((first, _)) if first == rows::brokers::receiver::COMMAND => {
            rows::brokers::receiver::main().await.map(|()| ExitCode::SUCCESS)
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
    check(&options)?;
    if let (Some(folder), [_, ..]) = (&options.docs, &options.from[..]) {
        docs::write(folder, &Run::read_all(&options.from)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = measure(&options).await?;
    if let Some(folder) = &options.docs {
        docs::write(folder, &run)?;
    }
    Ok(judge(&run.figures))
}

/// Refuses at once what would be refused after hours of measuring.
fn check(options: &Options) -> Result<()> {
    if let Some(unknown) = options.only.iter().find(|name| !rows::names().contains(&name.as_str())) {
        return Err(format!("there is no row `{unknown}`; --list names them").into());
    }
    let Some(folder) = &options.docs else { return Ok(()) };
    if options.quick || !options.only.is_empty() {
        return Err("--docs writes a page with every figure; leave out --quick and --only".into());
    }
    docs::check(folder)
}

async fn measure(options: &Options) -> Result<Run> {
    let postgres = options.postgres.as_ref();
    let postgres = postgres.ok_or("no --postgres URL; `cargo xtask bench` starts a server and gives it")?;
    let bench = Bench {
        cluster: Cluster::at(postgres)?,
        rounds: if options.quick { 1 } else { options.rounds.max(1) },
        quick: options.quick,
        relay: options.relay.clone(),
        programs: program::all(options.rust_peers.as_ref(), options.node_peers.as_ref()),
    };
    let mut run = Run::begin(bench.cluster.settings().await?, bench.quick, bench.rounds)?;
    run.absent = program::absent(&bench.programs).into_iter().map(str::to_owned).collect();
    report::print_settings(&run.settings);
    for row in rows::ROWS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == row.name) {
            continue;
        }
        eprintln!("{}: {}", row.name, row.about);
        let (figures, stolen) = stolen::during((row.run)(&bench)).await;
        for mut figure in figures? {
            figure.stolen = stolen;
            report::print(&figure);
            run.figures.push(figure);
        }
        run.rows.push(row.name.to_owned());
        // At once: samples cannot be had again.
        options.json.as_ref().map_or(Ok(()), |file| run.write(file))?;
    }
    Ok(run)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(args: &[&str]) -> String {
        let options = Options::try_parse_from([&["posthaste-bench"], args].concat());
        let checked = options.map_err(|error| error.to_string()).map(|options| check(&options));
        checked.map_or_else(|error| error, |checked| checked.err().map_or(String::new(), |e| e.to_string()))
    }

    #[test]
    fn a_page_from_a_part_of_the_figures_is_refused_before_anything_is_measured() {
        for part in [&["--quick"][..], &["--only", "drain"]] {
            let sentence = refusal(&[&["--docs", "."], part].concat());
            assert!(sentence.contains("every figure; leave out --quick and --only"), "{sentence}");
        }
        assert!(refusal(&["--docs", "nowhere"]).contains("nowhere/benchmarks.md"));
        assert!(refusal(&["--from", "run.json"]).contains("--docs"), "without it there is nothing to write");
        assert_eq!(refusal(&["--only", "drain", "--quick"]), "");
    }
}
