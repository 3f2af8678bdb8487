//! Why a command could not go on: a sentence for people and an exit code for scripts.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use posthaste::ErrorKind;

/// The end of a command that did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something is wrong, and this sentence says what.
    Sentence(String),
    /// The command line asks for something that cannot be.
    Usage(String),
    /// What was named is not there.
    NotFound(String),
    /// The answer was given, and it is a bad one: something stands still or fails.
    Bad,
    /// Whoever read the output has gone, as in `posthaste dev | head`. Nobody is left to complain to.
    OutputClosed,
    /// The second Ctrl-C.
    Interrupted,
}

impl Failure {
    pub(crate) fn sentence(text: impl Into<String>) -> Self {
        Self::Sentence(text.into())
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::NotFound(text.into())
    }

    /// For `map_err`: what was being done, and what the other side said.
    pub(crate) fn while_doing<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Sentence(format!("could not {doing}: {error}"))
    }

    /// Says it on stderr. The exit codes: 1 failure, 2 usage, 3 not found, 4 a check says bad, 130 after an interrupt.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(130),
            Self::Bad => ExitCode::from(4),
            Self::Sentence(text) => complain(text, 1),
            Self::Usage(text) => complain(text, 2),
            Self::NotFound(text) => complain(text, 3),
        }
    }
}

fn complain(text: &str, code: u8) -> ExitCode {
    eprintln!("posthaste: {text}");
    ExitCode::from(code)
}

impl From<posthaste::Error> for Failure {
    fn from(error: posthaste::Error) -> Self {
        match (&error, error.kind()) {
            (posthaste::Error::Schema(_), _) => {
                Self::Sentence(format!("{error}; `posthaste migrate` creates the tables"))
            }
            (_, ErrorKind::Invalid) => Self::Usage(error.to_string()),
            (_, ErrorKind::NotFound) => Self::NotFound(error.to_string()),
            _ => Self::Sentence(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Sentence(format!("could not write the output: {error}")),
        }
    }
}
