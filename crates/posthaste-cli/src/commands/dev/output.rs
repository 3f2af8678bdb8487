//! Where the demonstration is shown: a block redrawn in place on a terminal, plain lines everywhere else, or a line of
//! JSON for every moment.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Stdout, Write};
use std::time::Duration;

use serde_json::Value;

use super::file::DatabaseFile;
use super::json;
use super::screen::{self, Line, Picture};
use super::summary::{self, Facts};
use super::tally::News;

/// How many sentences are remembered for the screen.
const REMEMBERED: usize = 8;

/// The ways to show it.
#[derive(Debug)]
pub(crate) enum Output {
    Live(Live),
    Plain(Plain),
    Json(Json),
}

impl Output {
    pub(crate) fn to_stdout(json: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        match io::stdout().is_terminal() && !dumb {
            _ if json => Self::Json(Json::default()),
            true => Self::Live(Live::default()),
            false => Self::Plain(Plain::default()),
        }
    }

    /// What happened.
    pub(crate) fn tell(&mut self, when: Duration, news: Vec<News>) -> io::Result<()> {
        match self {
            Self::Live(live) => live.remember(when, news),
            Self::Plain(_) => news.iter().try_for_each(|news| stamped_line(when, &news.sentence))?,
            Self::Json(_) => news.iter().try_for_each(|news| json_line(&json::news(when, news)))?,
        }
        Ok(())
    }

    /// How things stand.
    pub(crate) fn show(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        match self {
            Self::Live(live) => live.draw(picture),
            Self::Plain(plain) => plain.print(picture),
            Self::Json(json) => json.print(picture),
        }
    }

    /// The last words, below everything else.
    pub(crate) fn end(&mut self, facts: &Facts, file: &DatabaseFile) -> io::Result<()> {
        if let Self::Json(_) = self {
            return json_line(&summary::json(facts, file));
        }
        let mut stdout = io::stdout();
        writeln!(stdout)?;
        summary::lines(facts, file).iter().try_for_each(|line| writeln!(stdout, "{line}"))?;
        stdout.flush()
    }
}

/// Objects of counts: at most one a second, and only when something changed.
#[derive(Debug, Default)]
pub(crate) struct Json {
    last: Option<(Duration, Value)>,
}

impl Json {
    fn print(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        if self.last.is_none() {
            json_line(&json::started(picture))?;
        }
        let counts = json::counts(picture);
        let news = self.last.as_ref().is_none_or(|(when, last)| {
            *last != counts && picture.elapsed.saturating_sub(*when) >= Duration::from_secs(1)
        });
        if news {
            json_line(&json::stamped("counts", picture.elapsed, counts.clone()))?;
            self.last = Some((picture.elapsed, counts));
        }
        Ok(())
    }
}

fn json_line(object: &Value) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{object}")?;
    stdout.flush()
}

fn stamped_line(when: Duration, text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{:>6.1} s  {text}", when.as_secs_f64())
}

/// Lines of counts: at most one a second, and only when something changed.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    last: Option<(Duration, String)>,
}

impl Plain {
    fn print(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        if self.last.is_none() {
            stamped_line(picture.elapsed, &format!("database {}", picture.file.display()))?;
        }
        let line = screen::counts_line(picture);
        let news = self.last.as_ref().is_none_or(|(when, last)| {
            *last != line && picture.elapsed.saturating_sub(*when) >= Duration::from_secs(1)
        });
        if news {
            stamped_line(picture.elapsed, &line)?;
            self.last = Some((picture.elapsed, line));
        }
        io::stdout().flush()
    }
}

/// A block of lines that is drawn over the last one. The cursor is hidden meanwhile and comes back with the drop.
#[derive(Debug, Default)]
pub(crate) struct Live {
    news: VecDeque<(Duration, String)>,
    drawn: usize,
    size: (usize, usize),
}

impl Live {
    fn remember(&mut self, when: Duration, news: Vec<News>) {
        self.news.extend(news.into_iter().map(|news| (when, news.sentence)));
        while self.news.len() > REMEMBERED {
            let oldest = self.news.iter().position(|(_, sentence)| !screen::tells_of_dead(sentence));
            self.news.remove(oldest.unwrap_or(0));
        }
    }

    fn draw(&mut self, picture: &Picture<'_>) -> io::Result<()> {
        let (width, height) = terminal_size();
        let lines = screen::block(picture, self.news.iter(), width, height.saturating_sub(1).max(1));
        let mut frame = self.back_to_top((width, height));
        frame.push_str(&rendered(&lines, width, colour_wanted()));
        self.drawn = lines.len();
        let mut stdout: Stdout = io::stdout();
        stdout.write_all(frame.as_bytes())?;
        stdout.flush()
    }

    /// Up to the first line of the block. After a change of size nobody knows where that is: begin on a clear screen.
    fn back_to_top(&mut self, size: (usize, usize)) -> String {
        let resized = std::mem::replace(&mut self.size, size) != size;
        match self.drawn {
            0 => "\x1b[?25l".to_owned(),
            _ if resized => "\x1b[2J\x1b[H".to_owned(),
            drawn => format!("\x1b[{drawn}A\r"),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.drawn > 0 {
            let mut stdout = io::stdout();
            drop(stdout.write_all(b"\x1b[?25h").and_then(|()| stdout.flush()));
        }
    }
}

/// Every line clears what the last frame left of it; the end clears the rest, a `^C` among it.
fn rendered(lines: &[Line], width: usize, colour: bool) -> String {
    let lines: String =
        lines.iter().map(|line| format!("\x1b[2K{}\r\n", line.render(width, colour))).collect();
    lines + "\x1b[J"
}

/// By the custom of <https://no-color.org>: set and not empty means no colour.
fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn terminal_size() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (usize::from(size.ws_col), usize::from(size.ws_row));
    }
    (80, 24)
}
