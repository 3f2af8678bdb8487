//! Everything about one letter.

use posthaste::inbox::{DeadLetter, LetterStatus};

use crate::cli::letters::ShowLetter;
use crate::failure::Failure;
use crate::talk::out::{self, clean, plural};
use crate::talk::time::stamp;
use crate::talk::{payload, shape};

use super::Post;

pub(super) async fn run(post: &Post, options: &ShowLetter) -> Result<(), Failure> {
    let dead = post.letter(options.number).await?;
    match (options.payload_only, post.json) {
        (true, _) => out::bytes(&dead.letter.payload),
        (false, true) => out::line(shape::letter(&dead)),
        (false, false) => out::lines(told(&dead)),
    }
}

fn told(dead: &DeadLetter) -> Vec<String> {
    let attempts = plural(dead.letter.attempts.into(), "attempt", "attempts");
    let mut lines = fields(dead);
    lines.push(String::new());
    lines.push(format!("Given up by {} after {attempts}:", clean(&dead.consumer)));
    lines.push(format!("  {}", clean(&dead.letter.reason)));
    lines.push(String::new());
    lines.extend(body(dead));
    lines.push(String::new());
    lines.extend(next_steps(dead));
    lines
}

/// What is known; what is not is left out.
fn fields(dead: &DeadLetter) -> Vec<String> {
    let letter = &dead.letter;
    let fields = [
        ("number", Some(dead.number.to_string())),
        ("event", Some(letter.event_id.clone())),
        ("topic", letter.topic.clone()),
        ("key", letter.key.clone()),
        ("given up", Some(stamp(dead.given_up_at))),
        ("times", Some(dead.times.to_string()).filter(|_| dead.times > 1)),
        ("status", Some(dead.status.as_str().to_owned())),
        ("decided", dead.decided_at.map(stamp)),
    ];
    let line =
        |(name, value): (&str, Option<String>)| value.map(|value| format!("{name:<12}{}", clean(&value)));
    let headers = letter
        .headers
        .iter()
        .map(|(name, value)| format!("{:<12}{}: {}", "header", clean(name), clean(value)));
    fields.into_iter().filter_map(line).chain(headers).collect()
}

fn body(dead: &DeadLetter) -> Vec<String> {
    let size = plural(dead.letter.payload.len() as u64, "byte", "bytes");
    let kind = dead.letter.content_type.as_deref().map_or("of no stated type".to_owned(), clean);
    let lines = payload::readable(&dead.letter.payload);
    std::iter::once(format!("body ({kind}, {size})"))
        .chain(lines.iter().map(|line| format!("  {line}")))
        .collect()
}

fn next_steps(dead: &DeadLetter) -> Vec<String> {
    let resend = format!("-> posthaste dead letters resend {} --to SUBSCRIPTION", dead.number);
    let discard = format!("-> posthaste dead letters discard {}", dead.number);
    let open = dead.status == LetterStatus::Open;
    std::iter::once(resend).chain(Some(discard).filter(|_| open)).collect()
}
