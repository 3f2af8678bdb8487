//! The sink suite on Google's Pub/Sub emulator, and what Pub/Sub in particular can say.
#![cfg(feature = "pubsub")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::DateTime;
use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::client::{BasePublisher, SchemaService, Subscriber, SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::error::PublishError;
use google_cloud_pubsub::model::{Encoding, Message, Schema, SchemaSettings, schema};
use posthaste::{NewEvent, Outcome, Page, Sink};
use posthaste_sinks::pubsub::{PubsubSettings, PubsubSink};
use posthaste_sinks::{Endpoint, Envelope, Form, Problems, Route, Section, Surroundings};
use posthaste_testkit::Gate;
use posthaste_testkit::brokers::pubsub::PubsubServer;
use posthaste_testkit::sink_suite::{Received, SinkBench};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const PROJECT: &str = "posthaste";

struct Pubsub {
    server: Arc<PubsubServer>,
    gate: Arc<Gate>,
    topic: String,
    inbox: Inbox,
}

/// Everything that arrives, acknowledged and kept. A message that the server delivers again is kept once.
struct Inbox {
    messages: Arc<Mutex<Vec<Message>>>,
    receiving: JoinHandle<()>,
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    async fn open(address: &str, subscription: &str) -> Self {
        let anonymous = anonymous::Builder::new().build();
        let client = Subscriber::builder().with_endpoint(address).with_credentials(anonymous).build().await;
        let mut stream = client.expect("a subscriber").subscribe(subscription).build();
        let messages: Arc<Mutex<Vec<Message>>> = Arc::default();
        let kept = messages.clone();
        let receiving = tokio::spawn(async move {
            let mut seen = HashSet::new();
            while let Some(Ok((message, handler))) = stream.next().await {
                if seen.insert(message.message_id.clone()) {
                    lock(&kept).push(message);
                }
                handler.ack();
            }
        });
        Self { messages, receiving }
    }

    /// What the fake tells of a topic.
    fn poll(port: u16, topic: String) -> Self {
        let messages: Arc<Mutex<Vec<Message>>> = Arc::default();
        let kept = messages.clone();
        let receiving = tokio::spawn(async move {
            loop {
                let path = format!("/messages?topic={topic}&from={}", lock(&kept).len());
                let answer = tokio::task::spawn_blocking(move || get(port, &path)).await.expect("an answer");
                let new: Vec<Value> = serde_json::from_str(&answer).expect("a list");
                lock(&kept).extend(new.iter().map(told));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { messages, receiving }
    }
}

impl Pubsub {
    /// On the server itself, so that it can be looked at while the gate is shut.
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port())
    }

    fn with(&self, route: Route, more: Value) -> PubsubSink {
        let endpoint = format!("http://127.0.0.1:{}", self.gate.port());
        let mut table =
            json!({ "project": PROJECT, "topic": self.topic, "endpoint": endpoint, "timeout": "5s" });
        table.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        open(&table, route)
    }

    fn plain(&self) -> PubsubSink {
        self.with(Route::new("s"), json!({}))
    }

    /// One more topic of this name, with a subscription that keeps order.
    async fn make_topic(server: &PubsubServer, topic: &str) -> Inbox {
        let address = format!("http://127.0.0.1:{}", server.port());
        let name = format!("projects/{PROJECT}/topics/{topic}");
        let subscription = format!("projects/{PROJECT}/subscriptions/{topic}");
        if let Some(port) = server.fake_port() {
            get(port, &format!("/topics?name={name}"));
            return Inbox::poll(port, name);
        }
        create(&address, &name, &subscription, true).await;
        Inbox::open(&address, &subscription).await
    }

    fn texts(&self) -> Vec<String> {
        let bodies =
            lock(&self.inbox.messages).iter().map(|message| message.data.to_vec()).collect::<Vec<_>>();
        bodies.into_iter().map(|body| String::from_utf8(body).expect("text")).collect()
    }

    async fn until_received(&self, count: usize) -> Vec<String> {
        for _ in 0..1200 {
            if self.texts().len() >= count {
                return self.texts();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("only {:?} within a minute", self.texts());
    }
}

async fn create(address: &str, topic: &str, subscription: &str, ordered: bool) {
    let token = || anonymous::Builder::new().build();
    let topics = TopicAdmin::builder()
        .with_endpoint(address)
        .with_credentials(token())
        .build()
        .await
        .expect("a client");
    let subscriptions =
        SubscriptionAdmin::builder().with_endpoint(address).with_credentials(token()).build().await;
    // It may be there already, with another subscription.
    drop(topics.create_topic().set_name(topic).send().await);
    let creating =
        subscriptions.expect("a client").create_subscription().set_name(subscription).set_topic(topic);
    creating
        .set_enable_message_ordering(ordered)
        .set_ack_deadline_seconds(60)
        .send()
        .await
        .expect("a subscription");
}

/// The body of an answer of the fake.
fn get(port: u16, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connect");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("ask");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains(" 200 "), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// A message as the fake tells of it.
fn told(message: &Value) -> Message {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let attributes = message["attributes"].as_object().into_iter().flatten();
    let attributes = attributes.map(|(name, value)| (name.clone(), value.as_str().expect("text").to_owned()));
    Message::new()
        .set_message_id(text("id"))
        .set_ordering_key(text("key"))
        .set_data(BASE64_STANDARD.decode(text("data")).expect("base64"))
        .set_attributes(attributes)
}

fn open(table: &Value, route: Route) -> PubsubSink {
    let (problems, surroundings) = (Problems::default(), Surroundings::default());
    let section = Section::new("sink", table.as_object().expect("a table"), &problems, &surroundings);
    let settings = PubsubSettings::validate(&section);
    section.finish();
    let settings = settings.unwrap_or_else(|| panic!("{:?}", problems.into_vec()));
    PubsubSink::new(settings, route).expect("a sink")
}

#[async_trait]
impl SinkBench for Pubsub {
    const NAME: &'static str = "pubsub";
    const ATTRIBUTES: Option<&'static str> = Some("ce-");

    async fn start() -> Result<Self, String> {
        let server = PubsubServer::shared().await?;
        let topic = format!("orders-{}", uuid::Uuid::now_v7().simple());
        let inbox = Self::make_topic(&server, &topic).await;
        Ok(Self { gate: Gate::before(server.port()).await, server, topic, inbox })
    }

    fn server(&self) -> String {
        self.server.name()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.plain())
    }

    fn structured(&self) -> Arc<dyn Sink> {
        Arc::new(self.with(Route::new("s").envelope(Envelope::new(Form::Structured)), json!({})))
    }

    async fn received(&self) -> Vec<Received> {
        let messages = lock(&self.inbox.messages).clone();
        messages.into_iter().map(received).collect()
    }

    /// Killed, the emulator would forget everything: the way to it is taken away.
    async fn take_away(&self) {
        self.gate.shut().await;
    }

    async fn bring_back(&self) {
        self.gate.open().await;
    }

    fn too_large(&self) -> Option<usize> {
        Some(10_000_000)
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(Arc::new(self.with(Route::new("s"), json!({ "topic": "no-such-topic" }))))
    }
}

fn received(message: Message) -> Received {
    let id = message.attributes.get("event_id").cloned().expect("an event id");
    let key = Some(message.ordering_key).filter(|key| !key.is_empty());
    Received { id, key, body: message.data.to_vec(), headers: message.attributes.into_iter().collect() }
}

posthaste_testkit::sink_suite!(Pubsub);

/// Events with these bodies; the key is what stands before the first `-`.
fn page(bodies: &[&str]) -> Page {
    let event = |(seq, body): (usize, &&str)| {
        let key = body.split('-').next().unwrap_or_default();
        let new = NewEvent::bytes("orders", body.as_bytes().to_vec()).key(key);
        Arc::new(new.stored(i64::try_from(seq).expect("small"), DateTime::UNIX_EPOCH))
    };
    Page::new(bodies.iter().enumerate().map(event).collect())
}

fn again(page: &Page) -> Page {
    page.select(&(0..page.events().len()).collect::<Vec<_>>())
}

/// What became of each event, in one word.
fn words(page: &Page) -> Vec<&'static str> {
    let word = |index| match page.outcome(index) {
        Some(Outcome::Delivered) => "delivered",
        Some(Outcome::Retry { .. }) => "retry",
        Some(Outcome::Dead { .. }) => "dead",
        Some(Outcome::Unavailable { .. }) => "unavailable",
        _ => "unmarked",
    };
    (0..page.events().len()).map(word).collect()
}

fn reason(page: &Page, index: usize) -> String {
    match page.outcome(index) {
        Some(Outcome::Dead { reason } | Outcome::Unavailable { reason } | Outcome::Retry { reason, .. }) => {
            reason.clone()
        }
        other => panic!("{other:?} has no reason"),
    }
}

async fn bench() -> Option<Pubsub> {
    posthaste_testkit::sink_suite::bench::<Pubsub>().await
}

/// What the sink relies on when it sends a page at once: a message of a key that fails is followed by nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_sends_nothing_of_a_key_after_a_failure_until_it_is_told_to() {
    let Some(bench) = bench().await else { return };
    if bench.server.fake_port().is_some() {
        return eprintln!("skipped: a refused message (pstest refuses none)");
    }
    let anonymous = anonymous::Builder::new().build();
    let base = BasePublisher::builder().with_endpoint(bench.address()).with_credentials(anonymous).build();
    let name = format!("projects/{PROJECT}/topics/{}", bench.topic);
    let publisher = base.await.expect("a client").publisher(name).set_message_count_threshold(1).build();
    let message = |key: &str, body: &str| Message::new().set_data(body.to_owned()).set_ordering_key(key);
    let mut sent = vec![publisher.publish(message("k", "k-1"))];
    // Neither body nor attributes: the server refuses it.
    sent.push(publisher.publish(message("k", "")));
    sent.extend((3..50).map(|n| publisher.publish(message("k", &format!("k-{n}")))));
    let other = publisher.publish(message("other", "other-1"));
    let mut answers = Vec::new();
    for answer in sent {
        answers.push(answer.await);
    }
    assert!(answers[0].is_ok(), "{:?}", answers[0]);
    assert!(matches!(answers[1], Err(PublishError::Rpc(_))), "{:?}", answers[1]);
    assert!(
        answers[2..].iter().all(|answer| matches!(answer, Err(PublishError::OrderingKeyPaused))),
        "{answers:?}"
    );
    other.await.expect("other keys go on");
    let paused = publisher.publish(message("k", "k-50")).await;
    assert!(matches!(paused, Err(PublishError::OrderingKeyPaused)), "{paused:?}");
    publisher.resume_publish("k");
    publisher.publish(message("k", "k-51")).await.expect("it goes on");
    let mut arrived = bench.until_received(3).await;
    arrived.sort();
    assert_eq!(arrived, ["k-1", "k-51", "other-1"]);
}

/// The key that failed is told to go on before the next attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_failed_goes_on_with_the_next_attempt() {
    let Some(bench) = bench().await else { return };
    let sink = bench.plain();
    let mut first = page(&["a-0"]);
    sink.deliver(&mut first).await;
    assert_eq!(words(&first), ["delivered"], "{:?}", first.outcome(0));
    bench.gate.shut().await;
    let mut lost = page(&["a-1", "a-2", "b-1"]);
    sink.deliver(&mut lost).await;
    assert_eq!(words(&lost), ["unavailable", "unmarked", "unavailable"]);
    bench.gate.open().await;
    let mut found = again(&lost);
    for _ in 0..50 {
        found = again(&lost);
        sink.deliver(&mut found).await;
        if words(&found) == ["delivered"; 3] {
            break;
        }
    }
    assert_eq!(words(&found), ["delivered"; 3], "{:?}", found.outcome(0));
    let arrived = bench.until_received(4).await;
    let of_a: Vec<&String> = arrived.iter().filter(|body| body.starts_with("a-")).collect();
    assert!(of_a == ["a-0", "a-1", "a-2"], "{arrived:?}");
}

/// A refusal names no message; so those that shared the request are sent alone, and only the one that is meant is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_the_server_refuses_is_found_among_those_it_travelled_with() {
    let Some(bench) = bench().await else { return };
    if bench.server.fake_port().is_some() {
        return eprintln!("skipped: a refused message (pstest knows no schemas)");
    }
    let (topic, inbox) = make_topic_with_schema(&bench).await;
    let event = |(seq, (key, body)): (usize, (&str, &str))| {
        let new = NewEvent::bytes("orders", body.as_bytes().to_vec());
        let new = if key.is_empty() { new } else { new.key(key) };
        Arc::new(new.stored(i64::try_from(seq).expect("small"), DateTime::UNIX_EPOCH))
    };
    let good = "{\"n\": 1}";
    let bodies = [
        ("a", good),
        ("a", good),
        ("a", "bad"),
        ("a", good),
        ("b", good),
        ("", good),
        ("", "bad"),
        ("", good),
    ];
    let events: Vec<_> = bodies.into_iter().enumerate().map(event).collect();
    let (sink, mut in_order) =
        (bench.with(Route::new("s"), json!({ "topic": topic })), Page::new(events.clone()));
    sink.deliver(&mut in_order).await;
    let expected =
        ["delivered", "delivered", "dead", "unmarked", "delivered", "delivered", "dead", "delivered"];
    assert_eq!(words(&in_order), expected, "{:?}", in_order.outcome(2));
    assert!(reason(&in_order, 2).contains("INVALID_ARGUMENT"), "{}", reason(&in_order, 2));
    let mut without = Page::new(events);
    bench.with(Route::new("s").without_order(), json!({ "topic": topic })).deliver(&mut without).await;
    let expected =
        ["delivered", "delivered", "dead", "delivered", "delivered", "delivered", "dead", "delivered"];
    assert_eq!(words(&without), expected);
    while lock(&inbox.messages).len() < 11 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A refusal pauses the key; the next page of that key is sent all the same.
    let mut next = Page::new(vec![event((9, ("a", good)))]);
    sink.deliver(&mut next).await;
    assert_eq!(words(&next), ["delivered"]);
}

