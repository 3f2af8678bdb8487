//! The sink suite on moto's SQS, and what only SQS does, partly on a server that answers as told.

#![cfg(feature = "sqs")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex as Locked};
use std::time::Duration;

use async_trait::async_trait;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Credentials;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, QueueAttributeName};
use chrono::DateTime;
use posthaste::{NewEvent, Outcome, Page, Sink};
use posthaste_sinks::sqs::{SqsSettings, SqsSink};
use posthaste_sinks::{Endpoint, Envelope, Form, Problems, Route, Section, Surroundings};
use posthaste_testkit::Gate;
use posthaste_testkit::brokers::moto::Moto;
use posthaste_testkit::sink_suite::{self, Received, SinkBench};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// A queue on a server of its own, behind a gate.
struct Queue {
    _moto: Moto,
    gate: Arc<Gate>,
    client: Client,
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

fn sink(settings: Value, route: Route) -> Arc<SqsSink> {
    let mut surroundings = Surroundings::default();
    surroundings.variables.insert("SECRET".into(), "secret".into());
    let problems = Problems::default();
    let fields = settings.as_object().expect("a table");
    let settings = SqsSettings::validate(&Section::new("sink", fields, &problems, &surroundings));
    assert_eq!(problems.count(), 0, "{:?}", problems.into_vec());
    Arc::new(SqsSink::new(settings.expect("good settings"), route).expect("opens"))
}

/// The settings for a queue behind this port, with some of them different.
fn settings(port: u16, queue_url: &str, different: Value) -> Value {
    let mut settings = json!({ "queue_url": queue_url, "region": "us-east-1", "timeout": "5s",
        "endpoint_url": format!("http://127.0.0.1:{port}"), "access_key_id": "id",
        "secret_access_key": { "env": "SECRET" } });
    let fields = settings.as_object_mut().expect("a table");
    fields.extend(different.as_object().expect("a table").clone());
    settings
}

impl Queue {
    async fn open(name: &str) -> Result<Self, String> {
        let moto = Moto::start().await?;
        let client = client(moto.port()).await;
        let fifo = name.ends_with(".fifo").then(|| (QueueAttributeName::FifoQueue, "true".to_owned()));
        let create = client.create_queue().queue_name(name).set_attributes(fifo.map(|fifo| [fifo].into()));
        let url = create.send().await.expect("create").queue_url().expect("a URL").to_owned();
        let gate = Gate::before(moto.port()).await;
        Ok(Self { _moto: moto, gate, client, url, received: Arc::default() })
    }

    fn settings(&self, different: Value) -> Value {
        settings(self.gate.port(), &self.url, different)
    }

    fn with(&self, different: Value) -> Arc<SqsSink> {
        sink(self.settings(different), Route::new("s"))
    }

    /// Takes what arrives, from now on: moto is slow with many messages in a queue. The task ends with the test.
    fn consuming(self) -> Self {
        let (client, url, received) = (self.client.clone(), self.url.clone(), self.received.clone());
        tokio::spawn(async move {
            while take_all(&client, &url, &received).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        self
    }
}

/// Takes what is there. One at a time, so that the order of arrival is kept.
async fn take_all(
    client: &Client,
    url: &str,
    received: &Mutex<Vec<Received>>,
) -> Result<(), aws_sdk_sqs::Error> {
    let mut received = received.lock().await;
    loop {
        let taken = take(client, url).await?;
        if taken.is_empty() {
            return Ok(());
        }
        received.extend(taken);
    }
}

/// Takes some messages. A group's next ones come only when its earlier ones are deleted.
async fn take(client: &Client, url: &str) -> Result<Vec<Received>, aws_sdk_sqs::Error> {
    let request = client.receive_message().queue_url(url).max_number_of_messages(10);
    let answer = request.message_attribute_names("All").send().await?;
    if !answer.messages().is_empty() {
        delete(client, url, answer.messages()).await?;
    }
    Ok(answer.messages().iter().map(as_received).collect())
}

async fn delete(client: &Client, url: &str, messages: &[Message]) -> Result<(), aws_sdk_sqs::Error> {
    let entry = |(n, message): (usize, &Message)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
        entry.set_receipt_handle(message.receipt_handle.clone()).build().expect("complete")
    };
    let entries = messages.iter().enumerate().map(entry).collect();
    let deleted = client.delete_message_batch().queue_url(url).set_entries(Some(entries)).send().await?;
    assert!(deleted.failed().is_empty(), "{deleted:?}");
    Ok(())
}

async fn client(port: u16) -> Client {
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
        .endpoint_url(format!("http://127.0.0.1:{port}"));
    Client::new(&loader.load().await)
}

fn as_received(message: &Message) -> Received {
    let attributes = message.message_attributes().into_iter().flatten();
    let mut headers: BTreeMap<String, String> = attributes
        .map(|(name, value)| (name.clone(), value.string_value().expect("text").to_owned()))
        .collect();
    assert!(headers.len() <= 10);
    if let Some(more) = headers.remove("posthaste-more") {
        headers.extend(serde_json::from_str::<BTreeMap<String, String>>(&more).expect("JSON"));
    }
    let body = message.body().expect("a body").as_bytes().to_vec();
    let structured = || serde_json::from_slice::<Value>(&body).ok()?["id"].as_str().map(str::to_owned);
    Received {
        id: headers.get("ce-id").cloned().or_else(structured).expect("an id"),
        key: headers.get("ce-partitionkey").cloned(),
        body,
        headers,
    }
}

#[async_trait]
impl SinkBench for Queue {
    const NAME: &'static str = "sqs";
    const ATTRIBUTES: Option<&'static str> = Some("ce-");
    const TEXT_ONLY: bool = true;

