//! Configuration as people get it wrong: every mistake gives a sentence and an exit code, nothing panics, no secret is
//! printed.

use crate::support::{Ended, Folder};

pub(crate) const DATABASE: &str = "[database]\nurl = \"sqlite:shop.db\"\n";
pub(crate) const SINK: &str = "[subscriptions.orders.sink]\ntype = \"stdout\"\n";

/// A secret that stands in many of the files and must appear in no answer.
const SECRET: &str = "hunter2";

/// `[database]` with these lines, and a good subscription.
fn database(lines: &str) -> String {
    format!("[database]\n{lines}\n{SINK}")
}

/// `[relay]` with these lines, everything else good.
fn relay(lines: &str) -> String {
    format!("{DATABASE}[relay]\n{lines}\n{SINK}")
}

/// A subscription with these lines and a good sink.
fn subscription(lines: &str) -> String {
    format!("{DATABASE}[subscriptions.orders]\n{lines}\n{SINK}")
}

/// A sink with these lines.
fn sink(lines: &str) -> String {
    format!("{DATABASE}[subscriptions.orders.sink]\n{lines}\n")
}

pub(crate) fn expect(ended: &Ended, code: i32, sentence: &str, about: &str) {
    assert_eq!(ended.code, Some(code), "{about}\n{ended:?}");
    let said = ended.stderr.replace("\nposthaste:", "\n");
    assert!(said.contains(sentence), "{about}\nexpected: {sentence}\n{}", ended.stderr);
    for bad in ["panicked", "RUST_BACKTRACE", SECRET] {
        assert!(!ended.stderr.contains(bad) && !ended.stdout.contains(bad), "{about}\n{ended:?}");
    }
}

