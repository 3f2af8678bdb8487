//! Rows about what is handed in: events, names, requests, and what people do to subscriptions while retention runs.

use crate::finding::{Finding, Result};
use crate::programs::{self, Program};
use crate::stage::Stage;

/// Whatever is enqueued arrives to the byte, or is refused before any SQL.
pub(crate) async fn payloads(stage: &Stage) -> Result<Vec<Finding>> {
    let program = Program { package: "posthaste", name: "hostile_payloads", tests: &[] };
    let how = format!(
        "{} random events with NUL, lone surrogates, 1e400000, 20,000 brackets, bad UTF-8, a thousand headers, line breaks in \
         headers, empty and 10 MiB bodies, impossible times; PostgreSQL and SQLite each",
        stage.size("6,000", "100,000")
    );
    Ok(vec![programs::run(stage, "hostile events", &how, &[program]).await?])
}

/// Undelivered events that retention removed: none.
pub(crate) async fn retention(stage: &Stage) -> Result<Vec<Finding>> {
    let program = Program { package: "posthaste", name: "retention_fuzz", tests: &[] };
    let how = format!(
        "{} random schedules of enqueue, deliver, fail, hold, pause, replay, remove, time that passes, and retention",
        stage.size("120", "10,300")
    );
    Ok(vec![programs::run(stage, "retention beside paused and failing readers", &how, &[program]).await?])
}

/// In the library and in the SQL function, on the command line, and over HTTP.
pub(crate) async fn names(stage: &Stage) -> Result<Vec<Finding>> {
    let library = Program { package: "posthaste", name: "hostile_names", tests: &[] };
    let command = Program { package: "posthaste-cli", name: "operate_hostile", tests: &[] };
    let http = Program { package: "posthaste-cli", name: "relay", tests: &["hostile_requests"] };
    let how = format!(
        "{} names with quotes, backslashes, SQL and Unicode in every place for a name; {} requests to /healthz and /readyz",
        stage.size("300", "2,000"),
        stage.size("1,000", "10,000")
    );
    Ok(vec![programs::run(stage, "hostile names and requests", &how, &[library, command, http]).await?])
}
