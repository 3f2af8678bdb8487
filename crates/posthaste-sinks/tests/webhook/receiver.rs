//! A receiver of webhooks: HTTP/1.1 by hand, because a test must be able to answer too early, too late, too much, drop by
//! drop or not at all, and to count connections. It records what it read and answers by script.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What to do with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// After this long.
    Late(Duration, u16),
    /// Never.
    Silence,
    /// The connection is closed instead.
    HangUp,
    /// A status, and then a body that never ends.
    Endless(u16),
    /// A status, and then a byte now and then.
    Drip(u16),
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), Vec::new())
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Answer(code, ..) | Self::Late(_, code) | Self::Endless(code) | Self::Drip(code) => {
                Some(*code)
            }
            Self::Silence | Self::HangUp => None,
        }
    }
}

type Script = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

pub(crate) struct Receiver {
    pub(crate) port: u16,
    tls: Option<TlsAcceptor>,
    state: Arc<State>,
    listening: tokio::sync::Mutex<Option<Listening>>,
}

struct State {
    script: Script,
    answered: Mutex<Vec<(Request, Option<u16>)>>,
    connections: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    written: AtomicUsize,
}

struct Listening {
    accepting: JoinHandle<()>,
    /// Dropped, it ends all connections.
    open: watch::Sender<()>,
}

impl Receiver {
    pub(crate) async fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        Self::start_with(None, script).await
    }

    pub(crate) async fn start_with(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Arc<Self> {
        let listener = listen(0);
        let port = listener.local_addr().expect("an address").port();
        let state = State {
            script: Box::new(script),
            answered: Mutex::default(),
            connections: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            written: AtomicUsize::new(0),
        };
        let receiver = Self { port, tls, state: Arc::new(state), listening: tokio::sync::Mutex::new(None) };
        *receiver.listening.lock().await = Some(receiver.accept(listener));
        Arc::new(receiver)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// Stops listening, then breaks all connections: whoever is broken off finds nobody there.
    pub(crate) async fn go_away(&self) {
        if let Some(Listening { accepting, open }) = self.listening.lock().await.take() {
            accepting.abort();
            drop(accepting.await);
            drop(open);
        }
    }

    pub(crate) async fn come_back(&self) {
        *self.listening.lock().await = Some(self.accept(listen(self.port)));
    }

    /// All requests with an event so far, and how they were answered.
    pub(crate) fn answered(&self) -> Vec<(Request, Option<u16>)> {
        let all = self.state.answered.lock().expect("no panic").clone();
        all.into_iter().filter(|(request, _)| request.method == "POST").collect()
    }

    /// All events that were accepted so far.
    pub(crate) fn accepted(&self) -> Vec<Request> {
        let accepted = |status: Option<u16>| status.is_some_and(|status| (200..300).contains(&status));
        self.answered()
            .into_iter()
            .filter(|(_, status)| accepted(*status))
            .map(|(request, _)| request)
            .collect()
    }

    pub(crate) fn checks(&self) -> Vec<Request> {
        let all = self.state.answered.lock().expect("no panic").clone();
        all.into_iter().map(|(request, _)| request).filter(|request| request.method != "POST").collect()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The most requests that were there at the same time.
    pub(crate) fn most_at_once(&self) -> usize {
        self.state.most.load(Ordering::SeqCst)
    }

    /// How many bytes of endless bodies could be written.
    pub(crate) fn written(&self) -> usize {
        self.state.written.load(Ordering::SeqCst)
    }

    fn accept(&self, listener: TcpListener) -> Listening {
        let (open, watching) = watch::channel(());
        let (state, tls) = (self.state.clone(), self.tls.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                state.connections.fetch_add(1, Ordering::SeqCst);
                let (state, tls, mut watching) = (state.clone(), tls.clone(), watching.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = welcome(stream, tls, &state) => {}
                        _ = watching.changed() => {}
                    }
                });
            }
        });
        Listening { accepting, open }
    }
}

fn listen(port: u16) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("reuse");
    socket.bind((Ipv4Addr::LOCALHOST, port).into()).expect("the port is ours");
    socket.listen(128).expect("listen")
}

async fn welcome(stream: TcpStream, tls: Option<TlsAcceptor>, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        Some(tls) => serve(tls.accept(stream).await?, state).await,
        None => serve(stream, state).await,
    }
}

/// Until the client closes or the script hangs up.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        let reply = (state.script)(&request);
        state.answered.lock().expect("no panic").push((request.clone(), reply.code()));
        let now = state.now.fetch_add(1, Ordering::SeqCst) + 1;
        state.most.fetch_max(now, Ordering::SeqCst);
        let kept = write(&mut stream, reply, &request, state).await;
        state.now.fetch_sub(1, Ordering::SeqCst);
        if !kept? {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { method, path, headers, body }))
}

/// Whether the connection is kept.
async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    reply: Reply,
    request: &Request,
    state: &State,
) -> io::Result<bool> {
    match reply {
        Reply::Answer(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(format!("{head}\r\n").as_bytes()).await?;
            if request.method != "HEAD" {
                stream.write_all(&body).await?;
            }
        }
        Reply::Late(pause, status) => {
            tokio::time::sleep(pause).await;
            stream.write_all(format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").as_bytes()).await?;
        }
        Reply::Silence => std::future::pending::<()>().await,
        Reply::HangUp => return Ok(false),
        Reply::Endless(status) => pour(stream, status, &[b'x'; 4096], Duration::ZERO, state).await?,
        Reply::Drip(status) => pour(stream, status, b"x", Duration::from_millis(200), state).await?,
    }
    stream.flush().await?;
    Ok(true)
}

/// A body without an end, until the client hangs up.
async fn pour(
    stream: &mut (impl AsyncWrite + Unpin),
    status: u16,
    piece: &[u8],
    pause: Duration,
    state: &State,
) -> io::Result<()> {
    stream
        .write_all(format!("HTTP/1.1 {status} x\r\ncontent-length: 999999999999\r\n\r\n").as_bytes())
        .await?;
    loop {
        stream.write_all(piece).await?;
        stream.flush().await?;
        state.written.fetch_add(piece.len(), Ordering::SeqCst);
        tokio::time::sleep(pause).await;
    }
}