#[test]
fn every_mistake_in_a_file_gives_its_path_and_a_sentence() {
    let cases: Vec<(String, &str)> = vec![
        // not TOML
        ("[database".into(), "line 1, column 10: this is not TOML"),
        ("[database]\nurl =\n".into(), "line 2, column "),
        ("[database]\nurl = \"postgres://u:hunter2@h/d\n".into(), "line 2, column "),
        (
            format!("{DATABASE}url = \"sqlite:other.db\"\n"),
            "line 3, column 1: this is not TOML: duplicate key",
        ),
        (format!("{DATABASE}{DATABASE}"), "line 3, column "),
        ("database: sqlite".into(), "line 1, column "),
        ("{ \"database\": {} }".into(), "line 1, column 1"),
        // the whole
        (String::new(), "database.url: is missing; write for example url = \"postgres://localhost/shop\""),
        (SINK.into(), "database.url: is missing"),
        (DATABASE.into(), "no subscription is configured, so there is nothing to deliver"),
        (format!("{DATABASE}[databse]\n{SINK}"), "databse: is not known here; did you mean `database`?"),
        (format!("database = 3\n{SINK}"), "database: expected a table, got a number"),
        (format!("registry = 3\n{DATABASE}{SINK}"), "registry: expected a table, got a number"),
        // the database
        (database("urls = \"sqlite:shop.db\""), "database.urls: is not known here; did you mean `url`?"),
        (database("url = 5"), "database.url: expected a text, got a number"),
        (database("url = \"\""), "database.url: is empty"),
        (
            database("url = \"mysql://u:hunter2@h/d\""),
            "database.url: expected a URL that begins with postgres:// or sqlite:",
        ),
        (
            database("url = \"postgres://u:hunter2@h:port/d\""),
            "database.url: `postgres://u:***@h:port/d` is not a usable URL",
        ),
        (
            database("url = \"postgres://u:hunter2@h/d?sslmod=require\""),
            "database.url: the URL's parameter `sslmod` is not known; did you mean `sslmode`?",
        ),
        (database("url = \"postgres://u:hunter2@h/d?sslmode=maybe\""), "is not a usable URL"),
        (
            database("url = \"postgres://localhost/d?sslrootcert=/no/ca.pem\""),
            "database.url: the URL's parameter `sslrootcert` names a file that is not there: /no/ca.pem",
        ),
        (
            database("url = \"sqlite::memory:\""),
            "database.url: a database in memory is gone with the process",
        ),
        (database("url = \"sqlite:\""), "database.url: names no file"),
        (database("url = \"sqlite:shop.db?mode=ro\""), "database.url: SQLite's URL takes no parameters"),
        (database("url = \"sqlite:.\""), "is a folder; name a file in it"),
        (database("url = { env = \"ABSENT\" }"), "database.url: the environment variable ABSENT is not set"),
        (database("url = { file = \"absent.txt\" }"), "database.url: cannot read the file absent.txt"),
        (
            database("url = { env = \"A\", file = \"b\" }"),
            "database.url: write either { env = \"VARIABLE\" } or { file = \"path\" }",
        ),
        (database("url = { envv = \"A\" }"), "database.url.envv: is not known here; did you mean `env`?"),
        (
            database("url = \"postgres://localhost/shop\"\nschema = \"Post-Haste\""),
            "database.schema: `Post-Haste` is not usable; use 1 to 48 of a-z, 0-9 and _",
        ),
        (
            database("url = \"sqlite:s.db\"\nschema = \"x\""),
            "database.schema: SQLite has no schemas; leave it out",
        ),
        (
            database("url = \"sqlite:s.db\"\nconnections = 0"),
            "database.connections: expected a whole number from 2 to 1000, got 0",
        ),
        (
            database("url = \"sqlite:s.db\"\nconnections = \"many\""),
            "database.connections: expected a whole number",
        ),
        (
            database("url = \"postgres://localhost/shop\"\nprepared_statements = \"no\""),
            "database.prepared_statements: expected true or false",
        ),
        (
            database("url = \"sqlite:s.db\"\nprepared_statements = false"),
            "database.prepared_statements: is about poolers before PostgreSQL; leave it out",
        ),
        // the relay
        (relay("grace = 30"), "relay.grace: expected a duration with its unit, such as \"500ms\""),
        (relay("grace = \"1w\""), "relay.grace: expected a duration with its unit"),
        (relay("grace = \"0s\""), "relay.grace: expected 1s to 1d, got \"0s\""),
        (
            relay("listen = \"9470\""),
            "relay.listen: expected an address and a port, such as \"127.0.0.1:9470\"",
        ),
        (relay("listen = 9470"), "relay.listen: expected a text, got a number"),
        (relay("listen = \"example.com:80\""), "relay.listen: expected an address and a port"),
        (relay("log = \"xml\""), "relay.log: expected \"pretty\" or \"json\", got \"xml\""),
        (relay("log_filter = \"loud=very\""), "relay.log_filter: expected a level, or levels by module"),
        (relay("name = \"\""), "relay.name: is empty"),
        (relay("name = \"a\\u0000b\""), "relay.name: "),
        (
            relay("port = 9470"),
            "relay.port: is not known here; there are grace, listen, log, log_filter, name",
        ),
        // the defaults
        (
            format!("{DATABASE}[defaults]\ntopics = [\"orders\"]\n{SINK}"),
            "defaults.topics: is not known here",
        ),
        (
            format!("{DATABASE}[defaults]\nbatch_size = 0\n{SINK}"),
            "defaults.batch_size: expected a whole number from 1 to 10000, got 0",
        ),
        // subscriptions
        (format!("{DATABASE}[[subscriptions]]\nname = \"x\""), "subscriptions: expected a table, got a list"),
        (format!("subscriptions = 3\n{DATABASE}"), "subscriptions: expected a table, got a number"),
        (
            format!("{DATABASE}[subscriptions.\"my orders\".sink]\ntype = \"stdout\""),
            "subscriptions.my orders: `my orders` contains ' '; use letters, digits",
        ),
        (
            format!("{DATABASE}[subscriptions]\norders = 1"),
            "subscriptions.orders: expected a table, got a number",
        ),
        (
            format!("{DATABASE}[subscriptions.orders]\n"),
            "subscriptions.orders.sink: is missing; write for example [subscriptions.orders.sink] with type = \"stdout\"",
        ),
        (
            subscription("order = \"fifo\""),
            "subscriptions.orders.order: expected \"key\" or \"none\" or \"strict\", got \"fifo\"",
        ),
        (
            subscription("claim_by = \"row\""),
            "subscriptions.orders.claim_by: expected \"batch\" or \"event\"",
        ),
        (
            subscription("after_dead = \"wait\""),
            "subscriptions.orders.after_dead: expected \"skip\" or \"block\"",
        ),
        (
            subscription("lanes = 257"),
            "subscriptions.orders.lanes: expected a whole number from 1 to 256, got 257",
        ),
        (
            subscription("lanes = 4\norder = \"none\""),
            "subscriptions.orders.lanes: more than one lane needs `key` order",
        ),
        (
            subscription("order = \"strict\"\nclaim_by = \"event\""),
            "subscriptions.orders.claim_by: `strict` order claims by batch",
        ),
        (
            subscription("start = \"yesterday\""),
            "subscriptions.orders.start: expected \"now\", \"beginning\" or a time such as \"2026-01-01T00:00:00Z\"",
        ),
        (
            subscription("batch_size = 10001"),
            "subscriptions.orders.batch_size: expected a whole number from 1 to 10000",
        ),
        (subscription("batch_size = -1"), "subscriptions.orders.batch_size: expected a whole number"),
        (subscription("batch_size = 1.5"), "subscriptions.orders.batch_size: expected a whole number"),
        (subscription("batch_size = nan"), "subscriptions.orders.batch_size: expected a whole number"),
        (
            subscription("concurrency = [16]"),
            "subscriptions.orders.concurrency: expected a whole number from 1 to 10000, got a list",
        ),
        (subscription("lease = \"10ms\""), "subscriptions.orders.lease: expected 100ms to 1d, got \"10ms\""),
        (subscription("timeout = \"2d\""), "subscriptions.orders.timeout: expected 1ms to 1d, got \"2d\""),
        (
            subscription("max_attempts = 0"),
            "subscriptions.orders.max_attempts: expected a whole number from 1 to 10000, got 0",
        ),
        (
            subscription("base_delay = \"10m\""),
            "subscriptions.orders.base_delay: 600s is longer than max_delay, 300s; make it shorter",
        ),
        (
            subscription("tenants = [\"acme\"]"),
            "subscriptions.orders.tenants[0]: expected a UUID, got \"acme\"",
        ),
        (
            subscription("topics = \"orders\""),
            "subscriptions.orders.topics: expected a list of texts, got a text",
        ),
        (
            subscription("topics = [\"a\", 2]"),
            "subscriptions.orders.topics[1]: expected a text, got a number",
        ),
        (subscription("topics = [\"\"]"), "subscriptions.orders.topics[0]: is empty"),
        (
            subscription("topic = [\"a\"]"),
            "subscriptions.orders.topic: is not known here; did you mean `topics`?",
        ),
        (
            subscription("cloudevents = \"xml\""),
            "subscriptions.orders.cloudevents: expected \"binary\" or \"structured\"",
        ),
        (subscription("source = \"/{topics}\""), "subscriptions.orders.source: there is no place `{topics}`"),
        (subscription("source = \"/{topic\""), "subscriptions.orders.source: a single brace"),
        (subscription("paused = true"), "subscriptions.orders.paused: is not known here"),
        (
            subscription("steps = []"),
            "subscriptions.orders.steps: belongs into the table [subscriptions.orders.sink]",
        ),
        // sinks
        (
            format!("{DATABASE}[subscriptions.orders]\nsink = \"stdout\""),
            "subscriptions.orders.sink: expected a table, got a text",
        ),
        (
            sink("path = \"x\""),
            "subscriptions.orders.sink.type: is missing; write for example type = \"stdout\"",
        ),
        (
            sink("type = \"carrier-pigeon\""),
            "subscriptions.orders.sink.type: there is no sink `carrier-pigeon`; there are stdout",
        ),
        (sink("type = 5"), "subscriptions.orders.sink.type: expected a text, got a number"),
        (sink("type = \"stdout\"\npath = \"x\""), "subscriptions.orders.sink.path: is not known here"),
        (sink("type = \"file\""), "subscriptions.orders.sink.path: is missing"),
        (
            sink("type = \"file\"\npath = \"no/such/folder/x\""),
            "subscriptions.orders.sink.path: there is no folder",
        ),
        (sink("type = \"file\"\npath = \".\""), "subscriptions.orders.sink.path: this is a folder"),
        (sink("steps = []"), "subscriptions.orders.sink.steps: expected at least one table"),
        (sink("steps = [\"stdout\"]"), "subscriptions.orders.sink.steps[0]: expected a table, got a text"),
        (
            sink("type = \"stdout\"\nsteps = [{ type = \"stdout\" }]"),
            "subscriptions.orders.sink.type: one sink or several: give either type or steps, not both",
        ),
        (
            sink("steps = [{ type = \"stdout\" }, { type = \"file\" }]"),
            "subscriptions.orders.sink.steps[1].path: is missing",
        ),
    ];
    assert!(cases.len() >= 60, "{}", cases.len());
    for (text, sentence) in cases {
        expect(&Folder::with(&text).run(&["relay"]), 78, sentence, &text);
    }
}

