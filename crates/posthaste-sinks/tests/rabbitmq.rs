//! The sink suite on RabbitMQ, and what only RabbitMQ does.

#![cfg(feature = "rabbitmq")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::DateTime;
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use posthaste::{NewEvent, Outcome, Page, Sink};
use posthaste_sinks::rabbitmq::{RabbitmqSettings, RabbitmqSink};
use posthaste_sinks::{Endpoint, Envelope, Form, Problems, Route, Section, Surroundings};
use posthaste_testkit::Gate;
use posthaste_testkit::brokers::rabbitmq::RabbitMq;
use posthaste_testkit::sink_suite::{self, Received, SinkBench};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// A queue of its own on a broker, behind a gate.
struct Rabbit {
    broker: Arc<RabbitMq>,
    gate: Arc<Gate>,
    queue: String,
    received: Mutex<Vec<Received>>,
}

fn sink(settings: Value, route: Route) -> Arc<RabbitmqSink> {
    let mut surroundings = Surroundings::default();
    surroundings.variables.insert("WRONG".into(), "wrong".into());
    let problems = Problems::default();
    let fields = settings.as_object().expect("a table");
    let settings = RabbitmqSettings::validate(&Section::new("sink", fields, &problems, &surroundings));
    assert_eq!(problems.count(), 0, "{:?}", problems.into_vec());
    Arc::new(RabbitmqSink::new(settings.expect("good settings"), route).expect("opens"))
}

impl Rabbit {
    async fn on(broker: Arc<RabbitMq>) -> Self {
        let gate = Gate::before(broker.port()).await;
        let queue = format!("q-{}", uuid::Uuid::new_v4().simple());
        let bench = Self { broker, gate, queue, received: Mutex::default() };
        bench.declare(&bench.queue, FieldTable::default()).await;
        bench
    }

    async fn shared() -> Option<Self> {
        sink_suite::bench::<Self>().await
    }

    /// Past the gate.
    async fn connect(&self) -> Connection {
        let url = format!("amqp://127.0.0.1:{}", self.broker.port());
        Connection::connect(&url, ConnectionProperties::default()).await.expect("connect")
    }

    async fn declare(&self, queue: &str, arguments: FieldTable) {
        let connection = self.connect().await;
        let channel = connection.create_channel().await.expect("a channel");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.into(), durable, arguments).await.expect("declare");
    }

    async fn get_all(&self, queue: &str) -> Vec<Received> {
        let connection = self.connect().await;
        let channel = connection.create_channel().await.expect("a channel");
        let mut received = Vec::new();
        let taken = BasicGetOptions { no_ack: true };
        while let Some(message) = channel.basic_get(queue.into(), taken).await.expect("get") {
            received.push(as_received(&message.delivery));
        }
        received
    }

    /// The settings for this bench's queue, with some of them different.
    fn settings(&self, different: Value) -> Value {
        let mut settings = json!({ "url": format!("amqp://127.0.0.1:{}", self.gate.port()),
            "routing_key": self.queue, "max_message_size": 1_048_576, "timeout": "5s" });
        let fields = settings.as_object_mut().expect("a table");
        fields.extend(different.as_object().expect("a table").clone());
        settings
    }

    fn with(&self, different: Value) -> Arc<RabbitmqSink> {
        sink(self.settings(different), Route::new("s"))
    }
}

fn as_received(delivery: &lapin::message::Delivery) -> Received {
    let properties = &delivery.properties;
    let headers = properties.headers().as_ref().map(FieldTable::inner).into_iter().flatten();
    let text = |value: &AMQPValue| match value {
        AMQPValue::LongString(text) => text.to_string(),
        other => panic!("{other:?} is no text"),
    };
    let headers: BTreeMap<String, String> =
        headers.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    assert_eq!(properties.delivery_mode(), &Some(2), "persistent");
    Received {
        id: properties.message_id().as_ref().expect("an id").as_str().to_owned(),
        key: headers.get("cloudEvents_partitionkey").cloned(),
        body: delivery.data.clone(),
        headers,
    }
}

