//! `posthaste replay` and `subscriptions rewind`: again from a place on, watched, slowed down, interrupted.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use operate_common::*;
use posthaste::Worker;

/// Twenty events, delivered.
async fn delivered(bench: &Bench) -> (Vec<posthaste::EventId>, Worker) {
    let worker = bench.worker(quick("billing")).await;
    let ids = bench.enqueue((0..20).map(|n| order(&format!("k{}", n % 4), &n.to_string())).collect()).await;
    bench.until("all are delivered", async |_| worker.counters().delivered() == 20).await;
    bench.settled("billing", 0, 0).await;
    (ids, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_delivers_again_and_shows_it() {
    for bench in Bench::everywhere().await {
        let (ids, worker) = delivered(&bench).await;
        let refused = bench.refused(2, &["replay", "billing", "--from", "beginning"]);
        assert!(
            refused.contains("Deliver 20 events to billing once more? There is no terminal"),
            "{refused}"
        );
        let dry = bench.json(&["replay", "billing", "--from", "1h", "--dry-run"]);
        assert_eq!((dry["events"]["count"].as_u64(), dry["dry_run"].as_bool()), (Some(20), Some(true)));
        assert_eq!(worker.counters().delivered(), 20, "nothing moved yet");

        let told = bench.run(&["replay", "billing", "--from", "beginning", "--yes"]);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(told.stdout.contains("Done: billing has caught up; 20 events once more"), "{told:?}");
        assert!(told.stderr.contains("100 % (20 of 20)"), "progress is talk: {told:?}");
        bench.until("delivered again", async |_| worker.counters().delivered() == 40).await;

        let json = bench.json(&["replay", "billing", "--from", &ids[15].to_string(), "--yes"]);
        assert_eq!((json["done"].as_bool(), json["events"]["count"].as_u64()), (Some(true), Some(5)));
        bench.until("the last five again", async |_| worker.counters().delivered() == 45).await;
        let nothing = bench.words(&["replay", "billing", "--from", "2100-01-01", "--yes"]);
        assert!(nothing.contains("nothing to do"), "{nothing}");
        let nobody = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
        assert!(
            bench.refused(3, &["replay", "billing", "--from", nobody, "--yes"]).contains("there is no event")
        );
        assert!(bench.refused(3, &["replay", "shiping", "--from", "1h"]).contains("there are billing"));
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_moves_without_watching() {
    for bench in Bench::everywhere().await {
        let (ids, worker) = delivered(&bench).await;
        let told =
            bench.words(&["subscriptions", "rewind", "billing", "--to", &ids[10].to_string(), "--yes"]);
        assert!(told.contains("reads again from event number"), "{told}");
        bench.until("the last ten again", async |_| worker.counters().delivered() == 30).await;
        let json = bench.json(&["subscriptions", "rewind", "billing", "--to", "beginning", "--yes"]);
        assert_eq!(json["events"]["count"], 20);
        bench.until("all again", async |_| worker.counters().delivered() == 50).await;
        assert!(
            bench.refused(2, &["subscriptions", "rewind", "billing", "--to", "1h"]).contains("add --yes")
        );
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_lasts_as_long_as_the_replay() {
    for bench in Bench::everywhere().await {
        let (_, worker) = delivered(&bench).await;
        let batches = worker.counters().batches();
        let state = async || bench.posthaste.admin().subscription("billing").await.unwrap();
        let rate = async || state().await.settings.rate;
        let child = bench
            .command(&["replay", "billing", "--from", "beginning", "--rate", "10/s", "--yes"])
            .spawn()
            .unwrap();
        bench.until("the limit is set", async |_| rate().await == 10).await;
        let answer = answered(child);
        assert!(answer.code == 0 && answer.stdout.contains("Done"), "{answer:?}");
        assert_eq!(rate().await, 0, "and taken away again");
        assert!(state().await.overridden.is_empty(), "nothing is left of it: {:?}", state().await);
        let claims = worker.counters().batches() - batches;
        assert!(claims >= 10, "from its first claim on, two events each: {claims}");
        assert!(worker.counters().delivered() >= 40);
        let told =
            bench.run(&["replay", "billing", "--from", "beginning", "--rate", "5", "--yes", "--no-watch"]);
        assert!(told.stderr.contains("posthaste subscriptions set billing --reset rate"), "{told:?}");
        assert_eq!(rate().await, 5, "it stays, and the sentence said so");
        bench.words(&["subscriptions", "set", "billing", "--rate", "1000"]);
        bench.words(&["replay", "billing", "--from", "beginning", "--rate", "500", "--yes"]);
        assert_eq!(rate().await, 1000, "what an operator had put there is put there again");
        let told =
            bench.run(&["replay", "billing", "--from", "beginning", "--rate", "5", "--yes", "--no-watch"]);
        assert!(told.stderr.contains("posthaste subscriptions set billing --rate 1000"), "{told:?}");
        worker.stop().await;
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_the_watching_and_not_the_replay() {
    use std::io::{BufRead, BufReader, Read};
    for bench in Bench::everywhere().await {
        let (_, worker) = delivered(&bench).await;
        let arguments = ["replay", "billing", "--from", "beginning", "--rate", "1", "--yes"];
        let mut child = bench.command(&arguments).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains(" of 20)"), "it watches: {line}");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        let answer = answered(child);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(answer.stdout.contains("Stopped watching. The replay of billing goes on"), "{answer:?}");
        assert!(rest.contains("The limit of 1 event a second stays"), "{rest}");
        bench.words(&["subscriptions", "set", "billing", "--reset", "rate"]);
        bench.until("it went on", async |_| worker.counters().delivered() >= 40).await;
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_nobody_can_begin_says_so() {
    let bench = Bench::sqlite().await;
    let (_, worker) = delivered(&bench).await;
    bench.words(&["subscriptions", "pause", "billing"]);
    let paused = bench.run(&["replay", "billing", "--from", "beginning", "--yes"]);
    assert!(paused.stdout.contains("posthaste subscriptions resume billing"), "{paused:?}");
    worker.stop().await;
    bench.words(&["subscriptions", "resume", "billing"]);
    let alone = bench.run(&["replay", "billing", "--from", "beginning", "--yes"]);
    assert!(alone.code == 0 && alone.stdout.contains("No worker is running for billing"), "{alone:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_early_ctrl_c_takes_the_limit_away_and_moves_nothing() {
    let bench = Bench::sqlite().await;
    let (_, worker) = delivered(&bench).await;
    let state = async || bench.posthaste.admin().subscription("billing").await.unwrap();
    let arguments = ["replay", "billing", "--from", "beginning", "--rate", "1", "--yes"];
    let child = bench.command(&arguments).spawn().unwrap();
    bench.until("the limit is set", async |_| state().await.settings.rate == 1).await;
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let answer = answered(child);
    // On a machine that slept through the second and a half, the replay had begun: then the sentence says what stays.
    if answer.code == 1 {
        assert!(answer.stderr.contains("nothing was changed"), "{answer:?}");
        assert!(state().await.overridden.is_empty(), "{answer:?}");
        assert_eq!(worker.counters().delivered(), 20);
    } else {
        assert!(answer.code == 0 && answer.stderr.contains("--reset rate"), "{answer:?}");
    }
    worker.stop().await;
}
