//! Every relative link in a Markdown file leads to a file of the project. Other sites and anchors are not followed.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts_in("", ".md").flat_map(|(path, text)| check_page(tree, path, text)).collect()
}

fn check_page(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let broken = |(line, target): (usize, String)| {
        let file = resolve(path, &target)?;
        let inside = file.is_some_and(|file| tree.contains(&file));
        (!inside).then(|| Finding::new(path, line, format!("the link to `{target}` leads nowhere")))
    };
    links(text).into_iter().filter_map(broken).collect()
}

/// Every link target with its line, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let (mut links, mut in_code) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code {
            links.extend(line_links(&without_code(line)).into_iter().map(|target| (at + 1, target)));
        }
    }
    links
}

/// Drops what stands between backticks: every second piece, unless the last backtick is alone.
fn without_code(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    let last = pieces.len() - 1;
    let is_prose = |at: usize| at.is_multiple_of(2) || at == last;
    pieces.iter().enumerate().filter(|(at, _)| is_prose(*at)).map(|(_, piece)| *piece).collect()
}

/// The targets of `[text](target "title")` and of `[name]: target`.
fn line_links(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").filter_map(|(at, mark)| target(&line[at + mark.len()..], ')'));
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline.chain(definition.and_then(|(_, rest)| target(rest, ' '))).collect()
}

/// Reads a target up to its end, a space before a title, or within `<` and `>`.
fn target(text: &str, end: char) -> Option<String> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split('>').next().map(str::to_owned);
    }
    text.split(|c: char| c == end || c.is_whitespace())
        .next()
        .filter(|target| !target.is_empty())
        .map(str::to_owned)
}

/// The file a target means, from the root; a link out of the project means none. Outer `None`: not ours to check.
fn resolve(page: &str, target: &str) -> Option<Option<String>> {
    let file = target.split(['#', '?']).next().unwrap_or_default();
    let is_address = target.contains("://") || target.starts_with("mailto:");
    if file.is_empty() || is_address {
        return None;
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let from_root = file.strip_prefix('/').map_or_else(|| format!("{folder}/{file}"), str::to_owned);
    Some(normalize(&from_root.replace("%20", " ")))
}

fn normalize(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(page: &str) -> Vec<Finding> {
        check(&Tree::of(&[
            ("docs/guide/a.md", page),
            ("README.md", ""),
            ("docs/b c.md", ""),
            ("docs/pic.png", ""),
        ]))
    }

    #[test]
    fn links_to_files_folders_sites_and_anchors_are_fine() {
        let page = "[a](a.md#top) [up](../../README.md) [folder](..) [root](/docs/guide/) ![p](../pic.png \"a pic\")\n\
                    [space](<../b c.md>) [space](../b%20c.md) [web](https://x.y/z.md) [m](mailto:a@b.c) [here](#top)\n\
                    [named]: ../../README.md\n";
        assert_eq!(broken(page), []);
    }

    #[test]
    fn code_is_not_searched() {
        assert_eq!(broken("`[x](gone.md)` and\n```\n[x](gone.md)\n```\n"), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "[x](gone.md)\n`a` [x](../guide/gone.md#top)\n\n[n]: gone.md \"title\"\n[x](../../../README.md)\n";
        let lines: Vec<usize> = broken(page).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2, 4, 5]);
    }
}
