//! How many connections are made, how many requests are under way, and through whom.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use posthaste::{Outcome, Page, Sink};
use posthaste_sinks::{Endpoint, Route};
use serde_json::json;

use crate::receiver::{Receiver, Reply};
use crate::{deliver, event, open, open_with, outcome};

#[tokio::test]
async fn connections_are_reused() {
    let receiver = Receiver::start(|_| Reply::Answer(200, Vec::new(), vec![b'x'; 1000])).await;
    let sink = open(&receiver.url("/"), &json!({}));
    for _ in 0..5 {
        let events = (0..200).map(|n| event(&format!("key-{}", n % 40))).collect();
        assert!(deliver(&sink, events).await.into_iter().all(|said| said == Some(Outcome::Delivered)));
    }
    assert_eq!(receiver.accepted().len(), 1000);
    assert!(receiver.connections() <= 10, "{} connections", receiver.connections());
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed_whatever_the_pages() {
    let receiver = Receiver::start(|_| Reply::Late(Duration::from_millis(10), 200)).await;
    let sink = Arc::new(open_with(
        &receiver.url("/"),
        Route::new("s").without_order(),
        &json!({ "concurrency": 4 }),
    ));
    let pages = (0..3).map(|_| {
        let (sink, mut page) = (sink.clone(), Page::new((0..30).map(|_| event("k")).collect()));
        tokio::spawn(async move { sink.deliver(&mut page).await })
    });
    for page in pages.collect::<Vec<_>>() {
        page.await.expect("no panic");
    }
    assert_eq!((receiver.accepted().len(), receiver.most_at_once()), (90, 4));
}

#[tokio::test]
async fn events_of_one_key_are_sent_one_at_a_time() {
    let receiver = Receiver::start(|_| Reply::Late(Duration::from_millis(5), 200)).await;
    let sink = open(&receiver.url("/"), &json!({}));
    deliver(&sink, (0..30).map(|_| event("k")).collect()).await;
    assert_eq!((receiver.accepted().len(), receiver.most_at_once()), (30, 1));
}

/// Run by the test below in another process, whose environment names a proxy that does not exist.
#[tokio::test]
async fn a_receiver_is_reached_directly() {
    let receiver = Receiver::start(|_| Reply::status(200)).await;
    assert_eq!(outcome(&open(&receiver.url("/"), &json!({}))).await, Outcome::Delivered);
}

#[test]
fn proxies_of_the_environment_are_ignored() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "connections::a_receiver_is_reached_directly"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:1");
    }
    let run = command.env_remove("NO_PROXY").env_remove("no_proxy").output().expect("it runs");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
async fn a_proxy_that_is_named_makes_the_connection() {
    let proxy = Receiver::start(|_| Reply::status(200)).await;
    let changes = json!({ "proxy": proxy.url(""), "allow_plain_http": true, "allow_private": false });
    let sink = open("http://receiver.invalid/hook", &changes);
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    let request = proxy.accepted().remove(0);
    assert_eq!(
        (request.path.as_str(), request.header("host")),
        ("http://receiver.invalid/hook", "receiver.invalid")
    );
    let warnings = sink.warnings().await.join("\n");
    assert!(warnings.contains("unencrypted") && warnings.contains("the proxy connects"), "{warnings}");
}