/// Bodies must be `{"n": 1}`, or the server refuses them.
async fn make_topic_with_schema(bench: &Pubsub) -> (String, Inbox) {
    let (address, topic) = (bench.address(), format!("{}-schema", bench.topic));
    let token = || anonymous::Builder::new().build();
    let schemas = SchemaService::builder().with_endpoint(&address).with_credentials(token()).build().await;
    let definition = r#"{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}"#;
    let schema = Schema::new().set_type(schema::Type::Avro).set_definition(definition);
    let creating = schemas.expect("a client").create_schema().set_parent(format!("projects/{PROJECT}"));
    let schema = creating.set_schema_id(&topic).set_schema(schema).send().await.expect("a schema");
    let topics = TopicAdmin::builder().with_endpoint(&address).with_credentials(token()).build().await;
    let settings = SchemaSettings::new().set_schema(schema.name).set_encoding(Encoding::Json);
    let creating =
        topics.expect("a client").create_topic().set_name(format!("projects/{PROJECT}/topics/{topic}"));
    creating.set_schema_settings(settings).send().await.expect("a topic");
    let inbox = Pubsub::make_topic(&bench.server, &topic).await;
    (topic, inbox)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_away() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let table = json!({ "project": PROJECT, "topic": "orders", "endpoint": endpoint, "timeout": "500ms" });
    let (sink, mut page) = (open(&table, Route::new("s")), page(&["a-1", "a-2", "b-1"]));
    sink.deliver(&mut page).await;
    assert_eq!(words(&page), ["unavailable", "unmarked", "unavailable"]);
    sink.check().await.expect_err("no answer");
}

