//! The wish to stop: the first signal asks for a clean end, the second one ends at once. SIGHUP may mean "read again".

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// All wishes, to wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    pub(crate) stop: CancellationToken,
    pub(crate) stop_at_once: CancellationToken,
    /// Somebody wants the configuration read again.
    pub(crate) reload: Arc<Notify>,
}

enum Wish {
    Stop,
    HangUp,
}

impl Signals {
    /// Listens from now on; until then a signal ends the process as usual. SIGHUP means stop.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::hear(false)
    }

    /// The same, but SIGHUP means reload.
    pub(crate) fn listen_and_reload() -> Result<Self, Failure> {
        Self::hear(true)
    }

    fn hear(reloads: bool) -> Result<Self, Failure> {
        let signals = Self::default();
        let mut wishes = Wishes::listen().map_err(Failure::while_doing("listen for Ctrl-C"))?;
        let heard = signals.clone();
        tokio::spawn(async move {
            loop {
                match wishes.next().await {
                    Wish::HangUp if reloads => heard.reload.notify_one(),
                    _ if heard.stop.is_cancelled() => return heard.stop_at_once.cancel(),
                    _ => heard.stop.cancel(),
                }
            }
        });
        Ok(signals)
    }
}

/// How long the end waits for a line that is being written, to a pipe that nobody reads perhaps.
const LAST_LINE: Duration = Duration::from_millis(200);

/// Runs what goes on for ever until it fails, or until somebody wishes it to stop, which is a good end. It is stopped
/// between two lines, never within one.
pub(crate) async fn until_stopped<W>(work: W) -> Result<(), Failure>
where
    W: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let signals = Signals::listen()?;
    let mut working = tokio::spawn(work);
    tokio::select! {
        done = &mut working => return done.map_err(Failure::while_doing("go on"))?,
        () = signals.stop.cancelled() => working.abort(),
    }
    drop(tokio::time::timeout(LAST_LINE, working).await);
    if std::io::stderr().is_terminal() {
        // The terminal has shown ^C; the prompt begins on a line of its own.
        eprintln!();
    }
    Ok(())
}

#[cfg(unix)]
struct Wishes {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Wishes {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.hang_up.recv() => Wish::HangUp,
        }
    }
}

#[cfg(not(unix))]
struct Wishes;

#[cfg(not(unix))]
impl Wishes {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Wish {
        drop(tokio::signal::ctrl_c().await);
        Wish::Stop
    }
}
