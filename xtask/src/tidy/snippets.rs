//! Code in the documentation that says where it comes from must be that code: `<!-- snippet: path#name -->` before a
//! fence, and in the file of that path the lines between `snippet: name` and `end snippet`, each in a comment.

use super::{Finding, Tree};

const OPEN: &str = "<!-- snippet: ";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts_in("", ".md").flat_map(|(path, text)| check_page(tree, path, text)).collect()
}

fn check_page(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let marked = lines.iter().enumerate().filter_map(|(at, line)| Some((at, source_of(line)?)));
    let problem = |(at, source): (usize, &str)| {
        let sentence = compare(tree, source, &fenced(&lines[at + 1..])).err()?;
        Some(Finding::new(path, at + 1, sentence))
    };
    marked.filter_map(problem).collect()
}

/// `path#name`
fn source_of(line: &str) -> Option<&str> {
    line.trim().strip_prefix(OPEN)?.strip_suffix("-->").map(str::trim)
}

/// The lines of the fence that follows at once.
fn fenced<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    match lines.split_first() {
        Some((first, rest)) if first.starts_with("```") => {
            rest.iter().copied().take_while(|line| !line.starts_with("```")).collect()
        }
        _ => Vec::new(),
    }
}

fn compare(tree: &Tree, source: &str, shown: &[&str]) -> Result<(), String> {
    let (path, name) = source.split_once('#').ok_or("write `path#name`")?;
    let text = tree.text(path).ok_or_else(|| format!("there is no file `{path}`"))?;
    let region = region(text, name).ok_or_else(|| format!("`{path}` has no snippet `{name}` that ends"))?;
    match region == shown {
        true => Ok(()),
        false => Err(format!("the code below is not the snippet `{name}` of `{path}`; copy it again")),
    }
}

/// The lines of a snippet, moved to the left as far as they go, without empty ones at the end.
fn region<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let says = |line: &str, words: &str| {
        let line = line.trim();
        ["//", "#", "--"].iter().any(|mark| line.strip_prefix(mark).is_some_and(|rest| rest.trim() == words))
    };
    let begin = format!("snippet: {name}");
    let mut lines = text.lines().skip_while(|line| !says(line, &begin)).skip(1);
    let mut region = Vec::new();
    loop {
        match lines.next()? {
            line if says(line, "end snippet") => break,
            line => region.push(line),
        }
    }
    while region.last().is_some_and(|line| line.trim().is_empty()) {
        region.pop();
    }
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let left = region.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    Some(region.into_iter().map(|line| line.get(left..).unwrap_or("")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "fn a() {\n    // snippet: body\n    if b {\n        c();\n\n    }\n\n    // end snippet\n}\n";

    fn findings(page: &str) -> Vec<String> {
        let tree =
            Tree::of(&[("x.rs", CODE), ("y.py", "# snippet: all\nprint()\n# end snippet\n"), ("d.md", page)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn the_same_code_is_fine_also_when_it_stands_further_left() {
        let page = "<!-- snippet: x.rs#body -->\n```rust\nif b {\n    c();\n\n}\n```\n\
                    <!-- snippet: y.py#all -->\n```python\nprint()\n```\n";
        assert_eq!(findings(page), [""; 0]);
    }

    #[test]
    fn other_code_is_found() {
        let found = findings("x\n<!-- snippet: y.py#all -->\n```python\nprint(1)\n```\n");
        assert_eq!(found, ["d.md:2: the code below is not the snippet `all` of `y.py`; copy it again"]);
        assert_eq!(findings("<!-- snippet: y.py#all -->\n\n```python\nprint()\n```\n").len(), 1);
    }

    #[test]
    fn a_source_that_is_not_there_is_found() {
        let found =
            findings("<!-- snippet: z.rs#a -->\n<!-- snippet: x.rs#head -->\n<!-- snippet: x.rs -->\n");
        assert_eq!(found[0], "d.md:1: there is no file `z.rs`");
        assert_eq!(found[1], "d.md:2: `x.rs` has no snippet `head` that ends");
        assert_eq!(found[2], "d.md:3: write `path#name`");
    }
}