/// All that was sent by a client.
type Heard = Arc<Mutex<Vec<u8>>>;

/// A way to the server on which what carries the word is lost, and the rest of its stream of HTTP/2: that request gets no
/// answer, the others of the connection do. Everything is heard, lost or not.
async fn swallowing(port: u16, word: &'static [u8], heard: Heard) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
            let ((from_client, mut to_client), (mut from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(pass_frames(from_client, to_server, word, heard.clone()));
        }
    });
    address.port()
}

async fn pass_frames(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    word: &[u8],
    heard: Heard,
) -> std::io::Result<()> {
    let mut start = [0; 24];
    from.read_exact(&mut start).await?;
    to.write_all(&start).await?;
    if !start.starts_with(b"PRI * HTTP/2.0") {
        return tokio::io::copy(&mut from, &mut to).await.map(drop);
    }
    let mut lost: HashSet<[u8; 4]> = HashSet::new();
    loop {
        let mut frame = vec![0; 9];
        from.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        frame.resize(9 + length as usize, 0);
        from.read_exact(&mut frame[9..]).await?;
        lock(&heard).extend(&frame);
        let stream = [frame[5], frame[6], frame[7], frame[8]];
        if times(&frame, word) > 0 {
            lost.insert(stream);
        }
        if !lost.contains(&stream) {
            to.write_all(&frame).await?;
        }
    }
}

