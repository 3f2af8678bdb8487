//! What an event costs in bytes, rows, statements and pages, asked of every build. Never in time: that belongs to the machine.

use std::process::Command;

#[test]
fn an_event_costs_no_more_than_is_promised() {
    let postgres = std::env::var("POSTHASTE_TEST_POSTGRES")
        .expect("POSTHASTE_TEST_POSTGRES: `cargo xtask test` starts a server and sets it");
    let bench = Command::new(env!("CARGO_BIN_EXE_posthaste-bench"))
        .args(["--postgres", &postgres, "--quick", "--only", "counts"])
        .output()
        .expect("the bench runs");
    let said = String::from_utf8_lossy(&bench.stdout);
    assert!(bench.status.success(), "{said}{}", String::from_utf8_lossy(&bench.stderr));
    // Each demand was judged: a figure that was not measured would be no proof.
    for figure in
        ["WAL of delivering one event", "WAL of one event in all", "Dead rows", "Statements per batch"]
    {
        assert!(said.contains(figure), "{figure} is missing:\n{said}");
    }
    assert!(said.matches(": reached").count() >= 5, "{said}");
}
