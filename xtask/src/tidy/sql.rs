//! SQL is source: every statement file is used by the library and opens with a comment on its locks and its index.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let statements = tree.texts_in("crates/posthaste/src/", ".sql").filter(|(path, _)| is_statement(path));
    statements.flat_map(|(path, text)| [check_header(path, text), check_use(tree, path)]).flatten().collect()
}

/// `crates/posthaste/src/store/*/sql/*.sql`, and the same of the inbox.
fn is_statement(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["crates", "posthaste", "src", "store" | "inbox", _, "sql", _])
}

fn check_header(path: &str, text: &str) -> Option<Finding> {
    let sentence = "begin the statement with a `--` line that says what it does, locks and reads";
    (!text.starts_with("--")).then(|| Finding::new(path, 1, sentence))
}

fn check_use(tree: &Tree, path: &str) -> Option<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let used = tree.texts_in("crates/posthaste/", ".rs").any(|(_, text)| mentions(text, name));
    (!used).then(|| {
        Finding::new(path, 1, format!("no Rust file of the crate uses `{name}`; use it or remove it"))
    })
}

/// Whether the whole file name occurs: `reclaim.sql` does not mention `claim.sql`.
fn mentions(text: &str, name: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    text.match_indices(name).any(|(at, _)| !text[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "crates/posthaste/src/store/postgres/sql/claim.sql";

    fn findings(sql: &str, rust: &str) -> Vec<Finding> {
        check(&Tree::of(&[(CLAIM, sql), ("crates/posthaste/src/store/postgres.rs", rust)]))
    }

    #[test]
    fn a_used_statement_with_a_header_is_fine() {
        assert!(findings("-- Claims.\nSELECT 1;\n", "include_str!(\"postgres/sql/claim.sql\")").is_empty());
        assert!(findings("-- Claims.\nSELECT 1;\n", "statement!(\"claim.sql\")").is_empty());
    }

    #[test]
    fn a_statement_without_a_header_is_found() {
        let found = findings("SELECT 1;\n", "statement!(\"claim.sql\")");
        assert_eq!(found.len(), 1);
        assert!(found[0].sentence.contains("`--`"));
    }

    #[test]
    fn statements_of_the_inbox_are_checked_too() {
        let tree = Tree::of(&[("crates/posthaste/src/inbox/sqlite/sql/mark.sql", "select 1;\n")]);
        assert_eq!(check(&tree).len(), 2, "no header, and nobody uses it");
    }

    #[test]
    fn a_statement_nobody_uses_is_found() {
        let found = findings("-- Claims.\n", "statement!(\"reclaim.sql\")");
        assert_eq!(found.len(), 1);
        assert!(found[0].sentence.contains("uses `claim.sql`"));
    }
}
