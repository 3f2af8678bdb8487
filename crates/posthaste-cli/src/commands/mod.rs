//! The commands, one folder each.

pub(crate) mod dev;

// The operator's: each speaks to `Admin`, and to nothing else.
mod completions;
mod dead;
mod events;
mod keys;
mod replay;
mod retain;
mod status;
mod subscriptions;
mod why;
pub(crate) mod operate;
