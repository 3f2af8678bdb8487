//! How soon an outage is noticed, and how soon its end. Required: 10 s and 2 s. Times are printed, facts asserted.

use std::time::{Duration, Instant};

use posthaste::Sink;
use posthaste_sinks::{Route, Template};
use posthaste_testkit::sink_suite::{SinkBench, bench};

use crate::bench::{Kafka, marks, page, reason};
use crate::consumer::read;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_and_its_end_are_noticed_soon() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    let sink = kafka.open(kafka.settings(), Route::new("s"));
    let key = |n: usize| Some(format!("key-{}", n % 10));
    let mut before = page(0..50, key);
    sink.deliver(&mut before).await;
    assert_eq!(marks(&before), "D".repeat(50));

    kafka.take_away().await;
    for _ in 0..2 {
        let (start, mut during) = (Instant::now(), page(50..100, key));
        sink.deliver(&mut during).await;
        println!("unavailable after {:?} (required: 10 s): {}", start.elapsed(), reason(&during, 0));
        assert!(marks(&during).chars().all(|mark| mark == 'u' || mark == '-'), "{}", marks(&during));
    }
    assert!(sink.check().await.is_err(), "the health check says so");

    kafka.bring_back().await;
    let (start, mut after) = (Instant::now(), page(50..100, key));
    sink.deliver(&mut after).await;
    println!("delivered again {:?} after the brokers were back (required: 2 s)", start.elapsed());
    assert_eq!(marks(&after), "D".repeat(50));
    assert_eq!(sink.check().await, Ok(()));
}

/// The brokers go while a page is under way, and come back before it is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_in_the_middle_of_a_page_is_sat_out() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    let sink = kafka.open(kafka.settings(), Route::new("s"));
    kafka.mock.tell("delay 2");
    let mut page = page(0..300, |_| Some("hot".to_owned()));
    let delivering = async {
        sink.deliver(&mut page).await;
        page
    };
    let outage = async {
        while kafka.texts().await.len() < 20 {
            tokio::task::yield_now().await;
        }
        kafka.take_away().await;
        kafka.bring_back().await;
    };
    let (page, ()) = tokio::join!(delivering, outage);
    assert_eq!(marks(&page), "D".repeat(300), "{}", reason(&page, 0));
    let mut first: Vec<usize> = Vec::new();
    for text in kafka.texts().await {
        let number = text.parse().expect("a number");
        if !first.contains(&number) {
            first.push(number);
        }
    }
    assert_eq!(first, (0..300).collect::<Vec<_>>(), "in order");
}

/// A partition without a leader is silent, the cluster is not: its events cost an attempt, all others arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_of_one_partition_stops_nobody_else() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    for topic in ["orders", "{topic}"] {
        let mut settings = kafka.settings();
        (settings.timeout, settings.topic) = (Duration::from_secs(4), Template::parse(topic).expect("good"));
        let sink = kafka.open(settings, Route::new("s"));
        let before = kafka.texts().await.len();
        kafka.mock.tell("leader orders 0 0");
        let mut page = page(0..40, |n| Some(format!("key-{n}")));
        sink.deliver(&mut page).await;
        let (delivered, silent) = (count(&page, 'D'), count(&page, 'r'));
        assert_eq!(delivered + silent, 40, "{}", marks(&page));
        assert!(delivered > 0 && silent > 0, "some keys live in each partition: {}", marks(&page));
        let first = marks(&page).find('r').expect("silence");
        let words = "kafka topic orders: no answer within 4s, although the cluster is there";
        assert_eq!(reason(&page, first), words);
        kafka.mock.tell("leader orders 0 1");
        assert_eq!(kafka.texts().await.len() - before, delivered);
    }
}

/// With a literal topic that nobody leads no event can go anywhere, so they wait. With a template other topics may do well,
/// so one event is blamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_without_a_leader_is_waited_for_if_all_go_there() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    for partition in 0..4 {
        kafka.mock.tell(&format!("leader orders {partition} 0"));
    }
    let mut settings = kafka.settings();
    settings.timeout = Duration::from_secs(4);
    let among_many = kafka.open(settings.clone(), Route::new("s"));
    settings.topic = Template::literal("orders");
    let fixed = kafka.open(settings, Route::new("s"));
    let key = |n: usize| Some(format!("key-{n}"));
    let (mut retried, mut waiting) = (page(0..5, key), page(0..5, key));
    tokio::join!(among_many.deliver(&mut retried), fixed.deliver(&mut waiting));
    assert_eq!((marks(&retried).as_str(), marks(&waiting).as_str()), ("ruuuu", "uuuuu"));
    assert!(reason(&waiting, 0).contains("no partition has a leader"), "{}", reason(&waiting, 0));
    for partition in 0..4 {
        kafka.mock.tell(&format!("leader orders {partition} 1"));
    }
    let mut again = page(0..5, key);
    fixed.deliver(&mut again).await;
    assert_eq!((marks(&again).as_str(), kafka.texts().await.len()), ("DDDDD", 5));
}

fn count(page: &posthaste::Page, mark: char) -> usize {
    marks(page).chars().filter(|found| *found == mark).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_has_the_time_of_its_event() {
    let Some(kafka) = bench::<Kafka>().await else { return };
    let sink = kafka.open(kafka.settings(), Route::new("s"));
    let mut page = page(0..1, |_| None);
    sink.deliver(&mut page).await;
    let read = read(kafka.mock.brokers(), "orders").await;
    assert_eq!(read[0].millis, Some(page.events()[0].created_at.timestamp_millis()));
    assert_eq!(read[0].received.key, None);
}
