//! One connection through a gate: two directions, each with a queue, so that a delay is a delay and not a slower line.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::faults::{Allowance, Counts, Faults};

/// How much may be on its way, in chunks. Beyond it a sender has to wait, as with a full window.
const ON_THE_WAY: usize = 64;

/// What a connection knows of its gate.
#[derive(Debug, Clone)]
pub(super) struct Passing {
    faults: watch::Receiver<Faults>,
    /// What had happened before it was let in.
    born: Faults,
    counts: Arc<Counts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

/// What was read, and when; nothing means the end.
struct Chunk {
    came: Instant,
    bytes: io::Result<Vec<u8>>,
}

impl Passing {
    pub(super) fn new(faults: watch::Receiver<Faults>, counts: Arc<Counts>) -> Self {
        let born = *faults.borrow();
        Self { faults, born, counts }
    }

    /// Until either side closes, the gate is shut, or a fault ends it.
    pub(super) async fn pass_on(
        self,
        mut client: TcpStream,
        server: SocketAddr,
        mut open: watch::Receiver<()>,
    ) {
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        // A chunk that waits for the acknowledgement of the last one would be a delay that nobody asked for.
        drop((client.set_nodelay(true), server.set_nodelay(true)));
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let both = async {
            tokio::try_join!(
                self.clone().pass_requests(from_client, to_server),
                self.clone().pass_answers(from_server, to_client)
            )
        };
        let reset = tokio::select! {
            _ = both => false,
            _ = open.changed() => false,
            () = self.until(|faults, born| faults.reset > born.reset) => true,
        };
        if reset {
            // Whoever is gone already needs no reset.
            drop((client.set_zero_linger(), server.set_zero_linger()));
        }
    }

    async fn pass_requests(self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let (queue, mut chunks) = mpsc::channel(ON_THE_WAY);
        tokio::select! {
            ended = self.give(&mut to, &mut chunks, Direction::Requests) => ended,
            () = take(from, queue) => Ok(()),
        }
    }

    async fn pass_answers(self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let (queue, mut chunks) = mpsc::channel(ON_THE_WAY);
        tokio::select! {
            ended = self.give_until_half_closed(&mut to, &mut chunks) => ended,
            () = take(from, queue) => Ok(()),
        }
    }

    async fn give_until_half_closed(
        &self,
        to: &mut WriteHalf<'_>,
        chunks: &mut mpsc::Receiver<Chunk>,
    ) -> io::Result<()> {
        tokio::select! {
            ended = self.give(to, chunks, Direction::Answers) => return ended,
            () = self.until(|faults, born| faults.half_closed > born.half_closed) => {}
        }
        to.shutdown().await?;
        // Nobody hears it any more, but the server must be able to say it.
        while let Some(chunk) = chunks.recv().await {
            if chunk.bytes?.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// One direction, until its sender closes it. An error ends both.
    async fn give(
        &self,
        to: &mut WriteHalf<'_>,
        chunks: &mut mpsc::Receiver<Chunk>,
        direction: Direction,
    ) -> io::Result<()> {
        let mut allowance = Allowance::default();
        while let Some(chunk) = chunks.recv().await {
            self.until_it_comes_through(chunk.came, direction).await;
            let bytes = chunk.bytes?;
            if bytes.is_empty() {
                return to.shutdown().await;
            }
            let (through, breaks) = self.judge(&bytes, direction, &mut allowance);
            to.write_all(&bytes[..through]).await?;
            if breaks {
                return Err(io::Error::other("a fault of the gate"));
            }
        }
        Ok(())
    }

    async fn until_it_comes_through(&self, came: Instant, direction: Direction) {
        let mut faults = self.faults.clone();
        let delay = match direction {
            Direction::Requests => faults.borrow().request_delay,
            Direction::Answers => faults.borrow().answer_delay,
        };
        sleep_until(came + delay).await;
        // The gate may be gone, with which it does not fall silent.
        drop(faults.wait_for(|faults| !faults.silent && faults.abandoned == self.born.abandoned).await);
    }

    /// How much of a chunk comes through, and whether the connection breaks after it.
    fn judge(&self, bytes: &[u8], direction: Direction, allowance: &mut Allowance) -> (usize, bool) {
        let faults = *self.faults.borrow();
        if direction == Direction::Requests {
            return (bytes.len(), false);
        }
        match faults.drop_every {
            Some(every) if self.counts.drops(every) => (0, true),
            _ => allowance.take(faults.limit, bytes.len()),
        }
    }

    /// Until something happened to this connection.
    async fn until(&self, happened: impl Fn(&Faults, &Faults) -> bool) {
        let mut faults = self.faults.clone();
        if faults.wait_for(|faults| happened(faults, &self.born)).await.is_err() {
            // The gate is gone, which ends connections in another way.
            pending::<()>().await;
        }
    }
}

/// Reads until the end, which is put into the queue as well. Never returns: what is in the queue has to be given first.
async fn take(mut from: ReadHalf<'_>, queue: mpsc::Sender<Chunk>) {
    loop {
        let mut bytes = vec![0; 16 * 1024];
        let read = from.read(&mut bytes).await.map(|read| {
            bytes.truncate(read);
            bytes
        });
        let last = read.as_ref().map_or(true, Vec::is_empty);
        if queue.send(Chunk { came: Instant::now(), bytes: read }).await.is_err() || last {
            return pending().await;
        }
    }
}
