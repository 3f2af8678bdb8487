//! The HTTP client: no redirects, no proxies from the environment, certificates verified, names checked after DNS.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::tls::{Certificate, Identity};
use reqwest::{Client, ClientBuilder};

use super::address::{Guard, Lookup};
use super::answer::words;
use super::settings::{WebhookSettings, parse_proxy};

/// No connection takes longer to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// The client that delivers keeps connections for reuse; the one that checks makes a new one every time, because an old
/// one may be the very thing that is broken.
pub(super) fn clients(settings: &WebhookSettings, lookup: &Lookup) -> Result<(Client, Client), String> {
    let build = |kept: usize| -> Result<Client, String> {
        let builder = builder(settings, lookup)?.pool_max_idle_per_host(kept);
        builder.build().map_err(|error| format!("no HTTP client: {}", words(&error)))
    };
    Ok((build(settings.concurrency)?, build(0)?))
}

fn builder(settings: &WebhookSettings, lookup: &Lookup) -> Result<ClientBuilder, String> {
    // With a proxy the only name resolved here is the proxy's own, which usually is a private one.
    let allow_private = settings.allow_private || settings.proxy.is_some();
    let builder = Client::builder()
        .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        // A proxy of the environment would make the connection, and our check of addresses would be on the proxy.
        .no_proxy()
        .dns_resolver(Guard { lookup: lookup.clone(), allow_private })
        .timeout(settings.timeout)
        .connect_timeout(CONNECT.min(settings.timeout / 2))
        .tcp_keepalive(Duration::from_secs(15));
    let builder = match &settings.proxy {
        Some(url) => builder.proxy(parse_proxy(url)?),
        None => builder,
    };
    with_tls(builder, settings)
}

fn with_tls(builder: ClientBuilder, settings: &WebhookSettings) -> Result<ClientBuilder, String> {
    let builder = match &settings.tls.ca_file {
        Some(file) => builder.tls_certs_only(authorities(file)?),
        // Small containers have no system certificates; a plain connection must not fail for that.
        None if !settings.target.is_https() && settings.proxy.is_none() => builder.tls_certs_only([]),
        None => builder,
    };
    Ok(match &settings.tls.identity {
        Some((certificate, key)) => builder.identity(identity(certificate, key)?),
        None => builder,
    })
}

fn authorities(file: &Path) -> Result<Vec<Certificate>, String> {
    let found = Certificate::from_pem_bundle(&read(file)?).unwrap_or_default();
    match found.is_empty() {
        true => Err(format!("there is no PEM certificate in {}", file.display())),
        false => Ok(found),
    }
}

fn identity(certificate: &Path, key: &Path) -> Result<Identity, String> {
    let pem = [read(certificate)?, b"\n".to_vec(), read(key)?].concat();
    Identity::from_pem(&pem).map_err(|_| {
        let (certificate, key) = (certificate.display(), key.display());
        format!("{certificate} and {key} are not a PEM certificate and its key")
    })
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read the file {}: {error}", file.display()))
}
