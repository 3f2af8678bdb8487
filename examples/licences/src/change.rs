//! What is said: a licence has another status.

use posthaste::NewEvent;
use serde::{Deserialize, Serialize};

use crate::Result;

/// The event's type.
pub const EVENT_TYPE: &str = "license_status_changed";
/// The event's topic.
pub const TOPIC: &str = "licenses";

/// How a licence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Uploaded; somebody must look at it.
    Pending,
    /// Good.
    Verified,
    /// Not good.
    Rejected,
}

impl Status {
    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Verified => "verified",
            Self::Rejected => "rejected",
        }
    }
}

/// The payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusChanged {
    /// Which licence.
    pub license_id: String,
    /// Whose.
    pub store_id: String,
    /// What it is now.
    pub status: Status,
    /// Why, if there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl StatusChanged {
    /// The event that carries it. Changes of one licence stay in order, because the licence is the key.
    pub fn event(&self) -> Result<NewEvent> {
        Ok(NewEvent::json(TOPIC, self)?
            .event_type(EVENT_TYPE)
            .aggregate("license", &self.license_id)
            .key(&self.license_id))
    }
}
