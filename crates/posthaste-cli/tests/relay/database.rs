//! Databases that refuse, are away, or come late: one sentence each, and the right exit code.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use posthaste_testkit::{TestDatabase, servers};
use sqlx::AssertSqlSafe;
use tokio::io::copy_bidirectional;

use crate::log::{Log, url_of};
use crate::support::{Folder, lines, until};

const ORDERS: &str = "[relay]\nlisten = \"off\"\nlog = \"pretty\"\n[subscriptions.orders]\npoll_interval = \"200ms\"\n\
                      [subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n";

/// A port where nobody listens.
fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A server that lets nobody in: it answers every start-up message with an error of this code.
fn refusing_server(code: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut asked = [0; 512];
            let encryption = [0, 0, 0, 8, 4, 210, 22, 47];
            let mut read = stream.read(&mut asked).unwrap_or(0);
            if asked[..read] == encryption {
                drop(stream.write_all(b"N"));
                read = stream.read(&mut asked).unwrap_or(0);
            }
            if read > 0 {
                let fields = format!("SFATAL\0VFATAL\0C{code}\0Mno\0\0");
                let length = u32::try_from(fields.len() + 4).expect("short").to_be_bytes();
                drop(stream.write_all(&[b"E", length.as_slice(), fields.as_bytes()].concat()));
            }
        }
    });
    address
}

fn check(folder: &Folder, url: &str, code: i32, sentence: &str) {
    for command in ["check", "migrate"] {
        let ended = folder.run(&[command, "--database", url]);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(code), "{command} {url}\n{said}");
        assert!(said.contains(sentence), "{command} {url}\n{said}");
        assert!(!said.contains("hunter2") && !said.contains("panicked"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_sentence_and_its_code() {
    let folder = Folder::with(ORDERS);
    let at = |address: SocketAddr| format!("postgres://app:hunter2@{address}/shop");
    check(&folder, &at(closed_port()), 69, "cannot be reached: Connection refused");
    check(
        &folder,
        "postgres://app:hunter2@no-such-host.invalid/shop?sslmode=disable",
        69,
        "cannot be reached",
    );
    check(&folder, &at(refusing_server("28P01")), 77, "does not let role `app` in");
    check(&folder, &at(refusing_server("28000")), 77, "check user and password in database.url");
    check(&folder, &at(refusing_server("53300")), 69, "is not available");
    check(&folder, &at(refusing_server("57P03")), 69, "is not available");
    folder.write("no.db", "this is a text, and a rather long one, so that nobody takes it for a database");
    check(&folder, "sqlite:no.db", 78, "is not a SQLite database; check database.url");
    for server in servers() {
        let (address, _) = server.url.rsplit_once('/').expect("a database");
        check(&folder, &format!("{address}/absent"), 78, "there is no database `absent` on this server");
        let nobody = server.url.replace("postgres@", "nobody:hunter2@");
        check(&folder, &nobody, 77, "does not let role `nobody` in");
    }
}

#[tokio::test]
async fn missing_privileges_are_named() {
    for server in servers() {
        let database = TestDatabase::on(&server).await;
        let role = format!("guest_{:08x}", fastrand::u32(..));
        let create = format!("create role {role} login");
        sqlx::query(AssertSqlSafe(create)).execute(&database.pool).await.expect("a role");
        let url = url_of(&server, &database).replace("postgres@", &format!("{role}@"));
        let ended = Folder::with(ORDERS).run(&["check", "--database", &url]);
        assert_eq!(ended.code, Some(77), "{ended:?}");
        assert!(ended.stdout.contains(&format!("role `{role}` may not do this")), "{ended:?}");
        let ended = Folder::with(ORDERS).run(&["migrate", "--database", &url]);
        assert_eq!(ended.code, Some(77), "{ended:?}");
    }
}

/// The address is not taken for this machine, although it leads there.
#[cfg(feature = "tls")]
#[test]
fn another_machine_must_offer_encryption() {
    let port = refusing_server("28P01").port();
    let folder = Folder::with(ORDERS);
    let url = |rest: &str| format!("postgres://app:hunter2@0.0.0.0:{port}/shop{rest}");
    check(
        &folder,
        &url(""),
        78,
        "offers no encryption; to connect without it, add sslmode=disable to database.url",
    );
    check(&folder, &url("?sslmode=disable"), 77, "does not let role `app` in");
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_connection_over_a_network_without_encryption_is_warned_of() {
    let folder = Folder::with(ORDERS);
    let url = format!("postgres://app@0.0.0.0:{}/shop", closed_port().port());
    let relay = folder.relay(&["--database", &url]);
    relay.says("the connection to 0.0.0.0 is not encrypted: this program was built without TLS");
}

#[test]
fn a_relay_does_not_wait_for_what_waiting_cannot_cure() {
    let folder = Folder::with(ORDERS);
    for (code, exit) in [("28P01", 77), ("3D000", 78)] {
        let url = format!("postgres://app:hunter2@{}/shop", refusing_server(code));
        let ended = folder.run(&["relay", "--database", &url]);
        assert_eq!(ended.code, Some(exit), "{ended:?}");
        assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_waits_for_a_database_that_comes_late() {
    let server = servers().remove(0);
    let (log, folder, address) = (Log::postgres(&server).await, Folder::with(ORDERS), closed_port());
    log.enqueue("orders", 0, 10, 2).await;
    let real = server.url.split(['@', '/']).nth(3).expect("an address").to_owned();
    let relay = folder.relay(&["--database", &log.url.replace(&real, &address.to_string())]);
    relay.says("cannot be reached: Connection refused");
    let listener = tokio::net::TcpListener::bind(address).await.expect("the port is free");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut onward = tokio::net::TcpStream::connect(&real).await.expect("the server");
            tokio::spawn(async move { copy_bidirectional(&mut stream, &mut onward).await });
        }
    });
    relay.says("the database answers");
    until("ten events", async || (lines(&folder.path("out.jsonl")).len() == 10).then_some(())).await;
    let (code, words) = relay.stop();
    assert_eq!(code, Some(0), "{words}");
    assert_eq!(words.matches("trying again").count(), 1, "said once: {words}");
}

#[test]
fn a_relay_that_waits_can_be_stopped() {
    let folder = Folder::with(ORDERS);
    let relay = folder.relay(&["--database", &format!("postgres://app@{}/shop", closed_port())]);
    relay.says("trying again");
    assert_eq!(relay.stop().0, Some(0));
}
