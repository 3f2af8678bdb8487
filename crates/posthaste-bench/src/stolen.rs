//! How much of the processors others took while something was measured: on a machine that is shared, times say little without it.

/// The counters of all processors since the machine was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processors {
    all: u64,
    stolen: u64,
}

impl Processors {
    /// Now. Nothing where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::told_by(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal; what guests used is part of the first two.
    fn told_by(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<u64> = line.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
        Some(Self { all: times.iter().sum(), stolen: *times.get(7)? })
    }

    /// The share that was stolen since then, of all that was or could have been used.
    pub(crate) fn stolen_since(&self, before: &Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.stolen.checked_sub(before.stolen)? as f64 / all as f64)
    }
}

/// What a stretch of work suffered.
pub(crate) async fn during<T>(work: impl Future<Output = T>) -> (T, Option<f64>) {
    let before = Processors::now();
    let done = work.await;
    let stolen = before.zip(Processors::now()).and_then(|(before, after)| after.stolen_since(&before));
    (done, stolen)
}

/// `others took 23 % of the processors meanwhile`, if it is worth a word.
pub(crate) fn told(stolen: Option<f64>) -> Option<String> {
    let percent = stolen? * 100.0;
    (percent >= 1.0).then(|| format!("others took {percent:.0} % of the processors meanwhile"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_stolen_is_a_share_of_everything() {
        let at = |text| Processors::told_by(text).unwrap();
        let before = at("cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1 1 1 1 1 1 1 1\n");
        let after = at("cpu  150 0 150 750 0 0 0 150 90 0\n");
        assert_eq!(after.stolen_since(&before), Some(0.25));
        assert_eq!(before.stolen_since(&before), None, "no time has passed");
        assert_eq!(before.stolen_since(&after), None, "counters that went back say nothing");
        assert!(Processors::told_by("intr 1 2 3").is_none() && Processors::told_by("cpu  1 2 3").is_none());
    }

    #[test]
    fn only_what_matters_is_told() {
        assert_eq!(told(Some(0.232)).as_deref(), Some("others took 23 % of the processors meanwhile"));
        assert_eq!((told(Some(0.004)), told(None)), (None, None));
    }

    #[tokio::test]
    async fn work_is_measured_here_as_well() {
        let (done, stolen) = during(tokio::time::sleep(Duration::from_millis(200))).await;
        assert!(matches!((done, stolen), ((), Some(0.0..=1.0))), "{stolen:?}");
    }
}
