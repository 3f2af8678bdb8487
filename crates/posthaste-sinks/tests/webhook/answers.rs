//! The table of outcomes, row by row, and answers that are late, long or missing.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::{NewEvent, Outcome, Page, Sink};
use posthaste_sinks::{Envelope, Form, Route};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::receiver::{Receiver, Reply, Request};
use crate::{deliver, event, open, open_with, outcome, told};

#[tokio::test]
async fn every_status_has_its_outcome() {
    let status = |request: &Request| Reply::status(request.path[1..].parse().expect("a status"));
    let receiver = Receiver::start(status).await;
    for (word, statuses) in [
        ("delivered", vec![200, 201, 202, 204, 206, 299]),
        ("retry", vec![300, 301, 302, 303, 304, 307, 308]),
        ("retry", vec![400, 402, 403, 404, 405, 406, 408, 409, 411, 414, 415, 421, 422, 425, 431, 451, 499]),
        ("retry", vec![500, 501, 505, 507, 520, 529, 599]),
        ("unavailable", vec![401, 410, 429, 502, 503, 504]),
        ("dead", vec![413]),
    ] {
        for status in statuses {
            // A sink each, because some answers give the receiver a rest.
            let sink = open(&receiver.url(&format!("/{status}")), &json!({}));
            let (said, reason) = told(outcome(&sink).await);
            assert_eq!(said, word, "{status}: {reason}");
            assert!(said == "delivered" || reason.contains(&status.to_string()), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/old" => Reply::Answer(307, vec![("location", "/new".to_owned())], Vec::new()),
        _ => Reply::status(200),
    })
    .await;
    let (word, reason) = told(outcome(&open(&receiver.url("/old"), &json!({}))).await);
    assert_eq!(word, "retry");
    assert!(reason.contains("redirects are not followed"), "{reason}");
    assert_eq!(receiver.answered().len(), 1);
}

/// Whatever the redirect and wherever it points: nobody goes there, neither with an event nor with a check.
#[tokio::test]
async fn a_redirect_to_the_inside_connects_to_nobody() {
    let inside = Receiver::start(|_| Reply::status(200)).await;
    for status in [301, 302, 303, 307, 308] {
        for place in [
            inside.url("/"),
            format!("http://localhost:{}/", inside.port),
            format!("http://0x7f.1:{}/", inside.port),
            format!("//127.0.0.1:{}/", inside.port),
        ] {
            let answer = move |_: &Request| {
                let headers = vec![("location", place.clone()), ("refresh", format!("0; url={place}"))];
                Reply::Answer(status, headers, Vec::new())
            };
            let receiver = Receiver::start(answer).await;
            let sink = open(&receiver.url("/"), &json!({}));
            assert_eq!(told(outcome(&sink).await).0, "retry", "{status}");
            sink.check().await.expect("any answer will do");
        }
    }
    assert_eq!(inside.connections(), 0);
    // It would have answered.
    assert_eq!(told(outcome(&open(&inside.url("/"), &json!({}))).await).0, "delivered");
    println!("control: 20 redirects led to 0 connections, one delivery to {}", inside.connections());
}

fn answering(
    status: u16,
    name: &'static str,
    value: &str,
) -> impl Fn(&Request) -> Reply + Send + Sync + use<> {
    let value = value.to_owned();
    move |_| Reply::Answer(status, vec![(name, value.clone())], b"calm\r\n  down".to_vec())
}

#[tokio::test]
async fn a_receiver_that_asks_for_a_rest_gets_it() {
    let date = (Utc::now() + Duration::from_secs(600)).format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (status, after) in [(429, "600"), (429, date.as_str()), (502, "600"), (503, "600"), (504, "600")] {
        let receiver = Receiver::start(answering(status, "retry-after", after)).await;
        let sink = open(&receiver.url("/"), &json!({}));
        let (word, reason) = told(outcome(&sink).await);
        assert_eq!(word, "unavailable");
        assert!(reason.ends_with(": calm down"), "{reason}");
        let (word, reason) = told(outcome(&sink).await);
        assert_eq!((word, receiver.answered().len()), ("unavailable", 1), "nothing more was sent");
        assert!(reason.contains("nothing is sent for another"), "{reason}");
        assert!(sink.check().await.expect_err("it rests").contains(&status.to_string()));
        assert_eq!(receiver.checks().len(), 0);
    }
}

#[tokio::test]
async fn after_its_rest_a_receiver_is_asked_again() {
    let receiver = Receiver::start(answering(429, "retry-after", "0")).await;
    let sink = open(&receiver.url("/"), &json!({}));
    outcome(&sink).await;
    outcome(&sink).await;
    assert_eq!(receiver.answered().len(), 2);
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone_and_loses_nothing() {
    let receiver = Receiver::start(|_| Reply::status(410)).await;
    let sink = open(&receiver.url("/"), &json!({}));
    for _ in 0..3 {
        let (word, reason) = told(outcome(&sink).await);
        assert_eq!(word, "unavailable");
        assert!(
            reason.contains("the endpoint asks to be disabled; pause or remove the subscription"),
            "{reason}"
        );
    }
    assert_eq!(receiver.answered().len(), 1);
    // A restart or another configuration asks again.
    outcome(&open(&receiver.url("/"), &json!({}))).await;
    assert_eq!(receiver.answered().len(), 2);
}

#[tokio::test]
async fn one_event_waits_as_long_as_its_answer_says() {
    let receiver = Receiver::start(answering(500, "retry-after", "7")).await;
    let said = outcome(&open(&receiver.url("/"), &json!({}))).await;
    assert!(
        matches!(said, Outcome::Retry { after: Some(after), .. } if after == Duration::from_secs(7)),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_receiver_can_ask_not_to_see_an_event_again() {
    let receiver = Receiver::start(answering(500, "webhook-delivery", "abort-message")).await;
    assert_eq!(told(outcome(&open(&receiver.url("/"), &json!({}))).await).0, "dead");
}

#[tokio::test]
async fn behind_a_failure_the_rest_of_its_key_is_not_sent() {
    let receiver = Receiver::start(|request| {
        Reply::status(if request.header("ce-partitionkey") == "bad" { 500 } else { 200 })
    })
    .await;
    let sink = open(&receiver.url("/"), &json!({}));
    let outcomes = deliver(&sink, ["bad", "good", "bad", "good"].map(event).to_vec()).await;
    assert!(matches!(outcomes[0], Some(Outcome::Retry { .. })));
    assert_eq!((&outcomes[1], &outcomes[2]), (&Some(Outcome::Delivered), &None));
    assert_eq!((&outcomes[3], receiver.answered().len()), (&Some(Outcome::Delivered), 3));
}

#[tokio::test]
async fn silence_is_about_the_event_if_the_receiver_answers_others() {
    let quick = json!({ "timeout": "300ms" });
    let event_only = |request: &Request| match request.method.as_str() {
        "POST" => Reply::Silence,
        _ => Reply::status(405),
    };
    let receiver = Receiver::start(event_only).await;
    let (word, reason) = told(outcome(&open(&receiver.url("/"), &quick)).await);
    assert_eq!((word, reason.as_str()), ("retry", "no answer within 300ms"));

    let receiver = Receiver::start(|_| Reply::Silence).await;
    let sink = open(&receiver.url("/"), &quick);
    let (word, reason) = told(outcome(&sink).await);
    assert_eq!(word, "unavailable", "{reason}");
    assert!(sink.check().await.is_err());
}

#[tokio::test]
async fn a_late_answer_within_the_time_is_an_answer() {
    let receiver = Receiver::start(|_| Reply::Late(Duration::from_millis(200), 200)).await;
    assert_eq!(outcome(&open(&receiver.url("/"), &json!({}))).await, Outcome::Delivered);
}

#[tokio::test]
async fn of_a_long_answer_only_the_beginning_is_read() {
    for (status, word) in [(200, "delivered"), (500, "retry")] {
        let receiver = Receiver::start(move |_| Reply::Endless(status)).await;
        let (said, reason) = told(outcome(&open(&receiver.url("/"), &json!({}))).await);
        assert_eq!(said, word);
        assert!(reason.len() < 1100, "{} bytes", reason.len());
        // What the sockets' buffers hold, and then the connection is closed.
        assert!(receiver.written() < 32 << 20, "{}", receiver.written());
    }
}

#[tokio::test]
async fn an_answer_that_drips_is_not_waited_for() {
    for (status, word) in [(202, "delivered"), (500, "retry")] {
        let receiver = Receiver::start(move |_| Reply::Drip(status)).await;
        assert_eq!(told(outcome(&open(&receiver.url("/"), &json!({}))).await).0, word);
    }
}

#[tokio::test]
async fn an_event_that_breaks_the_connection_is_suspected_the_third_time() {
    let receiver = Receiver::start(|request| match request.method.as_str() {
        "POST" => Reply::HangUp,
        _ => Reply::status(204),
    })
    .await;
    let (sink, poison) = (open(&receiver.url("/"), &json!({})), event("k"));
    for word in ["unavailable", "unavailable", "retry", "retry"] {
        let said = deliver(&sink, vec![poison.clone()]).await.remove(0).expect("marked");
        assert_eq!(told(said).0, word);
    }
    let away = Receiver::start(|_| Reply::HangUp).await;
    let sink = open(&away.url("/"), &json!({}));
    for _ in 0..4 {
        let said = deliver(&sink, vec![poison.clone()]).await.remove(0).expect("marked");
        assert_eq!(told(said).0, "unavailable");
    }
}

#[tokio::test]
async fn nobody_there_is_unavailable() {
    let receiver = Receiver::start(|_| Reply::status(200)).await;
    let sink = open(&receiver.url("/"), &json!({}));
    receiver.go_away().await;
    let (word, reason) = told(outcome(&sink).await);
    assert_eq!(word, "unavailable");
    assert!(reason.contains("refused"), "{reason}");
    let check = sink.check().await.expect_err("nobody");
    assert!(check.starts_with(&format!("webhook at {}", receiver.url("/"))), "{check}");
    let unknown = open("https://no-such-name.invalid/", &json!({}));
    let (word, reason) = told(outcome(&unknown).await);
    assert_eq!(word, "unavailable");
    assert!(reason.contains("no-such-name.invalid"), "{reason}");
}

/// A receiver that refuses a large body by its length, without reading it, as reverse proxies do.
#[tokio::test]
async fn a_refusal_before_the_body_was_read_is_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut some = [0; 512];
        stream.read_exact(&mut some).await.expect("the beginning of a request");
        let answer = b"HTTP/1.1 413 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).await.expect("an answer");
        // Lingers like a proxy, until the client has gone.
        while stream.read(&mut some).await.is_ok_and(|read| read > 0) {}
    });
    let sink = open(&format!("http://127.0.0.1:{port}/"), &json!({}));
    let large = NewEvent::bytes("t", vec![b'x'; 4 << 20]).stored(1, DateTime::UNIX_EPOCH);
    let mut page = Page::new(vec![Arc::new(large)]);
    sink.deliver(&mut page).await;
    assert!(matches!(page.outcome(0), Some(Outcome::Dead { .. })), "{:?}", page.outcome(0));
}

#[tokio::test]
async fn headers_travel_and_reserved_names_win() {
    let receiver = Receiver::start(|_| Reply::status(200)).await;
    let forged = ["webhook-id", "webhook-signature", "ce-id", "ce-type", "authorization", "cookie", "host"];
    let new =
        NewEvent::bytes("orders", "x").content_type("text/plain").key("a b%\"ü").event_type("order.made");
    let new = new.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let new = new.header("x-note", "  grüße ").header("x-team", "producers");
    let new = forged.iter().fold(new, |new, name| new.header(name, "forged"));
    let event = Arc::new(new.stored(1, DateTime::UNIX_EPOCH));
    let changes = json!({ "headers": { "Authorization": "Bearer ours", "X-Team": "relay" } });
    for form in [Form::Binary, Form::Structured] {
        let route = Route::new("s").envelope(Envelope::new(form));
        let sink = open_with(&receiver.url("/a?b=c"), route, &changes);
        assert_eq!(deliver(&sink, vec![event.clone()]).await, [Some(Outcome::Delivered)]);
    }
    let [binary, structured] = receiver.accepted().try_into().expect("two requests");
    for request in [&binary, &structured] {
        assert!(!request.headers.values().any(|value| value == "forged"), "{request:?}");
        assert_eq!((request.path.as_str(), request.header("authorization")), ("/a?b=c", "Bearer ours"));
        assert_eq!(
            (request.header("x-team"), request.header("x-note")),
            ("relay", "%20%20gr%C3%BC%C3%9Fe%20")
        );
        assert_eq!(request.header("traceparent"), event.headers.get("traceparent").expect("there"));
        assert_eq!(request.header("webhook-id"), event.id.to_string());
        assert!(request.header("user-agent").starts_with("posthaste/"));
        assert_eq!(request.header("host"), format!("127.0.0.1:{}", receiver.port));
    }
    assert_eq!(binary.header("content-type"), "text/plain");
    assert_eq!(
        (binary.header("ce-type"), binary.header("ce-partitionkey")),
        ("order.made", "a%20b%25%22%C3%BC")
    );
    assert_eq!(binary.header("ce-specversion"), "1.0");
    assert_eq!(binary.headers.get("ce-datacontenttype"), None);
    assert_eq!(structured.header("content-type"), "application/cloudevents+json; charset=UTF-8");
    assert!(!structured.headers.keys().any(|name| name.starts_with("ce-")));
    let body: Value = serde_json::from_slice(&structured.body).expect("JSON");
    assert_eq!((&body["type"], &body["partitionkey"]), (&json!("order.made"), &json!("a b%\"ü")));
}

#[tokio::test]
async fn an_event_that_cannot_be_addressed_is_dead() {
    let receiver = Receiver::start(|_| Reply::status(200)).await;
    let sink = open(&receiver.url("/{aggregate_id}"), &json!({}));
    let (word, reason) = told(outcome(&sink).await);
    assert_eq!((word, reason.as_str()), ("dead", "the address needs aggregate id, and the event has none"));
    let sink = open(&receiver.url("/{key}"), &json!({}));
    let climbing = deliver(&sink, vec![event("..")]).await.remove(0).expect("marked");
    assert_eq!(told(climbing).0, "dead");
    let bad_type = NewEvent::bytes("t", "x").content_type("text/\nplain").stored(1, DateTime::UNIX_EPOCH);
    let said = deliver(&open(&receiver.url("/"), &json!({})), vec![Arc::new(bad_type)]).await.remove(0);
    assert_eq!(told(said.expect("marked")).0, "dead");
    assert_eq!(receiver.answered().len(), 0);
}
