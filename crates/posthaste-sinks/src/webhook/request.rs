//! What travels: an event as an HTTP request.

use std::borrow::Cow;
use std::sync::LazyLock;

use chrono::Utc;
use posthaste::Event;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};

use crate::envelope::{Envelope, header_names, percent_encode};

use super::reserved::is_for_producers;
use super::settings::WebhookSettings;
use super::signature::{SigningKey, signatures};

/// The request for one attempt at an event. The error says why there can be none.
pub(super) fn request(
    settings: &WebhookSettings,
    envelope: &Envelope,
    event: &Event,
) -> Result<Request, String> {
    let message = envelope.message(event)?;
    let mut headers = producers(&message.headers)?;
    headers.extend(settings.headers.clone());
    for (name, value) in &message.attributes {
        headers.insert(attribute_name(name)?, header_value(name, &percent_encode(value))?);
    }
    headers.insert(CONTENT_TYPE, header_value("content type", &message.content_type)?);
    sign(&mut headers, &settings.keys, &event.id.to_string(), &message.body)?;
    let mut request = Request::new(Method::POST, settings.target.url(event)?);
    *request.headers_mut() = headers;
    *request.body_mut() = Some(message.body.into_owned().into());
    Ok(request)
}

/// A request that shows whether the receiver is there: no event, and signed like one.
pub(super) fn check(settings: &WebhookSettings, url: Url) -> Result<Request, String> {
    let mut headers = settings.headers.clone();
    sign(&mut headers, &settings.keys, &format!("check_{}", uuid::Uuid::now_v7().simple()), b"")?;
    let mut request = Request::new(Method::HEAD, url);
    *request.headers_mut() = headers;
    Ok(request)
}

/// The headers of Standard Webhooks. The id is the same at every attempt, the time is that of this one.
fn sign(headers: &mut HeaderMap, keys: &[SigningKey], id: &str, body: &[u8]) -> Result<(), String> {
    let timestamp = Utc::now().timestamp();
    let signature = signatures(keys, id, timestamp, body);
    headers.insert("webhook-id", header_value("id", id)?);
    headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
    headers.insert("webhook-signature", header_value("signature", &signature)?);
    Ok(())
}

fn producers(from: &[(&str, &str)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(from.len() + 20);
    for (name, value) in from {
        if is_for_producers(name) {
            headers.insert(header_name(name)?, header_value(name, &carried(value))?);
        }
    }
    Ok(headers)
}

/// As it is if HTTP can carry it; otherwise percent-encoded as a whole, the way CloudEvents attributes are.
fn carried(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) && value.trim() == value;
    if plain { value.into() } else { percent_encode(value) }
}

/// The names of the attributes that there are, ready to be sent.
static ATTRIBUTES: LazyLock<Vec<(&str, HeaderName)>> =
    LazyLock::new(|| header_names(HeaderName::from_static));

fn attribute_name(name: &str) -> Result<HeaderName, String> {
    let known = ATTRIBUTES.iter().find(|(known, _)| *known == name);
    known.map_or_else(|| header_name(&format!("ce-{name}")), |(_, header)| Ok(header.clone()))
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("`{name}` cannot be the name of an HTTP header"))
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(value).map_err(|_| format!("the {name} `{value}` cannot stand in an HTTP header"))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use posthaste::NewEvent;
    use posthaste::inbox::{Source, event_id_of};
    use serde_json::json;

    use super::*;
    use crate::envelope::Form;
    use crate::problems::Problems;
    use crate::section::{Section, Surroundings};

    #[test]
    fn producers_headers_travel_unless_they_speak_for_others() {
        let mut sent = vec![("traceparent", "00-ab-cd-01"), ("baggage", "a=b%20c, d=e"), ("x", "ä b")];
        let forged =
            "host authorization cookie content-length transfer-encoding webhook-id webhook-x ce-id ce-x";
        sent.extend(forged.split(' ').map(|name| (name, "forged")));
        let headers = producers(&sent).expect("headers");
        assert_eq!(headers.len(), 3, "{headers:?}");
        assert_eq!(headers["traceparent"], "00-ab-cd-01");
        assert_eq!(headers["baggage"], "a=b%20c, d=e");
        assert_eq!(headers["x"], "%C3%A4%20b");
    }

    fn settings() -> WebhookSettings {
        let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
        surroundings.variables =
            [("KEY".to_owned(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned())].into();
        let table = json!({ "url": "https://example.com/hook", "secrets": [{ "env": "KEY" }] });
        let fields = table.as_object().expect("a table");
        WebhookSettings::validate(&Section::new("sink", fields, &problems, &surroundings)).expect("good")
    }

    #[test]
    fn consumers_find_the_event_id_in_both_forms() {
        for form in [Form::Binary, Form::Structured] {
            let event =
                NewEvent::bytes("orders", "x").header("webhook-id", "forged").header("ce-id", "forged");
            let event = event.stored(1, DateTime::UNIX_EPOCH);
            let request = request(&settings(), &Envelope::new(form), &event).expect("a request");
            let pairs = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            assert_eq!(event_id_of(Source::Webhook, pairs), Some(event.id.to_string()), "{form:?}");
        }
    }
}
