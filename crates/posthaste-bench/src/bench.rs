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

    /// So many rounds for each one that was asked for, of samples that are as much shorter: a machine that others use too is fast or slow for
    /// seconds, and both sides of a ratio should fall into the same mood.
    pub(crate) fn rounds_times(&self, times: usize) -> usize {
        if self.quick { self.rounds } else { self.rounds * times }
    }

    /// How long a row lasts: this many seconds, or a fifth in a quick run.
    pub(crate) fn seconds(&self, many: u64) -> u64 {
        if self.quick { (many / 5).max(1) } else { many }
    }
}
