//! The commands, one file or folder each.

pub(crate) mod check;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod migrate;
pub(crate) mod relay;
pub(crate) mod version;
