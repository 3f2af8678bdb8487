//! A connection and its channels.
//!
//! Each channel carries one message at a time. That looks wasteful and is not: channels are cheap, and many of them work
//! at once. On a shared channel the client library would hand a returned message to whichever confirmation comes next,
//! so that a routable message could be taken for an unroutable one and the other way round, which is a lost event.
//! It also keeps an exchange that does not exist, whose price is the channel, from costing anybody else's message.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Connection, ConnectionState, ErrorKind, Event, ExchangeKind};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::message::Outgoing;
use super::settings::RabbitmqSettings;
use super::transport;

/// An open connection.
#[derive(Debug)]
pub(super) struct Link {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
    permits: Semaphore,
    state: watch::Receiver<State>,
    listening: JoinHandle<()>,
}

/// What the server and the client library have said about the connection.
#[derive(Debug)]
enum State {
    Open,
    /// The server takes nothing at the moment, and why.
    Blocked(String),
    Over,
}

impl State {
    fn blocked(&self) -> Option<String> {
        match self {
            Self::Blocked(reason) => Some(reason.clone()),
            Self::Open | Self::Over => None,
        }
    }

    fn over(&self) -> Option<lapin::Error> {
        let over = matches!(self, Self::Over);
        over.then(|| ErrorKind::InvalidConnectionState(ConnectionState::Error).into())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Link {
    /// Connects within the deadline.
    pub(super) async fn open(settings: &RabbitmqSettings, name: String) -> Result<Self, String> {
        let connecting = tokio::time::timeout(settings.timeout, transport::connect(settings, name));
        let connection = match connecting.await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no connection within {:?}", settings.timeout)),
        };
        let channels = usize::from(connection.configuration().channel_max());
        let (state, listening) = listen(&connection);
        Ok(Self {
            permits: Semaphore::new(settings.in_flight.min(if channels == 0 {
                usize::MAX
            } else {
                channels
            })),
            connection,
            idle: Mutex::default(),
            state,
            listening,
        })
    }

    /// Whether it can still be used, as far as anybody knows.
    pub(super) fn is_open(&self) -> bool {
        self.connection.status().connected()
    }

    /// The largest frame both sides agreed on.
    pub(super) fn frame_max(&self) -> usize {
        match self.connection.configuration().frame_max() {
            0 => usize::MAX,
            size => size as usize,
        }
    }

    /// Why the server has blocked this connection, if it has.
    pub(super) fn blocked(&self) -> Option<String> {
        self.state.borrow().blocked()
    }

    /// Returns when the server blocks this connection.
    pub(super) async fn until_blocked(&self) -> String {
        self.until(State::blocked).await
    }

    async fn until<T>(&self, what: impl Fn(&State) -> Option<T>) -> T {
        let mut states = self.state.clone();
        let state = states.wait_for(|state| what(state).is_some()).await;
        match state.ok().and_then(|state| what(&state)) {
            Some(found) => found,
            // Nobody listens any more, so it will not be said.
            None => std::future::pending().await,
        }
    }

    /// A turn to publish, if there is one before that time. Pages that are delivered at once wait here for each other, which
    /// is no silence of the server.
    pub(super) async fn turn(&self, before: Instant) -> Option<SemaphorePermit<'_>> {
        timeout_at(before, self.permits.acquire()).await.ok()?.ok()
    }

    /// Publishes and waits for the confirmation. A channel that did not come so far is closed by dropping it.
    pub(super) async fn publish(&self, message: &Outgoing) -> lapin::Result<Confirmation> {
        let channel = self.channel().await?;
        let (exchange, routing_key) = (message.exchange.clone(), message.routing_key.clone());
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let properties = message.properties.clone();
        let sent = channel.basic_publish(exchange, routing_key, options, &message.body, properties).await?;
        let confirmation = sent.await?;
        self.idle().push(channel);
        Ok(confirmation)
    }

    async fn channel(&self) -> lapin::Result<Channel> {
        let idle = self.idle().pop().filter(|channel| channel.status().connected());
        if let Some(channel) = idle {
            return Ok(channel);
        }
        let channel = self.new_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// The client library answers no request for a channel that comes after its own thread has seen the end of the
    /// connection and before the rest of it knows. That would look like a server that is silent about an event.
    async fn new_channel(&self) -> lapin::Result<Channel> {
        tokio::select! {
            biased;
            channel = self.connection.create_channel() => channel,
            error = self.until(State::over) => Err(error),
        }
    }

    /// Whether an exchange is there. On a channel of its own, which an absent one costs.
    pub(super) async fn see_exchange(&self, exchange: &str) -> lapin::Result<()> {
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let channel = self.new_channel().await?;
        channel.exchange_declare(exchange.into(), ExchangeKind::Direct, options, FieldTable::default()).await
    }

    /// Whether a queue is there.
    pub(super) async fn see_queue(&self, queue: &str) -> lapin::Result<()> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let channel = self.new_channel().await?;
        channel.queue_declare(queue.into(), options, FieldTable::default()).await.map(drop)
    }

    /// Whether the server answers at all.
    pub(super) async fn see_server(&self) -> lapin::Result<()> {
        self.new_channel().await.map(drop)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps note of alarms of the server and of the end of the connection.
fn listen(connection: &Connection) -> (watch::Receiver<State>, JoinHandle<()>) {
    let (tell, state) = watch::channel(State::Open);
    let (status, mut events) = (connection.status().clone(), connection.events_listener());
    let listening = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let state = match event {
                Event::ConnectionBlocked(reason) => State::Blocked(reason),
                Event::ConnectionUnblocked => State::Open,
                // The end of a channel is told in the same words.
                Event::Error(_) if !status.connected() => State::Over,
                _ => continue,
            };
            tell.send_replace(state);
        }
    });
    (state, listening)
}
