//! The message: the same bytes as Posthaste's own events.

use serde::{Deserialize, Serialize};

/// Where all messages go.
pub const TOPIC: &str = "orders";

/// How many messages one transaction of a load holds.
pub const BULK: u64 = 1000;

/// How many bytes a message has as JSON text.
const PAYLOAD: usize = 210;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number.
    pub order: u64,
    /// One of 977.
    pub customer: String,
    /// What brings it to its size.
    pub note: String,
}

impl Message {
    /// The message of this number.
    pub fn new(order: u64) -> Self {
        let customer = format!("customer-{}", order % 977);
        let around = format!(r#"{{"order":{order},"customer":"{customer}","note":""}}"#).len();
        Self { order, customer, note: "x".repeat(PAYLOAD.saturating_sub(around)) }
    }
}

/// Messages 0 to `count`, in bulks.
pub fn bulks(count: u64) -> impl Iterator<Item = Vec<Message>> {
    let starts = (0..count).step_by(BULK as usize);
    starts.map(move |first| (first..count.min(first + BULK)).map(Message::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_json_of_the_same_size() {
        for order in [0, 7, 999, 1_000_000, 10_000_000] {
            let text = serde_json::to_string(&Message::new(order)).expect("JSON");
            assert_eq!(text.len(), PAYLOAD);
            assert!(text.starts_with(&format!(
                r#"{{"order":{order},"customer":"customer-{}","note":"xxx"#,
                order % 977
            )));
        }
    }

    #[test]
    fn bulks_hold_every_message_once() {
        let orders: Vec<u64> = bulks(2500).flatten().map(|message| message.order).collect();
        assert_eq!(orders, (0..2500).collect::<Vec<_>>());
        assert_eq!(bulks(2500).count(), 3);
    }
}
