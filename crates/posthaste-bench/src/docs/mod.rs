//! What the documentation shows of a run: four charts, and the measured part of a page. The same run gives the same bytes.

mod svg;
mod frame;
mod bars;
mod dots;
mod charts;
mod tables;
mod page;

use std::path::Path;

use crate::measure::Result;
use crate::report;
use crate::rows;
use crate::run::Run;

const PAGE: &str = "benchmarks.md";
/// The folder of the charts, beside the page.
const CHARTS: &str = "benchmarks";

/// Refuses a folder whose page has no place for what is measured.
pub(crate) fn check(folder: &Path) -> Result<()> {
    page::with(&read(folder)?, "").map(drop)
}

/// Writes charts and page, after all of them could be drawn.
pub(crate) fn write(folder: &Path, run: &Run) -> Result<()> {
    run.must_have(&rows::names())?;
    let charts = charts::all(&run.figures)?;
    let page = page::with(&read(folder)?, &page::measured(run, &charts))?;
    save(&folder.join(PAGE), &page)?;
    for chart in &charts {
        save(&folder.join(CHARTS).join(chart.file), &chart.svg)?;
    }
    Ok(())
}

fn read(folder: &Path) -> Result<String> {
    let path = folder.join(PAGE);
    Ok(std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn save(path: &Path, text: &str) -> Result<()> {
    let written =
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("posthaste-bench: wrote {}", path.display());
    Ok(())
}

/// Digits that mean something, as people write them: `1,234,567`, `12.5`, `0.62`.
fn number(value: f64) -> String {
    let digits = report::number(value);
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    match rest.trim_end_matches('0') {
        "" => grouped(whole),
        rest => format!("{}.{rest}", grouped(whole)),
    }
}

/// A comma before every three digits from the right.
fn grouped(digits: &str) -> String {
    let place = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let with_comma = |(at, digit): (usize, char)| [place(at).then_some(','), Some(digit)];
    digits.chars().enumerate().flat_map(with_comma).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Better, Figure};

    /// A run of every row in which nobody could be measured.
    fn run() -> Run {
        let mut run = Run::begin(Default::default(), false, 3).unwrap();
        run.rows = rows::names().into_iter().map(str::to_owned).collect();
        let names = ["WAL", "WAL insert", "WAL deliver", "drain", "held", "latency p50", "latency p99"];
        run.figures = names.map(|name| Figure::timed(name, name, "1/s", Better::More)).into();
        run
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let page = include_str!("../../../../docs/reference/benchmarks.md");
        std::fs::write(folder.path().join(PAGE), page).unwrap();
        folder
    }

    #[test]
    fn a_whole_run_gives_a_page_with_every_figure_and_the_charts_it_links() {
        let folder = folder();
        write(folder.path(), &run()).unwrap();
        let page = read(folder.path()).unwrap();
        assert!(page.contains("\n### latency p99\n"), "{page}");
        let links =
            page.lines().filter_map(|line| line.strip_prefix("![")?.strip_suffix(')')?.split_once("]("));
        let files: Vec<&str> = links.map(|(_, file)| file).collect();
        assert_eq!(files.len(), 4);
        assert!(files.iter().all(|file| folder.path().join(file).is_file()), "{files:?}");
    }

    #[test]
    fn a_run_without_one_row_writes_nothing() {
        let (folder, mut run) = (folder(), run());
        let before = read(folder.path()).unwrap();
        run.rows.retain(|row| row != "held");
        assert!(write(folder.path(), &run).unwrap_err().to_string().contains("no held"));
        assert_eq!(read(folder.path()).unwrap(), before);
        assert!(!folder.path().join(CHARTS).exists());
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        let values = [1_234_567.4, 1000.0, 999.96, 12.5, 10.0, 0.62, 0.0];
        let words: Vec<String> = values.iter().map(|value| number(*value)).collect();
        assert_eq!(words, ["1,234,567", "1,000", "1,000", "12.5", "10", "0.62", "0"]);
    }
}
