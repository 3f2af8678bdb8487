//! The order of file, environment and flags; what `init` writes; the examples of the documentation.

use crate::mistakes::{DATABASE, SINK, expect};
use crate::support::{Ended, Folder};

/// Which database a command takes, told by the file it misses.
fn chosen(folder: &Folder, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let arguments = [&["check", "--json"], arguments].concat();
    let ended = Ended::of(
        folder.command(&arguments).envs(variables.iter().copied()).output().expect("the binary runs"),
    );
    let items = ended.json()["items"].clone();
    let item =
        items.as_array().and_then(|items| items.iter().find(|item| item["item"] == "database").cloned());
    let sentence =
        item.unwrap_or_else(|| panic!("{ended:?}"))["sentence"].as_str().expect("a text").to_owned();
    sentence.split(';').next().expect("a part").trim_start_matches("there is no database ").to_owned()
}

#[test]
fn flags_win_over_variables_over_the_file_over_database_url() {
    let (own, usual) = (("POSTHASTE_DATABASE__URL", "sqlite:own.db"), ("DATABASE_URL", "sqlite:usual.db"));
    let (file, empty) =
        (Folder::with(&format!("[database]\nurl = \"sqlite:file.db\"\n{SINK}")), Folder::new());
    assert_eq!(chosen(&empty, &[], &[usual]), "usual.db");
    assert!(chosen(&file, &[], &[usual]).ends_with("file.db"));
    assert_eq!(chosen(&file, &[], &[usual, own]), "own.db");
    assert_eq!(chosen(&file, &["--database", "sqlite:flag.db"], &[usual, own]), "flag.db");
}

#[test]
fn paths_begin_at_the_file_they_are_written_in() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("etc")).expect("a folder");
    let text =
        "[database]\nurl = \"sqlite:shop.db\"\n[subscriptions.a.sink]\ntype = \"file\"\npath = \"a.jsonl\"\n";
    folder.write("etc/shop.toml", text);
    assert_eq!(chosen(&folder, &["--config", "etc/shop.toml"], &[]), "etc/shop.db");
    assert_eq!(
        chosen(&folder, &["--config", "etc/shop.toml", "--database", "sqlite:here.db"], &[]),
        "here.db"
    );
    assert!(folder.path("etc/a.jsonl").exists(), "the sink was checked next to its file");
}

#[test]
fn variables_find_subscriptions_however_their_names_are_written_and_may_bring_new_ones() {
    let text = format!("{DATABASE}[subscriptions.Orders-to_Kafka.sink]\ntype = \"stdout\"\n");
    let check = |variables: &[(&str, &str)]| {
        let folder = Folder::with(&text);
        let mut command = folder.command(&["check", "--offline"]);
        Ended::of(command.envs(variables.iter().copied()).output().expect("the binary runs"))
    };
    let ended = check(&[("POSTHASTE_SUBSCRIPTIONS__ORDERS_TO_KAFKA__LANES", "many")]);
    assert!(ended.stdout.contains("subscriptions.Orders-to_Kafka.lanes: expected"), "{ended:?}");
    let ended = check(&[
        ("POSTHASTE_SUBSCRIPTIONS__AUDIT__SINK__TYPE", "stdout"),
        ("POSTHASTE_SUBSCRIPTIONS__AUDIT__TOPICS", "[\"orders\", \"carts\"]"),
        ("POSTHASTE_TEST_ANYTHING", "is none of our business"),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("with Orders-to_Kafka, audit"), "{ended:?}");
}

#[test]
fn what_init_writes_passes_the_check_and_is_not_overwritten() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["init"]).code, Some(0));
    let first = folder.read("posthaste.toml");
    assert_eq!(folder.run(&["check", "--offline"]).code, Some(0));
    let again = folder.run(&["init", "--sink", "file"]);
    expect(&again, 1, "posthaste.toml is there already; --force overwrites it", "init");
    assert_eq!(folder.read("posthaste.toml"), first);
    assert_eq!(folder.run(&["init", "--sink", "file", "--force"]).code, Some(0));
    assert!(folder.read("posthaste.toml").contains("type = \"file\""));
    assert_eq!(folder.run(&["check", "--offline"]).code, Some(0));
}

/// Every value that `init` shows in a comment is the default, or at least allowed.
#[test]
fn what_init_shows_in_comments_can_be_written() {
    let folder = Folder::new();
    folder.run(&["init"]);
    let open = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ')) => rest.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<String> = folder.read("posthaste.toml").lines().map(open).collect();
    folder.write("posthaste.toml", text.join("\n"));
    let ended = folder.run(&["check", "--offline"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn the_examples_of_the_documentation_are_valid() {
    let folder = Folder::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).expect("the examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        folder.write("example.toml", std::fs::read(&path).expect("an example"));
        let check = |config: &str| {
            let mut command = folder.command(&["check", "--offline", "--config", config]);
            Ended::of(
                command
                    .env("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
                    .output()
                    .expect("it runs"),
            )
        };
        assert_eq!(folder.run(&["init", "own.toml", "--sink", &name, "--force"]).code, Some(0), "{name}");
        for config in ["example.toml", "own.toml"] {
            let ended = check(config);
            let absent = ended.stdout.contains("this program was built without");
            assert!(absent || ended.code == Some(0), "{name} {ended:?}");
        }
        seen += 1;
    }
    assert_eq!(seen, 11);
}

/// An operator looks while somebody else edits the file, and has none of the sinks' secrets.
#[tokio::test]
async fn commands_that_need_only_the_database_do_not_mind_mistakes_elsewhere() {
    let folder = Folder::new();
    let log = crate::log::Log::sqlite(&folder).await;
    let broken = "lanes = \"many\"\n[subscriptions.a.sink]\ntype = \"webhook\"\nurl = 3\nsecrets = [{ env = \"NOT_SET\" }]\n";
    folder.write(
        "posthaste.toml",
        format!("[database]\nurl = \"sqlite:shop.db\"\n[subscriptions.a]\n{broken}"),
    );
    for arguments in [&["status"][..], &["subscriptions", "list"], &["events", "list"], &["migrate"]] {
        let ended = folder.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?} {ended:?}");
    }
    let doctor = folder.run(&["doctor"]);
    assert!(doctor.code == Some(78) && doctor.stdout.contains("FAIL  configuration"), "{doctor:?}");
    assert!(doctor.stdout.contains("ok    tables"), "{doctor:?}");
    expect(&folder.run(&["relay"]), 78, "subscriptions.a.lanes", "the relay needs all of it");
    log.execute("update posthaste_meta set version = 99").await;
    let ended = folder.run(&["events", "enqueue", "orders", "{}"]);
    expect(&ended, 78, "tables have version 99", "a program that does not know the tables writes nothing");
}
