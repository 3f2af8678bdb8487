//! Hostile requests: whatever is asked, the relay answers with a refusal or closes the connection, and goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::log::Log;
use crate::support::{Folder, Relay};

fn requests() -> usize {
    match std::env::var("POSTHASTE_FAULTS").as_deref() {
        Ok("full") => 10_000,
        _ => 1_000,
    }
}

const PARTS: [&str; 16] = [
    "/healthz",
    "/readyz",
    "/",
    "?a=b",
    "%00",
    "%ff",
    "..",
    "';drop table canary;--",
    "\\",
    "\u{202e}",
    "?",
    "#",
    "%",
    "<script>",
    " ",
    "\t",
];

/// A path of parts and noise; now and then a request that is none.
fn request(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut path = String::from("/");
    for _ in 0..random.usize(..6) {
        match random.u8(..8) {
            0 => path.push(random.char(..)),
            1 => path.push_str(&"x".repeat(random.usize(..9000))),
            _ => path.push_str(PARTS[random.usize(..PARTS.len())]),
        }
    }
    let method = ["GET", "GET", "HEAD", "POST", "get", "", "G\0T"][random.usize(..7)];
    let header = match random.u8(..6) {
        0 => format!("x: {}\r\n", "y".repeat(random.usize(..70_000))),
        1 => "content-length: -1\r\n".to_owned(),
        2 => "transfer-encoding: chunked\r\n".to_owned(),
        _ => String::new(),
    };
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n").into_bytes()
}

/// The status, or none if the connection was closed without one. The other side may close before everything was sent.
fn status(address: &str, request: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    drop(stream.write_all(request));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

fn start(folder: &Folder, log: &Log) -> (Relay, String) {
    folder.write(
        "posthaste.toml",
        format!(
            "[database]\nurl = \"{}\"\n[relay]\nlisten = \"127.0.0.1:0\"\nlog = \"pretty\"\n\
             [subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n",
            log.url
        ),
    );
    let relay = folder.relay(&[]);
    relay.says("Delivering.");
    let address = relay.address();
    (relay, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_are_refused_and_harm_nothing() {
    let folder = Folder::new();
    let log = Log::sqlite(&folder).await;
    log.execute("create table canary (n integer)").await;
    let (relay, address) = start(&folder, &log);
    let mut random = fastrand::Rng::new();
    let (mut answered, mut closed) = (0, 0);
    for _ in 0..requests() {
        let request = request(&mut random);
        match status(&address, &request) {
            Some(status) => {
                answered += 1;
                assert!(status < 500, "{status} to {:?}", String::from_utf8_lossy(&request));
            }
            None => closed += 1,
        }
    }
    println!(
        "{answered} requests were answered, {closed} connections closed without an answer, none with 5xx"
    );
    log.execute("insert into canary values (1)").await;
    assert_eq!(status(&address, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"), Some(200));
    // The control: a database that cannot be used is what 503 is for.
    log.execute("update posthaste_meta set version = 99").await;
    let unready = status(&address, b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n");
    println!("control, tables of another version: {unready:?}");
    assert_eq!(unready, Some(503));
    let (code, words) = relay.stop();
    assert_eq!(code, Some(0), "{words}");
    assert!(!words.contains("panicked"), "{words}");
}
