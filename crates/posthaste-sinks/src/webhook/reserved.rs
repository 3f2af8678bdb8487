//! Header names that not everybody may set.

/// Names that belong to the connection or to this sink. Neither producers nor the configuration may set them.
const RESERVED: [&str; 15] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// Names that producers may not set, because they speak for the relay. The configuration may.
const NOT_FROM_PRODUCERS: [&str; 3] = ["authorization", "cookie", "set-cookie"];

/// Whether a header, named in lower case, is set by the relay itself.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with("webhook-") || name.starts_with("ce-")
}

/// Whether a producer's header, named in lower case, travels.
pub(super) fn is_for_producers(name: &str) -> bool {
    !is_reserved(name) && !NOT_FROM_PRODUCERS.contains(&name)
}
