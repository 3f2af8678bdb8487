//! What people and programs read.

use std::collections::BTreeMap;

use crate::measure::{Better, Demand, Figure};
use crate::stolen;

/// The settings of the server.
pub(crate) fn print_settings(settings: &BTreeMap<String, String>) {
    println!("PostgreSQL: {}", in_words(settings));
}

/// `fsync=on wal_compression=off`
pub(crate) fn in_words(settings: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.join(" ")
}

/// One figure as a table.
pub(crate) fn print(figure: &Figure) {
    println!("\n{} ({})", figure.title, figure.unit);
    for measured in &figure.measured {
        let (least, most) = measured.spread();
        let spread = format!("({} to {})", number(least), number(most));
        println!("  {:<38} {:>12} {spread}", measured.name, number(measured.median()));
    }
    for demand in &figure.demands {
        println!("  {}", verdict(figure, demand));
    }
    for (name, reason) in &figure.skipped {
        println!("  skipped: {name} ({reason})");
    }
    if let Some(sentence) = stolen::told(figure.stolen) {
        println!("  {sentence}");
    }
}

/// `posthaste / COPY: 0.81, asked at least 0.7: reached`
pub(crate) fn verdict(figure: &Figure, demand: &Demand) -> String {
    let against = demand.against.as_ref().map_or(String::new(), |against| format!(" / {against}"));
    let bound = match figure.better {
        Better::More => format!("at least {}", demand.bound),
        Better::Less => format!("at most {}", demand.bound),
    };
    let who = format!("{}{against}", demand.who);
    match figure.verdict(demand) {
        Some((value, true)) => format!("{who}: {value:.2}, asked {bound}: reached"),
        Some((value, false)) => format!("{who}: {value:.2}, asked {bound}: MISSED"),
        None => format!("{who}: not measured, asked {bound}"),
    }
}

/// Digits that mean something.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}
