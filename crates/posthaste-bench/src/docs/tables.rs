//! A figure in Markdown: a table of everybody, what was demanded, and who could not take part.

use super::number;
use crate::measure::{Better, Figure, Kind, Measured, Role};
use crate::report;
use crate::stolen;

/// One section of the page.
pub(super) fn section(figure: &Figure) -> String {
    let parts = [about(figure), table(figure), demands(figure), skipped(figure)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("### {}\n\n{}", escaped(&figure.name), parts.join("\n"))
}

fn about(figure: &Figure) -> String {
    let better = if figure.better == Better::More { "more" } else { "less" };
    let kind = match (figure.kind, stolen::told(figure.stolen)) {
        (Kind::Time, None) => "A time: it depends on the machine.",
        (Kind::Time, Some(told)) => &format!("A time: it depends on the machine, and {told}."),
        (Kind::Count, _) => "A count: a missed demand fails the run.",
    };
    format!("{}. In {}; {better} is better. {kind}\n", escaped(&figure.title), escaped(&figure.unit))
}

fn table(figure: &Figure) -> String {
    if figure.measured.is_empty() {
        return "Nobody was measured.\n".to_owned();
    }
    let against = compared(figure);
    let titles: String = against.iter().map(|name| format!(" ratio to {} |", escaped(name))).collect();
    let rows: String = figure.measured.iter().map(|measured| row(figure, measured, &against)).collect();
    let lines = "---:|".repeat(against.len());
    format!("| contender | role | median | smallest to largest |{titles}\n|---|---|---:|---:|{lines}\n{rows}")
}

/// With whom a demand compares somebody, each once.
fn compared(figure: &Figure) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for against in figure.demands.iter().filter_map(|demand| demand.against.as_deref()) {
        if !names.contains(&against) {
            names.push(against);
        }
    }
    names
}

fn row(figure: &Figure, measured: &Measured, against: &[&str]) -> String {
    let role = match measured.role {
        Role::Ours => "ours",
        Role::Limit => "limit",
        Role::Peer => "peer",
    };
    let spread = match (measured.samples.len(), measured.spread()) {
        (1, _) => "one sample".to_owned(),
        (_, (least, most)) => format!("{} to {}", number(least), number(most)),
    };
    let ratio = |name: &&str| figure.ratio(&measured.name, name).map(|ratio| format!("{ratio:.2}"));
    let ratios: String =
        against.iter().map(|name| format!(" {} |", ratio(name).unwrap_or_default())).collect();
    format!("| {} | {role} | {} | {spread} |{ratios}\n", escaped(&measured.name), number(measured.median()))
}

/// What must be reached, and whether it is.
fn demands(figure: &Figure) -> String {
    let line = |demand| format!("- {}\n", escaped(&report::verdict(figure, demand)));
    figure.demands.iter().map(line).collect()
}

/// Who could not take part; somebody who failed only now and then is in the table all the same.
fn skipped(figure: &Figure) -> String {
    let line = |(name, reason): &(String, String)| {
        let when = if figure.of(name).is_some() { " in some rounds" } else { "" };
        format!("- skipped{when}: {} ({})\n", escaped(name), escaped(reason))
    };
    figure.skipped.iter().map(line).collect()
}

/// Words that stay words, on one line: names and reasons come from programs of others.
pub(super) fn escaped(words: &str) -> String {
    let mut escaped = String::new();
    for c in words.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let figure = Figure::timed("drain", "Drain of 10 events", "events/s", Better::More);
        let mut figure = figure.demand("us", Some("limit"), 0.6).demand("us", Some("peer|x"), 10.0);
        for (name, role, samples) in [
            ("limit", Role::Limit, &[4000.0, 5000.0][..]),
            ("us", Role::Ours, &[2000.0, 4000.0]),
            ("peer|x", Role::Peer, &[100.0]),
        ] {
            samples.iter().for_each(|sample| figure.add(name, role, *sample));
        }
        figure.skip("peer|x", "tired\n<b>".to_owned());
        figure.skip("absent", "not there".to_owned());
        figure
    }

    #[test]
    fn a_table_tells_everybody_with_ratios_to_whom_a_demand_names() {
        let expected = "| contender | role | median | smallest to largest | ratio to limit | ratio to peer\\|x |\n\
                        |---|---|---:|---:|---:|---:|\n\
                        | limit | limit | 4,500 | 4,000 to 5,000 | 1.00 | 40.00 |\n\
                        | us | ours | 3,000 | 2,000 to 4,000 | 0.65 | 20.00 |\n\
                        | peer\\|x | peer | 100 | one sample | 0.03 | 1.00 |\n";
        assert_eq!(table(&figure()), expected);
    }

    #[test]
    fn demands_and_skipped_ones_are_named_below_it() {
        let section = section(&figure().demand("absent", None, 1.0));
        for line in [
            "### drain\n\nDrain of 10 events. In events/s; more is better. A time: it depends on the machine.\n\n| contender",
            "|\n\n- us / limit: 0.65, asked at least 0.6: reached\n- us / peer\\|x: 20.00, asked at least 10: reached\n",
            "- absent: not measured, asked at least 1\n",
            "\n- skipped in some rounds: peer\\|x (tired &lt;b>)\n- skipped: absent (not there)\n",
        ] {
            assert!(section.contains(line), "{line}\n{section}");
        }
        let mut shared = figure();
        shared.stolen = Some(0.2);
        assert!(
            about(&shared)
                .contains("depends on the machine, and others took 20 % of the processors meanwhile.")
        );
        assert!(table(&Figure::counted("f", "", "B")).starts_with("Nobody"), "an empty table says so");
    }
}
