//! Contenders measured in turns, so that a noisy minute of the machine hits all of them, and what is said about them:
//! medians, spread, and ratios of samples taken in the same round.

use async_trait::async_trait;

/// How everything here fails: with a sentence.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Why somebody takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Posthaste.
    Ours,
    /// The least that any program has to do: what the hardware and PostgreSQL allow.
    Limit,
    /// What people would use instead.
    Peer,
}

/// Somebody who can be measured again and again.
#[async_trait]
pub(crate) trait Contender: Send {
    /// The name in tables.
    fn name(&self) -> &'static str;

    /// Why it takes part.
    fn role(&self) -> Role;

    /// What must be there before the clock starts.
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// One sample, in the figure's unit.
    async fn sample(&mut self) -> Result<f64>;
}

/// Whether more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// Rates.
    More,
    /// Times, bytes, rows.
    Less,
}

/// What was measured of one contender, round by round.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) samples: Vec<f64>,
}

impl Measured {
    pub(crate) fn median(&self) -> f64 {
        median(&self.samples)
    }

    /// The smallest and the largest sample.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let fold = |start: f64, pick: fn(f64, f64) -> f64| self.samples.iter().copied().fold(start, pick);
        (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
    }
}

/// What must be reached.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// Who must reach it.
    pub(crate) who: &'static str,
    /// Compared with whom; `None`: the value itself counts.
    pub(crate) against: Option<&'static str>,
    /// The bound, in the direction of the figure.
    pub(crate) bound: f64,
}

/// One figure: who was measured, in which unit, and what must be reached.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) measured: Vec<Measured>,
    pub(crate) demands: Vec<Demand>,
    /// Who could not take part, and why.
    pub(crate) skipped: Vec<(String, String)>,
}

impl Figure {
    pub(crate) fn new(name: &'static str, title: impl Into<String>, unit: &'static str, better: Better) -> Self {
        let (measured, demands, skipped) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, title: title.into(), unit, better, measured, demands, skipped }
    }

    /// With something that `who` must reach.
    pub(crate) fn demand(mut self, who: &'static str, against: Option<&'static str>, bound: f64) -> Self {
        self.demands.push(Demand { who, against, bound });
        self
    }

    /// Measures everybody in turns.
    pub(crate) async fn measure(mut self, rounds: usize, mut contenders: Vec<Box<dyn Contender>>) -> Self {
        for round in 1..=rounds {
            for contender in &mut contenders {
                eprintln!("  {} round {round} of {rounds}: {}", self.name, contender.name());
                match sample(&mut **contender).await {
                    Ok(value) => self.add(contender.name(), contender.role(), value),
                    Err(error) => self.skip(contender.name(), error.to_string()),
                }
            }
        }
        self
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, name: &str, role: Role, value: f64) {
        match self.measured.iter_mut().find(|measured| measured.name == name) {
            Some(measured) => measured.samples.push(value),
            None => self.measured.push(Measured { name: name.to_owned(), role, samples: vec![value] }),
        }
    }

    /// Notes that somebody could not be measured.
    pub(crate) fn skip(&mut self, name: &str, reason: String) {
        if !self.skipped.iter().any(|(skipped, _)| skipped == name) {
            self.skipped.push((name.to_owned(), reason));
        }
    }

    /// The samples of one contender.
    pub(crate) fn of(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.name == name)
    }

    /// The median of the ratios, each from one round.
    pub(crate) fn ratio(&self, who: &str, against: &str) -> Option<f64> {
        let (who, against) = (self.of(who)?, self.of(against)?);
        let ratios: Vec<f64> = who.samples.iter().zip(&against.samples).map(|(who, against)| who / against).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    /// What a demand comes to: the value or ratio, and whether it is reached. `None`: it was not measured.
    pub(crate) fn verdict(&self, demand: &Demand) -> Option<(f64, bool)> {
        let value = match demand.against {
            Some(against) => self.ratio(demand.who, against)?,
            None => self.of(demand.who)?.median(),
        };
        let reached = match self.better {
            Better::More => value >= demand.bound,
            Better::Less => value <= demand.bound,
        };
        Some((value, reached))
    }
}

async fn sample(contender: &mut dyn Contender) -> Result<f64> {
    contender.prepare().await?;
    contender.sample().await
}

/// The middle of the samples; of an even number the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// The value below which this share of the samples lies.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(place - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static str, Vec<f64>);

    #[async_trait]
    impl Contender for Fixed {
        fn name(&self) -> &'static str {
            self.0
        }

        fn role(&self) -> Role {
            Role::Peer
        }

        async fn sample(&mut self) -> Result<f64> {
            self.1.pop().ok_or_else(|| "worn out".into())
        }
    }

    #[tokio::test]
    async fn ratios_are_of_the_same_round_and_a_demand_is_judged_by_their_median() {
        let figure = Figure::new("f", "", "1/s", Better::More).demand("a", Some("b"), 2.0).demand("a", None, 31.0);
        // The machine was ten times as fast in the first round, for both.
        let contenders: Vec<Box<dyn Contender>> = vec![
            Box::new(Fixed("a", vec![30.0, 20.0, 300.0])),
            Box::new(Fixed("b", vec![10.0, 10.0, 150.0])),
            Box::new(Fixed("c", vec![1.0])),
        ];
        let figure = figure.measure(3, contenders).await;
        assert_eq!(figure.verdict(&figure.demands[0]), Some((2.0, true)));
        assert_eq!(figure.verdict(&figure.demands[1]), Some((30.0, false)));
        assert_eq!(figure.skipped, [("c".to_owned(), "worn out".to_owned())]);
        assert_eq!(figure.ratio("a", "nobody"), None);
    }

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&hundred, 0.5), percentile(&hundred, 0.99)), (50.0, 99.0));
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
    }
}
