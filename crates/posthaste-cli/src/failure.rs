//! Why a command could not go on: a sentence for people and an exit code for scripts.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use posthaste::ErrorKind;
use posthaste_sinks::Problem;

use self::Place::{CommandLine, Configuration, Unreadable};

mod code;

pub(crate) use code::{Code, is_certificate};

/// Everything that is wrong with a configuration, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistakes {
    pub(crate) place: Place,
    pub(crate) problems: Vec<Problem>,
}

/// What to correct.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The file itself: it cannot be read.
    Unreadable,
    /// Nothing but flags.
    CommandLine,
    /// What is written in the file, if there is one, and in the environment.
    Configuration(Option<PathBuf>),
}

impl Mistakes {
    pub(crate) fn unreadable(sentence: String) -> Self {
        Self { place: Unreadable, problems: vec![Problem { path: String::new(), sentence }] }
    }

    pub(crate) fn code(&self) -> Code {
        match self.place {
            CommandLine => Code::Usage,
            Unreadable | Configuration(_) => Code::Configuration,
        }
    }

    fn lines(&self) -> Vec<String> {
        let place = match &self.place {
            Unreadable => return self.problems.iter().map(ToString::to_string).collect(),
            CommandLine => "the command line".to_owned(),
            Configuration(None) => "the configuration".to_owned(),
            Configuration(Some(file)) => file.display().to_string(),
        };
        let count = match self.problems.len() {
            1 => "a mistake".to_owned(),
            n => format!("{n} mistakes"),
        };
        let first = format!("{place} has {count}:");
        std::iter::once(first).chain(self.problems.iter().map(|problem| format!("  {problem}"))).collect()
    }
}

/// The end of a command that did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something is wrong, and this sentence says what.
    Sentence(String),
    /// The same with an exit code that scripts can act on.
    Coded(Code, String),
    /// Everything that is wrong with a configuration.
    Mistakes(Mistakes),
    /// All was said already.
    Said(Code),
    /// Whoever read the output has gone, as in `posthaste dev | head`. Nobody is left to complain to.
    OutputClosed,
    /// The second Ctrl-C.
    Interrupted,
}

impl Failure {
    pub(crate) fn sentence(text: impl Into<String>) -> Self {
        Self::Sentence(text.into())
    }

    pub(crate) fn configuration(text: impl Into<String>) -> Self {
        Self::Coded(Code::Configuration, text.into())
    }

    /// The command line asks for something that cannot be.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Coded(Code::Usage, text.into())
    }

    /// What was named is not there.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::Coded(Code::NotFound, text.into())
    }

    /// For `map_err`: what was being done, and what the other side said.
    pub(crate) fn while_doing<E: Display>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Sentence(format!("could not {doing}: {error}"))
    }

    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Sentence(_) => Some(Code::Failed),
            Self::Coded(code, _) | Self::Said(code) => Some(*code),
            Self::Mistakes(mistakes) => Some(mistakes.code()),
            Self::OutputClosed => None,
            Self::Interrupted => Some(Code::Interrupted),
        }
    }

    /// What there is to say, line by line.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Sentence(text) | Self::Coded(_, text) => vec![text.clone()],
            Self::Mistakes(mistakes) => mistakes.lines(),
            Self::Said(_) | Self::OutputClosed | Self::Interrupted => Vec::new(),
        }
    }

    /// Says it on stderr; the exit code is for scripts.
    pub(crate) fn report(&self) -> ExitCode {
        for line in self.lines() {
            eprintln!("posthaste: {line}");
        }
        self.code().map_or(ExitCode::SUCCESS, |code| ExitCode::from(code as u8))
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Self {
        Self::Mistakes(mistakes)
    }
}

impl From<posthaste::Error> for Failure {
    fn from(error: posthaste::Error) -> Self {
        use posthaste::Error as E;
        match (&error, error.kind()) {
            (E::Database { doing, source } | E::Conflict { doing, source }, _) => {
                Self::Coded(Code::of(source), in_the_middle(doing, source))
            }
            (E::Schema(_), _) => {
                Self::configuration(format!("{error}; `posthaste migrate` creates the tables"))
            }
            (E::Late { .. } | E::NoConnection { .. }, _) => {
                Self::Coded(Code::Unavailable, format!("{error}; try again when the database answers"))
            }
            (E::ClusterChanged { .. }, _) => Self::configuration(error.to_string()),
            (_, ErrorKind::Invalid) => Self::usage(error.to_string()),
            (_, ErrorKind::NotFound) => Self::not_found(error.to_string()),
            _ => Self::Sentence(error.to_string()),
        }
    }
}

/// What a database that had let us in said later on, and what to do about it.
fn in_the_middle(doing: &str, source: &sqlx::Error) -> String {
    let code = source.as_database_error().and_then(|error| Some(error.code()?.into_owned()));
    let said =
        source.as_database_error().map_or_else(|| source.to_string(), |error| error.message().to_owned());
    match (Code::of(source), code.as_deref()) {
        (Code::Unavailable, Some("57014" | "25P03" | "25P04")) => format!(
            "could not {doing}: it took too long ({said}); try again, or give this role a longer statement_timeout"
        ),
        (Code::Unavailable, Some("55P03")) => {
            format!("could not {doing}: somebody else holds a lock ({said}); try again when it is released")
        }
        (Code::Unavailable, Some(code)) if code.len() < 5 && code != "13" => {
            format!(
                "could not {doing}: another program keeps the database locked ({said}); try again when it has finished"
            )
        }
        (Code::Unavailable, _) => {
            format!("could not {doing}: the database is not available ({said}); try again when it is")
        }
        (Code::Permission, _) => {
            format!("could not {doing}: {said}; grant it, or connect as the owner of the schema")
        }
        (Code::Configuration, Some("25006")) => {
            format!("could not {doing}: {said}; name the primary in database.url")
        }
        (Code::Configuration, Some("42P05" | "26000")) => format!(
            "could not {doing}: a pooler in transaction mode stands before the database ({said}); set prepared_statements = \
             false in [database], or connect directly"
        ),
        _ => format!("could not {doing}: {said}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_does_not_answer_is_away() {
        let within = std::time::Duration::from_secs(10);
        for error in [
            posthaste::Error::Late { doing: "list events", within },
            posthaste::Error::NoConnection { doing: "list events", within },
        ] {
            let failure = Failure::from(error);
            assert_eq!(failure.code(), Some(Code::Unavailable));
            assert!(failure.lines()[0].contains("10s") && failure.lines()[0].contains("try again"));
        }
    }
}
