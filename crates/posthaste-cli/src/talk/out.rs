//! Writing to stdout, and text that is safe to write.

use std::io::{self, Write};

use posthaste::admin::Count;

use crate::failure::Failure;

/// Prints lines of data.
pub(crate) fn lines<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{}", line.as_ref())?;
    }
    Ok(stdout.flush()?)
}

/// Prints one line of data.
pub(crate) fn line(line: impl AsRef<str>) -> Result<(), Failure> {
    lines([line])
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

/// Text from outside, on one line and without power over the terminal.
pub(crate) fn clean(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().collect::<String>(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// A name or an argument as one would type it into a shell.
pub(crate) fn typed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", clean(word).replace('\'', r"'\''")),
    }
}

/// `1 event`, `2 events`.
pub(crate) fn plural(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// The same for a count that may have stopped somewhere: `more than 10000 events`.
pub(crate) fn counted(count: Count, one: &str, many: &str) -> String {
    match count.exact() {
        Some(number) => plural(number, one, many),
        None => format!("{count} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_codes_in_an_error_are_shown_and_not_obeyed() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{9b}d"), r"a\u{1b}[2Jb\nc\u{9b}d");
        assert_eq!(clean("größe 大"), "größe 大");
    }

    #[test]
    fn a_hint_can_be_typed_as_it_stands() {
        assert_eq!(typed("order-17"), "order-17");
        assert_eq!(typed("it's"), r"'it'\''s'");
        assert_eq!(typed("-f"), "'-f'");
        assert_eq!(typed(""), "''");
    }
}
