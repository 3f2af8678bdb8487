//! Rows about what strangers can do through webhooks: addresses that lead inside, and forged or repeated requests.

use super::answers::sinks;
use crate::finding::{Finding, Result};
use crate::programs;
use crate::stage::Stage;

/// Addresses of the relay's own network in every notation, names that lead there, redirects that point there.
pub(crate) async fn inside(stage: &Stage) -> Result<Vec<Finding>> {
    let units = sinks(
        "posthaste_sinks",
        &["webhook::address::", "webhook::target::", "private_address", "blocked_range"],
    );
    let webhook = sinks("webhook", &["a_redirect"]);
    let how = "URLs of blocked ranges in every notation, names whose answers change or lead inside, redirects; the listeners \
               there are never connected to";
    Ok(vec![programs::run(stage, "webhooks that point inside", how, &[units, webhook]).await?])
}

/// The specification's vectors, and a receiver written from it.
pub(crate) async fn signatures(stage: &Stage) -> Result<Vec<Finding>> {
    let units = sinks("posthaste_sinks", &["webhook::signature::"]);
    let webhook = sinks("webhook", &["signing::"]);
    let how = "the vector of Standard Webhooks' libraries, two secrets during a rotation, changed bodies, ids and times, a request \
               that is repeated later";
    Ok(vec![programs::run(stage, "forged and repeated webhooks", how, &[units, webhook]).await?])
}
