//! Secrets stay where they are: every one that a relay can be given is a canary here, and none of them is found in anything that
//! the program says, however much it is asked to say. The sinks speak to real servers, so that the secrets are used.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::brokers::kafka::KafkaMock;
use posthaste_testkit::brokers::moto::Moto;
use posthaste_testkit::brokers::nats::NatsServer;
use posthaste_testkit::brokers::rabbitmq::RabbitMq;
use posthaste_testkit::brokers::redis::RedisServer;
use posthaste_testkit::servers;

use crate::health::ask;
use crate::log::Log;
use crate::support::{Ended, Folder, Relay};

/// Where each secret is given, all but the last few in the environment.
const NAMES: [&str; 17] = [
    "DATABASE",
    "INBOX",
    "KAFKA",
    "NATS_PASSWORD",
    "NATS_URL",
    "NATS_TOKEN",
    "REDIS_URL",
    "REDIS_PASSWORD",
    "RABBITMQ_URL",
    "RABBITMQ_PASSWORD",
    "SQS_SECRET",
    "SQS_SESSION",
    "WEBHOOK_HEADER",
    "WEBHOOK_PATH",
    "PROXY",
    "EVENT_STORE",
    "WEBHOOK_SECRET",
];

/// A secret, and what it looks like when it is written down in another way.
struct Canary {
    name: &'static str,
    value: String,
    forms: Vec<String>,
}

impl Canary {
    fn new(name: &'static str) -> Self {
        let value = format!("canary{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let bytes = value.as_bytes();
        // In the middle of something longer, base64 shows it in one of three ways.
        let within = (0..3).map(|skip| STANDARD.encode(&bytes[skip..skip + 30]));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let decimal = format!("{bytes:?}").replace(['[', ']'], "");
        let forms = [value.clone(), hex, decimal].into_iter().chain(within).collect();
        Self { name, value, forms }
    }
}

struct Canaries(Vec<Canary>);

impl Canaries {
    fn new() -> Self {
        Self(NAMES.map(Canary::new).into())
    }

    fn of(&self, name: &str) -> &str {
        &self.0.iter().find(|canary| canary.name == name).expect("a canary").value
    }

    /// Which of them are in this text, with the lines that tell.
    fn hits(&self, text: &str) -> Vec<String> {
        let told = |canary: &Canary, line: &str| canary.forms.iter().any(|form| line.contains(form));
        let lines = |canary: &Canary| {
            let line = text.lines().find(|line| told(canary, line))?;
            Some(format!("{}: {}", canary.name, line.chars().take(600).collect::<String>()))
        };
        self.0.iter().filter_map(lines).collect()
    }

    fn assert_silent(&self, what: &str, text: &str) {
        let hits = self.hits(text);
        assert!(hits.is_empty(), "{what} tells {} secrets:\n{}", hits.len(), hits.join("\n"));
    }

    fn webhook_secret(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.of("WEBHOOK_SECRET")))
    }
}

/// The servers, and where the rest is to be found.
struct Scene {
    canaries: Canaries,
    log: Log,
    nats: NatsServer,
    redis: RedisServer,
    rabbitmq: std::sync::Arc<RabbitMq>,
    kafka: KafkaMock,
    moto: Moto,
    webhook: SocketAddr,
}

