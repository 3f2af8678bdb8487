//! Producers in other languages call `posthaste.enqueue(...)` in transactions of their own, as a role that may do nothing
//! else with the log: what commits is delivered to the byte, what is rolled back is not there, a duplicate gets the id of the
//! first, and bad input is refused with a sentence. The guide shows these very programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste::Subscription;
use posthaste_testkit::{Kit, Recorder, TestDatabase, program, servers};
use serde_json::Value;
use sqlx::AssertSqlSafe;

/// A database with the application's table, and a role of a producer.
struct Scene {
    database: TestDatabase,
    role: String,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn prepare() -> Self {
        let database = TestDatabase::new().await;
        let role = format!("producer_{:016x}", fastrand::u64(..));
        let statements = format!(
            "create role {role} login; create table orders (id text primary key, total integer not null); \
             grant insert on orders to {role}; select posthaste.grant_producer('{role}')"
        );
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&database.pool).await.expect("a role");
        Self { database, role, folder: tempfile::tempdir().expect("a folder") }
    }

    /// `host:port/database`
    fn place(&self) -> String {
        let (server, name) = (&servers()[0].url, self.database.options.get_database().expect("a name"));
        let (_, place) = server.rsplit_once('@').expect("a URL with a user");
        format!("{}/{name}", place.split('/').next().expect("a host"))
    }

    fn url(&self) -> String {
        format!("postgres://{}@{}", self.role, self.place())
    }

    /// Runs a program, and checks what it said and what it left. `body` is what its language makes of the order.
    async fn check(self, mut command: Command, body: &str) {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).expect("UTF-8");
        let said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let cases: Vec<&str> = said.iter().filter_map(|line| line["case"].as_str()).collect();
        assert_eq!(cases, ["commit", "again", "bytes", "refused"]);
        let [commit, again, bytes, refused] = &said[..] else { panic!("{said:?}") };
        assert_eq!((&commit["duplicate"], &again["duplicate"]), (&Value::from(false), &Value::from(true)));
        assert_eq!(again["id"], commit["id"]);
        assert_eq!(refused["sqlstate"], "22023");
        assert_eq!(refused["message"], "posthaste: topic must not be empty");
        self.check_orders().await;
        self.check_delivered(commit, body, bytes).await;
        let end = format!("drop owned by {0}; drop role {0}", self.role);
        sqlx::raw_sql(AssertSqlSafe(end)).execute(&self.database.pool).await.expect("no role is left");
    }

    async fn check_orders(&self) {
        let orders: Vec<String> =
            sqlx::query_scalar("select id from orders").fetch_all(&self.database.pool).await.expect("orders");
        assert_eq!(orders, ["o-1"], "the other one was rolled back");
    }

    async fn check_delivered(&self, commit: &Value, body: &str, bytes: &Value) {
        let (posthaste, recorder) = (&self.database.posthaste, Recorder::accepting());
        let subscription = Subscription::new("all").expect("a name");
        let report =
            Kit::of(posthaste).run_until_idle(posthaste.handler(subscription, recorder.clone())).await;
        report.assert_all_delivered();
        let mut delivered = recorder.delivered();
        delivered.sort_by_key(|event| event.seq);
        let [order, file] = &delivered[..] else { panic!("{delivered:?}") };
        assert_eq!((order.id.to_string(), file.id.to_string()), (text(commit, "id"), text(bytes, "id")));
        assert_eq!((order.key.as_deref(), order.event_type.as_deref()), (Some("o-1"), Some("order.placed")));
        assert_eq!(order.text(), Some(body), "to the byte");
        assert_eq!(
            (file.payload.as_slice(), file.content_type.as_str()),
            (&b"\x00\xff"[..], "application/x-two")
        );
        assert_eq!(file.headers.get("trace"), Some("t-1"));
    }
}

fn text(line: &Value, name: &str) -> String {
    line[name].as_str().unwrap_or_default().to_owned()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producers").join(name)
}

/// What `cargo xtask test` prepares must be there in CI; elsewhere a language that is not there is named.
fn prepared(language: &str, variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "no {language}: cargo xtask test sets {variable}"
        );
        eprintln!("skipped: {language} ({variable} is not set; cargo xtask test sets it)");
    }
    found
}

#[tokio::test]
async fn python() {
    let Some(python) = prepared("Python", "POSTHASTE_TEST_PYTHON") else { return };
    let scene = Scene::prepare().await;
    let mut command = Command::new(python);
    command.arg(source("order.py")).arg(scene.url());
    scene.check(command, r#"{"order": "o-1", "total": 12, "text": "grüße"}"#).await;
}

#[tokio::test]
async fn node() {
    let Some(modules) = prepared("Node", "POSTHASTE_TEST_NODE_MODULES") else { return };
    let scene = Scene::prepare().await;
    let mut command = Command::new("node");
    command.arg(source("order.cjs")).arg(scene.url()).env("NODE_PATH", modules);
    scene.check(command, r#"{"order":"o-1","total":12,"text":"grüße"}"#).await;
}

#[tokio::test]
async fn java() {
    let Some(driver) = prepared("Java", "POSTHASTE_TEST_JDBC") else { return };
    let scene = Scene::prepare().await;
    let javac = program("javac").expect("a compiler, since the driver was prepared for one");
    let mut compile = Command::new(javac);
    compile.args(["-encoding", "UTF-8", "-d"]).arg(scene.folder.path()).arg(source("Order.java"));
    run(compile);
    let url = format!("jdbc:postgresql://{}?user={}", scene.place(), scene.role);
    let classes = std::env::join_paths([scene.folder.path(), &driver]).expect("paths");
    let mut command = Command::new("java");
    command.arg("-cp").arg(classes).args(["Order", &url]);
    scene.check(command, r#"{"order":"o-1","total":12,"text":"grüße"}"#).await;
}

#[tokio::test]
async fn go() {
    let Some(go) = prepared("Go", "POSTHASTE_TEST_GO") else { return };
    let scene = Scene::prepare().await;
    let built = scene.folder.path().join("order");
    let mut build = Command::new(go.join("root/bin/go"));
    build.arg("build").arg("-o").arg(&built).arg(source("order.go"));
    build.env("GOROOT", go.join("root")).env("GOPATH", go.join("usr/share/gocode")).env("GO111MODULE", "off");
    build.env("GOCACHE", scene.folder.path().join("cache")).env("CGO_ENABLED", "0").env("GOFLAGS", "");
    run(build);
    let mut command = Command::new(built);
    command.arg(scene.url());
    scene.check(command, r#"{"order":"o-1","text":"grüße","total":12}"#).await;
}

fn run(mut command: Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
