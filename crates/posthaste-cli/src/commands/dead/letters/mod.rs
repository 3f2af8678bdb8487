//! `posthaste dead letters`: what consumers gave up on, in the database of their inbox.

use posthaste::Error;
use posthaste::inbox::{DeadLetter, DeadLetters};
use serde_json::json;

use crate::cli::GlobalOptions;
use crate::cli::letters::{DiscardLetters, LettersCommand, LettersOptions};
use crate::config::{self, InboxConfig};
use crate::database::{Database, Pool};
use crate::failure::Failure;
use crate::talk::ask::confirm;
use crate::talk::out::{self, plural};

mod list;
mod show;
mod resend;

/// The letters of a database, and how to speak about them.
struct Post {
    letters: DeadLetters,
    config: InboxConfig,
    json: bool,
}

pub(crate) async fn run(global: &GlobalOptions, options: &LettersOptions) -> Result<(), Failure> {
    // Not left to clap: it would also refuse --database and --inbox-database before a command.
    if options.command.is_some() && options.list.narrows() {
        return Err(Failure::usage(
            "filters belong to the list; type them behind `posthaste dead letters list`",
        ));
    }
    let post = Post::open(global, options).await?;
    match &options.command {
        None => list::run(&post, &options.list).await,
        Some(LettersCommand::List(options)) => list::run(&post, options).await,
        Some(LettersCommand::Show(options)) => show::run(&post, options).await,
        Some(LettersCommand::Resend(options)) => resend::run(global, &post, options).await,
        Some(LettersCommand::Discard(options)) => discard(&post, options).await,
    }
}

impl Post {
    async fn open(global: &GlobalOptions, options: &LettersOptions) -> Result<Self, Failure> {
        let config = config::load_inbox(&config::sources(global, options.place.flags()))?;
        let database = Database::prepare_for_person(&config.database)?;
        database.connect().await?;
        if let Some(warning) = database.warning() {
            eprintln!("posthaste: {warning}");
        }
        let letters = match (database.pool, &config.schema) {
            (Pool::Postgres(pool), Some(schema)) => DeadLetters::postgres_in(pool, schema.clone()),
            (Pool::Postgres(pool), None) => DeadLetters::postgres(pool)?,
            (Pool::Sqlite(pool), _) => DeadLetters::sqlite(pool),
        };
        Ok(Self { letters, config, json: global.json })
    }

    /// One that is there.
    async fn letter(&self, number: i64) -> Result<DeadLetter, Failure> {
        let found = self.letters.get(number).await.map_err(|error| self.refused(error))?;
        found.ok_or_else(|| {
            Failure::not_found(format!(
                "there is no dead letter {number} in {}; `posthaste dead letters` lists them",
                self.config.database.shown()
            ))
        })
    }

    /// All of them, or none: a misspelt number is found before anything is changed.
    async fn chosen(&self, numbers: &[i64]) -> Result<Vec<DeadLetter>, Failure> {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let mut letters = Vec::new();
        for number in numbers {
            letters.push(self.letter(number).await?);
        }
        Ok(letters)
    }

    /// The log's own sentence about missing tables would name the wrong command.
    fn refused(&self, error: Error) -> Failure {
        match error {
            Error::Schema(_) => Failure::configuration(format!(
                "there is no inbox in {}: consumers create its tables by `migrate` of their guard; if theirs is another \
                 database or schema, name it with --inbox-database and --inbox-schema",
                self.config.database.shown()
            )),
            other => other.into(),
        }
    }
}

async fn discard(post: &Post, options: &DiscardLetters) -> Result<(), Failure> {
    let chosen = post.chosen(&options.numbers).await?;
    let what = plural(chosen.len() as u64, "dead letter", "dead letters");
    if options.consent.dry_run {
        return discarded(post, chosen.len(), None, || {
            format!("{what} would be discarded. Nothing was changed.")
        });
    }
    if chosen.len() > 1 {
        confirm(&format!("Discard {what}?"), options.consent.yes)?;
    }
    let mut changed = 0;
    for dead in &chosen {
        let done = post.letters.discard(dead.number).await.map_err(|error| post.refused(error))?;
        changed += u64::from(done);
    }
    discarded(post, chosen.len(), Some(changed), || match changed {
        0 => "Decided before; nothing was changed.".to_owned(),
        _ => format!("{}: discarded.", plural(changed, "dead letter", "dead letters")),
    })
}

fn discarded(
    post: &Post,
    matched: usize,
    changed: Option<u64>,
    words: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match post.json {
        false => out::line(words()),
        true => out::line(
            json!({
                "verb": "discard",
                "matched": matched,
                "changed": changed.unwrap_or(0),
                "dry_run": changed.is_none(),
            })
            .to_string(),
        ),
    }
}
