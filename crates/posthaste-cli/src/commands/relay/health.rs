//! `/healthz` and `/readyz`, for whoever starts and watches the process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use super::board::Board;
use crate::config::Listen;
use crate::failure::Failure;

/// Probes are few and short; more connections than this wait.
const CONNECTIONS: usize = 32;

/// How long a client may take to ask.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Listens, and answers for as long as the process lives. Returns the address, whose port may have been chosen just now.
pub(crate) async fn serve(listen: Option<Listen>, board: Arc<Board>) -> Result<Option<SocketAddr>, Failure> {
    let Some(Listen { address, written }) = listen else { return Ok(None) };
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if !written => {
            warn!(
                "health is not served: cannot listen on {address}: {error}; choose another relay.listen, or \"off\""
            );
            return Ok(None);
        }
        Err(error) => {
            return Err(Failure::configuration(format!(
                "relay.listen: cannot listen on {address}: {error}; choose another address, or \"off\""
            )));
        }
    };
    let chosen = listener.local_addr().map_err(Failure::while_doing("listen"))?;
    if !chosen.ip().to_canonical().is_loopback() {
        warn!(
            "relay.listen: {chosen} is not only for this machine: whoever reaches it may ask, without a password, for the names \
             of subscriptions and for what is wrong with their sinks"
        );
    }
    tokio::spawn(accept(listener, board));
    Ok(Some(chosen))
}

async fn accept(listener: TcpListener, board: Arc<Board>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let board = board.clone();
                tokio::spawn(async move {
                    converse(stream, board).await;
                    drop(place);
                });
            }
            // Out of file descriptors, most likely: they come back.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream, board: Arc<Board>) {
    let service = service_fn(move |request| {
        let board = board.clone();
        async move { Ok::<_, Infallible>(answer(&request, &board).await) }
    });
    let conversation = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ASK_WITHIN)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = conversation.await {
        debug!(%error, "a health probe ended early");
    }
}

async fn answer(request: &Request<Incoming>, board: &Board) -> Response<Full<Bytes>> {
    let asks = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/healthz" | "/readyz" if !asks => {
            say(StatusCode::METHOD_NOT_ALLOWED, &json!({ "problem": "only GET is answered" }))
        }
        "/healthz" => say(StatusCode::OK, &json!({ "alive": true })),
        "/readyz" => match board.ready().await {
            (true, body) => say(StatusCode::OK, &body),
            (false, body) => say(StatusCode::SERVICE_UNAVAILABLE, &body),
        },
        _ => say(StatusCode::NOT_FOUND, &json!({ "problem": "there are /healthz and /readyz" })),
    }
}

fn say(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    response
}
