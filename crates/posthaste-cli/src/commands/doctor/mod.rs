//! `posthaste doctor`: everything that can be found out about the database, the log and the sinks, with what to do.

use std::io::Write;

use posthaste_sinks::Problem;
use serde_json::{Value, json};

use super::relay::route;
use crate::cli::GlobalOptions;
use crate::config::{self, Config, DatabaseConfig};
use crate::database::{Database, Pool};
use crate::failure::{Code, Failure};

mod finding;
mod postgres;
mod sqlite;
mod log;

use finding::{Finding, Verdict};

pub(crate) async fn run(global: &GlobalOptions) -> Result<(), Failure> {
    let sources = config::sources(global, Vec::new());
    let mut findings = examine_database(&config::load_database(&sources)?).await?;
    match Config::load(&sources) {
        Ok(config) => findings.extend(examine_sinks(&config).await),
        Err(mistakes) => {
            let found =
                |mistake: Problem| Finding::coded("configuration", Code::Configuration, mistake.to_string());
            findings.extend(mistakes.problems.into_iter().map(found));
        }
    }
    print(&findings, global.json)?;
    conclusion(&findings).map_or(Ok(()), |code| Err(Failure::Said(code)))
}

/// What is bad decides, and first of all what has a code of its own: without a database the rest means little.
fn conclusion(findings: &[Finding]) -> Option<Code> {
    let bad =
        || findings.iter().filter(|finding| finding.verdict == Verdict::Bad).map(|finding| finding.code);
    bad().find(|code| *code != Code::CheckFailed).or_else(|| bad().next())
}

async fn examine_database(config: &DatabaseConfig) -> Result<Vec<Finding>, Failure> {
    let database = Database::prepare_for_person(config)?;
    if let Err(refusal) = database.connect().await {
        return Ok(vec![Finding::coded("database", refusal.code, refusal.sentence)]);
    }
    let mut findings = vec![Finding::good("database", config.shown())];
    findings.extend(match &database.pool {
        Pool::Postgres(pool) => postgres::examine(pool, config.schema.as_str()).await,
        Pool::Sqlite(pool) => sqlite::examine(pool).await,
    });
    findings.extend(log::examine(&database).await);
    Ok(findings)
}

async fn examine_sinks(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for subscription in &config.subscriptions {
        match subscription.sink.open(&route(subscription)) {
            Ok(endpoint) => findings.extend(log::sink(&subscription.name, &endpoint).await),
            Err(sentence) => {
                findings.push(Finding::bad(format!("sink of {}", subscription.name), sentence, ""))
            }
        }
    }
    findings
}

fn print(findings: &[Finding], as_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (bad, warnings) = (count(Verdict::Bad), count(Verdict::Warning));
    if as_json {
        let all: Vec<Value> = findings.iter().map(Finding::json).collect();
        writeln!(out, "{}", json!({ "ok": bad == 0, "failures": bad, "warnings": warnings, "checks": all }))?;
        return Ok(());
    }
    let width = findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    for finding in findings {
        writeln!(out, "{:<4}  {:<width$}  {}", finding.verdict.word(), finding.check, finding.sentence)?;
        if !finding.remedy.is_empty() {
            writeln!(out, "      {:<width$}  -> {}", "", finding.remedy)?;
        }
    }
    writeln!(out, "\n{} checks: {bad} failed, {warnings} with a warning", findings.len())?;
    Ok(())
}
