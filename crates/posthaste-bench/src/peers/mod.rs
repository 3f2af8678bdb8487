//! What people would use instead.

pub(crate) mod hand;
pub(crate) mod pgq;
pub(crate) mod program;
