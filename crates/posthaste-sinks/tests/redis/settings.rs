//! Settings: a good table, and every mistake with its sentence.

use posthaste_sinks::{Problems, Section, Surroundings};
use serde_json::{Value, json};

use super::*;

fn check(value: Value) -> (Option<RedisSettings>, Vec<String>) {
    let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
    surroundings.variables.insert("PASSWORD".into(), "hunter2".into());
    surroundings.variables.insert("URL".into(), "rediss://me:hunter%32@cache:6390/3".into());
    let Value::Object(fields) = value else { panic!("a table") };
    let section = Section::new("sink", &fields, &problems, &surroundings);
    let settings = RedisSettings::validate(&section);
    section.finish();
    (settings, problems.into_vec().iter().map(ToString::to_string).collect())
}

fn good(value: Value) -> RedisSettings {
    let (settings, problems) = check(value);
    assert_eq!(problems, [""; 0]);
    settings.expect("good settings")
}

#[test]
fn a_small_table_is_enough() {
    let settings = good(json!({ "url": "redis://localhost" }));
    assert_eq!((settings.host.as_str(), settings.port, settings.database), ("localhost", 6379, 0));
    assert_eq!(settings.stream, Template::parse("{topic}").expect("a template"));
    assert_eq!((settings.tls.on, settings.max_length), (false, None));
}

#[test]
fn every_setting_is_read_and_no_secret_is_shown() {
    let settings = good(json!({
        "url": "redis://10.0.0.1:7000/2", "username": "me", "password": { "env": "PASSWORD" }, "stream": "s:{topic}",
        "max_length": 1000, "exact_length": true, "timeout": "2s",
    }));
    assert_eq!((settings.port, settings.database), (7000, 2));
    assert!(settings.tls.on, "another machine");
    assert_eq!(settings.max_length, Some(RedisMaxLength { entries: 1000, exact: true }));
    assert_eq!(settings.timeout, Duration::from_secs(2));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let sink = RedisSink::new(settings, Route::new("s")).expect("a sink");
    assert!(!format!("{sink:?}").contains("hunter2"), "{sink:?}");
}

#[test]
fn a_login_may_come_with_an_address_from_elsewhere() {
    let settings = good(json!({ "url": { "env": "URL" } }));
    assert_eq!((settings.host.as_str(), settings.port, settings.database), ("cache", 6390, 3));
    assert_eq!((settings.username.as_deref(), settings.password), (Some("me"), Some(Secret::new("hunter2"))));
    assert!(settings.tls.on);
    assert!(!good(json!({ "url": "redis://cache", "tls": false })).tls.on);
}

#[test]
fn every_mistake_has_its_sentence() {
    let url = "redis://localhost";
    for (table, sentence) in [
        (json!({}), "sink.url: is missing; write for example url = \"redis://localhost:6379\""),
        (json!({ "url": "localhost:6379" }), "sink.url: is not the address of a Redis server"),
        (json!({ "url": "unix:///tmp/redis" }), "sink.url: is not the address of a Redis server"),
        (json!({ "url": "redis://x/zero" }), "sink.url: is not the address of a Redis server"),
        (json!({ "url": "redis://:pw@x" }), "sink.url: a password does not belong in the file"),
        (
            json!({ "url": "rediss://x", "tls": false }),
            "sink.url: rediss:// and tls = false contradict each other",
        ),
        (json!({ "url": url, "username": "me" }), "sink.password: is missing; write password = { env"),
        (json!({ "url": url, "password": "pw" }), "sink.password: secrets do not belong in the file"),
        (json!({ "url": url, "stream": "{nothing}" }), "sink.stream: there is no place `{nothing}`"),
        (json!({ "url": url, "stream": "" }), "sink.stream: is empty"),
        (json!({ "url": url, "max_length": 0 }), "sink.max_length: expected a whole number from 1"),
        (json!({ "url": url, "exact_length": true }), "sink.exact_length: needs max_length"),
        (json!({ "url": url, "timeout": "5" }), "sink.timeout: expected a duration with its unit"),
        (json!({ "url": url, "tls": { "ca_file": "no.pem" } }), "sink.tls.ca_file: there is no file no.pem"),
        (json!({ "url": url, "strem": "a" }), "sink.strem: is not known here; did you mean `stream`?"),
    ] {
        let (_, problems) = check(table.clone());
        assert!(problems.iter().any(|problem| problem.starts_with(sentence)), "{table}: {problems:?}");
    }
}
