//! A gate before a server: a TCP proxy that can be shut, fall silent, be slow, or break connections in the ways networks do.
//! Also for servers that would forget everything if they were killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

mod faults;
mod passing;

use faults::{Counts, Faults, Limit};
use passing::Passing;

/// Passes connections on to a server, until it is shut.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    server_port: AtomicU16,
    listening: Mutex<Option<Listening>>,
    faults: watch::Sender<Faults>,
    counts: Arc<Counts>,
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
        let server_port = AtomicU16::new(server_port);
        let (faults, counts) = (watch::Sender::default(), Arc::default());
        let gate = Self { port, server_port, listening: Mutex::new(None), faults, counts };
        *gate.listening.lock().await = Some(gate.accept(listener));
        Arc::new(gate)
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were let in so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
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

    /// Opened the next time, it leads to another server of this machine: an address that stays while servers change.
    pub fn lead_to(&self, server_port: u16) {
        self.server_port.store(server_port, Ordering::Relaxed);
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
        self.faults.send_modify(|faults| faults.silent = true);
    }

    /// What was held back comes through, and everything after it.
    pub fn speak_again(&self) {
        self.faults.send_modify(|faults| faults.silent = false);
    }

    /// Nothing comes through the connections of this moment any more, for ever, and nobody is told; new ones are served. As a
    /// firewall does that forgot them.
    pub fn abandon_connections(&self) {
        self.faults.send_modify(|faults| faults.abandoned += 1);
    }

    /// Both ends of the connections of this moment get a reset (RST); new ones are served.
    pub fn reset_connections(&self) {
        self.faults.send_modify(|faults| faults.reset += 1);
    }

    /// Clients of this moment hear the end of the answers, while what they say still arrives; new ones are served.
    pub fn close_towards_clients(&self) {
        self.faults.send_modify(|faults| faults.half_closed += 1);
    }

    /// From now on everything arrives that much later, in the same order. Zero is as fast as it goes.
    pub fn delay(&self, requests: Duration, answers: Duration) {
        self.faults.send_modify(|faults| {
            faults.request_delay = requests;
            faults.answer_delay = answers;
        });
    }

    /// From now on each connection, old or new, breaks once so many bytes of answers have come through it.
    pub fn break_off_answers_after(&self, bytes: usize) {
        self.faults.send_modify(|faults| {
            let number = faults.limit.map_or(0, |limit| limit.number + 1);
            faults.limit = Some(Limit { bytes, number });
        });
    }

    /// From now on one answer out of `every` is swallowed, and its connection then broken: the server has done what it was
    /// asked to, and nobody hears of it. All connections are counted together, each piece that the server sends at once as
    /// one answer; a greeting is one as well.
    ///
    /// # Panics
    /// If `every` is 0.
    pub fn drop_answers(&self, every: u64) {
        assert!(every > 0, "1 drops every answer; `let_answers_through` drops none");
        self.counts.answers.store(0, Ordering::Relaxed);
        self.faults.send_modify(|faults| faults.drop_every = Some(every));
    }

    /// How many answers were swallowed so far.
    pub fn answers_dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Answers are neither dropped nor broken off any more.
    pub fn let_answers_through(&self) {
        self.faults.send_modify(|faults| (faults.drop_every, faults.limit) = (None, None));
    }

    fn accept(&self, listener: TcpListener) -> Listening {
        let (open, watching) = watch::channel(());
        let server: SocketAddr = (Ipv4Addr::LOCALHOST, self.server_port.load(Ordering::Relaxed)).into();
        let (faults, counts) = (self.faults.subscribe(), self.counts.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counts.connections.fetch_add(1, Ordering::Relaxed);
                let passing = Passing::new(faults.clone(), counts.clone());
                tokio::spawn(passing.pass_on(client, server, watching.clone()));
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

#[cfg(test)]
mod tests;
