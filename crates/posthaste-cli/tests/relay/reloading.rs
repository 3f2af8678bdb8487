//! SIGHUP: what changed is restarted, what did not is left alone, a file with mistakes changes nothing.

use rustix::process::Signal;

use crate::log::{self, Log, numbers};
use crate::support::{Folder, Relay, lines, until};

fn table(name: &str, more: &str) -> String {
    format!(
        "[subscriptions.{name}]\n{more}\n[subscriptions.{name}.sink]\ntype = \"file\"\npath = \"{name}.jsonl\"\n"
    )
}

fn config(log: &Log, tables: &[String]) -> String {
    let head = format!("[database]\nurl = \"{}\"\n[relay]\nlisten = \"off\"\nlog = \"pretty\"\n", log.url);
    [head, tables.concat()].concat()
}

async fn arrives(folder: &Folder, name: &str, count: usize) {
    let path = folder.path(&format!("{name}.jsonl"));
    until(&format!("{count} events in {name}"), async || (lines(&path).len() == count).then_some(())).await;
}

fn again(relay: &Relay, folder: &Folder, text: &str) {
    folder.write("posthaste.toml", text);
    relay.send(Signal::HUP);
}

#[tokio::test]
async fn added_changed_and_removed_subscriptions_take_effect_and_others_are_left_alone() {
    for log in log::all(&Folder::new()).await {
        let (same, old) = (table("same", ""), table("old", ""));
        let folder = Folder::with(&config(&log, &[same.clone(), old, table("changing", "batch_size = 10")]));
        let relay = folder.relay(&[]);
        relay.says("Delivering.");
        log.enqueue("orders", 0, 10, 3).await;
        for name in ["same", "old", "changing"] {
            arrives(&folder, name, 10).await;
        }
        let changing = table("changing", "batch_size = 20").replace("changing.jsonl", "changed.jsonl");
        again(&relay, &folder, &config(&log, &[same, changing, table("new", "start = \"now\"")]));
        relay.says("stopped: it is no longer configured; its progress stays in the database");
        relay.says("restarted with its new settings");
        log.enqueue("orders", 10, 15, 3).await;
        arrives(&folder, "same", 15).await;
        arrives(&folder, "changed", 5).await;
        arrives(&folder, "new", 5).await;
        let (code, words) = relay.stop();
        assert_eq!(code, Some(0), "{words}");
        assert_eq!(lines(&folder.path("old.jsonl")).len(), 10, "the removed one got nothing more");
        for said in
            ["added subscription=\"new\"", "restarted with its new settings subscription=\"changing\""]
        {
            assert!(words.contains(said), "{said}\n{words}");
        }
        assert!(!words.contains("subscription=\"same\""), "{words}");
        assert_eq!(numbers(&lines(&folder.path("changed.jsonl"))), [10, 11, 12, 13, 14]);
    }
}

#[tokio::test]
async fn a_file_with_mistakes_changes_nothing_and_all_are_said() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    let good = config(&log, &[table("orders", "")]);
    folder.write("posthaste.toml", &good);
    let relay = folder.relay(&[]);
    relay.says("Delivering.");
    again(
        &relay,
        &folder,
        &config(&log, &[table("orders", "lanes = 0\nbatch_size = 0"), table("b", "order = 1")]),
    );
    relay.says("going on with the old one");
    for path in ["subscriptions.orders.lanes", "subscriptions.orders.batch_size", "subscriptions.b.order"] {
        assert!(relay.words().contains(path), "{path}\n{}", relay.words());
    }
    again(&relay, &folder, "[database");
    relay.says_times("going on with the old one", 2);
    again(&relay, &folder, &config(&log, &[]));
    relay.says_times("going on with the old one", 3);
    log.enqueue("orders", 0, 5, 1).await;
    arrives(&folder, "orders", 5).await;
    again(&relay, &folder, &good);
    relay.says("no subscription changed");
    again(&relay, &folder, &good.replace("log = \"pretty\"", "log = \"pretty\"\ngrace = \"5s\""));
    relay.says("[relay] changed; this takes effect when the relay is restarted");
    assert_eq!(relay.stop().0, Some(0));
}

#[tokio::test]
async fn a_changed_filter_and_order_are_in_force_after_a_reload() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    folder.write("posthaste.toml", config(&log, &[table("a", "topics = [\"orders\"]")]));
    let relay = folder.relay(&[]);
    relay.says("Delivering.");
    log.enqueue("orders", 0, 3, 1).await;
    arrives(&folder, "a", 3).await;
    again(
        &relay,
        &folder,
        &config(&log, &[table("a", "topics = [\"orders\", \"carts\"]\norder = \"none\"")]),
    );
    relay.says("restarted with its new settings");
    log.enqueue("carts", 3, 6, 1).await;
    arrives(&folder, "a", 6).await;
    let state = log.posthaste.admin().subscription("a").await.expect("its state");
    assert_eq!((state.order, state.filter.topics.len()), (posthaste::Order::None, 2));
    assert_eq!(relay.stop().0, Some(0));
}
