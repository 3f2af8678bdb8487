//! What only Redis does: answers in the middle of a page, limits, replicas.

use std::collections::HashMap;
use std::process::Command;

use chrono::DateTime;
use posthaste::{Event, NewEvent};
use posthaste_sinks::{Endpoint, Tls};
use posthaste_testkit::brokers::certificate::Certificate;
use posthaste_testkit::sink_suite::bench;
use posthaste_testkit::{Gate, free_port, until_listening};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn event(topic: &str, key: &str, text: impl Into<Vec<u8>>) -> Arc<Event> {
    let event = NewEvent::bytes(topic, text).key(key).content_type("text/plain");
    Arc::new(event.stored(1, DateTime::UNIX_EPOCH))
}

async fn deliver(sink: &RedisSink, events: &[Arc<Event>]) -> Vec<Option<Outcome>> {
    let mut page = Page::new(events.to_vec());
    sink.deliver(&mut page).await;
    (0..events.len()).map(|index| page.outcome(index).cloned()).collect()
}

async fn outcome(sink: &RedisSink, event: Arc<Event>) -> Outcome {
    deliver(sink, &[event]).await.remove(0).expect("a mark")
}

/// The mark, and words that its reason has to contain.
#[track_caller]
fn assert_outcome(outcome: &Outcome, mark: &str, words: &str) {
    let (found, reason) = match outcome {
        Outcome::Delivered => ("delivered", ""),
        Outcome::Retry { reason, .. } => ("retry", reason.as_str()),
        Outcome::Dead { reason } => ("dead", reason.as_str()),
        Outcome::Unavailable { reason } => ("unavailable", reason.as_str()),
        _ => ("unknown", ""),
    };
    assert!(found == mark && reason.contains(words), "expected {mark} with `{words}`, got {outcome:?}");
}

/// Event 1 of a key goes to a name that is no stream, event 2 to a good one: the good one must not be taken.
#[tokio::test]
async fn behind_a_refused_event_its_key_stops_and_the_others_go_on() {
    let Some(bench) = bench::<Redis>().await else { return };
    bench.run::<()>("SET bad text").await;
    let events = [
        event("bad", "a", "1"),
        event("orders", "b", "2"),
        event("orders", "a", "3"),
        event("orders", "b", "4"),
    ];
    let sink = bench.to("{topic}");
    let outcomes = deliver(&sink, &events).await;
    assert_outcome(outcomes[0].as_ref().expect("a mark"), "retry", "WRONGTYPE");
    assert_eq!(outcomes[1..], [Some(Outcome::Delivered), None, Some(Outcome::Delivered)]);
    let bodies: Vec<Vec<u8>> = bench.received().await.into_iter().map(|entry| entry.body).collect();
    assert_eq!(bodies, [b"2", b"4"]);
    let free = bench.open(bench.settings("{topic}"), Route::new("s").without_order());
    let outcomes = deliver(&free, &events).await;
    assert_eq!(outcomes[2], Some(Outcome::Delivered), "without order nothing waits for anything");
}

/// Where nothing stands behind a refused event, a page is a transaction; one that the server refuses as a whole goes once more,
/// as a script.
#[tokio::test]
async fn a_page_of_different_keys_is_a_transaction_and_each_event_is_added_once() {
    let Some(bench) = bench::<Redis>().await else { return };
    let scripts = async || bench.run::<String>("INFO commandstats").await.contains("cmdstat_evalsha");
    bench.run::<()>("SET bad text").await;
    let page = |first: &str| [event(first, "a", "1"), event("orders", "b", "2"), event("orders", "c", "3")];
    let sink = bench.to("{topic}");
    let outcomes = deliver(&sink, &page("bad")).await;
    assert_outcome(outcomes[0].as_ref().expect("a mark"), "retry", "WRONGTYPE");
    assert_eq!(outcomes[1..], [Some(Outcome::Delivered), Some(Outcome::Delivered)]);
    assert_eq!((bench.run::<usize>("XLEN orders").await, scripts().await), (2, false));
    // No memory is said before the transaction begins, and then none of it is executed.
    bench.run::<()>("CONFIG SET maxmemory 1").await;
    let outcomes = deliver(&sink, &page("orders")).await;
    outcomes
        .iter()
        .for_each(|outcome| assert_outcome(outcome.as_ref().expect("a mark"), "unavailable", "OOM"));
    bench.run::<()>("CONFIG SET maxmemory 0").await;
    assert_eq!((bench.run::<usize>("XLEN orders").await, scripts().await), (2, true));
    assert_eq!(deliver(&sink, &page("orders")).await, vec![Some(Outcome::Delivered); 3]);
    assert_eq!(bench.run::<usize>("XLEN orders").await, 5);
}

