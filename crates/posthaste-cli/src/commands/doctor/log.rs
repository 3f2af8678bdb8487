//! Questions to the log itself: its tables, its subscriptions, where they deliver.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Posthaste;
use posthaste::admin::SubscriptionState;
use posthaste_sinks::Endpoint;

use super::finding::Finding;
use crate::database::Database;
use crate::failure::{Code, Failure};

/// How long a sink may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The tables and, if they are right, every subscription.
pub(crate) async fn examine(database: &Database) -> Vec<Finding> {
    let tables = match database.tables().await {
        Ok(tables) => tables,
        Err(refusal) => return vec![Finding::coded("tables", refusal.code, refusal.sentence)],
    };
    if let Some(sentence) = tables.problem() {
        return vec![Finding::coded("tables", Code::Configuration, sentence)];
    }
    let sound = Finding::good("tables", format!("version {}, as this program needs it", tables.needed));
    std::iter::once(sound).chain(subscriptions(&database.posthaste).await).collect()
}

async fn subscriptions(posthaste: &Posthaste) -> Vec<Finding> {
    let name = "subscriptions";
    match posthaste.admin().subscriptions().await {
        Err(error) => {
            let failure = Failure::from(error);
            let code = failure.code().unwrap_or(Code::Failed);
            vec![Finding::coded(name, code, failure.lines().join("; "))]
        }
        Ok(states) if states.is_empty() => {
            vec![Finding::warning(
                name,
                "there is none",
                "write one into the configuration and start the relay",
            )]
        }
        Ok(states) => states.iter().map(subscription).collect(),
    }
}

/// The worst thing about a subscription, with the command that shows more.
fn subscription(state: &SubscriptionState) -> Finding {
    let name = format!("subscription {}", state.name);
    if state.paused_since.is_some() {
        let remedy = format!("posthaste subscriptions resume {}", state.name);
        return Finding::warning(
            name,
            "is paused, and keeps retention from deleting what it has not seen",
            remedy,
        );
    }
    if state.workers.is_empty() && !state.lag.is_zero() {
        let sentence = format!("{} events wait and no worker is there", state.lag);
        return Finding::bad(name, sentence, "start posthaste relay, or the application that handles it");
    }
    if !state.dead.is_zero() {
        let remedy = format!("posthaste dead list --subscription {}", state.name);
        return Finding::warning(name, format!("{} dead letters wait for a person", state.dead), remedy);
    }
    Finding::good(name, format!("{} events wait, {} workers", state.lag, state.workers.len()))
}

/// Whether a sink can be reached, and what it should say aloud.
pub(crate) async fn sink(subscription: &str, endpoint: &Arc<dyn Endpoint>) -> Vec<Finding> {
    let name = format!("sink of {subscription}");
    match tokio::time::timeout(ANSWER_WITHIN, endpoint.check()).await {
        Ok(Ok(())) => {
            let warnings = tokio::time::timeout(ANSWER_WITHIN, endpoint.warnings()).await.unwrap_or_default();
            let warned = warnings.into_iter().map(|warning| Finding::warning(&name, warning, ""));
            std::iter::once(Finding::good(&name, format!("{} answers", endpoint.describe())))
                .chain(warned)
                .collect()
        }
        Ok(Err(error)) => vec![Finding::bad(name, error, "events wait until it answers")],
        Err(_) => vec![Finding::bad(
            name,
            format!("{} did not answer within 10 s", endpoint.describe()),
            "check its address and the network",
        )],
    }
}