impl Scene {
    async fn new() -> Self {
        let locked = "authorization { user: relay, password: another }";
        Self {
            canaries: Canaries::new(),
            log: Log::postgres(&servers()[0]).await,
            nats: NatsServer::start(locked).await.expect("NATS"),
            redis: RedisServer::start(&["--requirepass", "another"]).await.expect("Redis"),
            rabbitmq: RabbitMq::shared().await.expect("RabbitMQ"),
            kafka: KafkaMock::start().expect("Kafka"),
            moto: Moto::start().await.expect("SQS"),
            webhook: grumpy_receiver(),
        }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let of = |name| self.canaries.of(name).to_owned();
        let with_password = |url: &str, name| url.replacen('@', &format!(":{}@", of(name)), 1);
        let postgres = |name| with_password(&self.log.url, name);
        vec![
            ("POSTHASTE_DATABASE__URL", postgres("DATABASE")),
            ("POSTHASTE_INBOX__URL", postgres("INBOX")),
            ("KAFKA", of("KAFKA")),
            ("NATS_PASSWORD", of("NATS_PASSWORD")),
            ("NATS_TOKEN", of("NATS_TOKEN")),
            ("NATS_URL", format!("nats://relay:{}@127.0.0.1:{}", of("NATS_URL"), self.nats.port())),
            ("REDIS_URL", format!("redis://:{}@127.0.0.1:{}", of("REDIS_URL"), self.redis.port())),
            ("REDIS_PASSWORD", of("REDIS_PASSWORD")),
            (
                "RABBITMQ_URL",
                format!("amqp://guest:{}@127.0.0.1:{}", of("RABBITMQ_URL"), self.rabbitmq.port()),
            ),
            ("RABBITMQ_PASSWORD", of("RABBITMQ_PASSWORD")),
            ("SQS_SECRET", of("SQS_SECRET")),
            ("SQS_SESSION", of("SQS_SESSION")),
            ("WEBHOOK_HEADER", format!("Bearer {}", of("WEBHOOK_HEADER"))),
            ("WEBHOOK_URL", format!("http://{}/{}/hook", self.webhook, of("WEBHOOK_PATH"))),
            ("PROXY", format!("http://relay:{}@{}", of("PROXY"), self.webhook)),
            ("EVENT_STORE", postgres("EVENT_STORE")),
        ]
    }

    /// A subscription for each way to give a secret.
    fn config(&self) -> String {
        let (nats, redis, rabbitmq) = (self.nats.port(), self.redis.port(), self.rabbitmq.port());
        let (kafka, moto) = (self.kafka.brokers().split(',').next().expect("a broker"), self.moto.port());
        let keys = "access_key_id = \"key\"\nsecret_access_key = { env = \"SQS_SECRET\" }\nsession_token = { env = \"SQS_SESSION\" }";
        let secrets =
            "secrets = [{ file = \"webhook.secret\" }]\nallow_private = true\nallow_plain_http = true";
        let sinks = [
            (
                "kafka",
                format!(
                    "brokers = [\"{kafka}\"]\ntopic = \"t\"\nusername = \"relay\"\npassword = {{ env = \"KAFKA\" }}"
                ),
            ),
            (
                "nats",
                format!(
                    "url = \"nats://127.0.0.1:{nats}\"\nsubject = \"t\"\nusername = \"relay\"\npassword = {{ env = \"NATS_PASSWORD\" }}"
                ),
            ),
            (
                "nats",
                format!(
                    "url = \"nats://127.0.0.1:{nats}\"\nsubject = \"t\"\ntoken = {{ env = \"NATS_TOKEN\" }}"
                ),
            ),
            ("nats", "url = { env = \"NATS_URL\" }\nsubject = \"t\"".into()),
            ("redis", "url = { env = \"REDIS_URL\" }\nstream = \"t\"".into()),
            (
                "redis",
                format!(
                    "url = \"redis://127.0.0.1:{redis}\"\nstream = \"t\"\npassword = {{ env = \"REDIS_PASSWORD\" }}"
                ),
            ),
            ("rabbitmq", "url = { env = \"RABBITMQ_URL\" }\nexchange = \"t\"\nrouting_key = \"t\"".into()),
            (
                "rabbitmq",
                format!(
                    "url = \"amqp://127.0.0.1:{rabbitmq}\"\nexchange = \"t\"\nrouting_key = \"t\"\nusername = \"guest\"\npassword = {{ env = \"RABBITMQ_PASSWORD\" }}"
                ),
            ),
            (
                "sqs",
                format!(
                    "queue_url = \"http://127.0.0.1:{moto}/123456789012/t\"\nregion = \"eu-central-1\"\nendpoint_url = \"http://127.0.0.1:{moto}\"\n{keys}"
                ),
            ),
            (
                "webhook",
                format!(
                    "url = {{ env = \"WEBHOOK_URL\" }}\n{secrets}\nheaders = {{ authorization = {{ env = \"WEBHOOK_HEADER\" }} }}"
                ),
            ),
            (
                "webhook",
                format!("url = \"http://{}/\"\n{secrets}\nproxy = {{ env = \"PROXY\" }}", self.webhook),
            ),
            ("event_store", "url = { env = \"EVENT_STORE\" }\ntable = \"event_store\"".into()),
        ];
        let begin = "[relay]\nlisten = \"127.0.0.1:0\"\nlog = \"json\"\n[defaults]\nbase_delay = \"20ms\"\npoll_interval = \"100ms\"\n";
        let table = |(index, (kind, rest)): (usize, &(&str, String))| {
            format!("[subscriptions.s{index}.sink]\ntype = \"{kind}\"\n{rest}\n")
        };
        begin.to_owned() + &sinks.iter().enumerate().map(table).collect::<String>()
    }