#[async_trait]
impl SinkBench for Rabbit {
    const NAME: &'static str = "rabbitmq";
    const ATTRIBUTES: Option<&'static str> = Some("cloudEvents_");

    async fn start() -> Result<Self, String> {
        Ok(Self::on(RabbitMq::shared().await?).await)
    }

    fn server(&self) -> String {
        self.broker.version()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.with(json!({}))
    }

    fn structured(&self) -> Arc<dyn Sink> {
        sink(self.settings(json!({})), Route::new("s").envelope(Envelope::new(Form::Structured)))
    }

    async fn received(&self) -> Vec<Received> {
        let mut received = self.received.lock().await;
        received.extend(self.get_all(&self.queue).await);
        received.clone()
    }

    async fn take_away(&self) {
        self.gate.shut().await;
    }

    async fn bring_back(&self) {
        self.gate.open().await;
    }

    fn too_large(&self) -> Option<usize> {
        Some(1_048_577)
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(self.with(json!({ "username": "guest", "password": { "env": "WRONG" } })))
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(self.with(json!({ "exchange": "nowhere" })))
    }
}

posthaste_testkit::sink_suite!(Rabbit);

/// The same, but the outage is a kill -9 and a restart on the same folder.
struct Killed(Rabbit);

#[async_trait]
impl SinkBench for Killed {
    const NAME: &'static str = "rabbitmq-kill-9";
    const ATTRIBUTES: Option<&'static str> = Rabbit::ATTRIBUTES;

    async fn start() -> Result<Self, String> {
        let bench = Rabbit::on(Arc::new(RabbitMq::start("").await?)).await;
        // A queue is declared before it is on disk: killed within the next seconds, the broker comes back without it.
        bench.broker.ctl(&["eval", "ok = mnesia:sync_log()."]);
        Ok(Self(bench))
    }

    fn server(&self) -> String {
        self.0.server()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink()
    }

    fn structured(&self) -> Arc<dyn Sink> {
        self.0.structured()
    }

    async fn received(&self) -> Vec<Received> {
        self.0.received().await
    }

    async fn take_away(&self) {
        self.0.broker.kill();
    }

    async fn bring_back(&self) {
        self.0.broker.bring_back().await;
    }

    fn too_large(&self) -> Option<usize> {
        self.0.too_large()
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        self.0.with_wrong_credentials()
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        self.0.to_unknown_destination()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_confirmed_survives_a_broker_that_is_killed() {
    if let Some(bench) = sink_suite::bench::<Killed>().await {
        sink_suite::outages::a_server_taken_away_costs_no_event_and_no_attempt(&bench).await;
    }
}

/// What the client library is asked after its own thread has seen the end of the connection, and before the rest of it
/// knows, nobody answers. It is not the event that was silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_while_a_channel_is_opened_blames_nobody() {
    let Some(bench) = Rabbit::shared().await else { return };
    for _ in 0..8 {
        let (sink, gate) = (bench.with(json!({})), bench.gate.clone());
        let said = tokio::task::spawn_blocking(|| around_the_end(sink, gate)).await.expect("no panic");
        assert!(!said[0].starts_with("retry: "), "{said:?}");
        assert_eq!(said[1], "delivered");
    }
}

/// What is said of an event that is sent when the library's thread has just seen the end, and of the next one. On a runtime
/// of one thread: while that one sleeps, nothing else in the library hears of it.
fn around_the_end(sink: Arc<RabbitmqSink>, gate: Arc<Gate>) -> [String; 2] {
    let moment = Duration::from_millis(50);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // It is reset together with the sink's connection, which wakes us up when it wakes the library's thread.
        let bell = tokio::net::TcpStream::connect(("127.0.0.1", gate.port())).await.expect("let in");
        assert_eq!(sink.check().await, Ok(()), "connected, and no channel is kept");
        gate.reset_connections();
        std::thread::sleep(moment);
        drop(bell.readable().await);
        std::thread::sleep(moment);
        [outcomes(&*sink, &["t"]).await.remove(0), outcomes(&*sink, &["t"]).await.remove(0)]
    })
}