#[tokio::test]
async fn a_name_that_is_no_stream_stops_all_if_all_go_there() {
    let Some(bench) = bench::<Redis>().await else { return };
    bench.run::<()>("SET bad text").await;
    let sink = bench.to("bad");
    assert_outcome(&outcome(&sink, event("orders", "a", "1")).await, "unavailable", "WRONGTYPE");
    let error = sink.check().await.expect_err("no stream");
    assert!(error.contains("bad is not a stream but a string"), "{error}");
}

/// Memory comes and goes while four thousand large events are on their way. A key never has a gap, and what was refused
/// comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_comes_and_goes_leaves_no_gap_in_any_key() {
    let Some(bench) = bench::<Redis>().await else { return };
    let bench = Arc::new(bench);
    bench.run::<()>("CONFIG SET maxmemory-policy noeviction").await;
    let toggling = tokio::spawn({
        let bench = bench.clone();
        async move {
            loop {
                bench.run::<()>("CONFIG SET maxmemory 1").await;
                tokio::task::yield_now().await;
                bench.run::<()>("CONFIG SET maxmemory 0").await;
                tokio::task::yield_now().await;
            }
        }
    });
    let sink = bench.to("{topic}");
    let mut waiting: Vec<Arc<Event>> = (0..4000_u32)
        .map(|n| {
            event("orders", &format!("key-{}", n % 7), [n.to_string().as_bytes(), &[b' '; 1000]].concat())
        })
        .collect();
    let mut refusals = 0;
    while !waiting.is_empty() {
        let many = waiting.len().min(50);
        let outcomes = deliver(&sink, &waiting[..many]).await;
        let mut outcomes = outcomes.into_iter();
        let mut index = 0;
        waiting.retain(|_| {
            let outcome = if index < many { outcomes.next().flatten() } else { None };
            index += 1;
            if let Some(Outcome::Unavailable { reason }) = &outcome {
                assert!(reason.contains("OOM"), "{reason}");
                refusals += 1;
            }
            outcome != Some(Outcome::Delivered)
        });
    }
    toggling.abort();
    drop(toggling.await);
    bench.run::<()>("CONFIG SET maxmemory 0").await;
    let mut last: HashMap<String, i64> = HashMap::new();
    let received = bench.received().await;
    assert_eq!(received.len(), 4000);
    for entry in received {
        let number: i64 = String::from_utf8(entry.body).expect("text").trim().parse().expect("a number");
        let key = entry.key.expect("a key");
        let before = last.insert(key.clone(), number).unwrap_or(number - 7);
        assert_eq!(number, before + 7, "{key} has a gap");
    }
    println!("{refusals} refusals");
    assert!(refusals > 0, "memory was short at least once");
}

