//! `posthaste dead letters`: what consumers gave up on, listed, discarded and sent again.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use operate_common::*;
use posthaste::inbox::{Letter, Once, PostgresInbox, SqliteInbox};
use posthaste::{EventId, NewEvent};
use sqlx::{PgPool, SqlitePool};

/// The database of an inbox, with guards of any consumer.
enum Inbox {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Inbox {
    /// With its tables.
    async fn at(url: &str) -> Self {
        let inbox = match url.strip_prefix("sqlite:") {
            Some(path) => Self::Sqlite(SqlitePool::connect_lazy_with(posthaste::sqlite_options(path))),
            None => Self::Postgres(PgPool::connect(url).await.unwrap()),
        };
        match &inbox {
            Self::Postgres(pool) => PostgresInbox::new(pool.clone(), "any").unwrap().migrate().await.unwrap(),
            Self::Sqlite(pool) => SqliteInbox::new(pool.clone(), "any").unwrap().migrate().await.unwrap(),
        }
        inbox
    }

    async fn give_up(&self, consumer: &str, letter: &Letter) -> String {
        let number = match self {
            Self::Postgres(pool) => {
                let mut tx = pool.begin().await.unwrap();
                let inbox = PostgresInbox::new(pool.clone(), consumer).unwrap();
                let number = inbox.give_up(&mut tx, letter).await.unwrap();
                tx.commit().await.unwrap();
                number
            }
            Self::Sqlite(pool) => {
                let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                let inbox = SqliteInbox::new(pool.clone(), consumer).unwrap();
                let number = inbox.give_up(&mut tx, letter).await.unwrap();
                tx.commit().await.unwrap();
                number
            }
        };
        number.to_string()
    }