fn page(topics: &[&str]) -> Page {
    let event = |(seq, topic): (usize, &&str)| {
        let seq = i64::try_from(seq).expect("small");
        Arc::new(NewEvent::bytes(*topic, format!("{seq}")).stored(seq, DateTime::UNIX_EPOCH))
    };
    Page::new(topics.iter().enumerate().map(event).collect())
}

/// Delivers and says what became of each, in one word with the reason.
async fn outcomes(sink: &dyn Sink, topics: &[&str]) -> Vec<String> {
    let mut page = page(topics);
    sink.deliver(&mut page).await;
    let words = (0..topics.len()).map(|index| match page.outcome(index) {
        Some(Outcome::Delivered) => "delivered".to_owned(),
        Some(Outcome::Retry { reason, .. }) => format!("retry: {reason}"),
        Some(Outcome::Dead { reason }) => format!("dead: {reason}"),
        Some(Outcome::Unavailable { reason }) => format!("unavailable: {reason}"),
        other => panic!("{other:?}"),
    });
    words.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_many_exactly_the_unroutable_ones_are_retried() {
    let Some(bench) = Rabbit::shared().await else { return };
    let route = Route::new("s").without_order();
    let sink = sink(bench.settings(json!({ "routing_key": "{topic}" })), route);
    let queue = bench.queue.clone();
    for _ in 0..5 {
        let topics: Vec<&str> = (0..400).map(|n| if n % 7 == 3 { "no-such-queue" } else { &queue }).collect();
        let said = outcomes(&*sink, &topics).await;
        for (topic, said) in topics.iter().zip(&said) {
            match *topic {
                "no-such-queue" => assert_eq!(
                    said,
                    "retry: the queue `no-such-queue` leads nowhere (312 NO_ROUTE); declare that queue"
                ),
                _ => assert_eq!(said, "delivered"),
            }
        }
        let delivered = said.iter().filter(|said| *said == "delivered").count();
        assert_eq!(bench.get_all(&queue).await.len(), delivered, "delivered means: in the queue");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_address_that_leads_nowhere_is_waited_for() {
    let Some(bench) = Rabbit::shared().await else { return };
    let nowhere = bench.with(json!({ "routing_key": "no-such-queue" }));
    let said = outcomes(&*nowhere, &["t"]).await;
    assert!(said[0].starts_with("unavailable: the queue `no-such-queue` leads nowhere"), "{said:?}");
    assert!(nowhere.check().await.expect_err("not there").contains("no queue 'no-such-queue'"));
    let absent = bench.with(json!({ "exchange": "nowhere" }));
    let said = outcomes(&*absent, &["t"]).await;
    assert!(said[0].starts_with("unavailable: there is no exchange `nowhere`"), "{said:?}");
    assert!(absent.check().await.is_err());
    let unbound = bench.with(json!({ "exchange": "amq.direct" }));
    let said = outcomes(&*unbound, &["t"]).await;
    assert!(said[0].starts_with("unavailable: exchange `amq.direct` with routing key"), "{said:?}");
    assert_eq!(unbound.check().await, Ok(()), "the exchange is there, and more cannot be seen");
    assert_eq!(bench.with(json!({})).check().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_not_there_costs_only_its_own_event() {
    let Some(bench) = Rabbit::shared().await else { return };
    let route = Route::new("s").without_order();
    let sink = sink(bench.settings(json!({ "exchange": "{topic}", "in_flight": 8 })), route);
    let said = outcomes(&*sink, &["amq.fanout", "nowhere", "amq.fanout", "nowhere"]).await;
    for (index, words) in [(0, "leads nowhere"), (1, "there is no exchange `nowhere`"), (2, "leads nowhere")]
    {
        assert!(said[index].starts_with("retry: ") && said[index].contains(words), "{said:?}");
    }
    assert_eq!(sink.check().await, Ok(()), "the connection lives");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_that_rejects_is_waited_for() {
    let Some(bench) = Rabbit::shared().await else { return };
    let full = format!("{}-full", bench.queue);
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    bench.declare(&full, arguments).await;
    let sink = bench.with(json!({ "routing_key": full }));
    assert_eq!(outcomes(&*sink, &["t"]).await, ["delivered"]);
    let said = outcomes(&*sink, &["t"]).await;
    assert!(said[0].starts_with("unavailable: ") && said[0].contains("full"), "{said:?}");
    assert_eq!(bench.get_all(&full).await.len(), 1);
    assert_eq!(outcomes(&*sink, &["t"]).await, ["delivered"]);

    // Full again, and now one address of many.
    let among_many = bench.with(json!({ "routing_key": "{topic}" }));
    let said = outcomes(&*among_many, &[&full, &bench.queue, &full, &bench.queue]).await;
    for index in [0, 2] {
        assert!(said[index].starts_with("retry: ") && said[index].contains("full or failed"), "{said:?}");
    }
    assert_eq!((said[1].as_str(), said[3].as_str()), ("delivered", "delivered"));
    assert_eq!(bench.received().await.len(), 2);
}

/// The process of a queue stands still: nobody confirms, and everybody else is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_silent_costs_its_own_events_an_attempt_and_stops_nobody() {
    let Some(bench) = Rabbit::shared().await else { return };
    let silent = format!("{}-silent", bench.queue);
    bench.declare(&silent, FieldTable::default()).await;
    let process = |verb: &str| {
        bench.broker.ctl(&[
            "eval",
            &format!(
                "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{silent}\">>)), \
             ok = sys:{verb}(amqqueue:get_pid(Q))."
            ),
        ]);
    };
    process("suspend");
    let sink = bench.with(json!({ "routing_key": "{topic}", "timeout": "5s" }));
    let said = outcomes(&*sink, &[&bench.queue, &silent, &bench.queue]).await;
    assert_eq!(said[1], "retry: no confirmation within 5s, although the receiver is there");
    assert_eq!((said[0].as_str(), said[2].as_str()), ("delivered", "delivered"));
    let fixed = bench.with(json!({ "routing_key": silent, "timeout": "5s" }));
    let said = outcomes(&*fixed, &["t"]).await;
    assert!(said[0].starts_with("unavailable: no confirmation within 5s, nor to a check"), "{said:?}");
    process("resume");
    assert_eq!(outcomes(&*sink, &[&silent]).await, ["delivered"]);
    assert_eq!(bench.received().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_server_finds_too_large_is_dead_and_the_others_go_on() {
    let Some(bench) = Rabbit::shared().await else { return };
    let sink = bench.with(json!({ "max_message_size": 16 * 1024 * 1024 }));
    let sizes = [10, 1_048_577, 20];
    let events = sizes.iter().map(|size| NewEvent::bytes("t", vec![b'x'; *size]).key(format!("k{size}")));
    let events = events.map(|event| Arc::new(event.stored(1, DateTime::UNIX_EPOCH)));
    let mut page = Page::new(events.collect());
    sink.deliver(&mut page).await;
    assert_eq!((page.outcome(0), page.outcome(2)), (Some(&Outcome::Delivered), Some(&Outcome::Delivered)));
    match page.outcome(1) {
        Some(Outcome::Dead { reason }) => assert!(reason.contains("message size 1048577"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_connection_is_noticed_at_once_and_used_again_when_it_is_free() {
    let Ok(broker) = RabbitMq::start("").await else { return };
    let bench = Rabbit::on(Arc::new(broker)).await;
    let sink = bench.with(json!({ "timeout": "300s" }));
    assert_eq!(outcomes(&*sink, &["t"]).await, ["delivered"]);
    bench.broker.ctl(&["set_vm_memory_high_watermark", "0"]);
    let said = outcomes(&*sink, &["t", "t"]).await;
    assert!(said[0].contains("the server has blocked the connection (low on memory)"), "{said:?}");
    assert!(said[1].starts_with("unavailable: "), "{said:?}");
    assert!(sink.check().await.is_err());
    bench.broker.ctl(&["set_vm_memory_high_watermark", "0.6"]);
    while outcomes(&*sink, &["t"]).await != ["delivered"] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let received = bench.received().await;
    assert!((2..=4).contains(&received.len()), "delivered twice, and perhaps what had waited: {received:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_and_vhosts_that_are_missing_are_waited_for() {
    let Some(bench) = Rabbit::shared().await else { return };
    let sink = bench.with(json!({ "vhost": "nowhere" }));
    let said = outcomes(&*sink, &["t"]).await;
    assert!(said[0].starts_with("unavailable: ") && said[0].contains("vhost nowhere"), "{said:?}");
    let vhost = format!("{}/ä", bench.queue);
    bench.broker.ctl(&["add_vhost", &vhost]);
    bench.broker.ctl(&["set_permissions", "-p", &vhost, "guest", "", "", ".*"]);
    let sink = bench.with(json!({ "vhost": vhost, "exchange": "amq.direct" }));
    let said = outcomes(&*sink, &["t"]).await;
    assert!(said[0].starts_with("unavailable: not allowed to write to exchange `amq.direct`"), "{said:?}");
    // Forbidden for every routing key.
    let sink = bench.with(json!({ "vhost": vhost, "exchange": "amq.direct", "routing_key": "{topic}" }));
    let said = outcomes(&*sink, &["t"]).await;
    assert!(said[0].starts_with("unavailable: not allowed to write to exchange `amq.direct`"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_missing_for_one_address_of_many_stops_nobody_else() {
    let Some(bench) = Rabbit::shared().await else { return };
    let vhost = format!("{}-rights", bench.queue);
    bench.broker.ctl(&["add_vhost", &vhost]);
    bench.broker.ctl(&["set_permissions", "-p", &vhost, "guest", ".*", "^amq\\.(fanout|topic)$", ".*"]);
    bench.broker.ctl(&["set_topic_permissions", "-p", &vhost, "guest", "amq.topic", "^public", ".*"]);
    let exchanges = bench.with(json!({ "vhost": vhost, "exchange": "{topic}", "routing_key": "public" }));
    let said = outcomes(&*exchanges, &["amq.direct", "amq.fanout"]).await;
    assert!(said[0].starts_with("retry: not allowed to write to exchange `amq.direct`"), "{said:?}");
    assert!(said[1].contains("leads nowhere"), "allowed, and sent: {said:?}");

    let keys = bench.with(json!({ "vhost": vhost, "exchange": "amq.topic", "routing_key": "{topic}" }));
    let said = outcomes(&*keys, &["secret", "public"]).await;
    assert!(said[0].starts_with("retry: not allowed to write to exchange `amq.topic`"), "{said:?}");
    assert!(said[1].contains("leads nowhere"), "allowed, and sent: {said:?}");
    let key = bench.with(json!({ "vhost": vhost, "exchange": "amq.topic", "routing_key": "secret" }));
    let said = outcomes(&*key, &["t"]).await;
    assert!(said[0].starts_with("unavailable: not allowed to write to exchange `amq.topic`"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encryption_trusts_the_authority_it_was_given_and_no_other() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), posthaste_testkit::free_port());
    let path = |name: &str| folder.path().join(name).display().to_string();
    make_certificate(&path("key.pem"), &path("certificate.pem"));
    let configuration = format!(
        "listeners.ssl.default = 127.0.0.1:{port}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
         ssl_options.cacertfile = {}",
        path("certificate.pem"),
        path("key.pem"),
        path("certificate.pem")
    );
    let Ok(broker) = RabbitMq::start(&configuration).await else { return };
    posthaste_testkit::until_listening(port).await;
    let bench = Rabbit::on(Arc::new(broker)).await;
    let url = format!("amqps://localhost:{port}");
    let trusting = bench.with(json!({ "url": url, "tls": { "ca_file": path("certificate.pem") } }));
    assert_eq!(outcomes(&*trusting, &["t"]).await, ["delivered"]);
    assert_eq!(trusting.describe(), format!("rabbitmq at localhost:{port}, vhost /"));
    let wary = bench.with(json!({ "url": url, "tls": true }));
    let said = outcomes(&*wary, &["t"]).await;
    assert!(said[0].starts_with("unavailable: ") && said[0].contains("certificate"), "{said:?}");
    assert_eq!(bench.received().await.len(), 1);
}

fn make_certificate(key: &str, certificate: &str) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", key, "-out", certificate])
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
}
