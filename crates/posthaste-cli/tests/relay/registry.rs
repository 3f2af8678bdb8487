//! The registry in the relay: what does not fit is dead at once, and the others go on.

use posthaste::NewEvent;
use serde_json::{Value, json};

use crate::log::{self, Log};
use crate::support::{Folder, lines, until};

const CONFIG: &str = r#"
[relay]
listen = "off"
[registry.order_created]
topic = "orders"
aggregate_type = "order"
schema = "order_created.json"
samples = ["sample.json"]
[subscriptions.checked.sink]
type = "file"
path = "checked.jsonl"
[subscriptions.raw]
registry = false
[subscriptions.raw.sink]
type = "file"
path = "raw.jsonl"
"#;

fn folder() -> Folder {
    let folder = Folder::with(CONFIG);
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
    folder.write("order_created.json", schema.to_string());
    folder.write("sample.json", r#"{"n":1}"#);
    folder
}

fn event(payload: &str) -> NewEvent {
    let event = NewEvent::bytes("orders", payload).content_type("application/json");
    event.event_type("order_created").aggregate("order", "o-1")
}

#[tokio::test]
async fn misfits_are_dead_with_the_field_and_the_rest_of_their_key_arrives() {
    for log in log::all(&Folder::new()).await {
        let folder = folder();
        let relay = folder.relay(&["--database", &log.url]);
        relay.says("delivering");
        log.commit(vec![
            event(r#"{"n":1}"#),
            event(r#"{"n":"hunter2"}"#),
            event("null"),
            event(r#"{"n":2}"#),
            event(r#"{"n":3}"#).event_type("order_lost"),
            NewEvent::bytes("orders", r#"{"n":4}"#).event_type("order_created"),
            event(r#"{"n":5}"#).aggregate("invoice", "o-1"),
            event(r#"{"n":6}"#),
        ])
        .await;
        until("three arrive", async || (lines(&folder.path("checked.jsonl")).len() == 3).then_some(())).await;
        until("five are dead", async || (dead(&folder, &log).len() == 5).then_some(())).await;
        until("all arrive unchecked", async || (lines(&folder.path("raw.jsonl")).len() == 8).then_some(()))
            .await;
        let arrived: Vec<String> = lines(&folder.path("checked.jsonl"))
            .iter()
            .map(|line| line["payload"]["n"].to_string())
            .collect();
        assert_eq!(arrived, ["1", "2", "6"], "{}", log.name);
        let reasons = dead(&folder, &log);
        for reason in [
            "payload: /n: value is not of type \"integer\"",
            "payload: is null",
            "event_type: `order_lost` is not in the registry",
            "aggregate_type: is missing, expected `order`",
            "aggregate_type: expected `order`, got `invoice`",
        ] {
            assert!(reasons.iter().any(|found| found == reason), "{reason} in {reasons:?}");
        }
        assert_eq!(relay.stop().0, Some(0));
    }
}

/// Why each dead letter is dead.
fn dead(folder: &Folder, log: &Log) -> Vec<String> {
    let arguments = ["dead", "list", "--subscription", "checked", "--json", "--database", &log.url];
    let answer = folder.run(&arguments).json();
    let error = |letter: &Value| letter["state"]["last_error"].as_str().unwrap_or_default().to_owned();
    answer["dead"].as_array().into_iter().flatten().map(error).collect()
}

#[tokio::test]
async fn a_changed_schema_takes_effect_at_a_reload_and_a_broken_one_does_not() {
    let folder = folder();
    let log = Log::sqlite(&folder).await;
    let relay = folder.relay(&["--database", &log.url]);
    relay.says("delivering");
    folder.write("order_created.json", "{");
    relay.send(rustix::process::Signal::HUP);
    relay.says("registry.order_created.schema");
    relay.says("going on with the old one");
    folder.write("order_created.json", json!({ "required": ["m"] }).to_string());
    folder.write("sample.json", r#"{"m":1}"#);
    relay.send(rustix::process::Signal::HUP);
    relay.says("restarted with its new settings");
    log.commit(vec![event(r#"{"n":1}"#), event(r#"{"m":2}"#)]).await;
    until("the second arrives", async || (lines(&folder.path("checked.jsonl")).len() == 1).then_some(()))
        .await;
    assert_eq!(lines(&folder.path("checked.jsonl"))[0]["payload"]["m"], 2);
    assert_eq!(relay.stop().0, Some(0));
}