    /// A copy reaches a consumer.
    async fn copy(&self, consumer: &str, id: &str) -> Once<()> {
        match self {
            Self::Postgres(pool) => {
                let inbox = PostgresInbox::new(pool.clone(), consumer).unwrap();
                inbox.once(id, async |_| Ok::<_, String>(())).await.unwrap()
            }
            Self::Sqlite(pool) => {
                let inbox = SqliteInbox::new(pool.clone(), consumer).unwrap();
                inbox.once(id, async |_| Ok::<_, String>(())).await.unwrap()
            }
        }
    }
}

/// A relay that does not outlive the test, and the file it writes to.
struct Relay {
    child: Child,
    lines: PathBuf,
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Relay {
    fn start(bench: &Bench, folder: &Path) -> Self {
        let (config, lines) = (folder.join("relay.toml"), folder.join("lines"));
        let text = format!(
            "[database]\nurl = {:?}\n[relay]\nlisten = \"off\"\n[subscriptions.orders]\ntopics = [\"orders\"]\n\
             start = \"beginning\"\npoll_interval = \"200ms\"\nsink = {{ type = \"file\", path = {lines:?} }}\n",
            bench.url
        );
        std::fs::write(&config, text).unwrap();
        let mut command = bench.command(&["relay", "--config", config.to_str().unwrap()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, lines }
    }

    /// The ids that came so far.
    fn ids(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.lines).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        whole.map(|line| line["id"].as_str().unwrap().to_owned()).collect()
    }

    async fn wait_for(&self, count: usize) {
        for _ in 0..12_000 {
            if self.ids().len() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} lines: not within 120 s, but {:?}", self.ids());
    }
}

/// The log's own database, and another one, with the flags that name it.
async fn inboxes(bench: &Bench, folder: &Path) -> [(Inbox, Vec<String>); 2] {
    let elsewhere = format!("sqlite:{}", folder.join("consumer.db").display());
    let flags = vec!["--inbox-database".to_owned(), elsewhere.clone()];
    [(Inbox::at(&bench.url).await, Vec::new()), (Inbox::at(&elsewhere).await, flags)]
}

fn with<'a>(arguments: &[&'a str], flags: &'a [String]) -> Vec<&'a str> {
    arguments.iter().copied().chain(flags.iter().map(String::as_str)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_sent_again_is_done_once_by_the_one_that_gave_up() {
    for bench in Bench::everywhere().await {
        let folder = tempfile::tempdir().unwrap();
        let relay = Relay::start(&bench, folder.path());
        let mut lines = 0;
        for (inbox, flags) in inboxes(&bench, folder.path()).await {
            let id = bench.enqueue(vec![order("a", "1"), order("a", "2")]).await[0].to_string();
            lines += 2;
            relay.wait_for(lines).await;
            bench.settled("orders", 0, 0).await;
            assert_eq!(inbox.copy("audit", &id).await, Once::Done(()));
            let letter = Letter::new(&id, "1", "no such customer").attempts(5).topic("orders").key("a");
            let number = inbox.give_up("billing", &letter).await;
            assert_eq!(inbox.copy("billing", &id).await, Once::Duplicate, "it is marked");

            let listed = bench.json(&with(&["dead", "letters", "--status", "open"], &flags));
            assert_eq!(listed["letters"].as_array().unwrap().len(), 1, "{listed}");
            assert_eq!(listed["letters"][0]["event_id"], id.as_str());
            let dry = with(&["dead", "letters", "resend", &number, "--to", "orders", "--dry-run"], &flags);
            assert!(bench.words(&dry).contains("1 dead letter would be sent again by orders"));

            let resend = with(&["dead", "letters", "resend", &number, "--to", "orders"], &flags);
            assert_eq!(bench.words(&resend), format!("letter {number}: sent again by orders.\n"));
            lines += 1;
            relay.wait_for(lines).await;
            bench.settled("orders", 0, 0).await;
            assert_eq!(relay.ids().len(), lines);
            assert_eq!(relay.ids()[lines - 1], id, "the same event");
            assert_eq!(inbox.copy("audit", &id).await, Once::Duplicate, "it knows the event as done");
            assert_eq!(inbox.copy("billing", &id).await, Once::Done(()));
            assert_eq!(inbox.copy("billing", &id).await, Once::Duplicate);

            let again = bench.json(&resend);
            assert_eq!(again["letters"][0]["redelivery"], "done", "{again}");
            assert_eq!((again["matched"].as_u64(), again["changed"].as_u64()), (Some(1), Some(0)));
            assert_eq!(inbox.copy("billing", &id).await, Once::Duplicate, "the mark stays");
            bench.settled("orders", 0, 0).await;
            assert_eq!(relay.ids().len(), lines, "nothing was sent");
            let shown = bench.json(&with(&["dead", "letters", "show", &number], &flags));
            assert_eq!(shown["status"], "resent");
            assert!(bench.words(&["why", &id]).contains("after a person had it sent again"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_died_before_its_last_step_is_typed_again() {
    for bench in Bench::everywhere().await {
        let inbox = Inbox::at(&bench.url).await;
        let worker = bench.worker(quick("orders")).await;
        let id = bench.enqueue(vec![order("a", "1")]).await[0];
        bench.settled("orders", 0, 0).await;
        worker.stop().await;
        let number = inbox.give_up("billing", &Letter::new(id.to_string(), "1", "why")).await;
        let resend = ["dead", "letters", "resend", &number, "--to", "orders"];
        // What it would have left behind: the event is due, the letter is open.
        bench.posthaste.admin().redeliver("orders", id).await.unwrap();
        let first = bench.json(&resend);
        assert_eq!(first["letters"][0]["redelivery"], "coming", "one delivery, not two: {first}");
        assert_eq!(first["letters"][0]["mark_forgotten"], true);
        let second = bench.run(&resend);
        assert!(second.stdout.contains("it comes anyway"), "{second:?}");
        assert_eq!(
            (second.code, second.stderr.as_str()),
            (0, ""),
            "a letter that was resent needs no warning"
        );
        bench.settled("orders", 0, 1).await;
        assert_eq!(inbox.copy("billing", &id.to_string()).await, Once::Done(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_again_is_refused_before_anything_is_changed() {
    for bench in Bench::everywhere().await {
        let inbox = Inbox::at(&bench.url).await;
        let worker = bench.worker(quick("orders")).await;
        let parcel = NewEvent::bytes("parcels", b"p".to_vec());
        let ids = bench.enqueue(vec![order("a", "1"), parcel]).await;
        bench.settled("orders", 0, 0).await;
        let gone: EventId = EventId("0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11".parse().unwrap());
        let letter = async |id: &str| inbox.give_up("billing", &Letter::new(id, "1", "why")).await;
        let fine = letter(&ids[0].to_string()).await;
        let filtered = letter(&ids[1].to_string()).await;
        let (gone, foreign) = (letter(&gone.to_string()).await, letter("order 17").await);
        let refused = |code, number: &str, to: &str| {
            bench.refused(code, &["dead", "letters", "resend", &fine, number, "--to", to, "--yes"])
        };
        let said = refused(3, &gone, "orders");
        assert!(said.contains("is not in the log any more"), "{said}");
        assert!(said.contains(&format!("posthaste dead letters show {gone} --json")), "{said}");
        let said = refused(2, &filtered, "orders");
        assert!(said.contains("`orders` does not take event"), "{said}");
        let said = refused(2, &foreign, "orders");
        assert!(said.contains("`order 17`, which is no id of this log"), "{said}");
        assert!(refused(3, &fine, "oders").contains("did you mean `orders`?"));
        assert!(refused(3, "4711", "orders").contains("there is no dead letter 4711"));
        let two = ["dead", "letters", "resend", &fine, &filtered, "--to", "orders"];
        assert!(bench.refused(2, &two).contains("does not take"), "checked before it asks");
        let open = bench.json(&["dead", "letters", "--status", "open"]);
        assert_eq!(open["letters"].as_array().unwrap().len(), 4);
        assert_eq!(
            inbox.copy("billing", &ids[0].to_string()).await,
            Once::Duplicate,
            "no mark was forgotten"
        );
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_reached_comes_anyway_and_a_paused_one_says_so() {
    for bench in Bench::everywhere().await {
        let inbox = Inbox::at(&bench.url).await;
        bench.worker(quick("orders")).await.stop().await;
        let id = bench.enqueue(vec![order("a", "1")]).await[0].to_string();
        let number = inbox.give_up("billing", &Letter::new(&id, "1", "why")).await;
        bench.words(&["subscriptions", "pause", "orders"]);
        let answer = bench.run(&["dead", "letters", "resend", &number, "--to", "orders"]);
        assert_eq!(answer.code, 0, "{answer:?}");
        let said =
            format!("letter {number}: orders has not delivered it yet; it comes anyway, and is let in.\n");
        assert_eq!(answer.stdout, said);
        assert!(answer.stderr.contains("posthaste subscriptions resume orders"), "{answer:?}");
        assert_eq!(bench.json(&["dead", "letters", "show", &number])["status"], "resent");
        bench.settled("orders", 0, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_holds_is_not_sent_and_its_letter_stays_open() {
    for bench in Bench::everywhere().await {
        let inbox = Inbox::at(&bench.url).await;
        let mut claims = bench.posthaste.claims(&quick("orders")).await.unwrap();
        let id = bench.enqueue(vec![order("a", "1")]).await[0].to_string();
        let held = claims.claim(1).await.unwrap().pop().expect("one is due");
        let number = inbox.give_up("billing", &Letter::new(&id, "1", "why")).await;
        let resend = ["dead", "letters", "resend", &number, "--to", "orders"];
        let answer = bench.json_and(1, &resend);
        assert_eq!(answer["letters"][0]["redelivery"], "held", "{answer}");
        assert_eq!(
            (answer["changed"].as_u64(), answer["letters"][0]["resent"].as_bool()),
            (Some(0), Some(false))
        );
        assert_eq!(bench.json(&["dead", "letters", "show", &number])["status"], "open");
        claims.settle(held, posthaste::Outcome::Delivered).await.unwrap();
        assert_eq!(bench.json(&resend)["letters"][0]["redelivery"], "due");
        assert_eq!(bench.json(&["dead", "letters", "show", &number])["status"], "resent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_listed_shown_and_discarded() {
    for bench in Bench::everywhere().await {
        let inbox = Inbox::at(&bench.url).await;
        assert_eq!(bench.words(&["dead", "letters"]), "No consumer has given up on anything.\n");
        assert_eq!(bench.json(&["dead", "letters"])["letters"], serde_json::json!([]));
        let id = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
        let first = Letter::new(id, r#"{"n": 12345678901234567890}"#, "card\x1b[2J refused")
            .attempts(5)
            .topic("orders")
            .key("order-17")
            .header("b", "2")
            .header("a", "1")
            .header("b", "3");
        let long = "x".repeat(90);
        let second = Letter::new(&long, b"\xff\x00".to_vec(), "timeout").topic(&long).key(&long);
        let first = inbox.give_up("billing", &first).await;
        let second = inbox.give_up(&long, &second).await;

        let words = bench.words(&["dead", "letters"]);
        assert!(words.contains(id) && words.contains("after 5 attempts: card\\u{1b}[2J refused"), "{words}");
        assert!(words.contains("after 1 attempt: timeout") && words.contains("open"), "{words}");
        assert_eq!(bench.json(&["dead", "letters"]), bench.json(&["dead", "letters", "list"]));
        let listed = |arguments: &[&str]| {
            let page = bench.json(&[&["dead", "letters", "list"], arguments].concat());
            let numbers = page["letters"].as_array().unwrap().iter().map(|one| one["number"].to_string());
            (numbers.collect::<Vec<_>>(), page["next"].as_i64())
        };
        assert_eq!(listed(&[]), (vec![second.clone(), first.clone()], None));
        assert_eq!(listed(&["--consumer", "billing"]).0, [first.as_str()]);
        assert_eq!(listed(&["--topic", "orders"]).0, [first.as_str()]);
        assert_eq!(listed(&["--reason", "timeout"]).0, [second.as_str()]);
        assert_eq!(listed(&["--event", id]).0, [first.as_str()]);
        assert_eq!(listed(&["--status", "resent"]).0.len(), 0);
        let (page, next) = listed(&["--limit", "1"]);
        assert_eq!((page, next), (vec![second.clone()], second.parse().ok()));
        assert_eq!(listed(&["--limit", "1", "--after", &second]), (vec![first.clone()], None));
        let none = bench.words(&["dead", "letters", "--consumer", "biling"]);
        assert_eq!(none, "No dead letter of a consumer matches.\n");
        assert!(
            bench.run(&["dead", "letters", "--status", "shut"]).stderr.contains("open, discarded or resent")
        );

        let shown = bench.words(&["dead", "letters", "show", &first]);
        assert!(shown.contains("Given up by billing after 5 attempts:"), "{shown}");
        assert!(shown.contains(r#""n": 12345678901234567890"#), "{shown}");
        assert!(shown.contains(&format!("posthaste dead letters resend {first} --to")), "{shown}");
        let json = bench.run(&["dead", "letters", "show", &first, "--json"]).stdout;
        assert!(json.contains(r#""payload":{"n": 12345678901234567890}"#), "{json}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["headers"], serde_json::json!([["b", "2"], ["a", "1"], ["b", "3"]]));
        assert_eq!((json["attempts"].as_u64(), json["key"].as_str()), (Some(5), Some("order-17")));
        let bytes = bench.run(&["dead", "letters", "show", &first, "--payload-only"]).stdout;
        assert_eq!(bytes, r#"{"n": 12345678901234567890}"#);
        let binary = bench.json(&["dead", "letters", "show", &second]);
        assert_eq!(
            (binary["payload_encoding"].as_str(), binary["payload"].as_str()),
            (Some("base64"), Some("/wA="))
        );

        assert!(
            bench.refused(3, &["dead", "letters", "show", "4711"]).contains("there is no dead letter 4711")
        );
        let before = bench.json(&["dead", "letters", "--database", &bench.url, "show", &first]);
        assert_eq!(before["number"].to_string(), first);
        let filtered = bench.refused(2, &["dead", "letters", "--consumer", "billing", "show", &first]);
        assert!(filtered.contains("posthaste dead letters list"), "{filtered}");
        let both = ["dead", "letters", "discard", &first, &second];
        assert!(bench.refused(2, &both).contains("Discard 2 dead letters?"));
        let dry = bench.json(&[&both[..], &["--dry-run"]].concat());
        assert_eq!((dry["matched"].as_u64(), dry["changed"].as_u64()), (Some(2), Some(0)));
        assert_eq!(bench.words(&["dead", "letters", "discard", &first]), "1 dead letter: discarded.\n");
        let done = bench.json(&[&both[..], &["--yes"]].concat());
        assert_eq!((done["matched"].as_u64(), done["changed"].as_u64()), (Some(2), Some(1)));
        assert_eq!(listed(&["--status", "discarded"]).0.len(), 2);
        let again = bench.words(&["dead", "letters", "discard", &first]);
        assert_eq!(again, "Decided before; nothing was changed.\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_that_is_not_there_is_named_with_the_remedy_and_without_a_password() {
    for bench in Bench::everywhere().await {
        for arguments in [&["dead", "letters"][..], &["dead", "letters", "show", "1"]] {
            let said = bench.refused(78, arguments);
            assert!(said.contains("there is no inbox in") && said.contains("--inbox-database"), "{said}");
        }
    }
    let bench = Bench::sqlite().await;
    let missing = bench.refused(78, &["dead", "letters", "--inbox-database", "sqlite:/nowhere/inbox.db"]);
    assert!(missing.contains("there is no database /nowhere/inbox.db; check inbox.url"), "{missing}");
    let away = "postgres://u:hunter2@127.0.0.1:1/d";
    let said = bench.refused(69, &["dead", "letters", "--inbox-database", away]);
    assert!(said.contains("cannot be reached") && !said.contains("hunter2"), "{said}");
    let wrong = bench.run(&["dead", "letters", "--inbox-database", "mysql://u:hunter2@h/d"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("inbox.url") && !wrong.stderr.contains("hunter2"), "{wrong:?}");
    let schema = bench.run(&["dead", "letters", "--inbox-schema", "x"]);
    assert!(schema.stderr.contains("SQLite has no schemas") && schema.code == 2, "{schema:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_is_found_by_the_file_and_by_the_environment_while_the_log_is_away() {
    let (folder, bench) = (tempfile::tempdir().unwrap(), Bench::sqlite().await);
    let inbox = format!("sqlite:{}", folder.path().join("consumer.db").display());
    Inbox::at(&inbox).await.give_up("billing", &Letter::new("e-1", "x", "why")).await;
    let mut command = bench.command(&["dead", "letters", "--json"]);
    command.env("DATABASE_URL", "postgres://127.0.0.1:1/away").env("POSTHASTE_INBOX__URL", &inbox);
    let answer = answered(command.spawn().unwrap());
    assert!(answer.code == 0 && answer.stdout.contains("\"e-1\""), "{answer:?}");

    let config = folder.path().join("posthaste.toml");
    std::fs::write(&config, "[inbox]\nurl = { env = \"BILLING_DB\" }\n").unwrap();
    let mut command = bench.command(&["dead", "letters", "--json", "--config", config.to_str().unwrap()]);
    command.env_remove("DATABASE_URL").env("BILLING_DB", &inbox);
    let answer = answered(command.spawn().unwrap());
    assert!(answer.code == 0 && answer.stdout.contains("\"e-1\""), "{answer:?}");

    for server in posthaste_testkit::servers() {
        let database = posthaste_testkit::TestDatabase::on(&server).await;
        let schema = posthaste::SchemaName::parse("billing_inbox").unwrap();
        let inbox = PostgresInbox::new_in(database.pool.clone(), schema, "billing").unwrap();
        inbox.migrate().await.unwrap();
        let mut tx = database.pool.begin().await.unwrap();
        inbox.give_up(&mut tx, &Letter::new("e-2", "x", "why")).await.unwrap();
        tx.commit().await.unwrap();
        let url = sqlx::ConnectOptions::to_url_lossy(&database.options).to_string();
        let arguments =
            ["dead", "letters", "--json", "--inbox-database", &url, "--inbox-schema", "billing_inbox"];
        let answer = bench.run(&arguments);
        assert!(answer.code == 0 && answer.stdout.contains("\"e-2\""), "{answer:?}");
    }
}
