//! A page of letters, newest first.

use chrono::Utc;
use posthaste::inbox::DeadLetter;

use crate::cli::letters::ListLetters;
use crate::failure::Failure;
use crate::talk::out::{self, clean, plural};
use crate::talk::shape;
use crate::talk::table::{Table, fit};
use crate::talk::time::{between, span};

use super::Post;

/// An id of the log; those of others may be longer, and the number is enough to name a letter.
const ID: usize = 36;

pub(super) async fn run(post: &Post, options: &ListLetters) -> Result<(), Failure> {
    let mut filter = options.filter();
    // One more than is shown tells whether there is a next page.
    filter.limit = (options.limit + 1).min(500);
    let mut found = post.letters.list(&filter).await.map_err(|error| post.refused(error))?;
    let full = found.len() > options.limit as usize || found.len() >= 500;
    found.truncate(options.limit as usize);
    let next = found.last().filter(|_| full).map(|last| last.number);
    if post.json {
        let all: Vec<String> = found.iter().map(shape::letter).collect();
        let next = next.map_or("null".to_owned(), |next| next.to_string());
        return out::line(format!("{{\"letters\":[{}],\"next\":{next}}}", all.join(",")));
    }
    if found.is_empty() {
        return out::line(match options.narrows() {
            true => "No dead letter of a consumer matches.",
            false => "No consumer has given up on anything.",
        });
    }
    out::lines(told(&found))?;
    if let Some(next) = next {
        eprintln!("{} shown; for the next page add: --after {next}", found.len());
    }
    Ok(())
}

/// A row per letter and its reason below, which is what one looks for.
fn told(found: &[DeadLetter]) -> Vec<String> {
    let now = Utc::now();
    let mut table = Table::new(2, ["number", "event", "consumer", "topic", "key", "given up", "status"]);
    for dead in found {
        let or_dash = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), clean);
        table.row([
            dead.number.to_string(),
            fit(&clean(&dead.letter.event_id), ID).trim_end().to_owned(),
            clean(&dead.consumer),
            or_dash(&dead.letter.topic),
            or_dash(&dead.letter.key),
            format!("{} ago", span(between(dead.given_up_at, now))),
            dead.status.as_str().to_owned(),
        ]);
    }
    let mut rows = table.lines().into_iter();
    let head = rows.next();
    head.into_iter().chain(rows.zip(found).flat_map(|(row, dead)| [row, reason(dead)])).collect()
}

fn reason(dead: &DeadLetter) -> String {
    let attempts = plural(dead.letter.attempts.into(), "attempt", "attempts");
    let said = fit(&format!("after {attempts}: {}", clean(&dead.letter.reason)), 98);
    format!("  {}", said.trim_end())
}
