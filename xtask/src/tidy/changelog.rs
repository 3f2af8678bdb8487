//! The changelog is there and has a place for the next change.

use super::{Finding, Tree};

const PATH: &str = "CHANGELOG.md";
const SECTION: &str = "## [Unreleased]";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    match tree.text(PATH) {
        None => vec![Finding::new(PATH, 1, "the file is missing")],
        Some(text) if text.lines().any(|line| line.starts_with(SECTION)) => vec![],
        Some(_) => vec![Finding::new(PATH, 1, format!("there is no section `{SECTION}`"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_with_an_unreleased_section_is_fine() {
        assert!(check(&Tree::of(&[(PATH, "# Changelog\n\n## [Unreleased]\n")])).is_empty());
    }

    #[test]
    fn a_missing_changelog_or_section_is_found() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
        assert_eq!(check(&Tree::of(&[(PATH, "# Changelog\n\n## [0.1.0]\n")])).len(), 1);
    }
}
