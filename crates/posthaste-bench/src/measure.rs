//! Contenders measured in turns, so that a noisy minute of the machine hits all of them, and what is said about them:
//! medians, spread, and ratios of samples taken in the same round.

use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};

/// How everything here fails: with a sentence.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Why somebody takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Posthaste.
    Ours,
    /// The least that any program has to do: what the hardware and PostgreSQL allow.
    Limit,
    /// What people would use instead.
    Peer,
}

type Step<'c, T> = Box<dyn FnMut() -> LocalBoxFuture<'c, Result<T>> + 'c>;

/// Somebody who can be measured again and again.
pub(crate) struct Contender<'c> {
    name: &'static str,
    role: Role,
    prepare: Option<Step<'c, ()>>,
    sample: Step<'c, f64>,
}

impl<'c> Contender<'c> {
    /// `sample` gives one sample in the figure's unit.
    pub(crate) fn new<S>(name: &'static str, role: Role, mut sample: impl FnMut() -> S + 'c) -> Self
    where
        S: Future<Output = Result<f64>> + 'c,
    {
        Self { name, role, prepare: None, sample: Box::new(move || Box::pin(sample())) }
    }

    /// With something that must be there before the clock starts.
    pub(crate) fn prepared_by<P>(mut self, mut prepare: impl FnMut() -> P + 'c) -> Self
    where
        P: Future<Output = Result<()>> + 'c,
    {
        self.prepare = Some(Box::new(move || Box::pin(prepare())));
        self
    }

    async fn measure(&mut self) -> Result<f64> {
        if let Some(prepare) = &mut self.prepare {
            prepare().await?;
        }
        (self.sample)().await
    }
}

/// Whether more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Rates.
    More,
    /// Times, bytes, rows.
    Less,
}

/// Whether a figure repeats on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Depends on the machine and on who else uses it.
    Time,
    /// Bytes, rows, statements: the same everywhere, so that a test can ask for it.
    Count,
}

/// What was measured of one contender, round by round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) samples: Vec<f64>,
    /// The round of each sample: whoever failed in one has none of it.
    pub(crate) rounds: Vec<usize>,
}

impl Measured {
    /// The sample of a round.
    fn in_round(&self, round: usize) -> Option<f64> {
        let place = self.rounds.iter().position(|known| *known == round)?;
        self.samples.get(place).copied()
    }

    pub(crate) fn median(&self) -> f64 {
        median(&self.samples)
    }

    /// The smallest and the largest sample.
    pub(crate) fn spread(&self) -> (f64, f64) {
        spread(&self.samples)
    }
}

/// What must be reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Demand {
    /// Who must reach it.
    pub(crate) who: String,
    /// Compared with whom; `None`: the value itself counts.
    pub(crate) against: Option<String>,
    /// The bound, in the direction of the figure.
    pub(crate) bound: f64,
}

/// One figure: who was measured, in which unit, and what must be reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) kind: Kind,
    pub(crate) measured: Vec<Measured>,
    pub(crate) demands: Vec<Demand>,
    /// Who could not take part, and why.
    pub(crate) skipped: Vec<(String, String)>,
    /// The share of the processors that others took while it was measured.
    #[serde(default)]
    pub(crate) stolen: Option<f64>,
    /// The round that is measured now.
    #[serde(skip)]
    round: Option<usize>,
}

impl Figure {
    /// A figure that depends on the machine.
    pub(crate) fn timed(name: &str, title: impl Into<String>, unit: &str, better: Better) -> Self {
        let (name, title, unit) = (name.to_owned(), title.into(), unit.to_owned());
        let (measured, demands, skipped, stolen) = (Vec::new(), Vec::new(), Vec::new(), None);
        Self { name, title, unit, better, kind: Kind::Time, measured, demands, skipped, stolen, round: None }
    }

    /// A figure that is the same everywhere; less is better.
    pub(crate) fn counted(name: &str, title: impl Into<String>, unit: &str) -> Self {
        Self { kind: Kind::Count, ..Self::timed(name, title, unit, Better::Less) }
    }

    /// With something that `who` must reach.
    pub(crate) fn demand(mut self, who: &str, against: Option<&str>, bound: f64) -> Self {
        self.demands.push(Demand { who: who.to_owned(), against: against.map(str::to_owned), bound });
        self
    }

    /// Measures everybody in turns.
    pub(crate) async fn measure(mut self, rounds: usize, mut contenders: Vec<Contender<'_>>) -> Self {
        for round in 1..=rounds {
            self.begin(round);
            for contender in &mut contenders {
                eprintln!("  {} round {round} of {rounds}: {}", self.name, contender.name);
                match contender.measure().await {
                    Ok(value) => self.add(contender.name, contender.role, value),
                    Err(error) => self.skip(contender.name, error.to_string()),
                }
            }
        }
        self
    }

    /// What is added from now on is of this round. Who is only added to, without rounds, has one sample of each.
    pub(crate) fn begin(&mut self, round: usize) {
        self.round = Some(round);
    }

