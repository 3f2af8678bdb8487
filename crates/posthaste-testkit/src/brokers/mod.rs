//! Servers for sinks, as tests start them.

pub mod kafka;
