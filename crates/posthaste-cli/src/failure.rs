//! Why a command could not go on: a sentence for people and an exit code for scripts.

use std::fmt::Display;
use std::io::ErrorKind;
use std::process::ExitCode;

/// The end of a command that did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something is wrong, and this sentence says what.
    Sentence(String),
    /// Whoever read the output has gone, as in `posthaste dev | head`. Nobody is left to complain to.
    OutputClosed,
    /// The second Ctrl-C.
    Interrupted,
}

impl Failure {
    pub(crate) fn sentence(text: impl Into<String>) -> Self {
        Self::Sentence(text.into())
    }

    /// For `map_err`: what was being done, and what the other side said.
    pub(crate) fn while_doing<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Sentence(format!("could not {doing}: {error}"))
    }

    /// Says it on stderr; the exit code is the shell's custom: 130 after an interrupt, 1 for the rest.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(130),
            Self::Sentence(text) => {
                eprintln!("posthaste: {text}");
                ExitCode::FAILURE
            }
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Sentence(format!("could not write the output: {error}")),
        }
    }
}
