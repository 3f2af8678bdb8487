//! `cargo xtask tidy`: what the compiler does not check. Every check looks at the same list of files and reports
//! everything it finds; nothing is changed and nothing stops at the first finding.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use crate::{Result, without_arguments, workspace_root};

mod changelog;
mod headers;
mod lines;
mod links;
mod modules;
mod snippets;
mod sql;
mod tree;

use tree::Tree;

const CHECKS: [fn(&Tree) -> Vec<Finding>; 7] = [
    modules::check,
    headers::check,
    sql::check,
    lines::check,
    links::check,
    snippets::check,
    changelog::check,
];

/// Something to put right, at one line of one file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    sentence: String,
}

impl Finding {
    fn new(path: &str, line: usize, sentence: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, sentence: sentence.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// Runs all checks and lists what they found.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    without_arguments(args, || {
        let findings = find_all(&Tree::of_workspace(&workspace_root()?)?);
        for finding in &findings {
            println!("{finding}");
        }
        Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn find_all(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_findings_are_listed_at_once_in_order() {
        let tree = Tree::of(&[("xtask/src/b.rs", "fn b() {}\n"), ("a.md", "[x](gone.md)\n")]);
        let listed: Vec<String> = find_all(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(listed.len(), 3);
        assert!(listed[0].starts_with("CHANGELOG.md:1: "));
        assert!(listed[1].starts_with("a.md:1: "));
        assert!(listed[2].starts_with("xtask/src/b.rs:1: "));
    }
}