    /// Adds a sample. What is no number is no sample: neither a median nor JSON can hold it.
    pub(crate) fn add(&mut self, name: &str, role: Role, value: f64) {
        if !value.is_finite() {
            return self.skip(name, format!("it gave {value} instead of a number"));
        }
        let place = self.measured.iter().position(|measured| measured.name == name).unwrap_or_else(|| {
            let (name, samples, rounds) = (name.to_owned(), Vec::new(), Vec::new());
            self.measured.push(Measured { name, role, samples, rounds });
            self.measured.len() - 1
        });
        let measured = &mut self.measured[place];
        measured.rounds.push(self.round.unwrap_or(measured.rounds.len() + 1));
        measured.samples.push(value);
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

    /// The ratios, each from a round in which both were measured.
    pub(crate) fn ratios(&self, who: &str, against: &str) -> Option<Vec<f64>> {
        let (who, against) = (self.of(who)?, self.of(against)?);
        let ratio = |round: &usize| Some(who.in_round(*round)? / against.in_round(*round)?);
        let ratios: Vec<f64> = who.rounds.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then_some(ratios)
    }

    /// Their median.
    pub(crate) fn ratio(&self, who: &str, against: &str) -> Option<f64> {
        self.ratios(who, against).map(|ratios| median(&ratios))
    }

    /// What a demand comes to: the value or ratio, and whether it is reached. `None`: it was not measured.
    pub(crate) fn verdict(&self, demand: &Demand) -> Option<(f64, bool)> {
        let value = match &demand.against {
            Some(against) => self.ratio(&demand.who, against)?,
            None => self.of(&demand.who)?.median(),
        };
        let reached = match self.better {
            Better::More => value >= demand.bound,
            Better::Less => value <= demand.bound,
        };
        Some((value, reached))
    }

    /// Demands on counts that are not met, or were not even measured: a test fails with these.
    pub(crate) fn broken_counts(&self) -> Vec<&Demand> {
        let broken = |demand: &&Demand| !self.verdict(demand).is_some_and(|(_, reached)| reached);
        self.demands.iter().filter(|_| self.kind == Kind::Count).filter(broken).collect()
    }
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

/// The smallest and the largest sample.
pub(crate) fn spread(samples: &[f64]) -> (f64, f64) {
    let fold = |start: f64, pick: fn(f64, f64) -> f64| samples.iter().copied().fold(start, pick);
    (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
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

    fn fixed(name: &'static str, mut samples: Vec<f64>) -> Contender<'static> {
        Contender::new(name, Role::Peer, move || {
            let sample = samples.pop();
            async move { sample.ok_or_else(|| "worn out".into()) }
        })
    }

    #[tokio::test]
    async fn ratios_are_of_the_same_round_and_a_demand_is_judged_by_their_median() {
        let figure = Figure::timed("f", "", "1/s", Better::More);
        let figure = figure.demand("a", Some("b"), 2.0).demand("a", None, 31.0);
        // The machine was ten times as fast in the first round, for both.
        let contenders = vec![
            fixed("a", vec![30.0, 20.0, 300.0]),
            fixed("b", vec![10.0, 10.0, 150.0]),
            fixed("c", vec![1.0]),
        ];
        let figure = figure.measure(3, contenders).await;
        assert_eq!(figure.verdict(&figure.demands[0]), Some((2.0, true)));
        assert_eq!(figure.verdict(&figure.demands[1]), Some((30.0, false)));
        assert_eq!(figure.skipped, [("c".to_owned(), "worn out".to_owned())]);
        assert_eq!(figure.ratio("a", "nobody"), None);
        assert!(figure.broken_counts().is_empty(), "times are nobody's fault");
    }

    #[tokio::test]
    async fn who_fails_in_a_round_is_not_compared_in_it() {
        let mut turn = 0;
        let fails_first = Contender::new("b", Role::Peer, move || {
            turn += 1;
            let sample = if turn == 1 { Err("not yet".into()) } else { Ok(10.0) };
            async move { sample }
        });
        let figure = Figure::timed("f", "", "1/s", Better::More);
        let figure = figure.measure(3, vec![fixed("a", vec![40.0, 20.0, 900.0]), fails_first]).await;
        assert_eq!(figure.ratios("a", "b"), Some(vec![2.0, 4.0]));
        assert_eq!(figure.ratios("b", "a"), Some(vec![0.5, 0.25]));
    }

    #[tokio::test]
    async fn a_count_that_is_missed_or_missing_is_broken() {
        let figure = Figure::counted("f", "", "B").demand("a", None, 5.0).demand("b", None, 5.0);
        let figure = figure.demand("nobody", None, 5.0);
        let figure = figure.measure(1, vec![fixed("a", vec![5.0]), fixed("b", vec![6.0])]).await;
        let broken: Vec<&str> = figure.broken_counts().iter().map(|demand| demand.who.as_str()).collect();
        assert_eq!(broken, ["b", "nobody"]);
    }

    #[tokio::test]
    async fn what_is_no_number_is_named_as_skipped() {
        let figure = Figure::timed("f", "", "ms", Better::Less).measure(1, vec![fixed("a", vec![f64::NAN])]);
        let figure = figure.await;
        assert!(figure.measured.is_empty());
        assert_eq!(figure.skipped, [("a".to_owned(), "it gave NaN instead of a number".to_owned())]);
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
