//! Every message three times from each of two brokers, and a worker that is killed fifty times at any moment: each notice
//! exists exactly once, and none is missing.
//!
//! The worker on Redis is the one that is killed. Google's emulator goes on sending to the streams of the dead, so that a
//! worker on Pub/Sub that was killed often would wait for its messages for many minutes; it lives, and shares the guard.
#![cfg(all(unix, feature = "redis", feature = "pubsub"))]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::client::{SubscriptionAdmin, TopicAdmin};
use licences::service::Service;
use licences::worker::Worker;
use posthaste::NewEvent;
use posthaste_testkit::brokers::pubsub::PubsubServer;
use posthaste_testkit::brokers::redis::RedisServer;
use posthaste_testkit::{Process, TestDatabase, servers};

const KILLS: usize = 50;
const COPIES: usize = 3;

struct Scene {
    service: TestDatabase,
    compliance: TestDatabase,
    redis: RedisServer,
    pubsub: Arc<PubsubServer>,
    /// Of its own, because tests share the server.
    topic: String,
    folder: tempfile::TempDir,
}

impl Scene {
    /// `None` if a server cannot be had, which in CI is a failure.
    async fn prepare() -> Option<Self> {
        let (redis, pubsub) = match (RedisServer::start(&[]).await, PubsubServer::shared().await) {
            (Ok(redis), Ok(pubsub)) => (redis, pubsub),
            (redis, pubsub) => {
                let reason = redis.err().or(pubsub.err()).unwrap_or_default();
                assert!(std::env::var("CI").as_deref() != Ok("true"), "no server: {reason}");
                eprintln!("skipped: {reason}");
                return None;
            }
        };
        let (service, compliance) = (TestDatabase::new().await, TestDatabase::new().await);
        let folder = tempfile::tempdir().expect("a folder");
        let topic = format!("licenses-{}", fastrand::u64(..));
        Some(Self { service, compliance, redis, pubsub, topic, folder })
    }

    fn pubsub(&self) -> String {
        format!("http://127.0.0.1:{}", self.pubsub.port())
    }

    fn subscription(&self) -> String {
        format!("projects/shop/subscriptions/{}", self.topic)
    }

    async fn create_topic(&self) {
        let topic = format!("projects/shop/topics/{}", self.topic);
        let (topics, subscriptions) = (TopicAdmin::builder(), SubscriptionAdmin::builder());
        let token = || anonymous::Builder::new().build();
        let topics =
            topics.with_endpoint(self.pubsub()).with_credentials(token()).build().await.expect("a client");
        let subscriptions = subscriptions
            .with_endpoint(self.pubsub())
            .with_credentials(token())
            .build()
            .await
            .expect("a client");
        topics.create_topic().set_name(&topic).send().await.expect("a topic");
        let creating = subscriptions.create_subscription().set_name(self.subscription()).set_topic(&topic);
        creating.set_ack_deadline_seconds(10).send().await.expect("a subscription");
    }

    /// Three subscriptions to each broker: that makes three copies of each message.
    fn relay(&self) -> Process {
        let mut text = format!(
            "[database]\nurl = {:?}\n[relay]\nlisten = \"off\"\n[defaults]\nstart = \"beginning\"\n",
            url(&self.service)
        );
        for copy in 1..=COPIES {
            text += &format!(
                "[subscriptions.redis-{copy}.sink]\ntype = \"redis\"\nurl = {:?}\nstream = \"licenses\"\n\
                 [subscriptions.pubsub-{copy}.sink]\ntype = \"pubsub\"\nproject = \"shop\"\ntopic = {:?}\nendpoint = {:?}\n",
                self.redis.url(),
                self.topic,
                self.pubsub()
            );
        }
        let config = self.folder.path().join("posthaste.toml");
        std::fs::write(&config, text).expect("a configuration");
        let mut command = Command::new(built("posthaste"));
        Process::start(
            command.arg("relay").arg("--config").arg(config),
            &self.folder.path().join("relay.log"),
        )
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("worker.log")
    }

    fn worker(&self, more: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_licences"));
        command.args(["worker", "--database", &url(&self.compliance)]).args(more);
        Process::start(&mut command, &self.log())
    }

    fn redis_worker(&self) -> Process {
        self.worker(&["--redis", &self.redis.url()])
    }

    fn pubsub_worker(&self) -> Process {
        self.worker(&["--pubsub", &self.subscription(), "--pubsub-endpoint", &self.pubsub()])
    }

    /// How many copies of each event came from a broker.
    fn copies(&self, broker: &str) -> BTreeMap<String, usize> {
        let mut copies = BTreeMap::new();
        for line in std::fs::read_to_string(self.log()).unwrap_or_default().lines() {
            if let Some((source, rest)) = line.split_once(' ')
                && source == broker
            {
                let id = rest.split(' ').next().unwrap_or_default();
                *copies.entry(id.to_owned()).or_insert(0) += 1;
            }
        }
        copies
    }

    /// How many copies from Redis were handled.
    fn handled(&self) -> usize {
        self.copies("redis").values().sum()
    }

