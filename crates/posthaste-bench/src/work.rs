//! The work that everybody does: the same events, the same bytes.

use posthaste::NewEvent;

/// How many bytes a payload has.
pub(crate) const PAYLOAD: usize = 210;

/// JSON of exactly [`PAYLOAD`] bytes.
pub(crate) fn payload(number: u64) -> String {
    let start = format!(r#"{{"order":{number},"customer":"customer-{}","note":""#, number % 977);
    let filling = PAYLOAD.saturating_sub(start.len() + 2);
    format!("{start}{}\"}}", "x".repeat(filling))
}

/// The number a payload was made of.
pub(crate) fn number_of(payload: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(payload).ok()?;
    value["order"].as_u64()
}

/// Events of one topic, spread over a thousand keys.
pub(crate) fn events(numbers: std::ops::Range<u64>) -> Vec<NewEvent> {
    numbers.map(event).collect()
}

/// One of them.
pub(crate) fn event(number: u64) -> NewEvent {
    NewEvent::bytes("orders", payload(number)).content_type("application/json").key(key(number))
}

/// Its key.
pub(crate) fn key(number: u64) -> String {
    format!("customer-{}", number % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_is_json_of_the_same_size() {
        for number in [0, 7, 999, 1_000_000, 10_000_000] {
            let payload = payload(number);
            assert_eq!(payload.len(), PAYLOAD);
            assert_eq!(number_of(payload.as_bytes()), Some(number));
        }
    }
}
