//! What people and programs read.

use serde_json::json;

use crate::measure::{Better, Figure, Result};

type Settings = [(&'static str, String)];

/// The settings of the server.
pub(crate) fn print_settings(settings: &Settings) {
    let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    println!("PostgreSQL: {}", words.join(" "));
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
        let against = demand.against.map_or(String::new(), |against| format!(" / {against}"));
        let bound = match figure.better {
            Better::More => format!("at least {}", demand.bound),
            Better::Less => format!("at most {}", demand.bound),
        };
        match figure.verdict(demand) {
            Some((value, true)) => println!("  {}{against}: {value:.2}, asked {bound}: reached", demand.who),
            Some((value, false)) => println!("  {}{against}: {value:.2}, asked {bound}: MISSED", demand.who),
            None => println!("  {}{against}: not measured", demand.who),
        }
    }
    for (name, reason) in &figure.skipped {
        println!("  skipped: {name} ({reason})");
    }
}

/// Everything, for programs.
pub(crate) fn json(settings: &Settings, figures: &[Figure]) -> Result<String> {
    let settings: serde_json::Map<String, serde_json::Value> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect();
    Ok(serde_json::to_string_pretty(&json!({ "settings": settings, "figures": figures }))?)
}

/// Digits that mean something.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}