/// A page that needs several scripts: what is refused in the first one stops its key in the next.
#[tokio::test]
async fn a_large_page_goes_in_parts_and_keys_stop_across_them() {
    let Some(bench) = bench::<Redis>().await else { return };
    bench.run::<()>("SET bad text").await;
    let sink = bench.to("{topic}");
    let mut events = vec![event("bad", "a", "first")];
    events.extend((0..3000).map(|n| event("orders", &format!("b{}", n % 3), n.to_string())));
    events.extend((0..20).map(|_| event("orders", "c", vec![b'x'; LONGEST])));
    events.push(event("orders", "a", "last"));
    let outcomes = deliver(&sink, &events).await;
    assert_eq!(outcomes.last(), Some(&None), "behind the refused one");
    assert!(outcomes[1..3021].iter().all(|outcome| *outcome == Some(Outcome::Delivered)));
    assert_eq!(bench.run::<usize>("XLEN orders").await, 3020);
}

#[tokio::test]
async fn an_event_that_is_too_long_is_dead_and_keeps_the_connection() {
    let Some(bench) = bench::<Redis>().await else { return };
    let sink = bench.to("{topic}");
    sink.check().await.expect("connected");
    let connections = |info: String| {
        let line =
            info.lines().find(|line| line.starts_with("total_connections_received")).map(str::to_owned);
        line.expect("a number").rsplit(':').next().expect("a number").parse::<u64>().expect("a number")
    };
    let before = connections(bench.run("INFO stats").await);
    let large = event("orders", "a", vec![b'x'; LONGEST + 1]);
    let outcomes = deliver(&sink, &[event("orders", "b", "x"), large, event("orders", "a", "y")]).await;
    assert_outcome(
        outcomes[1].as_ref().expect("a mark"),
        "dead",
        "a field of 1048577 bytes, and the server takes 1048576",
    );
    assert_eq!((outcomes[0].as_ref(), &outcomes[2]), (Some(&Outcome::Delivered), &None));
    assert_eq!(connections(bench.run("INFO stats").await), before + 1, "only we who ask have connected");
}

#[tokio::test]
async fn replicas_and_missing_replicas_are_away() {
    let Some(bench) = bench::<Redis>().await else { return };
    let sink = bench.to("{topic}");
    bench.run::<()>("CONFIG SET min-replicas-to-write 1").await;
    assert_outcome(&outcome(&sink, event("orders", "a", "x")).await, "unavailable", "NOREPLICAS");
    bench.run::<()>("CONFIG SET min-replicas-to-write 0").await;
    bench.run::<()>("REPLICAOF 127.0.0.1 1").await;
    assert_outcome(&outcome(&sink, event("orders", "a", "x")).await, "unavailable", "READONLY");
    bench.run::<()>("CONFIG SET replica-serve-stale-data no").await;
    assert_outcome(&outcome(&sink, event("orders", "a", "x")).await, "unavailable", "MASTERDOWN");
    bench.run::<()>("REPLICAOF NO ONE").await;
    assert_eq!(outcome(&sink, event("orders", "a", "x")).await, Outcome::Delivered);
}

#[tokio::test]
async fn users_without_rights_are_told_so() {
    let Some(bench) = bench::<Redis>().await else { return };
    bench.run::<()>("ACL SETUSER relay on >pw ~allowed* +@all").await;
    bench.run::<()>("ACL SETUSER little on >pw ~* +xadd +evalsha +script|load +ping").await;
    let with = |user: &str, stream: &str| {
        let mut settings = bench.settings(stream);
        settings.username = Some(user.into());
        settings.password = Some(Secret::new("pw"));
        bench.open(settings, Route::new("s"))
    };
    let refused = outcome(&with("relay", "orders"), event("orders", "a", "x")).await;
    assert_outcome(&refused, "unavailable", "NOPERM");
    assert_eq!(outcome(&with("relay", "allowed"), event("orders", "a", "x")).await, Outcome::Delivered);
    let little = with("little", "{topic}");
    assert_eq!(
        outcome(&little, event("orders", "a", "x")).await,
        Outcome::Delivered,
        "needs no more than that"
    );
    assert_eq!(bench.run::<usize>("XLEN orders").await, 1, "once, although it may not begin a transaction");
    bench.run::<()>("ACL SETUSER little +multi").await;
    let begins = with("little", "{topic}");
    assert_eq!(outcome(&begins, event("orders", "a", "x")).await, Outcome::Delivered, "it may not end one");
    bench.run::<()>("ACL SETUSER little +exec").await;
    let whole = with("little", "{topic}");
    assert_eq!(outcome(&whole, event("orders", "a", "x")).await, Outcome::Delivered);
    bench.run::<()>("ACL SETUSER little -multi").await;
    assert_eq!(outcome(&whole, event("orders", "a", "x")).await, Outcome::Delivered);
    assert_eq!(bench.run::<usize>("XLEN orders").await, 4, "each once");
    assert_eq!(little.check().await, Ok(()));
    assert!(little.warnings().await[0].contains("does not tell its settings"));
    let unknown = with("nobody", "orders");
    assert!(unknown.check().await.expect_err("no such user").contains("does not accept these credentials"));
}

