//! Rows about real brokers. What they have is read with their own clients, behind the feature `brokers`: those take a while
//! to build.

use crate::finding::{Finding, Result};
use crate::stage::Stage;

#[cfg(feature = "brokers")]
mod nats;
#[cfg(feature = "brokers")]
mod rabbitmq;
#[cfg(feature = "brokers")]
mod redis;
#[cfg(feature = "brokers")]
mod trials;

/// Killed again and again, each broker in turn.
#[cfg(feature = "brokers")]
pub(crate) async fn killed(stage: &Stage) -> Result<Vec<Finding>> {
    let often = stage.size(2, 12);
    Ok(vec![
        trials::killed(stage, "NATS", often, nats::Nats::start()).await?,
        trials::killed(stage, "Redis", often, redis::Redis::start()).await?,
        // It takes seconds to start.
        trials::killed(stage, "RabbitMQ", stage.size(1, 10), rabbitmq::Rabbitmq::start()).await?,
    ])
}

/// Their confirmations are swallowed on the way, each broker in turn.
#[cfg(feature = "brokers")]
pub(crate) async fn unheard(stage: &Stage) -> Result<Vec<Finding>> {
    use trials::Copies;
    Ok(vec![
        trials::unheard(stage, "NATS", Copies::Dropped, nats::Nats::start()).await?,
        trials::unheard(stage, "Redis", Copies::Kept, redis::Redis::start()).await?,
        trials::unheard(stage, "RabbitMQ", Copies::Kept, rabbitmq::Rabbitmq::start()).await?,
    ])
}

#[cfg(not(feature = "brokers"))]
pub(crate) async fn killed(_stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![nobody_reads("kill -9 of a broker")])
}

#[cfg(not(feature = "brokers"))]
pub(crate) async fn unheard(_stage: &Stage) -> Result<Vec<Finding>> {
    Ok(vec![nobody_reads("acknowledgements of a broker are lost")])
}

#[cfg(not(feature = "brokers"))]
fn nobody_reads(fault: &str) -> Finding {
    Finding::new(fault).skipped("built without the feature `brokers`")
}
