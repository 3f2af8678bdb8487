//! What people read.

use crate::measure::Figure;

/// The settings of the server.
pub(crate) fn settings(settings: &[(&str, String)]) {
    let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    println!("PostgreSQL: {}", words.join(" "));
}

/// One figure as a table.
pub(crate) fn print(figure: &Figure) {
    println!("\n{} ({})", figure.title, figure.unit);
    for measured in &figure.measured {
        let (least, most) = measured.spread();
        println!("  {:<24} {:>12} ({} to {})", measured.name, number(measured.median()), number(least), number(most));
    }
    for demand in &figure.demands {
        let against = demand.against.map_or(String::new(), |against| format!(" / {against}"));
        match figure.verdict(demand) {
            Some((value, reached)) => println!(
                "  {}{against}: {value:.2}, asked {} {} -> {}",
                demand.who,
                match figure.better {
                    crate::measure::Better::More => "at least",
                    crate::measure::Better::Less => "at most",
                },
                demand.bound,
                if reached { "reached" } else { "MISSED" }
            ),
            None => println!("  {}{against}: not measured", demand.who),
        }
    }
    for (name, reason) in &figure.skipped {
        println!("  skipped: {name} ({reason})");
    }
}

/// Digits that mean something.
fn number(value: f64) -> String {
    match value.abs() {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}