/// Rights go by the names of streams: one that is forbidden holds up nobody but its own events.
#[tokio::test]
async fn a_forbidden_stream_is_retried_alone_if_streams_differ() {
    let Some(bench) = bench::<Redis>().await else { return };
    bench.run::<()>("ACL SETUSER relay on >pw ~allowed* +@all").await;
    let sink = |stream: &str| {
        let mut settings = bench.settings(stream);
        settings.username = Some("relay".into());
        settings.password = Some(Secret::new("pw"));
        bench.open(settings, Route::new("s"))
    };
    let events = [
        event("allowed-1", "a", "1"),
        event("forbidden", "b", "2"),
        event("allowed-2", "c", "3"),
        event("allowed-2", "b", "4"),
    ];
    let outcomes = deliver(&sink("{topic}"), &events).await;
    assert_outcome(outcomes[1].as_ref().expect("a mark"), "retry", "NOPERM");
    let delivered = Some(Outcome::Delivered);
    assert_eq!((&outcomes[0], &outcomes[2], &outcomes[3]), (&delivered, &delivered, &None));
    assert_eq!(
        bench
            .run::<Vec<usize>>("EVAL return{redis.call('XLEN','allowed-1'),redis.call('XLEN','allowed-2')} 0")
            .await,
        [1, 1]
    );
    assert_outcome(&outcome(&sink("forbidden"), events[0].clone()).await, "unavailable", "NOPERM");
    bench.run::<()>("ACL SETUSER relay -evalsha -xadd").await;
    let refused = outcome(&sink("{topic}"), events[0].clone()).await;
    assert_outcome(&refused, "unavailable", "NOPERM");
}

/// A way to the server on which everything that contains the word is lost, and the rest of its connection with it.
async fn swallowing(port: u16, word: &'static [u8]) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(async move {
                let (mut bytes, mut lost) = (vec![0; 65536], false);
                while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                    lost = lost || bytes[..count].windows(word.len()).any(|part| part == word);
                    if !lost && to_server.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address.port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_about_one_event_is_retried_and_the_others_go_on() {
    let Some(bench) = bench::<Redis>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.port = swallowing(bench.server.port(), b"swallow me").await;
    settings.timeout = Duration::from_secs(2);
    let sink = bench.open(settings, Route::new("s"));
    let events = [
        event("orders", "a", "1"),
        event("orders", "b", "swallow me"),
        event("orders", "c", "3"),
        event("orders", "b", "4"),
        event("orders", "a", "5"),
    ];
    let outcomes = deliver(&sink, &events).await;
    assert_outcome(outcomes[1].as_ref().expect("a mark"), "retry", "although the receiver is there");
    let delivered = Some(Outcome::Delivered);
    assert_eq!(
        (&outcomes[0], &outcomes[2], &outcomes[3], &outcomes[4]),
        (&delivered, &delivered, &None, &delivered)
    );
    let bodies: Vec<Vec<u8>> = bench.received().await.into_iter().map(|entry| entry.body).collect();
    assert_eq!(bodies, [b"1", b"3", b"5"]);
}

/// Paused for writers: it answers a check, and accepts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_about_all_events_costs_one_attempt() {
    let Some(bench) = bench::<Redis>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.timeout = Duration::from_secs(5);
    let sink = bench.open(settings, Route::new("s"));
    sink.check().await.expect("connected");
    bench.run::<()>("CLIENT PAUSE 600000 WRITE").await;
    let events = [event("orders", "a", "1"), event("orders", "b", "2"), event("orders", "c", "3")];
    let words = ["retry", "unavailable", "unavailable"];
    for (outcome, word) in deliver(&sink, &events).await.into_iter().zip(words) {
        assert_outcome(&outcome.expect("a mark"), word, "");
    }
    let again = outcome(&sink, events[0].clone()).await;
    assert_outcome(&again, "unavailable", "nor is anything else accepted since");
    bench.run::<()>("CLIENT UNPAUSE").await;
    assert_eq!(outcome(&sink, events[0].clone()).await, Outcome::Delivered);
}

