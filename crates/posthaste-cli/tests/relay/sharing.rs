//! Two relays on one database: they share the work, and one finishes it when the other is killed.

use std::collections::HashSet;

use posthaste_testkit::servers;
use rustix::process::Signal;

use crate::log::{Log, assert_in_order_per_key, numbers};
use crate::support::{Folder, Relay, lines, until};

const KEYS: usize = 40;

fn config(log: &Log, more: &str) -> String {
    format!(
        "[database]\nurl = \"{}\"\n[relay]\nlisten = \"off\"\nlog = \"pretty\"\n\
         [subscriptions.orders]\nlease = \"2s\"\nbatch_size = 10\n{more}\n\
         [subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n",
        log.url
    )
}

fn two(folder: &Folder) -> [Relay; 2] {
    let relays = [folder.relay(&["--name", "left"]), folder.relay(&["--name", "right"])];
    relays.iter().for_each(|relay| drop(relay.says("Delivering.")));
    relays
}

fn arrived(folder: &Folder) -> Vec<u64> {
    numbers(&lines(&folder.path("out.jsonl")))
}

async fn all_arrive(folder: &Folder, count: usize) {
    let distinct = async || (arrived(folder).iter().collect::<HashSet<_>>().len() == count).then_some(());
    until(&format!("{count} events"), distinct).await;
}

/// Which relays hold lanes at the moment.
async fn holders(log: &Log) -> HashSet<String> {
    let state = log.posthaste.admin().subscription("orders").await.expect("its state");
    let short = |name: String| name.split('.').next().unwrap_or_default().to_owned();
    state.lanes.into_iter().filter_map(|lane| lane.held_by.map(short)).collect()
}

#[tokio::test]
async fn lanes_are_shared_and_after_a_kill_the_other_finishes_in_order() {
    for server in servers() {
        let log = Log::postgres(&server).await;
        let folder = Folder::with(&config(&log, "lanes = 8"));
        let [left, right] = two(&folder);
        until("both hold lanes", async || (holders(&log).await.len() == 2).then_some(())).await;
        let writing = log.enqueue("orders", 0, 4000, KEYS);
        let killing = async {
            until("half of it", async || (arrived(&folder).len() > 1000).then_some(())).await;
            left.send(Signal::KILL);
        };
        tokio::join!(writing, killing);
        all_arrive(&folder, 4000).await;
        assert_in_order_per_key(&arrived(&folder), KEYS as u64);
        until("the other holds all lanes", async || {
            (holders(&log).await == HashSet::from(["right".to_owned()])).then_some(())
        })
        .await;
        let (code, words) = right.stop();
        assert_eq!(code, Some(0), "{words}");
    }
}

#[tokio::test]
async fn without_order_both_claim_and_after_a_kill_nothing_is_missing() {
    for server in servers() {
        let log = Log::postgres(&server).await;
        let folder = Folder::with(&config(&log, "order = \"none\""));
        let own = |name: &'static str| {
            let mut command = folder.command(&["relay", "--name", name]);
            let path = format!("{name}.jsonl");
            Relay::start({
                command.env("POSTHASTE_SUBSCRIPTIONS__ORDERS__SINK__PATH", path);
                command
            })
        };
        let (left, right) = (own("left"), own("right"));
        left.says("Delivering.");
        right.says("Delivering.");
        let got = |name: &str| numbers(&lines(&folder.path(&format!("{name}.jsonl"))));
        let mut written = 0;
        while got("left").is_empty() || got("right").is_empty() {
            log.enqueue("orders", written, written + 500, KEYS).await;
            written += 500;
            assert!(written < 100_000, "one of them gets nothing");
        }
        left.send(Signal::KILL);
        log.enqueue("orders", written, written + 500, KEYS).await;
        written += 500;
        until("all events", async || {
            let all: HashSet<u64> = got("left").into_iter().chain(got("right")).collect();
            (all.len() == written).then_some(())
        })
        .await;
        assert_eq!(right.stop().0, Some(0));
    }
}

#[tokio::test]
async fn two_relays_share_a_sqlite_file_and_the_second_takes_over() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    folder.write("posthaste.toml", config(&log, ""));
    let [left, right] = two(&folder);
    until("one holds the lane", async || (holders(&log).await.len() == 1).then_some(())).await;
    log.enqueue("orders", 0, 300, KEYS).await;
    all_arrive(&folder, 300).await;
    let left_holds = holders(&log).await.contains("left");
    let (holder, other) = if left_holds { (left, right) } else { (right, left) };
    holder.send(Signal::KILL);
    log.enqueue("orders", 300, 600, KEYS).await;
    all_arrive(&folder, 600).await;
    assert_in_order_per_key(&arrived(&folder), KEYS as u64);
    assert_eq!(other.stop().0, Some(0));
}
