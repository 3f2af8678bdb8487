//! What `/readyz` shows: the database, asked at that moment, and the sinks, as far as they were heard of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::watched::Watched;
use crate::database::Database;

/// How long the database may take to answer a probe.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Shared between those who run subscriptions and those who ask.
#[derive(Debug)]
pub(crate) struct Board {
    database: Database,
    sinks: Mutex<Vec<Arc<Watched>>>,
}

impl Board {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, sinks: Mutex::default() }
    }

    pub(crate) fn show(&self, sinks: Vec<Arc<Watched>>) {
        *self.sinks.lock().unwrap_or_else(PoisonError::into_inner) = sinks;
    }

    /// Whether deliveries can be claimed here. A sink that is away does not count: restarting the relay would not help.
    /// Neither does a subscription that somebody removed: restarting the relay would declare it again.
    pub(crate) async fn ready(&self) -> (bool, Value) {
        let problem = self.database_problem().await;
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let subscriptions: Map<String, Value> =
            sinks.iter().map(|sink| (sink.subscription.clone(), standing(sink))).collect();
        let database = problem.clone().unwrap_or_else(|| "ok".to_owned());
        let ready = problem.is_none();
        (ready, json!({ "ready": ready, "database": database, "subscriptions": subscriptions }))
    }

    async fn database_problem(&self) -> Option<String> {
        match tokio::time::timeout(ANSWER_WITHIN, self.database.tables()).await {
            Ok(Ok(tables)) => tables.problem(),
            Ok(Err(refusal)) => Some(refusal.sentence),
            Err(_) => Some(format!("the database did not answer within {} s", ANSWER_WITHIN.as_secs())),
        }
    }
}

fn standing(sink: &Watched) -> Value {
    match (sink.ended(), sink.away()) {
        (Some(reason), _) => json!({ "sink": sink.describe(), "state": "ended", "reason": reason }),
        (None, Some(reason)) => json!({ "sink": sink.describe(), "state": "away", "reason": reason }),
        (None, None) => json!({ "sink": sink.describe(), "state": "ok" }),
    }
}
