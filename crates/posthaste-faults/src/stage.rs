//! What every row finds ready: the built programs, the servers, and how long it may take.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use posthaste_testkit::{Server, servers};
use serde_json::Value;

use crate::finding::Result;

/// The stage of a run.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) quick: bool,
    /// The program `posthaste`.
    pub(crate) relay: PathBuf,
    /// The servers that run all the time.
    pub(crate) servers: Vec<Server>,
    /// Test programs, by package and name.
    tests: HashMap<(String, String), PathBuf>,
}

impl Stage {
    /// Finds everything in what cargo said it built; another `relay` comes before that one.
    pub(crate) fn new(built: Option<&Path>, relay: Option<&Path>, quick: bool) -> Result<Self> {
        let built = built.ok_or("no --built FILE; `cargo xtask faults` builds everything and gives it")?;
        let text = std::fs::read_to_string(built).map_err(|error| format!("{}: {error}", built.display()))?;
        let (mut relay, mut tests) = (relay.map(Path::to_owned), HashMap::new());
        for message in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(program) = message["executable"].as_str().map(PathBuf::from) else { continue };
            let name = message["target"]["name"].as_str().unwrap_or_default();
            match message["profile"]["test"].as_bool() {
                Some(true) => drop(tests.insert((package(&message), name.to_owned()), program)),
                _ if name == "posthaste" => drop(relay.get_or_insert(program)),
                _ => {}
            }
        }
        let relay = relay.ok_or("cargo built no program `posthaste`")?;
        Ok(Self { quick, relay, servers: servers(), tests })
    }

    /// How often, or how long: in a quick run, and in a full one.
    pub(crate) fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A test program.
    pub(crate) fn test(&self, package: &str, name: &str) -> Result<&Path> {
        let found = self.tests.get(&(package.to_owned(), name.to_owned())).map(PathBuf::as_path);
        found.ok_or_else(|| format!("cargo built no test program `{name}` of {package}").into())
    }
}

/// The name in `path+file:///clone/crates/posthaste#0.1.0` or `path+file:///clone/examples/x#name@0.1.0`.
fn package(message: &Value) -> String {
    let id = message["package_id"].as_str().unwrap_or_default();
    let (place, rest) = id.split_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => place.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_package_is_found_in_both_forms_of_its_id() {
        let name = |id: &str| package(&serde_json::json!({ "package_id": id }));
        assert_eq!(name("path+file:///clone/crates/posthaste#0.1.0"), "posthaste");
        assert_eq!(name("path+file:///clone/examples/x#licences@0.1.0"), "licences");
    }
}
