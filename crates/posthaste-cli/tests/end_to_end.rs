//! Producers in other languages, two relays, two brokers, and one relay killed on the way: everything arrives, in order
//! per key, to the byte.
#![cfg(all(unix, feature = "kafka", feature = "nats"))]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use posthaste::EventId;
use posthaste_testkit::brokers::kafka::KafkaMock;
use posthaste_testkit::brokers::nats::NatsServer;
use posthaste_testkit::{Accepted, Committed, Ledger, TestDatabase, Verdict, servers};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;

const PER_PRODUCER: usize = 2500;
const KEYS: usize = 20;
const PARTITIONS: i32 = 4;

/// A child process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct Scene {
    database: TestDatabase,
    kafka: KafkaMock,
    nats: NatsServer,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn prepare() -> Self {
        let database = TestDatabase::new().await;
        sqlx::query("create table orders (key text not null, n integer not null, primary key (key, n))")
            .execute(&database.pool)
            .await
            .expect("a table of the application");
        let kafka = KafkaMock::start().expect("librdkafka's mock cluster");
        kafka.tell(&format!("topic orders {PARTITIONS}"));
        let nats = NatsServer::start("").await.expect("a NATS server");
        create_stream(&nats).await;
        let folder = tempfile::tempdir().expect("a folder");
        let scene = Self { database, kafka, nats, folder };
        std::fs::write(scene.config(), scene.configuration()).expect("a configuration");
        scene
    }

    fn url(&self) -> String {
        let (server, name) = (&servers()[0].url, self.database.options.get_database().expect("a name"));
        let (place, _) = server.rsplit_once('/').expect("a URL with a database");
        format!("{place}/{name}")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("posthaste.toml")
    }

    /// Two lanes, so that both relays have work.
    fn configuration(&self) -> String {
        let brokers: Vec<String> =
            self.kafka.brokers().split(',').map(|broker| format!("{broker:?}")).collect();
        format!(
            "[database]\nurl = {:?}\n[relay]\nlisten = \"off\"\n[defaults]\nlanes = 2\nlease = \"3s\"\nstart = \"beginning\"\n\
             [subscriptions.to-kafka]\ntopics = [\"orders\"]\nsink = {{ type = \"kafka\", brokers = [{}] }}\n\
             [subscriptions.to-nats]\ntopics = [\"orders\"]\n\
             sink = {{ type = \"nats\", url = {:?}, subject = \"events.{{topic}}\" }}\n",
            self.url(),
            brokers.join(", "),
            self.nats.url(),
        )
    }

    fn relay(&self, name: &str) -> Running {
        let log = std::fs::File::create(self.folder.path().join(format!("{name}.log"))).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.arg("relay").arg("--config").arg(self.config()).env("POSTHASTE_RELAY__NAME", name);
        // For the failure that happens once in a hundred runs.
        command.env("RUST_LOG", "warn,posthaste=debug");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Running(command.spawn().expect("the relay starts"))
    }

    fn logs(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("first relay:\n{}\nsecond relay:\n{}", read("first.log"), read("second.log"))
    }

    /// What the database says of events that did not arrive: who has them, and what holds them.
    async fn whereabouts(&self, missing: &[EventId]) -> String {
        let ids: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let mut found = format!("missing: {ids:?}\n");
        for of in [
            "select s from posthaste.event_status s where id = any ($1::text[]::uuid[])",
            "select d from posthaste.deliveries d where $1::text[] is not null",
            "select b from posthaste.batches b, posthaste.events e
             where e.id = any ($1::text[]::uuid[]) and e.seq between b.seq_from and b.seq_to",
            "select l from posthaste.lanes l where $1::text[] is not null",
        ] {
            let query = format!("select distinct row_to_json({})::text from ({of}) found", &of[7..8]);
            let rows: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(query))
                .bind(&ids)
                .fetch_all(&self.database.pool)
                .await
                .expect("the tables of Posthaste");
            found.push_str(&format!("{of}\n  {}\n", rows.join("\n  ")));
        }
        found
    }
}

async fn create_stream(nats: &NatsServer) {
    let client = async_nats::connect(nats.url()).await.expect("connect");
    let config = async_nats::jetstream::stream::Config {
        name: "EVENTS".into(),
        subjects: vec!["events.>".into()],
        ..Default::default()
    };
    async_nats::jetstream::new(client).create_stream(config).await.expect("a stream");
}

/// Starts a producer and collects what it says it has committed.
fn produce(program: &Path, script: &str, prefix: &str, url: &str) -> std::thread::JoinHandle<Vec<Committed>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producers").join(script);
    let mut command = Command::new(program);
    command.arg(script).args([url, prefix, &PER_PRODUCER.to_string(), &KEYS.to_string()]);
    if let Some(modules) = std::env::var_os("POSTHASTE_TEST_NODE_MODULES") {
        command.env("NODE_PATH", modules);
    }
    std::thread::spawn(move || {
        let output = command.stdin(Stdio::null()).output().expect("the producer runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        committed(&String::from_utf8(output.stdout).expect("UTF-8"))
    })
}

fn committed(lines: &str) -> Vec<Committed> {
    let mut places: HashMap<String, u64> = HashMap::new();
    let parse = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| line[name].as_str().expect("a text").to_owned();
        let place = places.entry(text("key")).and_modify(|place| *place += 1).or_insert(1);
        let id = EventId(text("id").parse().expect("an id"));
        Committed { id, place: Some((text("key"), *place)), payload: text("payload").into_bytes() }
    };
    lines.lines().map(parse).collect()
}

