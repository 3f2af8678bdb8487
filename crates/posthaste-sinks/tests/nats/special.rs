//! What only NATS does: subjects, streams, duplicates, connections that live once.

use std::process::Command;

use chrono::DateTime;
use posthaste::{Event, NewEvent};
use posthaste_sinks::{Endpoint, Tls};
use posthaste_testkit::Gate;
use posthaste_testkit::brokers::certificate::Certificate;
use posthaste_testkit::sink_suite::bench;

use super::*;

fn event(topic: &str, key: &str, text: &str) -> Arc<Event> {
    let event = NewEvent::bytes(topic, text).key(key).content_type("text/plain");
    Arc::new(event.stored(1, DateTime::UNIX_EPOCH))
}

async fn deliver(sink: &NatsSink, events: &[Arc<Event>]) -> Vec<Option<Outcome>> {
    let mut page = Page::new(events.to_vec());
    sink.deliver(&mut page).await;
    (0..events.len()).map(|index| page.outcome(index).cloned()).collect()
}

async fn outcome(sink: &NatsSink, event: Arc<Event>) -> Outcome {
    deliver(sink, &[event]).await.remove(0).expect("a mark")
}

async fn texts(bench: &Nats) -> Vec<String> {
    let text = |message: Received| String::from_utf8(message.body).expect("text");
    bench.received().await.into_iter().map(text).collect()
}

/// The mark, and words that its reason has to contain.
#[track_caller]
fn assert_outcome(outcome: &Outcome, mark: &str, words: &str) {
    let (found, reason) = match outcome {
        Outcome::Delivered => ("delivered", ""),
        Outcome::Retry { reason, .. } => ("retry", reason.as_str()),
        Outcome::Dead { reason } => ("dead", reason.as_str()),
        Outcome::Unavailable { reason } => ("unavailable", reason.as_str()),
        _ => ("unknown", ""),
    };
    assert!(found == mark && reason.contains(words), "expected {mark} with `{words}`, got {outcome:?}");
}

#[tokio::test]
async fn a_duplicate_at_the_first_attempt_is_an_alarm_and_a_later_one_is_not() {
    let Some(bench) = bench::<Nats>().await else { return };
    let (sink, event) = (bench.to("{topic}"), event("orders", "a", "x"));
    assert_eq!(outcome(&sink, event.clone()).await, Outcome::Delivered);
    assert_eq!(sink.unexpected_duplicates(), 0);
    let mut second = Page::for_attempts([(event.clone(), 2, 0)]);
    sink.deliver(&mut second).await;
    assert_eq!((second.outcome(0), sink.unexpected_duplicates()), (Some(&Outcome::Delivered), 0));
    assert_eq!(outcome(&sink, event).await, Outcome::Delivered);
    assert_eq!(sink.unexpected_duplicates(), 1);
    assert_eq!(bench.received().await.len(), 1, "stored once");
}

/// Why each subscription needs a stream of its own.
#[tokio::test]
async fn two_subscriptions_into_one_stream_lose_the_second_copy_and_raise_the_alarm() {
    let Some(bench) = bench::<Nats>().await else { return };
    let [first, second] = ["orders", "shop.orders"].map(|subject| bench.to(subject));
    let event = event("orders", "a", "x");
    assert_eq!(outcome(&first, event.clone()).await, Outcome::Delivered);
    assert_eq!(outcome(&second, event).await, Outcome::Delivered);
    assert_eq!(bench.received().await.len(), 1);
    assert_eq!((first.unexpected_duplicates(), second.unexpected_duplicates()), (0, 1));
}

#[tokio::test]
async fn more_events_than_the_client_bears_do_not_hang_it() {
    let Some(bench) = bench::<Nats>().await else { return };
    let mut settings = bench.settings("{topic}");
    (settings.in_flight, settings.timeout) = (4096, Duration::from_secs(60));
    let mut route = Route::new("s").without_order();
    route.page_time = Duration::from_secs(600);
    let sink = bench.open(settings, route);
    let events: Vec<_> = (0..12_000).map(|n| event("orders", "a", &n.to_string())).collect();
    let outcomes = deliver(&sink, &events).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Some(Outcome::Delivered)));
    assert_eq!(bench.received().await.len(), 12_000);
}

