//! A gate before a server: a TCP proxy that can be shut or fall silent, for servers that would forget everything if they
//! were killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

/// Passes connections on to a server, until it is shut.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    server: SocketAddr,
    listening: Mutex<Option<Listening>>,
    silence: watch::Sender<Silence>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Silence {
    /// Nothing comes through anywhere.
    all: bool,
    /// Connections with a lower number are abandoned.
    abandoned: u64,
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
        let server = (Ipv4Addr::LOCALHOST, server_port).into();
        let gate = Self { port, server, listening: Mutex::new(None), silence: watch::Sender::default() };
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

    /// Connections stay and new ones are accepted, but nothing comes through any more: a server that hangs, or a network
    /// that swallows everything.
    pub fn fall_silent(&self) {
        self.silence.send_modify(|silence| silence.all = true);
    }

    /// What was held back comes through, and everything after it.
    pub fn speak_again(&self) {
        self.silence.send_modify(|silence| silence.all = false);
    }

    /// Nothing comes through the connections of this moment any more, for ever, and nobody is told; new ones are served. As a
    /// firewall does that forgot them.
    pub fn abandon_connections(&self) {
        self.silence.send_modify(|silence| silence.abandoned += 1);
    }

    fn accept(&self, listener: TcpListener) -> Listening {
        let (open, watching) = watch::channel(());
        let (server, silence) = (self.server, self.silence.subscribe());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, server, watching.clone(), silence.clone()));
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
async fn pass_on(
    mut client: TcpStream,
    server: SocketAddr,
    mut open: watch::Receiver<()>,
    silence: watch::Receiver<Silence>,
) {
    let born = silence.borrow().abandoned;
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    let both = async {
        tokio::try_join!(
            pour(from_client, to_server, silence.clone(), born),
            pour(from_server, to_client, silence, born)
        )
    };
    tokio::select! {
        _ = both => {}
        _ = open.changed() => {}
    }
}

/// One direction, until its sender closes it. An error ends both.
async fn pour(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut silence: watch::Receiver<Silence>,
    born: u64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        // The gate may be gone, with which it does not fall silent.
        drop(silence.wait_for(|silence| !silence.all && silence.abandoned == born).await);
        match read {
            0 => return to.shutdown().await,
            _ => to.write_all(&buffer[..read]).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_to_a_silent_gate_arrives_when_it_speaks_again() {
        let server = listen(0);
        let gate = Gate::before(server.local_addr().expect("an address").port()).await;
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, gate.port())).await.expect("let in");
        let (mut behind, _) = server.accept().await.expect("passed on");
        let mut heard = [0; 3];
        client.write_all(b"one").await.expect("said");
        behind.read_exact(&mut heard).await.expect("heard");
        gate.fall_silent();
        client.write_all(b"two").await.expect("said");
        behind.write_all(b"yes").await.expect("answered");
        let quiet =
            tokio::time::timeout(std::time::Duration::from_millis(200), behind.read_exact(&mut heard));
        assert!(quiet.await.is_err(), "nothing comes through: {heard:?}");
        gate.speak_again();
        behind.read_exact(&mut heard).await.expect("heard");
        assert_eq!(&heard, b"two");
        client.read_exact(&mut heard).await.expect("heard");
        assert_eq!(&heard, b"yes");
        drop(client);
        assert_eq!(behind.read(&mut heard).await.expect("the end"), 0);
    }
}
