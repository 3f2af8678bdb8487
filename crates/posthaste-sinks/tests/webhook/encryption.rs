//! Certificates are verified. They are made by the program `openssl`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use posthaste::{Outcome, Sink};
use posthaste_sinks::Endpoint;
use posthaste_testkit::program;
use serde_json::json;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::receiver::{Receiver, Reply};
use crate::{open, outcome, told};

/// A folder with `own.pem` and `own.key`, a certificate that signs itself, for this name. `None` without openssl.
fn certificate(name: &str) -> Option<TempDir> {
    let Some(openssl) = program("openssl") else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no openssl (Debian package: openssl)");
        eprintln!("skipped: there is no program openssl (Debian package: openssl)");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(openssl);
    command.current_dir(folder.path()).args(["req", "-x509", "-newkey", "ec", "-pkeyopt"]);
    command.args([
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        "own.key",
        "-out",
        "own.pem",
    ]);
    command.args(["-subj", "/CN=test", "-addext", &format!("subjectAltName={name}")]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = command.output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(folder)
}

fn own(folder: &Path) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_file(folder.join("own.pem")).expect("a certificate");
    (certificate, PrivateKeyDer::from_pem_file(folder.join("own.key")).expect("a key"))
}

/// A receiver with this certificate, which demands that certificate of its clients.
async fn receiver(folder: &Path, client: Option<&Path>) -> Arc<Receiver> {
    let (certificate, key) = own(folder);
    let config = match client {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(own(client).0).expect("a root");
            let verifier = WebPkiClientVerifier::builder(roots.into()).build().expect("a verifier");
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let config = config.with_single_cert(vec![certificate], key).expect("a server");
    Receiver::start_with(Some(TlsAcceptor::from(Arc::new(config))), |_| Reply::status(200)).await
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let Some(folder) = certificate("IP:127.0.0.1") else { return };
    let receiver = receiver(folder.path(), None).await;
    let sink = open(&receiver.url("/"), &json!({}));
    let (word, reason) = told(outcome(&sink).await);
    assert_eq!(word, "unavailable");
    assert!(reason.contains("certificate") && reason.contains("ca_file"), "{reason}");
    assert!(sink.check().await.is_err());
    assert_eq!(receiver.answered().len(), 0);
}

#[tokio::test]
async fn a_certificate_is_accepted_if_its_authority_is_named() {
    let Some(folder) = certificate("IP:127.0.0.1") else { return };
    let receiver = receiver(folder.path(), None).await;
    let sink = open(&receiver.url("/"), &json!({ "tls": { "ca_file": folder.path().join("own.pem") } }));
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    assert_eq!(sink.check().await, Ok(()));
    assert_eq!(sink.warnings().await, [""; 0]);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let Some(folder) = certificate("DNS:elsewhere.example") else { return };
    let receiver = receiver(folder.path(), None).await;
    let sink = open(&receiver.url("/"), &json!({ "tls": { "ca_file": folder.path().join("own.pem") } }));
    assert_eq!(told(outcome(&sink).await).0, "unavailable");
    assert_eq!(receiver.answered().len(), 0);
}

#[tokio::test]
async fn a_receiver_that_wants_a_certificate_of_ours_gets_it() {
    let (Some(folder), Some(ours)) = (certificate("IP:127.0.0.1"), certificate("DNS:relay.example")) else {
        return;
    };
    let receiver = receiver(folder.path(), Some(ours.path())).await;
    let ca_file = folder.path().join("own.pem");
    let without = open(&receiver.url("/"), &json!({ "tls": { "ca_file": ca_file } }));
    assert_eq!(told(outcome(&without).await).0, "unavailable");
    let files = (ours.path().join("own.pem"), ours.path().join("own.key"));
    let tls = json!({ "ca_file": ca_file, "certificate_file": files.0, "key_file": files.1 });
    assert_eq!(outcome(&open(&receiver.url("/"), &json!({ "tls": tls }))).await, Outcome::Delivered);
}