#[tokio::test]
async fn several_pages_at_once_share_the_bound() {
    let Some(bench) = bench::<Nats>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.in_flight = 8;
    let sink = bench.open(settings, Route::new("s").without_order());
    let pages = (0..20).map(|page| {
        let sink = sink.clone();
        async move {
            let events: Vec<_> = (0..50).map(|n| event("orders", "a", &format!("{page}-{n}"))).collect();
            deliver(&sink, &events).await
        }
    });
    let outcomes = futures::future::join_all(pages).await.concat();
    assert!(outcomes.iter().all(|outcome| *outcome == Some(Outcome::Delivered)), "{outcomes:?}");
}

/// The connection breaks again and again in the middle of a page of one key. What the stream has is always a beginning
/// of what was sent, without a gap and without a repetition: nothing was sent later behind our back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_takes_its_unsent_events_with_it() {
    let Some(bench) = bench::<Nats>().await else { return };
    let gate = Gate::before(bench.server.port()).await;
    let mut settings = bench.settings("{topic}");
    settings.urls = vec![format!("nats://127.0.0.1:{}", gate.port())];
    let sink = bench.open(settings, Route::new("s"));
    let events: Vec<_> = (0..2000).map(|n| event("orders", "one", &n.to_string())).collect();
    let (mut delivered, mut breaks) = (0, 0);
    while delivered < events.len() {
        let before = bench.received().await.len();
        let running = tokio::spawn({
            let (sink, rest) = (sink.clone(), events[delivered..].to_vec());
            async move { deliver(&sink, &rest).await }
        });
        if breaks < 5 {
            while bench.received().await.len() < before + 100 {
                tokio::task::yield_now().await;
            }
            gate.shut().await;
            breaks += 1;
        }
        let outcomes = running.await.expect("no panic");
        gate.open().await;
        delivered += outcomes.iter().take_while(|outcome| **outcome == Some(Outcome::Delivered)).count();
        sink.check().await.expect("connected again");
        let stored = texts(&bench).await;
        let expected: Vec<String> = (0..stored.len()).map(|n| n.to_string()).collect();
        assert_eq!(stored, expected);
        assert!(stored.len() == delivered || stored.len() == delivered + 1, "one at most is unsure");
    }
    assert_eq!(breaks, 5);
    assert_eq!(sink.unexpected_duplicates(), 0, "our own repetitions are no alarm");
}

/// The server hangs with an event of ours in its socket, and takes it when it wakes up: the event is repeated, and its
/// follower still comes behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_a_hanging_server_takes_late_is_not_overtaken() {
    let Some(bench) = bench::<Nats>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.timeout = Duration::from_millis(500);
    let sink = bench.open(settings, Route::new("s"));
    sink.check().await.expect("connected");
    let events: Vec<_> = (1..=3).map(|n| event("orders", "one", &n.to_string())).collect();
    signal(&bench, "-STOP");
    let outcomes = deliver(&sink, &events).await;
    assert_outcome(outcomes[0].as_ref().expect("a mark"), "unavailable", "timed out");
    assert_eq!(outcomes[1..], [None, None]);
    assert!(sink.check().await.is_err(), "the health check ends too");
    signal(&bench, "-CONT");
    while sink.check().await.is_err() {}
    assert!(deliver(&sink, &events).await.iter().all(|outcome| *outcome == Some(Outcome::Delivered)));
    assert_eq!(texts(&bench).await, ["1", "2", "3"]);
    assert_eq!(sink.unexpected_duplicates(), 0);
}

