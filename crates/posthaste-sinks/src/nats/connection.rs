//! A connection that lives once.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::traits::Publisher;
use async_nats::connection::State;
use async_nats::jetstream::context::{ContextBuilder, PublishError, PublishErrorKind};
use async_nats::jetstream::{self, Context};
use async_nats::message::OutboundMessage;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, ServerAddr, client};
use bytes::Bytes;
use futures::FutureExt;
use tokio::task::unconstrained;
use tokio::time::{Instant, timeout};

use super::answers::{Answers, Expected};
use super::settings::{NatsLogin, NatsSettings};

/// Nobody listens on port 0, anywhere: where a client goes that must not reconnect. It has no setting for that.
const NOWHERE: &str = "nats://127.0.0.1:0";

/// One connection with its JetStream context. Once it is lost it stays lost.
#[derive(Debug)]
pub(super) struct Connection {
    /// For questions. Events are published past it, see `answers`.
    pub(super) jetstream: Context,
    client: Client,
    answers: Answers,
    /// The last complaint of the server, which it does not tie to a message.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Connection {
    /// Connects to the first server that answers; the error is a sentence.
    pub(super) async fn open(settings: &NatsSettings) -> Result<Self, String> {
        match timeout(settings.timeout, Self::connect(settings)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no connection within {:?}", settings.timeout)),
        }
    }

    async fn connect(settings: &NatsSettings) -> Result<Self, String> {
        let complaint = Arc::new(Mutex::new(None));
        let addresses: Vec<ServerAddr> = settings.urls.iter().filter_map(|url| url.parse().ok()).collect();
        let options = options(settings, complaint.clone()).await?;
        let client = options.connect(addresses).await.map_err(|error| explain(error.kind(), &error))?;
        let nowhere = client.set_server_pool(NOWHERE).await;
        nowhere.map_err(|_| lost())?;
        let answers = Answers::listen(&client, settings.timeout).await.map_err(|_| lost())?;
        Ok(Self { jetstream: context(client.clone(), settings), client, answers, complaint })
    }

    /// Hands a message to the client. What is returned waits for the answer of a stream, for the timeout from now on.
    pub(super) fn publish(
        &self,
        now: Instant,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Expected<'_>, PublishError> {
        let expected = self.answers.expect(now);
        let (subject, reply) = (subject.into(), Some(expected.reply_to().into()));
        let message = OutboundMessage { subject, reply, headers: Some(headers), payload };
        // Not awaited: there is room for all that may be on its way, and a future for it would be most of what each event
        // of a page takes. Unconstrained, or the runtime would say that there is none after a hundred messages in a row.
        match unconstrained(self.client.publish_message(message)).now_or_never() {
            Some(taken) => taken.map(|()| expected).map_err(refused),
            None => Err(PublishError::new(PublishErrorKind::MaxAckPending)),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.client().connection_state() == State::Connected
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What the server complained about last, if it did.
    pub(super) fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn lost() -> String {
    "the connection was lost at once".to_owned()
}

fn context(client: Client, settings: &NatsSettings) -> Context {
    ContextBuilder::new().timeout(settings.timeout).build(client)
}

/// What the client refuses to send, in the words of JetStream.
fn refused(error: client::PublishError) -> PublishError {
    let kind = match error.kind() {
        client::PublishErrorKind::MaxPayloadExceeded => PublishErrorKind::MaxPayloadExceeded,
        _ => PublishErrorKind::Other,
    };
    PublishError::with_source(kind, error)
}

async fn options(
    settings: &NatsSettings,
    complaint: Arc<Mutex<Option<String>>>,
) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new()
        .name("posthaste")
        .client_capacity(settings.in_flight * 4)
        .connection_timeout(settings.timeout)
        .request_timeout(Some(settings.timeout))
        .ping_interval(Duration::from_secs(10))
        .ignore_discovered_servers()
        .max_reconnects(settings.urls.len())
        .reconnect_delay_callback(|_| Duration::ZERO)
        .require_tls(settings.tls.on)
        .event_callback(move |event| note(event, complaint.clone()));
    if let Some(ca_file) = &settings.tls.ca_file {
        options = options.add_root_certificates(ca_file.clone());
    }
    if let Some((certificate, key)) = &settings.tls.identity {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    log_in(options, &settings.login).await
}

async fn log_in(options: ConnectOptions, login: &NatsLogin) -> Result<ConnectOptions, String> {
    Ok(match login {
        NatsLogin::None => options,
        NatsLogin::CredentialsFile(path) => options
            .credentials_file(path)
            .await
            .map_err(|error| format!("the credentials file {}: {error}", path.display()))?,
        NatsLogin::Token(token) => options.token(token.expose().to_owned()),
        NatsLogin::Password { username, password } => {
            options.user_and_password(username.clone(), password.expose().to_owned())
        }
        NatsLogin::Nkey(seed) => options.nkey(seed.expose().to_owned()),
    })
}

async fn note(event: Event, complaint: Arc<Mutex<Option<String>>>) {
    if let Event::ServerError(error) = event {
        *complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}

fn explain(kind: ConnectErrorKind, error: &(dyn Error + 'static)) -> String {
    match kind {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "the server does not accept these credentials".to_owned()
        }
        _ => format!("no connection: {}", chain(error)),
    }
}

/// An error with all its causes, each said once.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut said = String::new();
    for cause in causes.map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// The error that JetStream answered with, if that is what went wrong.
pub(super) fn answer<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e jetstream::Error> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::stream::Config;
    use posthaste_testkit::Gate;
    use posthaste_testkit::brokers::nats::NatsServer;

    use super::*;
    use crate::template::Template;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lost_connection_stays_lost_and_sends_nothing_later() {
        let Ok(server) = NatsServer::start("").await else { return };
        let gate = Gate::before(server.port()).await;
        let at =
            |port: u16| NatsSettings::new([format!("nats://127.0.0.1:{port}")], Template::literal("orders"));
        let direct = Connection::open(&at(server.port())).await.expect("a connection");
        let stream = Config { name: "ORDERS".into(), subjects: vec!["orders".into()], ..Config::default() };
        let mut stream = direct.jetstream.create_stream(stream).await.expect("a stream");
        let lost = Connection::open(&at(gate.port())).await.expect("a connection");
        assert!(lost.is_alive());
        gate.shut().await;
        while lost.is_alive() {
            tokio::task::yield_now().await;
        }
        // Whether the client takes it or not: it must not arrive.
        let sent = lost.jetstream.publish("orders", "late".into()).await;
        gate.open().await;
        if let Ok(acknowledgement) = sent {
            assert!(acknowledgement.await.is_err());
        }
        let anew = Connection::open(&at(gate.port())).await.expect("a connection");
        anew.jetstream.publish("orders", "anew".into()).await.expect("sent").await.expect("stored");
        assert_eq!(stream.info().await.expect("its state").state.messages, 1);
    }
}
