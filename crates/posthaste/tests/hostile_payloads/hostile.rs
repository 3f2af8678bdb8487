//! Events as people, programs and attackers make them, and how they must arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::{Event, InvalidEvent, NewEvent, Result};
use proptest::prelude::*;

/// An event as a producer wants it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hostile {
    pub(crate) namespace: Option<String>,
    pub(crate) topic: String,
    pub(crate) event_type: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) aggregate: Option<(String, String)>,
    pub(crate) tenant: Option<u128>,
    pub(crate) dedupe: Option<(String, Duration)>,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
    pub(crate) when: When,
}

/// Far from now on either side, so that nobody waits for it by accident.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum When {
    #[default]
    Now,
    At(DateTime<Utc>),
    After(Duration),
}

impl Hostile {
    pub(crate) fn plain(topic: &str, payload: &[u8]) -> Self {
        Self { topic: topic.to_owned(), payload: payload.to_vec(), ..Self::default() }
    }

    pub(crate) fn build(&self) -> Result<NewEvent, InvalidEvent> {
        let mut event = NewEvent::bytes(&self.topic, self.payload.clone());
        event = self.namespace.iter().fold(event, |event, name| event.namespace(name));
        event = self.event_type.iter().fold(event, |event, name| event.event_type(name));
        event = self.key.iter().fold(event, |event, key| event.key(key));
        event = self.aggregate.iter().fold(event, |event, (kind, id)| event.aggregate(kind, id));
        event = self.tenant.iter().fold(event, |event, id| event.tenant(uuid::Uuid::from_u128(*id)));
        event = self.content_type.iter().fold(event, |event, name| event.content_type(name));
        event = self.dedupe.iter().fold(event, |event, (key, long)| event.dedupe_key(key).dedupe_for(*long));
        event = match self.when {
            When::Now => event,
            When::At(time) => event.available_at(time),
            When::After(delay) => event.delay(delay),
        };
        self.headers.iter().try_fold(event, |event, (name, value)| event.header_bytes(name, value))
    }

    pub(crate) fn is_due(&self) -> bool {
        match self.when {
            When::Now => true,
            When::At(time) => time < Utc::now(),
            When::After(delay) => delay.is_zero(),
        }
    }

    /// The first difference between what was wanted and what arrived.
    pub(crate) fn difference(&self, event: &Event) -> Option<&'static str> {
        let headers: BTreeMap<String, &[u8]> =
            self.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_slice())).collect();
        let arrived: BTreeMap<String, &[u8]> =
            event.headers.iter().map(|(name, value)| (name.to_owned(), value.as_bytes())).collect();
        let (kind, id) = self.aggregate.clone().unzip();
        let same = [
            ("payload", self.payload == event.payload),
            ("headers", headers == arrived),
            (
                "content type",
                self.content_type.as_deref().unwrap_or("application/octet-stream") == event.content_type,
            ),
            ("namespace", self.namespace.as_deref().unwrap_or("default") == event.namespace),
            ("topic", self.topic == event.topic),
            ("event type", self.event_type == event.event_type),
            ("key", self.key.as_ref().or(id.as_ref()) == event.key.as_ref()),
            ("aggregate", (&kind, &id) == (&event.aggregate_type, &event.aggregate_id)),
            ("tenant", self.tenant == event.tenant_id.map(|tenant| tenant.as_u128())),
            ("dedupe key", self.dedupe.as_ref().map(|(key, _)| key) == event.dedupe_key.as_ref()),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
    }
}

/// Names that somebody will try.
const NASTY: [&str; 15] = [
    "",
    "\0",
    "a\0b",
    "' or 1=1; drop table orders; --",
    "\u{feff}",
    "\u{202e}txt.exe",
    "\u{fffd}\u{ffff}",
    "🦀🦀🦀",
    "null",
    "\\u0000",
    "%00",
    "{{key}}",
    "a\r\nb: c",
    "\u{85}",
    " ",
];

