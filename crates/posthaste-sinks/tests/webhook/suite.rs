//! The sink suite.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::Sink;
use posthaste_sinks::{Envelope, Form, Route};
use posthaste_testkit::sink_suite::{Received, SinkBench};
use serde_json::json;

use crate::receiver::{Receiver, Reply, Request};
use crate::signing::is_signed_with;
use crate::{CURRENT, open_with};

/// Larger bodies are answered with 413.
const LIMIT: usize = 600_000;

struct Webhook {
    receiver: Arc<Receiver>,
}

/// A receiver as people write them.
fn script(request: &Request) -> Reply {
    let status = match request {
        request if !is_signed_with(request, CURRENT) => 401,
        Request { path, .. } if path != "/hooks/orders" => 404,
        Request { method, .. } if method != "POST" => 405,
        Request { body, .. } if body.len() > LIMIT => 413,
        _ => 200,
    };
    Reply::Answer(status, vec![("content-type", "text/plain".to_owned())], b"thanks".to_vec())
}

impl Webhook {
    fn open(&self, path: &str, secret: &str, form: Form) -> Arc<dyn Sink> {
        let route = Route::new("s").envelope(Envelope::new(form));
        let changes = json!({ "secrets": [{ "env": secret }] });
        Arc::new(open_with(&self.receiver.url(path), route, &changes))
    }
}

#[async_trait]
impl SinkBench for Webhook {
    const NAME: &'static str = "webhook";
    const ATTRIBUTES: Option<&'static str> = Some("ce-");

    async fn start() -> Result<Self, String> {
        Ok(Self { receiver: Receiver::start(script).await })
    }

    fn server(&self) -> String {
        "HTTP/1.1 receiver of the test".to_owned()
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.open("/hooks/{topic}", "CURRENT", Form::Binary)
    }

    fn structured(&self) -> Arc<dyn Sink> {
        self.open("/hooks/orders", "CURRENT", Form::Structured)
    }

    async fn received(&self) -> Vec<Received> {
        self.receiver.accepted().into_iter().map(received).collect()
    }

    async fn take_away(&self) {
        self.receiver.go_away().await;
    }

    async fn bring_back(&self) {
        self.receiver.come_back().await;
    }

    fn too_large(&self) -> Option<usize> {
        Some(LIMIT + 1)
    }

    fn with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(self.open("/hooks/orders", "WRONG", Form::Binary))
    }

    fn to_unknown_destination(&self) -> Option<Arc<dyn Sink>> {
        Some(self.open("/nowhere", "CURRENT", Form::Binary))
    }
}

fn received(request: Request) -> Received {
    let headers = request.headers.iter().map(|(name, value)| (name.clone(), decoded(value))).collect();
    let key = request.headers.get("ce-partitionkey").map(|value| decoded(value));
    Received { id: request.header("webhook-id").to_owned(), key, body: request.body, headers }
}

fn decoded(value: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => (bytes.push(byte), rest = &after[2..]).1,
            None => (bytes.push(*first), rest = after).1,
        }
    }
    String::from_utf8(bytes).expect("text")
}

posthaste_testkit::sink_suite!(Webhook);