/// Reads a broker until every committed event is there, and says what was found.
async fn until_all(
    scene: &Scene,
    what: &str,
    events: &[Committed],
    mut read: impl AsyncFnMut(&Ledger),
) -> Verdict {
    let (ledger, deadline) = (Ledger::default(), Instant::now() + Duration::from_secs(120));
    loop {
        read(&ledger).await;
        let verdict = ledger.check(events);
        if verdict.lost == 0 {
            return verdict;
        }
        if Instant::now() > deadline {
            let arrived: HashSet<EventId> = ledger.accepted().iter().map(|accepted| accepted.id).collect();
            let missing = events.iter().map(|event| event.id).filter(|id| !arrived.contains(id));
            let missing: Vec<EventId> = missing.collect();
            panic!("{what}: {verdict}\n{}\n{}", scene.whereabouts(&missing).await, scene.logs());
        }
    }
}

fn kafka_consumer(brokers: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "end-to-end").set("enable.auto.commit", "false");
    // A consumer that loses its place says so instead of skipping.
    config.set("auto.offset.reset", "error");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut everything = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        everything.add_partition_offset("orders", partition, Offset::Beginning).expect("a partition");
    }
    consumer.assign(&everything).expect("assigned");
    consumer
}

fn accept_kafka(message: &rdkafka::message::BorrowedMessage<'_>, ledger: &Ledger) {
    let headers = message.headers().expect("headers");
    let id =
        headers.iter().find(|header| header.key == "ce_id").and_then(|header| header.value).expect("an id");
    let id = std::str::from_utf8(id).expect("text").parse().expect("an id");
    let key = message.key().map(|key| String::from_utf8_lossy(key).into_owned());
    ledger.accept_raw(Accepted {
        id: EventId(id),
        key,
        payload: message.payload().unwrap_or_default().to_vec(),
    });
}

/// Until there is nothing more for a moment, or the ledger holds as many as are wanted.
async fn accept_nats(
    messages: &mut async_nats::jetstream::consumer::pull::Ordered,
    ledger: &Ledger,
    most: usize,
) {
    while ledger.len() < most
        && let Ok(Some(Ok(message))) = tokio::time::timeout(Duration::from_millis(200), messages.next()).await
    {
        let id = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).expect("an id");
        let id = id.as_str().parse().expect("an id");
        ledger.accept_raw(Accepted { id: EventId(id), key: None, payload: message.payload.to_vec() });
    }
}

async fn nats_messages(nats: &NatsServer) -> async_nats::jetstream::consumer::pull::Ordered {
    let client = async_nats::connect(nats.url()).await.expect("connect");
    let stream = async_nats::jetstream::new(client).get_stream("EVENTS").await.expect("the stream");
    let config = async_nats::jetstream::consumer::pull::OrderedConfig::default();
    let consumer = stream.create_consumer(config).await.expect("a consumer");
    consumer.messages().await.expect("messages")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_python_and_node_reach_kafka_and_nats_through_two_relays_one_of_which_is_killed() {
    let (Some(python), true) = (
        std::env::var_os("POSTHASTE_TEST_PYTHON"),
        std::env::var_os("POSTHASTE_TEST_NODE_MODULES").is_some(),
    ) else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "no Python or Node packages; cargo xtask test has them"
        );
        return eprintln!("skipped: no Python or Node packages; cargo xtask test has them");
    };
    let scene = Scene::prepare().await;
    let (mut first, second) = (scene.relay("first"), scene.relay("second"));
    let producers = [
        produce(Path::new(&python), "producer.py", "py", &scene.url()),
        produce(Path::new("node"), "producer.cjs", "js", &scene.url()),
    ];
    let (kafka, mut nats) = (kafka_consumer(scene.kafka.brokers()), nats_messages(&scene.nats).await);
    let (begun, deadline) = (Ledger::default(), Instant::now() + Duration::from_secs(120));
    while begun.len() < PER_PRODUCER / 5 {
        accept_nats(&mut nats, &begun, PER_PRODUCER / 5).await;
        assert!(Instant::now() < deadline, "only {} events after two minutes\n{}", begun.len(), scene.logs());
    }
    first.0.kill().and_then(|()| first.0.wait()).expect("kill -9 of one relay");
    let events: Vec<Committed> =
        producers.into_iter().flat_map(|producer| producer.join().expect("a producer")).collect();
    assert_eq!(events.len(), 2 * PER_PRODUCER);
    let read = async |ledger: &Ledger| {
        while let Some(message) = kafka.poll(Duration::from_millis(100)) {
            accept_kafka(&message.expect("a message"), ledger);
        }
    };
    let in_kafka = until_all(&scene, "Kafka", &events, read).await;
    let mut nats = nats_messages(&scene.nats).await;
    let read = async |ledger: &Ledger| accept_nats(&mut nats, ledger, usize::MAX).await;
    let in_nats = until_all(&scene, "NATS", &events, read).await;
    println!("Kafka: {in_kafka}\nNATS: {in_nats}");
    for verdict in [in_kafka, in_nats] {
        assert_eq!(
            (verdict.lost, verdict.ghosts, verdict.inversions, verdict.corrupted),
            (0, 0, 0, 0),
            "{verdict}"
        );
    }
    drop(second);
}
