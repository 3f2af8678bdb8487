//! What every row needs to know.

use crate::cluster::Cluster;

/// One run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) rounds: usize,
    /// Small numbers, for a run that only asserts counts.
    pub(crate) quick: bool,
}

impl Bench {
    /// How many events a row uses: this many, or a fiftieth in a quick run.
    pub(crate) fn events(&self, many: u64) -> u64 {
        if self.quick { many / 50 } else { many }
    }
}
