//! How the operator's commands speak: tables and sentences for people, JSON for scripts, questions before big things.
//!
//! Data goes to stdout, everything else to stderr. Text that came from events is never trusted: control characters in
//! it are shown, not obeyed.

pub(crate) mod ask;
pub(crate) mod names;
pub(crate) mod out;
pub(crate) mod paint;
pub(crate) mod payload;
pub(crate) mod shape;
pub(crate) mod table;
pub(crate) mod time;