/// A send and a check must fit into the time of a page, or one event that gets no answer would cost the others attempts.
#[cfg(any(feature = "all-sinks", all(feature = "redis", feature = "sqs", feature = "event-store")))]
#[test]
fn a_sinks_timeout_must_fit_into_the_subscriptions() {
    let redis =
        |timeout: &str| format!("type = \"redis\"\nurl = \"redis://localhost\"\ntimeout = \"{timeout}\"");
    let orders = |timeout: &str, sink: &str| {
        format!(
            "{DATABASE}[subscriptions.orders]\ntimeout = \"{timeout}\"\n[subscriptions.orders.sink]\n{sink}\n"
        )
    };
    let store = "type = \"event_store\", url = \"postgres://localhost/d\"";
    let queue = "type = \"sqs\", queue_url = \"https://sqs.eu-west-1.amazonaws.com/1/q\"";
    let steps = |second: &str| format!("steps = [{{ {store} }}, {{ {queue}{second} }}]");
    let wrong = [
        (
            sink(&redis("40s")),
            "subscriptions.orders.sink.timeout: 40s is too long for the subscription's timeout of 1m, which must hold a \
             send and a check; at most 25s",
        ),
        (
            orders("10s", &redis("5s")),
            "for the subscription's timeout of 10s, which must hold a send and a check; at most 4s",
        ),
        (orders("1s", &redis("500ms")), "at most 425ms"),
        (
            sink(&steps(", timeout = \"20s\"")),
            "subscriptions.orders.sink.steps[1].timeout: 20s is too long for this step's share of the subscription's \
             timeout, 30s, which must hold a send and a check; at most 12s",
        ),
    ];
    for (text, sentence) in wrong {
        expect(&Folder::with(&text).run(&["relay"]), 78, sentence, &text);
    }
    // What nobody wrote is made to fit: 5 s for Redis, 10 s for the event store and 15 s for SQS would not.
    let plain = "type = \"redis\"\nurl = \"redis://localhost\"";
    let right = [
        sink(&redis("25s")),
        orders("95s", &redis("40s")),
        orders("10s", plain),
        sink(&steps("")),
        orders("5s", &steps("")),
    ];
    for text in right {
        let ended = Folder::with(&text).run(&["check", "--offline"]);
        assert_eq!(ended.code, Some(0), "{text}\n{ended:?}");
    }
}

