//! The subscriptions as they stand, read once for all workers of a process that ask at about the same time: an idle process
//! with many of them asks no more often than one with few.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::error::{Error, Result};
use crate::lease::Reader;
use crate::store::Store;

/// Whoever asks within this time after another one hears the same.
const SAME_TIME: Duration = Duration::from_millis(250);

/// What was read last, and when.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    read: Mutex<Option<(Instant, HashMap<String, Reader>)>>,
}

impl Roster {
    /// One subscription as it stands, or stood a moment ago. Who comes while it is being read waits for that.
    pub(crate) async fn reader(&self, store: &dyn Store, name: &str) -> Result<Reader> {
        let mut read = self.read.lock().await;
        let readers = match read.take().filter(|(at, _)| at.elapsed() < SAME_TIME) {
            Some(fresh) => read.insert(fresh),
            None => {
                let at = Instant::now();
                let readers = store.readers().await?.into_iter();
                read.insert((at, readers.map(|reader| (reader.name.clone(), reader)).collect()))
            }
        };
        readers.1.get(name).cloned().ok_or_else(|| Error::NoSuchSubscription(name.to_owned()))
    }
}
