//! A receiver of webhooks in a process of its own: HTTP/1.1, connections are kept, every request is fine.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::measure::Result;

/// The word on the command line.
pub(crate) const COMMAND: &str = "receiver";

const FINE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// The other side: says its port, then after each line of its input how many events have come since the last one. It ends
/// with its input.
pub(crate) async fn main() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let count = Arc::new(AtomicU64::new(0));
    tokio::spawn(accept(listener, count.clone()));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        println!("{}", count.swap(0, Ordering::Relaxed));
    }
    Ok(())
}

async fn accept(listener: TcpListener, count: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        let count = count.clone();
        // Whoever hangs up does not want to hear more.
        tokio::spawn(async move { serve(stream, &count).await.ok() });
    }
}

async fn serve(mut stream: TcpStream, count: &AtomicU64) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut read: Vec<u8> = Vec::with_capacity(16 * 1024);
    while stream.read_buf(&mut read).await? > 0 {
        while let Some(length) = first_request(&read) {
            count.fetch_add(u64::from(read.starts_with(b"POST ")), Ordering::Relaxed);
            read.drain(..length);
            stream.write_all(FINE).await?;
        }
    }
    Ok(())
}

/// How many bytes the first request has, if all of it is there.
fn first_request(read: &[u8]) -> Option<usize> {
    let end = read.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&read[..end]).ok()?;
    let length = head.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(end + length.unwrap_or(0)).filter(|whole| *whole <= read.len())
}

/// This side of it. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) port: u16,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Receiver {
    pub(super) async fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("no input and output")?;
        let mut lines = BufReader::new(output).lines();
        let port = lines.next_line().await?.ok_or("it ended at once")?.parse()?;
        Ok(Self { port, input, lines, _child: child })
    }

    /// How many events have come since the last time.
    pub(super) async fn count(&mut self) -> Result<u64> {
        self.input.write_all(b"count\n").await?;
        Ok(self.lines.next_line().await?.ok_or("the receiver has ended")?.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_body_is_there() {
        let first = b"POST / HTTP/1.1\r\nhost: x\r\nContent-Length: 3\r\n\r\nabc";
        let both = [&first[..], b"HEAD / HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(first_request(&both), Some(first.len()));
        assert_eq!(first_request(&both[first.len()..]), Some(both.len() - first.len()));
        assert_eq!(first_request(&first[..first.len() - 1]), None);
        assert_eq!(first_request(&first[..20]), None);
    }
}
