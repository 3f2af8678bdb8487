//! `posthaste status`, `subscriptions`, `keys`, `why` and `retain`, as people and scripts meet them.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use operate_common::*;
use posthaste::{AfterDead, NewEvent, Outcome, Subscription};

fn named<'a>(all: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let mut found = all["subscriptions"].as_array().expect("a list").iter();
    found
        .find(|one| one["name"] == name || one["subscription"] == name)
        .unwrap_or_else(|| panic!("{name} in {all}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_log_says_what_to_do() {
    for bench in Bench::everywhere().await {
        assert!(bench.words(&["status"]).contains("posthaste relay"));
        assert_eq!(bench.json(&["status"])["subscriptions"], serde_json::json!([]));
        assert!(bench.words(&["subscriptions", "list"]).contains("No subscriptions yet"));
        assert!(bench.words(&["dead", "list"]).contains("No dead letters"));
        assert!(bench.words(&["keys", "blocked"]).contains("No key is blocked"));
        assert!(bench.refused(3, &["subscriptions", "show", "x"]).contains("there are none yet"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdicts_are_healthy_failing_stalled_behind_and_paused() {
    for bench in Bench::everywhere().await {
        let billing = bench.worker(quick("billing").after_dead(AfterDead::Block)).await;
        let shipping = bench.worker(Subscription::new("shipping").unwrap().topic("parcels")).await;
        bench.enqueue(vec![order("a", "fine"), NewEvent::bytes("parcels", b"x".to_vec())]).await;
        bench.settled("billing", 0, 0).await;
        assert!(bench.words(&["status"]).contains("healthy  billing"));

        bench.enqueue(vec![order("b", "bad")]).await;
        bench.settled("billing", 1, 0).await;
        let bad = bench.run(&["status"]);
        assert_eq!(bad.code, 4, "{bad:?}");
        assert!(
            bad.stdout.contains("failing  billing") && bad.stdout.contains("healthy  shipping"),
            "{bad:?}"
        );
        assert!(bad.stdout.contains("card\\u{1b}[2J refused"), "shown, not obeyed: {bad:?}");
        assert!(bad.stdout.contains("-> posthaste dead list --subscription billing"), "{bad:?}");
        bench.age(120).await;
        assert!(bench.words(&["status"]).contains("1 dead from before"), "an old dead letter is no alarm");

        bench.enqueue(vec![order("b", "waits")]).await;
        bench
            .until("it waits behind the dead letter", async |bench| {
                let state = bench.posthaste.admin().subscription("billing").await.unwrap();
                state.parked.exact() == Some(1)
            })
            .await;
        let all = bench.json_and(4, &["status"]);
        assert_eq!(all["ok"], false);
        let stalled = named(&all, "billing");
        assert_eq!(
            (&stalled["verdict"], &stalled["next_step"]),
            (&"stalled".into(), &"posthaste keys blocked billing".into())
        );
        assert_eq!(
            (stalled["parked"]["count"].as_u64(), stalled["dead"]["exact"].as_bool()),
            (Some(1), Some(true))
        );
        assert_eq!(bench.json(&["status", "shipping"])["ok"], true, "only those that were named");

        billing.stop().await;
        bench.enqueue(vec![order("c", "fresh")]).await;
        bench.age(10).await;
        let alone = bench.json_and(4, &["status", "billing"]);
        assert!(
            named(&alone, "billing")["reason"].as_str().unwrap().contains("no worker is running"),
            "{alone}"
        );
        assert!(named(&alone, "billing")["oldest_seconds"].as_f64().unwrap() > 500.0);
        bench.words(&["subscriptions", "pause", "billing"]);
        let paused = bench.words(&["status"]);
        assert!(
            paused.contains("paused   billing") && paused.contains("subscriptions resume billing"),
            "{paused}"
        );
        shipping.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lag_that_moves_is_behind_and_no_alarm() {
    let bench = Bench::sqlite().await;
    let worker = bench.worker(quick("billing").settings(|s| s.rate = 1)).await;
    bench.enqueue((0..200).map(|n| order(&format!("k{n}"), "x")).collect()).await;
    bench
        .until("some were settled", async |bench| {
            let state = bench.posthaste.admin().subscription("billing").await.unwrap();
            state.lanes[0].moved_at.is_some()
        })
        .await;
    let statement = "update posthaste_events set created_at = created_at - 600000000";
    let pool = sqlx::SqlitePool::connect(&bench.url).await.unwrap();
    sqlx::query(statement).execute(&pool).await.unwrap();
    let status = bench.words(&["status"]);
    assert!(status.contains("behind   billing") && status.contains("and they move"), "{status}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_away_is_stalled() {
    for bench in Bench::everywhere().await {
        let away = |_: std::sync::Arc<posthaste::Event>| async { Outcome::unavailable("connection refused") };
        let worker = bench.posthaste.handler(quick("billing"), away).start().await.unwrap();
        bench.enqueue(vec![order("a", "x"), order("b", "x")]).await;
        bench.until("it was tried", async |_| worker.counters().unavailable() > 0).await;
        bench.age(10).await;
        let status = bench.run(&["status"]);
        assert!(status.code == 4 && status.stdout.contains("stalled  billing"), "{status:?}");
        assert!(status.stdout.contains("the receiver may be away"), "{status:?}");
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_prints_again_and_again() {
    use std::io::{BufRead, BufReader};
    let bench = Bench::sqlite().await;
    let mut child = bench.command(&["status", "--watch", "--every", "50ms", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line = lines.next().expect("another look").unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["ok"], true);
    }
    drop(lines);
    assert_eq!(answered(child).code, 0, "whoever goes away ends it");
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_shown_changed_paused_and_removed() {
    for bench in Bench::everywhere().await {
        let worker = bench.worker(quick("billing").lanes(2)).await;
        let list = bench.words(&["subscriptions", "list"]);
        assert!(list.contains("billing") && list.contains("topics orders"), "{list}");
        let show = bench.words(&["subscriptions", "show", "billing"]);
        assert!(show.contains("skip: the key goes on") && show.contains("max_attempts"), "{show}");
        let json = bench.json(&["subscriptions", "show", "billing"]);
        assert_eq!(
            (json["order"].as_str(), json["filter"]["topics"][0].as_str()),
            (Some("key"), Some("orders"))
        );
        assert_eq!(json["settings"]["base_delay"].as_f64(), Some(0.02));
        assert_eq!(json["lanes"].as_array().unwrap().len(), 2);

        let set = bench.words(&[
            "subscriptions",
            "set",
            "billing",
            "--batch-size",
            "200",
            "--max-delay",
            "2m",
            "--rate",
            "50/s",
        ]);
        assert_eq!(set.matches("changed by an operator").count(), 3, "{set}");
        let json = bench.json(&["subscriptions", "set", "billing", "--timeout", "90s"]);
        assert_eq!(
            (json["settings"]["batch_size"].as_u64(), json["settings"]["timeout"].as_f64()),
            (Some(200), Some(90.0))
        );
        assert_eq!(json["overridden"].as_array().unwrap().len(), 4);
        let refused = bench.refused(2, &["subscriptions", "set", "billing", "--base-delay", "1h"]);
        assert!(refused.contains("base_delay is longer than max_delay"), "{refused}");
        assert!(bench.refused(2, &["subscriptions", "set", "billing"]).contains("--reset"));
        let left = bench.json(&["subscriptions", "set", "billing", "--reset", "rate", "max-delay"]);
        assert_eq!(left["overridden"], serde_json::json!(["batch_size", "timeout"]));
        let left = bench.json(&["subscriptions", "set", "billing", "--reset", "batch_size"]);
        assert_eq!(left["overridden"], serde_json::json!(["timeout"]));
        assert_eq!(
            bench.json(&["subscriptions", "set", "billing", "--reset"])["overridden"],
            serde_json::json!([])
        );

        assert!(bench.words(&["subscriptions", "pause", "billing"]).contains("is paused"));
        assert!(bench.words(&["subscriptions", "pause", "billing"]).contains("was paused already"));
        assert_eq!(bench.json(&["subscriptions", "resume", "billing"])["changed"], true);
        assert_eq!(bench.json(&["subscriptions", "resume", "billing"])["changed"], false);
        let unknown = bench.refused(3, &["subscriptions", "pause", "biling"]);
        assert!(unknown.contains("did you mean `billing`?"), "{unknown}");

        bench
            .until("the worker is back", async |bench| {
                let state = bench.posthaste.admin().subscription("billing").await.unwrap();
                state.lanes.iter().all(|lane| lane.held_by.is_some())
            })
            .await;
        let held = bench.run(&["subscriptions", "remove", "billing", "--yes"]);
        assert_eq!(held.code, 1, "a worker holds it, and waiting helps: {held:?}");
        worker.stop().await;
        assert!(bench.refused(2, &["subscriptions", "remove", "billing"]).contains("add --yes"));
        assert!(
            bench.words(&["subscriptions", "remove", "billing", "--dry-run"]).contains("Nothing was changed")
        );
        assert_eq!(bench.json(&["subscriptions", "remove", "billing", "--yes"])["removed"], true);
        assert!(bench.words(&["subscriptions", "list"]).contains("No subscriptions yet"));
        let deeds = bench.posthaste.admin().operations(1).await.unwrap();
        assert!(deeds[0].who.starts_with("maria"), "who did it is recorded: {deeds:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_keys_are_listed_and_released() {
    for bench in Bench::everywhere().await {
        let worker = bench.worker(quick("billing").after_dead(AfterDead::Block)).await;
        let ids = bench
            .enqueue(vec![
                order("it's a", "bad"),
                order("it's a", "two"),
                order("b", "later"),
                order("b", "two"),
            ])
            .await;
        bench.settled("billing", 1, 3).await;
        let told = bench.words(&["keys", "blocked"]);
        assert!(told.contains(r"posthaste keys release billing 'it'\''s a'"), "{told}");
        assert!(told.contains("is tried again in"), "{told}");
        let head = format!("posthaste dead retry {} --subscription billing", ids[0]);
        assert!(told.contains("waits for you") && told.contains(&head), "{told}");
        assert!(
            told.lines().any(|line| line.starts_with(&ids[0].to_string()) && line.contains("is dead: card")),
            "{told}"
        );
        let json = bench.json(&["keys", "blocked", "billing"]);
        let keys = json["keys"].as_array().unwrap();
        assert_eq!(keys.len(), 2, "{json}");
        assert_eq!((keys[0]["key"].as_str(), keys[0]["needs_person"].as_bool()), (Some("b"), Some(false)));
        assert_eq!(keys[1]["head"]["id"].as_str(), Some(ids[0].to_string().as_str()));
        assert!(keys[1]["since"].as_str().unwrap().ends_with('Z'), "{json}");
        assert_eq!(
            (keys[1]["waiting"]["count"].as_u64(), keys[1]["head"]["status"].as_str()),
            (Some(1), Some("dead"))
        );
        let retry = bench.refused(3, &["keys", "release", "billing", "b"]);
        assert!(retry.contains("waits for a retry"), "{retry}");
        assert!(bench.refused(3, &["keys", "release", "billing", "zzz"]).contains("no dead letter holds"));
        assert!(bench.refused(3, &["keys", "blocked", "bill"]).contains("did you mean"));
        let released = bench.words(&["keys", "release", "billing", "it's a"]);
        assert_eq!(
            released,
            "Key 'it'\\''s a' of billing goes on; 1 event waited behind it.\n\
             1 dead letter stays, and no longer in its way: posthaste dead list --subscription billing\n"
        );
        bench.settled("billing", 1, 2).await;
        assert_eq!(bench.json(&["keys", "blocked"])["keys"].as_array().unwrap().len(), 1);
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_tells_the_life_of_an_event() {
    for bench in Bench::everywhere().await {
        let billing = bench.worker(quick("billing").after_dead(AfterDead::Block)).await;
        let shipping = bench.worker(Subscription::new("shipping").unwrap().topic("parcels")).await;
        let ids = bench
            .enqueue(vec![
                order("a", "fine"),
                order("b", "bad"),
                order("b", "two"),
                order("c", "later"),
                order("c", "two"),
            ])
            .await;
        bench.settled("billing", 1, 3).await;
        let why = |n: usize| bench.words(&["why", &ids[n].to_string()]);
        let fine = why(0);
        assert!(fine.contains("billing: delivered; read by worker-"), "{fine}");
        assert!(fine.contains("shipping: not for it: it wants topics parcels"), "{fine}");
        let dead = why(1);
        assert!(
            dead.contains("after 1 attempt: card\\u{1b}[2J refused; the later events of its key wait"),
            "{dead}"
        );
        assert!(dead.contains(&format!("  -> posthaste dead retry {}", ids[1])), "{dead}");
        let behind_dead = why(2).replace("\n  ", " ");
        assert!(
            behind_dead.contains(&format!("waiting behind event {} of the same key, which is dead", ids[1])),
            "{behind_dead}"
        );
        let failed = why(3);
        assert!(failed.contains("billing: failed 1 time: card service away; next attempt in"), "{failed}");
        let behind = why(4).replace("\n  ", " ");
        assert!(behind.contains("which failed 1 time: card service away; next attempt in"), "{behind}");

        let id = ids[1].to_string();
        let json = bench.json(&["why", &id]);
        let chapter = named(&json, "billing");
        assert_eq!(
            (chapter["wanted"].as_bool(), chapter["state"]["status"].as_str()),
            (Some(true), Some("dead"))
        );
        assert_eq!(named(&json, "shipping")["wanted"], false);
        bench.words(&["dead", "discard", &id]);
        let gone = why(1);
        assert!(gone.contains("billing: given up by maria (command line)"), "{gone}");
        assert_eq!(bench.json(&["why", &id])["operations"][0]["verb"], "discard");
        billing.stop().await;
        let late = bench.enqueue(vec![order("z", "x"), NewEvent::bytes("other", b"x".to_vec())]).await;
        assert!(bench.words(&["why", &late[0].to_string()]).contains("no worker is running for it"));
        assert!(
            bench
                .words(&["why", &late[1].to_string()])
                .contains("billing: not for it: it wants topics orders")
        );
        let nobody = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
        assert!(bench.refused(3, &["why", nobody]).contains("may have been removed by retention"));
        shipping.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_is_previewed_and_tells_who_holds_events_back() {
    for bench in Bench::everywhere().await {
        let worker = bench.worker(quick("billing")).await;
        bench.enqueue(vec![order("a", "one"), order("b", "two"), order("c", "bad")]).await;
        bench.settled("billing", 1, 0).await;
        bench.age(60 * 24 * 40).await;
        let preview = bench.words(&["retain", "--older-than", "30d", "--dry-run"]);
        assert!(
            preview.contains("2 events older than 30 d would go")
                && preview.contains("    billing: 1 event\n"),
            "{preview}"
        );
        let json = bench.json(&["retain", "--older-than", "30d", "--dry-run"]);
        assert_eq!((json["events"].as_u64(), json["dry_run"].as_bool()), (Some(2), Some(true)));
        assert_eq!(
            (&json["held_back"][0]["by"], &json["held_back"][0]["dead"]),
            (&"deliveries".into(), &1.into())
        );
        assert!(json["batches"].is_null(), "a dry run does not count them");
        assert_eq!(bench.json(&["events", "list"])["events"].as_array().unwrap().len(), 3, "nothing went");
        bench
            .until("another transaction is over", async |bench| {
                bench.json(&["retain", "--older-than", "30d"])["events"].as_u64().unwrap();
                bench.json(&["events", "list"])["events"].as_array().unwrap().len() == 1
            })
            .await;
        assert!(bench.words(&["retain", "--older-than", "30d"]).contains("Removed 0 events"));
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_leaves_is_told_by_reason_and_subscription() {
    for bench in Bench::everywhere().await {
        for name in ["quiet", "slow"] {
            bench.worker(quick(name).lanes(3)).await.stop().await;
        }
        bench.words(&["subscriptions", "pause", "quiet"]);
        let worker = bench.worker(quick("billing")).await;
        bench.enqueue(vec![order("a", "later"), order("a", "two"), order("c", "bad"), order("d", "x")]).await;
        bench.settled("billing", 1, 2).await;
        bench.age(60 * 24 * 40).await;
        let preview = bench.words(&["retain", "--older-than", "30d", "--dry-run"]);
        let expected = "
Older events stay, because
  a paused subscription has not read them:
    quiet: the oldest is 40 d old
      -> posthaste subscriptions resume quiet
  a subscription has not read them yet; its worker is away or slow:
    slow: the oldest is 40 d old
      -> posthaste status slow
  they are dead letters, and wait for a person:
    billing: 1 event
      -> posthaste dead list --subscription billing
  they are being delivered or retried, or wait behind one that is:
    billing: 2 events
      -> posthaste events list --subscription billing --status pending --oldest-first
";
        assert!(preview.starts_with("0 events older than 30 d would go"), "{preview}");
        assert!(preview.ends_with(expected), "{preview}");
        worker.stop().await;
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_watching_well_and_between_two_lines() {
    use std::io::{BufRead, BufReader, Read};
    let bench = Bench::sqlite().await;
    let worker = bench.worker(quick("billing")).await;
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        for arguments in [
            vec!["status", "--watch", "--every", "20ms"],
            vec!["status", "--watch", "--every", "20ms", "--json"],
            vec!["events", "list", "-f"],
            vec!["events", "list", "-f", "--json"],
        ] {
            let mut child = bench.command(&arguments).spawn().unwrap();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            let mut read = String::new();
            let reading = tokio::task::spawn_blocking(move || {
                stdout.read_line(&mut read).unwrap();
                (stdout, read)
            });
            while !reading.is_finished() {
                bench.enqueue(vec![order("a", "x")]).await;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            let (mut stdout, mut read) = reading.await.unwrap();
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
            stdout.read_to_string(&mut read).unwrap();
            let answer = answered(child);
            assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{arguments:?}");
            assert!(read.ends_with('\n') && !read.contains('\x1b'), "{arguments:?}: {read}");
        }
    }
    worker.stop().await;
}
