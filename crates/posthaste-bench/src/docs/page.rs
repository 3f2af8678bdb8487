//! The page: a frame that people write, and between two marks what the last run has measured.

use super::charts::Chart;
use super::tables::{escaped, section};
use super::{CHARTS, PAGE};
use crate::measure::{Figure, Result};
use crate::report;
use crate::run::Run;

const BEGIN: &str = "<!-- measured: written by `cargo xtask bench --docs`; do not edit from here -->";
const END: &str = "<!-- end of what was measured -->";

/// The page with this between its marks. Everything else stays as it is.
pub(super) fn with(page: &str, measured: &str) -> Result<String> {
    let once = |mark: &str| page.matches(mark).count() == 1;
    let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    match parts.filter(|_| once(BEGIN) && once(END)) {
        Some((head, tail)) => Ok(format!("{head}{BEGIN}\n\n{}\n\n{END}{tail}", measured.trim_end())),
        None => {
            Err(format!("{PAGE} must have these two lines, once and in this order: `{BEGIN}` and `{END}`")
                .into())
        }
    }
}

/// What stands between the marks.
pub(super) fn measured(run: &Run, charts: &[Chart]) -> String {
    let mut parts = vec![circumstances(run), summary(&run.figures)];
    if !run.absent.is_empty() {
        let names: Vec<String> = run.absent.iter().map(|name| escaped(name)).collect();
        parts.push(format!(
            "Skipped in every row, because their programs were not there: {}.\n",
            names.join(", ")
        ));
    }
    parts.extend(charts.iter().map(|chart| format!("![{}]({CHARTS}/{})\n", chart.title, chart.file)));
    parts.extend(run.figures.iter().map(section));
    parts.join("\n")
}

fn circumstances(run: &Run) -> String {
    let machine = &run.machine;
    let memory = machine.memory as f64 / 1024.0;
    format!(
        "Measured on {}, rounds: {}. Machine: {} cores, {memory:.1} GiB of memory, Linux {}.\n\nPostgreSQL: `{}`\n",
        run.date,
        run.rounds,
        machine.cores,
        machine.kernel,
        report::in_words(&run.settings)
    )
}

/// How many demands are reached, and which are not.
fn summary(figures: &[Figure]) -> String {
    let demands =
        || figures.iter().flat_map(|figure| figure.demands.iter().map(move |demand| (figure, demand)));
    let count = |verdict: Option<bool>| {
        let reached = |(figure, demand): &(&Figure, &_)| figure.verdict(demand).map(|(_, reached)| reached);
        demands().filter(|pair| reached(pair) == verdict).count()
    };
    let open =
        demands().filter(|(figure, demand)| !figure.verdict(demand).is_some_and(|(_, reached)| reached));
    let lines: String = open
        .map(|(figure, demand)| {
            format!("- {}: {}\n", escaped(&figure.name), escaped(&report::verdict(figure, demand)))
        })
        .collect();
    let [reached, missed, not_measured] = [Some(true), Some(false), None].map(count);
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("Demands: {reached} reached, {missed} missed, {not_measured} not measured.\n{gap}{lines}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::measure::{Better, Role};

    fn page(middle: &str) -> String {
        format!("# Benchmarks\n\nOurs.\n\n{BEGIN}\n{middle}\n{END}\n\nOurs too.\n")
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let written = with(&page("old\n"), "new\n\n| a |\n").unwrap();
        assert_eq!(written, page("\nnew\n\n| a |\n"));
        assert_eq!(with(&written, "new\n\n| a |\n").unwrap(), written, "twice is as once");
    }

    #[test]
    fn a_page_without_both_marks_once_and_in_order_is_refused() {
        let (whole, twice) = (page("old"), page(BEGIN));
        let without = |mark: &str| whole.replace(mark, "");
        for page in [String::new(), without(BEGIN), without(END), twice, format!("{END}\n{BEGIN}\n")] {
            let sentence = with(&page, "new").unwrap_err().to_string();
            assert!(sentence.contains(BEGIN) && sentence.contains(END), "{sentence}");
        }
    }

    #[test]
    fn the_page_of_the_project_has_the_marks() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
        super::super::check(std::path::Path::new(folder)).unwrap();
    }

    #[test]
    fn circumstances_demands_and_charts_come_before_the_figures() {
        let mut run = Run::begin(BTreeMap::from([("fsync".to_owned(), "on".to_owned())]), false, 3).unwrap();
        run.date = "2001-02-03".to_owned();
        run.absent.push("obix".to_owned());
        let figure = Figure::timed("drain", "Drain", "events/s", Better::More).demand("us", None, 5.0);
        let mut figure = figure.demand("us", None, 50.0).demand("nobody", None, 5.0);
        figure.add("us", Role::Ours, 10.0);
        run.figures.push(figure);
        let chart = Chart { file: "x.svg", title: "A chart", svg: String::new() };
        let text = measured(&run, &[chart]);
        let parts = [
            "Measured on 2001-02-03, rounds: 3. Machine: ",
            "PostgreSQL: `fsync=on`\n\nDemands: 1 reached, 1 missed, 1 not measured.\n\n",
            "- drain: us: 10.00, asked at least 50: MISSED\n- drain: nobody: not measured",
            "were not there: obix.\n\n![A chart](benchmarks/x.svg)\n\n### drain\n",
        ];
        let places: Vec<Option<usize>> = parts.iter().map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{text}");
    }
}
