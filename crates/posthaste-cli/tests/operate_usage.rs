//! Mistakes and first contacts: no tables, wrong usage, help, completions.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use operate_common::*;

#[tokio::test(flavor = "multi_thread")]
async fn without_tables_every_command_names_the_remedy() {
    let (_folder, path) = posthaste_testkit::sqlite_file();
    let mut urls = vec![format!("sqlite:{}", path.display())];
    for server in posthaste_testkit::servers() {
        let empty = posthaste_testkit::TestDatabase::empty_on(&server).await;
        urls.push(sqlx::ConnectOptions::to_url_lossy(&empty.options).to_string());
    }
    let id = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
    for url in urls {
        for arguments in [
            vec!["status"],
            vec!["subscriptions", "list"],
            vec!["subscriptions", "show", "x"],
            vec!["subscriptions", "set", "x", "--lease", "10s"],
            vec!["events", "list"],
            vec!["events", "show", id],
            vec!["events", "enqueue", "t", "x"],
            vec!["dead", "list"],
            vec!["dead", "retry", "--all"],
            vec!["keys", "blocked"],
            vec!["why", id],
            vec!["retain", "--older-than", "1d"],
            vec!["replay", "x", "--from", "beginning"],
        ] {
            let answer = answered(command(&url, &arguments).spawn().unwrap());
            assert_eq!((answer.code, answer.stdout.as_str()), (78, ""), "{arguments:?}: {answer:?}");
            assert!(answer.stderr.contains("posthaste migrate"), "{arguments:?}: {answer:?}");
            assert_eq!(answer.stderr.lines().count(), 1, "{arguments:?}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_exit_code_2_and_one_clear_sentence() {
    let bench = Bench::sqlite().await;
    for (arguments, expected) in [
        (vec!["why", "17"], "give an id such as"),
        (vec!["events", "show", "x"], "give an id such as"),
        (vec!["events", "list", "--limit", "0"], "a whole number from 1 to 500"),
        (vec!["events", "list", "--since", "yesterday"], "or how long ago"),
        (vec!["events", "list", "--status", "dead"], "--subscription"),
        (
            vec!["events", "list", "--subscription", "s", "--status", "gone"],
            "pending, processing, delivered or dead",
        ),
        (vec!["events", "enqueue", "t", "x", "-H", "a"], "name=value"),
        (vec!["events", "enqueue", "t", "x", "-H", "a b=c"], "header `a b`"),
        (vec!["events", "enqueue", "", "x"], "topic must not be empty"),
        (vec!["retain", "--older-than", "30"], "a number with a unit"),
        (vec!["retain"], "--older-than"),
        (vec!["replay", "s"], "--from"),
        (vec!["replay", "s", "--from", "17"], "an event's id"),
        (vec!["subscriptions", "set", "s", "--reset", "--lease", "3s"], "cannot be used with"),
        (vec!["dead", "retry"], "say which"),
        (vec!["completions", "tcsh"], "possible values"),
    ] {
        let answer = bench.run(&arguments);
        assert_eq!((answer.code, answer.stdout.as_str()), (2, ""), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(expected), "{arguments:?}: {answer:?}");
    }
}

/// Values that a tired person or a script types.
#[test]
fn hostile_values_are_refused_with_what_would_be_right() {
    let hostile = ["-1", "1e99", "1.5", "", " 5", "0x10", "NaN", "99999999999999999999", "１"];
    let set = ["subscriptions", "set", "billing"];
    let numbers = [
        (&set[..], "--rate", "a whole number of events a second, from 1 to 1000000, or 0 for no limit"),
        (&set, "--batch-size", "a whole number from 1 to 10000"),
        (&set, "--concurrency", "a whole number from 1 to 10000"),
        (&set, "--max-attempts", "a whole number from 1 to 10000"),
        (&["replay", "billing", "--from", "1h"], "--rate", "of events a second, from 1 to 1000000"),
        (&["events", "list"], "--limit", "a whole number from 1 to 500"),
        (&["dead", "list"], "--limit", "a whole number from 1 to 500"),
        (&["dev"], "--rate", "a whole number from 1 to 1000"),
        (&set, "--lease", "a number with a unit, such as"),
        (&set, "--timeout", "a number with a unit, such as"),
    ];
    for (arguments, flag, expected) in numbers {
        for value in hostile {
            let arguments = [arguments, &[flag, value]].concat();
            let answer = answered(command("sqlite:unused.db", &arguments).spawn().unwrap());
            assert_eq!((answer.code, answer.stdout.as_str()), (2, ""), "{arguments:?}: {answer:?}");
            assert!(answer.stderr.contains(expected), "{arguments:?}: {answer:?}");
        }
    }
    let zero = answered(
        command("sqlite:unused.db", &["replay", "x", "--from", "1h", "--rate", "0"]).spawn().unwrap(),
    );
    assert!(zero.code == 2 && zero.stderr.contains("from 1 to 1000000"), "a replay needs a limit: {zero:?}");
}

#[test]
fn a_mistyped_word_gets_a_suggestion() {
    for (arguments, expected) in [
        (vec!["statsu"], "'status'"),
        (vec!["events", "lst"], "'list'"),
        (vec!["subscriptions", "resum", "x"], "'resume'"),
        (vec!["status", "--wacth"], "'--watch'"),
        (vec!["subscriptions", "set", "x", "--reset", "rat"], "'rate'"),
        (vec!["init", "--sink", "kafak"], "`kafka`"),
    ] {
        let answer = answered(command("sqlite:unused.db", &arguments).spawn().unwrap());
        assert_eq!(answer.code, 2, "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(expected), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn without_a_command_the_commands_are_shown() {
    for arguments in [vec![], vec!["subscriptions"], vec!["events"], vec!["dead"], vec!["keys"]] {
        let answer = answered(command("sqlite:unused.db", &arguments).spawn().unwrap());
        assert_eq!(answer.code, 2, "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains("Commands:") && answer.stderr.contains("Examples:"), "{answer:?}");
    }
}

/// All of them, as people type them.
const COMMANDS: &str = "status|subscriptions list|subscriptions show|subscriptions set|subscriptions pause|\
    subscriptions resume|subscriptions rewind|subscriptions remove|events list|events show|events enqueue|\
    dead list|dead show|dead retry|dead edit|dead discard|keys blocked|keys release|replay|why|retain|completions|\
    relay|dev|init|check|doctor|migrate|version";

#[test]
fn the_reference_names_every_command() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    for name in COMMANDS.split('|') {
        assert!(page.contains(&format!("`posthaste {name}")), "{name}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for name in COMMANDS.split('|') {
        let arguments: Vec<&str> = name.split(' ').chain(["--help"]).collect();
        let answer = answered(command("unused", &arguments).spawn().unwrap());
        assert_eq!(answer.code, 0, "{answer:?}");
        let (own, examples) = answer.stdout.split_once("Example").expect("an example");
        assert!(examples.contains(&format!("  posthaste {name}")), "{answer:?}");
        let (_, common) = own.split_once("Common options:").expect("a part of their own");
        assert!(common.contains("--json") && !common.contains("--help"), "{answer:?}");
    }
}

#[test]
fn completions_are_printed_for_every_shell_without_a_database() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let answer = answered(command("unused", &["completions", shell]).spawn().unwrap());
        assert_eq!(answer.code, 0, "{shell}: {}", answer.stderr);
        assert!(answer.stdout.contains("subscriptions") && answer.stdout.contains("completions"), "{shell}");
    }
}
