//! What every peer has in common: the message, the four verbs, the one line of JSON.
//!
//! Nothing here knows a queue or a database; a program implements [`Peer`] and calls [`main`].

mod count;
mod message;
mod produce;
mod stopwatch;
mod verbs;

pub use count::Counter;
pub use message::{BULK, Message, TOPIC, bulks};
pub use produce::producers;
pub use stopwatch::{Latency, Stopwatch};
pub use verbs::{Peer, main};

use std::fmt;
use std::sync::Arc;

/// How everything here fails: with a sentence.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What a peer calls with each message it takes from its tables.
#[derive(Clone)]
pub struct Handler(Arc<dyn Fn(&Message) + Send + Sync>);

impl Handler {
    fn new(handle: impl Fn(&Message) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handle))
    }

    /// Handles one.
    pub fn handle(&self, message: &Message) {
        (self.0)(message);
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
