//! The rows that the program has are the rows that the page explains.

use std::process::Command;

#[test]
fn every_row_is_listed_with_its_number_and_what_it_does() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_posthaste-faults")).arg("--list").output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.lines().count() >= 5, "{text}");
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() > 3 && words[1].starts_with(|c: char| c.is_ascii_digit()), "{line}");
    }
}
