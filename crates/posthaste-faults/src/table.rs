//! The scorecard on a terminal.

use crate::finding::Finding;
use crate::run::Run;

const HEAD: [&str; 10] = [
    "fault",
    "events",
    "lost",
    "ghosts",
    "duplicates",
    "allowed",
    "inversions",
    "corrupted",
    "recovery",
    "verdict",
];

/// The cells of one line, in the order of the head.
pub(crate) fn cells(finding: &Finding) -> Vec<String> {
    let figure = |of: fn(&crate::finding::Figures) -> usize| {
        finding.figures.as_ref().map_or("-".to_owned(), |figures| of(figures).to_string())
    };
    vec![
        finding.fault.clone(),
        figure(|figures| figures.accepted),
        figure(|figures| figures.lost),
        figure(|figures| figures.ghosts),
        figure(|figures| figures.duplicates),
        figure(|figures| figures.duplicates_allowed),
        figure(|figures| figures.inversions),
        figure(|figures| figures.corrupted),
        finding.recovery.map_or("-".to_owned(), |millis| format!("{:.1} s", millis as f64 / 1000.0)),
        finding.verdict().to_owned(),
    ]
}

/// All of it.
pub(crate) fn print(run: &Run) {
    let lines: Vec<Vec<String>> = run.findings.iter().map(cells).collect();
    let head: Vec<String> = HEAD.iter().map(|name| (*name).to_owned()).collect();
    let width = |column: usize| {
        lines.iter().chain([&head]).map(|line| line[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    println!();
    for line in [&head].into_iter().chain(&lines) {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    }
    for finding in &run.findings {
        reasons(finding)
            .iter()
            .for_each(|reason| println!("{}: {}: {reason}", finding.verdict(), finding.fault));
    }
    println!("\n{} good, {} bad, {} skipped", run.count("good"), run.count("BAD"), run.count("skipped"));
}

/// One finding while the run goes on.
pub(crate) fn tell(finding: &Finding) {
    let figures = cells(finding)[1..]
        .iter()
        .zip(&HEAD[1..])
        .map(|(cell, name)| format!("{name} {cell}"))
        .collect::<Vec<_>>();
    eprintln!("  {} [{}] {}", finding.fault, finding.how, figures.join(", "));
    finding.facts.iter().for_each(|fact| eprintln!("    {}: {}", fact.what, fact.found));
}

/// Why it is not good.
fn reasons(finding: &Finding) -> Vec<String> {
    let bad =
        finding.facts.iter().filter(|fact| !fact.good).map(|fact| format!("{}: {}", fact.what, fact.found));
    finding.skipped.iter().cloned().chain(bad).collect()
}
