//! Module order of the library: `lib.rs` declares modules in reading order, and a module uses only those above it.
//! Modules of the block whose comment says `steps` do not use each other at all.
//!
//! Reads text, not syntax: `crate::name` counts as a use wherever it stands outside comments, before the file's tests.

use super::{Finding, Tree};

const SOURCE: &str = "crates/posthaste/src/";

/// A module as `lib.rs` declares it.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    is_step: bool,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let modules = declared(tree.text(&format!("{SOURCE}lib.rs")).unwrap_or_default());
    let files = tree.texts_in(SOURCE, ".rs").filter_map(|(path, text)| {
        let position = modules.iter().position(|module| module.name == module_of(path))?;
        Some((path, text, position))
    });
    files.flat_map(|(path, text, position)| check_file(path, text, position, &modules)).collect()
}

/// The module a file belongs to: `store` for `store.rs` and for everything in `store/`.
fn module_of(path: &str) -> &str {
    let inside = path.strip_prefix(SOURCE).unwrap_or(path);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

/// Blocks begin with a numbered comment, `// 3 steps: ...`; other comments do not end a block.
fn declared(lib: &str) -> Vec<Module> {
    let (mut modules, mut is_step) = (Vec::new(), false);
    for line in lib.lines().map(str::trim) {
        if let Some(title) =
            line.strip_prefix("// ").filter(|title| title.starts_with(|c: char| c.is_ascii_digit()))
        {
            is_step = title.split(|c: char| !c.is_alphanumeric()).any(|word| word == "steps");
        } else if let Some(name) = declaration(line) {
            modules.push(Module { name: name.to_owned(), is_step });
        }
    }
    modules
}

/// The name in `mod name;`, whatever its visibility.
fn declaration(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    let visibility = before.trim();
    (visibility.is_empty() || visibility.starts_with("pub")).then_some(name.trim())
}

fn check_file(path: &str, text: &str, position: usize, modules: &[Module]) -> Vec<Finding> {
    let user = &modules[position];
    let problem = |(line, name): (usize, String)| {
        let used = modules.iter().position(|module| module.name == name)?;
        let sentence = complaint(user, position, &modules[used], used)?;
        Some(Finding::new(path, line, sentence))
    };
    let mut findings: Vec<Finding> = uses(&code_of(text)).into_iter().filter_map(problem).collect();
    findings.dedup();
    findings
}

fn complaint(user: &Module, position: usize, used: &Module, used_position: usize) -> Option<String> {
    let (user_name, used_name) = (&user.name, &used.name);
    if position == used_position {
        None
    } else if user.is_step && used.is_step {
        Some(format!(
            "`{user_name}` uses `{used_name}`, but steps do not use each other; only the assembly chains them"
        ))
    } else if used_position > position {
        Some(format!("`{user_name}` uses `{used_name}`, which lib.rs declares below it; move one of them"))
    } else {
        None
    }
}

/// The text up to its tests, with comments blanked; lines keep their numbers.
fn code_of(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"));
    lines.map(|line| without_comment(line).to_owned() + "\n").collect()
}

/// Two slashes after a colon are part of an address in a string.
fn without_comment(line: &str) -> &str {
    let mut slashes = line.match_indices("//").map(|(at, _)| at);
    slashes.find(|at| !line[..*at].ends_with(':')).map_or(line, |at| &line[..at])
}

/// Every name that follows `crate::`, directly or in a group, with the line it stands on.
fn uses(code: &str) -> Vec<(usize, String)> {
    let starts = code.match_indices("crate::").map(|(at, word)| at + word.len());
    starts.flat_map(|start| names_at(code, start)).collect()
}

fn names_at(code: &str, start: usize) -> Vec<(usize, String)> {
    let rest = &code[start..];
    let skipped = rest.len() - rest.trim_start().len();
    let offsets = if rest[skipped..].starts_with('{') { group_members(&rest[skipped..]) } else { vec![0] };
    let named = offsets.into_iter().map(|offset| start + skipped + offset);
    named.map(|at| (code[..at].matches('\n').count() + 1, name_at(&code[at..]))).collect()
}

/// Where the members of `{a::{b, c}, d}` begin: at `a` and `d`, but not inside the inner group.
fn group_members(group: &str) -> Vec<usize> {
    let (mut depth, mut members, mut expecting) = (0_usize, Vec::new(), false);
    for (at, c) in group.char_indices() {
        match c {
            '{' => (depth, expecting) = (depth + 1, depth == 0),
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => expecting = true,
            c if expecting && !c.is_whitespace() => {
                members.push(at);
                expecting = false;
            }
            _ => {}
        }
    }
    members
}

fn name_at(code: &str) -> String {
    code.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! x\n\n// 1 vocabulary\nmod id;\npub mod event;\n// 2 ports\npub(crate) mod store;\n\
                       // 3 steps, one verb each\nmod claim;\n// a remark\nmod settle;\n// 4 assembly\nmod worker;\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        let path = format!("{SOURCE}{path}");
        check(&Tree::of(&[("crates/posthaste/src/lib.rs", LIB), (&path, text)]))
            .iter()
            .map(|finding| finding.to_string().replace(SOURCE, ""))
            .collect()
    }

    #[test]
    fn declarations_are_read_in_order_with_their_block() {
        let read: Vec<(String, bool)> = declared(LIB).into_iter().map(|m| (m.name, m.is_step)).collect();
        let names = ["id", "event", "store", "claim", "settle", "worker"];
        let steps = [false, false, false, true, true, false];
        assert_eq!(read, names.map(str::to_owned).into_iter().zip(steps).collect::<Vec<_>>());
    }

    #[test]
    fn using_what_is_declared_above_is_fine() {
        let text =
            "use crate::{\n    id::EventId,\n    event::{Event, Headers},\n};\nuse crate::store::Row;\n";
        assert!(findings("store/postgres/claim.rs", text).is_empty());
        assert!(findings("worker.rs", "use crate::{claim, settle};").is_empty());
        assert!(findings("lib.rs", "use crate::worker;").is_empty());
    }

    #[test]
    fn using_what_is_declared_below_is_found() {
        let found = findings("id.rs", "\n\nfn f() { crate::event::Event::new() }\n");
        assert_eq!(found, ["id.rs:3: `id` uses `event`, which lib.rs declares below it; move one of them"]);
    }

    #[test]
    fn groups_over_several_lines_are_joined_first() {
        let text =
            "use crate::{\n    id::{self, event},\n    store::{\n        Row,\n    },\n    worker,\n};\n";
        let found = findings("event.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("event.rs:3: `event` uses `store`"));
        assert!(found[1].starts_with("event.rs:6: `event` uses `worker`"));
    }

    #[test]
    fn steps_using_each_other_are_found_even_in_order() {
        let found = findings("settle.rs", "use crate::claim::Claim;\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("settle.rs:1: `settle` uses `claim`, but steps"));
    }

    #[test]
    fn comments_addresses_and_tests_do_not_count() {
        let text =
            "/// See [`crate::worker`].\nlet a = 1; // crate::worker\n#[cfg(test)]\nuse crate::worker;\n";
        assert!(findings("id.rs", text).is_empty());
        let found = findings("id.rs", "connect(\"postgres://x\", crate::worker::NAME)\n");
        assert_eq!(found.len(), 1);
    }
}
