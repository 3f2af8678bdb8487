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
    is_signed_with_at(request, secret, Utc::now().timestamp())
}

fn is_signed_with_at(request: &Request, secret: &str, now: i64) -> bool {
    let (id, timestamp) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let age = now - timestamp.parse::<i64>().unwrap_or(0);
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

/// A receiver that knows only one of the secrets, before, during and after a change.
#[tokio::test]
async fn during_a_rotation_old_and_new_receivers_verify_and_afterwards_the_new_ones() {
    let receiver = Receiver::start(|_| Reply::status(204)).await;
    let verified = async |secrets: &[&str]| {
        let secrets: Vec<_> = secrets.iter().map(|name| json!({ "env": name })).collect();
        outcome(&open(&receiver.url("/"), &json!({ "secrets": secrets }))).await;
        let request = receiver.accepted().pop().expect("it came");
        [PREVIOUS, CURRENT].map(|secret| is_signed_with(&request, secret))
    };
    assert_eq!(verified(&["PREVIOUS"]).await, [true, false]);
    assert_eq!(verified(&["PREVIOUS", "CURRENT"]).await, [true, true]);
    assert_eq!(verified(&["CURRENT", "PREVIOUS"]).await, [true, true]);
    assert_eq!(verified(&["CURRENT"]).await, [false, true]);
}

/// Whoever records a request can repeat it only for some minutes, and cannot change its time, its id or its body.
#[tokio::test]
async fn a_recorded_request_is_good_neither_later_nor_changed() {
    let receiver = Receiver::start(|_| Reply::status(204)).await;
    outcome(&open(&receiver.url("/"), &json!({}))).await;
    let (recorded, now) = (receiver.accepted().remove(0), Utc::now().timestamp());
    assert!(is_signed_with_at(&recorded, CURRENT, now));
    assert!(!is_signed_with_at(&recorded, CURRENT, now + 600), "ten minutes later");
    assert!(!is_signed_with_at(&recorded, CURRENT, now - 600), "the time is not now");
    let with = |name: &str, value: String| {
        let mut changed = recorded.clone();
        changed.headers.insert(name.to_owned(), value);
        changed
    };
    let later = with("webhook-timestamp", (now + 600).to_string());
    assert!(!is_signed_with_at(&later, CURRENT, now + 600), "the time is signed");
    let other = with("webhook-id", uuid::Uuid::now_v7().to_string());
    assert!(!is_signed_with_at(&other, CURRENT, now), "the id is signed");
    let unsigned = with("webhook-signature", "v1,".to_owned());
    assert!(!is_signed_with_at(&unsigned, CURRENT, now));
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
