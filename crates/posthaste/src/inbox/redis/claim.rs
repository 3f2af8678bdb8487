//! An event in a consumer's hands: renewed while the effect runs, then finished or released, by its token only.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

use super::RedisInbox;
use super::script::{Answer, Call, Verb, call, is_away};

/// Between two attempts to finish while Redis is away.
const SOON: Duration = Duration::from_millis(50);

/// The number of a claim, higher than that of every earlier claim on the same event. Give it to what the effect writes to:
/// a receiver that refuses numbers lower than the highest it has seen cannot be written to by a late owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(i64);

impl Fence {
    /// As a number, to be stored and compared.
    pub fn number(self) -> i64 {
        self.0
    }
}

/// The right to run the effect of one event, for as long as the lease lasts.
///
/// Dropped, it lets the lease run out: nothing is marked as done, and the next copy runs the effect.
#[derive(Debug)]
#[must_use = "finish it after the effect, or release it"]
pub struct Claim {
    inbox: RedisInbox,
    key: String,
    token: String,
    fence: Fence,
}

impl Claim {
    pub(super) fn new(inbox: RedisInbox, key: String, token: String, fence: i64) -> Self {
        Self { inbox, key, token, fence: Fence(fence) }
    }

    /// The number to fence the effect with.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Makes the lease last its full length from now.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] if another copy has entered since; stop the effect then.
    pub async fn renew(&self) -> Result<()> {
        self.ask(Verb::Renew).await
    }

    /// Marks the event as done. Call it after the effect. While Redis is away it keeps asking for one lease.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] if another copy has entered since: nothing was changed, and that copy decides.
    pub async fn finish(self) -> Result<()> {
        let last = Instant::now() + self.inbox.lease;
        loop {
            match self.ask(Verb::Finish).await {
                Err(error) if is_away(&error) && Instant::now() < last => tokio::time::sleep(SOON).await,
                answered => return answered,
            }
        }
    }

    /// Lets go of the event after a failure: the next copy runs the effect at once.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] if another copy has entered since: nothing was changed.
    pub async fn release(self) -> Result<()> {
        self.ask(Verb::Release).await
    }

    /// Runs `work` and renews the lease beside it. If the lease is lost, `work` is dropped where it stands.
    pub(super) async fn hold<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            lost = self.renew_until_lost() => Err(lost),
        }
    }

    async fn renew_until_lost(&self) -> Error {
        loop {
            tokio::time::sleep(self.inbox.lease / 3).await;
            match self.renew().await {
                Err(Error::LeaseLost) => return Error::LeaseLost,
                // The lease still lasts for a while, and finishing will tell.
                Err(error) => {
                    tracing::warn!(key = self.key, %error, "the lease was not renewed; trying again")
                }
                Ok(()) => {}
            }
        }
    }

    async fn ask(&self, verb: Verb) -> Result<()> {
        let (lease, keep) = (self.inbox.lease, self.inbox.keep);
        let told = Call { key: &self.key, token: &self.token, fence: self.fence.0, lease, keep };
        match call(&self.inbox.link, verb, told).await? {
            Answer::Kept => Ok(()),
            _ => Err(Error::LeaseLost),
        }
    }
}
