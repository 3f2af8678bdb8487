//! `/healthz` and `/readyz`, and sinks that come and go.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::log::{self, Log};
use crate::support::{Folder, Relay, lines, until};

/// The status and the body of a plain request.
pub(crate) fn ask(address: &str, request: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "{request} HTTP/1.1\r\nhost: {address}\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn orders(log: &Log) -> String {
    format!(
        "[database]\nurl = \"{}\"\n[relay]\nlisten = \"127.0.0.1:0\"\nlog = \"pretty\"\n\
         [subscriptions.orders.sink]\ntype = \"file\"\npath = \"away/out.jsonl\"\n",
        log.url
    )
}

fn start(folder: &Folder, log: &Log) -> (Relay, String) {
    std::fs::create_dir(folder.path("away")).expect("a folder");
    folder.write("posthaste.toml", orders(log));
    let relay = folder.relay(&[]);
    relay.says("Delivering.");
    let address = relay.address();
    (relay, address)
}

#[tokio::test]
async fn a_relay_is_ready_while_the_database_answers_with_the_right_tables() {
    for log in log::all(&Folder::new()).await {
        let folder = Folder::new();
        let (relay, address) = start(&folder, &log);
        let (status, body) = ask(&address, "GET /readyz");
        assert_eq!((status, &body["ready"], &body["database"]), (200, &true.into(), &"ok".into()), "{body}");
        assert_eq!(body["subscriptions"]["orders"]["state"], "ok", "{body}");
        match log.name.as_str() {
            "sqlite" => log.execute("update posthaste_meta set version = 99").await,
            _ => log.execute("update posthaste.meta set version = 99").await,
        }
        let (status, body) = ask(&address, "GET /readyz");
        assert_eq!((status, &body["ready"]), (503, &false.into()), "{body}");
        assert!(body["database"].as_str().is_some_and(|text| text.contains("version 99")), "{body}");
        assert_eq!(ask(&address, "GET /healthz").0, 200, "it lives all the same");
        assert_eq!(relay.stop().0, Some(0));
    }
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_politely() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    let (_relay, address) = start(&folder, &log);
    for (request, status) in [
        ("GET /", 404),
        ("GET /readyz/../etc/passwd", 404),
        ("POST /healthz", 405),
        ("DELETE /readyz", 405),
        ("HEAD /healthz", 200),
        ("GET /healthz?verbose=1", 200),
    ] {
        assert_eq!(ask(&address, request).0, status, "{request}");
    }
}

#[tokio::test]
async fn a_sink_that_goes_away_is_said_once_and_does_not_make_the_relay_unready() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    let (relay, address) = start(&folder, &log);
    until("the first check", async || folder.path("away/out.jsonl").exists().then_some(())).await;
    std::fs::remove_dir_all(folder.path("away")).expect("the folder goes away");
    log.enqueue("orders", 0, 5, 2).await;
    relay.says("the sink is away; its events wait");
    let (status, body) = ask(&address, "GET /readyz");
    assert_eq!(status, 200, "{body}");
    let orders = &body["subscriptions"]["orders"];
    assert_eq!(orders["state"], "away", "{body}");
    assert!(orders["reason"].as_str().is_some_and(|reason| reason.contains("out.jsonl")), "{body}");
    log.enqueue("orders", 5, 10, 2).await;
    std::fs::create_dir(folder.path("away")).expect("the folder is back");
    relay.says("the sink is back");
    until("ten events", async || (lines(&folder.path("away/out.jsonl")).len() == 10).then_some(())).await;
    let state = log.posthaste.admin().subscription("orders").await.expect("its state");
    assert_eq!((state.dead.is_zero(), state.retrying.is_zero()), (true, true), "an outage burns no attempts");
    let (code, words) = relay.stop();
    assert_eq!((code, words.matches("the sink is away").count()), (Some(0), 1), "{words}");
    assert_eq!(words.matches("the sink is back").count(), 1, "{words}");
}

#[tokio::test]
async fn a_sink_that_is_away_at_the_start_is_waited_for_even_if_there_is_nothing_to_deliver() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    std::fs::create_dir(folder.path("away")).expect("a folder");
    std::fs::create_dir(folder.path("elsewhere")).expect("a folder");
    // A link to nowhere: its folder is there, so the configuration is right, but the file cannot be opened.
    let link = folder.path("away/out.jsonl");
    std::os::unix::fs::symlink(folder.path("elsewhere/later/file.jsonl"), &link).expect("a link");
    folder.write("posthaste.toml", orders(&log));
    let relay = folder.relay(&[]);
    relay.says("the sink is away; its events wait");
    std::fs::create_dir(folder.path("elsewhere/later")).expect("a folder");
    relay.says("the sink is back");
    assert_eq!(relay.stop().0, Some(0));
}

