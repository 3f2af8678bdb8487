//! The wish to stop: the first signal asks for a clean end, the second one ends at once. SIGHUP may mean "read again".

use std::sync::Arc;

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