fn signal(bench: &Nats, signal: &str) {
    let id = bench.server.id().expect("it runs").to_string();
    assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    let stopped = || {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("its threads");
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    };
    while signal == "-STOP" && !stopped() {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_subject_without_a_stream_stops_all_only_if_all_go_there() {
    let Some(bench) = bench::<Nats>().await else { return };
    let literal = bench.to("nowhere");
    assert_outcome(
        &outcome(&literal, event("orders", "a", "x")).await,
        "unavailable",
        "no stream takes the subject nowhere",
    );
    let error = literal.check().await.expect_err("no stream");
    assert!(error.contains("subject nowhere"), "{error}");
    let sink = bench.to("{topic}");
    let outcomes =
        deliver(&sink, &[event("nowhere", "a", "1"), event("orders", "a", "2"), event("orders", "b", "3")])
            .await;
    assert_outcome(outcomes[0].as_ref().expect("a mark"), "retry", "no stream takes the subject nowhere");
    assert_eq!(outcomes[1..], [None, Some(Outcome::Delivered)]);
    assert_eq!(texts(&bench).await, ["3"]);
}

#[tokio::test]
async fn a_subject_that_is_none_is_dead() {
    let Some(bench) = bench::<Nats>().await else { return };
    let sink = bench.to("shop.{key}");
    for (key, words) in [("a b", "white space"), ("*", "wildcard"), ("a..b", "dots")] {
        assert_outcome(&outcome(&sink, event("orders", key, "x")).await, "dead", words);
    }
    let unkeyed = NewEvent::bytes("orders", "x").stored(1, DateTime::UNIX_EPOCH);
    assert_outcome(&outcome(&sink, Arc::new(unkeyed)).await, "dead", "the event has none");
    assert_eq!(outcome(&sink, event("orders", "größe", "x")).await, Outcome::Delivered);
}

#[tokio::test]
async fn another_stream_than_the_named_one_is_no_destination() {
    let Some(bench) = bench::<Nats>().await else { return };
    let mut settings = bench.settings("orders");
    settings.stream = Some("OTHER".into());
    let sink = bench.open(settings, Route::new("s"));
    assert_outcome(
        &outcome(&sink, event("orders", "a", "x")).await,
        "unavailable",
        "expected stream does not match",
    );
    assert!(sink.check().await.expect_err("no such stream").contains("stream not found"));
    let mut settings = bench.settings("{topic}");
    settings.stream = Some("EVENTS".into());
    let sink = bench.open(settings, Route::new("s"));
    assert_eq!(sink.check().await, Ok(()));
    assert_eq!(outcome(&sink, event("orders", "a", "x")).await, Outcome::Delivered);
}

#[tokio::test]
async fn a_full_stream_is_waited_for_if_all_go_there_a_full_subject_is_retried_a_large_message_is_dead() {
    let Some(bench) = bench::<Nats>().await else { return };
    let sink = bench.to("{topic}");
    bench.create(|stream| stream.max_message_size = 2000).await;
    let large = outcome(&sink, event("orders", "a", &"x".repeat(3000))).await;
    assert_outcome(&large, "dead", "message size exceeds maximum");
    bench.create(|stream| (stream.max_messages, stream.discard) = (1, stream::DiscardPolicy::New)).await;
    assert_eq!(outcome(&sink, event("orders", "a", "x")).await, Outcome::Delivered);
    let mut into_one_stream = bench.settings("{topic}");
    into_one_stream.stream = Some("EVENTS".into());
    let into_one_stream = bench.open(into_one_stream, Route::new("s"));
    let full = "maximum messages exceeded";
    assert_outcome(&outcome(&into_one_stream, event("orders", "a", "y")).await, "unavailable", full);
    assert_outcome(&outcome(&bench.to("orders"), event("orders", "a", "y")).await, "unavailable", full);
    create_other(&bench, |_| ()).await;
    let outcomes = deliver(&sink, &[event("orders", "a", "y"), event("other", "b", "z")]).await;
    assert_outcome(outcomes[0].as_ref().expect("a mark"), "retry", full);
    assert_eq!(outcomes[1], Some(Outcome::Delivered), "the other stream has room");
    bench
        .create(|stream| {
            (stream.max_messages_per_subject, stream.discard) = (1, stream::DiscardPolicy::New);
            stream.discard_new_per_subject = true;
        })
        .await;
    assert_outcome(&outcome(&sink, event("orders", "a", "y")).await, "retry", "per subject");
}

/// Another stream beside the usual one.
async fn create_other(bench: &Nats, change: impl FnOnce(&mut stream::Config)) {
    let mut config =
        stream::Config { name: "OTHER".into(), subjects: vec!["other".into()], ..Default::default() };
    change(&mut config);
    bench.jetstream().await.create_or_update_stream(config).await.expect("a stream");
}

#[tokio::test]
async fn a_stream_that_does_not_acknowledge_stops_only_those_who_need_it() {
    let Some(bench) = bench::<Nats>().await else { return };
    create_other(&bench, |stream| stream.no_ack = true).await;
    let hasty = |subject: &str| {
        let mut settings = bench.settings(subject);
        settings.timeout = Duration::from_secs(2);
        bench.open(settings, Route::new("s"))
    };
    let events = [event("other", "a", "1"), event("orders", "b", "2"), event("orders", "b", "3")];
    let outcomes = deliver(&hasty("{topic}"), &events).await;
    let words = "the stream OTHER acknowledges nothing; set its no_ack to false";
    assert_outcome(outcomes[0].as_ref().expect("a mark"), "retry", words);
    assert_eq!(outcomes[1..], [Some(Outcome::Delivered), Some(Outcome::Delivered)]);
    assert_outcome(&outcome(&hasty("other"), event("other", "a", "4")).await, "unavailable", words);
}

/// The server is told to take what is sent to one subject elsewhere, where somebody listens and says nothing. The stream
/// for the subject is there, and acknowledges everything else.
#[tokio::test]
async fn silence_about_one_event_is_a_retry_of_that_event_and_the_others_go_on() {
    let Ok(bench) = Nats::with("mappings { \"shop.lost\": \"void\" }").await else { return };
    let client = bench.jetstream().await.client();
    let _silent = client.subscribe("void").await.expect("subscribed");
    client.flush().await.expect("flushed");
    for subject in ["shop.{topic}", "shop.lost"] {
        let mut settings = bench.settings(subject);
        settings.timeout = Duration::from_secs(2);
        let sink = bench.open(settings, Route::new("s"));
        let events = [event("lost", "a", "1"), event("lost", "a", "2"), event("kept", "b", "3")];
        let outcomes = deliver(&sink, &events).await;
        let words = "no acknowledgement for the subject shop.lost, although the stream EVENTS is there";
        assert_outcome(outcomes[0].as_ref().expect("a mark"), "retry", words);
        assert_eq!(outcomes[1], None, "it waits behind the first of its key");
        if subject == "shop.{topic}" {
            assert_eq!(outcomes[2], Some(Outcome::Delivered));
        }
    }
    assert_eq!(texts(&bench).await, ["3"]);
}

/// Oversize messages are found before they are sent: the connection that everybody uses stays.
#[tokio::test]
async fn an_oversize_event_does_not_cost_the_connection() {
    let Ok(bench) = Nats::with("max_payload: 4096\ndebug: true").await else { return };
    let sink = bench.to("{topic}");
    let exact = |n: usize| event("orders", "a", &"x".repeat(n));
    let mut events: Vec<_> = (0..50).map(|n| event("orders", &format!("key-{n}"), "good")).collect();
    events.insert(20, exact(4000));
    sink.check().await.expect("connected");
    let before = bench.connections();
    let outcomes = deliver(&sink, &events).await;
    assert_outcome(outcomes[20].as_ref().expect("a mark"), "dead", "limit of 4096");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Some(Outcome::Delivered)).count(), 50);
    assert_eq!(bench.connections(), before, "nobody reconnected");
}