/// 127.0.0.2 is this machine, too, but another address than the usual one: it is answered only by who listens everywhere.
#[tokio::test]
async fn health_is_told_to_this_machine_unless_somebody_says_otherwise() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    std::fs::create_dir(folder.path("away")).expect("a folder");
    folder.write("posthaste.toml", orders(&log));
    for (listen, everywhere) in [("127.0.0.1:0", false), ("localhost:0", false), ("0.0.0.0:0", true)] {
        let relay = folder.relay(&["--listen", listen]);
        relay.says("Delivering.");
        let address = relay.address();
        let (host, port) = address.rsplit_once(':').expect("a port");
        assert_eq!(host, if everywhere { "0.0.0.0" } else { "127.0.0.1" });
        assert_eq!(ask(&format!("127.0.0.1:{port}"), "GET /healthz").0, 200, "{listen}");
        assert_eq!(TcpStream::connect(format!("127.0.0.2:{port}")).is_ok(), everywhere, "{listen}");
        let (code, words) = relay.stop();
        assert_eq!(code, Some(0), "{words}");
        assert_eq!(words.contains("is not only for this machine"), everywhere, "{words}");
    }
    for no_address in ["0", ":0", "9470", ":9470", "*:9470", "off:9470"] {
        let ended = folder.run(&["relay", "--listen", no_address]);
        assert_eq!(ended.code, Some(2), "{no_address}: {ended:?}");
        assert!(ended.stderr.contains("such as \"127.0.0.1:9470\""), "{ended:?}");
    }
}

#[tokio::test]
async fn the_usual_address_is_this_machine() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    std::fs::create_dir(folder.path("away")).expect("a folder");
    folder.write("posthaste.toml", orders(&log).replace("listen = \"127.0.0.1:0\"\n", ""));
    let relay = folder.relay(&[]);
    relay.says("Delivering.");
    // Somebody else may have the port; then it is named as taken.
    let (code, words) = relay.stop();
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("127.0.0.1:9470") && !words.contains("0.0.0.0"), "{words}");
}

/// What is held cannot be removed, so a person pauses it first.
fn remove(folder: &Folder, log: &Log, name: &str) {
    let run = |arguments: &[&str]| folder.run(&[arguments, &["--database", &log.url]].concat());
    let paused = run(&["subscriptions", "pause", name]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    loop {
        let removed = run(&["subscriptions", "remove", name, "--yes"]);
        match removed.code {
            Some(0) => return,
            _ => assert!(std::time::Instant::now() < deadline, "{removed:?}"),
        }
    }
}

#[tokio::test]
async fn a_removed_subscription_is_noticed_and_declared_again_only_by_a_reload() {
    for log in log::all(&Folder::new()).await {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("away")).expect("a folder");
        let carts = "[subscriptions.carts.sink]\ntype = \"file\"\npath = \"carts.jsonl\"\n";
        folder.write("posthaste.toml", orders(&log) + carts);
        let relay = folder.relay(&[]);
        relay.says("Delivering.");
        let address = relay.address();
        let states = || {
            let (status, body) = ask(&address, "GET /readyz");
            (status, body["subscriptions"].clone())
        };
        remove(&folder, &log, "orders");
        let line = relay.says("nothing is delivered any more");
        assert!(line.contains("removed from the database") && line.contains("SIGHUP"), "{line}");
        let (status, shown) = states();
        assert_eq!((status, &shown["carts"]["state"]), (200, &"ok".into()), "{shown}");
        assert_eq!(shown["orders"]["state"], "ended", "{shown}");
        assert!(shown["orders"]["reason"].as_str().is_some_and(|why| why.contains("SIGHUP")), "{shown}");
        log.enqueue("orders", 0, 5, 2).await;
        until("the other one goes on", async || {
            (lines(&folder.path("carts.jsonl")).len() == 5).then_some(())
        })
        .await;
        assert!(log.posthaste.admin().subscription("orders").await.is_err(), "it was declared silently");
        relay.send(rustix::process::Signal::HUP);
        relay.says("declared and started again");
        until("five events", async || (lines(&folder.path("away/out.jsonl")).len() == 5).then_some(())).await;
        assert_eq!(states().1["orders"]["state"], "ok");
        remove(&folder, &log, "orders");
        relay.says_times("nothing is delivered any more", 2);
        folder.write(
            "posthaste.toml",
            orders(&log)
                .replace("[subscriptions.orders.sink]", "[subscriptions.carts.sink]")
                .replace("away/out", "carts"),
        );
        relay.send(rustix::process::Signal::HUP);
        relay.says("stopped: it is no longer configured");
        until("it is no longer shown", async || states().1["orders"].is_null().then_some(())).await;
        let (code, words) = relay.stop();
        assert_eq!(code, Some(0), "{words}");
        assert_eq!(words.matches("nothing is delivered any more").count(), 2, "said once each: {words}");
    }
}

#[tokio::test]
async fn a_taken_port_matters_only_if_somebody_chose_it() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    std::fs::create_dir(folder.path("away")).expect("a folder");
    folder.write("posthaste.toml", orders(&log));
    let ended = folder.run(&["relay", "--listen", &address]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains(&format!("relay.listen: cannot listen on {address}")), "{ended:?}");
}
