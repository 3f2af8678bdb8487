//! The demonstration for scripts: an object per moment. Pure: a picture in, an object out.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::screen::Picture;
use super::subscriptions::NAMES;
use super::tally::News;
use crate::talk::shape;

/// The object that begins it.
pub(crate) fn started(picture: &Picture<'_>) -> Value {
    stamped("started", picture.elapsed, json!({ "database": picture.file.display().to_string() }))
}

/// Something that happened to one event in one subscription.
pub(crate) fn news(when: Duration, news: &News) -> Value {
    let News { moment, subscription, order, sentence } = news;
    stamped(moment, when, json!({ "subscription": subscription, "order": order, "sentence": sentence }))
}

/// How things stand, without the time.
pub(crate) fn counts(picture: &Picture<'_>) -> Value {
    let each = NAMES.iter().zip(picture.counts).map(|(name, counts)| {
        let one = json!({
            "delivered": counts.delivered,
            "waiting": counts.waiting,
            "retrying": counts.retrying,
            "dead": counts.dead,
        });
        ((*name).to_owned(), one)
    });
    json!({
        "orders": picture.written,
        "rolled_back": picture.rolled_back,
        "subscriptions": each.collect::<Map<_, _>>(),
    })
}

/// What every object begins with: which moment it is, and how many seconds after the start.
pub(crate) fn stamped(moment: &str, when: Duration, facts: Value) -> Value {
    shape::merged(json!({ "moment": moment, "seconds": shape::seconds(Some(when)) }), facts)
}
