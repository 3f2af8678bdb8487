//! Things no line may contain: unfinished work, ignored tests, stray whitespace.

use super::{Finding, Tree};

/// Taken apart, so that this file does not find itself.
const FORBIDDEN: [(&str, &str); 3] = [
    (concat!("todo", "!("), "unfinished code"),
    (concat!("dbg", "!("), "a debugging aid"),
    (concat!("#[", "ignore"), "an ignored test; run it, or remove it"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts().flat_map(|(path, text)| check_text(path, text)).collect()
}

fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let numbered = text.lines().enumerate();
    let problems = numbered.flat_map(|(at, line)| problems(path, line).into_iter().map(move |p| (at + 1, p)));
    problems.map(|(line, problem)| Finding::new(path, line, problem)).collect()
}

fn problems(path: &str, line: &str) -> Vec<String> {
    let forbidden = FORBIDDEN.iter().filter(|(word, _)| line.contains(word));
    let mut problems: Vec<String> = forbidden.map(|(word, what)| format!("`{word}` is {what}")).collect();
    if line.ends_with(char::is_whitespace) {
        problems.push("the line ends with whitespace".to_owned());
    }
    if path.ends_with(".rs") && line.contains('\t') {
        problems.push("indent with spaces, not with a tab".to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn ordinary_lines_are_fine() {
        assert!(found("a.rs", "fn a() {\n    b(\"\\t\");\n}\n\n").is_empty());
        assert!(found("Makefile", "all:\n\tcargo build\n").is_empty());
    }

    #[test]
    fn unfinished_work_is_found() {
        for (word, _) in FORBIDDEN {
            assert_eq!(found("a.rs", &format!("fn a() {{\n    {word}\n}}\n")), [2], "{word}");
        }
    }

    #[test]
    fn stray_whitespace_is_found() {
        assert_eq!(found("a.md", "a\nb \n\u{20}\nc\t\n"), [2, 3, 4]);
        assert_eq!(found("a.rs", "fn a() {\n\tb();\n}\n"), [2]);
        assert_eq!(found("a.sql", "SELECT 1;\r\nSELECT 2; \r\n"), [2]);
    }
}
