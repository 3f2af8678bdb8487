//! Which figures become which chart.

use super::bars::{Bar, Bars};
use super::dots::{Dots, Pair};
use super::frame::{self, Key, Sign};
use super::number;
use crate::measure::{Figure, Measured, Result, median, spread};

/// A drawn chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    pub(super) svg: String,
}

/// All of them, in the order of the page.
pub(super) fn all(figures: &[Figure]) -> Result<Vec<Chart>> {
    let figure = |name: &str| {
        let found = figures.iter().find(|figure| figure.name == name);
        found.ok_or_else(|| format!("the run has no figure `{name}`, of which a chart is drawn"))
    };
    let bars = |file, bars: Bars| Chart { file, title: bars.title, svg: bars.draw() };
    let latency = latency(figure("latency p50")?, figure("latency p99")?);
    Ok(vec![
        bars("throughput.svg", throughput(figure("drain")?)),
        Chart { file: "latency.svg", title: latency.title, svg: latency.draw() },
        bars("wal.svg", wal(figure("WAL")?, figure("WAL insert")?, figure("WAL deliver")?)),
        bars("held.svg", held(figure("held")?)),
    ])
}

fn throughput(figure: &Figure) -> Bars {
    let bar = |measured: &Measured| Bar {
        name: measured.name.clone(),
        role: measured.role,
        parts: vec![measured.median()],
        spread: whole(&measured.samples),
        value: number(measured.median()),
    };
    let mut bars: Vec<Bar> = figure.measured.iter().map(bar).collect();
    bars.sort_by(|a, b| b.parts[0].total_cmp(&a.parts[0]));
    let subtitle = format!("{} {}", figure.title, frame::unit(figure));
    Bars { title: "How fast a backlog is gone", subtitle, keys: keys(&bars), bars, mark: None }
}

/// The spread of what was measured more than once.
fn whole(samples: &[f64]) -> Option<(f64, f64)> {
    (samples.len() > 1).then(|| spread(samples))
}

fn keys(bars: &[Bar]) -> Vec<Key> {
    let mut keys = frame::roles(bars.iter().map(|bar| bar.role));
    if bars.iter().any(|bar| bar.spread.is_some()) {
        keys.push(Key { sign: Sign::Spread, words: "smallest to largest round" });
    }
    keys
}

fn latency(usual: &Figure, rare: &Figure) -> Dots {
    let pair = |measured: &Measured| {
        let rare = rare.of(&measured.name)?.median();
        Some(Pair { name: measured.name.clone(), role: measured.role, usual: measured.median(), rare })
    };
    let mut pairs: Vec<Pair> = usual.measured.iter().filter_map(pair).collect();
    pairs.sort_by(|a, b| a.usual.total_cmp(&b.usual));
    let subtitle = format!("{} {}, logarithmic", usual.title.replace(", p50", ""), frame::unit(usual));
    Dots { title: "Latency", subtitle, usual: "p50", rare: "p99", pairs }
}

fn wal(both: &Figure, inserted: &Figure, delivered: &Figure) -> Bars {
    let bar = |measured: &Measured| {
        let parts = vec![measured.median(), delivered.of(&measured.name)?.median()];
        let value = format!("{} = {} + {}", number(parts.iter().sum()), number(parts[0]), number(parts[1]));
        Some(Bar { name: measured.name.clone(), role: measured.role, parts, spread: None, value })
    };
    let mut bars: Vec<Bar> = inserted.measured.iter().filter_map(bar).collect();
    bars.sort_by(|a, b| a.parts.iter().sum::<f64>().total_cmp(&b.parts.iter().sum()));
    let mut keys = keys(&bars);
    keys.push(Key { sign: Sign::Light(frame::FAINT), words: "light: enqueuing" });
    keys.push(Key { sign: Sign::Box(frame::FAINT), words: "full: delivering" });
    let subtitle = format!("{} {}", both.title, frame::unit(both));
    Bars { title: "WAL per event", subtitle, keys, bars, mark: None }
}

/// Everybody whom somebody held up, in per cent of the same without: `a, snapshot held` is compared with `a`.
fn held(figure: &Figure) -> Bars {
    let bar = |measured: &Measured| {
        let (alone, _) = measured.name.rsplit_once(", ")?;
        let ratios = figure.ratios(&measured.name, alone)?;
        let percent: Vec<f64> = ratios.into_iter().map(|ratio| ratio * 100.0).collect();
        let (name, role, value) =
            (measured.name.clone(), measured.role, format!("{:.0} %", median(&percent)));
        Some(Bar { name, role, parts: vec![median(&percent)], spread: whole(&percent), value })
    };
    let bars: Vec<Bar> = figure.measured.iter().filter_map(bar).collect();
    let subtitle = format!("{} (rate in per cent of the same round without, more is better)", figure.title);
    let mark = Some((100.0, "100 %: nothing lost"));
    Bars { title: "While somebody holds on to a snapshot", subtitle, keys: keys(&bars), bars, mark }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Better, Role};

    fn figure(name: &str, samples: &[(&str, &[f64])]) -> Figure {
        let mut figure = Figure::timed(name, format!("The title of {name}"), "1/s", Better::More);
        for (name, samples) in samples {
            samples.iter().for_each(|sample| figure.add(name, Role::Peer, *sample));
        }
        figure
    }

    fn figures() -> Vec<Figure> {
        vec![
            figure("WAL", &[("a", &[100.0])]),
            figure("WAL insert", &[("a", &[70.0]), ("b", &[10.0])]),
            figure("WAL deliver", &[("a", &[30.0]), ("b", &[20.0])]),
            figure("drain", &[("a", &[10.0, 30.0, 20.0]), ("b", &[50.0])]),
            figure("held", &[("a", &[10.0, 100.0]), ("a, snapshot held", &[5.0, 60.0])]),
            figure("latency p50", &[("a", &[2.0]), ("b", &[1.0]), ("c", &[1.0])]),
            figure("latency p99", &[("a", &[3.0]), ("b", &[9.0])]),
        ]
    }

    fn words(file: &str) -> String {
        let charts = all(&figures()).unwrap();
        let svg = &charts.iter().find(|chart| chart.file == file).unwrap().svg;
        svg.lines().find(|line| line.starts_with("<desc")).unwrap().to_owned()
    }

    #[test]
    fn each_chart_shows_its_figures_in_their_order() {
        assert!(words("throughput.svg").contains("more\u{a0}is\u{a0}better). b: 50; a: 20."));
        assert!(words("latency.svg").contains(". b: p50 1, p99 9; a: p50 2, p99 3."));
        assert!(words("wal.svg").contains(". b: 30 = 10 + 20; a: 100 = 70 + 30."));
        // Of two ratios from two rounds.
        assert!(words("held.svg").contains(". a, snapshot held: 55 %."));
    }

    #[test]
    fn the_same_figures_give_the_same_bytes() {
        let drawn = || all(&figures()).unwrap().into_iter().map(|chart| chart.svg).collect::<Vec<_>>();
        assert_eq!(drawn(), drawn());
    }

    #[test]
    fn a_figure_that_is_not_there_is_named() {
        let mut figures = figures();
        figures.retain(|figure| figure.name != "held");
        assert!(all(&figures).unwrap_err().to_string().contains("`held`"));
    }
}