/// Half of the page's time is gone after the silence about all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_time_of_the_page_does_not_hold_is_not_started() {
    let Some(bench) = bench::<Redis>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.port = swallowing(bench.server.port(), b"swallow me").await;
    settings.timeout = Duration::from_secs(2);
    let mut route = Route::new("s");
    route.page_time = Duration::from_secs(5);
    let sink = bench.open(settings, route);
    sink.check().await.expect("connected");
    let events = [event("orders", "a", "swallow me"), event("orders", "b", "2")];
    for outcome in deliver(&sink, &events).await {
        assert_outcome(&outcome.expect("a mark"), "unavailable", "the time of this page is over");
    }
    assert_eq!(bench.received().await.len(), 0);
}

#[tokio::test]
async fn a_stream_keeps_as_many_entries_as_it_may() {
    let Some(bench) = bench::<Redis>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.max_length = Some(RedisMaxLength { entries: 10, exact: true });
    let exact = bench.open(settings.clone(), Route::new("s"));
    let events: Vec<_> = (0..500).map(|n| event("orders", "a", n.to_string())).collect();
    deliver(&exact, &events).await;
    assert_eq!(bench.run::<usize>("XLEN orders").await, 10);
    settings.max_length = Some(RedisMaxLength { entries: 10, exact: false });
    let events: Vec<_> = (0..500).map(|n| event("more", "a", n.to_string())).collect();
    deliver(&bench.open(settings, Route::new("s")), &events).await;
    assert!((10..500).contains(&bench.run::<usize>("XLEN more").await));
}

/// Answers get lost again and again: events may come twice, but none comes before an earlier one of its key has come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_repeat_events_and_keep_the_order() {
    let Some(bench) = bench::<Redis>().await else { return };
    let gate = Gate::before(bench.server.port()).await;
    let mut settings = bench.settings("{topic}");
    settings.port = gate.port();
    let sink = bench.open(settings, Route::new("s"));
    let events: Vec<_> = (0..4000).map(|n| event("orders", "one", n.to_string())).collect();
    let (mut delivered, mut breaks) = (0, 0);
    while delivered < events.len() {
        let before = bench.received().await.len();
        let running = tokio::spawn({
            let (sink, rest) = (sink.clone(), events[delivered..].to_vec());
            async move {
                let mut done = 0;
                for page in rest.chunks(20) {
                    let outcomes = deliver(&sink, page).await;
                    let good =
                        outcomes.iter().take_while(|outcome| **outcome == Some(Outcome::Delivered)).count();
                    done += good;
                    if good < page.len() {
                        break;
                    }
                }
                done
            }
        });
        if breaks < 5 {
            while bench.received().await.len() < before + 100 {
                tokio::task::yield_now().await;
            }
            gate.shut().await;
            breaks += 1;
        }
        delivered += running.await.expect("no panic");
        gate.open().await;
    }
    let mut next = 0;
    for entry in bench.received().await {
        let number: usize = String::from_utf8(entry.body).expect("text").parse().expect("a number");
        assert!(number <= next, "{number} came before {next}");
        next = next.max(number + 1);
    }
    assert_eq!(next, 4000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_is_away_within_the_timeout() {
    let Some(bench) = bench::<Redis>().await else { return };
    let mut settings = bench.settings("{topic}");
    settings.timeout = Duration::from_millis(500);
    let sink = bench.open(settings, Route::new("s"));
    sink.check().await.expect("connected");
    let id = bench.server.id().expect("it runs").to_string();
    let signal =
        |signal: &str| assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    signal("-STOP");
    let events = [event("orders", "a", "1"), event("orders", "a", "2")];
    let outcomes = deliver(&sink, &events).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Some(Outcome::Unavailable { .. }))),
        "{outcomes:?}"
    );
    assert!(sink.check().await.is_err());
    signal("-CONT");
    while sink.check().await.is_err() {}
    assert!(deliver(&sink, &events).await.iter().all(|outcome| *outcome == Some(Outcome::Delivered)));
}

