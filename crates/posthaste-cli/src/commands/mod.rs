//! The commands, one folder each.

pub(crate) mod dev;
