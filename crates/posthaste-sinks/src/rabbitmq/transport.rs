//! The TCP connection, encrypted if it is to be. Ours and not the client library's, because that one trusts a
//! `ca_file` in addition to the system's authorities, and we promise: instead of them.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lapin::tcp::{AMQPUriTcpExt, RustlsConnector, RustlsConnectorConfig, TLSConfig};
use lapin::{Connection, ConnectionProperties};

use super::settings::RabbitmqSettings;
use crate::tls::Tls;

/// Connects and logs in. The caller sets the deadline for all of it; the first half has its own, because the client
/// library's thread would otherwise wait for a silent address as long as the kernel does.
pub(super) async fn connect(settings: &RabbitmqSettings, name: String) -> lapin::Result<Connection> {
    let properties = ConnectionProperties::default()
        .with_connection_name(name.into())
        .with_client_property("product".into(), "posthaste".into())
        .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
    let connector = settings.tls.on.then(|| connector(&settings.tls)).transpose()?;
    let (host, timeout) = (settings.host.clone(), settings.timeout);
    Connection::connector(
        settings.uri(),
        lapin::runtime::default_runtime()?,
        async move |uri, runtime| {
            let opening = async {
                let plain = uri.connect_with_config_async(TLSConfig::default(), &runtime).await?;
                match &connector {
                    Some(connector) => plain.into_rustls(connector, &host).await,
                    None => Ok(plain),
                }
            };
            let opened = tokio::time::timeout(timeout, opening).await;
            opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(Into::into)
        },
        properties,
    )
    .await
}

/// Files are read at every connect, so that renewed certificates count.
fn connector(tls: &Tls) -> io::Result<RustlsConnector> {
    let config = match &tls.ca_file {
        Some(path) => RustlsConnectorConfig::default()
            .with_parsable_certificates(pem(path)?.into_iter().map(Into::into).collect()),
        None => RustlsConnectorConfig::new_with_platform_verifier(),
    };
    let Some((certificate, key)) = &tls.identity else { return config.connector_with_no_client_auth() };
    let certificates = pem(certificate)?.into_iter().map(Into::into).collect();
    let key = pem(key)?.into_iter().next().ok_or_else(|| io::Error::other("no key in key_file"))?;
    config.connector_with_single_cert(certificates, key.try_into().map_err(io::Error::other)?)
}

/// The contents of a PEM file, one per block.
fn pem(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let text = fs::read_to_string(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("-----BEGIN") {
            block = Some(String::new());
        } else if line.starts_with("-----END") {
            let coded = block.take().unwrap_or_default();
            blocks.push(BASE64_STANDARD.decode(coded).map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
            })?);
        } else if let Some(block) = &mut block {
            block.push_str(line);
        }
    }
    Ok(blocks)
}
