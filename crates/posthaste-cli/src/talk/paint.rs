//! Colour: only on a terminal, never with `NO_COLOR`, and never needed to understand anything.

use std::io::IsTerminal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Yellow,
    Red,
    Blue,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
        }
    }
}

/// Paints a word, if colours are wanted on stdout.
pub(crate) fn painted(text: &str, colour: Colour) -> String {
    match wanted() {
        true => format!("\x1b[{}m{text}\x1b[0m", colour.code()),
        false => text.to_owned(),
    }
}

/// By the custom of <https://no-color.org>: set and not empty means no colour.
fn wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = set("TERM").is_none_or(|term| term == "dumb");
    std::io::stdout().is_terminal() && !dumb && set("NO_COLOR").is_none()
}
