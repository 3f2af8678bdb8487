//! Tries to break every promise of Posthaste and says what came of it. `cargo xtask faults` builds what it needs, starts the
//! servers and runs this.

mod finding;
mod collector;
mod writer;
mod relay;
mod log;
mod broker;
mod stage;
mod trial;
mod programs;
mod rows;
mod run;
mod table;
mod page;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::finding::{Finding, Result};
use crate::rows::{ROWS, Row};
use crate::run::Run;
use crate::stage::Stage;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "posthaste-faults", about = "Tries to break every promise of Posthaste, fault by fault")]
struct Options {
    /// What cargo built, as `cargo test --no-run --message-format=json` says it.
    #[arg(long, value_name = "FILE")]
    built: Option<PathBuf>,
    /// The program `posthaste` for the trials, instead of the one that was built with the tests.
    #[arg(long, value_name = "FILE")]
    relay: Option<PathBuf>,
    /// Every fault, but shortly.
    #[arg(long)]
    quick: bool,
    /// Only these rows.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Names the rows and ends.
    #[arg(long)]
    list: bool,
    /// Writes everything that was found to this file, after every row.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the table into this page.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Tries nothing: writes the page from a file that --json has written, or from several: of a row that is in more than one,
    /// the last counts.
    #[arg(long, value_name = "FILE", requires = "page", conflicts_with = "json")]
    from: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.split_first() {
        Some((first, rest)) if first == writer::COMMAND => {
            writer::main(rest).await.map(|()| ExitCode::SUCCESS)
        }
        Some((first, rest)) if first == rows::sqlite::COMMAND => {
            rows::sqlite::main(rest).await.map(|()| ExitCode::SUCCESS)
        }
        _ => run(&Options::parse()).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("posthaste-faults: {error}");
        ExitCode::FAILURE
    })
}

async fn run(options: &Options) -> Result<ExitCode> {
    if options.list {
        ROWS.iter().for_each(|row| println!("{:<20} {:<6} {}", row.name, row.numbers, row.about));
        return Ok(ExitCode::SUCCESS);
    }
    check(options)?;
    let run = match options.from.split_first() {
        Some((first, others)) => Run::read_all(first, others)?,
        None => try_all(options).await?,
    };
    table::print(&run);
    if let Some(page) = &options.page {
        page::write(page, &run)?;
    }
    Ok(if run.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses at once what would be refused at the end of a long run.
fn check(options: &Options) -> Result<()> {
    if let Some(unknown) = options.only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        return Err(format!("there is no row `{unknown}`; --list names them").into());
    }
    if let Some(missing) = options.relay.as_ref().filter(|relay| !relay.is_file()) {
        return Err(format!("there is no program {}; --relay names `posthaste`", missing.display()).into());
    }
    match &options.page {
        Some(_) if options.quick || !options.only.is_empty() => {
            Err("the page has every row in full; leave out --quick and --only".into())
        }
        Some(page) => page::check(page),
        None => Ok(()),
    }
}

async fn try_all(options: &Options) -> Result<Run> {
    let stage = Stage::new(options.built.as_deref(), options.relay.as_deref(), options.quick)?;
    let mut run = Run::begin(options.quick)?;
    for row in chosen(&options.only) {
        eprintln!("{}: {}", row.name, row.about);
        let findings = try_row(row, &stage).await;
        findings.iter().for_each(table::tell);
        run.findings.extend(findings);
        // At once: a long run may be broken off.
        options.json.as_ref().map_or(Ok(()), |file| run.write(file))?;
    }
    Ok(run)
}

fn chosen<'a>(only: &'a [String]) -> impl Iterator<Item = &'static Row> + 'a {
    ROWS.iter().filter(|row| only.is_empty() || only.iter().any(|name| name == row.name))
}

/// A row that could not be tried to its end is bad: nobody knows what the fault would have done.
async fn try_row(row: &'static Row, stage: &Stage) -> Vec<Finding> {
    let began = std::time::Instant::now();
    let mut findings = match (row.run)(stage).await {
        Ok(findings) => findings,
        Err(error) => vec![Finding::new(row.about).broken(&error.to_string())],
    };
    for finding in &mut findings {
        finding.row = row.name.to_owned();
        finding.numbers = row.numbers.to_owned();
    }
    eprintln!("  took {} s", began.elapsed().as_secs());
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(args: &[&str]) -> String {
        let options = Options::try_parse_from([&["posthaste-faults"], args].concat());
        let checked = options.map_err(|error| error.to_string()).map(|options| check(&options));
        checked.map_or_else(|error| error, |checked| checked.err().map_or(String::new(), |e| e.to_string()))
    }

    #[test]
    fn what_cannot_end_well_is_refused_before_anything_is_tried() {
        assert!(refusal(&["--only", "meteor"]).contains("there is no row `meteor`"));
        assert!(refusal(&["--page", "x.md", "--quick"]).contains("every row in full"));
        assert!(refusal(&["--from", "run.json"]).contains("--page"), "without it there is nothing to write");
        assert!(refusal(&["--page", "absent.md"]).contains("absent.md"));
        assert_eq!(refusal(&["--only", ROWS[0].name, "--quick"]), "");
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let names: std::collections::HashSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