#[test]
fn files_that_are_no_files_are_told_apart() {
    let folder = Folder::new();
    folder.write("latin.toml", b"[database]\nurl = \"sqlite:\xe4.db\"\n");
    folder.write("large.toml", vec![b'#'; 2 << 20]);
    for (file, sentence) in [
        ("absent.toml", "there is no file absent.toml; `posthaste init absent.toml` writes one"),
        (".", ". is a folder; give the path of a file"),
        ("latin.toml", "latin.toml is not UTF-8 text; save it as UTF-8"),
        ("large.toml", "large.toml has 2097152 bytes; that is no configuration"),
    ] {
        let ended = folder.run(&["relay", "--config", file]);
        expect(&ended, 78, sentence, file);
        assert_eq!(ended.stderr, format!("posthaste: {sentence}\n"), "one sentence");
    }
}

#[test]
fn variables_and_flags_that_are_wrong_are_named() {
    let good = format!("{DATABASE}{SINK}");
    for (name, value, sentence) in [
        (
            "POSTHASTE_FOO",
            "1",
            "POSTHASTE_FOO is not understood; there are POSTHASTE_DATABASE__..., POSTHASTE_DEFAULTS__",
        ),
        (
            "POSTHASTE_DATABASE_URL",
            SECRET,
            "POSTHASTE_DATABASE_URL is not understood; did you mean POSTHASTE_DATABASE__URL?",
        ),
        (
            "POSTHASTE_RELY__GRACE",
            "1s",
            "POSTHASTE_RELY__GRACE is not understood; did you mean POSTHASTE_RELAY__...?",
        ),
        ("POSTHASTE___GRACE", "1s", "a part of its path is empty"),
        ("POSTHASTE_RELAY", "x", "relay: expected a table, got a text (from POSTHASTE_RELAY)"),
        ("POSTHASTE_RELAY__GRACE", "", "relay.grace: expected a duration with its unit"),
        ("POSTHASTE_RELAY__GRACE", "soon", "got \"soon\" (from POSTHASTE_RELAY__GRACE)"),
        (
            "POSTHASTE_RELAY__LISTN",
            "off",
            "relay.listn: is not known here; did you mean `listen`? (from POSTHASTE_RELAY__LISTN)",
        ),
        ("POSTHASTE_DATABASE__URL", "mysql://u:hunter2@h/d", "sqlite:shop.db (from POSTHASTE_DATABASE__URL)"),
        (
            "POSTHASTE_SUBSCRIPTIONS__ORDES__LANES",
            "2",
            "there is no subscription `ordes`; did you mean `orders`?",
        ),
        (
            "POSTHASTE_SUBSCRIPTIONS__ORDERS__LANES",
            "0",
            "from 1 to 256, got \"0\" (from POSTHASTE_SUBSCRIPTIONS__ORDERS__LANES)",
        ),
        (
            "POSTHASTE_SUBSCRIPTIONS__ORDERS__SNK__TYPE",
            "file",
            "subscriptions.orders.snk: is not known here; did you mean `sink`?",
        ),
        ("POSTHASTE_SUBSCRIPTIONS__ORDERS__TOPICS", "a,b", "expected a list of texts, got a text"),
        ("RUST_LOG", "loud=very", "RUST_LOG=loud=very is not understood"),
    ] {
        let folder = Folder::with(&good);
        let output = folder.command(&["relay"]).env(name, value).output().expect("the binary runs");
        expect(&Ended::of(output), 78, sentence, name);
    }
    for (arguments, sentence) in [
        (["--grace", "soon"], "got \"soon\" (from --grace)"),
        (["--listen", "here"], "got \"here\" (from --listen)"),
        (["--log", "loud"], "got \"loud\" (from --log)"),
        (["--database", "shop"], "sqlite:shop.db (from --database)"),
    ] {
        let arguments = [&["relay"], arguments.as_slice()].concat();
        let ended = Folder::with(&good).run(&arguments);
        expect(&ended, 2, sentence, arguments[1]);
        assert!(ended.stderr.starts_with("posthaste: the command line has a mistake:\n"), "{ended:?}");
    }
    for command in ["check", "status", "migrate"] {
        let ended = Folder::with(&good).run(&[command, "--database", "shop"]);
        assert_eq!(ended.code, Some(2), "{command}: {ended:?}");
    }
}

