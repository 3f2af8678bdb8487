//! Signatures as a receiver verifies them, written from the specification and without the sink's code.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use crate::receiver::{Receiver, Reply, Request};
use crate::{CURRENT, PREVIOUS, WRONG, open, outcome, told};

/// Whether one of the signatures was made with this secret, and the time is now.
pub(crate) fn is_signed_with(request: &Request, secret: &str) -> bool {
    let (id, timestamp) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let age = Utc::now().timestamp() - timestamp.parse::<i64>().unwrap_or(0);
    let key = BASE64_STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
    let content = [id.as_bytes(), b".", timestamp.as_bytes(), b".", request.body.as_slice()].concat();
    let good = |signature: &str| {
        let mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key").chain_update(&content);
        let coded = signature.strip_prefix("v1,").unwrap_or("");
        BASE64_STANDARD.decode(coded).is_ok_and(|bytes| mac.verify_slice(&bytes).is_ok())
    };
    age.abs() <= 300 && request.header("webhook-signature").split(' ').any(good)
}

#[tokio::test]
async fn every_secret_signs_so_that_receivers_can_change_over() {
    let receiver = Receiver::start(|_| Reply::status(204)).await;
    let both = json!({ "secrets": [{ "env": "CURRENT" }, { "env": "PREVIOUS" }] });
    assert_eq!(told(outcome(&open(&receiver.url("/"), &both)).await).0, "delivered");
    let request = receiver.accepted().remove(0);
    assert_eq!(request.header("webhook-signature").split(' ').count(), 2);
    assert!(is_signed_with(&request, CURRENT) && is_signed_with(&request, PREVIOUS));
    assert!(!is_signed_with(&request, WRONG));
    let mut forged = request.clone();
    forged.body.push(b' ');
    assert!(!is_signed_with(&forged, CURRENT), "the very bytes are signed");
}

#[tokio::test]
async fn the_id_stays_the_same_over_attempts_and_the_check_is_signed_and_no_event() {
    let receiver = Receiver::start(|_| Reply::status(500)).await;
    let sink = open(&receiver.url("/hook"), &json!({}));
    let event = crate::event("k");
    crate::deliver(&sink, vec![event.clone()]).await;
    crate::deliver(&sink, vec![event.clone()]).await;
    posthaste::Sink::check(&sink).await.expect("any answer will do");
    let ids: Vec<String> =
        receiver.answered().iter().map(|(request, _)| request.header("webhook-id").to_owned()).collect();
    assert_eq!(ids, [event.id.to_string(), event.id.to_string()]);
    let check = receiver.checks().remove(0);
    assert_eq!((check.method.as_str(), check.path.as_str(), check.body.len()), ("HEAD", "/hook", 0));
    assert!(is_signed_with(&check, CURRENT) && check.header("webhook-id").starts_with("check_"));
}
