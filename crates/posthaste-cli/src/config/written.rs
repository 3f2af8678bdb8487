//! What the user wrote: the file, the environment and the flags as one table, and where each value came from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use posthaste_sinks::{Problem, Problems, Surroundings};
use serde_json::{Map, Value};

use super::{environment, file, sink};
use crate::failure::{Mistakes, Place};

/// The file that is read if nobody names one.
pub(crate) const USUAL_FILE: &str = "posthaste.toml";

/// Where to look. Flags are paths and values, as in `relay.grace` and `10s`. Not `Debug`, like all that is as it was
/// written: it may hold passwords.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    pub(crate) file: Option<PathBuf>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) flags: Vec<Flag>,
}

/// A flag that stands for a place in the file.
#[derive(Clone)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) value: String,
}

/// Everything in one table, the stronger source over the weaker.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) table: Map<String, Value>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) surroundings: Surroundings,
    pub(crate) origins: Origins,
}

impl Sources {
    /// The process' environment, as far as it is text.
    pub(crate) fn variables() -> BTreeMap<String, String> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    /// The file to read: the one that was named, or the usual one if it is there.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| Some(PathBuf::from(USUAL_FILE)).filter(|usual| usual.exists()))
    }

    /// Reads everything. Mistakes of the environment are noted; a file that cannot be read ends it.
    pub(crate) fn read(&self, problems: &Problems) -> Result<Written, Mistakes> {
        let file = self.file();
        let mut table = file.as_deref().map_or_else(|| Ok(Map::new()), file::read)?;
        let mut origins = Origins::default();
        environment::lay_over(&mut table, &self.variables, &mut origins, problems);
        self.lay_flags_over(&mut table, &mut origins);
        self.fall_back(&mut table, &mut origins);
        sink::share_database_url(&mut table);
        let surroundings =
            Surroundings { variables: self.variables.clone(), folder: folder_of(file.as_deref()) };
        Ok(Written { table, file, surroundings, origins })
    }

    fn lay_flags_over(&self, table: &mut Map<String, Value>, origins: &mut Origins) {
        for flag in &self.flags {
            let path: Vec<String> = flag.path.split('.').map(str::to_owned).collect();
            origins.remember(&path, flag.name);
            environment::insert(table, &path, Value::String(flag.value.clone()));
        }
    }

    /// `DATABASE_URL` is what many tools agree on, so it counts, as the weakest source.
    fn fall_back(&self, table: &mut Map<String, Value>, origins: &mut Origins) {
        let url = self.variables.get("DATABASE_URL").filter(|url| !url.is_empty());
        let database = table.get("database").unwrap_or(&Value::Null);
        let free = database.is_null() || database.as_object().is_some_and(|table| !table.contains_key("url"));
        if let Some(url) = url.filter(|_| free) {
            let path = ["database".to_owned(), "url".to_owned()];
            origins.remember(&path, "DATABASE_URL");
            environment::insert(table, &path, Value::String(url.clone()));
        }
    }
}

impl Written {
    /// Each problem with its origin, and all of them with the place to correct.
    pub(super) fn mistakes(&self, problems: Vec<Problem>) -> Mistakes {
        let by_flag = |problem: &Problem| self.origins.of(&problem.path).is_some_and(is_flag);
        let place = match problems.iter().all(by_flag) {
            true => Place::CommandLine,
            false => Place::Configuration(self.file.clone()),
        };
        let problems = problems.into_iter().map(|problem| self.origins.explain(problem)).collect();
        Mistakes { place, problems }
    }
}

fn is_flag(origin: &str) -> bool {
    origin.starts_with("--")
}

fn folder_of(file: Option<&Path>) -> PathBuf {
    file.and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default()
}

/// Which values came from a variable or a flag, by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins {
    by_path: BTreeMap<String, String>,
}

impl Origins {
    pub(super) fn remember(&mut self, path: &[String], origin: &str) {
        self.by_path.insert(path.join("."), origin.to_owned());
    }

    /// Where the value at this path, or the table it is in, came from.
    pub(crate) fn of(&self, path: &str) -> Option<&str> {
        let within = |origin: &str| {
            path.strip_prefix(origin).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.by_path.iter().find(|(origin, _)| within(origin)).map(|(_, name)| name.as_str())
    }

    /// What put anything into the table at this path.
    pub(super) fn of_table(&self, path: &str) -> Option<&str> {
        let inside = |origin: &str| {
            origin.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.by_path.iter().find(|(origin, _)| inside(origin)).map(|(_, name)| name.as_str())
    }

    /// The same problem, with the variable or flag to change.
    fn explain(&self, problem: Problem) -> Problem {
        let unknown = problem.sentence.starts_with("is not known here");
        let origin = self.of(&problem.path).or_else(|| self.of_table(&problem.path).filter(|_| unknown));
        match origin.filter(|_| !problem.path.is_empty()) {
            Some(origin) => Problem { sentence: format!("{} (from {origin})", problem.sentence), ..problem },
            None => problem,
        }
    }
}
