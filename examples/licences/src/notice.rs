//! The effect: a notice for whoever must know.
//!
//! The table has no unique constraint on the event on purpose. That each notice exists once is the guard's doing, and a test
//! that takes the guard away sees them twice.

use crate::change::{Status, StatusChanged};

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Those who review licences.
    Admin,
    /// The shop that uploaded it.
    Store,
}

/// A row of `notifications`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Who is told.
    pub audience: Audience,
    /// What they read.
    pub text: String,
}

impl Audience {
    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Store => "store",
        }
    }
}

/// What a change means for people.
pub fn notice_of(change: &StatusChanged) -> Notice {
    let StatusChanged { license_id, store_id, status, reason } = change;
    let because = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    match status {
        Status::Pending => Notice {
            audience: Audience::Admin,
            text: format!("licence {license_id} of store {store_id} waits for review"),
        },
        Status::Verified => Notice {
            audience: Audience::Store,
            text: format!("your licence {license_id} is verified{because}"),
        },
        Status::Rejected => Notice {
            audience: Audience::Store,
            text: format!("your licence {license_id} is rejected{because}"),
        },
    }
}

/// The same statement for PostgreSQL and SQLite.
pub const INSERT: &str =
    "insert into notifications (event_id, audience, license_id, store_id, text) values ($1, $2, $3, $4, $5)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admins_hear_of_what_waits_and_stores_of_what_was_decided() {
        let change = |status, reason: Option<&str>| StatusChanged {
            license_id: "l1".into(),
            store_id: "s1".into(),
            status,
            reason: reason.map(str::to_owned),
        };
        let pending = notice_of(&change(Status::Pending, None));
        assert_eq!(pending.audience, Audience::Admin);
        let rejected = notice_of(&change(Status::Rejected, Some("expired")));
        assert_eq!(
            (rejected.audience, rejected.text.as_str()),
            (Audience::Store, "your licence l1 is rejected: expired")
        );
    }
}
