//! The gate between a client and a server of the test, each holding its own end.

use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    gate: Arc<Gate>,
    server: TcpListener,
}

impl Scene {
    async fn new() -> Self {
        let server = listen(0);
        let gate = Gate::before(server.local_addr().expect("an address").port()).await;
        Self { gate, server }
    }

    /// A client and what the server has of it.
    async fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, self.gate.port())).await.expect("let in");
        let (behind, _) = self.server.accept().await.expect("passed on");
        (client, behind)
    }
}

async fn says(from: &mut TcpStream, to: &mut TcpStream, words: &[u8]) {
    from.write_all(words).await.expect("said");
    assert_eq!(hears(to, words.len()).await, words);
}

async fn hears(who: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut heard = vec![0; bytes];
    who.read_exact(&mut heard).await.expect("heard");
    heard
}

/// What comes until the end, and how it ends.
async fn rest(who: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut heard = Vec::new();
    let read = tokio::time::timeout(PATIENCE, who.read_to_end(&mut heard)).await.expect("it ends");
    (heard, read.err().map(|error| error.kind()))
}

#[tokio::test]
async fn what_is_said_to_a_silent_gate_arrives_when_it_speaks_again() {
    let scene = Scene::new().await;
    let (mut client, mut behind) = scene.connect().await;
    says(&mut client, &mut behind, b"one").await;
    scene.gate.fall_silent();
    client.write_all(b"two").await.expect("said");
    behind.write_all(b"yes").await.expect("answered");
    let quiet = tokio::time::timeout(Duration::from_millis(200), hears(&mut behind, 3)).await;
    assert!(quiet.is_err(), "nothing comes through: {quiet:?}");
    scene.gate.speak_again();
    assert_eq!(hears(&mut behind, 3).await, b"two");
    assert_eq!(hears(&mut client, 3).await, b"yes");
    drop(client);
    assert_eq!(rest(&mut behind).await, (vec![], None));
}

#[tokio::test]
async fn a_delay_does_not_make_the_line_narrow() {
    let scene = Scene::new().await;
    let (mut client, mut behind) = scene.connect().await;
    says(&mut client, &mut behind, b"hello").await;
    let delay = Duration::from_millis(300);
    scene.gate.delay(delay, Duration::ZERO);
    // If each chunk waited for the last one, they would take minutes.
    let (start, text) = (std::time::Instant::now(), b"0123456789abcdef".repeat(512 * 1024));
    let said = text.clone();
    let talking = tokio::spawn(async move {
        client.write_all(&said).await.expect("said");
        client
    });
    let heard = tokio::time::timeout(PATIENCE, hears(&mut behind, text.len())).await.expect("in time");
    assert!(heard == text, "in the same order");
    assert!(start.elapsed() >= delay, "{:?}", start.elapsed());
    says(&mut behind, &mut talking.await.expect("said"), b"answer").await;
}

#[tokio::test]
async fn a_reset_reaches_both_ends_and_spares_those_who_come_later() {
    let scene = Scene::new().await;
    let (mut client, mut behind) = scene.connect().await;
    says(&mut client, &mut behind, b"one").await;
    scene.gate.reset_connections();
    for end in [&mut client, &mut behind] {
        assert_eq!(rest(end).await, (vec![], Some(ErrorKind::ConnectionReset)));
    }
    let (mut client, mut behind) = scene.connect().await;
    says(&mut behind, &mut client, b"two").await;
    assert_eq!(scene.gate.connections(), 2);
}

#[tokio::test]
async fn after_a_half_close_the_client_hears_nothing_and_is_still_heard() {
    let scene = Scene::new().await;
    let (mut client, mut behind) = scene.connect().await;
    says(&mut behind, &mut client, b"one").await;
    scene.gate.close_towards_clients();
    assert_eq!(rest(&mut client).await, (vec![], None));
    behind.write_all(b"unheard").await.expect("said");
    says(&mut client, &mut behind, b"two").await;
    drop(client);
    assert_eq!(rest(&mut behind).await, (vec![], None));
    let (mut client, mut behind) = scene.connect().await;
    says(&mut behind, &mut client, b"three").await;
}

#[tokio::test]
async fn answers_break_off_after_so_many_bytes() {
    let scene = Scene::new().await;
    let (mut old, mut behind_old) = scene.connect().await;
    says(&mut behind_old, &mut old, b"before the limit").await;
    scene.gate.break_off_answers_after(5);
    let (mut new, mut behind_new) = scene.connect().await;
    says(&mut new, &mut behind_new, b"requests have no limit").await;
    for (client, behind) in [(&mut old, &mut behind_old), (&mut new, &mut behind_new)] {
        behind.write_all(b"123").await.expect("said");
        assert_eq!(hears(client, 3).await, b"123");
        behind.write_all(b"456789").await.expect("said");
        assert_eq!(rest(client).await.0, b"45");
        rest(behind).await;
    }
    scene.gate.let_answers_through();
    let (mut client, mut behind) = scene.connect().await;
    says(&mut behind, &mut client, b"as long as it likes").await;
}

#[tokio::test]
async fn every_third_answer_is_dropped_and_its_connection_broken() {
    let scene = Scene::new().await;
    scene.gate.drop_answers(3);
    for round in 1..=4 {
        let (mut client, mut behind) = scene.connect().await;
        for _ in 0..2 {
            says(&mut client, &mut behind, b"do it").await;
            says(&mut behind, &mut client, b"done").await;
        }
        says(&mut client, &mut behind, b"do it").await;
        behind.write_all(b"done").await.expect("said");
        assert_eq!(rest(&mut client).await.0, b"");
        rest(&mut behind).await;
        assert_eq!(scene.gate.answers_dropped(), round);
    }
    scene.gate.let_answers_through();
    let (mut client, mut behind) = scene.connect().await;
    for _ in 0..10 {
        says(&mut behind, &mut client, b"done").await;
    }
    assert_eq!(scene.gate.answers_dropped(), 4);
}
