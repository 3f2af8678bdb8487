//! The difference between the events a test expects and those there are, in lines that a person can read.

use std::fmt;

use posthaste::Event;

use crate::expected::Expected;

/// A line of the difference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// Expected and there.
    Same(String),
    /// Expected and not there.
    Missing(String),
    /// There and not expected.
    Surplus(String),
    /// There in place of what was expected, with what is wrong with it.
    Differs { expected: String, found: String, complaints: Vec<String> },
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(event) => write!(f, "    {event}"),
            Self::Missing(expected) => write!(f, "  - {expected}"),
            Self::Surplus(event) => write!(f, "  + {event}"),
            Self::Differs { expected, found, complaints } => {
                write!(f, "  - {expected}\n  + {found}")?;
                complaints.iter().try_for_each(|complaint| write!(f, "\n      {complaint}"))
            }
        }
    }
}

/// Aligns both lists so that as many as possible agree, each keeping its order.
pub(crate) fn in_order(expected: &[Expected], found: &[Event]) -> Vec<Row> {
    let best = agreements(expected, found);
    let (mut e, mut f, mut rows, mut missing, mut surplus) = (0, 0, Vec::new(), Vec::new(), Vec::new());
    while e < expected.len() && f < found.len() {
        if expected[e].matches(&found[f]) && best[e][f] == best[e + 1][f + 1] + 1 {
            flush(&mut rows, &mut missing, &mut surplus);
            rows.push(Row::Same(line(&found[f])));
            (e, f) = (e + 1, f + 1);
        } else if best[e + 1][f] >= best[e][f + 1] {
            missing.push(&expected[e]);
            e += 1;
        } else {
            surplus.push(&found[f]);
            f += 1;
        }
    }
    missing.extend(&expected[e..]);
    surplus.extend(&found[f..]);
    flush(&mut rows, &mut missing, &mut surplus);
    rows
}

/// How many can agree from here on, for every pair of places.
fn agreements(expected: &[Expected], found: &[Event]) -> Vec<Vec<usize>> {
    let mut best = vec![vec![0; found.len() + 1]; expected.len() + 1];
    for e in (0..expected.len()).rev() {
        for f in (0..found.len()).rev() {
            let both = if expected[e].matches(&found[f]) { best[e + 1][f + 1] + 1 } else { 0 };
            best[e][f] = both.max(best[e + 1][f]).max(best[e][f + 1]);
        }
    }
    best
}

/// Between two that agree: what is missing and what is too much there belong together, pair by pair.
fn flush(rows: &mut Vec<Row>, missing: &mut Vec<&Expected>, surplus: &mut Vec<&Event>) {
    let mut surplus = surplus.drain(..);
    for expected in missing.drain(..) {
        rows.push(match surplus.next() {
            None => Row::Missing(expected.to_string()),
            Some(event) => Row::Differs {
                expected: expected.to_string(),
                found: line(event),
                complaints: expected.complaints(event),
            },
        });
    }
    rows.extend(surplus.map(|event| Row::Surplus(line(event))));
}

/// Pairs them whatever their order; if several pairings are possible, one that leaves the fewest alone.
pub(crate) fn in_any_order(expected: &[Expected], found: &[Event]) -> Vec<Row> {
    let mut taken_by: Vec<Option<usize>> = vec![None; found.len()];
    for e in 0..expected.len() {
        let mut seen = vec![false; found.len()];
        find_place(e, expected, found, &mut taken_by, &mut seen);
    }
    let mut rows: Vec<Row> = Vec::new();
    let (taken, free): (Vec<_>, Vec<_>) = found.iter().zip(&taken_by).partition(|(_, by)| by.is_some());
    rows.extend(taken.iter().map(|(event, _)| Row::Same(line(event))));
    let alone = |e: &usize| !taken_by.contains(&Some(*e));
    let mut missing: Vec<&Expected> = (0..expected.len()).filter(alone).map(|e| &expected[e]).collect();
    let mut surplus: Vec<&Event> = free.into_iter().map(|(event, _)| event).collect();
    flush(&mut rows, &mut missing, &mut surplus);
    rows
}

/// Gives an expectation an event, moving others to another one of theirs if need be.
fn find_place(
    e: usize,
    expected: &[Expected],
    found: &[Event],
    taken_by: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for f in 0..found.len() {
        if seen[f] || !expected[e].matches(&found[f]) {
            continue;
        }
        seen[f] = true;
        let free = taken_by[f].is_none_or(|other| find_place(other, expected, found, taken_by, seen));
        if free {
            taken_by[f] = Some(e);
            return true;
        }
    }
    false
}

/// An event in a line: `topic "orders", type "order.placed", key "order-1", body {"total":12}`.
fn line(event: &Event) -> String {
    let mut said = vec![format!("topic {:?}", event.topic)];
    let named = [("type", &event.event_type), ("key", &event.key)];
    said.extend(named.into_iter().filter_map(|(name, text)| Some(format!("{name} {:?}", text.as_ref()?))));
    said.extend(event.headers.iter().map(|(name, value)| format!("header {name} {value:?}")));
    said.push(format!("body {}", body(event)));
    said.join(", ")
}

/// Longer bodies are cut: a difference is read by a person.
const LONGEST: usize = 300;

pub(crate) fn body(event: &Event) -> String {
    bytes(&event.payload)
}

pub(crate) fn bytes(payload: &[u8]) -> String {
    let text = match std::str::from_utf8(payload) {
        Ok(text) => text.escape_debug().to_string().replace("\\\"", "\""),
        Err(_) => format!("0x{}", payload.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    };
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], payload.len()),
        None => text,
    }
}