#[test]
fn flags_that_are_wrong_do_not_hide_mistakes_of_the_file() {
    let ended = Folder::with(&relay("grace = 30")).run(&["relay", "--log", "xml"]);
    expect(&ended, 78, "posthaste.toml has 2 mistakes:\n", "both");
    expect(&ended, 78, "relay.grace: expected a duration", "the file");
    expect(&ended, 78, "got \"xml\" (from --log)", "the flag");
    let ended = Folder::with(&relay("grace = 30")).run(&["relay", "--grace", "soon"]);
    expect(&ended, 2, "got \"soon\" (from --grace)", "a flag over a mistake");
}

#[test]
fn command_lines_that_are_wrong_are_answered_by_usage() {
    let folder = Folder::new();
    for (arguments, sentence) in [
        (vec!["rely"], "unrecognized subcommand 'rely'"),
        (vec!["relay", "--migrat"], "unexpected argument '--migrat'"),
        (vec!["relay", "--config"], "a value is required for '--config <FILE>'"),
        (vec!["relay", "now"], "unexpected argument 'now'"),
        (vec!["check", "--offlin"], "unexpected argument '--offlin'"),
        (vec!["init", "a.toml", "b.toml"], "unexpected argument 'b.toml'"),
        (vec!["migrate", "--print=yes"], "unexpected value 'yes' for '--print'"),
        (vec!["version", "--json", "--json"], "cannot be used multiple times"),
        (vec!["dev", "--rate", "0"], "give a whole number from 1 to 1000"),
        (vec!["--config"], "a value is required for '--config <FILE>'"),
    ] {
        expect(&folder.run(&arguments), 2, sentence, &arguments.join(" "));
    }
    expect(
        &folder.run(&["init", "--sink", "kafak"]),
        2,
        "there is no sink `kafak`; did you mean `kafka`?",
        "init",
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "[database]\nurl = \"mysql:x\"\n[relay]\ngrace = 3\n[subscriptions.a]\nlanes = 0\n[subscriptions.b.sink]\n";
    let ended = Folder::with(text).run(&["relay"]);
    assert!(ended.stderr.starts_with("posthaste: posthaste.toml has 5 mistakes:\n"), "{}", ended.stderr);
    for path in [
        "database.url",
        "relay.grace",
        "subscriptions.a.lanes",
        "subscriptions.a.sink",
        "subscriptions.b.sink.type",
    ] {
        assert!(ended.stderr.contains(&format!("  {path}: ")), "{path}\n{}", ended.stderr);
    }
}
