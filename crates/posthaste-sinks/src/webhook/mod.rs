//! HTTP webhooks, as Standard Webhooks 1.0.0 describes them: one signed POST per event.
//!
//! | what happens | outcome |
//! |---|---|
//! | 2xx | delivered |
//! | 410 | unavailable: nothing is sent for 15 minutes, then one event asks again |
//! | 429, 502, 503, 504 | unavailable: nothing is sent for as long as `Retry-After` says, at most an hour |
//! | 401 | unavailable: it is about our secrets, not about an event |
//! | 413 | dead |
//! | the header `webhook-delivery: abort-message` with anything but 2xx | dead |
//! | any other status: 3xx (never followed), 400, 403, 404, 405, 408, 422, 425, 500, ... | retry, after `Retry-After` |
//! | the address cannot be made or a header not be carried for this event | dead |
//! | connection refused, DNS or TLS failure, a private address after DNS | unavailable |
//! | the connection breaks before the answer | unavailable; retry from the third time on, if the receiver is there |
//! | no answer in time | retry if the receiver answers a check on a new connection, else unavailable |
//! | the page's time is over before the event was sent | unavailable |
//!
//! Standard Webhooks wants a receiver that says 410 to be disabled. A sink cannot pause its subscription, and must not
//! lose events, so it waits: the subscription stands still, says why, and goes on by itself if the receiver changes its
//! mind. Only this process remembers; a restart or a changed configuration asks again at once.
//!
//! An address that is refused after DNS is unavailable and not dead: it is a mistake of the configuration or of DNS, and
//! every event would meet it. Literal private addresses are refused when the configuration is checked.
//!
//! Proxies of the environment are ignored: the proxy would make the connection, and the check of addresses would be on
//! the proxy's address. `proxy` says in writing that the proxy does that check.

mod address;
mod signature;
mod target;
mod hidden;
mod reserved;
mod settings;
mod request;
mod answer;
mod client;
mod rest;
mod sink;

pub use settings::WebhookSettings;
pub use sink::WebhookSink;
