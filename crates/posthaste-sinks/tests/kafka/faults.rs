//! Errors from the brokers, injected: what becomes of the events, and that order holds whatever happens.

use std::time::Instant;

use posthaste::{Outcome, Sink};
use posthaste_sinks::{Route, Template};
use posthaste_testkit::sink_suite::bench;

use crate::bench::{Kafka, marks, page, reason};

fn one_key(_: usize) -> Option<String> {
    Some("hot".to_owned())
}

fn few_keys(n: usize) -> Option<String> {
    Some(format!("key-{}", n % 7))
}

fn no_key(_: usize) -> Option<String> {
    None
}

/// Requests that librdkafka repeats by itself, requests that are refused for good, and spoilt producers.
const ERRORS: [&str; 16] = [
    "NOT_ENOUGH_REPLICAS",
    "NOT_LEADER_FOR_PARTITION",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "KAFKA_STORAGE_ERROR",
    "TRANSPORT",
    "MSG_SIZE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "POLICY_VIOLATION",
    "INVALID_TIMESTAMP",
    "TOPIC_AUTHORIZATION_FAILED",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_EPOCH",
    "UNKNOWN",
];

/// Of each key, what the topic has first of each event is a beginning of the key's events, in order. (An event may be
/// there twice: an answer got lost. One that is marked delivered is there.)
fn assert_no_gap(texts: &[String], keys: usize, page: &posthaste::Page, what: &str) {
    let numbers: Vec<usize> = texts.iter().map(|text| text.parse().expect("a number")).collect();
    for key in 0..keys {
        let mut next = key;
        for number in numbers.iter().copied().filter(|number| number % keys == key) {
            assert!(number <= next, "{what}: {number} was accepted before {next}: {}", marks(page));
            next += if number == next { keys } else { 0 };
        }
    }
    for index in (0..page.events().len()).filter(|index| page.outcome(*index) == Some(&Outcome::Delivered)) {
        assert!(numbers.contains(&index), "{what}: {index} is said to be delivered: {}", marks(page));
    }
}

/// The claim of the module's overview: whatever the brokers answer, in whatever place, no later event of a key is
/// accepted while an earlier one is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_overtakes_an_earlier_one_of_its_key_whatever_fails() {
    for (round, error) in ERRORS.into_iter().enumerate() {
        let Some(kafka) = bench::<Kafka>().await else { return };
        let keys = [1, 7][round % 2];
        let sink = kafka.open(kafka.settings(), Route::new("s"));
        let mut page = page(0..60, move |n| if keys == 1 { one_key(n) } else { few_keys(n) });
        // Some go well, some fail, again and again, so that errors meet the first, a middle and many requests in a row.
        for (good, bad) in [(0, 1), (3, 1), (2, 2), (5, 1)] {
            kafka.mock.tell(&format!("error produce NO_ERROR {good}"));
            kafka.mock.tell(&format!("error produce {error} {bad}"));
        }
        sink.deliver(&mut page).await;
        assert_no_gap(&kafka.texts().await, keys, &page, error);
    }
}

/// With several requests of a partition under way, librdkafka takes the success of a later one for the success of an
/// earlier one that failed. The mock cluster never minds a gap, so here that conclusion is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_to_be_delivered_is_there() {
    for error in ERRORS {
        let Some(kafka) = bench::<Kafka>().await else { return };
        let mut settings = kafka.settings();
        settings.extra.insert("batch.num.messages".to_owned(), "5".to_owned());
        let sink = kafka.open(settings, Route::new("s").without_order());
        kafka.mock.tell("delay 5");
        for (good, bad) in [(0, 1), (3, 1), (2, 2), (5, 1)] {
            kafka.mock.tell(&format!("error produce NO_ERROR {good}"));
            kafka.mock.tell(&format!("error produce {error} {bad}"));
        }
        let mut page = page(0..200, one_key);
        sink.deliver(&mut page).await;
        let texts = kafka.texts().await;
        let there = |index: usize| texts.contains(&index.to_string());
        let delivered = |index: &usize| page.outcome(*index) == Some(&Outcome::Delivered);
        let lost: Vec<usize> = (0..200).filter(delivered).filter(|index| !there(*index)).collect();
        assert_eq!(lost, [0; 0], "{error}: {}", marks(&page));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_pass_cost_no_attempt() {
    for error in ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "TRANSPORT"] {
        let Some(kafka) = bench::<Kafka>().await else { return };
        let sink = kafka.open(kafka.settings(), Route::new("s"));
        kafka.mock.tell(&format!("error produce {error} 3"));
        let mut page = page(0..20, one_key);
        sink.deliver(&mut page).await;
        assert_eq!(marks(&page), "D".repeat(20), "{error}");
    }
}

