//! `posthaste check`: configuration, database, sinks; a line for each, with what to do.

use std::io::Write;

use futures::future::join_all;
use posthaste::Sink;
use serde_json::{Value, json};

use super::relay::{CHECK_WITHIN, route};
use crate::cli::{CheckOptions, GlobalOptions};
use crate::config::{self, Config, SubscriptionConfig};
use crate::database::Database;
use crate::failure::{Code, Failure, Mistakes};

/// One line of the answer.
#[derive(Debug)]
struct Item {
    what: String,
    state: State,
    sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Warning,
    Problem(Code),
}

impl Item {
    fn new(what: impl Into<String>, state: State, sentence: impl Into<String>) -> Self {
        Self { what: what.into(), state, sentence: sentence.into() }
    }

    fn word(&self) -> &'static str {
        match self.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem(_) => "problem",
        }
    }

    fn json(&self) -> Value {
        json!({ "item": self.what, "state": self.word(), "sentence": self.sentence })
    }
}

pub(crate) async fn run(global: &GlobalOptions, options: &CheckOptions) -> Result<(), Failure> {
    let sources = config::sources(global, Vec::new());
    let items = match Config::load(&sources) {
        Ok(config) => everything(&config, options.offline).await,
        Err(mistakes) => about_mistakes(&mistakes),
    };
    print(&items, global.json)?;
    let worst = items.iter().find_map(|item| match item.state {
        State::Problem(code) => Some(code),
        _ => None,
    });
    worst.map_or(Ok(()), |code| Err(Failure::Said(code)))
}

fn about_mistakes(mistakes: &Mistakes) -> Vec<Item> {
    mistakes
        .problems
        .iter()
        .map(|found| problem("configuration", mistakes.code(), found.to_string()))
        .collect()
}

async fn everything(config: &Config, offline: bool) -> Vec<Item> {
    let mut items = vec![about_file(config)];
    if config.subscriptions.is_empty() {
        let sentence = "no subscription is configured; a relay needs at least one [subscriptions.NAME]";
        items.push(Item::new("subscriptions", State::Warning, sentence));
    }
    if !offline {
        items.extend(about_database(config).await);
        items.extend(join_all(config.subscriptions.iter().map(about_sink)).await.into_iter().flatten());
    }
    items
}

fn about_file(config: &Config) -> Item {
    let place =
        config.file.as_ref().map_or_else(|| "from the environment".to_owned(), |f| f.display().to_string());
    let names: Vec<&str> = config.subscriptions.iter().map(|config| config.name.as_str()).collect();
    let sentence = match names.is_empty() {
        true => place,
        false => format!("{place}, with {}", names.join(", ")),
    };
    Item::new("configuration", State::Ok, sentence)
}

async fn about_database(config: &Config) -> Vec<Item> {
    let database = match Database::prepare_for_person(&config.database) {
        Ok(database) => database,
        Err(failure) => return vec![problem("database", Code::Configuration, failure.lines().join("; "))],
    };
    if let Err(refusal) = database.connect().await {
        return vec![problem("database", refusal.code, refusal.sentence)];
    }
    let mut items = vec![Item::new("database", State::Ok, config.database.shown())];
    items.extend(database.warning().map(|warning| Item::new("database", State::Warning, warning)));
    items.push(match database.tables().await {
        Err(refusal) => problem("tables", refusal.code, refusal.sentence),
        Ok(tables) => match tables.problem() {
            Some(sentence) => problem("tables", Code::Configuration, sentence),
            None => Item::new("tables", State::Ok, format!("version {}", tables.needed)),
        },
    });
    items
}

async fn about_sink(config: &SubscriptionConfig) -> Vec<Item> {
    let what = format!("sink of {}", config.name);
    let endpoint = match config.sink.open(&route(config)) {
        Ok(endpoint) => endpoint,
        Err(sentence) => return vec![problem(what, Code::CheckFailed, sentence)],
    };
    let described = endpoint.describe();
    let late = || Err(format!("{described} did not answer within {} s", CHECK_WITHIN.as_secs()));
    match tokio::time::timeout(CHECK_WITHIN, endpoint.check()).await.unwrap_or_else(|_| late()) {
        Err(sentence) => vec![problem(what, Code::CheckFailed, sentence)],
        Ok(()) => {
            let warnings = tokio::time::timeout(CHECK_WITHIN, endpoint.warnings()).await.unwrap_or_default();
            let warned = warnings.into_iter().map(|warning| Item::new(&what, State::Warning, warning));
            std::iter::once(Item::new(&what, State::Ok, &described)).chain(warned).collect()
        }
    }
}

fn problem(what: impl Into<String>, code: Code, sentence: impl Into<String>) -> Item {
    Item::new(what, State::Problem(code), sentence)
}

fn print(items: &[Item], as_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if as_json {
        let good = !items.iter().any(|item| matches!(item.state, State::Problem(_)));
        let items: Vec<Value> = items.iter().map(Item::json).collect();
        writeln!(out, "{}", json!({ "ok": good, "items": items }))?;
        return Ok(());
    }
    let width = items.iter().map(|item| item.what.chars().count()).max().unwrap_or(0);
    for item in items {
        writeln!(out, "{:<8} {:<width$}  {}", item.word(), item.what, item.sentence)?;
    }
    Ok(())
}
