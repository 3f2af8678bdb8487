//! How the demonstration looks. Pure: a picture and a width in, lines out.

use std::path::Path;
use std::time::Duration;

use super::subscriptions::{CHARACTERS, NAMES};
use super::tally::Counts;

/// Below this width the table becomes a list.
const TABLE_WIDTH: usize = 56;

/// From this width on, the table says what is special about each subscription.
const CHARACTER_WIDTH: usize = 80;

/// What there is to see at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picture<'a> {
    pub(crate) elapsed: Duration,
    pub(crate) file: &'a Path,
    pub(crate) written: u64,
    pub(crate) rolled_back: u64,
    pub(crate) counts: &'a [Counts; 3],
    pub(crate) database_errors: u64,
    pub(crate) finishing: bool,
}

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Quiet,
    Good,
    Warning,
    Bad,
}

/// A line of the screen: pieces of text, each with its tone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Tone, String)>);

impl Line {
    pub(crate) fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self(vec![(tone, text.into())])
    }

    fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    /// The line as text, cut to the width; with escape codes only if `colour`.
    pub(crate) fn render(&self, width: usize, colour: bool) -> String {
        let too_long = self.0.iter().map(|(_, text)| text.chars().count()).sum::<usize>() > width;
        let mut room = width - usize::from(too_long && width > 0);
        let mut rendered = String::new();
        for (tone, text) in &self.0 {
            let piece: String = text.chars().take(room).collect();
            room -= piece.chars().count();
            rendered.push_str(&painted(*tone, &piece, colour));
        }
        if too_long && width > 0 {
            rendered.push('…');
        }
        rendered
    }
}

fn painted(tone: Tone, text: &str, colour: bool) -> String {
    let code = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Strong => 1,
        Tone::Quiet => 2,
        Tone::Good => 32,
        Tone::Warning => 33,
        Tone::Bad => 31,
    };
    match colour && !text.is_empty() {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// The block that is drawn in place, newest news last, cut to the height from below the table.
pub(crate) fn block<'n>(
    picture: &Picture<'_>,
    news: impl DoubleEndedIterator<Item = &'n (Duration, String)>,
    width: usize,
    height: usize,
) -> Vec<Line> {
    let mut lines = head(picture, width);
    lines.extend(table(picture.counts, width));
    let told = recent(news, width, height.saturating_sub(lines.len() + 1));
    if !told.is_empty() {
        lines.push(Line::default());
        lines.extend(told);
    }
    lines.truncate(height);
    lines
}

fn head(picture: &Picture<'_>, width: usize) -> Vec<Line> {
    let how_to_stop = match picture.finishing {
        true => "finishing; Ctrl-C again ends at once",
        false => "Ctrl-C to stop",
    };
    let title = Line::of(Tone::Strong, "posthaste dev")
        .with(Tone::Quiet, format!("  {} s, {how_to_stop}", picture.elapsed.as_secs()));
    let file = Line::of(Tone::Quiet, format!("database {}", picture.file.display()));
    let mut lines = vec![title, file, Line::default()];
    lines.extend(wrap(&application(picture), width).into_iter().map(|text| Line::of(Tone::Plain, text)));
    if picture.database_errors > 0 {
        let text = format!("database errors met and survived: {}", picture.database_errors);
        lines.push(Line::of(Tone::Warning, text));
    }
    lines.push(Line::default());
    lines
}

fn application(picture: &Picture<'_>) -> String {
    let (written, rolled_back) = (picture.written, picture.rolled_back);
    format!(
        "The application wrote {written} {}, each with its event in one transaction; {rolled_back} more {} rolled \
         back and left nothing.",
        plural(written, "order", "orders"),
        plural(rolled_back, "was", "were"),
    )
}

pub(crate) fn plural<'w>(count: u64, one: &'w str, many: &'w str) -> &'w str {
    if count == 1 { one } else { many }
}

fn table(counts: &[Counts; 3], width: usize) -> Vec<Line> {
    if width < TABLE_WIDTH {
        return NAMES.iter().zip(counts).map(|(name, counts)| listed(name, counts)).collect();
    }
    let titles =
        format!("{:<12}{:>11}{:>10}{:>11}{:>7}", "subscription", "delivered", "waiting", "retrying", "dead");
    let mut lines = vec![Line::of(Tone::Quiet, titles)];
    for ((name, character), counts) in NAMES.iter().zip(CHARACTERS).zip(counts) {
        let row = row(name, counts);
        lines.push(if width < CHARACTER_WIDTH {
            row
        } else {
            row.with(Tone::Quiet, format!("   {character}"))
        });
    }
    lines
}

fn row(name: &str, counts: &Counts) -> Line {
    let toned = |count: u64, tone: Tone| if count == 0 { Tone::Quiet } else { tone };
    Line::of(Tone::Strong, format!("{name:<12}"))
        .with(toned(counts.delivered, Tone::Good), format!("{:>11}", counts.delivered))
        .with(toned(counts.waiting, Tone::Plain), format!("{:>10}", counts.waiting))
        .with(toned(counts.retrying, Tone::Warning), format!("{:>11}", counts.retrying))
        .with(toned(counts.dead, Tone::Bad), format!("{:>7}", counts.dead))
}

