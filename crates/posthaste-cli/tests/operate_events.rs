//! `posthaste events`: listing, paging, following, showing, enqueueing.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use std::io::{BufRead, BufReader, Read};

use operate_common::*;
use posthaste::NewEvent;
use serde_json::Value;

fn bodies(page: &Value) -> Vec<String> {
    let events = page["events"].as_array().expect("a list").iter();
    events.map(|event| event["payload"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_listed_by_every_filter_and_page_after_page() {
    for bench in Bench::everywhere().await {
        let tenant = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
        bench.enqueue((1..=5).map(|n| order("k", &n.to_string())).collect()).await;
        let other = NewEvent::bytes("parcels", b"6".to_vec()).namespace("eu").tenant(tenant.parse().unwrap());
        bench.enqueue(vec![other.aggregate("parcel", "p-6")]).await;
        let list = |arguments: &[&str]| bodies(&bench.json(&[&["events", "list"], arguments].concat()));
        assert_eq!(list(&[]), ["6", "5", "4", "3", "2", "1"]);
        assert_eq!(list(&["--oldest-first", "--limit", "2"]), ["1", "2"]);
        for filter in [
            ["--topic", "parcels"],
            ["--namespace", "eu"],
            ["--tenant", tenant],
            ["--aggregate-type", "parcel"],
            ["--aggregate-id", "p-6"],
            ["--key", "p-6"],
            ["--text", "6"],
        ] {
            assert_eq!(list(&filter), ["6"], "{filter:?}");
        }
        assert_eq!(list(&["--type", "order.created"]).len(), 5);
        assert_eq!(list(&["--since", "1h"]).len(), 6);
        assert!(list(&["--until", "1h"]).is_empty());
        assert!(
            bench.refused(3, &["events", "list", "--subscription", "billing"]).contains("there are none yet")
        );

        let (mut seen, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut arguments = vec!["events", "list", "--limit", "4"];
            arguments.extend(after.iter().flat_map(|after| ["--after", after]));
            let page = bench.json(&arguments);
            seen.extend(bodies(&page));
            match page["next"].as_i64() {
                Some(next) => after = Some(next.to_string()),
                None => break,
            }
        }
        assert_eq!(seen, ["6", "5", "4", "3", "2", "1"]);
        let words = bench.run(&["events", "list", "--limit", "4"]);
        assert_eq!((words.code, words.stdout.lines().count()), (0, 5), "{words:?}");
        assert!(words.stderr.contains("for the next page add: --after "), "talk goes to stderr: {words:?}");
        assert!(bench.run(&["events", "list", "--key", "nobody"]).stderr.contains("No event matches"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_listed_by_their_state_in_a_subscription() {
    for bench in Bench::everywhere().await {
        let worker = bench.worker(quick("billing")).await;
        bench.enqueue(vec![order("a", "\"fine\""), order("b", "\"bad\""), order("c", "\"later\"")]).await;
        bench.settled("billing", 1, 1).await;
        let list = |arguments: &[&str]| {
            bench.json(&[&["events", "list", "--subscription", "billing"], arguments].concat())
        };
        assert_eq!(bodies(&list(&["--status", "delivered"])), ["\"fine\""]);
        assert_eq!(bodies(&list(&["--status", "dead"])), ["\"bad\""]);
        assert_eq!(bodies(&list(&["--error", "service away"])), ["\"later\""]);
        let pending = list(&["--status", "pending"]);
        let state = &pending["events"][0]["state"];
        assert_eq!(
            (state["attempts"].as_u64(), state["last_error"].as_str()),
            (Some(1), Some("card service away"))
        );
        assert_eq!(state["history"][0]["outcome"], "retry");
        let words = bench.words(&["events", "list", "--subscription", "billing"]);
        assert!(words.contains("dead       1") && words.contains("delivered  0"), "{words}");
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_enqueued_with_everything_and_shown_to_the_byte() {
    for bench in Bench::everywhere().await {
        let body = r#"{"number":12345678901234567890123,"nested":{"list":[1,2]}}"#;
        let enqueued = bench.json(&[
            "events",
            "enqueue",
            "orders",
            body,
            "--key",
            "k",
            "--type",
            "order.created",
            "-H",
            "a=b=c",
            "-H",
            "Trace=x",
            "--dedupe-key",
            "d",
            "--aggregate-type",
            "order",
            "--aggregate-id",
            "17",
            "--namespace",
            "eu",
        ]);
        let id = enqueued["id"].as_str().unwrap().to_owned();
        assert_eq!(enqueued["duplicate"], false);
        let shown = bench.run(&["events", "show", &id, "--json"]).stdout;
        assert!(shown.contains(&format!("\"payload\":{body}")), "no digit is lost: {shown}");
        let json: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(
            (json["headers"]["a"].as_str(), json["headers"]["trace"].as_str()),
            (Some("b=c"), Some("x"))
        );
        assert_eq!(
            (json["content_type"].as_str(), json["aggregate_id"].as_str()),
            (Some("application/json"), Some("17"))
        );
        assert!(json["created_at"].as_str().unwrap().ends_with('Z'));
        let words = bench.words(&["events", "show", &id]);
        assert!(words.contains("    \"number\": 12345678901234567890123,"), "{words}");
        assert!(
            words.contains("header      a: b=c") && words.contains("No subscription wants it"),
            "{words}"
        );
        assert_eq!(bench.words(&["events", "show", &id, "--payload-only"]), body);
        let again =
            bench.words(&["events", "enqueue", "orders", "x", "--dedupe-key", "d", "--namespace", "eu"]);
        assert!(again.contains("enqueued before") && again.contains(&id), "{again}");

        let delayed = bench.json(&["events", "enqueue", "orders", "plain text", "--delay", "10m"]);
        let json = bench.json(&["events", "show", delayed["id"].as_str().unwrap()]);
        assert!(json["available_at"].is_string());
        assert_eq!(
            (json["payload"].as_str(), json["payload_encoding"].as_str()),
            (Some("cGxhaW4gdGV4dA=="), Some("base64"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_from_an_argument_a_file_or_stdin() {
    let bench = Bench::sqlite().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let at = format!("@{}", file.path().display());
    let id = |answer: Answer| {
        assert_eq!(answer.code, 0, "{answer:?}");
        let json: Value = serde_json::from_str(&answer.stdout).unwrap();
        json["id"].as_str().unwrap().to_owned()
    };
    let by_file = id(bench.run(&["events", "enqueue", "t", &at, "--json"]));
    let by_stdin = id(fed(bench.command(&["events", "enqueue", "t", "--json"]), &bytes));
    let by_dash = id(fed(bench.command(&["events", "enqueue", "t", "-", "--json"]), &bytes));
    for id in [by_file, by_stdin, by_dash] {
        let output = bench.command(&["events", "show", &id, "--payload-only"]).output().unwrap();
        assert_eq!(output.stdout, bytes);
        let words = bench.words(&["events", "show", &id]);
        assert!(words.contains("00000040  40 41 42"), "a hex dump: {words}");
    }
    assert!(
        bench
            .refused(1, &["events", "enqueue", "t", "@/no/such/file"])
            .contains("could not read /no/such/file")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn following_prints_what_comes_and_ends_when_nobody_reads() {
    for bench in Bench::everywhere().await {
        bench.enqueue(vec![order("k", "\"before\"")]).await;
        let mut child =
            bench.command(&["events", "list", "-f", "--topic", "orders", "--json"]).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut first = None;
        // Nothing tells from outside when the look has begun: enqueue until one is printed.
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            drop(stop);
            (reader, line)
        });
        tokio::pin!(stopped);
        let mut n = 0;
        while first.is_none() {
            n += 1;
            bench.enqueue(vec![order("k", &n.to_string()), NewEvent::bytes("other", b"x".to_vec())]).await;
            tokio::select! {
                _ = &mut stopped => first = Some(()),
                () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
            }
        }
        let (mut reader, line) = reading.await.unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let begin = event["payload"].as_u64().expect("not the one from before");
        let last = n + 1;
        bench.enqueue(vec![order("k", &last.to_string())]).await;
        for expected in begin + 1..=last {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(event["payload"].as_u64(), Some(expected), "in order, none twice, no other topic");
        }
        drop(reader);
        // It notices at the next line it writes.
        bench.enqueue(vec![order("k", "0")]).await;
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_disaster() {
    let bench = Bench::sqlite().await;
    bench.enqueue((0..400).map(|n| order("k", &"x".repeat(1000 + n))).collect()).await;
    for arguments in
        [vec!["events", "list", "--limit", "400"], vec!["events", "list", "--limit", "400", "--json"]]
    {
        let mut child = bench.command(&arguments).spawn().unwrap();
        drop(child.stdout.take());
        let answer = answered(child);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(!answer.stderr.contains("panicked") && !answer.stderr.contains("could not"), "{answer:?}");
    }
}