#[tokio::test]
async fn a_forbidden_subject_says_what_the_server_said() {
    let config = "authorization { users: [ { user: posthaste, password: \"s3cret\", permissions: { publish: { deny: [\"secret.>\"] } } } ] }";
    let Ok(server) = NatsServer::start(config).await else { return };
    let bench = Nats { server, read: Mutex::default() };
    for (subject, mark) in [("secret.{topic}", "retry"), ("secret.orders", "unavailable")] {
        let mut settings = bench.settings(subject);
        settings.timeout = Duration::from_millis(300);
        let sink = bench.open(settings, Route::new("s"));
        let refused = outcome(&sink, event("orders", "a", "x")).await;
        assert_outcome(&refused, mark, "Permissions Violation for Publish to \"secret.orders\"");
    }
}

/// Somebody listens on the subject, but no stream does: the message is taken and nobody acknowledges it.
#[tokio::test]
async fn a_listener_is_not_taken_for_a_stream() {
    let Some(bench) = bench::<Nats>().await else { return };
    let client = bench.jetstream().await.client();
    let _silent = client.subscribe("chat").await.expect("subscribed");
    client.flush().await.expect("flushed");
    let mut settings = bench.settings("{topic}");
    settings.timeout = Duration::from_millis(300);
    let sink = bench.open(settings, Route::new("s"));
    assert_outcome(
        &outcome(&sink, event("chat", "a", "x")).await,
        "retry",
        "no stream takes the subject chat",
    );
    assert_eq!(outcome(&sink, event("orders", "a", "x")).await, Outcome::Delivered);
}