fn times(bytes: &[u8], word: &[u8]) -> usize {
    bytes.windows(word.len()).filter(|part| *part == word).count()
}

impl Pubsub {
    /// Never answered about a body with these words.
    async fn swallowing(&self, route: Route) -> Option<PubsubSink> {
        self.swallowing_heard(route, Heard::default()).await
    }

    async fn swallowing_heard(&self, route: Route, heard: Heard) -> Option<PubsubSink> {
        if self.server.fake_port().is_some() {
            eprintln!("skipped: silence (pstest speaks no HTTP, so a check fails)");
            return None;
        }
        let port = swallowing(self.server.port(), b"swallow me", heard).await;
        let endpoint = format!("http://127.0.0.1:{port}");
        Some(self.with(route, json!({ "endpoint": endpoint, "timeout": "5s" })))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_about_one_event_is_retried_and_the_others_go_on() {
    let Some(bench) = bench().await else { return };
    let Some(sink) = bench.swallowing(Route::new("s")).await else { return };
    sink.check().await.expect("the server is there");
    let bodies = ["a-1", "b-swallow me", "c-1", "b-2", "a-2"];
    let mut in_order = page(&bodies);
    sink.deliver(&mut in_order).await;
    assert_eq!(words(&in_order), ["delivered", "retry", "delivered", "unmarked", "delivered"]);
    assert!(reason(&in_order, 1).contains("although the receiver is there"), "{}", reason(&in_order, 1));
    // Without keys they share a request.
    let sink = bench.swallowing(Route::new("s").without_order()).await.expect("as before");
    let mut without = page(&bodies);
    sink.deliver(&mut without).await;
    assert_eq!(words(&without), ["delivered", "retry", "delivered", "delivered", "delivered"]);
    let mut arrived = bench.until_received(7).await;
    arrived.sort();
    assert_eq!(arrived, ["a-1", "a-1", "a-2", "a-2", "b-2", "c-1", "c-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_about_all_events_costs_one_attempt() {
    let Some(bench) = bench().await else { return };
    let Some(sink) = bench.swallowing(Route::new("s")).await else { return };
    let mut all = page(&["a-swallow me", "b-swallow me", "c-swallow me"]);
    sink.deliver(&mut all).await;
    assert_eq!(words(&all), ["retry", "unavailable", "unavailable"]);
    let mut alone = page(&["a-swallow me"]);
    sink.deliver(&mut alone).await;
    assert_eq!(words(&alone), ["unavailable"], "nobody is blamed again so soon");
}

/// Five seconds for a request and as many for a check: nothing more is started in the twelve of the page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_time_of_the_page_does_not_hold_is_not_started() {
    let Some(bench) = bench().await else { return };
    let mut route = Route::new("s").without_order();
    route.page_time = Duration::from_secs(12);
    let heard = Heard::default();
    let Some(sink) = bench.swallowing_heard(route, heard.clone()).await else { return };
    let bodies = ["a-before", "b-swallow me", "c-after"];
    let mut late = page(&bodies);
    sink.deliver(&mut late).await;
    let (words, mut delivered) = (words(&late), Vec::new());
    assert_eq!(words[1], "unavailable");
    for (index, body) in bodies.into_iter().enumerate() {
        assert_eq!(times(&lock(&heard), body.as_bytes()), 1, "{body} was sent once and not again");
        match words[index] {
            // Usually they share the request that is swallowed; on a busy machine one has gone by itself.
            "delivered" => delivered.push(body),
            _ => assert!(reason(&late, index).contains("the time of this page is over"), "{late:?}"),
        }
    }
    let mut arrived = bench.until_received(delivered.len()).await;
    arrived.sort();
    assert_eq!(arrived, delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_opens_nothing_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key.json");
    let key = json!({ "type": "service_account", "client_email": "a@b.iam.gserviceaccount.com", "private_key_id": "1",
        "private_key": "t0ps3cret", "project_id": "shop", "token_uri": "https://127.0.0.1:1/token" });
    std::fs::write(&file, key.to_string()).expect("a file");
    let table = json!({ "project": PROJECT, "topic": "orders", "endpoint": "https://127.0.0.1:1",
        "credentials_file": file, "timeout": "500ms" });
    let (sink, mut page) = (open(&table, Route::new("s")), page(&["a-1"]));
    sink.deliver(&mut page).await;
    assert_eq!(words(&page), ["unavailable"]);
    let check = sink.check().await.expect_err("no way in");
    assert!(!reason(&page, 0).contains("t0ps3cret") && !check.contains("t0ps3cret"), "{check}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_is_waited_for_if_it_is_the_only_one_and_retried_otherwise() {
    let Some(bench) = bench().await else { return };
    let mut missing = page(&["a-1"]);
    bench.with(Route::new("s"), json!({ "topic": "no-such-topic" })).deliver(&mut missing).await;
    assert_eq!(words(&missing), ["unavailable"]);
    assert!(
        reason(&missing, 0).contains("create the topic projects/posthaste/topics/no-such-topic"),
        "{}",
        reason(&missing, 0)
    );
    let by_event = bench.with(Route::new("s"), json!({ "topic": "{header:to}" }));
    let to = |seq, key: &str, topic: &str| {
        let event = NewEvent::bytes("orders", format!("{key}-{seq}")).key(key);
        let event = if topic.is_empty() { event } else { event.header("to", topic) };
        Arc::new(event.stored(seq, DateTime::UNIX_EPOCH))
    };
    let mut mixed = Page::new(vec![
        to(1, "a", "no-such-topic"),
        to(2, "a", &bench.topic),
        to(3, "b", &bench.topic),
        to(4, "c", "!"),
        to(5, "d", ""),
        to(6, "d", &bench.topic),
    ]);
    by_event.deliver(&mut mixed).await;
    assert_eq!(words(&mixed), ["retry", "unmarked", "delivered", "dead", "dead", "unmarked"]);
    assert!(reason(&mixed, 3).contains("cannot be the id of a topic"), "{}", reason(&mixed, 3));
    assert_eq!(reason(&mixed, 4), "the address needs the header to, and the event has none");
    assert_eq!(bench.until_received(1).await, ["b-3"]);
}

/// Events of one key that go to several topics: each waits for the one before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_keeps_its_order_over_several_topics() {
    let Some(bench) = bench().await else { return };
    let second = format!("{}-second", bench.topic);
    let inbox = Pubsub::make_topic(&bench.server, &second).await;
    let events = (0..20).map(|seq| {
        let topic = if seq % 3 == 0 { second.as_str() } else { bench.topic.as_str() };
        let event = NewEvent::bytes("orders", format!("a-{seq}")).key("a").header("to", topic);
        Arc::new(event.stored(seq, DateTime::UNIX_EPOCH))
    });
    let mut page = Page::new(events.collect());
    bench.with(Route::new("s"), json!({ "topic": "{header:to}" })).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered"; 20]);
    assert_eq!(bench.until_received(13).await.len(), 13);
    while lock(&inbox.messages).len() < 7 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut all: Vec<Message> =
        lock(&inbox.messages).iter().chain(lock(&bench.inbox.messages).iter()).cloned().collect();
    all.sort_by_key(|message| String::from_utf8_lossy(&message.data)[2..].parse::<u32>().expect("a number"));
    let times: Vec<_> =
        all.iter().map(|message| message.publish_time.map(|at| (at.seconds(), at.nanos()))).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_order_there_is_no_ordering_key() {
    let Some(bench) = bench().await else { return };
    let mut page = page(&["a-1", "a-2"]);
    bench.with(Route::new("s").without_order(), json!({})).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered"; 2]);
    bench.until_received(2).await;
    let messages = lock(&bench.inbox.messages).clone();
    assert!(messages.iter().all(|message| message.ordering_key.is_empty()));
    assert!(messages.iter().all(|message| message.attributes["ce-partitionkey"] == "a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_health_check_sees_the_topic_and_the_warnings_what_is_risky() {
    let Some(bench) = bench().await else { return };
    if bench.server.fake_port().is_some() {
        return eprintln!("skipped: the health check (pstest speaks no HTTP)");
    }
    let sink = bench.plain();
    sink.check().await.expect("all is well");
    assert_eq!(sink.warnings().await, Vec::<String>::new());
    let missing = bench.with(Route::new("s"), json!({ "topic": "no-such-topic" }));
    let said = missing.check().await.expect_err("no topic");
    assert!(
        said.starts_with("pubsub projects/posthaste/topics/no-such-topic at http://127.0.0.1:"),
        "{said}"
    );
    assert!(said.ends_with("create the topic projects/posthaste/topics/no-such-topic"), "{said}");
    bench.with(Route::new("s"), json!({ "topic": "{topic}" })).check().await.expect("the server is there");
    let (name, subscription) = (
        format!("projects/{PROJECT}/topics/{}", bench.topic),
        format!("projects/{PROJECT}/subscriptions/{}-loose", bench.topic),
    );
    create(&bench.address(), &name, &subscription, false).await;
    assert!(sink.warnings().await.concat().contains("-loose does not keep the order of keys"));
    let lonely = format!("{}-lonely", bench.topic);
    let anonymous = anonymous::Builder::new().build();
    let topics = TopicAdmin::builder()
        .with_endpoint(bench.address())
        .with_credentials(anonymous)
        .build()
        .await
        .expect("a client");
    topics
        .create_topic()
        .set_name(format!("projects/{PROJECT}/topics/{lonely}"))
        .send()
        .await
        .expect("a topic");
    let warnings = bench.with(Route::new("s"), json!({ "topic": lonely })).warnings().await;
    assert!(warnings.concat().contains("has no subscription and keeps nothing"), "{warnings:?}");
    bench.gate.shut().await;
    sink.check().await.expect_err("nobody there");
    assert!(sink.warnings().await.concat().contains("could not look at"));
}
