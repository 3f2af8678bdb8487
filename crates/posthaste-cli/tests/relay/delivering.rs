//! The relay at work: everything arrives, stopping loses and repeats nothing, settings change while it runs.

use std::collections::HashSet;
use std::process::Command;

use posthaste::admin::SettingsChange;
use rustix::process::Signal;

use crate::log::{self, Log, assert_in_order_per_key, numbers};
use crate::support::{Folder, lines, until};

const ORDERS: &str = "[relay]\nlisten = \"off\"\nlog = \"pretty\"\n[subscriptions.orders]\ntopics = [\"orders\"]\n\
                      [subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n";

fn arrived(folder: &Folder) -> Vec<u64> {
    numbers(&lines(&folder.path("out.jsonl")))
}

#[tokio::test]
async fn a_stop_in_the_middle_loses_and_repeats_nothing() {
    for log in log::all(&Folder::new()).await {
        let folder = Folder::with(&format!("{ORDERS}[defaults]\nbatch_size = 20\n"));
        log.enqueue("orders", 0, 1500, 10).await;
        log.enqueue("carts", 0, 10, 10).await;
        let mut stops = 0;
        while arrived(&folder).len() < 1500 {
            let before = arrived(&folder).len();
            let relay = folder.relay(&["--database", &log.url]);
            until("progress", async || (arrived(&folder).len() > before).then_some(())).await;
            let (code, words) = relay.stop();
            assert_eq!(code, Some(0), "{} {words}", log.name);
            assert!(words.contains("stopped cleanly"), "{words}");
            stops += 1;
        }
        let arrived = arrived(&folder);
        assert_eq!(arrived.len(), 1500, "{} after {stops} stops", log.name);
        assert_eq!(arrived.iter().collect::<HashSet<_>>().len(), 1500, "no repetition");
        assert_in_order_per_key(&arrived, 10);
    }
}

#[tokio::test]
async fn the_start_is_reported_without_payloads_and_secrets() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    folder.write("posthaste.toml", ORDERS);
    log.enqueue("orders", 0, 5, 2).await;
    let relay = folder.relay(&["--name", "left", "--database", &log.url]);
    relay.says("relay left.");
    relay.says("topics orders, in order per key");
    relay.says("to file out.jsonl");
    relay.says("Delivering. Ctrl-C or SIGTERM stops it cleanly");
    until("five events", async || (arrived(&folder).len() == 5).then_some(())).await;
    let (code, words) = relay.stop();
    assert!(code == Some(0) && !words.contains("p4yl0ad"), "{words}");
    let relay = folder.relay(&["--json", "--database", &log.url]);
    relay.says("\"message\":\"delivering\"");
    let (_, words) = relay.stop();
    for line in words.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    }
}

#[tokio::test]
async fn failures_are_log_lines_too_for_those_who_collect_json() {
    let folder = Folder::with(ORDERS);
    let ended = folder.run(&["relay", "--json", "--database", "sqlite:absent.db"]);
    assert_eq!(ended.code, Some(78));
    let last = ended.stderr.lines().last().expect("a line");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert!(last["message"].as_str().is_some_and(|text| text.contains("there is no database")), "{last}");
}

/// Nobody reads from the pipe, so a delivery hangs for ever.
fn with_a_hanging_sink() -> Folder {
    let folder = Folder::with(&ORDERS.replace("out.jsonl", "pipe"));
    assert!(Command::new("mkfifo").arg(folder.path("pipe")).status().expect("mkfifo").success());
    folder
}

pub(crate) async fn until_it_hangs(log: &Log) {
    let held = async || {
        let state = log.posthaste.admin().subscription("orders").await.ok()?;
        (!state.in_flight.is_zero()).then_some(())
    };
    until("a delivery under way", held).await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = with_a_hanging_sink();
    let log = Log::sqlite(&folder).await;
    log.enqueue("orders", 0, 5, 2).await;
    let mut relay = folder.relay(&["--grace", "1h", "--database", &log.url]);
    until_it_hangs(&log).await;
    relay.send(Signal::TERM);
    relay.says("stopping");
    relay.send(Signal::INT);
    assert_eq!(relay.ends().code(), Some(130), "{}", relay.words());
}

#[tokio::test]
async fn a_sink_that_hangs_does_not_hold_up_the_stop_beyond_the_grace_time() {
    let folder = with_a_hanging_sink();
    let log = Log::sqlite(&folder).await;
    log.enqueue("orders", 0, 5, 2).await;
    let relay = folder.relay(&["--grace", "1s", "--database", &log.url]);
    until_it_hangs(&log).await;
    let (code, words) = relay.stop();
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("stopped after the grace time of 1s: "), "{words}");
    assert!(words.contains("still being delivered") && !words.contains("stopped cleanly"), "{words}");
    let state = log.posthaste.admin().subscription("orders").await.expect("its state");
    assert_eq!((state.lag.exact(), state.dead.is_zero()), (Some(5), true), "nothing counts as delivered");
}

#[tokio::test]
async fn settings_changed_in_the_database_take_effect_without_a_restart() {
    for log in log::all(&Folder::new()).await {
        let (folder, admin) = (Folder::with(ORDERS), log.posthaste.admin());
        let relay = folder.relay(&["--database", &log.url]);
        relay.says("Delivering.");
        let single = SettingsChange::new(|settings| settings.batch_size = Some(1));
        admin.change_settings("orders", single).await.expect("changed");
        let mut written = 0;
        until("a batch for each event", async || {
            let before = batches(&log).await;
            log.enqueue("orders", written, written + 10, 1).await;
            written += 10;
            until("ten more", async || (arrived(&folder).len() == written).then_some(())).await;
            // PostgreSQL may need one more to close the window.
            (batches(&log).await >= before + 10).then_some(())
        })
        .await;
        admin.pause("orders").await.expect("paused");
        until("nobody claims", async || {
            let state = admin.subscription("orders").await.expect("its state");
            state.lanes.iter().all(|lane| lane.held_by.is_none()).then_some(())
        })
        .await;
        log.enqueue("orders", written, written + 5, 1).await;
        assert_eq!(arrived(&folder).len(), written, "paused");
        admin.resume("orders").await.expect("resumed");
        until("the rest", async || (arrived(&folder).len() == written + 5).then_some(())).await;
        assert_eq!(relay.stop().0, Some(0));
    }
}

async fn batches(log: &Log) -> i64 {
    let state = log.posthaste.admin().subscription("orders").await.expect("its state");
    state.lanes.iter().map(|lane| lane.batches).sum()
}
