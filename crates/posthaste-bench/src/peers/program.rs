//! Peers that are programs of their own, built from their registries: `peers/README.md` tells the protocol.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::measure::Result;

/// The longest one verb may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// How to start one of them.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    command: Vec<PathBuf>,
}

/// Everybody, with the name of the file that drives it.
const NODE: [(&str, &str); 2] =
    [("graphile-worker (Node)", "graphile-worker.mjs"), ("pg-boss (Node)", "pg-boss.mjs")];
const RUST: [(&str, &str); 4] = [
    ("obix", "obix"),
    ("graphile_worker (Rust)", "graphile_worker"),
    ("outbox-postgres", "outbox-postgres"),
    ("cf-gears-toolkit-db", "gears"),
];

/// Those that were built. Folders come from `cargo xtask bench`; without one its peers do not take part.
pub(crate) fn all(rust: Option<&PathBuf>, node: Option<&PathBuf>) -> Vec<Program> {
    let node = node.into_iter().flat_map(|folder| {
        let own = Some(folder.join("node_modules/.bin/node")).filter(|node| node.exists());
        let node = own.unwrap_or_else(|| PathBuf::from("node"));
        NODE.map(|(name, file)| Program { name, command: vec![node.clone(), folder.join(file)] })
    });
    let rust = rust
        .into_iter()
        .flat_map(|folder| RUST.map(|(name, file)| Program { name, command: vec![folder.join(file)] }));
    let there = |program: &Program| program.command.last().is_some_and(|file| file.is_file());
    node.chain(rust).filter(there).collect()
}

/// The names of those that are not among these.
pub(crate) fn absent(programs: &[Program]) -> Vec<&'static str> {
    let names = NODE.iter().chain(&RUST).map(|(name, _)| *name);
    names.filter(|name| !programs.iter().any(|program| program.name == *name)).collect()
}

impl Program {
    /// Runs a verb and gives what it printed.
    pub(crate) async fn run(&self, verb: &str, url: &str, arguments: &[u64]) -> Result<Value> {
        let (program, files) = self.command.split_first().ok_or("a peer without a program")?;
        let mut command = Command::new(program);
        command.args(files).args([verb, url]).args(arguments.iter().map(u64::to_string));
        command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output());
        let output = output.await.map_err(|_| format!("{verb} took longer than {PATIENCE:?}"))??;
        let said = String::from_utf8_lossy(&output.stdout);
        match output.status.success() {
            true => Ok(serde_json::from_str(said.lines().last().unwrap_or_default())?),
            false => {
                let complaint = String::from_utf8_lossy(&output.stderr);
                Err(format!("{verb}: {}", complaint.lines().last().unwrap_or("no reason given")).into())
            }
        }
    }

    /// The same, for one number of it.
    pub(crate) async fn number(&self, verb: &str, url: &str, arguments: &[u64], of: &str) -> Result<f64> {
        let answer = self.run(verb, url, arguments).await?;
        answer[of].as_f64().ok_or_else(|| format!("{verb} told no `{of}`: {answer}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_not_built_is_absent_by_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("obix"), "").unwrap();
        let programs = all(Some(&folder.path().to_owned()), None);
        let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
        assert_eq!(names, ["obix"]);
        let absent = absent(&programs);
        assert_eq!(absent.len(), NODE.len() + RUST.len() - 1);
        assert!(!absent.contains(&"obix") && absent.contains(&"pg-boss (Node)"));
    }
}