fn listed(name: &str, counts: &Counts) -> Line {
    Line::of(Tone::Strong, format!("{name}: ")).with(Tone::Plain, in_words(counts))
}

/// As many of the newest news as fit into `room` lines, oldest first.
fn recent<'n>(
    news: impl DoubleEndedIterator<Item = &'n (Duration, String)>,
    width: usize,
    room: usize,
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (when, sentence) in news.rev() {
        let told = news_lines(*when, sentence, width);
        if lines.len() + told.len() > room {
            break;
        }
        lines.splice(0..0, told);
    }
    lines
}

fn news_lines(when: Duration, sentence: &str, width: usize) -> Vec<Line> {
    let tone = tone_of(sentence);
    let texts = wrap(sentence, width.saturating_sub(9)).into_iter();
    let stamped = |(index, text)| {
        let stamp = if index == 0 { format!("{:>6.1} s ", when.as_secs_f64()) } else { " ".repeat(9) };
        Line::of(Tone::Quiet, stamp).with(tone, text)
    };
    texts.enumerate().map(stamped).collect()
}

/// Whether a sentence tells of a dead letter; those stay on the screen.
pub(crate) fn tells_of_dead(sentence: &str) -> bool {
    sentence.contains("dead after")
}

fn tone_of(sentence: &str) -> Tone {
    match sentence {
        sentence if tells_of_dead(sentence) => Tone::Bad,
        sentence if sentence.contains("trying again") => Tone::Warning,
        sentence if sentence.contains("recovered") => Tone::Good,
        _ => Tone::Plain,
    }
}

/// Breaks a text at spaces into lines of at most `width`; a longer word stays whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The counts as one line, for output that is not a terminal.
pub(crate) fn counts_line(picture: &Picture<'_>) -> String {
    let each: Vec<String> = NAMES
        .iter()
        .zip(picture.counts)
        .map(|(name, counts)| format!("{name} {}", in_words(counts)))
        .collect();
    let written = picture.written;
    format!("{written} {} written | {}", plural(written, "order", "orders"), each.join(" | "))
}

/// `12 delivered, 1 retrying`: what is zero is left out.
fn in_words(counts: &Counts) -> String {
    let named = [(counts.waiting, "waiting"), (counts.retrying, "retrying"), (counts.dead, "dead")];
    let mut words = vec![format!("{} delivered", counts.delivered)];
    words.extend(named.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [Counts; 3] = [
        Counts { delivered: 48, waiting: 0, retrying: 0, dead: 0 },
        Counts { delivered: 46, waiting: 1, retrying: 1, dead: 0 },
        Counts { delivered: 47, waiting: 0, retrying: 0, dead: 1 },
    ];

    fn picture() -> Picture<'static> {
        Picture {
            elapsed: Duration::from_secs(12),
            file: Path::new("/tmp/posthaste.db"),
            written: 48,
            rolled_back: 5,
            counts: &COUNTS,
            database_errors: 0,
            finishing: false,
        }
    }

    fn news() -> Vec<(Duration, String)> {
        let sentences = ["order 16: billing failed (card service away), trying again in 0.4 s", "b", "c"];
        sentences.iter().map(|text| (Duration::from_millis(3400), (*text).to_owned())).collect()
    }

    fn drawn(width: usize, height: usize) -> Vec<String> {
        let lines = block(&picture(), news().iter(), width, height);
        lines.iter().map(|line| line.render(width, false)).collect()
    }

    #[test]
    fn a_wide_terminal_gets_the_table_with_characters_and_news() {
        let drawn = drawn(100, 30);
        assert!(
            drawn.iter().any(|line| line.starts_with("shipping") && line.ends_with("healthy")),
            "{drawn:#?}"
        );
        assert_eq!(drawn.last().map(String::as_str), Some("   3.4 s c"));
        assert!(drawn.iter().all(|line| !line.contains('\x1b')));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [1, 10, 20, 40, 56, 79, 80, 81, 200] {
            for line in drawn(width, 40) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_gets_a_list() {
        let drawn = drawn(45, 30);
        assert!(drawn.contains(&"billing: 46 delivered, 1 waiting, 1 retrying".to_owned()), "{drawn:#?}");
    }

    #[test]
    fn a_low_terminal_keeps_the_counts_and_the_newest_news() {
        for height in 1..30 {
            assert!(drawn(100, height).len() <= height);
        }
        let drawn = drawn(100, 12);
        assert!(drawn.iter().any(|line| line.starts_with("analytics")));
        assert_eq!(drawn.last().map(String::as_str), Some("   3.4 s c"));
    }

    #[test]
    fn colour_is_used_only_when_asked_for() {
        let line = Line::of(Tone::Bad, "dead");
        assert_eq!(line.render(10, true), "\x1b[31mdead\x1b[0m");
        assert_eq!(line.render(3, false), "de…");
    }

    #[test]
    fn the_counts_line_names_what_is_not_zero() {
        let expected = "48 orders written | shipping 48 delivered | billing 46 delivered, 1 waiting, 1 retrying | \
                        analytics 47 delivered, 1 dead";
        assert_eq!(counts_line(&picture()), expected);
    }
}
