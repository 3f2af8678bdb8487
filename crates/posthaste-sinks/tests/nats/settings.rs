//! Settings: a good table, and every mistake with its sentence.

use posthaste_sinks::{Problems, Section, Surroundings};
use serde_json::{Value, json};

use super::*;

fn check(value: Value) -> (Option<NatsSettings>, Vec<String>) {
    let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
    surroundings.variables.insert("PASSWORD".into(), "hunter2".into());
    surroundings.variables.insert("URL".into(), "nats://me:hunter%32@broker:4333".into());
    let Value::Object(fields) = value else { panic!("a table") };
    let section = Section::new("sink", &fields, &problems, &surroundings);
    let settings = NatsSettings::validate(&section);
    section.finish();
    (settings, problems.into_vec().iter().map(ToString::to_string).collect())
}

fn good(value: Value) -> NatsSettings {
    let (settings, problems) = check(value);
    assert_eq!(problems, [""; 0]);
    settings.expect("good settings")
}

#[test]
fn a_small_table_is_enough() {
    let settings = good(json!({ "url": "localhost" }));
    assert_eq!(settings.urls, ["nats://localhost:4222"]);
    assert_eq!(settings.subject, Template::parse("{topic}").expect("a template"));
    assert_eq!((settings.tls.on, settings.in_flight), (false, 1024));
}

#[test]
fn every_setting_is_read_and_no_secret_is_shown() {
    let settings = good(json!({
        "urls": ["nats://a:1", "tls://[::2]:2"], "subject": "shop.{topic}", "stream": "SHOP", "username": "me",
        "password": { "env": "PASSWORD" }, "timeout": "2s", "in_flight": 10,
    }));
    assert_eq!(settings.urls, ["nats://a:1", "tls://[::2]:2"]);
    assert!(settings.tls.on, "other machines");
    assert_eq!((settings.timeout, settings.in_flight), (Duration::from_secs(2), 10));
    assert_eq!(settings.stream.as_deref(), Some("SHOP"));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let sink = NatsSink::new(settings, Route::new("s")).expect("a sink");
    assert!(!format!("{sink:?}").contains("hunter2"));
}

#[test]
fn a_login_may_come_with_an_address_from_elsewhere() {
    let settings = good(json!({ "url": { "env": "URL" } }));
    assert_eq!(settings.urls, ["nats://broker:4333"]);
    let login = NatsLogin::Password { username: "me".into(), password: Secret::new("hunter2") };
    assert_eq!(settings.login, login);
}

#[test]
fn every_mistake_has_its_sentence() {
    let url = "nats://localhost";
    for (table, sentence) in [
        (json!({}), "sink.url: is missing; write for example url = \"nats://localhost:4222\""),
        (json!({ "url": url, "urls": [url] }), "sink.urls: write either url or urls, not both"),
        (json!({ "urls": [] }), "sink.urls: names no server"),
        (json!({ "url": "http://x" }), "sink.url: is not the address of a NATS server"),
        (json!({ "url": "ws://x" }), "sink.url: WebSocket addresses are not supported"),
        (json!({ "urls": [url, "nats://me:pw@x"] }), "sink.urls[1]: a password does not belong in the file"),
        (json!({ "url": "tls://x", "tls": false }), "sink.url: tls:// and tls = false contradict each other"),
        (
            json!({ "url": url, "subject": "a b" }),
            "sink.subject: `a b` is no subject for messages: it contains white space",
        ),
        (
            json!({ "url": url, "subject": "a.>" }),
            "sink.subject: `a.>` is no subject for messages: it contains a wildcard",
        ),
        (json!({ "url": url, "subject": "a..b" }), "sink.subject: `a..b` is no subject"),
        (json!({ "url": url, "subject": "{nothing}" }), "sink.subject: there is no place `{nothing}`"),
        (json!({ "url": url, "stream": "A.B" }), "sink.stream: `A.B` is no name of a stream"),
        (json!({ "url": url, "username": "me" }), "sink.password: is missing; write password = { env"),
        (json!({ "url": url, "password": { "env": "PASSWORD" } }), "sink.password: needs a username"),
        (
            json!({ "url": url, "username": "me", "password": "pw" }),
            "sink.password: secrets do not belong in the file",
        ),
        (
            json!({ "url": url, "token": { "env": "PASSWORD" }, "nkey": { "env": "URL" } }),
            "sink.nkey: token is there too",
        ),
        (json!({ "url": url, "nkey": { "env": "PASSWORD" } }), "sink.nkey: is not the seed of a user"),
        (
            json!({ "url": url, "credentials_file": "no.creds" }),
            "sink.credentials_file: there is no file no.creds",
        ),
        (json!({ "url": url, "timeout": "1h" }), "sink.timeout: expected 100ms to 1m"),
        (json!({ "url": url, "in_flight": 5000 }), "sink.in_flight: expected a whole number from 1 to 4096"),
        (json!({ "url": url, "subjcet": "a" }), "sink.subjcet: is not known here; did you mean `subject`?"),
    ] {
        let (_, problems) = check(table.clone());
        assert!(problems.iter().any(|problem| problem.starts_with(sentence)), "{table}: {problems:?}");
        assert!(!problems.iter().any(|problem| problem.contains("hunter2")), "{problems:?}");
    }
}
