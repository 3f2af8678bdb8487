//! Certificates: the mock cluster has none, so OpenSSL's test server plays a broker up to the end of the handshake. And what
//! `doctor` is told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use posthaste::Sink;
use posthaste_sinks::kafka::{KafkaSettings, KafkaSink, Login, Mechanism};
use posthaste_sinks::{Endpoint, Route, Secret, Template, Tls};
use posthaste_testkit::sink_suite::bench;
use posthaste_testkit::{Process, free_port, program, until_listening};
use tempfile::TempDir;

use crate::bench::Kafka;

/// A server that wants a certificate of its clients, and says in its log whose it got.
struct TlsServer {
    folder: TempDir,
    port: u16,
    _server: Process,
}

impl TlsServer {
    async fn start() -> Option<Self> {
        let Some(openssl) = program("openssl") else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no openssl; install the package openssl");
            eprintln!("skipped: TLS (no openssl; install the package openssl)");
            return None;
        };
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        for name in ["localhost", "relay"] {
            certificate(&openssl, folder.path(), name);
        }
        let mut command = Command::new(openssl);
        command.current_dir(folder.path()).args([
            "s_server",
            "-www",
            "-accept",
            &port.to_string(),
            "-Verify",
            "1",
        ]);
        command.args(["-cert", "localhost.pem", "-key", "localhost.key", "-CAfile", "relay.pem"]);
        let server = Process::start(&mut command, &folder.path().join("log"));
        until_listening(port).await;
        Some(Self { folder, port, _server: server })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.file("log")).expect("a log")).into_owned()
    }

    /// What the health check says; nobody here speaks Kafka, so it always fails.
    async fn refusal(&self, host: &str, tls: Tls) -> String {
        let mut settings = KafkaSettings::new([format!("{host}:{}", self.port)]);
        settings.tls = tls;
        settings.timeout = Duration::from_secs(2);
        let sink = KafkaSink::new(settings, Route::new("s")).expect("it opens");
        sink.check().await.expect_err("no broker")
    }
}

/// A certificate that vouches for itself.
fn certificate(openssl: &Path, folder: &Path, name: &str) {
    let status = Command::new(openssl)
        .current_dir(folder)
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &format!("/CN={name}"),
        ])
        .args(["-addext", &format!("subjectAltName=DNS:{name}")])
        .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
        .output()
        .expect("openssl runs")
        .status;
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_host_names_are_verified() {
    let Some(server) = TlsServer::start().await else { return };
    let identity = Some((server.file("relay.pem"), server.file("relay.key")));
    let strangers = Tls { on: true, ca_file: None, identity: identity.clone() };
    let refusal = server.refusal("localhost", strangers).await;
    assert!(refusal.contains("certificate verify failed"), "nobody vouches for it: {refusal}");

    let trusting = Tls { on: true, ca_file: Some(server.file("localhost.pem")), identity };
    let refusal = server.refusal("127.0.0.1", trusting.clone()).await;
    assert!(refusal.contains("certificate verify failed"), "another name: {refusal}");
    assert!(!server.log().contains("CN = relay"), "nobody got as far as that: {}", server.log());

    let refusal = server.refusal("localhost", trusting).await;
    assert!(!refusal.contains("certificate verify failed"), "{refusal}");
    assert!(server.log().contains("CN = relay"), "our certificate arrived: {}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_certificate_is_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, "no certificate").expect("a file");
    let mut settings = KafkaSettings::new(["localhost:9092"]);
    settings.tls = Tls { on: true, ca_file: Some(file), identity: None };
    let sentence = KafkaSink::new(settings, Route::new("s")).expect_err("refused");
    assert!(sentence.contains("ca.location") || sentence.contains("ca.pem"), "{sentence}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_is_warned_of_what_is_risky() {
    let mut settings = KafkaSettings::new(["kafka.invalid:9092"]);
    let (username, password) = ("relay".to_owned(), Secret::new("t0ps3cret"));
    settings.login = Some(Login { username, password, mechanism: Mechanism::Plain });
    settings.tls.on = false;
    let sink = KafkaSink::new(settings, Route::new("s")).expect("it opens");
    assert_eq!(
        sink.warnings().await,
        ["the password crosses the network in clear text: set tls = true, or use SCRAM"]
    );
    assert_eq!(sink.describe(), "kafka at kafka.invalid:9092");
    assert!(!format!("{sink:?}").contains("t0ps3cret"));

    let Some(kafka) = bench::<Kafka>().await else { return };
    let mut settings = kafka.settings();
    settings.topic = Template::literal("orders");
    let sink = kafka.open(settings, Route::new("s"));
    // It has three replicas; for the rest the mock cluster has no answers.
    assert_eq!(sink.warnings().await, [""; 0]);
}
