//! How far something has come: a bar on a terminal, a line per tenth everywhere else. On stderr: it is talk, not data.

use std::io::{self, IsTerminal, Write};

const BAR: u64 = 40;

#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    /// The last tenth that was told.
    told: Option<u64>,
}

impl Progress {
    pub(crate) fn to_stderr() -> Self {
        Self { terminal: io::stderr().is_terminal(), told: None }
    }

    pub(crate) fn show(&mut self, done: u64, total: u64) -> io::Result<()> {
        match self.terminal {
            true => write!(io::stderr(), "\r\x1b[2K{}", bar(done, total)),
            false => self.news(done, total).map_or(Ok(()), |line| writeln!(io::stderr(), "{line}")),
        }
    }

    /// A line, if another tenth is done.
    fn news(&mut self, done: u64, total: u64) -> Option<String> {
        let tenth = percent(done, total) / 10;
        let new = self.told.is_none_or(|told| tenth > told);
        new.then(|| {
            self.told = Some(tenth);
            format!("{} % ({done} of {total})", tenth * 10)
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            eprintln!();
        }
    }
}

fn percent(done: u64, total: u64) -> u64 {
    (done * 100).checked_div(total).unwrap_or(100)
}

fn bar(done: u64, total: u64) -> String {
    let filled = usize::try_from(percent(done, total) * BAR / 100).unwrap_or(0);
    let empty = usize::try_from(BAR).unwrap_or(0) - filled;
    format!("[{}{}] {:>3} %  {done} of {total}", "#".repeat(filled), ".".repeat(empty), percent(done, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up() {
        assert_eq!(bar(0, 10), format!("[{}]   0 %  0 of 10", ".".repeat(40)));
        assert_eq!(bar(10, 10), format!("[{}] 100 %  10 of 10", "#".repeat(40)));
        assert!(bar(0, 0).contains("100 %"));
    }

    #[test]
    fn a_pipe_gets_a_line_per_tenth() {
        let mut progress = Progress { terminal: false, told: None };
        let lines: Vec<String> = (0..=200).filter_map(|done| progress.news(done, 200)).collect();
        assert_eq!(lines.len(), 11, "{lines:?}");
        assert_eq!((lines[0].as_str(), lines[10].as_str()), ("0 % (0 of 200)", "100 % (200 of 200)"));
        assert_eq!(progress.news(10, 200), None, "it never goes back");
    }
}
