//! `posthaste version`: which program this is, and what it was built with.

use std::io::Write;

use posthaste_sinks::SinkSettings;
use serde_json::json;

use crate::cli::GlobalOptions;
use crate::failure::Failure;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(global: &GlobalOptions) -> Result<(), Failure> {
    let (sinks, tls): (Vec<&str>, bool) = (SinkSettings::kinds().collect(), cfg!(feature = "tls"));
    let mut out = std::io::stdout();
    if global.json {
        writeln!(out, "{}", json!({ "version": VERSION, "sinks": sinks, "tls": tls }))?;
        return Ok(());
    }
    writeln!(out, "posthaste {VERSION}")?;
    writeln!(out, "sinks: {}", sinks.join(", "))?;
    let encrypted = if tls { "yes" } else { "no (build with --features tls)" };
    writeln!(out, "encrypted connections to PostgreSQL: {encrypted}")?;
    Ok(())
}