/// Names and keys as people, programs and attackers write them.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => "[a-z]{1,12}(\\.[a-z]{1,8})?",
        4 => any::<String>(),
        2 => "\\PC{0,60}",
        2 => prop::sample::select(&NASTY[..]).prop_map(str::to_owned),
        1 => (prop::char::any(), 100_usize..1100).prop_map(|(c, times)| c.to_string().repeat(times)),
    ]
}

/// Bodies that some JSON or text parser chokes on.
const BODIES: [&[u8]; 10] = [
    b"",
    b"\0",
    b"{\"a\":\"\\u0000\"}",
    b"\"\\ud800\"",
    b"{\"n\":1e400000}",
    b"\xff\xfe\x00\xd8",
    b"\xc3\x28",
    b"{\"b\":1,\"a\":2,\"a\":2.50 }\r\n",
    b"\xef\xbb\xbf{}",
    b"NaN",
];

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let nested = |open: &str, close: &str| [open.repeat(20_000), close.repeat(20_000)].concat().into_bytes();
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..300),
        6 => prop::sample::select(&BODIES[..]).prop_map(<[u8]>::to_vec),
        4 => any::<String>().prop_map(|text| format!("{{\"text\":{text:?}}}").into_bytes()),
        1 => prop::sample::select(vec![nested("[", "]"), nested("{\"a\":", "}"), nested("[", "")]),
    ]
}

/// Header values that would forge another header, or are no text.
const VALUES: [&[u8]; 5] = [b"a\r\nx-forged: 1", b"\n", b"\xff", b"a\tb", b""];

fn header() -> impl Strategy<Value = (String, Vec<u8>)> {
    let name = prop_oneof![20 => "[A-Za-z0-9_.-]{1,20}", 1 => text()];
    let value = prop_oneof![
        20 => "[ -~]{0,40}".prop_map(String::into_bytes),
        2 => text().prop_map(String::into_bytes),
        1 => prop::sample::select(&VALUES[..]).prop_map(<[u8]>::to_vec),
    ];
    (name, value)
}

fn headers() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let many =
        (0_usize..1000).prop_map(|count| (0..count).map(|n| (format!("h{n}"), b"v".to_vec())).collect());
    prop_oneof![8 => Just(Vec::new()), 8 => prop::collection::vec(header(), 1..5), 1 => many]
}

fn when() -> impl Strategy<Value = When> {
    let (past, future) = (-8_334_000_000_000_i64..600_000_000, 4_100_000_000..8_210_000_000_000_i64);
    let at = |seconds: i64| DateTime::from_timestamp(seconds, 0).map_or(When::Now, When::At);
    prop_oneof![
        20 => Just(When::Now),
        1 => past.prop_map(at),
        1 => future.prop_map(at),
        1 => prop::sample::select(vec![DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC]).prop_map(When::At),
        1 => prop::sample::select(vec![0, 3_600, 1 << 40, u64::MAX]).prop_map(|s| When::After(Duration::from_secs(s))),
    ]
}

pub(crate) fn hostile() -> impl Strategy<Value = Hostile> {
    let rarely = |of| prop::option::weighted(0.3, of);
    let lifetime = prop::sample::select(vec![Duration::ZERO, Duration::from_secs(60), Duration::MAX]);
    let names = (rarely(text().boxed()), text(), rarely(text().boxed()), rarely(text().boxed()));
    let more = (
        prop::option::weighted(0.2, (text(), text())),
        prop::option::weighted(0.2, any::<u128>()),
        prop::option::weighted(0.2, (text(), lifetime)),
        rarely(text().boxed()),
    );
    let body = (headers(), payload(), when(), prop::bool::weighted(0.002));
    (names, more, body).prop_map(
        |(
            (namespace, topic, event_type, key),
            (aggregate, tenant, dedupe, content_type),
            (headers, payload, when, huge),
        )| {
            let mut payload = payload;
            if huge {
                payload.resize(10 << 20, 7);
            }
            Hostile {
                namespace,
                topic,
                event_type,
                key,
                aggregate,
                tenant,
                dedupe,
                content_type,
                headers,
                payload,
                when,
            }
        },
    )
}