    async fn start() -> Result<Self, String> {
        Ok(Self::open("orders.fifo").await?.consuming())
    }

    fn server(&self) -> String {
        "moto, a FIFO queue".to_owned()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.with(json!({}))
    }

    fn structured(&self) -> Arc<dyn Sink> {
        sink(self.settings(json!({})), Route::new("s").envelope(Envelope::new(Form::Structured)))
    }

    async fn received(&self) -> Vec<Received> {
        take_all(&self.client, &self.url, &self.received).await.expect("receive");
        self.received.lock().await.clone()
    }

    async fn take_away(&self) {
        self.gate.shut().await;
    }

    async fn bring_back(&self) {
        self.gate.open().await;
    }

    fn too_large(&self) -> Option<usize> {
        Some(1024 * 1024 + 1)
    }

    /// moto takes any key; the answers of SQS to wrong ones are played below.
    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(self.with(json!({ "queue_url": self.url.replace("orders", "nowhere") })))
    }
}

posthaste_testkit::sink_suite!(Queue);

/// A standard queue: no order, no de-duplication.
struct Standard(Queue);

#[async_trait]
impl SinkBench for Standard {
    const NAME: &'static str = "sqs-standard";
    const ATTRIBUTES: Option<&'static str> = Queue::ATTRIBUTES;
    const TEXT_ONLY: bool = true;
    const ORDERED: bool = false;

    async fn start() -> Result<Self, String> {
        Ok(Self(Queue::open("orders").await?.consuming()))
    }

    fn server(&self) -> String {
        "moto, a standard queue".to_owned()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        sink(self.0.settings(json!({})), Route::new("s").without_order())
    }

    fn structured(&self) -> Arc<dyn Sink> {
        self.0.structured()
    }

    async fn received(&self) -> Vec<Received> {
        self.0.received().await
    }

    async fn take_away(&self) {
        self.0.take_away().await;
    }

    async fn bring_back(&self) {
        self.0.bring_back().await;
    }

