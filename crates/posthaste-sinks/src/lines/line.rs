//! One event as one line of JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::SecondsFormat;
use posthaste::Event;
use serde_json::{Value, json};

use crate::endpoint::Route;
use crate::envelope::{Form, is_json};

/// Appends the line: our own fields, or the CloudEvent if the subscription asks for the structured form.
pub(super) fn write_line(lines: &mut Vec<u8>, route: &Route, event: &Event, attempt: u32) {
    match (route.envelope.form(), route.envelope.message(event)) {
        (Form::Structured, Ok(message)) => lines.extend(message.body.iter().map(|byte| on_one_line(*byte))),
        _ => write_own(lines, route, event, attempt),
    }
    lines.push(b'\n');
}

/// The payload stands last: JSON as it is, anything else as base64, which `payload_encoding` tells.
fn write_own(lines: &mut Vec<u8>, route: &Route, event: &Event, attempt: u32) {
    let headers: Value =
        event.headers.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    let mut fields = json!({
        "id": event.id.to_string(),
        "subscription": route.subscription,
        "namespace": event.namespace,
        "topic": event.topic,
        "event_type": event.event_type,
        "key": event.key,
        "aggregate_type": event.aggregate_type,
        "aggregate_id": event.aggregate_id,
        "tenant_id": event.tenant_id,
        "headers": headers,
        "content_type": event.content_type,
        "created_at": event.created_at.to_rfc3339_opts(SecondsFormat::Micros, true),
        "attempt": attempt,
    });
    let payload = json_text(event).map(|text| text.bytes().map(on_one_line).collect()).unwrap_or_else(|| {
        fields["payload_encoding"] = json!("base64");
        format!("\"{}\"", BASE64_STANDARD.encode(&event.payload)).into_bytes()
    });
    let text = fields.to_string();
    lines.extend_from_slice(&text.as_bytes()[..text.len() - 1]);
    lines.extend_from_slice(b",\"payload\":");
    lines.extend_from_slice(&payload);
    lines.push(b'}');
}

/// The payload, if it is said to be JSON and is.
fn json_text(event: &Event) -> Option<&str> {
    let text = is_json(&event.content_type).then(|| event.text()).flatten()?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok().then_some(text)
}

/// A line break in valid JSON is white space between tokens; strings cannot contain one.
fn on_one_line(byte: u8) -> u8 {
    match byte {
        b'\n' | b'\r' => b' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::event_id_in;

    use super::*;
    use crate::envelope::Envelope;

    fn line(event: NewEvent) -> Value {
        let (mut lines, event) = (Vec::new(), event.stored(1, DateTime::UNIX_EPOCH));
        write_line(&mut lines, &Route::new("billing"), &event, 3);
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        serde_json::from_slice(&lines).expect("JSON")
    }

    #[test]
    fn json_stays_json_and_other_bytes_are_marked() {
        let text = line(
            NewEvent::bytes("orders", "{\"n\":\n 12345678901234567890}").content_type("application/json"),
        );
        assert_eq!(text["payload"]["n"].to_string(), "12345678901234567890");
        assert_eq!((&text["subscription"], &text["attempt"]), (&json!("billing"), &json!(3)));
        assert_eq!(text.get("payload_encoding"), None);
        let bytes = line(NewEvent::bytes("orders", vec![0, 255]).key("k").header("a", "b"));
        assert_eq!((&bytes["payload"], &bytes["payload_encoding"]), (&json!("AP8="), &json!("base64")));
        assert_eq!((&bytes["key"], &bytes["headers"]["a"]), (&json!("k"), &json!("b")));
        let lie = line(NewEvent::bytes("orders", "no json").content_type("application/json"));
        assert_eq!(lie["payload_encoding"], "base64");
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        for form in [Form::Binary, Form::Structured] {
            let event =
                NewEvent::bytes("orders", "{\"id\":\"the payload's\"}").content_type("application/json");
            let (mut lines, event) = (Vec::new(), event.stored(1, DateTime::UNIX_EPOCH));
            let route = Route::new("billing").envelope(Envelope::new(form));
            write_line(&mut lines, &route, &event, 1);
            assert_eq!(event_id_in(&lines), Some(event.id.to_string()), "{form:?}");
        }
    }
}
