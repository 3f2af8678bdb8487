//! The figures, one function each.

mod drain;

use std::future::Future;
use std::pin::Pin;

use crate::bench::Bench;
use crate::measure::{Figure, Result};

type Running<'b> = Pin<Box<dyn Future<Output = Result<Vec<Figure>>> + 'b>>;

/// A row of the bench: its name, and how it is measured.
pub(crate) struct RowOf {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: for<'b> fn(&'b Bench) -> Running<'b>,
}

/// In the order in which they run.
pub(crate) const ROWS: &[RowOf] = &[RowOf {
    name: "drain",
    about: "how fast a backlog is gone",
    run: |bench| Box::pin(async { Ok(vec![drain::drain(bench).await?]) }),
}];
