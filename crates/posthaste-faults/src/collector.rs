//! The verifying sink: an HTTP server that records every acceptance before it answers, and answers as the row wants.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use posthaste::EventId;
use posthaste_testkit::Accepted;
use tokio::net::TcpListener;

use crate::finding::Result;

/// A delivery as it came.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) accepted: Accepted,
    /// Who sent it: the path, which names the relay.
    pub(crate) from: String,
    pub(crate) at: SystemTime,
}

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Recorded and confirmed.
    Accept,
    /// Not recorded; this status.
    Refuse(u16),
    /// Recorded, but the connection breaks before the confirmation.
    AcceptAndHangUp,
    /// Recorded, and confirmed after this time.
    AcceptLate(Duration),
}

type Script = Arc<dyn Fn(&Delivery) -> Answer + Send + Sync>;

/// Records what arrives. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Collector {
    port: u16,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    script: Arc<RwLock<Script>>,
}

impl Collector {
    /// Listens on a port of its own and accepts everything.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let accept: Script = Arc::new(|_| Answer::Accept);
        let collector = Self {
            port: listener.local_addr()?.port(),
            deliveries: Arc::default(),
            script: Arc::new(RwLock::new(accept)),
        };
        tokio::spawn(collector.clone().listen(listener));
        Ok(collector)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on it answers like this.
    pub(crate) fn answer(&self, script: impl Fn(&Delivery) -> Answer + Send + Sync + 'static) {
        *self.script.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
    }

    /// Everything that was accepted, in this order.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.lock().clone()
    }

    /// The events of all deliveries after the first so many.
    pub(crate) fn accepted_after(&self, count: usize) -> Vec<EventId> {
        self.lock().iter().skip(count).map(|delivery| delivery.accepted.id).collect()
    }

    /// How many were accepted.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Takes deliveries out of the account, and says how many.
    pub(crate) fn forget(&self, which: impl Fn(&Delivery) -> bool) -> usize {
        let mut deliveries = self.lock();
        let before = deliveries.len();
        deliveries.retain(|delivery| !which(delivery));
        before - deliveries.len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Delivery>> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn listen(self, listener: TcpListener) {
        while let Ok((client, _)) = listener.accept().await {
            let collector = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| collector.take(request));
                // A client that breaks off, or an answer that we break off: both are meant.
                drop(http1::Builder::new().serve_connection(TokioIo::new(client), service).await);
            });
        }
    }

    /// An error closes the connection without an answer.
    async fn take(&self, request: Request<Incoming>) -> std::result::Result<Response<Empty<Bytes>>, HungUp> {
        let id = request.headers().get("webhook-id").and_then(|value| value.to_str().ok()?.parse().ok());
        let from = request.uri().path().trim_matches('/').to_owned();
        let body = request.into_body().collect().await.map_err(|_| HungUp)?.to_bytes().to_vec();
        // A check of the sink carries no event.
        let Some(id) = id else { return Ok(status(StatusCode::NO_CONTENT)) };
        let accepted = Accepted { id: EventId(id), key: None, payload: body };
        let delivery = Delivery { accepted, from, at: SystemTime::now() };
        let script = self.script.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = script(&delivery);
        if !matches!(answer, Answer::Refuse(_)) {
            self.lock().push(delivery);
        }
        match answer {
            Answer::Accept => Ok(status(StatusCode::NO_CONTENT)),
            Answer::Refuse(code) => Ok(status(StatusCode::from_u16(code).map_err(|_| HungUp)?)),
            Answer::AcceptAndHangUp => Err(HungUp),
            Answer::AcceptLate(time) => {
                tokio::time::sleep(time).await;
                Ok(status(StatusCode::NO_CONTENT))
            }
        }
    }
}

#[derive(Debug)]
struct HungUp;

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}

fn status(code: StatusCode) -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = code;
    response
}