    fn command(&self, folder: &Folder, arguments: &[&str]) -> Command {
        let mut command = folder.command(arguments);
        command.envs(self.environment()).env("RUST_LOG", "trace");
        command
    }

    fn says(&self, folder: &Folder, arguments: &[&str]) -> String {
        let ended = Ended::of(self.command(folder, arguments).output().expect("the binary runs"));
        format!("exit code {:?}\n{}{}", ended.code, ended.stdout, ended.stderr)
    }
}

/// Answers everything with 500, and with what it was asked, as a page for developers would. Returns its address.
fn grumpy_receiver() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).unwrap_or(0);
            let body = String::from_utf8_lossy(&asked[..read]).into_owned();
            let answer = format!(
                "HTTP/1.1 500 No\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told_by_a_relay_that_logs_everything_nor_by_any_command() {
    let (scene, folder) = (Scene::new().await, Folder::new());
    folder.write("posthaste.toml", scene.config());
    folder.write("webhook.secret", scene.canaries.webhook_secret());
    scene.log.enqueue("orders", 0, 5, 2).await;
    let relay = Relay::start(scene.command(&folder, &["relay"]));
    relay.says("\"delivering\"");
    // Each sink has been tried: ten are away, whatever the reason, and two refuse each event.
    relay.says_times("the sink is away", 9);
    let address = relay.address();
    let mut told: String = ["GET /healthz", "GET /readyz", "GET /metrics", "GET /", "POST /readyz"]
        .map(|request| ask(&address, request).1.to_string())
        .join("\n");
    relay.send(rustix::process::Signal::HUP);
    relay.says("read again");
    let (code, words) = relay.stop();
    told.push_str(&words);
    assert_eq!(code, Some(0));
    assert!(words.contains("\"level\":\"TRACE\""), "it did log everything");
    for arguments in [
        &["check"][..],
        &["check", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["migrate"],
        &["migrate", "--print"],
        &["status"],
        &["status", "--json"],
        &["subscriptions", "list", "--json"],
        &["subscriptions", "show", "s9", "--json"],
        &["dead", "list", "--json"],
        &["events", "list", "--json"],
        &["dead", "letters", "list"],
        &["version"],
        &["--help"],
        &["relay", "--help"],
        &["completions", "bash"],
        &["relay", "--listen", "nowhere"],
        &["statsu"],
    ] {
        told.push_str(&scene.says(&folder, arguments));
    }
    let events =
        scene.log.posthaste.admin().events(&posthaste::admin::EventQuery::default()).await.expect("events");
    for event in events.events {
        told.push_str(&scene.says(&folder, &["why", &event.event.id.to_string(), "--json"]));
    }
    scene.canaries.assert_silent("the program", &told);
    // Control: each would be found, as it is and in the middle of base64, hex and bytes.
    for canary in &scene.canaries.0 {
        for form in &canary.forms {
            assert_eq!(
                scene.canaries.hits(&format!("{told}\nthe password is {form}!")).len(),
                1,
                "{}",
                canary.name
            );
        }
    }
}

/// Mistakes around a secret, each with `SECRET` in it.
const MISTAKES: [&str; 16] = [
    "[database]\nurl = \"postgres://u:SECRET@127.0.0.1:1/x\n",
    "[database]\nurl = \"postgres://u:SECRET@127.0.0.1:1/x\" more\n",
    "[database]\nurl = postgres://u:SECRET@127.0.0.1:1/x\n",
    "[database]\nurl = [\"postgres://u:SECRET@127.0.0.1:1/x\"]\n",
    "[database]\nurl = { plain = \"postgres://u:SECRET@127.0.0.1:1/x\" }\n",
    "[database]\nurl = \"postgres://u:SECRET@127.0.0.1:number/x\"\n",
    "[database]\nurl = \"mysql://u:SECRET@127.0.0.1/x\"\n",
    "[database]\nurl = \"postgres://127.0.0.1:1/x\"\npassword = \"SECRET\"\n",
    "[database]\nurl = \"postgres://127.0.0.1:1/x?password=SECRET&sslmode=maybe\"\n",
    "[subscriptions.s.sink]\ntype = \"nats\"\nsubject = \"t\"\nurl = \"nats://u:SECRET@127.0.0.1:99999\"\n",
    "[subscriptions.s.sink]\ntype = \"nats\"\nsubject = \"t\"\nurl = \"nats://127.0.0.1:1\"\nnkey = \"SECRET\"\n",
    "[subscriptions.s.sink]\ntype = \"redis\"\nstream = \"t\"\nurl = \"redis://:SECRET@127.0.0.1:number\"\n",
    "[subscriptions.s.sink]\ntype = \"redis\"\nstream = \"t\"\nurl = \"redis://127.0.0.1:1\"\npassword = 5SECRET\n",
    "[subscriptions.s.sink]\ntype = \"rabbitmq\"\nrouting_key = \"t\"\nurl = \"amqp://u:SECRET@127.0.0.1:number\"\n",
    "[subscriptions.s.sink]\ntype = \"webhook\"\nurl = \"https://u:SECRET@127.0.0.1:number/\"\nsecrets = [\"SECRET\"]\n",
    "[subscriptions.s.sink]\ntype = \"kafka\"\nbrokers = [\"a:1\"]\ntopic = \"t\"\nusername = \"u\"\npassword = \"SECRET\"\n",
];

#[test]
fn no_mistake_in_a_configuration_shows_the_secret_beside_it() {
    let canaries = Canaries::new();
    for mistake in MISTAKES {
        let folder = Folder::new();
        let database =
            if mistake.starts_with("[database]") { "" } else { "[database]\nurl = \"sqlite:s.db\"\n" };
        folder.write(
            "posthaste.toml",
            format!("{database}{}", mistake.replace("SECRET", canaries.of("KAFKA"))),
        );
        for arguments in [&["check"][..], &["check", "--json"], &["relay"], &["status"]] {
            let ended =
                Ended::of(folder.command(arguments).env("RUST_LOG", "trace").output().expect("it runs"));
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(ended.code != Some(0) && !said.trim().is_empty(), "{arguments:?} of\n{mistake}: {said}");
            canaries.assert_silent(&format!("{arguments:?} of\n{mistake}"), &said);
        }
    }
}

/// Seeds and keys are read in the end, and are wrong: from the environment, and from files.
#[test]
fn no_seed_and_no_key_is_shown_that_cannot_be_used() {
    let canaries = Canaries::new();
    let (seed, key) = (canaries.of("NATS_TOKEN"), canaries.of("KAFKA"));
    let json = format!(
        "{{\"type\":\"service_account\",\"project_id\":\"p\",\"private_key_id\":\"k\",\"private_key\":{key:?},\
         \"client_email\":\"a@b\",\"token_uri\":\"http://127.0.0.1:1/\"}}"
    );
    let nats = "type = \"nats\"\nsubject = \"t\"\nurl = \"nats://127.0.0.1:1\"";
    let pubsub = "type = \"pubsub\"\nproject = \"shop-test\"\ntopic = \"orders\"";
    for (sink, file) in [
        (format!("{nats}\nnkey = {{ env = \"SEED\" }}"), String::new()),
        (
            format!("{nats}\ncredentials_file = \"key\""),
            format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"),
        ),
        (format!("{pubsub}\ncredentials_file = \"key\""), json.clone()),
        (format!("{pubsub}\ncredentials_file = \"key\""), json.replace('}', "")),
    ] {
        let folder = Folder::new();
        folder.write(
            "posthaste.toml",
            format!("[database]\nurl = \"sqlite:s.db\"\n[subscriptions.s.sink]\n{sink}\n"),
        );
        folder.write("key", &file);
        let command = |arguments: &[&str]| {
            let mut command = folder.command(arguments);
            command.env("RUST_LOG", "trace").env("SEED", format!("SU{seed}"));
            Ended::of(command.output().expect("it runs"))
        };
        let migrated = command(&["migrate"]);
        let ended = command(&["check"]);
        let said = [migrated.stdout, migrated.stderr, ended.stdout, ended.stderr].join("\n");
        assert!(ended.code != Some(0), "{sink}: {said}");
        canaries.assert_silent(&sink, &said);
    }
}