    /// A moment after so many copies, while the next one is in hand.
    async fn in_the_middle(&self, handled: usize) {
        let deadline = Instant::now() + Duration::from_secs(3);
        while self.handled() < handled && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..10_000))).await;
    }

    /// How many entries a worker had taken and not acknowledged.
    async fn in_hand(&self) -> usize {
        let client = redis::Client::open(self.redis.url()).expect("an address");
        let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
        let mut ask = redis::cmd("XPENDING");
        ask.arg(&["licenses", "compliance", "-", "+", "1000"]);
        ask.query_async::<Vec<redis::Value>>(&mut connection).await.map_or(0, |entries| entries.len())
    }

    async fn events(&self) -> BTreeSet<String> {
        let ids = sqlx::query_scalar("select id::text from posthaste.events where payload <> '{}'")
            .fetch_all(&self.service.pool);
        ids.await.expect("events").into_iter().collect()
    }

    async fn notified(&self) -> Vec<String> {
        let ids = sqlx::query_scalar("select event_id from notifications").fetch_all(&self.compliance.pool);
        ids.await.expect("notices")
    }
}

fn url(database: &TestDatabase) -> String {
    let (server, name) = (&servers()[0].url, database.options.get_database().expect("a name"));
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    format!("{place}/{name}")
}

/// A program of the workspace: `cargo test --workspace --all-features` has built it beside this test.
fn built(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_licences")).parent().expect("a folder");
    let path = folder.join(name);
    assert!(path.is_file(), "there is no {}; run cargo build --workspace --all-features", path.display());
    path
}

async fn until(what: &str, mut fact: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !fact().await {
        assert!(Instant::now() < deadline, "three minutes passed, and still not: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_notice_exists_once_though_messages_come_thrice_and_the_worker_is_killed() {
    let Some(scene) = Scene::prepare().await else { return };
    scene.create_topic().await;
    let service = Service::open(scene.service.pool.clone()).await.expect("a service");
    // So that the tables are there for the questions of this test.
    Worker::open(scene.compliance.pool.clone()).await.expect("a worker");
    let posthaste = posthaste::Posthaste::postgres(scene.service.pool.clone());
    let mut tx = scene.service.pool.begin().await.expect("begin");
    posthaste.enqueue(&mut tx, NewEvent::bytes("licenses", "{}").key("poison")).await.expect("enqueue");
    tx.commit().await.expect("commit");
    let mut caught = 0;
    let (_relay, _neighbour) = (scene.relay(), scene.pubsub_worker());
    for _ in 0..KILLS {
        service.run(4).await.expect("licences");
        let before = scene.handled();
        let mut worker = scene.redis_worker();
        scene.in_the_middle(before + fastrand::usize(0..20)).await;
        worker.kill();
        caught += usize::from(scene.in_hand().await > 0);
    }
    assert!(caught > 0, "no kill met a worker at work");
    let _worker = scene.redis_worker();
    let events = scene.events().await;
    assert_eq!(events.len(), KILLS * 4 * 2);
    for broker in ["redis", "pubsub"] {
        until(&format!("three copies of everything came from {broker}"), async || {
            let copies = scene.copies(broker);
            events.iter().all(|id| copies.get(id).is_some_and(|count| *count >= COPIES))
        })
        .await;
    }
    let notified = scene.notified().await;
    let different: BTreeSet<String> = notified.iter().cloned().collect();
    let copies = |broker| scene.copies(broker).values().sum::<usize>();
    println!(
        "{} changes, {} copies from Redis, {} from Pub/Sub, {KILLS} kills, {caught} of them at work: {} notices, {} missing, {} twice",
        events.len(),
        copies("redis"),
        copies("pubsub"),
        notified.len(),
        events.difference(&different).count(),
        notified.len() - different.len()
    );
    assert_eq!(different, events, "none is missing");
    assert_eq!(notified.len(), events.len(), "none exists twice");
    let letters = Worker::open(scene.compliance.pool.clone()).await.expect("a worker").dead_letters().await;
    assert_eq!(letters.expect("letters"), 1, "what cannot be read is kept once");
}

/// The control: the same messages without the guard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_guard_notices_exist_several_times() {
    let Some(scene) = Scene::prepare().await else { return };
    let service = Service::open(scene.service.pool.clone()).await.expect("a service");
    Worker::open(scene.compliance.pool.clone()).await.expect("a worker");
    let _relay = scene.relay();
    service.run(5).await.expect("licences");
    let _worker = scene.worker(&["--redis", &scene.redis.url(), "--without-guard"]);
    until("all copies came", async || scene.notified().await.len() >= 10 * COPIES).await;
    let different: BTreeSet<String> = scene.notified().await.into_iter().collect();
    assert_eq!(different, scene.events().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_form_keeps_the_promise_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("licences.db");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_licences"));
        command.arg("embedded").arg(&file).args(["--licences", "5", "--copies", "3"]);
        command
    };
    for _ in 0..20 {
        let mut running = Process::start(&mut run(), &folder.path().join("log"));
        tokio::time::sleep(Duration::from_millis(fastrand::u64(20..300))).await;
        running.kill();
    }
    let out = File::create(folder.path().join("last")).expect("a file");
    let status = run().stdin(Stdio::null()).stdout(out).status().expect("it runs");
    assert!(status.success());
    let pool = sqlx::SqlitePool::connect_with(posthaste::sqlite_options(&file)).await.expect("the file");
    let events: i64 =
        sqlx::query_scalar("select count(*) from posthaste_events").fetch_one(&pool).await.expect("count");
    let (notices, different): (i64, i64) =
        sqlx::query_as("select count(*), count(distinct event_id) from notifications")
            .fetch_one(&pool)
            .await
            .expect("count");
    println!("{events} changes in 21 runs, 20 of them killed: {notices} notices, {different} different");
    assert!(events >= 10, "the last run alone makes ten");
    assert_eq!((notices, different), (events, events));
}
