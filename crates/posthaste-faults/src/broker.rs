//! Brokers as receivers of a trial: real servers, which keep what they confirmed when they are killed.

use async_trait::async_trait;
use posthaste_testkit::Accepted;

use crate::finding::Result;

/// A broker with one empty destination. It is read when the trial has ended.
#[cfg_attr(not(feature = "brokers"), allow(dead_code, reason = "nobody reads them"))]
#[async_trait]
pub(crate) trait Broker: Send + Sync {
    /// Its name and version.
    fn name(&self) -> String;

    /// Where it listens.
    fn port(&self) -> u16;

    /// The section of a sink that delivers to it through this port.
    fn sink(&self, port: u16) -> String;

    /// SIGKILL.
    fn kill(&self);

    /// Starts it again with what it has on disk.
    async fn bring_back(&self);

    /// Everything it has, in the order in which it took it.
    async fn messages(&self) -> Result<Vec<Accepted>>;
}