/// The brokers refuse batches, not records. One refusal condemns nobody: all are sent again, each alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_batch_does_not_kill_the_neighbours() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    let sink = kafka.open(kafka.settings(), Route::new("s").without_order());
    kafka.mock.tell("delay 50");
    kafka.mock.tell("error produce MSG_SIZE_TOO_LARGE 1");
    let mut page = page(0..100, no_key);
    sink.deliver(&mut page).await;
    assert_eq!(marks(&page), "D".repeat(100));
}

/// Alone, and still refused: dead, with the broker's word for it. The next events of the key are not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_refused_alone_is_dead() {
    for error in ["MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "POLICY_VIOLATION", "INVALID_TIMESTAMP"] {
        let Some(kafka) = bench::<Kafka>().await else { return };
        let sink = kafka.open(kafka.settings(), Route::new("s"));
        kafka.mock.tell(&format!("error produce {error} 2"));
        let mut refused = page(0..3, one_key);
        sink.deliver(&mut refused).await;
        assert_eq!(marks(&refused), "x--", "{error}");
        assert!(reason(&refused, 0).starts_with("kafka topic orders: "), "{}", reason(&refused, 0));
        let mut rest = page(1..3, one_key);
        sink.deliver(&mut rest).await;
        assert_eq!(
            (marks(&rest).as_str(), kafka.texts().await),
            ("DD", vec!["1".to_owned(), "2".to_owned()])
        );
    }
}

/// A producer whose numbers are out of step can never send again; its successor can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spoilt_producer_is_replaced() {
    for error in ["OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"] {
        let Some(kafka) = bench::<Kafka>().await else { return };
        let sink = kafka.open(kafka.settings(), Route::new("s"));
        kafka.mock.tell(&format!("error produce {error} 1"));
        let mut page = page(0..20, few_keys);
        sink.deliver(&mut page).await;
        assert_eq!(marks(&page), "D".repeat(20), "{error}");
    }
}

/// Forbidden or unknown: with a literal topic the subscription waits, with a template the event does and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_with_a_topic_stops_only_what_needs_that_topic() {
    for error in ["UNKNOWN_TOPIC_OR_PART", "TOPIC_AUTHORIZATION_FAILED"] {
        let Some(kafka) = bench::<Kafka>().await else { return };
        kafka.mock.tell("topic barred 1");
        kafka.mock.tell(&format!("error metadata barred {error}"));
        let events = [("barred", "a"), ("orders", "b"), ("orders", "b"), ("barred", "a")];
        let events = || {
            let event = |(n, (topic, key)): (usize, (&str, &str))| {
                let event = posthaste::NewEvent::bytes(topic, n.to_string()).key(key);
                std::sync::Arc::new(event.stored(i64::try_from(n).expect("small"), chrono::Utc::now()))
            };
            posthaste::Page::new(events.into_iter().enumerate().map(event).collect())
        };
        let templated = kafka.open(kafka.settings(), Route::new("s"));
        let mut page = events();
        templated.deliver(&mut page).await;
        assert_eq!(marks(&page), "rDD-", "{error}: {}", reason(&page, 0));
        assert!(templated.check().await.is_ok(), "the cluster is there");
        let mut settings = kafka.settings();
        settings.topic = Template::literal("barred");
        let literal = kafka.open(settings, Route::new("s"));
        let mut page = events();
        literal.deliver(&mut page).await;
        assert_eq!(&marks(&page)[..1], "u", "{error}");
        assert!(literal.check().await.is_err(), "the topic is not there");
        kafka.mock.tell("error metadata barred NO_ERROR");
        let mut page = events();
        literal.deliver(&mut page).await;
        assert_eq!(marks(&page), "DDDD", "put right: {error}: {}", reason(&page, 0));
        assert!(literal.check().await.is_ok());
    }
}

/// What key order costs: a hot key goes at one event per answer. Printed, not asserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_price_of_key_order() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    let keyed = kafka.open(kafka.settings(), Route::new("s"));
    let free = kafka.open(kafka.settings(), Route::new("s").without_order());
    for delay in [0, 5] {
        kafka.mock.tell(&format!("delay {delay}"));
        let many = |n: usize| Some(format!("key-{n}"));
        for (what, sink, mut page) in [
            ("one key, in order", &keyed, page(0..500, one_key)),
            ("seven keys, in order", &keyed, page(0..500, few_keys)),
            ("500 keys, in order", &keyed, page(0..500, many)),
            ("one key, without order", &free, page(0..500, one_key)),
        ] {
            let start = Instant::now();
            sink.deliver(&mut page).await;
            println!("500 events, {what}, {delay} ms per answer: {:?}", start.elapsed());
            assert_eq!(marks(&page), "D".repeat(500));
        }
    }
}
