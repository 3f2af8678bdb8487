//! Names that nobody sensible gives, for tests of every place where a name is due.

use fastrand::Rng;

const PARTS: [&str; 24] = [
    "'",
    "\"",
    "\\",
    "`",
    ";",
    "--",
    "/*",
    "$1",
    "$$",
    "%s",
    "{schema}",
    "'; drop table canary; --",
    "\"; drop table canary; --",
    "') or 1=1 --",
    "orders",
    "pg_catalog",
    "\u{202e}",
    "ä🦀",
    "\n",
    "\0",
    "\u{7f}",
    "..",
    "a.b",
    "_",
];

/// Quotes, comments, SQL, places and odd characters in a row; sometimes nothing, and now and then very long.
pub fn hostile_name(random: &mut Rng) -> String {
    let name: String = (0..random.usize(..5)).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
    if random.u8(..20) == 0 { name.repeat(random.usize(1..2_000)) } else { name }
}