    /// The text that is none is refused instead.
    fn too_large(&self) -> Option<usize> {
        None
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        self.0.to_unknown_destination()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standard_queue_gets_everything_too() {
    let Some(bench) = sink_suite::bench::<Standard>().await else { return };
    sink_suite::transport::bytes_headers_and_attributes_arrive_as_enqueued(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_text_is_dead_and_the_others_go_on() {
    let Some(bench) = sink_suite::bench::<Standard>().await else { return };
    sink_suite::refusals::a_refused_event_is_dead_and_the_others_go_on(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_seen_and_what_is_risky_about_it_is_said() {
    let Some(bench) = sink_suite::bench::<Queue>().await else { return };
    let sink = bench.with(json!({}));
    assert_eq!((sink.check().await, sink.describe()), (Ok(()), format!("sqs at {}", bench.url)));
    let changed = bench.client.set_queue_attributes().queue_url(&bench.url);
    changed.attributes(QueueAttributeName::MaximumMessageSize, "2048").send().await.expect("set");
    let warnings = sink.warnings().await;
    assert!(warnings[0].contains("takes messages of 2048 bytes"), "{warnings:?}");
    assert_eq!(bench.with(json!({ "max_batch_bytes": 2048 })).warnings().await, [""; 0]);
    let nowhere = bench.with(json!({ "queue_url": bench.url.replace("orders", "nowhere") }));
    assert!(nowhere.check().await.expect_err("not there").contains("does not exist"));
    let standard = bench.with(json!({ "queue_url": bench.url.replace(".fifo", "") }));
    assert!(standard.warnings().await[0].contains("is a standard queue"));
    let made = bench.with(json!({ "queue_url": bench.url.replace("orders", "{topic}") }));
    assert_eq!((made.check().await, made.describe()), (Ok(()), "sqs in us-east-1".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_travel_in_base64_and_a_repetition_is_recognised() {
    let Ok(bench) = Queue::open("orders.fifo").await else { return };
    let sink = bench.with(json!({ "encoding": "base64" }));
    let event = Arc::new(NewEvent::bytes("t", vec![0, 255]).key("k").stored(1, DateTime::UNIX_EPOCH));
    for _ in 0..2 {
        let mut page = Page::new(vec![event.clone()]);
        sink.deliver(&mut page).await;
        assert_eq!(page.outcome(0), Some(&Outcome::Delivered));
    }
    let received = take(&bench.client, &bench.url).await.expect("receive");
    assert_eq!(received.len(), 1, "the event's id is the dedupe id");
    assert_eq!(
        (received[0].body.as_slice(), received[0].headers["content-transfer-encoding"].as_str()),
        (&b"AP8="[..], "base64")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_queue_finds_too_large_is_dead_and_the_others_go_on() {
    let Ok(bench) = Queue::open("orders.fifo").await else { return };
    let changed = bench.client.set_queue_attributes().queue_url(&bench.url);
    changed.attributes(QueueAttributeName::MaximumMessageSize, "2048").send().await.expect("set");
    let events = [10, 3000, 20].map(|size| {
        let event = NewEvent::bytes("t", vec![b'x'; size]).content_type("text/plain");
        Arc::new(event.stored(1, DateTime::UNIX_EPOCH))
    });
    let mut page = Page::new(events.to_vec());
    bench.with(json!({})).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered", "dead", "delivered"]);
    assert_eq!(take(&bench.client, &bench.url).await.expect("receive").len(), 2);
}

/// An answer: its status and its body.
type Answer = (u16, Value);

/// A status for no answer at all.
const SILENCE: u16 = 0;

/// Speaks for SQS: what it answers to a call is up to the test.
struct Played {
    port: u16,
    calls: Arc<Locked<Vec<Value>>>,
}

impl Played {
    async fn by(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (calls, answer) = (Arc::new(Locked::new(Vec::new())), Arc::new(answer));
        let seen = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move { play(stream, &seen, &*answer).await });
            }
        });
        Self { port, calls }
    }

    /// The groups of the messages of each call.
    fn groups(&self) -> Vec<Vec<String>> {
        let text = |entry: &Value| entry["MessageGroupId"].as_str().expect("a group").to_owned();
        let calls = self.calls.lock().expect("no panic");
        calls.iter().map(|call| entries(call).iter().map(text).collect()).collect()
    }

    /// With a short patience.
    fn impatient(&self, route: Route) -> Arc<SqsSink> {
        sink(settings(self.port, "http://localhost/1/q.fifo", json!({ "timeout": "2s" })), route)
    }

    fn sink(&self, route: Route) -> Arc<SqsSink> {
        sink(settings(self.port, "http://localhost/1/q.fifo", json!({})), route)
    }
}

async fn play(
    stream: TcpStream,
    seen: &Locked<Vec<Value>>,
    answer: &(dyn Fn(&Value) -> Answer + Send + Sync),
) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(number) = lower.strip_prefix("content-length:") {
                length = number.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        let call: Value = serde_json::from_slice(&body).expect("JSON");
        let (status, body) = answer(&call);
        seen.lock().expect("no panic").push(call);
        if status == SILENCE {
            std::future::pending::<()>().await;
        }
        let body = body.to_string();
        let text = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).await.expect("an answer");
    }
}

fn entries(call: &Value) -> &Vec<Value> {
    call["Entries"].as_array().expect("entries")
}

/// Accepts all but those whose body the test names, which fail in this way.
fn accept_but(call: &Value, fails: impl Fn(&str) -> Option<(bool, &'static str)>) -> Answer {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in entries(call) {
        match fails(entry["MessageBody"].as_str().expect("a body")) {
            Some((fault, code)) => {
                failed.push(json!({ "Id": entry["Id"], "SenderFault": fault, "Code": code }));
            }
            None => successful.push(json!({ "Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "x" })),
        }
    }
    (200, json!({ "Successful": successful, "Failed": failed }))
}

fn refuse(status: u16, code: &str) -> Answer {
    (status, json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "no" }))
}

/// A page of numbered texts with these keys.
fn page(keys: &[&str]) -> Page {
    let event = |(n, key): (usize, &&str)| {
        let event = NewEvent::bytes("t", n.to_string()).content_type("text/plain").key(*key);
        Arc::new(event.stored(i64::try_from(n).expect("small"), DateTime::UNIX_EPOCH))
    };
    Page::new(keys.iter().enumerate().map(event).collect())
}

fn words(page: &Page) -> Vec<&'static str> {
    let word = |index| match page.outcome(index) {
        None => "unmarked",
        Some(Outcome::Delivered) => "delivered",
        Some(Outcome::Retry { .. }) => "retry",
        Some(Outcome::Dead { .. }) => "dead",
        Some(_) => "unavailable",
    };
    (0..page.events().len()).map(word).collect()
}

#[tokio::test]
async fn what_is_marked_delivered_is_exactly_what_was_accepted() {
    let fails = |body: &str| match body.parse::<usize>().expect("a number") % 7 {
        2 => Some((true, "InvalidMessageContents")),
        5 => Some((false, "InternalError")),
        _ => None,
    };
    let played = Played::by(move |call| accept_but(call, fails)).await;
    let keys: Vec<String> = (0..95).map(|n| format!("k{n}")).collect();
    let mut page = page(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    played.sink(Route::new("s")).deliver(&mut page).await;
    for (n, word) in words(&page).into_iter().enumerate() {
        assert_eq!(
            word,
            match n % 7 {
                2 => "dead",
                5 => "retry",
                _ => "delivered",
            },
            "{n}"
        );
    }
    let sizes: Vec<usize> = played.groups().iter().map(Vec::len).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>(), sizes.iter().max()), (10, 95, Some(&10)));
}

/// The same for any part of any page, drawn anew each time.
#[tokio::test]
async fn whatever_part_of_a_page_is_refused_exactly_the_accepted_ones_are_delivered() {
    let rounds = if std::env::var("POSTHASTE_FAULTS").as_deref() == Ok("full") { 500 } else { 20 };
    for _ in 0..rounds {
        let refused = fastrand::choose_multiple(0..40_usize, fastrand::usize(..40));
        let accepted: Arc<Locked<Vec<String>>> = Arc::default();
        let taken = accepted.clone();
        let fails = move |body: &str| match body.parse::<usize>().expect("a number") {
            number if !refused.contains(&number) => {
                taken.lock().expect("no panic").push(body.to_owned());
                None
            }
            number if number.is_multiple_of(2) => Some((false, "InternalError")),
            _ => Some((true, "InvalidMessageContents")),
        };
        let played = Played::by(move |call| match call["Entries"].is_array() {
            true => accept_but(call, &fails),
            false => (200, json!({ "Attributes": {} })),
        })
        .await;
        let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
        let mut page = page(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        played.sink(Route::new("s")).deliver(&mut page).await;
        let words = words(&page);
        let delivered = (0..40).filter(|n| words[*n] == "delivered").map(|n| n.to_string());
        let mut accepted = accepted.lock().expect("no panic").clone();
        accepted.sort_by_key(|body| body.parse::<usize>().ok());
        assert_eq!(delivered.collect::<Vec<_>>(), accepted, "{words:?}");
    }
}

#[tokio::test]
async fn no_call_has_two_events_of_a_key_and_nothing_follows_a_failure() {
    let played =
        Played::by(|call| accept_but(call, |body| (body == "3").then_some((false, "InternalError")))).await;
    let mut page = page(&["a", "b", "b", "a", "a", "b", "c", "a"]);
    played.sink(Route::new("s")).deliver(&mut page).await;
    assert_eq!(
        words(&page),
        ["delivered", "delivered", "delivered", "retry", "unmarked", "delivered", "delivered", "unmarked"]
    );
    assert_eq!(
        played.groups(),
        [vec!["a", "b", "c"], vec!["b", "a"], vec!["b"]].map(|call| {
            // Within a call the keys stand in the order of the page's chains.
            let mut call: Vec<String> = call.into_iter().map(str::to_owned).collect();
            call.sort();
            call
        })
    );
}

#[tokio::test]
async fn without_order_a_page_is_sent_in_as_few_calls_as_possible() {
    let played = Played::by(|call| accept_but(call, |_| None)).await;
    let mut page = page(&["a"; 25]);
    played.sink(Route::new("s").without_order()).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered"; 25]);
    assert_eq!(played.groups().len(), 3);
}

#[tokio::test]
async fn a_call_that_is_refused_for_one_message_is_sent_again_one_by_one() {
    let played = Played::by(|call| match entries(call).iter().any(|entry| entry["MessageBody"] == "2") {
        true => refuse(400, "BatchRequestTooLong"),
        false => accept_but(call, |_| None),
    })
    .await;
    let mut page = page(&["a", "b", "c", "d"]);
    played.sink(Route::new("s")).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered", "delivered", "dead", "delivered"]);
}

#[tokio::test]
async fn refused_calls_are_told_apart() {
    let rows = [
        (403, "InvalidClientTokenId", "unavailable"),
        (403, "SignatureDoesNotMatch", "unavailable"),
        (403, "AccessDeniedException", "unavailable"),
        (400, "RequestThrottled", "unavailable"),
        (400, "KmsThrottled", "unavailable"),
        (503, "ServiceUnavailable", "unavailable"),
        (400, "QueueDoesNotExist", "unavailable"),
        (400, "SomethingNew", "retry"),
    ];
    for (status, code, word) in rows {
        let played = Played::by(move |_| refuse(status, code)).await;
        let mut page = page(&["a", "a", "b"]);
        let sink = played.sink(Route::new("s"));
        sink.deliver(&mut page).await;
        assert_eq!(words(&page), [word, "unmarked", word], "{code}");
        let checked = sink.check().await;
        assert_eq!(checked.is_ok(), code == "AccessDeniedException", "{code}: {checked:?}");
    }
}

#[tokio::test]
async fn a_throttled_message_stops_the_page() {
    let played =
        Played::by(|call| accept_but(call, |body| (body == "1").then_some((true, "RequestThrottled")))).await;
    let mut page = page(&["a", "b", "a", "b"]);
    played.sink(Route::new("s")).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered", "unavailable", "unavailable", "unmarked"]);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let silent = settings(port, "http://localhost/1/q.fifo", json!({ "timeout": "1s" }));
    let sink = sink(silent, Route::new("s"));
    let mut page = page(&["a", "a"]);
    sink.deliver(&mut page).await;
    assert_eq!(words(&page), ["unavailable", "unmarked"]);
    assert!(sink.check().await.is_err());
}

/// Whether the call sends one of these bodies; a check sends none.
fn sends(call: &Value, bodies: &[&str]) -> bool {
    let entries = call["Entries"].as_array().into_iter().flatten();
    entries.into_iter().any(|entry| entry["MessageBody"].as_str().is_some_and(|body| bodies.contains(&body)))
}

/// Answers checks, and whatever does not send one of these bodies.
async fn silent_about(bodies: &'static [&'static str]) -> Played {
    Played::by(move |call| match call["Entries"].is_array() {
        false => (200, json!({ "Attributes": {} })),
        true if sends(call, bodies) => (SILENCE, json!({})),
        true => accept_but(call, |_| None),
    })
    .await
}

#[tokio::test]
async fn silence_about_one_event_is_retried_and_the_others_go_on() {
    let played = silent_about(&["2"]).await;
    let mut page = page(&["a", "b", "c", "d", "c"]);
    played.impatient(Route::new("s")).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered", "delivered", "retry", "delivered", "unmarked"]);
}

#[tokio::test]
async fn silence_about_all_events_costs_one_attempt() {
    let played = silent_about(&["0", "1", "2"]).await;
    let sink = played.impatient(Route::new("s"));
    let mut all = page(&["a", "b", "c"]);
    sink.deliver(&mut all).await;
    assert_eq!(words(&all), ["retry", "unavailable", "unavailable"]);
    let mut alone = page(&["a"]);
    sink.deliver(&mut alone).await;
    assert_eq!(words(&alone), ["unavailable"], "nobody is blamed again so soon");
}

/// Two seconds for a call and as many for a check: nothing more is started in the five of the page.
#[tokio::test]
async fn what_the_time_of_the_page_does_not_hold_is_not_started() {
    let played = silent_about(&["1"]).await;
    let mut route = Route::new("s");
    route.page_time = Duration::from_secs(5);
    let mut page = page(&["a", "b", "c", "c"]);
    played.impatient(route).deliver(&mut page).await;
    assert_eq!(words(&page), ["unavailable", "unavailable", "unavailable", "unmarked"]);
    let sent =
        played.calls.lock().expect("no panic").iter().filter(|call| call["Entries"].is_array()).count();
    assert_eq!(sent, 1, "the library does not repeat a call that is silent until the end");
}

#[tokio::test]
async fn what_fails_by_the_servers_fault_alone_is_retried_and_together_waited_for() {
    let broken = || {
        Played::by(|call| match call["Entries"].is_array() {
            true => accept_but(call, |_| Some((false, "InternalError"))),
            false => (200, json!({ "Attributes": {} })),
        })
    };
    let sink = broken().await.sink(Route::new("s"));
    let mut all = page(&["a", "b", "a"]);
    sink.deliver(&mut all).await;
    assert_eq!(words(&all), ["unavailable", "unavailable", "unmarked"]);
    let mut alone = page(&["a"]);
    sink.deliver(&mut alone).await;
    assert_eq!(words(&alone), ["retry"], "the server answers a check");
    let worse = Played::by(|call| match call["Entries"].is_array() {
        true => accept_but(call, |_| Some((false, "InternalError"))),
        false => refuse(500, "InternalError"),
    });
    let mut alone = page(&["a"]);
    worse.await.sink(Route::new("s")).deliver(&mut alone).await;
    assert_eq!(words(&alone), ["unavailable"], "it does not");
}

#[tokio::test]
async fn an_unknown_refusal_of_a_call_hits_only_the_message_that_is_meant() {
    let played = Played::by(|call| match sends(call, &["1"]) {
        true => refuse(400, "SomethingNew"),
        false => accept_but(call, |_| None),
    })
    .await;
    let mut page = page(&["a", "b", "c"]);
    played.sink(Route::new("s")).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered", "retry", "delivered"]);
}

#[tokio::test]
async fn a_queue_that_is_not_for_us_is_retried_alone_if_queues_differ() {
    for (status, code) in [(403, "AccessDenied"), (400, "KMS.DisabledException"), (403, "SomethingNew")] {
        let played = Played::by(move |call| match call["QueueUrl"].as_str() {
            Some("http://localhost/1/lost") => refuse(status, code),
            _ => accept_but(call, |_| None),
        })
        .await;
        let events = ["good", "lost", "good"].map(|topic| {
            Arc::new(NewEvent::bytes(topic, "x").content_type("text/plain").stored(1, DateTime::UNIX_EPOCH))
        });
        let to = |queue: &str| sink(settings(played.port, queue, json!({})), Route::new("s"));
        let mut by_event = Page::new(events.to_vec());
        to("http://localhost/1/{topic}").deliver(&mut by_event).await;
        assert_eq!(words(&by_event), ["delivered", "retry", "delivered"], "{code}");
        let mut fixed = Page::new(events.to_vec());
        to("http://localhost/1/lost").deliver(&mut fixed).await;
        assert_eq!(words(&fixed), ["unavailable"; 3], "{code}");
    }
}

#[tokio::test]
async fn a_queue_that_is_made_from_the_event_is_wrong_for_that_event_alone() {
    let played = Played::by(|call| match call["QueueUrl"].as_str().expect("a URL") {
        "http://localhost/1/lost" => refuse(400, "QueueDoesNotExist"),
        _ => accept_but(call, |_| None),
    })
    .await;
    let events = ["good", "lost", "good"].map(|topic| {
        Arc::new(NewEvent::bytes(topic, "x").content_type("text/plain").stored(1, DateTime::UNIX_EPOCH))
    });
    let mut page = Page::new(events.to_vec());
    let made = settings(played.port, "http://localhost/1/{topic}", json!({}));
    sink(made, Route::new("s")).deliver(&mut page).await;
    assert_eq!(words(&page), ["delivered", "retry", "delivered"]);
    let calls = played.calls.lock().expect("no panic");
    let by_queue: HashMap<&str, usize> =
        calls.iter().map(|call| (call["QueueUrl"].as_str().expect("a URL"), entries(call).len())).collect();
    assert_eq!(by_queue["http://localhost/1/good"], 2, "one call per queue");
}
