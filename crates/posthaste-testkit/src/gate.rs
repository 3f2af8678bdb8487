//! A gate before a server: a TCP proxy that can be shut, for servers that would forget everything if they were killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

/// Passes connections on to a server, until it is shut.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    server: SocketAddr,
    listening: Mutex<Option<Listening>>,
}

#[derive(Debug)]
struct Listening {
    accepting: JoinHandle<()>,
    /// Dropped, it ends all connections.
    open: watch::Sender<()>,
}

impl Gate {
    /// Opens a gate on a port of its own before a server of this machine.
    pub async fn before(server_port: u16) -> Arc<Self> {
        let listener = listen(0);
        let port = listener.local_addr().expect("an address").port();
        let gate =
            Self { port, server: (Ipv4Addr::LOCALHOST, server_port).into(), listening: Mutex::new(None) };
        *gate.listening.lock().await = Some(gate.accept(listener));
        Arc::new(gate)
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections and refuses new ones.
    pub async fn shut(&self) {
        if let Some(Listening { accepting, open }) = self.listening.lock().await.take() {
            accepting.abort();
            // Ends when the task is gone, and the listener with it.
            drop(accepting.await);
            drop(open);
        }
    }

    /// Lets clients in again.
    pub async fn open(&self) {
        let mut listening = self.listening.lock().await;
        if listening.is_none() {
            *listening = Some(self.accept(listen(self.port)));
        }
    }

    fn accept(&self, listener: TcpListener) -> Listening {
        let (open, watching) = watch::channel(());
        let server = self.server;
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, server, watching.clone()));
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

/// Until either side closes or the gate is shut.
async fn pass_on(mut client: TcpStream, server: SocketAddr, mut open: watch::Receiver<()>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = open.changed() => {}
    }
}
