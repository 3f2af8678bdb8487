//! What every row needs to know.

use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::peers::program::Program;

/// One run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) rounds: usize,
    /// Small numbers, for a run that only asserts counts.
    pub(crate) quick: bool,
    /// The program `posthaste`.
    pub(crate) relay: Option<PathBuf>,
    /// Peers that are programs of their own.
    pub(crate) programs: Vec<Program>,
}

impl Bench {
    /// How many events a row uses: this many, or a fiftieth in a quick run.
    pub(crate) fn events(&self, many: u64) -> u64 {
        if self.quick { many / 50 } else { many }
    }

    /// How long a row lasts: this many seconds, or a fifth in a quick run.
    pub(crate) fn seconds(&self, many: u64) -> u64 {
        if self.quick { (many / 5).max(1) } else { many }
    }
}