/// The server closes connections that were silent for long; nobody shall take that for an outage.
#[tokio::test]
async fn a_connection_that_the_server_closed_in_silence_is_replaced() {
    let Some(bench) = bench::<Redis>().await else { return };
    let sink = bench.to("{topic}");
    assert_eq!(outcome(&sink, event("orders", "a", "1")).await, Outcome::Delivered);
    bench.run::<usize>("CLIENT KILL TYPE normal SKIPME yes").await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(outcome(&sink, event("orders", "a", "2")).await, Outcome::Delivered);
}

#[tokio::test]
async fn risks_of_the_server_are_told() {
    let Some(bench) = bench::<Redis>().await else { return };
    let sink = bench.to("{topic}");
    assert_eq!(sink.warnings().await, [""; 0]);
    bench.run::<()>("CONFIG SET appendfsync everysec").await;
    bench.run::<()>("CONFIG SET maxmemory-policy allkeys-lru").await;
    let warnings = sink.warnings().await;
    assert!(
        warnings[0].contains("appendfsync is everysec") && warnings[1].contains("allkeys-lru"),
        "{warnings:?}"
    );
    bench.run::<()>("CONFIG SET appendonly no").await;
    assert!(sink.warnings().await[0].contains("appendonly is off"));
    assert_eq!(sink.describe(), format!("redis at 127.0.0.1:{}", bench.server.port()));
}

#[tokio::test]
async fn certificates_are_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let Ok(certificate) = Certificate::make(folder.path()) else { return };
    let port = free_port();
    let path = |path: &std::path::Path| path.display().to_string();
    let (ca, cert, key) =
        (path(&certificate.ca_file), path(&certificate.certificate_file), path(&certificate.key_file));
    let tls_port = port.to_string();
    let options = [
        "--tls-port",
        &tls_port,
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
    ];
    let Ok(_server) = RedisServer::start(&options).await else { return };
    until_listening(port).await;
    let with = |ca_file, identity| {
        let mut settings = RedisSettings::new("127.0.0.1", port, Template::literal("orders"));
        settings.tls = Tls { on: true, ca_file, identity };
        RedisSink::new(settings, Route::new("s")).expect("a sink")
    };
    let identity = Some((certificate.certificate_file.clone(), certificate.key_file.clone()));
    assert_eq!(with(Some(certificate.ca_file.clone()), identity.clone()).check().await, Ok(()));
    let error = with(None, identity).check().await.expect_err("nobody knows this authority");
    assert!(error.contains("certificate") || error.contains("UnknownIssuer"), "{error}");
    assert!(
        with(Some(certificate.ca_file), None).check().await.is_err(),
        "the server wants a certificate too"
    );
}
