//! Every Rust source file opens by saying what it owns.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.texts_in("", ".rs").filter(|(path, _)| is_source(path));
    let bare = sources.filter(|(_, text)| !text.starts_with("//!"));
    bare.map(|(path, _)| Finding::new(path, 1, "begin the file with a `//!` line that says what it owns"))
        .collect()
}

/// In the `src` folder of a crate: `crates/*/src/` or `xtask/src/`.
fn is_source(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "src", ..] | ["xtask", "src", ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_a_header_is_fine_and_other_files_need_none() {
        let tree =
            Tree::of(&[("crates/a/src/b/c.rs", "//! Owns c.\n"), ("crates/a/tests/t.rs", "fn t() {}\n")]);
        assert!(check(&tree).is_empty());
    }

    #[test]
    fn a_source_without_a_header_is_found() {
        let tree =
            Tree::of(&[("crates/a/src/b/c.rs", "\n//! Late.\n"), ("xtask/src/x.rs", "// Only a remark.\n")]);
        let paths: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["crates/a/src/b/c.rs", "xtask/src/x.rs"]);
    }
}
