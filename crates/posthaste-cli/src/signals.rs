//! The wish to stop: the first signal asks for a clean end, the second one ends at once.

use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Both wishes, as tokens to wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    pub(crate) stop: CancellationToken,
    pub(crate) stop_at_once: CancellationToken,
}

impl Signals {
    /// Listens from now on; until then a signal ends the process as usual.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let signals = Self::default();
        let mut wishes = Wishes::listen().map_err(Failure::while_doing("listen for Ctrl-C"))?;
        let heard = signals.clone();
        tokio::spawn(async move {
            wishes.next().await;
            heard.stop.cancel();
            wishes.next().await;
            heard.stop_at_once.cancel();
        });
        Ok(signals)
    }
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

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
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

    async fn next(&mut self) {
        drop(tokio::signal::ctrl_c().await);
    }
}
