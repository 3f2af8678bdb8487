//! The subscriptions as they stand, read once for all workers of a process that ask at about the same time: an idle process
//! with many of them asks no more often than one with few.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::Result;
use crate::lease::Reader;
use crate::store::Store;

/// Whoever asks within this time after another one hears the same.
const SAME_TIME: Duration = Duration::from_millis(250);

/// Nobody waits longer for another one who is asking. If the database is away, each would wait for it after the other.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was read last, and when.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    read: Mutex<Option<(Instant, HashMap<String, Reader>)>>,
}

impl Roster {
    /// One subscription as it stands, or stood a moment ago. `None`: somebody else is asking, and takes long.
    pub(crate) async fn reader(&self, store: &dyn Store, name: &str) -> Result<Option<Reader>> {
        let Ok(mut read) = timeout(PATIENCE, self.read.lock()).await else { return Ok(None) };
        let (_, readers) = match read.take().filter(|(at, _)| at.elapsed() < SAME_TIME) {
            Some(fresh) => read.insert(fresh),
            None => {
                let at = Instant::now();
                let readers = store.readers().await?.into_iter();
                read.insert((at, readers.map(|reader| (reader.name.clone(), reader)).collect()))
            }
        };
        if let Some(reader) = readers.get(name) {
            return Ok(Some(reader.clone()));
        }
        drop(read);
        // It was deleted, or cannot be read: that is said to its own worker, and to no other.
        store.reader(name).await.map(Some)
    }
}
