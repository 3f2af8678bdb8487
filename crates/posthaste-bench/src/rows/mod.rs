//! The figures, one file for each question.

mod drain;
mod held;
mod backlog;
mod counts;
mod enqueue;
mod together;
mod latency;
mod sqlite;
mod idle;
pub(crate) mod brokers;

use std::future::Future;
use std::pin::Pin;

use crate::bench::Bench;
use crate::measure::{Figure, Result};

type Running<'b> = Pin<Box<dyn Future<Output = Result<Vec<Figure>>> + 'b>>;

/// A row of the bench: its name, and how it is measured.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: for<'b> fn(&'b Bench) -> Running<'b>,
}

/// In the order in which they run.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "counts",
        about: "WAL, dead rows, statements and pages per event",
        run: |b| Box::pin(counts::counts(b)),
    },
    Row { name: "drain", about: "how fast a backlog is gone", run: |b| Box::pin(drain::drain(b)) },
    Row {
        name: "held",
        about: "the same while somebody holds a snapshot or a transaction",
        run: |b| Box::pin(held::held(b)),
    },
    Row {
        name: "enqueue",
        about: "single-row transactions on 8 connections",
        run: |b| Box::pin(enqueue::single(b)),
    },
    Row { name: "bulk", about: "a thousand events per call", run: |b| Box::pin(enqueue::bulk(b)) },
    Row {
        name: "together",
        about: "what a worker that keeps up costs the producers",
        run: |b| Box::pin(together::together(b)),
    },
    Row {
        name: "latency",
        about: "from commit to handler at 200 events a second",
        run: |b| Box::pin(latency::latency(b)),
    },
    Row { name: "sqlite", about: "the embedded default", run: |b| Box::pin(sqlite::sqlite(b)) },
    Row {
        name: "brokers",
        about: "what is left of a broker's client",
        run: |b| Box::pin(brokers::brokers(b)),
    },
    Row { name: "idle", about: "a relay with nothing to do", run: |b| Box::pin(idle::idle(b)) },
    Row {
        name: "backlog",
        about: "ten million waiting events, and the memory they cost",
        run: |b| Box::pin(backlog::backlog(b)),
    },
];

/// What they are called.
pub(crate) fn names() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).collect()
}
