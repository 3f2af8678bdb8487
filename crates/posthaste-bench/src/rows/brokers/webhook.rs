//! A webhook: one signed request per event.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::Mutex;

use super::broker::{self, Broker};
use super::parcel::{Parcel, in_flight};
use super::receiver::Receiver;
use crate::measure::Result;

/// What signs.
pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The settings of the sink.
const CONCURRENCY: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Webhook {
    url: String,
    receiver: Mutex<Receiver>,
}

#[async_trait]
impl Broker for Webhook {
    const NAME: &'static str = "brokers webhook";
    const TITLE: &'static str = "Webhook";
    const EVENTS: u64 = 100_000;
    const PREFIX: &'static str = "ce-";

    type Client = Client;

    async fn start() -> Result<Self> {
        let receiver = Receiver::start().await?;
        let url = format!("http://127.0.0.1:{}/orders", receiver.port);
        Ok(Self { url, receiver: Mutex::new(receiver) })
    }

    async fn clear(&self) -> Result<()> {
        self.receiver.lock().await.count().await.map(drop)
    }

    async fn count(&self) -> Result<u64> {
        self.receiver.lock().await.count().await
    }

    fn sink(&self) -> Value {
        json!({ "type": "webhook", "url": self.url, "allow_private": true, "secrets": [{ "env": broker::SECRET }] })
    }

    async fn client(&self) -> Result<Client> {
        client()
    }

    async fn send(&self, client: &Client, parcels: &[Parcel]) -> Result<()> {
        let key = &key()?;
        in_flight(parcels, CONCURRENCY, |parcel| {
            let request = signed(client.post(&self.url), key, parcel);
            async move { Ok(async move { answered(request?).await }) }
        })
        .await
    }
}

fn client() -> Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .timeout(TIMEOUT)
        .connect_timeout(Duration::from_secs(5))
        .tcp_keepalive(Duration::from_secs(15))
        .pool_max_idle_per_host(CONCURRENCY)
        .tls_certs_only([]);
    Ok(builder.build()?)
}

/// The body is read, so that the connection is used again.
async fn answered(request: RequestBuilder) -> Result<()> {
    request.send().await?.error_for_status()?.bytes().await?;
    Ok(())
}

fn key() -> Result<Vec<u8>> {
    let coded = SECRET.strip_prefix("whsec_").ok_or("no secret")?;
    Ok(BASE64_STANDARD.decode(coded)?)
}

fn signed(request: RequestBuilder, key: &[u8], parcel: &Parcel) -> Result<RequestBuilder> {
    let (body, timestamp) = (parcel.body.clone(), Utc::now().timestamp());
    let mut mac = Hmac::<Sha256>::new_from_slice(key)?;
    mac.update(format!("{}.{timestamp}.", parcel.id).as_bytes());
    mac.update(&body);
    let signature = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    let with = |request: RequestBuilder, (name, value): &(String, String)| request.header(name, value);
    let request = parcel.attributes.iter().fold(request, with);
    Ok(request
        .header("content-type", &parcel.content_type)
        .header("webhook-id", &parcel.id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature)
        .body(body))
}