#[tokio::test]
async fn a_server_without_jetstream_is_not_taken_for_one() {
    let Ok(bench) = Nats::with("").await else { return };
    bench.server.kill();
    let path = bench.server.path("nats.conf");
    let config = std::fs::read_to_string(&path).expect("its configuration");
    let without: Vec<&str> = config.lines().filter(|line| !line.starts_with("jetstream")).collect();
    std::fs::write(&path, without.join("\n")).expect("written");
    bench.server.bring_back().await;
    let sink = bench.to("orders");
    assert_outcome(&outcome(&sink, event("orders", "a", "x")).await, "unavailable", "no stream takes");
    assert!(sink.check().await.is_err());
}

#[tokio::test]
async fn risks_of_the_stream_are_told() {
    let Some(bench) = bench::<Nats>().await else { return };
    let sink = bench.to("orders");
    let warnings = sink.warnings().await;
    assert!(matches!(&warnings[..], [one] if one.contains("duplicate window is 120s")), "{warnings:?}");
    bench.create(|stream| stream.duplicate_window = Duration::from_secs(3600)).await;
    assert_eq!(sink.warnings().await, [""; 0]);
    assert_eq!(sink.describe(), format!("nats at {}", bench.server.url()));
}

#[tokio::test]
async fn tokens_and_nkeys_log_in() {
    let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    let public = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
    let nkey = format!("authorization {{ users: [ {{ nkey: {public} }} ] }}");
    for (config, right, wrong) in [
        (
            "authorization { token: \"t0ken\" }",
            NatsLogin::Token(Secret::new("t0ken")),
            NatsLogin::Token(Secret::new("no")),
        ),
        (&nkey, NatsLogin::Nkey(Secret::new(seed)), NatsLogin::None),
    ] {
        let Ok(server) = NatsServer::start(config).await else { return };
        let with = |login| {
            let mut settings =
                NatsSettings::new([server.url()], Template::parse("{topic}").expect("a template"));
            settings.login = login;
            NatsSink::new(settings, Route::new("s")).expect("a sink")
        };
        assert_eq!(with(right).check().await, Ok(()));
        let error = with(wrong).check().await.expect_err("wrong credentials");
        assert!(error.contains("does not accept these credentials"), "{error}");
    }
}

#[tokio::test]
async fn certificates_are_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let Ok(certificate) = Certificate::make(folder.path()) else { return };
    let config = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}",
        certificate.certificate_file, certificate.key_file
    );
    let Ok(server) = NatsServer::start(&config).await else { return };
    let with = |ca_file| {
        let mut settings = NatsSettings::new([server.url()], Template::parse("{topic}").expect("a template"));
        settings.tls = Tls { on: true, ca_file, identity: None };
        NatsSink::new(settings, Route::new("s")).expect("a sink")
    };
    assert_eq!(with(Some(certificate.ca_file)).check().await, Ok(()));
    let error = with(None).check().await.expect_err("nobody knows this authority");
    assert!(error.contains("certificate"), "{error}");
}
