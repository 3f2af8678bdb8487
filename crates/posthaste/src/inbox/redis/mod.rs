//! The guard on Redis: a mark is first held under a lease, then done.
//!
//! A plain `SET key NX EX ttl` before the effect loses the effect of a consumer that dies in between: the next copy is
//! taken for a duplicate and acknowledged. Here that copy is told to come later, until the lease has run out, and then runs
//! the effect. What remains: an owner that is late (paused longer than its lease, and still at work) may run the effect
//! beside the next one. Only the effect itself can prevent that, by being idempotent or by refusing old fences.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures::FutureExt;
use redis::aio::ConnectionManager;
use uuid::Uuid;

use crate::error::{Error, Result};

use super::names::{Consumer, KEEP, check_id, check_word, keep_of};
use super::once::{Once, OnceError};

mod link;
mod script;
mod claim;

pub use claim::{Claim, Fence};
use link::Link;
use script::{Answer, Call, Verb};

const PREFIX: &str = "posthaste";
const LEASE: Duration = Duration::from_secs(60);
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The guard of one consumer on Redis 5 or newer. Cheap to clone.
#[derive(Clone)]
pub struct RedisInbox {
    link: Link,
    consumer: Consumer,
    prefix: String,
    lease: Duration,
    keep: Duration,
}

/// What entering answers.
#[derive(Debug)]
#[must_use = "a message may be acknowledged only if it is a duplicate, or its claim was finished"]
pub enum Entered {
    /// This copy is to run the effect.
    First(Claim),
    /// The event was done before. Acknowledge the message.
    Duplicate,
    /// Another copy is being handled. Do not acknowledge this one: the other may still fail.
    Busy {
        /// What is left of the other's lease.
        retry_after: Duration,
    },
}

impl RedisInbox {
    /// Connects. A connection that breaks later, or on which no answer came for 5 s, is replaced by itself.
    pub async fn connect(url: &str, consumer: &str) -> Result<Self> {
        let opened = Link::open(url).await;
        Self::over(opened.map_err(|source| Error::Redis { doing: "connect to Redis", source })?, consumer)
    }

    /// On a connection of the caller's. Its manager opens it again if it breaks, but not if it falls silent: set a TCP
    /// keepalive and user timeout on your client, and a response timeout on the manager.
    pub fn new(connection: ConnectionManager, consumer: &str) -> Result<Self> {
        Self::over(Link::over(connection), consumer)
    }

    fn over(link: Link, consumer: &str) -> Result<Self> {
        let (consumer, prefix) = (Consumer::parse(consumer)?, PREFIX.to_owned());
        Ok(Self { link, consumer, prefix, lease: LEASE, keep: KEEP })
    }

    /// The guard of another consumer, on the same connection and with the same settings.
    pub fn for_consumer(&self, consumer: &str) -> Result<Self> {
        Ok(Self { consumer: Consumer::parse(consumer)?, ..self.clone() })
    }

    /// What keys begin with, `posthaste` otherwise: `<prefix>:evt:processed:<consumer>:<event id>`.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        check_word("prefix", prefix, "._-:")?;
        self.prefix = prefix.to_owned();
        Ok(self)
    }

    /// How long a consumer that died holds up the next copy; 60 s otherwise. It is renewed while the effect runs, so it
    /// need not be as long as the effect.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = keep_of(lease.max(SHORTEST_LEASE));
        self
    }

    /// How long a done event is remembered; 720 h otherwise. A copy that comes later runs the effect again.
    pub fn keep_for(mut self, keep: Duration) -> Self {
        self.keep = keep_of(keep);
        self
    }

    /// Runs the effect unless the event is done or another copy is being handled. The effect is given its fence.
    ///
    /// The lease is renewed while the effect runs; the effect must not block its thread. If the effect fails or panics, the
    /// event is released. If this future is dropped, the lease runs out. If the lease is lost (Redis or this process stood
    /// still for longer), the effect is dropped and the error is [`Error::LeaseLost`].
    pub async fn once<T, E, F, W>(&self, event_id: &str, effect: F) -> Result<Once<T>, OnceError<E>>
    where
        F: FnOnce(Fence) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let claim = match self.enter(event_id).await? {
            Entered::First(claim) => claim,
            Entered::Duplicate => return Ok(Once::Duplicate),
            Entered::Busy { retry_after } => return Ok(Once::Busy { retry_after }),
        };
        let fence = claim.fence();
        let work = AssertUnwindSafe(async move { effect(fence).await }).catch_unwind();
        match claim.hold(work).await? {
            Ok(Ok(value)) => claim.finish().await.map(|()| Once::Done(value)).map_err(OnceError::Inbox),
            Ok(Err(error)) => {
                let_go(claim).await;
                Err(OnceError::Effect(error))
            }
            Err(panic) => {
                let_go(claim).await;
                resume_unwind(panic)
            }
        }
    }

    /// Takes the event, if no copy has finished it and none is being handled.
    pub async fn enter(&self, event_id: &str) -> Result<Entered> {
        let (key, token) = (self.key(event_id)?, Uuid::new_v4().simple().to_string());
        let (lease, keep) = (self.lease, self.keep);
        let told = Call { key: &key, token: &token, fence: 0, lease, keep };
        match script::call(&self.link, Verb::Enter, told).await? {
            Answer::First(fence) => Ok(Entered::First(Claim::new(self.clone(), key, token, fence))),
            Answer::Duplicate => Ok(Entered::Duplicate),
            Answer::Busy(retry_after) => Ok(Entered::Busy { retry_after }),
            other => {
                Err(Error::Corrupt(format!("the inbox script answered {other:?} to a copy that enters")))
            }
        }
    }

    /// Forgets an event, so that its next copy runs the effect: for a message that is sent again on purpose.
    pub async fn forget(&self, event_id: &str) -> Result<()> {
        let mut delete = redis::cmd("DEL");
        delete.arg(self.key(event_id)?);
        let deleted = self.link.ask(async |connection| delete.exec_async(connection).await).await;
        deleted.map_err(|source| Error::Redis { doing: "forget an event in Redis", source })
    }

    fn key(&self, event_id: &str) -> Result<String> {
        check_id(event_id)?;
        Ok(format!("{}:evt:processed:{}:{event_id}", self.prefix, self.consumer.as_str()))
    }
}

/// The lease runs out in any case; letting go only saves the next copy the wait.
async fn let_go(claim: Claim) {
    if let Err(error) = claim.release().await {
        tracing::warn!(%error, "an event was not released after its effect failed; its lease runs out");
    }
}

impl fmt::Debug for RedisInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisInbox")
            .field("consumer", &self.consumer)
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}
